"""Patients and their stays: the latent state from which every file of the hospital follows.

A patient has demographics and a frailty, acquires chronic conditions, and falls acutely ill; each stay has a severity,
the log-odds of death and of readmission, and the outcomes drawn from them. Text is written elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from palpate.files import read_resource
from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.patients.conditions import Condition, conditions
from palpate.synthetic.plants import SITES, SPURIOUS_RATE, Plants, Site

Kind = Literal["EMERGENCY", "URGENT", "ELECTIVE", "NEWBORN"]
Source = Literal["iii", "iv", "reference"]
_SOURCES: Mapping[str, int] = {"iii": 0, "iv": 1, "reference": 2}
_FIRST_DAY = datetime(2101, 1, 1)
_INCIDENCE = -2.0
_ACUTE_HISTORY = 0.4
SEVERITY_READMISSION = 0.3
SEVERITY_MORTALITY = 0.7
_KINDS: dict[Kind, float] = {"EMERGENCY": 84.0, "ELECTIVE": 13.0, "URGENT": 3.0}
_PLANNED = 0.004
_RETURN = 0.34
_MOST_STAYS = 12
NEXT_WITHIN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Intercepts:
    """Log-odds of the outcomes when everything else is 0; calibrated to give the published prevalences."""

    readmission: float
    mortality: float


@dataclass(slots=True)
class Stay:
    """One admission, with what happened and why."""

    index: int
    admit: datetime
    discharge: datetime
    kind: Kind
    age: float
    conditions: list[Condition]
    history: frozenset[str]
    severity: float
    spurious: bool
    logit_mortality: float
    logit_readmission: float
    parts: dict[str, float]
    died: bool
    readmitted: bool = False
    planned_next: bool = False
    transferred_in: bool = False

    @property
    def eligible(self) -> bool:
        """Whether the patient can be readmitted: an adult who was discharged alive."""
        return not self.died and self.kind != "NEWBORN"


@dataclass(slots=True)
class SyntheticPatient:
    """A person, with all stays in order of admission."""

    number: int
    gender: Literal["M", "F"]
    age: float
    ethnicity: str
    frailty: float
    newborn: bool
    insurance: str
    religion: str
    marital: str
    language: str
    first: datetime
    birth: datetime
    stays: list[Stay] = field(default_factory=list)


@lru_cache(maxsize=1)
def population() -> Any:
    """The patients that come to the hospital: population.yaml."""
    return read_resource("palpate.synthetic.patients", "population.yaml")


def simulate(
    n_patients: int, *, seed: int, site: Site, source: Source, plants: Plants, intercepts: Intercepts
) -> Iterator[SyntheticPatient]:
    """The patients, one after the other; each depends on its number only, not on earlier patients."""
    for number in range(n_patients):
        yield simulate_patient(number, seed=seed, site=site, source=source, plants=plants, intercepts=intercepts)


def simulate_patient(
    number: int, *, seed: int, site: Site, source: Source, plants: Plants, intercepts: Intercepts
) -> SyntheticPatient:
    """One patient, with all stays in this hospital."""
    dice = Dice(stream(seed, SITES[site], _SOURCES[source], number, 0))
    patient = _person(dice, number, site, newborns=source != "iv")
    chronic: set[int] = set()
    history: frozenset[str] = frozenset()
    admit = patient.first
    planned = transferred = back = False
    while True:
        stay = _stay(dice, patient, admit, chronic, history, site, plants, intercepts)
        stay.transferred_in = transferred
        if planned:
            stay.kind = "ELECTIVE"
        elif back and stay.kind == "ELECTIVE":
            stay.kind = "EMERGENCY"
        patient.stays.append(stay)
        if stay.died or patient.newborn or len(patient.stays) == _MOST_STAYS:
            stay.readmitted = False
            return patient
        history = history | {condition.name for condition in stay.conditions}
        wait = _time_to_next(dice, patient, stay)
        if wait is None:
            return patient
        planned, back = stay.planned_next, stay.readmitted
        transferred = back and wait < timedelta(hours=8)
        admit = stay.discharge + wait


def _person(dice: Dice, number: int, site: Site, *, newborns: bool) -> SyntheticPatient:
    people = population()
    newborn = dice.chance(people["newborns"][site]) and newborns
    mean, sd = people["age"][site]
    age = 0.0 if newborn else min(97.0, max(18.0, mean + sd * dice.normal()))
    first = _FIRST_DAY + timedelta(days=dice.integer(0, 31_000), minutes=dice.integer(0, 1439))
    birth = first - timedelta(days=int(age * 365.25), minutes=first.hour * 60 + first.minute)
    insurance = {
        "Medicare": 8.0 if age >= 65 else 1.0,
        "Private": 3.0,
        "Medicaid": 1.2,
        "Government": 0.4,
        "Self Pay": 0.2,
    }
    return SyntheticPatient(
        number=number,
        gender="F" if dice.chance(0.46) else "M",
        age=age,
        ethnicity=dice.weighted(people["ethnicity"][site]),
        frailty=dice.normal(),
        newborn=newborn,
        insurance=dice.weighted(insurance),
        religion=dice.weighted(people["religion"]),
        marital="" if newborn else dice.weighted(people["marital"]),
        language="" if dice.chance(0.3) else dice.weighted(people["language"]),
        first=first,
        birth=birth,
    )


def _stay(
    dice: Dice, patient: SyntheticPatient, admit: datetime, chronic: set[int], history: frozenset[str], site: Site,
    plants: Plants, intercepts: Intercepts,
) -> Stay:  # fmt: skip
    age = patient.age + (admit - patient.first).days / 365.25
    has = [] if patient.newborn else _conditions(dice, patient, age, chronic, history, site)
    n_acute = sum(condition.acute for condition in has)
    severity = 0.5 * patient.frailty + 0.75 * dice.normal() + 0.3 * (n_acute - 1.5)
    severity = -1.5 if patient.newborn else severity
    by_age, by_gender, by_ethnicity = plants.demographic(age=age, gender=patient.gender, ethnicity=patient.ethnicity)
    spurious = dice.chance(SPURIOUS_RATE)
    planted = plants.spurious_word * spurious * (site == "a")
    shared = by_age + by_gender + by_ethnicity
    clinical_readmission = sum(c.readmission for c in has) + SEVERITY_READMISSION * severity
    clinical_mortality = sum(c.mortality for c in has) + SEVERITY_MORTALITY * severity
    mortality = -6.0 if patient.newborn else intercepts.mortality + clinical_mortality + shared
    readmission = intercepts.readmission + clinical_readmission + shared + planted
    kind: Kind = "NEWBORN" if patient.newborn else dice.weighted(_KINDS)
    days = 1.5 + dice.exponential(3.0) * math.exp(min(1.5, max(-0.7, 0.35 * severity)))
    died, readmitted = dice.chance(logistic(mortality)), dice.chance(logistic(readmission))
    return Stay(
        index=len(patient.stays),
        admit=admit,
        discharge=admit + timedelta(minutes=int(days * 1440)),
        kind=kind,
        age=age,
        conditions=has,
        history=history,
        severity=severity,
        spurious=spurious,
        logit_mortality=mortality,
        logit_readmission=readmission,
        parts={
            "clinical_readmission": clinical_readmission, "clinical_mortality": clinical_mortality,
            "spurious_word": planted, "age": by_age, "gender": by_gender, "ethnicity": by_ethnicity,
        },
        died=died,
        readmitted=readmitted and not died and not patient.newborn,
    )  # fmt: skip


def _conditions(
    dice: Dice, patient: SyntheticPatient, age: float, chronic: set[int], history: frozenset[str], site: Site
) -> list[Condition]:
    """The patient's conditions during this stay, the reason for it first; `chronic` remembers lasting ones."""
    mix: Mapping[str, float] = population()["mix"][site]
    decades, frailty = (age - 65.0) / 10.0, patient.frailty
    later = bool(patient.stays)
    present = bytearray(len(conditions()))
    for k, condition in enumerate(conditions()):
        u = dice.uniform()
        if k in chronic:
            present[k] = 1
            continue
        if condition.sex is not None and condition.sex != patient.gender:
            continue
        logit = condition.logit + condition.age * decades + condition.frailty * frailty + mix.get(condition.name, 0.0)
        for parent, weight in condition.parents:
            if present[parent]:
                logit += weight
        if condition.acute:
            logit += _ACUTE_HISTORY * (condition.name in history)
        elif later:
            logit += _INCIDENCE
        if u < logistic(logit):
            present[k] = 1
            if not condition.acute:
                chronic.add(k)
    has = [condition for k, condition in enumerate(conditions()) if present[k]]
    if not any(condition.acute for condition in has):
        has.append(conditions()[-1])
    acute = [condition for condition in has if condition.acute]
    reason = dice.pick(acute)
    return [reason, *(condition for condition in has if condition is not reason)]


def _time_to_next(dice: Dice, patient: SyntheticPatient, stay: Stay) -> timedelta | None:
    """How long after discharge the next stay starts: within 30 days if readmitted or planned, later, or never."""
    u, v = dice.uniform(), dice.uniform()
    if stay.readmitted:
        if u < 0.03:  # the next stay is recorded as starting before this one ended
            return -timedelta(minutes=30 + int(v * 600))
        if u < 0.08:  # back to back: moved to another unit and admitted again
            return timedelta(minutes=5 + int(v * 300))
        return timedelta(minutes=int(1440 * (0.7 + 28.8 * v**1.3)))
    if u < _PLANNED:
        stay.planned_next = True
        return timedelta(minutes=int(1440 * (5 + 23 * v)))
    if u < _PLANNED + _RETURN + 0.06 * max(-2.0, min(2.0, patient.frailty)):
        return timedelta(minutes=int(1440 * 31.5) + int(dice.exponential(1440 * 260.0)))
    return None


def logistic(x: float) -> float:
    """1 / (1 + exp(-x)), without overflow."""
    return 1.0 / (1.0 + math.exp(-x)) if x > -700 else 0.0
