"""A suite's cases in columns, for the capabilities audit: what is asked, what passes, what fills the slots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Ints, Variants
from palpate.perturb.suites import Cases, Suite, Test
from palpate.perturb.words import find_words
from palpate.perturb.words.tokens import normalise_word

Floats = NDArray[np.float64]
ROUNDING = 1e-9
"""A probability that moved by less has not moved."""


@dataclass(frozen=True)
class Cell:
    """What a pass rate is about: the cases of one test with one label (or with none, where only movement counts)."""

    capability: str
    title: str
    """The capability's title."""
    part: str
    test: Test
    label: str
    """The suite's word for the label, or empty."""
    positive: bool | None

    @property
    def group(self) -> str:
        """Its name among the estimates."""
        return f"{self.family}: {self.label}" if self.label else self.family

    @property
    def family(self) -> str:
        """The name of the test, whatever the label."""
        return f"{self.capability}/{self.test.id}"

    @property
    def said(self) -> str:
        """Its name for readers."""
        return f"{self.test_said}: {self.label}" if self.label else self.test_said

    @property
    def test_said(self) -> str:
        """The test's name for readers; an untitled test of a capability is the capability's."""
        test = self.test.title
        if test in ("", self.test.id, self.test.id.replace("_", " ")):
            test = self.title if self.test.id == self.capability else self.test.id.replace("_", " ").capitalize()
        if test == self.title:
            return self.title
        return test if test.lower().startswith(self.title.lower()) else f"{self.title}: {test}"


class SlotUse(NamedTuple):
    """What fills one slot in this run."""

    values: tuple[str, ...]
    code: Ints
    """[case] the index of its value, -1 without the slot."""
    mentions: Ints
    """[value] in the training notes, in any case."""
    exact: Ints
    """[value] of these, those written exactly so."""


@dataclass(frozen=True, eq=False)
class Examined:
    """The cases of a run, in columns; the columns `first` and `second` are rows of the plan's variants."""

    suite: str
    positive: str
    negative: str
    fingerprint: str
    cells: tuple[Cell, ...]
    cell: Ints
    templates: tuple[str, ...]
    template: Ints
    change: Ints
    """[case] an index into `changes`."""
    changes: tuple[str, ...]
    first: Ints
    second: Ints
    """-1 where a case is no pair."""
    slots: Mapping[str, SlotUse]
    n_training: int | None
    """How many training notes there are to count words in; None: no training split."""
    dropped: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.cell)

    @cached_property
    def cell_of_template(self) -> Ints:
        """A template belongs to one cell."""
        out = np.zeros(len(self.templates), dtype=np.int64)
        out[self.template] = self.cell
        return out

    def texts(self, variants: Variants, case: int) -> tuple[str, str]:
        """The text of a case, and its second text or an empty one."""
        n_cases = int(variants.parent[self.first[0]]) if len(self) else 0
        rows = (int(self.first[case]), int(self.second[case]))
        first, second = (variants.made[int(variants.parent[row]) - n_cases] if row >= 0 else "" for row in rows)
        return first, second

    def passed(self, p: Floats, threshold: float) -> Floats:
        """[case] 1 where a model passes, 0 where it does not, NaN where that needs a threshold and there is none."""
        before = p[self.first]
        moved = p[self.second] - before
        out = np.zeros(len(self))
        for k, cell in enumerate(self.cells):
            rows = self.cell == k
            test = cell.test
            if test.type == "MFT":
                decided = before[rows] >= threshold
                out[rows] = np.nan if np.isnan(threshold) else decided == bool(cell.positive)
            elif test.type == "INV":
                out[rows] = np.abs(moved[rows]) <= (test.tolerance or 0.0) + ROUNDING
            else:
                onward = moved[rows] if test.direction == "up" else -moved[rows]
                # A margin of 0 still asks for a movement.
                out[rows] = (onward > ROUNDING) & (onward >= (test.margin or 0.0) - ROUNDING)
        return out

    def moved(self, p: Floats) -> Floats:
        """[case] how far the prediction went: in the expected direction, or for INV whichever; NaN for no pair."""
        change = np.where(self.second >= 0, p[self.second] - p[self.first], np.nan)
        signs = {"INV": 0.0, "up": 1.0, "down": -1.0}
        sign = np.array([signs.get(cell.test.direction or cell.test.type, np.nan) for cell in self.cells])[self.cell]
        return np.where(sign == 0, np.abs(change), sign * change)


