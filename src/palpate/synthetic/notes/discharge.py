"""Discharge summaries: sections, lists, labs and the hospital course, in the style of MIMIC-III or MIMIC-IV."""

from __future__ import annotations

from collections.abc import Sequence

from palpate.synthetic.dice import Dice
from palpate.synthetic.notes import Draft, grammar, phrases
from palpate.synthetic.notes.voice import BLANK, Style, Voice
from palpate.synthetic.patients import Stay, SyntheticPatient
from palpate.synthetic.patients.labs import panel_line, vitals
from palpate.synthetic.plants import Site

_EXAM = ("general", "heent", "neck", "lungs", "heart", "abdomen", "limbs", "skin", "neuro")
_DOSES = (0.5, 1, 2, 2.5, 4, 5, 6.25, 7.5, 10, 12.5, 15, 20, 25, 30, 40, 50, 60, 75, 80, 81, 88, 100, 112, 125, 150,
          160, 200, 240, 250, 300, 325, 400, 500, 600, 650, 750, 800, 1000)  # fmt: skip
_COUNTS = ("Half", "One (1)", "Two (2)", "One (1)", "1", "2", "One (1)", "Three (3)")
TITLES_B = {
    "History of Present Illness:": "HISTORY OF PRESENT ILLNESS:",
    "Past Medical History:": "PAST MEDICAL HISTORY:",
    "Brief Hospital Course:": "HOSPITAL COURSE BY PROBLEM:",
    "Physical Exam:": "PHYSICAL EXAMINATION:",
    "Medications on Admission:": "HOME MEDICATIONS:",
    "Social History:": "SOCIAL HISTORY:",
    "Family History:": "FAMILY HISTORY:",
}


