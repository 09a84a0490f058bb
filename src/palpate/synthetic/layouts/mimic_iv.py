"""The MIMIC-IV layout: patients, admissions, codes of both versions, notes with `___` in place of removed text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.layouts import LatentTable, Tables
from palpate.synthetic.layouts.mimic_cxr import MimicCXR
from palpate.synthetic.layouts.mimic_iii import discharge_location, plain, when
from palpate.synthetic.layouts.standards import RecordedPatient, RecordedStay, StandardWriter
from palpate.synthetic.notes.discharge import DischargeSummary
from palpate.synthetic.patients import Stay, SyntheticPatient, population
from palpate.synthetic.patients.conditions import conditions
from palpate.synthetic.plants import SITES, Site

_TABLES = ("hosp/patients", "hosp/admissions", "hosp/diagnoses_icd", "hosp/d_icd_diagnoses", "note/discharge")
_LETTERS = "ABCDEFGHJK"
_FIRST_SUBJECT = 10_000_001
_FIRST_HADM = 20_000_001
_GROUPS = ("2008 - 2010", "2011 - 2013", "2014 - 2016", "2017 - 2019")
_LANGUAGES = {"ENGL": "English", "SPAN": "Spanish", "RUSS": "Russian", "PTUN": "Portuguese", "CANT": "Chinese"}
_INSURANCE = {"Government": "Other", "Self Pay": "No charge"}


class MimicIV:
    """Writes the tables, patient by patient, with their chest X-rays."""

    def __init__(
        self,
        tables: Tables,
        cxr: MimicCXR,
        latent: LatentTable,
        *,
        seed: int,
        site: Site,
        standards: Sequence[StandardWriter] = (),
    ) -> None:
        self._standards = standards
        self._tables, self._cxr, self._latent, self._seed, self._site = tables, cxr, latent, seed, site
        self._next_hadm = _FIRST_HADM
        for name in _TABLES:
            tables.open(f"mimic-iv/{name}")
        titles = {(plain(c.icd9), 9): c.title9 for c in conditions()} | {
            (plain(c.icd10), 10): c.title10 for c in conditions()
        }
        for (code, version), title in sorted(titles.items(), key=lambda row: (row[0][1], row[0][0])):
            self._add("hosp/d_icd_diagnoses", code, version, title)

    def _add(self, name: str, *row: object) -> None:
        self._tables.add(f"mimic-iv/{name}", row)

    def add(self, patient: SyntheticPatient) -> None:
        """Write all rows of a patient."""
        dice = Dice(stream(self._seed, SITES[self._site], 1, patient.number, 1))
        subject = _FIRST_SUBJECT + patient.number
        anchor = patient.stays[dice.integer(0, len(patient.stays) - 1)]
        age = int(anchor.age)
        last = patient.stays[-1]
        dod = last.discharge.strftime("%Y-%m-%d") if last.died else ""
        group = dice.integer(0, 3)
        self._add(
            "hosp/patients", subject, patient.gender, 91 if age > 89 else age, anchor.admit.year, _GROUPS[group], dod
        )
        race = dice.weighted(population()["recorded_iv"][patient.ethnicity])
        hadms = []
        recorded = RecordedPatient(subject, patient.gender, race, patient.birth)
        for stay in patient.stays:
            hadm = self._next_hadm
            self._next_hadm += 1
            hadms.append(hadm)
            self._admission(patient, stay, subject, hadm, race, dice)
            self._latent.add("iv", patient, stay, subject, hadm)
            version = 9 if group + (stay.admit - anchor.admit).days / 1095 < 2 else 10
            for k, condition in enumerate(stay.conditions, start=1):
                code = plain(condition.icd9 if version == 9 else condition.icd10)
                self._add("hosp/diagnoses_icd", subject, hadm, k, code, version)
            text = DischargeSummary(patient, stay, dice, style="iv", site=self._site).write().text()
            stored = stay.discharge + timedelta(minutes=dice.integer(30, 4000))
            day = stay.discharge.replace(hour=0, minute=0)
            number = stay.index + 2
            self._add(
                "note/discharge", f"{subject}-DS-{number}", subject, hadm, "DS", number, when(day), when(stored), text
            )
            kept = (stay.admit, stay.discharge, stay.kind, stay.died, tuple(stay.conditions), text)
            recorded.stays.append(RecordedStay(hadm, *kept))
        self._cxr.add(patient, subject, hadms)
        for writer in self._standards:
            writer.add(recorded)

    def _admission(self, patient: SyntheticPatient, stay: Stay, subject: int, hadm: int, race: str, dice: Dice) -> None:
        emergency = stay.kind == "EMERGENCY"
        arrived = stay.admit - timedelta(minutes=dice.integer(60, 900)) if emergency else None
        left = stay.admit + timedelta(minutes=dice.integer(5, 180)) if emergency else None
        kind = dice.pick(_KINDS[stay.kind])
        came = "PHYSICIAN REFERRAL" if stay.kind == "ELECTIVE" else dice.weighted(population()["came_iv"])
        went = "DIED" if stay.died else discharge_location(stay, dice, source="iv")
        provider = f"P{dice.integer(0, 99):02d}{dice.pick(_LETTERS)}{dice.integer(0, 9)}{dice.pick(_LETTERS)}"
        died = when(stay.discharge if stay.died else None)
        self._add(
            "hosp/admissions", subject, hadm, when(stay.admit), when(stay.discharge), died, kind, provider, came, went,
            _INSURANCE.get(patient.insurance, patient.insurance), _LANGUAGES.get(patient.language, ""), patient.marital,
            race, when(arrived), when(left), int(stay.died),
        )  # fmt: skip


_KINDS = {
    "EMERGENCY": ("EW EMER.", "EW EMER.", "DIRECT EMER.", "OBSERVATION ADMIT"),
    "URGENT": ("URGENT",),
    "ELECTIVE": ("ELECTIVE", "SURGICAL SAME DAY ADMISSION"),
    "NEWBORN": ("URGENT",),
}
