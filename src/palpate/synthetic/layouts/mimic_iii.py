"""The MIMIC-III layout: patients, admissions, notes, codes; and MDACE-style evidence for some of the charts."""

from __future__ import annotations

from datetime import datetime, timedelta

from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.layouts import LatentTable, Tables
from palpate.synthetic.layouts.mdace import EvidenceWriter, StoredNote, procedures, procedures_in
from palpate.synthetic.notes import ConditionSpan
from palpate.synthetic.notes.discharge import DischargeSummary
from palpate.synthetic.notes.voice import Voice
from palpate.synthetic.notes.wardnotes import WardNote, addendum, newborn_summary, ward_notes
from palpate.synthetic.patients import Stay, SyntheticPatient, population
from palpate.synthetic.patients.conditions import conditions
from palpate.synthetic.plants import SITES, Site

_FOLDER = "mimic-iii/"
_TABLES = (
    "PATIENTS",
    "ADMISSIONS",
    "NOTEEVENTS",
    "DIAGNOSES_ICD",
    "PROCEDURES_ICD",
    "D_ICD_DIAGNOSES",
    "D_ICD_PROCEDURES",
)
_FIRST_SUBJECT = 3
_FIRST_HADM = 100_001
_ADDENDA = 0.06
_NEWBORN_CODE = ("V30.00", "Single liveborn, born in hospital, delivered without mention of cesarean section")


def when(time: datetime | None) -> str:
    """MIMIC's time format."""
    return "" if time is None else time.strftime("%Y-%m-%d %H:%M:%S")


def plain(code: str) -> str:
    """An ICD code without its dot, as MIMIC has it."""
    return code.replace(".", "")


