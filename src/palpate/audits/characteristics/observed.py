"""What the training split shows for the same groups (the paper's Figures 4, 6 and 8), and how the model relates to it.

First, which group each training case belongs to: by what its note says, or by what the cohort records about it. Then
the label rates of these groups, and their deviations as in equation 1.

Amplification is the slope, through 0, of the model's deviations on the observed ones over groups and labels: 1 where
changing the patient in the note moves the prediction as much as the groups differ in the training data, below 1 where
the model mutes the difference, above 1 where it amplifies it, below 0 where it reverses it. The groups of the training
split differ in more than the characteristic, so 1 is not an ideal.

Observed rates are noisy, and noise in x flattens a slope. What noise adds to the sum of squares is estimated by the
bootstrap, V = mean of the replicates' sums less the sum on the data, and subtracted: slope = sum(m o) / (sum(o o) - V).
A replicate has that noise twice, so 2 V is subtracted there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from palpate.audits.characteristics.arms import NONE, OLDEST, ArmSpec, age_number
from palpate.audits.kit.paired import ShareArrays
from palpate.audits.kit.resampling import Resampling
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.stats import percentile_interval
from palpate.stats.clustered import Units, tally_replicates

Floats = NDArray[np.float64]
FEWEST_OBSERVED = 30
"""Training cases that a group needs to be compared with others."""
_COLUMNS = {"gender": ("gender", "sex"), "ethnicity": ("ethnicity", "race")}
"""Attributes of a cohort that record a characteristic; others have the characteristic's own name."""
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
_NON_BINARY = re.compile(r"non[\s-]?binary|genderqueer|gender[\s-]?fluid|\bx\b")
_TRANS = re.compile(r"\btrans|\b(?:mtf|ftm)\b|\b(?:fe)?male[\s-]to[\s-](?:fe)?male\b")
_TRANS_WOMAN = re.compile(r"(?<!from )\b(?:woman|female|mtf)\b(?![\s-]to)")
_TRANS_MAN = re.compile(r"(?<!from )\b(?:man|male|ftm)\b(?![\s-]to)")
_NOT = re.compile(r"\b(?:not|non)[\s-]+\w+(?:\s*(?:/|or)\s*latin\w+)?", re.IGNORECASE)
_AGE = re.compile(
    r"(?P<over>>=?|over|above)?\s*(?P<years>\d+(?:\.\d+)?)\s*(?P<plus>\+)?"
    r"(?:\s*(?:years?|yrs?|y/?o?)(?:[\s-]*old)?|\s+years?\s+of\s+age|\s+and\s+(?:over|older))?",
    re.IGNORECASE,
)
_OLDEST_LIVING = 120
_SHIFTED = 299
"""MIMIC-III shifts the dates of birth of patients over 89, who come out as about 300 years old."""


class ObservedGroups(NamedTuple):
    """Which group of an arm each training case belongs to."""

    rows: Ints
    """The training cases, as rows of the cohort."""
    group: Ints
    """Index of the group, -1 where it is unknown or not audited."""
    origin: str
    """Where the groups come from, in words."""
    reason: str | None = None
    """Why there are none."""

    @classmethod
    def none(cls, reason: str) -> ObservedGroups:
        """No training case has a group."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(nothing, nothing, "", reason)


def by_attributes(spec: ArmSpec, cohort: Cohort, rows: Ints) -> ObservedGroups:
    """Groups of the training cases by what the cohort's attributes record."""
    names = [
        next((name for name in _COLUMNS.get(part, (part,)) if name in cohort.attributes), None) for part in spec.parts
    ]
    stated = []
    for part, name in zip(spec.parts, names, strict=True):
        if name is None:
            return ObservedGroups.none(f"the cohort has no attribute '{part}'")
        stated.append([recorded(part, value) for value in cohort.cases[name][rows].to_list()])
    origin = "the attributes " if len(names) > 1 else "the attribute "
    return ObservedGroups(rows, _indices(spec, stated, recorded_only=True), origin + ", ".join(map(str, names)))


def by_notes(spec: ArmSpec, rows: Ints, stated: Mapping[str, Sequence[str | None]]) -> ObservedGroups:
    """Groups of the training cases by what their notes say; a note without a mention is in the group `none`."""
    said = [stated[part] for part in spec.parts]
    return ObservedGroups(rows, _indices(spec, said, recorded_only=False), "what the training notes say")


def _indices(spec: ArmSpec, stated: Sequence[Sequence[str | None]], *, recorded_only: bool) -> Ints:
    """The index of each case's group, from what is stated for each characteristic."""
    values = map(spec.values, range(len(spec.parts)))
    # There are few distinct statements: each is looked up once.
    tables = [
        {said: None if said is None and recorded_only else group_of(part, said, groups) for said in set(column)}
        for part, groups, column in zip(spec.parts, values, stated, strict=True)
    ]
    place: dict[tuple[str | None, ...], int] = {group: k for k, group in enumerate(spec.groups)}
    found = (tuple(table[said] for table, said in zip(tables, case, strict=True)) for case in zip(*stated, strict=True))
    return np.asarray([place.get(group, -1) for group in found], dtype=np.int64)


