"""Which groups an arm has, which of them is the reference, and which group a training case belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from palpate.audits.characteristics.arms import OLDEST, ObservedGroups, age_number
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import ConfigError

NONE = "none"
YOUNGEST = 18
"""The notes are about adults: a child is worded otherwise."""
_COLUMNS = {"gender": ("gender", "sex"), "ethnicity": ("ethnicity", "race")}
"""Attributes of a cohort that tell a characteristic; others have the characteristic's own name."""
_GENDERS = {"f": "female", "female": "female", "woman": "female", "m": "male", "male": "male", "man": "male"}
_ETHNICITIES = {
    "african": "African American",
    "black": "African American",
    "hispanic": "Hispanic",
    "latin": "Hispanic",
    "latino": "Hispanic",
    "latina": "Hispanic",
    "latinx": "Hispanic",
    "asian": "Asian",
    "white": "White",
    "caucasian": "White",
}
"""Words of recorded values: "BLACK/CAPE VERDEAN", "ASIAN - CHINESE", "White, not Hispanic"."""
_NOT = re.compile(r"\b(?:not|non)[\s-]+\w+(?:\s*(?:/|or)\s*latin\w+)?", re.IGNORECASE)
_AGE = re.compile(
    r"(?P<over>>=?|over|above)?\s*(?P<years>\d+(?:\.\d+)?)\s*(?P<plus>\+)?"
    r"(?:\s*(?:years?|yrs?|y/?o?)(?:[\s-]*old)?|\s+years?\s+of\s+age|\s+and\s+(?:over|older))?",
    re.IGNORECASE,
)
_OLDEST_LIVING = 120
_SHIFTED = 299
"""MIMIC-III moves the births of patients over 89 so far back that they come out as about 300 years old."""


@dataclass(frozen=True)
class ArmSpec:
    """The characteristics of an arm, and its groups as one value for each of them."""

    parts: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """`gender`, or `gender+ethnicity`."""
        return "+".join(self.parts)

    @property
    def names(self) -> tuple[str, ...]:
        """The groups in words."""
        return tuple("+".join(group) for group in self.groups)

    def mappings(self) -> list[dict[str, str]]:
        """Each group as what the text engine takes."""
        return [dict(zip(self.parts, group, strict=True)) for group in self.groups]


def arm_specs(alter: Sequence[str], groups: Mapping[str, tuple[str, ...]], *, known: Sequence[str]) -> list[ArmSpec]:
    """The arms that are asked for, from the groups of their characteristics; `known` names all that there are."""
    specs = []
    for name in alter:
        parts = tuple(part.strip() for part in name.split("+"))
        for part in parts:
            if part not in groups:
                raise ConfigError(
                    f"audit 'characteristics': there is no characteristic '{part}'",
                    hint=f"there are: {', '.join(known)}; others are given in `definitions`",
                )
        if len(set(parts)) < len(parts):
            raise ConfigError(f"audit 'characteristics': '{name}' names a characteristic twice")
        made = tuple(product(*(groups[part] for part in parts)))
        if len(made) < 2:
            raise ConfigError(f"audit 'characteristics': '{name}' has fewer than two groups")
        specs.append(ArmSpec(parts, made))
    if not specs:
        raise ConfigError("audit 'characteristics': `alter` names no characteristic")
    if len({spec.name for spec in specs}) < len(specs):
        raise ConfigError("audit 'characteristics': `alter` names a characteristic twice")
    return specs


def age_groups(ages: Sequence[int | str]) -> tuple[str, ...]:
    """The ages as groups, checked: whole years below 90, and "90+"."""
    groups = tuple(str(age) for age in ages)
    for group in groups:
        if group != "90+" and not (re.fullmatch("[0-9]{1,2}", group) and YOUNGEST <= int(group) < OLDEST):
            raise ConfigError(
                f"audit 'characteristics', option 'ages': '{group}' can't be written into a note",
                hint=f"use whole years from {YOUNGEST} to {OLDEST - 1} and '90+'",
            )
    if len(set(groups)) < len(groups):
        raise ConfigError("audit 'characteristics', option 'ages': an age is given twice")
    return tuple(sorted(groups, key=age_number))


def references(
    specs: Sequence[ArmSpec], chosen: Mapping[str, str | int], present: Mapping[str, Sequence[str | None]]
) -> list[int]:
    """The reference group of every arm.

    By default male; no mention, where a characteristic may go unmentioned; and the age nearest to the median of what
    `present` says of the training notes (or of the audited ones), so that few notes are moved far. A combination takes
    the references of its parts.
    """
    for name in chosen:
        if not any(name in spec.parts for spec in specs):
            raise ConfigError(f"audit 'characteristics', option 'reference': '{name}' is not altered")
    out = []
    for spec in specs:
        each = []
        for k, part in enumerate(spec.parts):
            groups = list(dict.fromkeys(group[k] for group in spec.groups))
            wanted = str(chosen[part]) if part in chosen else _default_reference(part, groups, present.get(part, ()))
            if wanted not in groups:
                hint = f"the groups are: {', '.join(groups)}"
                raise ConfigError(f"audit 'characteristics', option 'reference': {part} has no '{wanted}'", hint=hint)
            each.append(wanted)
        out.append(spec.groups.index(tuple(each)))
    return out


