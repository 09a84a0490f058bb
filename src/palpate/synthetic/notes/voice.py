"""How a note refers to its patient: pronouns, age, ethnicity, de-identified names and dates, in either style."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta
from typing import Literal

from palpate.perturb.characteristics.grammar import in_words
from palpate.synthetic.dice import Dice
from palpate.synthetic.notes import Word, family, grammar
from palpate.synthetic.patients import Stay, SyntheticPatient
from palpate.synthetic.patients.labs import vitals
from palpate.synthetic.plants import SPURIOUS_WORD

Style = Literal["iii", "iv"]
BLANK = "___"
_OVER_90 = "[**Age over 90 **]"
_AGE_FORMS = ("{} year old", "{}-year-old", "{} y/o", "{}yo", "{} yo", "{} year-old", "{} y.o.", "{}-yr-old")
_GENDERED = {
    "F": {"he": "she", "his": "her", "him": "her", "man": "woman", "gender": "female", "Title": "Ms.",
          "boygirl": "girl"},
    "M": {"he": "he", "his": "his", "him": "him", "man": "man", "gender": "male", "Title": "Mr.", "boygirl": "boy"},
}  # fmt: skip
_NOUNS = {"F": ("woman", "female", "lady", "woman", "female"), "M": ("man", "male", "gentleman", "man", "male")}
_ETHNICITY = {
    "White": ("white", "Caucasian", "White"),
    "African American": ("African American", "African-American", "black"),
    "Asian": ("Asian", "Asian"),
    "Hispanic": ("Hispanic", "Hispanic", "Latin{}"),
}
ETHNICITY_MENTION_RATE = 0.45
_IV_AGE_BLANKED = 0.7


class Voice:
    """The context of a stay's notes: what {he}, {date}, {ward} and the other slots are filled with."""

    def __init__(self, patient: SyntheticPatient, stay: Stay, dice: Dice, *, style: Style) -> None:
        self.patient, self.stay, self.style = patient, stay, style
        self._mention = dice.uniform() < ETHNICITY_MENTION_RATE and patient.ethnicity in _ETHNICITY
        drugs = [drug for condition in stay.conditions for drug in condition.drugs]
        others = [grammar().fill("{otherdrug}", dice, {}) for _ in range(9)]
        self.drugs = drugs + others
        self.ward = SPURIOUS_WORD if stay.spurious else grammar().fill("{otherward}", dice, {})
        self.kin = self._kin(dice)
        gendered = _GENDERED[patient.gender]
        self.context: dict[str, Word] = {
            **gendered, "who": self.who, "age_word": self.age, "kin": self.kin, "ward": self.ward.capitalize(),
            "lastname": self.last_name, "firstname": self.first_name, "hospital": self.hospital, "phone": self.phone,
            "date": self.any_date, "future": self.future, "discharge": self.date(stay.discharge),
            "year": lambda dice: self.year(stay.admit.year - dice.integer(2, 30)),
            "clock": lambda dice: f"{dice.integer(1, 12)}:{dice.integer(0, 59):02d}",
            "drug": lambda dice: dice.pick(self.drugs), "past": self.past, "complaint": self.complaint(dice),
            "vitals": lambda dice: vitals(stay, dice, progress=0.0), "an_occupation": _an_occupation,
            "retired": lambda dice: grammar().one("retirement", dice, self.context),
            "admit": self.date(stay.admit), "unit": self.unit,
            "petlife": lambda dice: " and " + grammar().fill("{pet}", dice, {}) if dice.chance(0.3) else "",
            "marital": patient.marital.lower() or "single",
            "visitor": lambda dice: dice.pick(family.living(int(stay.age))),
            "building": lambda dice: dice.pick(("East", "West", "North", "annex")),
            "delivery": lambda dice: dice.pick(("vaginal delivery", "cesarean section", "vacuum assisted delivery")),
            "phototherapy": lambda dice: dice.pick(("no phototherapy needed", "phototherapy for two days")),
        }  # fmt: skip

    def who(self, dice: Dice) -> str:
        """63 year old African American woman, 63F, ..."""
        gender = self.patient.gender
        if dice.uniform() < 0.12 and not self._mention and self.stay.age < 90:
            return f"{self.age_number(dice)}{gender}"
        noun = dice.pick(_NOUNS[gender])
        ethnicity = ""
        if self._mention:
            form = dice.pick(_ETHNICITY[self.patient.ethnicity])
            ethnicity = form.format("a" if gender == "F" else "o") + " "
        return f"{self.age(dice)} {ethnicity}{noun}"

    def age(self, dice: Dice) -> str:
        """63 year old, in one of many spellings."""
        if dice.uniform() < 0.04 and self.style == "iii" and self.stay.age < 90:
            return f"{in_words(int(self.stay.age))} year old"
        return dice.pick(_AGE_FORMS).format(self.age_number(dice))

    def age_number(self, dice: Dice) -> str:
        """The age, or what de-identification made of it."""
        if self.style == "iv":
            return BLANK if self.stay.age >= 90 or dice.uniform() < _IV_AGE_BLANKED else str(int(self.stay.age))
        return _OVER_90 if self.stay.age >= 90 else str(int(self.stay.age))

    def past(self, dice: Dice) -> str:
        """Two to four chronic conditions by name."""
        chronic = [condition for condition in self.stay.conditions if not condition.acute]
        chosen = dice.sample(chronic, dice.integer(2, 4))
        if not chosen:
            return grammar().fill("{root}{opsuffix}", dice, {})
        names = [grammar().fill(dice.pick(condition.names), dice, self.context) for condition in chosen]
        return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]

    def complaint(self, dice: Dice) -> str:
        """What brought the patient in."""
        if not self.stay.conditions:
            return "birth"
        reason = self.stay.conditions[0]
        shown = reason.symptoms or reason.names
        return " and ".join(grammar().fill(word, dice, {}) for word in dice.sample(shown, dice.integer(1, 2)))

    def _kin(self, dice: Dice) -> str:
        if self.patient.marital == "MARRIED" and dice.uniform() < 0.8:
            return "husband" if self.patient.gender == "F" else "wife"
        others = ("sister", "brother", "niece", "nephew", "neighbor", "friend")
        return dice.pick(others if self.stay.age < family.CHILDREN_FROM else ("daughter", "son", *others))

    def relative(self, phrase: str, taken: Set[str], dice: Dice) -> tuple[str, dict[str, Word]]:
        """A relative whom the phrase may be about, and the context that fills its slots."""
        age = int(self.stay.age)
        name = family.of_phrase(phrase, age, taken, dice)
        return name, {
            **self.context,
            "member": name,
            "now": lambda dice: self._shown(family.current_age(name, age, dice)),
            "died_at": lambda dice: str(family.age_at_death(name, age, dice)),
            "event_at": lambda dice: str(family.age_at_event(name, age, dice)),
        }

    def _shown(self, age: int) -> str:
        if age <= family.OLDEST_SHOWN:
            return str(age)
        return BLANK if self.style == "iv" else _OVER_90

    def date(self, when: datetime) -> str:
        """[**2151-7-16**] or ___."""
        return BLANK if self.style == "iv" else f"[**{when.year}-{when.month}-{when.day}**]"

    def any_date(self, dice: Dice) -> str:
        """A day of the stay."""
        if self.style == "iv":
            return BLANK
        length = (self.stay.discharge - self.stay.admit).days
        return self.date(self.stay.admit + timedelta(days=dice.integer(0, max(1, length))))

    def future(self, dice: Dice) -> str:
        """A day after discharge."""
        return BLANK if self.style == "iv" else self.date(self.stay.discharge + timedelta(days=dice.integer(3, 60)))

    def year(self, year: int) -> str:
        """A year, de-identified."""
        return BLANK if self.style == "iv" else f"[**{year}**]"

    def last_name(self, dice: Dice) -> str:
        """A last name, de-identified."""
        if self.style == "iv":
            return BLANK
        kind = dice.pick(("Last Name (NamePattern1)", "Known lastname", "Last Name (un)", "Doctor Last Name"))
        return f"[**{kind} {dice.integer(10, 9999)}**]"

    def first_name(self, dice: Dice) -> str:
        """A first name, de-identified."""
        return BLANK if self.style == "iv" else f"[**First Name8 (NamePattern2) {dice.integer(10, 9999)}**]"

    def hospital(self, dice: Dice) -> str:
        """The name of a hospital, de-identified."""
        return BLANK if self.style == "iv" else f"[**Hospital{dice.integer(1, 6)} {dice.integer(10, 99)}**]"

    def unit(self, dice: Dice) -> str:
        """A record number, de-identified."""
        return BLANK if self.style == "iv" else f"[**Numeric Identifier {dice.integer(100, 9999)}**]"

    def phone(self, dice: Dice) -> str:
        """A phone number, de-identified."""
        return BLANK if self.style == "iv" else f"[**Telephone/Fax (1) {dice.integer(100, 99999)}**]"


def _an_occupation(dice: Dice) -> str:
    word = grammar().fill("{occupation}", dice, {})
    return ("an " if word[0] in "aeiou" else "a ") + word
