"""The cases that the slices audit wants scored: one half of the patients to search, the other to confirm."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.attributes import Cutting, attribute_levels, check_cuts, grouped_rows
from palpate.audits.kit.scope import audited_cohort, audited_labels, require_text, validation_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Variants
from palpate.errors import ConfigError
from palpate.perturb.words.names import find_names
from palpate.results import Plan
from palpate.stats.groups.slices import NOWHERE, Codes

AUDIT = "slices"
Words = bool | tuple[str, ...]
MOST_WORDS = 1000
"""Of the notes' own words, the most frequent that are looked at."""
_WORD = re.compile(r"[^\W\d_][\w'’-]*[^\W_]")
_COMMON = 0.5
"""A word in more of the notes says little about any of them."""


class Sliced(NamedTuple):
    """What the slices are made of, and which patients are searched."""

    names: tuple[str, ...]
    """Attributes, then words."""
    levels: tuple[tuple[str, ...], ...]
    """The values of each attribute; of a word, one: that the note has it."""
    codes: tuple[Codes, ...]
    """The value of each audited case, for each attribute."""
    n_attributes: int
    """How many of them are attributes; the others are words."""
    search: NDArray[np.bool_]
    """The audited cases of the half that is searched."""
    main: slice
    validation: slice
    """For the threshold."""
    rare: tuple[str, ...] = ()
    """Words that were asked for and that too few patients have."""
    constant: tuple[str, ...] = ()
    """Attributes with one value only."""
    own_words: bool = False
    """Whether the words are the notes' own, of which the search keeps a few."""

    def named(self, conditions: Sequence[tuple[int, int]]) -> str:
        """A slice in words: `gender=female, race=black`."""
        return ", ".join(self._condition(a, v) for a, v in conditions)

    def _condition(self, attribute: int, value: int) -> str:
        if attribute < self.n_attributes:
            return f"{self.names[attribute]}={self.levels[attribute][value]}"
        return f"note says '{self.names[attribute]}'"


class SliceScope(NamedTuple):
    """What is audited, and by what it is divided."""

    cohort: str | None
    split: str
    labels: tuple[str, ...] | None
    most_common: int
    by: tuple[str, ...]
    words: Words
    smallest: int


def slice_attributes(cohort: Cohort, scope: SliceScope) -> tuple[str, ...]:
    """The attributes that are combined; by default all of the cohort."""
    names = tuple(dict.fromkeys(scope.by or cohort.attributes))
    if not names and not scope.words:
        raise ConfigError(
            f"audit '{AUDIT}': the cohort has no attributes",
            hint="list columns under the cohort's `attributes:`, or set `words: true`",
        )
    return names


def plan_slices(cohort: Cohort, scope: SliceScope, cutting: Cutting, rng: np.random.Generator) -> Plan[Sliced]:
    """The held-out cases with the values of their attributes, then the validation cases."""
    names = slice_attributes(cohort, scope)
    check_cuts(AUDIT, cutting, names)
    name = audited_cohort(AUDIT, cohort, scope.cohort)
    rows = grouped_rows(AUDIT, cohort, scope.cohort, scope.split, names)
    labels = audited_labels(AUDIT, cohort, scope.labels, rows=rows, most_common=scope.most_common)
    validation: Ints = np.setdiff1d(validation_rows(cohort, name), rows)
    n, total = len(rows), len(rows) + len(validation)
    found = attribute_levels(AUDIT, cohort, rows, names, cutting)
    used = [name for name in names if len(found[name].names) > 1]
    words, has, rare = _words(cohort, rows, scope)
    memory = Sliced(
        (*used, *words),
        (*(tuple(found[name].names) for name in used), *(("",) for _ in words)),
        (*(found[name].code for name in used), *has),
        len(used),
        _half(cohort.patients[rows], rng),
        slice(0, n),
        slice(n, total),
        rare,
        tuple(name for name in names if len(found[name].names) < 2),
        scope.words is True,
    )
    variants = Variants.of_cases(np.concatenate([rows, validation]))
    return Plan(cohort, variants, labels, cases=rows, memory=memory)


def _half(patient: Ints, rng: np.random.Generator) -> NDArray[np.bool_]:
    """A random half of the patients, with all of their cases."""
    known = np.unique(patient)
    chosen = rng.permutation(known)[: len(known) // 2]
    return np.isin(patient, chosen)


def _words(cohort: Cohort, rows: Ints, scope: SliceScope) -> tuple[list[str], list[Codes], tuple[str, ...]]:
    """Words, which cases have each (0, or `NOWHERE`), and those asked for that too few patients have."""
    if not scope.words:
        return [], [], ()
    require_text(AUDIT, cohort)
    wanted = None if isinstance(scope.words, bool) else {word.casefold(): word for word in scope.words}
    places: dict[str, list[int]] = {}
    for k, row in enumerate(rows.tolist()):
        for word in {each.casefold() for each in _WORD.findall(cohort.texts[row])}:
            if (wanted is None and len(word) > 2) or (wanted is not None and word in wanted):
                places.setdefault(word, []).append(k)
    patient = cohort.patients[rows]
    n_patients = Counter({word: len(np.unique(patient[cases])) for word, cases in places.items()})
    enough = [word for word in places if n_patients[word] >= 2 * scope.smallest]  # in both halves together
    rare = () if wanted is None else tuple(word for key, word in wanted.items() if key not in enough)
    if wanted is None:
        people = find_names([cohort.texts[row] for row in rows.tolist()], enough)
        enough = [word for word in enough if len(places[word]) <= _COMMON * len(rows) and word not in people]
        enough = sorted(enough, key=lambda word: (-n_patients[word], word))[:MOST_WORDS]
    columns: list[Codes] = []
    for word in enough:
        code = np.full(len(rows), NOWHERE, np.int8)
        code[places[word]] = 0
        columns.append(code)
    return [word if wanted is None else wanted[word] for word in enough], columns, rare