class DischargeSummary:
    """Writes one discharge summary, section by section."""

    def __init__(self, patient: SyntheticPatient, stay: Stay, dice: Dice, *, style: Style, site: Site) -> None:
        self.patient, self.stay, self.dice, self.style, self.site = patient, stay, dice, style, site
        self.voice = Voice(patient, stay, dice, style=style)
        self.draft = Draft(dice)
        self.home = self._medicines(acute=False)

    def write(self) -> Draft:
        """The whole note."""
        self._header()
        self._present_illness()
        self._past()
        self._social_and_family()
        self._exam("Physical Exam:", progress=0.0)
        self._results()
        self._course()
        self._medication_lists()
        self._ending()
        return self.draft

    def _heading(self, title: str) -> None:
        self.draft.heading(TITLES_B.get(title, title) if self.site == "b" else title)

    def _one(self, key: str) -> str:
        return grammar().one(key, self.dice, self.voice.context)

    def _word(self, slot: str) -> str:
        return grammar().fill(slot, self.dice, {})

    def _some(self, key: str, low: int, high: int) -> list[str]:
        return grammar().some(key, self.dice.integer(low, high), self.dice, self.voice.context)

    def _header(self) -> None:
        admit, out = self.voice.date(self.stay.admit), self.voice.date(self.stay.discharge)
        service, sex = (
            self.dice.pick(("MEDICINE", "MEDICINE", self._word("{service}"))),
            self.patient.gender,
        )
        if self.style == "iii":
            birth = self.voice.date(self.patient.birth)
            self.draft.add(f"Admission Date:  {admit}              Discharge Date:   {out}\n\n")
            self.draft.add(f"Date of Birth:  {birth}             Sex:   {sex}\n\nService: {service}\n\n")
        else:
            self.draft.add(f" \nName:  {BLANK}                     Unit No:   {BLANK}\n \n")
            self.draft.add(f"Admission Date:  {BLANK}              Discharge Date:   {BLANK}\n \n")
            self.draft.add(f"Date of Birth:  {BLANK}             Sex:   {sex}\n \nService: {service}\n \n")
        self.draft.add("Allergies:\n" + self._allergies())
        doctor = (
            f"{self.voice.first_name(self.dice)} {self.voice.last_name(self.dice)}" if self.style == "iii" else BLANK
        )
        self.draft.add(f"\n\nAttending: {doctor}.")
        self._heading("Chief Complaint:")
        self.draft.add(str(self.voice.context["complaint"]))
        self._heading("Major Surgical or Invasive Procedure:")
        self.draft.add("None" if self.dice.chance(0.5) else self._one("surgical"))

    def _allergies(self) -> str:
        if self.dice.chance(0.45):
            return self._one("no_allergy")
        return " / ".join(self._word("{allergen}").capitalize() for _ in range(self.dice.integer(1, 4)))

    def _present_illness(self) -> None:
        self._heading("History of Present Illness:")
        stay, draft = self.stay, self.draft
        draft.say(self._one("hpi_open"))
        for condition in stay.conditions[:5]:
            if condition.symptoms and self.dice.chance(0.75):
                context = self.voice.context
                context["name"] = grammar().fill(self.dice.pick(condition.names), self.dice, context)
                context["sign"] = grammar().fill(self.dice.pick(condition.symptoms), self.dice, context)
                draft.say(
                    self._one("symptom_acute" if condition.acute else "symptom_chronic"), condition=condition.name
                )
        for sentence in self._some("hpi_story", 3, 6):
            draft.say(sentence)
        draft.say(self._one("hpi_ed"))
        draft.say(self._one("hpi_ward"))
        draft.add("\n")
        for sentence in self._some("denies", 1, 3):
            draft.say(sentence)

    def _past(self) -> None:
        self._heading("Past Medical History:")
        mark = self.dice.pick(("- ", "{}. ", "# ", "* ", "{}) "))
        chronic = [condition for condition in self.stay.conditions if not condition.acute]
        number = 0
        for number, condition in enumerate(self.dice.sample(chronic, len(chronic)), start=1):
            name = grammar().fill(self.dice.pick(condition.names), self.dice, self.voice.context)
            detail = self.dice.pick(
                (
                    "",
                    "",
                    f", on {self.dice.pick(condition.drugs)}" if condition.drugs else "",
                    f", dx {self.voice.year(self.stay.admit.year - self.dice.integer(1, 25))}",
                )
            )
            self.draft.add(f"{mark.format(number)}[[{name}]]{detail}\n", condition=condition.name)
        extra = self._some("surgical", 1, 4)
        if self.dice.chance(0.15):
            extra.append(self._one(f"surgical_{self.patient.gender}"))
        self.draft.lines(mark.format(number + k) + line for k, line in enumerate(extra, start=1))

    def _social_and_family(self) -> None:
        self._heading("Social History:")
        if self.style == "iv" and self.dice.chance(0.5):
            self.draft.add(BLANK)
        else:
            for sentence in (self._one("social"), *self._some("habits", 1, 2)):
                self.draft.say(sentence)
        self._heading("Family History:")
        taken: set[str] = set()
        for phrase in self.dice.sample(phrases()["family"], self.dice.integer(1, 4)):
            name, context = self.voice.relative(phrase, taken, self.dice)
            taken.add(name)
            self.draft.say(grammar().fill(phrase, self.dice, context))

    def _exam(self, title: str, *, progress: float) -> None:
        self._heading(title)
        self.draft.add(f"VS: {vitals(self.stay, self.dice, progress=progress)}\n")
        self.draft.lines(self._one(f"exam_{part}") for part in _EXAM if self.dice.chance(0.9))

    def _results(self) -> None:
        self._heading("Pertinent Results:")
        days = self.dice.integer(2, 4)
        for day in range(days):
            when = self.voice.any_date(self.dice)
            clock = f"{self.dice.integer(1, 12):02d}:{self.dice.integer(0, 59):02d}{self.dice.pick(('AM', 'PM'))}"
            for panel in ("CBC", "CHEM", self.dice.pick(("LIVER", "OTHER"))):
                line = panel_line(panel, self.stay, self.dice, progress=day / days)
                self.draft.add(f"{when} {clock} BLOOD {line}\n")
        self.draft.lines(self._some("micro", 1, 3))
        for report in self._some("report", 1, 3):
            self.draft.add("\n")
            self.draft.say(report)

    def _course(self) -> None:
        self._heading("Brief Hospital Course:")
        self.draft.say(self._one("course_open" if self.dice.chance(0.3) else "course_open_plain"))
        mark = self.dice.pick(("# ", "{}. ", "#{} ", "", "{}) "))
        context = self.voice.context
        plain_drug = context["drug"]
        for number, condition in enumerate(self.stay.conditions[:9], start=1):
            context["name"] = grammar().fill(self.dice.pick(condition.names), self.dice, context)
            if condition.drugs:
                context["drug"] = self.dice.pick(condition.drugs)
            sentence = grammar().fill(self.dice.pick(condition.course), self.dice, context)
            context["drug"] = plain_drug
            self.draft.add("\n" + mark.format(number))
            self.draft.say(sentence, condition=condition.name)
            for more in self._some("course_more", 0, 2):
                self.draft.say(more)
        for sentence in self._some("course_more", 4, 8):
            self.draft.say(sentence)
        if self.stay.died:
            self.draft.say(self._one("death"))
            return
        self.draft.add("\n")
        self.draft.say(self._one("housekeeping"))
        if self.dice.chance(0.5):
            self.draft.heading("TRANSITIONAL ISSUES:")
            self.draft.lines(self._some("transition", 1, 4))

    def _medicines(self, *, acute: bool) -> list[str]:
        drugs = [self.dice.pick(c.drugs) for c in self.stay.conditions if c.drugs and (acute or not c.acute)]
        more = [self._word("{otherdrug}") for _ in range(self.dice.integer(2, 6))]
        return list(dict.fromkeys(drugs + more))

    def _medicine(self, number: int, drug: str) -> str:
        dose = self.dice.pick(_DOSES)
        form = self.dice.pick(("Tablet", "Tablet", "Tablet", "Capsule", self._word("{form}")))
        often = self._word("{freq}")
        route = "PO" if self.dice.chance(0.75) else self._word("{route}")
        if self.style == "iv" or self.dice.chance(0.25):
            return f"{number}. {drug.title()} {dose:g} mg {route} {often.upper()}"
        end = f" as needed for {self._word('{reason}')}" if self.dice.chance(0.2) else ""
        supply = self._one("supply") if self.dice.chance(0.3) else ""
        sig = f"{self.dice.pick(_COUNTS)} {form} {route} {often}{end}."
        return f"{number}. {drug.capitalize()} {dose:g} mg {form} Sig: {sig}{supply}"

    def _medication_lists(self) -> None:
        self._heading("Medications on Admission:")
        if self.style == "iv":
            self.draft.add("The Preadmission Medication list is accurate and complete.\n")
        if self.dice.chance(0.5):
            self.draft.add(
                ", ".join(f"{drug} {self.dice.pick(_DOSES):g} mg {self._word('{freq}')}" for drug in self.home)
            )
        else:
            self.draft.lines(self._medicine(k, drug) for k, drug in enumerate(self.home, start=1))
        if self.stay.died:
            return
        self._heading("Discharge Medications:")
        kept: Sequence[str] = [drug for drug in self.home if self.dice.chance(0.9)]
        drugs = list(dict.fromkeys([*kept, *self._medicines(acute=True)]))
        self.draft.lines(self._medicine(k, drug) for k, drug in enumerate(drugs, start=1))

    def _ending(self) -> None:
        self._heading("Discharge Disposition:")
        self.draft.add(
            "Expired" if self.stay.died else self.dice.pick(("Home", "Home With Service", "Extended Care", "Home"))
        )
        if self.style == "iii" and not self.stay.died and self.dice.chance(0.4):
            self.draft.add("\n\nFacility:\n" + self.voice.hospital(self.dice))
        self._heading("Discharge Diagnosis:")
        for condition in self.stay.conditions[:6]:
            name = grammar().fill(self.dice.pick(condition.names), self.dice, self.voice.context)
            self.draft.add(f"[[{name}]]\n", condition=condition.name)
        self._heading("Discharge Condition:")
        self.draft.say("Expired." if self.stay.died else self._one("condition_alive"))
        if self.stay.died:
            return
        if self.dice.chance(0.3):
            self._exam("DISCHARGE EXAM:", progress=1.0)
        self._heading("Discharge Instructions:")
        self.draft.say(f"Dear {self.voice.context['Title']} {self.voice.last_name(self.dice)},\n")
        for sentence in self._some("instructions", 3, 6):
            self.draft.say(sentence)
        self._heading("Followup Instructions:")
        self.draft.lines(self._some("followup", 1, 3))
