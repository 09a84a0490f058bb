"""Attributes of the cases as groups: categories, and numbers cut into ranges.

An attribute is a column of the cohort, the name of the cohort itself where there are several (`cohort`, or `site`), or
what the notes say about their patient (`note:gender`). A missing value is a group of its own, and an attribute with
more values than can be read is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.audits.kit.scope import audited_cohort, audited_rows, require_text
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import ConfigError, closest

if TYPE_CHECKING:
    from palpate.perturb.characteristics import Alterer, FoundCharacteristics

MISSING, NOT_SAID = "missing", "not said"
COHORT, SITE = "cohort", "site"
"""What the cohorts of a run are called as an attribute; `site` unless there is a column of that name."""
NOTE = "note:"
"""Before the name of a characteristic: what the note says."""
_OTHER = {"female": "male", "male": "female"}
_PRONOUNS = frozenset(["she", "her", "hers", "herself", "he", "him", "his", "himself"])
_AFTER = re.compile(r"not sure: '[^']+' after '(?P<who>[^']+)'")
"""How the second reader doubts a pronoun beside another person."""
_NO_MENTION = "none"
"""The group of a characteristic's definition whose notes say nothing of it."""
FEW_VALUES = 10
"""A number with more different values than that is cut into ranges; with fewer, each value is a group."""


_NOT_KNOWN = ("", "na", "n/a", "#n/a", "nan", "null", ".", "-", "?")
"""How tables spell a missing value; "none", "unknown" and "other" are answers."""
_MOST_MOVED = 0.005
"""The share of the cases that a rounded quantile may put on the other side; the group says which side it is."""


class Cutting(NamedTuple):
    """How attributes become groups."""

    cuts: Mapping[str, Sequence[float]]
    n_quantiles: int
    most_groups: int
    remedy: str = "put them into fewer categories in the table, or raise `most_groups`"
    """What to do about an attribute with more values."""


def check_cuts(audit: str, cutting: Cutting, names: Sequence[str]) -> None:
    """Refuse bounds of attributes that are not asked for, and bounds that do not rise."""
    for name, bounds in cutting.cuts.items():
        if name not in names:
            hint = closest(name, names, all_are="the attributes in `by` are")
            raise ConfigError(f"audit '{audit}', option 'cuts': '{name}' is not in `by`", hint=hint, at=("cuts",))
        if not bounds or any(b <= a for a, b in pairwise(bounds)):
            raise ConfigError(
                f"audit '{audit}', option 'cuts': the bounds of '{name}' must rise", hint="such as [40, 65, 80]"
            )


class Levels(NamedTuple):
    """The groups of one attribute."""

    names: list[str]
    code: Ints
    """Missing values have the last code, and a name if there are any."""


def across_cohorts(cohort: Cohort, names: Sequence[str]) -> bool:
    """Whether groups by these attributes take the cases of all cohorts."""
    return any(_is_cohort(cohort, name) for name in names)


def grouped_rows(audit: str, cohort: Cohort, name: str | None, split: str, names: Sequence[str]) -> Ints:
    """The held-out cases of the audited cohort; where the cohorts themselves are groups, of all of them."""
    if not across_cohorts(cohort, names):
        return audited_rows(audit, cohort, audited_cohort(audit, cohort, name), split)
    if name is not None:
        raise ConfigError(
            f"audit '{audit}': groups by cohort take the cases of all cohorts",
            hint="leave out the option `cohort`, or do not group by it",
            at=("cohort",),
        )
    return np.sort(np.concatenate([audited_rows(audit, cohort, each, split) for each in cohort.names]))


def _is_cohort(cohort: Cohort, name: str) -> bool:
    return name == COHORT or (name == SITE and SITE not in cohort.attributes and len(cohort.names) > 1)


def check_attributes(audit: str, cohort: Cohort, names: Sequence[str]) -> None:
    """Refuse names that are no attribute of the cohort, in words that say which there are."""
    for name in names:
        if _is_cohort(cohort, name):
            if len(cohort.names) < 2:
                raise ConfigError(
                    f"audit '{audit}': there is one cohort only, so it makes no groups",
                    hint="give several under `cohorts:`, or an attribute of this one",
                    at=("by",),
                )
        elif name.startswith(NOTE):
            _check_reading(audit, cohort, name)
        elif name not in cohort.attributes:
            hint = "list the column under the cohort's `attributes:`"
            if cohort.attributes:
                hint += f"; {closest(name, cohort.attributes, all_are='its attributes are')}"
            raise ConfigError(f"audit '{audit}': the cohort has no attribute '{name}'", hint=hint, at=("by",))


def _check_reading(audit: str, cohort: Cohort, name: str) -> None:
    from palpate.perturb.characteristics import NAMES  # which takes a second, and few audits read notes

    if name.removeprefix(NOTE) not in NAMES:
        hint = closest(name, [NOTE + each for each in NAMES], all_are="what can be read is")
        raise ConfigError(f"audit '{audit}': '{name}' is not read from notes", hint=hint, at=("by",))
    require_text(audit, cohort)


def attribute_levels(
    audit: str, cohort: Cohort, rows: Ints, names: Sequence[str], cutting: Cutting
) -> dict[str, Levels]:
    """The group of each of some cases, by each attribute; notes are read once for all that is read from them."""
    check_attributes(audit, cohort, names)
    read = [name for name in names if name.startswith(NOTE)]
    columns = _said(cohort, rows, read) if read else {}
    for name in names:
        if name not in columns:
            columns[name] = cohort.cases[COHORT if _is_cohort(cohort, name) else name].gather(rows)
    return {name: _levels(audit, name, columns[name], cutting) for name in names}


