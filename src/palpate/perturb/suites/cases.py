"""Cases of a suite: in columns for an audit, one by one for a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.perturb.suites.expansion import Ints, Unit
from palpate.perturb.suites.lexicons import Lexicon
from palpate.perturb.suites.patterns import Flat, Slot
from palpate.perturb.suites.schema import TestType

Writer = Callable[[Slot], NDArray[np.object_]]


class Filled(NamedTuple):
    """A slot of a text: the lexicon's value, the entry that it is a spelling of, and its position."""

    slot: str
    value: str
    head: str
    start: int
    end: int


class Case(NamedTuple):
    """One case. `label` is None if only the change counts; `changed` is the second text of an INV or DIR pair."""

    number: int
    text: str
    label: bool | None
    capability: str
    test: str
    type: TestType
    template: str
    variation: int
    change: str
    changed: str | None
    slots: tuple[Filled, ...]
    changed_slots: tuple[Filled, ...]
    tags: tuple[str, ...]
    wanted: str = ""
    """The right answer where a suite has more than two labels."""


@dataclass(frozen=True, eq=False)
class SuiteCases(Sequence[Case]):
    """Cases in columns.

    `unit` is an index into `units`; `fill` has for each slot the index into its lexicon, or -1. `changed` is empty if
    the case is not a pair.
    """

    units: tuple[Unit, ...]
    lexicons: Mapping[str, Lexicon]
    number: Ints
    unit: Ints
    variation: Ints
    fill: Mapping[str, Ints]
    texts: list[str]
    changed: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def label(self) -> Ints:
        """1, 0, or -1 if the template has no label."""
        return self._of_units([-1 if unit.template.label is None else int(unit.template.label) for unit in self.units])

    @property
    def template(self) -> Ints:
        """The number of the base template, which is the same for all changes of a template."""
        codes: dict[str, int] = {}
        return self._of_units([codes.setdefault(unit.template.id, len(codes)) for unit in self.units])

    def names(self, what: str) -> list[str]:
        """A name for each case: `capability`, `test`, `type`, `template` or `change`."""
        read: dict[str, Callable[[Unit], str]] = {
            "capability": lambda unit: unit.capability.id,
            "test": lambda unit: unit.test.id,
            "type": lambda unit: unit.test.type,
            "template": lambda unit: unit.template.id,
            "change": lambda unit: unit.change,
        }
        names = [read[what](unit) for unit in self.units]
        return [names[at] for at in self.unit.tolist()]

    def values(self, slot: str, *, heads: bool = False) -> list[str | None]:
        """The value of a slot in each case; with `heads`, the entry that the value is a spelling of."""
        entries = self.lexicons[slot].entries
        words = [entry.head if heads else entry.value for entry in entries]
        return [words[at] if at >= 0 else None for at in self.fill[slot].tolist()]

    def _of_units(self, values: list[int]) -> Ints:
        return np.array(values, dtype=np.int64)[self.unit]

    def __getitem__(self, row: int) -> Case:  # type: ignore[override]
        if isinstance(row, slice):
            raise TypeError("take one case at a time, or use the columns")
        unit = self.units[int(self.unit[row])]
        variation = int(self.variation[row])
        changed = unit.changed[variation] if unit.changed else None
        return Case(
            number=int(self.number[row]),
            text=self.texts[row],
            label=unit.template.label,
            capability=unit.capability.id,
            test=unit.test.id,
            type=unit.test.type,
            template=unit.template.id,
            variation=variation,
            change=unit.change,
            changed=self.changed[row] if changed else None,
            slots=tuple(self._spans(unit.variations[variation], row)),
            changed_slots=tuple(self._spans(changed, row)) if changed else (),
            tags=unit.template.tags,
            wanted=unit.template.wanted.name if unit.template.wanted is not None else "",
        )

    def _spans(self, flat: Flat, row: int) -> Iterator[Filled]:
        at = 0
        for piece, slot in zip(flat.pieces, flat.slots, strict=False):
            entry = self.lexicons[slot.name].entries[int(self.fill[slot.name][row])]
            written = entry.written(slot.form) or ""
            at += len(piece)
            yield Filled(slot.name, entry.value, entry.head, at, at + len(written))
            at += len(written)


def write_texts(unit: Unit, variation: Ints, fill: Mapping[str, Ints], writer: Writer) -> tuple[list[str], list[str]]:
    """The texts of some cases of one unit, and their second texts; each variation is written in one pass."""
    texts, changed = [""] * len(variation), [""] * len(variation)
    order = np.argsort(variation, kind="stable")
    starts = np.flatnonzero(np.diff(variation[order], prepend=-1))
    for rows in np.split(order, starts[1:]) if len(order) else ():
        which = int(variation[rows[0]])
        places = rows.tolist()
        for at, text in zip(places, _sweep(unit.variations[which], rows, fill, writer), strict=True):
            texts[at] = text
        if unit.changed:
            for at, text in zip(places, _sweep(unit.changed[which], rows, fill, writer), strict=True):
                changed[at] = text
    return texts, changed


def _sweep(flat: Flat, rows: Ints, fill: Mapping[str, Ints], writer: Writer) -> Iterator[str]:
    n = len(rows)
    columns: list[Iterator[str]] = [repeat(flat.pieces[0], n)]
    for slot, piece in zip(flat.slots, flat.pieces[1:], strict=True):
        columns.append(iter(writer(slot)[fill[slot.name][rows]].tolist()))
        columns.append(repeat(piece, n))
    return map("".join, zip(*columns, strict=True))
