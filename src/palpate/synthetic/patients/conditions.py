"""The table of conditions: codes, words, comorbidity and effects (conditions.yaml)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from palpate.files import read_resource

_FRAILTY = 0.15


def words_of(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


@dataclass(frozen=True)
class Condition:
    """A condition that a patient can have."""

    name: str
    icd9: str
    icd10: str
    map_type: str
    title9: str
    title10: str
    acute: bool
    logit: float
    age: float
    parents: tuple[tuple[int, float], ...]
    readmission: float
    mortality: float
    sex: str | None
    names: tuple[str, ...]
    symptoms: tuple[str, ...]
    drugs: tuple[str, ...]
    course: tuple[str, ...]

    @property
    def frailty(self) -> float:
        """Log-odds per unit of frailty, the same for all conditions."""
        return _FRAILTY


@lru_cache(maxsize=1)
def conditions() -> tuple[Condition, ...]:
    """All conditions, parents first."""
    table: Mapping[str, Mapping[str, Any]] = read_resource("palpate.synthetic.patients", "conditions.yaml")
    index = {name: k for k, name in enumerate(table)}
    return tuple(_condition(name, row, index) for name, row in table.items())


@lru_cache(maxsize=1)
def condition_names() -> tuple[str, ...]:
    """The names of all conditions, in order."""
    return tuple(condition.name for condition in conditions())


@lru_cache(maxsize=1)
def by_name() -> dict[str, Condition]:
    """All conditions by name."""
    return {condition.name: condition for condition in conditions()}


def _condition(name: str, row: Mapping[str, Any], index: Mapping[str, int]) -> Condition:
    return Condition(
        name=name,
        icd9=row["icd9"],
        icd10=row["icd10"],
        map_type=row["map"],
        title9=row["title9"],
        title10=row["title10"],
        acute=row.get("acute", False),
        logit=math.log(row["p"] / (1 - row["p"])),
        age=row["age"],
        parents=tuple((index[parent], weight) for parent, weight in (row.get("from") or {}).items()),
        readmission=row.get("readmission", 0.0),
        mortality=row.get("mortality", 0.0),
        sex=row.get("sex"),
        names=words_of(row["names"]),
        symptoms=words_of(row["symptoms"]),
        drugs=words_of(row["drugs"]),
        course=tuple(row["course"]),
    )
