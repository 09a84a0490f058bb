"""Lazy expansion: every case of a suite has a number, and the number is all that is needed to write it.

A unit is a base template under one change (or under none). Its cases are variations × fill-ins, counted in mixed
radix: variation first, then one digit per factor. A factor is a slot, or the slots that a relation connects,
together, with the list of values that they may have at the same time. So the cases of a suite are the numbers from 0 to
N - 1, nothing is kept in memory, and relations are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.perturb.suites.lexicons import Lexicon, LexiconEntry
from palpate.perturb.suites.patterns import Flat
from palpate.perturb.suites.schema import Capability, Change, SlotRelation, Template, Test, changed_variations

Ints = NDArray[np.int64]
MOST_COMBINATIONS = 20_000_000
"""Limit for slots that relations connect: their combinations are listed, all others are only counted."""


class ExpansionError(ValueError):
    """A template that can't be filled; the message is a sentence without file and line."""


@dataclass(frozen=True, eq=False)
class Factor:
    """Slots that are filled together; a row of `rows` is one way to do so, as indices into their lexicons."""

    slots: tuple[str, ...]
    rows: Ints
    sample: int | None = None

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Unit:
    """A base template under one change, ready to be counted and written."""

    capability: Capability
    test: Test
    template: Template
    change: str
    variations: tuple[Flat, ...]
    changed: tuple[Flat, ...]
    factors: tuple[Factor, ...]

    @cached_property
    def n_fillings(self) -> int:
        """The number of ways to fill the slots."""
        return prod(len(factor) for factor in self.factors)

    @cached_property
    def size(self) -> int:
        """The number of cases."""
        return len(self.variations) * self.n_fillings

    def decode(self, local: Ints) -> Decoded:
        """Variation and fill-ins of case numbers, which count from 0 within the unit."""
        fill: dict[str, Ints] = {}
        for factor in reversed(self.factors):
            local, digit = np.divmod(local, max(len(factor), 1))
            for column, slot in enumerate(factor.slots):
                fill[slot] = factor.rows[digit, column]
        return Decoded(local, fill)

    def encode(self, variations: Sequence[int], chosen: Sequence[Ints]) -> Ints:
        """The case numbers of some variations with the full product of some rows of each factor."""
        numbers = np.asarray(variations, dtype=np.int64)
        for factor, rows in zip(self.factors, chosen, strict=True):
            numbers = (numbers[:, None] * len(factor) + rows[None, :]).ravel()
        return numbers


class Decoded(NamedTuple):
    """Variation of each case, and for each slot the index into its lexicon."""

    variation: Ints
    fill: dict[str, Ints]


def build_unit(
    place: tuple[Capability, Test, Template],
    change: Change | None,
    lexicons: Mapping[str, Lexicon],
    relations: Sequence[SlotRelation],
) -> Unit:
    """Prepare a template; raises `ExpansionError` for unknown slots, and if its variations use different slots."""
    capability, test, template = place
    variations = template.variations()
    changed = changed_variations(template, change) if test.type != "MFT" else ()
    if changed and len(changed) != len(variations):
        raise ExpansionError(f"`to` has {len(changed)} variations, but the text has {len(variations)}")
    same = next((flat for flat, other in zip(variations, changed, strict=False) if flat == other), None)
    if same is not None:
        name = f"change '{change.name}'" if change else "`to`"
        raise ExpansionError(f"{name} does not change the text: '{same.written()}'")
    forms = _forms_used(variations, changed)
    for slot in forms:
        if slot not in lexicons:
            raise ExpansionError(f"slot '{slot}' has no lexicon")
    domains = {slot: _domain(slot, used, lexicons[slot], change) for slot, used in forms.items()}
    factors = tuple(_factor(group, domains, lexicons, ties) for group, ties in _tied(list(forms), relations))
    return Unit(capability, test, template, change.name if change else "", variations, changed, factors)