def group_of(part: str, stated: str | None, groups: Sequence[str]) -> str | None:
    """The audited group that a note's (or a record's) statement belongs to; None if it belongs to none of them.

    An age belongs to the nearest audited age that is at most half a step away, so that every tenth year also stands for
    the years around it. Case does not matter: a record may say "Private".
    """
    if stated is None:
        return NONE if NONE in groups else None
    same = next((group for group in groups if group.lower() == stated.lower()), None)
    if part != "age" or same is not None:
        return same
    if stated.endswith("+") or age_number(stated) >= OLDEST:
        return "90+" if "90+" in groups else None
    ages = sorted(age_number(group) for group in groups if not group.endswith("+"))
    if not ages:
        return None
    age = age_number(stated)
    nearest = min(ages, key=lambda each: abs(each - age))
    steps = [abs(each - nearest) for each in ages if each != nearest]
    return str(nearest) if steps and abs(age - nearest) <= min(steps) / 2 else None


def recorded(part: str, value: Any) -> str | None:
    """What an attribute of the cohort says, in the words of a note; None where that is nothing of use."""
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return None
    text = str(value).strip()
    if part == "age":
        return _recorded_age(text)
    if part == "gender":
        return _recorded_gender(text.lower())
    if part == "ethnicity":
        return _recorded_ethnicity(text)
    return text


def _recorded_gender(text: str) -> str | None:
    """The group that a record names: "Transgender female", "MTF", "Non-binary", "F"."""
    if _NON_BINARY.search(text):
        return "non-binary"
    if _TRANS.search(text):
        woman, man = _TRANS_WOMAN.search(text), _TRANS_MAN.search(text)
        return "trans woman" if woman and not man else "trans man" if man and not woman else "transgender"
    return _GENDERS.get(text)


def _recorded_age(text: str) -> str | None:
    """The years of 63, "63 years", "> 89" or "90+"; None for anything else, such as "unknown" or "over 60"."""
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
    """The group that a record names: Hispanic people may be of any race, and a person of two races is in no group."""
    words = re.findall(r"[a-z]+", _NOT.sub(" ", text).lower())
    found = {_ETHNICITIES[word] for word in words if word in _ETHNICITIES}
    if "Hispanic" in found:
        return "Hispanic"
    return found.pop() if len(found) == 1 else None


class ObservedRates(NamedTuple):
    """Label rates of the groups in the training split; arrays are [group, label] unless they say otherwise."""

    n: Ints
    """[group] cases."""
    n_positive: Ints
    rate: Floats
    low: Floats
    high: Floats
    known: Ints
    """The groups with enough cases to be compared."""
    deviation: Floats
    """[known group, label] equation 1 among the known groups."""
    deviation_values: Floats
    """[known group, label, replicate]"""
    deviation_low: Floats
    deviation_high: Floats

    def without_replicates(self) -> ObservedRates:
        """The same, small enough to be kept for all labels."""
        return self._replace(deviation_values=self.deviation_values[..., :0].copy())

    @classmethod
    def joined(cls, blocks: Sequence[ObservedRates]) -> ObservedRates | None:
        """Blocks of labels as one: cases and known groups are the same in all."""
        if not blocks:
            return None
        by_label = (name for name in cls._fields if name not in ("n", "known"))
        arrays = {name: np.concatenate([getattr(block, name) for block in blocks], axis=1) for name in by_label}
        return blocks[0]._replace(**arrays)


def deviations(p: Floats) -> Floats:
    """The paper's equation 1 along the first axis, the groups: each group less the mean of the others.

    Differences to any fixed group may be given instead of p: the result is the same, and exactly 0 where they are.
    """
    n = len(p)
    if n < 2:
        return np.full_like(p, np.nan)
    out: Floats = (n * p - p.sum(axis=0)) / (n - 1)
    return out