def _said(cohort: Cohort, rows: Ints, names: Sequence[str]) -> dict[str, pl.Series]:
    """What each note says about its patient: a group's name, or the age as a number; null where it says nothing."""
    from palpate.perturb.characteristics import Alterer

    reader = Alterer([name.removeprefix(NOTE) for name in names])
    said: dict[str, list[str | None]] = {name: [] for name in names}
    known: dict[str, list[str | None]] = {}
    for row in rows.tolist():
        text = cohort.texts[row]
        if text not in known:
            found = reader.plan(text)
            present = reader.detection(found).present
            if (gender := present.get("gender") or "") in _OTHER and _may_be_anothers(reader, found, gender):
                present = {**present, "gender": _NO_MENTION}
            groups = [present[name.removeprefix(NOTE)] for name in names]
            known[text] = [None if group == _NO_MENTION else group for group in groups]
        for name, value in zip(names, known[text], strict=True):
            said[name].append(value)
    columns = {name: pl.Series(name, values, dtype=pl.String) for name, values in said.items()}
    age = NOTE + "age"
    if age in columns:
        columns[age] = columns[age].str.extract(r"(\d+)").cast(pl.Int64)
    return columns


def _may_be_anothers(reader: Alterer, found: FoundCharacteristics, gender: str) -> bool:
    """Whether nothing but a spouse, or pronouns that may be another person's, says the gender: "Wife at bedside"."""
    if not any(word.gender == gender for word in found.by_name["gender"].swaps):
        return True
    doubt = _AFTER.match(reader.edits(found, ("gender", _OTHER[gender])).reason or "")
    if doubt is None:
        return False
    words = {mention.text.lower() for mention in reader.detection(found).mentions["gender"]}
    return words <= _PRONOUNS | {doubt["who"].lower()}


def _levels(audit: str, name: str, column: pl.Series, cutting: Cutting) -> Levels:
    column = _without_marks(column)
    if not column.dtype.is_numeric():
        if name in cutting.cuts:
            raise ConfigError(
                f"audit '{audit}', option 'cuts': attribute '{name}' is not a number", hint="leave it out of `cuts`"
            )
        return _categories(audit, name, cleaned(column), cutting)
    known = column.drop_nulls()
    if name not in cutting.cuts and known.n_unique() <= FEW_VALUES:
        return _categories(audit, name, column, cutting)
    bounds = [float(bound) for bound in cutting.cuts.get(name, ())]
    if not bounds:
        shares = np.arange(1, cutting.n_quantiles) / cutting.n_quantiles
        bounds = _readable(np.quantile(known.to_numpy(), shares, method="higher"), np.sort(known.to_numpy()))
    code = np.searchsorted(bounds, column.fill_null(0).to_numpy(), side="right")
    return _with_missing(name, _ranges(bounds), np.where(column.is_null().to_numpy(), len(bounds) + 1, code))


def _readable(bounds: NDArray[np.float64], ordered: NDArray[np.float64]) -> list[float]:
    """Quantiles as people would write them, 61.7 for 61.6613: the shortest number that moves next to no case."""
    found = set()
    for bound in bounds.tolist():
        below = np.searchsorted(ordered, bound)
        for digits in range(-6, 17):
            short = round(bound, digits)
            moved = abs(int(np.searchsorted(ordered, short) - below))
            if short == bound or moved <= _MOST_MOVED * len(ordered):
                break
        found.add(float(short))
    return sorted(bound for bound in found if bound > ordered[0])


def cleaned(column: pl.Series) -> pl.Series:
    """Strings without spaces around them; an empty one, and a mark such as NA, is missing."""
    text = column.cast(pl.String).str.strip_chars()
    return text.set(text.str.to_lowercase().is_in(_NOT_KNOWN).fill_null(False), None)


def _without_marks(column: pl.Series) -> pl.Series:
    """Numbers, where a column is text only because some of its cells are marks such as NA; else the column."""
    if column.dtype != pl.String:
        return column
    text = cleaned(column)
    if text.null_count() in (column.null_count(), len(text)) or text.str.contains("^0[0-9]").any():  # ids, not numbers
        return column
    number = text.str.replace("^(-?[0-9]+),([0-9]+)$", "$1.$2").cast(pl.Float64, strict=False)
    return column if number.null_count() > text.null_count() or not number.is_finite().all() else number


def _categories(audit: str, name: str, column: pl.Series, cutting: Cutting) -> Levels:
    values = column.drop_nulls().unique().sort().to_list()
    if len(values) > cutting.most_groups:
        raise ConfigError(
            f"audit '{audit}': attribute '{name}' has {len(values):,} different values in the {len(column):,} audited "
            f"cases, more than {cutting.most_groups} groups",
            hint=cutting.remedy,
            at=("by",),
        )
    place = {value: k for k, value in enumerate(values)}
    code = np.asarray([len(values) if value is None else place[value] for value in column.to_list()], np.int64)
    named = [written_number(value) if isinstance(value, int | float) else str(value) for value in values]
    return _with_missing(name, named, code)


def _with_missing(name: str, names: list[str], code: Ints) -> Levels:
    own = NOT_SAID if name.startswith(NOTE) else MISSING if MISSING not in names else "value missing"
    return Levels([*names, own] if bool((code == len(names)).any()) else names, code)


def written_number(value: float) -> str:
    """A value of a numeric attribute in the name of a group."""
    return f"{value:g}" if abs(value) < 1e6 else f"{value:.10g}"


def _ranges(bounds: Sequence[float]) -> list[str]:
    """`under 40`, `40 to under 65`, `65 and over`."""
    if not bounds:
        return ["any value"]
    named = [written_number(bound) for bound in bounds]
    between = [f"{a} to under {b}" for a, b in pairwise(named)]
    return [f"under {named[0]}", *between, f"{named[-1]} and over"]