def _forms_used(variations: Sequence[Flat], changed: Sequence[Flat]) -> dict[str, set[str]]:
    """The slots of a template in the order of their first use, with the forms that it uses."""
    expected: set[str] | None = None
    forms: dict[str, set[str]] = {}
    for at, flat in enumerate(variations):
        slots = list(flat.slots) + list(changed[at].slots if changed else ())
        for name, form in slots:
            forms.setdefault(name, set()).add(form)
        names = {name for name, _ in slots}
        if expected is not None and names != expected:
            odd = sorted(names ^ expected)[0]
            raise ExpansionError(f"slot '{odd}' is only in some variations; all must use the same slots")
        expected = names
    return forms


def _domain(slot: str, forms: set[str], lexicon: Lexicon, change: Change | None) -> Ints:
    """The values that have all these forms, and that the change alters."""
    target = change.replace.get(slot) if change else None

    def fits(entry: LexiconEntry) -> bool:
        if any(entry.written(form) is None for form in forms):
            return False
        same_slot = target is not None and target.name == slot
        return not (same_slot and target is not None and entry.written(target.form) == entry.value)

    return np.array([at for at, entry in enumerate(lexicon.entries) if fits(entry)], dtype=np.int64)


def _tied(slots: list[str], relations: Sequence[SlotRelation]) -> list[tuple[list[str], list[SlotRelation]]]:
    """Groups of slots that no relation crosses, each with its relations, in order of first use."""
    inside = [tie for tie in relations if tie.first in slots and tie.second in slots]
    group_of = {slot: at for at, slot in enumerate(slots)}
    for tie in inside:
        old, new = sorted((group_of[tie.first], group_of[tie.second]), reverse=True)
        group_of = {slot: new if group == old else group for slot, group in group_of.items()}
    groups: dict[int, list[str]] = {}
    for slot in slots:
        groups.setdefault(group_of[slot], []).append(slot)
    # Sorted, so that a template's order of words does not change which pairs a default run draws.
    return [(sorted(group), [tie for tie in inside if tie.first in group]) for group in groups.values()]


def _factor(
    slots: list[str], domains: Mapping[str, Ints], lexicons: Mapping[str, Lexicon], ties: Sequence[SlotRelation]
) -> Factor:
    """All ways to fill some slots that the relations allow; slot by slot, so that only few are ever listed."""
    rows = domains[slots[0]][:, None]
    for at, slot in enumerate(slots[1:], start=1):
        domain = domains[slot]
        if len(rows) * len(domain) > MOST_COMBINATIONS:
            raise ExpansionError(f"the relations of slot '{slot}' allow more than {MOST_COMBINATIONS:,} combinations")
        crossed = [np.repeat(rows, len(domain), axis=0), np.tile(domain, len(rows))[:, None]]
        rows = np.hstack(crossed)
        present = slots[: at + 1]
        for tie in ties:
            if slot in (tie.first, tie.second) and tie.first in present and tie.second in present:
                rows = rows[_holds(tie, rows, present, lexicons)]
    samples = [tie.sample for tie in ties if tie.sample is not None]
    return Factor(tuple(slots), rows, min(samples) if samples else None)


def _holds(tie: SlotRelation, rows: Ints, slots: list[str], lexicons: Mapping[str, Lexicon]) -> NDArray[np.bool_]:
    sides = [(rows[:, slots.index(slot)], lexicons[slot]) for slot in (tie.first, tie.second)]
    if tie.kind == "different":
        codes: dict[object, int] = {}
        first, second = (
            np.array([codes.setdefault(entry.attribute(tie.by), len(codes)) for entry in lexicon.entries])[index]
            for index, lexicon in sides
        )
        return np.asarray(first != second)
    first, second = (np.array([_amount(entry, tie) for entry in lexicon.entries])[index] for index, lexicon in sides)
    return np.asarray((first > second) & (first >= tie.ratio * second))


def _amount(entry: LexiconEntry, tie: SlotRelation) -> float:
    value = entry.attribute(tie.by)
    if not isinstance(value, float):
        raise ExpansionError(f"'{entry.value}' has no number '{tie.by}', by which a relation compares it")
    return value