def observed_rates(
    groups: ObservedGroups,
    y_true: NDArray[np.uint8],
    units: Units,
    *,
    n_groups: int,
    resampling: Resampling,
    among: NDArray[np.bool_] | None = None,
) -> ObservedRates:
    """Rates and deviations of a block of labels; `y_true` and `units` are those of `groups.rows`.

    `among` are the groups that may be compared, where these are not all.

    Rates have the interval of clustered shares, because a bootstrap without a positive case would be sure of 0, and
    deviations that of a difference of such rates (Zou and Donner 2008). Replicates are for amplification only.
    """
    level, n_replicates = resampling.level, resampling.n_replicates
    n_labels = y_true.shape[1]
    counts = _tallies(groups, y_true, units, n_groups)
    total = np.asarray(counts.sum(axis=0), dtype=np.int64).ravel()
    n, n_positive = total[:n_groups], total[n_groups:].reshape(n_groups, n_labels)
    rate = _share(n_positive, n[:, None])
    low, high = _clustered_shares(counts, n, n_positive).ends(1.0 - level)
    known = np.flatnonzero((n >= FEWEST_OBSERVED) & (True if among is None else among))
    deviation, values = np.full((len(known), n_labels), np.nan), np.full((len(known), n_labels, n_replicates), np.nan)
    if len(known) > 1:
        deviation = deviations(rate[known])
        columns = np.concatenate([known, *(n_groups + g * n_labels + np.arange(n_labels)[None] for g in known)], None)
        drawn = tally_replicates(counts[:, columns], rng=resampling.seed, n_replicates=n_replicates)
        positive = drawn[len(known) :].reshape(len(known), n_labels, n_replicates)
        values = deviations(_share(positive, drawn[: len(known), None]))
    below, above = (_all_but_one(end[known] - rate[known], len(known)) for end in (low, high))
    ends = (
        deviation - np.hypot(rate[known] - low[known], above),
        deviation + np.hypot(high[known] - rate[known], below),
    )
    return ObservedRates(n, n_positive, rate, low, high, known, deviation, values, *ends)


def _clustered_shares(counts: sparse.csr_array, n: Ints, n_positive: Ints) -> ShareArrays:
    """The rates of groups and labels, [group, label], for cases clustered by unit; see `_tallies`."""
    n_groups, n_labels = n_positive.shape
    cases, positive = counts[:, :n_groups], counts[:, n_groups:]

    def summed(values: sparse.csr_array) -> Floats:
        return np.asarray(values.sum(axis=0), np.float64).ravel()

    rate = np.nan_to_num(_share(n_positive, n[:, None]))
    each = summed(cases.multiply(cases))[:, None]
    both = summed(positive.multiply(cases[:, np.repeat(np.arange(n_groups), n_labels)])).reshape(n_groups, n_labels)
    own = summed(positive.multiply(positive)).reshape(n_groups, n_labels)
    n_units = summed(cases > 0)[:, None]
    rest = (own - 2.0 * rate * both + rate**2 * each) * n_units / np.maximum(n_units - 1.0, 1.0)
    independent = np.broadcast_to(n[:, None] ** 2 / np.maximum(each, 1.0), rate.shape).copy()
    freedom = np.maximum(independent - 1.0, 1.0)
    spread = rate * (1.0 - rate) * n[:, None] ** 2
    np.divide(spread, rest, out=independent, where=(rest > 1e-9) & (spread > 0))
    return ShareArrays(rate, np.clip(independent, 1.0, np.maximum(n[:, None], 1)), freedom)


def _all_but_one(arms: Floats, n: int) -> Floats:
    """What the arms of all other groups add to the interval of a deviation, for each group."""
    squares = arms**2
    return np.asarray(np.sqrt(np.maximum(squares.sum(axis=0) - squares, 0.0)) / max(n - 1, 1))


def _tallies(groups: ObservedGroups, y_true: NDArray[np.uint8], units: Units, n_groups: int) -> sparse.csr_array:
    """[unit, column]: cases of each group, then positive cases of each group and label."""
    there = np.flatnonzero(groups.group >= 0)
    n_labels = y_true.shape[1]
    rows, labels = np.nonzero(y_true[there])
    row = np.concatenate([there, there[rows]])
    column = np.concatenate([groups.group[there], n_groups + groups.group[there][rows] * n_labels + labels])
    shape = (len(units.size), n_groups * (1 + n_labels))
    return sparse.csr_array((np.ones(len(row), np.int64), (units.code[row], column)), shape=shape)


def _share(positive: NDArray[np.int64], n: NDArray[np.int64]) -> Floats:
    out = np.full(np.broadcast_shapes(positive.shape, n.shape), np.nan)
    np.divide(positive, n, out=out, where=np.broadcast_to(n > 0, out.shape))
    return out


class Slope(NamedTuple):
    """Amplification with its interval; NaN where the observed differences are no larger than chance."""

    value: float
    low: float
    high: float


def amplification(
    product: float | Floats, product_values: Floats, squares: float | Floats, square_values: Floats, *, level: float
) -> Slope:
    """The slope through 0 of model on observed deviations; see the module's docstring.

    `product` is the sum of m o and `squares` that of o o, over groups and labels; the others are their replicates.
    """
    added = float(np.mean(square_values)) - float(squares)
    denominator = float(squares) - added
    left = square_values - 2.0 * added
    slopes = np.full(left.shape, np.nan)
    np.divide(product_values, left, out=slopes, where=left > 0)
    low, high = (float(end) for end in percentile_interval(slopes, level=level))
    if not (denominator > 0 and np.isfinite(low)):
        return Slope(np.nan, np.nan, np.nan)
    return Slope(float(product) / denominator, low, high)