def _default_reference(part: str, groups: Sequence[str], present: Sequence[str | None]) -> str:
    if part == "age":
        ages = [age_number(age) for age in present if age is not None]
        middle = float(np.median(ages)) if ages else (age_number(groups[0]) + age_number(groups[-1])) / 2
        return min(groups, key=lambda group: abs(age_number(group) - middle))
    if part == "gender" and "male" in groups:
        return "male"
    return NONE if NONE in groups else groups[0]


def group_of(part: str, present: str | None, groups: Sequence[str]) -> str | None:
    """The audited group that a note's (or a record's) statement belongs to; None: to none of them.

    An age belongs to the nearest audited age that is at most half a step away, so a set of every tenth year takes the
    years around. Capitals do not matter: a record may say "Private".
    """
    if present is None:
        return NONE if NONE in groups else None
    same = next((group for group in groups if group.lower() == present.lower()), None)
    if part != "age" or same is not None:
        return same
    if present.endswith("+") or age_number(present) >= OLDEST:
        return "90+" if "90+" in groups else None
    ages = sorted(age_number(group) for group in groups if not group.endswith("+"))
    if not ages:
        return None
    age = age_number(present)
    nearest = min(ages, key=lambda each: abs(each - age))
    steps = [abs(each - nearest) for each in ages if each != nearest]
    return str(nearest) if steps and abs(age - nearest) <= min(steps) / 2 else None


def recorded(part: str, value: Any) -> str | None:
    """What an attribute of the cohort says, in the words of a note; None where it says nothing of use."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    text = str(value).strip()
    if part == "age":
        return _recorded_age(text)
    if part == "gender":
        return "transgender" if text.lower().startswith("trans") else _GENDERS.get(text.lower())
    if part == "ethnicity":
        return _recorded_ethnicity(text)
    return text


def _recorded_age(text: str) -> str | None:
    """The years of 63, "63 years", "> 89" or "90+"; None for anything else, as "unknown" or "over 60"."""
    match = _AGE.fullmatch(text)
    if match is None:
        return None
    years = float(match.group("years")) + ((match.group("over") or "").lower() in (">", "over", "above"))
    if years > _OLDEST_LIVING and years < _SHIFTED:
        return None
    if years >= OLDEST:
        return "90+"
    return None if match.group("over") or match.group("plus") else str(int(years))


def _recorded_ethnicity(text: str) -> str | None:
    """The group that a record names; Hispanics may be of any race, and who is of two races is in no group."""
    words = re.findall(r"[a-z]+", _NOT.sub(" ", text).lower())
    found = {_ETHNICITIES[word] for word in words if word in _ETHNICITIES}
    if "Hispanic" in found:
        return "Hispanic"
    return found.pop() if len(found) == 1 else None


def attribute_of(part: str, cohort: Cohort) -> str | None:
    """The cohort's attribute that tells a characteristic."""
    return next((name for name in _COLUMNS.get(part, (part,)) if name in cohort.attributes), None)


def by_attributes(spec: ArmSpec, cohort: Cohort, rows: Ints) -> ObservedGroups:
    """Groups of the training cases by what is recorded."""
    names = [attribute_of(part, cohort) for part in spec.parts]
    missing = [part for part, name in zip(spec.parts, names, strict=True) if name is None]
    if missing:
        return ObservedGroups(rows, np.full(len(rows), -1), "", f"the cohort has no attribute '{missing[0]}'")
    said = [
        [recorded(part, value) for value in cohort.cases[name or ""][rows].to_list()]
        for part, name in zip(spec.parts, names, strict=True)
    ]
    origin = "the attributes " if len(names) > 1 else "the attribute "
    return ObservedGroups(rows, _indices(spec, said, recorded_only=True), origin + ", ".join(map(str, names)))


def by_notes(spec: ArmSpec, rows: Ints, present: Mapping[str, Sequence[str | None]]) -> ObservedGroups:
    """Groups of the training cases by what their notes say; a note without a mention is in the group `none`."""
    said = [present[part] for part in spec.parts]
    return ObservedGroups(rows, _indices(spec, said, recorded_only=False), "what the training notes say")


def _indices(spec: ArmSpec, said: Sequence[Sequence[str | None]], *, recorded_only: bool) -> Ints:
    """Index of the group of each case, from what is said of each part."""
    place = {group: k for k, group in enumerate(spec.groups)}
    values = [list(dict.fromkeys(group[k] for group in spec.groups)) for k in range(len(spec.parts))]
    # There are few distinct statements: each is looked up once.
    tables = [
        {word: None if word is None and recorded_only else group_of(part, word, values[k]) for word in set(said[k])}
        for k, part in enumerate(spec.parts)
    ]
    out = np.full(len(said[0]) if said else 0, -1, dtype=np.int64)
    for row, words in enumerate(zip(*said, strict=True)):
        group = tuple(tables[k][word] for k, word in enumerate(words))
        out[row] = place.get(group, -1)  # type: ignore[arg-type]
    return out