def examine(
    suite: Suite, cases: Cases, *, first_row: int, training: Sequence[str] | None, capabilities: Sequence[str] | None
) -> Examined:
    """The columns of some cases; their texts are the variants from `first_row` on, then the second texts of pairs."""
    places: dict[tuple[str, str, bool | None], int] = {}
    cells: list[Cell] = []
    of_unit = []
    for unit in suite.units:
        key = (unit.capability.id, unit.test.id, unit.template.label)
        if key not in places:
            places[key] = len(cells)
            label = unit.template.label
            title = unit.capability.title or unit.capability.id.replace("_", " ").capitalize()
            cells.append(
                Cell(unit.capability.id, title, unit.capability.part, unit.test, suite.labels.name(label), label)
            )
        of_unit.append(places[key])
    used, cell = np.unique(np.array(of_unit, dtype=np.int64)[cases.unit], return_inverse=True)
    names, template = np.unique(np.array(cases.names("template"), dtype=object), return_inverse=True)
    changes, change = np.unique(np.array(cases.names("change"), dtype=object), return_inverse=True)
    pairs = np.array([bool(text) for text in cases.changed], dtype=bool)
    second = np.full(len(cases), -1, dtype=np.int64)
    second[pairs] = first_row + len(cases) + np.arange(int(pairs.sum()))
    chosen = set(capabilities or ())
    return Examined(
        suite=suite.name,
        positive=suite.labels.positive,
        negative=suite.labels.negative,
        fingerprint=fingerprint(suite),
        cells=tuple(cells[int(k)] for k in used),
        cell=cell.astype(np.int64),
        templates=tuple(map(str, names)),
        template=template.astype(np.int64),
        change=change.astype(np.int64),
        changes=tuple(map(str, changes)),
        first=first_row + np.arange(len(cases), dtype=np.int64),
        second=second,
        slots=_slots(cases, training),
        n_training=None if training is None else len(training),
        dropped=tuple(
            f"{name} ({f'{under}: ' if under else ''}{reason})"
            for name, under, reason in suite.dropped
            if not chosen or _capability_of(suite, name) in chosen
        ),
    )


def _capability_of(suite: Suite, template: str) -> str:
    return next(unit.capability.id for unit in suite.units if unit.template.id == template)


def _slots(cases: Cases, training: Sequence[str] | None) -> dict[str, SlotUse]:
    """The slots that the cases fill, in the suite's order, with how often each value is in the training notes."""
    found: dict[str, tuple[tuple[str, ...], Ints]] = {}
    for slot, index in cases.fill.items():
        used = np.unique(index[index >= 0])
        if not len(used):
            continue
        code = np.full(len(cases), -1, dtype=np.int64)
        code[index >= 0] = np.searchsorted(used, index[index >= 0])
        entries = cases.lexicons[slot].entries
        found[slot] = (tuple(entries[int(k)].value for k in used), code)
    counted = _mentions({value for values, _ in found.values() for value in values}, training or ())
    return {
        slot: SlotUse(values, code, *(np.array([counted[value][k] for value in values]) for k in (0, 1)))
        for slot, (values, code) in found.items()
    }


def _mentions(values: set[str], texts: Sequence[str]) -> dict[str, tuple[int, int]]:
    """How often each value is in the texts, in any case and exactly as it is."""
    spelled = {value: normalise_word(value) for value in values}
    words = sorted({word for word in spelled.values() if any(map(str.isalnum, word))})
    if not texts or not words:
        return dict.fromkeys(values, (0, 0))
    hits = find_words(texts, words, occurrences="all")
    n = np.bincount(hits.word, minlength=len(words))
    written: dict[str, int] = {}
    for text, start, end in zip(hits.text.tolist(), hits.start.tolist(), hits.end.tolist(), strict=True):
        form = texts[text][start:end]
        written[form] = written.get(form, 0) + 1
    place = {word: k for k, word in enumerate(words)}
    return {
        value: (int(n[place[word]]) if word in place else 0, written.get(value, 0)) for value, word in spelled.items()
    }


def fingerprint(suite: Suite) -> str:
    """Changes when a sentence, a label, a rule, a relation or a value of the suite does."""
    digest = hashlib.blake2b(digest_size=16)
    for unit in suite.units:
        rule = unit.test.type, unit.test.tolerance, unit.test.direction, unit.test.margin, unit.test.all_variations
        place = unit.capability.id, unit.capability.part, unit.test.id, unit.template.id, unit.template.label
        sizes = sorted(unit.test.sizes.items())
        digest.update(repr((place, rule, sizes, unit.change, unit.variations, unit.changed)).encode())
    for slot, lexicon in sorted(suite.lexicons.items()):
        entries = [(entry.value, entry.article, sorted(entry.attributes.items())) for entry in lexicon.entries]
        digest.update(repr((slot, entries)).encode())
    digest.update(repr((suite.labels, suite.relations, sorted(suite.sizes.items()))).encode())
    return digest.hexdigest()