class MimicIII:
    """Writes the tables, patient by patient."""

    def __init__(self, tables: Tables, evidence: EvidenceWriter, latent: LatentTable, *, seed: int, site: Site) -> None:
        self._tables, self._evidence, self._latent = tables, evidence, latent
        self._seed, self._site = seed, site
        self._next_hadm = _FIRST_HADM
        for name in _TABLES:
            tables.open(_FOLDER + name)
        self._dictionaries()

    def _add(self, name: str, *row: object) -> int:
        return self._tables.add(_FOLDER + name, [self._tables.next_row(_FOLDER + name), *row])

    def _dictionaries(self) -> None:
        rows = {condition.icd9: condition.title9 for condition in conditions()} | {_NEWBORN_CODE[0]: _NEWBORN_CODE[1]}
        for code, title in sorted(rows.items()):
            self._add("D_ICD_DIAGNOSES", plain(code), title[:24], title)
        for row in sorted(procedures().values(), key=lambda row: row.icd9):
            self._add("D_ICD_PROCEDURES", plain(row.icd9), row.title9[:24], row.title9)

    def add(self, patient: SyntheticPatient) -> None:
        """Write all rows of a patient."""
        dice = Dice(stream(self._seed, SITES[self._site], 0, patient.number, 1))
        subject = _FIRST_SUBJECT + patient.number
        last = patient.stays[-1]
        birth = patient.birth
        if patient.age >= 90:  # the real files move the birth of patients over 89 to 300 years back
            birth = _years_before(patient.first, 300)
        died = last.discharge if last.died else None
        later = None
        if died is None and not patient.newborn and dice.chance(0.2):
            later = last.discharge + timedelta(days=dice.integer(40, 1500))
        dead = died or later
        day = when(dead.replace(hour=0, minute=0)) if dead else ""
        hospital_day = day if died else ""
        self._add(
            "PATIENTS",
            subject,
            patient.gender,
            when(birth.replace(hour=0, minute=0)),
            day,
            hospital_day,
            "" if died else day,
            int(dead is not None),
        )
        ethnicity = dice.weighted(population()["recorded_iii"][patient.ethnicity])
        for stay in patient.stays:
            hadm = self._next_hadm
            self._next_hadm += 1
            self._admission(patient, stay, subject, hadm, ethnicity, dice)
            self._latent.add("iii", patient, stay, subject, hadm)
            self._notes_and_codes(patient, stay, subject, hadm, dice)

    def _admission(
        self, patient: SyntheticPatient, stay: Stay, subject: int, hadm: int, ethnicity: str, dice: Dice
    ) -> None:
        emergency = stay.kind == "EMERGENCY" and not stay.transferred_in
        arrived = stay.admit - timedelta(minutes=dice.integer(90, 600)) if emergency else None
        left = stay.admit + timedelta(minutes=dice.integer(5, 120)) if emergency else None
        reason = stay.conditions[0].names[0].upper() if stay.conditions else "NEWBORN"
        left_to = "HOME" if patient.newborn else discharge_location(stay, dice, source="iii")
        went = "DEAD/EXPIRED" if stay.died else left_to
        died = when(stay.discharge if stay.died else None)
        self._add(
            "ADMISSIONS", subject, hadm, when(stay.admit), when(stay.discharge), died, stay.kind,
            admission_location(stay, dice), went, patient.insurance, patient.language, patient.religion,
            patient.marital, ethnicity, when(arrived), when(left), reason, int(stay.died), int(dice.chance(0.98)),
        )  # fmt: skip

    def _notes_and_codes(self, patient: SyntheticPatient, stay: Stay, subject: int, hadm: int, dice: Dice) -> None:
        if patient.newborn:
            draft = newborn_summary(patient, stay, dice, style="iii")
            self._note(subject, hadm, _summary(stay, draft.text(), []), dice)
            self._add("DIAGNOSES_ICD", subject, hadm, 1, plain(_NEWBORN_CODE[0]))
            return
        writer = DischargeSummary(patient, stay, dice, style="iii", site=self._site)
        draft = writer.write()
        text = draft.text()
        notes = [_summary(stay, text, draft.spans), *self._additions(writer.voice, stay, dice)]
        notes += ward_notes(writer.voice, dice)
        done = procedures_in(text, stay)
        for k, condition in enumerate(stay.conditions, start=1):
            self._add("DIAGNOSES_ICD", subject, hadm, k, plain(condition.icd9))
        for k, procedure in enumerate(done, start=1):
            self._add("PROCEDURES_ICD", subject, hadm, k, plain(procedure.icd9))
        written = [
            StoredNote(self._note(subject, hadm, note, dice), note.category, note.description, note.text, note.spans)
            for note in notes
        ]
        self._evidence.add(patient.number, hadm, written, done)

    def _additions(self, voice: Voice, stay: Stay, dice: Dice) -> list[WardNote]:
        if not dice.chance(_ADDENDA):
            return []
        draft = addendum(voice, dice)
        return [WardNote("Discharge summary", "Addendum", stay.discharge, None, draft.text(), [])]

    def _note(self, subject: int, hadm: int, note: WardNote, dice: Dice) -> int:
        stored = note.time + timedelta(minutes=dice.integer(1, 90)) if note.time else None
        outpatient = note.category == "Radiology" and dice.chance(0.01)
        author = "" if note.category in ("Discharge summary", "Radiology") else dice.integer(14_000, 21_500)
        return self._add(
            "NOTEEVENTS", subject, "" if outpatient else hadm, note.day.strftime("%Y-%m-%d"), when(note.time),
            "" if note.category == "Radiology" else when(stored), note.category, note.description, author,
            1 if note.error else "", note.text,
        )  # fmt: skip


def _summary(stay: Stay, text: str, spans: list[ConditionSpan]) -> WardNote:
    return WardNote("Discharge summary", "Report", stay.discharge, None, text, spans)


def _years_before(time: datetime, years: int) -> datetime:
    day = 28 if (time.month, time.day) == (2, 29) else time.day
    return time.replace(year=time.year - years, day=day)


def admission_location(stay: Stay, dice: Dice) -> str:
    """Where the patient came from."""
    if stay.kind == "ELECTIVE":
        return "PHYS REFERRAL/NORMAL DELI"
    if stay.transferred_in:
        return "TRANSFER FROM HOSP/EXTRAM"
    came: dict[str, float] = population()["came_iii"]
    return dice.weighted(came)


def discharge_location(stay: Stay, dice: Dice, *, source: str) -> str:
    """Where a patient was discharged to: the sicker, the less often home."""
    people = population()
    factor = max(0.2, 1.0 + 0.5 * stay.severity)
    weights: dict[str, float] = people[f"went_{source}"]
    return dice.weighted(
        {place: weight * (factor if place in people["frail"] else 1.0) for place, weight in weights.items()}
    )
