"""`Suite`: the counts, the default run and the samples of a template suite (ADE template paper, sections 3 and 4.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.errors import ConfigError
from palpate.perturb.suites.cases import SuiteCases, write_texts
from palpate.perturb.suites.expansion import ExpansionError, Factor, Ints, Unit, build_unit
from palpate.perturb.suites.lexicons import Attribute, Lexicon
from palpate.perturb.suites.patterns import Slot
from palpate.perturb.suites.schema import Capability, Change, SlotRelation, SuiteLabels, Template, Test

DEFAULT_SIZE = 10
"""Values of a slot in a default run, unless the suite gives a size."""
MOST_CASES = 2**62
DEFAULT_LABELS = SuiteLabels()


class Dropped(NamedTuple):
    """A template that can't be filled with the values that were chosen, and why."""

    template: str
    change: str
    reason: str


@dataclass(frozen=True, eq=False, repr=False)
class Suite:
    """A template suite: one of palpate's own (`load_suite`) or a user's (`data.suites`); never changed."""

    name: str
    capabilities: tuple[Capability, ...]
    lexicons: Mapping[str, Lexicon]
    """The values that may fill each slot."""
    relations: tuple[SlotRelation, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    labels: SuiteLabels = DEFAULT_LABELS
    title: str = ""
    about: str = ""
    choose: tuple[str, ...] = ()
    """Slots that the user is expected to fill, such as the finding that the model detects."""
    file: Path | None = None
    classes: tuple[str, ...] = ()
    """More than two labels: the names that `labels: {classes: ...}` or `labels: {each: ...}` gives."""
    language: str = "en"
    pair_sizes: Mapping[str, int] = field(default_factory=dict)
    """The user's sizes for slots without a size of their own: the number of pairs that are drawn with another slot."""

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.templates)} base templates)"

    def __str__(self) -> str:
        """Its file, or its name: what the saved spec of an audit says of its suite."""
        return str(self.file or self.name)

    @cached_property
    def _built(self) -> tuple[tuple[Unit, ...], tuple[Dropped, ...]]:
        units: list[Unit] = []
        dropped: list[Dropped] = []
        for place, change in self._places():
            try:
                unit = build_unit(place, change, self.lexicons, self.relations)
            except ExpansionError as error:
                raise self._error(place[2], str(error)) from None
            units.append(unit)
            for factor in unit.factors:
                if len(factor) == 0:
                    slots = " and ".join(f"'{slot}'" for slot in factor.slots)
                    dropped.append(Dropped(unit.template.id, unit.change, f"no value fits slot {slots}"))
        total = sum(unit.size for unit in units)
        if total > MOST_CASES:
            raise ConfigError(f"the suite has {total:.1e} cases, more than can be counted", file=self.file)
        return tuple(units), tuple(dropped)

    def _places(self) -> Iterator[tuple[tuple[Capability, Test, Template], Change | None]]:
        for capability in self.capabilities:
            for test in capability.tests:
                for template in test.templates:
                    if not test.changes or template.to is not None or template.listed_to:
                        yield (capability, test, template), None
                    for change in test.changes:
                        yield (capability, test, template), change

    def _error(self, template: Template, problem: str) -> ConfigError:
        line = f"line {template.line}: " if template.line else ""
        return ConfigError(f"{line}template '{template.id}': {problem}", file=template.file or self.file)

    @property
    def units(self) -> tuple[Unit, ...]:
        """Templates × changes, in the order of their case numbers."""
        return self._built[0]

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """Templates that none of the chosen values fit; they have no cases."""
        return self._built[1]

    @property
    def templates(self) -> tuple[Template, ...]:
        """All base templates."""
        return tuple(t for capability in self.capabilities for test in capability.tests for t in test.templates)

    @cached_property
    def _starts(self) -> Ints:
        return np.concatenate([[0], np.cumsum([unit.size for unit in self.units], dtype=np.int64)]).astype(np.int64)

    def label_of(self, template: Template) -> str:
        """The right answer of a template in the suite's words; empty for none."""
        return template.wanted.name if template.wanted is not None else self.labels.name(template.label)

    def with_slots(self, values: Mapping[str, str | Sequence[str | Mapping[str, Attribute]]]) -> Suite:
        """The suite with other values for some slots; a value that the lexicon knows keeps its attributes."""
        lexicons = dict(self.lexicons)
        for slot, given in values.items():
            if slot not in lexicons:
                raise ConfigError(
                    f"suite '{self.name}' has no slot '{slot}'", hint=f"its slots are: {', '.join(lexicons) or 'none'}"
                )
            lexicons[slot] = lexicons[slot].with_values([given] if isinstance(given, str) else given)
        for tie in self.relations:
            # If the user chooses "PNA", "pneumonia" must not be the other finding.
            for slot, other in ((tie.first, tie.second), (tie.second, tie.first)):
                if tie.kind == "different" and slot in values and other not in values:
                    lexicons[other] = lexicons[other].without(lexicons[slot])
        chosen = tuple(slot for slot in self.choose if slot not in values)
        return replace(self, lexicons=lexicons, choose=chosen)

    def without_tags(self, tags: Collection[str]) -> Suite:
        """The suite without the templates that have one of these tags, and without tests that are then empty."""
        capabilities = []
        for capability in self.capabilities:
            tests = [
                replace(test, templates=tuple(t for t in test.templates if not set(t.tags) & set(tags)))
                for test in capability.tests
            ]
            kept = tuple(test for test in tests if test.templates)
            if kept:
                capabilities.append(replace(capability, tests=kept))
        if not capabilities:
            raise ConfigError(f"every template of suite '{self.name}' has one of the tags {', '.join(sorted(tags))}")
        return replace(self, capabilities=tuple(capabilities))

    def with_sizes(self, sizes: Mapping[str, int]) -> Suite:
        """The suite with other numbers of values per slot in its default run.

        A number for a slot that is drawn with another and has none of its own, such as `longer`, is that of the pairs.
        """
        for slot in sizes:
            if slot not in self.lexicons:
                raise ConfigError(
                    f"suite '{self.name}' has no slot '{slot}'", hint=f"its slots are: {', '.join(self.lexicons)}"
                )
        pairs = {slot: n for slot, n in sizes.items() if slot not in self.sizes or slot in self.pair_sizes}
        for tie in self.relations:
            if {tie.first, tie.second} <= set(pairs) and pairs[tie.first] != pairs[tie.second]:
                problem = f"slots '{tie.first}' and '{tie.second}' are drawn together but have two sizes"
                raise ConfigError(problem, hint="give the number of pairs once")
        return replace(self, sizes={**self.sizes, **sizes}, pair_sizes={**self.pair_sizes, **pairs})

    def chosen(self, capabilities: Collection[str] | None, *, further: bool) -> list[int]:
        """The units of some capabilities; without names, the main ones and on request the further ones."""
        known = {capability.id for capability in self.capabilities}
        for name in capabilities or ():
            if name not in known:
                raise ConfigError(
                    f"suite '{self.name}' has no capability '{name}'", hint=f"its capabilities are: {', '.join(known)}"
                )
        return [
            at
            for at, unit in enumerate(self.units)
            if (unit.capability.id in capabilities if capabilities else further or unit.capability.part == "main")
        ]

    def size(self, *, full: bool = True, capabilities: Collection[str] | None = None, further: bool = False) -> int:
        """The number of cases: of all variations with all fill-ins, or of the default run."""
        units = [self.units[at] for at in self.chosen(capabilities, further=further)]
        return sum(unit.size if full else self._default_size(unit) for unit in units)

    def _default_size(self, unit: Unit) -> int:
        n = len(unit.variations) if unit.test.all_variations else 1
        for factor in unit.factors:
            n *= self._sample_size(unit.test, factor)
        return n

    def _sample_size(self, test: Test, factor: Factor) -> int:
        asked = [self.pair_sizes[slot] for slot in factor.slots if slot in self.pair_sizes]
        if asked:
            return min(asked[0], len(factor))
        wanted = factor.sample
        if len(factor.slots) == 1 or wanted is None:
            wanted = next((self.sizes[slot] for slot in factor.slots if slot in self.sizes), DEFAULT_SIZE)
        given = [test.sizes[slot] for slot in factor.slots if slot in test.sizes]
        return min(given[0] if given else wanted, len(factor))

    def default_cases(
        self, rng: np.random.Generator, *, capabilities: Collection[str] | None = None, further: bool = False
    ) -> SuiteCases:
        """The default run: one variation per base template, and the same few values of a slot in all of them.

        A test with `variations: all` is run with all its variations. The draws are made for the whole suite, so a
        capability's cases are the same whether it runs alone or with others.
        """
        ranks = {slot: rng.permutation(len(lexicon)) for slot, lexicon in sorted(self.lexicons.items())}
        tied: dict[tuple[tuple[str, ...], bytes], Ints] = {}
        numbers: list[Ints] = []
        wanted = set(self.chosen(capabilities, further=further))
        for at, unit in enumerate(self.units):
            variations = range(len(unit.variations))
            drawn = [int(rng.integers(len(variations)))]
            rows = []
            for factor in unit.factors:
                if len(factor.slots) == 1:
                    order = np.argsort(ranks[factor.slots[0]][factor.rows[:, 0]], kind="stable")
                else:
                    key = (factor.slots, factor.rows.tobytes())
                    order = tied[key] = tied[key] if key in tied else rng.permutation(len(factor))
                rows.append(np.sort(order[: self._sample_size(unit.test, factor)]))
            if at in wanted:
                chosen = variations if unit.test.all_variations else drawn
                numbers.append(self._starts[at] + unit.encode(chosen, rows))
        return self.cases(np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64))

    def sample(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        capabilities: Collection[str] | None = None,
        further: bool = False,
        balance: Literal["case", "template"] = "case",
    ) -> SuiteCases:
        """`n` distinct cases of the full expansion: all cases equally likely, or all base templates equally often."""
        return self.cases(self.draw(n, rng, capabilities=capabilities, further=further, balance=balance))

    def sample_batches(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        batch: int = 10_000,
        capabilities: Collection[str] | None = None,
        further: bool = False,
        balance: Literal["case", "template"] = "case",
    ) -> Iterator[SuiteCases]:
        """The same cases as `sample` in batches, for samples whose texts do not fit into memory."""
        numbers = self.draw(n, rng, capabilities=capabilities, further=further, balance=balance)
        for start in range(0, len(numbers), batch):
            yield self.cases(numbers[start : start + batch])

    def draw(
        self,
        n: int,
        rng: np.random.Generator,
        *,
        capabilities: Collection[str] | None = None,
        further: bool = False,
        balance: Literal["case", "template"] = "case",
    ) -> Ints:
        """The numbers of `n` distinct cases, in random order; all of them if there are fewer."""
        units = [at for at in self.chosen(capabilities, further=further) if self.units[at].size]
        sizes = np.array([self.units[at].size for at in units], dtype=np.int64)
        if balance == "template":
            quotas = self._quotas(units, sizes, n, rng)
            drawn = [_distinct(rng, int(size), int(quota)) for size, quota in zip(sizes, quotas, strict=True)]
            numbers = [self._starts[at] + local for at, local in zip(units, drawn, strict=True)]
            return rng.permutation(np.concatenate([np.zeros(0, dtype=np.int64), *numbers]))
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        local = _distinct(rng, total, min(n, total))
        which = np.searchsorted(ends, local, side="right")
        shift = self._starts[np.array(units, dtype=np.int64)] - (ends - sizes)
        return local + shift[which] if total else local

    def _quotas(self, units: Sequence[int], sizes: Ints, n: int, rng: np.random.Generator) -> Ints:
        """How many cases of each unit make `n`: the same number per base template, and within it per change."""
        rows: dict[str, list[int]] = {}
        for row, at in enumerate(units):
            rows.setdefault(self.units[at].template.id, []).append(row)
        shares = _even(np.array([sizes[mine].sum() for mine in rows.values()], dtype=np.int64), n, rng)
        quotas = np.zeros_like(sizes)
        for mine, share in zip(rows.values(), shares.tolist(), strict=True):
            quotas[mine] = _even(sizes[mine], share, rng)
        return quotas

    def cases(self, numbers: Sequence[int] | Ints) -> SuiteCases:
        """The cases with these numbers, in this order."""
        number = np.asarray(numbers, dtype=np.int64)
        if len(number) and (number.min() < 0 or number.max() >= self._starts[-1]):
            raise ValueError(f"case numbers of suite '{self.name}' run from 0 to {int(self._starts[-1]) - 1}")
        unit = np.searchsorted(self._starts, number, side="right") - 1
        n = len(number)
        variation = np.zeros(n, dtype=np.int64)
        fill = {slot: np.full(n, -1, dtype=np.int64) for slot in self.lexicons}
        texts, changed = [""] * n, [""] * n
        order = np.argsort(unit, kind="stable")
        starts = np.flatnonzero(np.diff(unit[order], prepend=-1))
        for rows in np.split(order, starts[1:]) if n else ():
            at = int(unit[rows[0]])
            decoded = self.units[at].decode(number[rows] - self._starts[at])
            variation[rows] = decoded.variation
            for slot, index in decoded.fill.items():
                fill[slot][rows] = index
            written = write_texts(self.units[at], decoded.variation, decoded.fill, self._written)
            for place, text, second in zip(rows.tolist(), *written, strict=True):
                texts[place], changed[place] = text, second
        return SuiteCases(self.units, self.lexicons, number, unit.astype(np.int64), variation, fill, texts, changed)

    def _written(self, slot: Slot) -> NDArray[np.object_]:
        """Every value of a slot's lexicon in a form."""
        if slot not in self._tables:
            entries = self.lexicons[slot.name].entries
            self._tables[slot] = np.array([*(entry.written(slot.form) for entry in entries), None], dtype=object)[:-1]
        return self._tables[slot]

    @cached_property
    def _tables(self) -> dict[Slot, NDArray[np.object_]]:
        return {}

    def describe(self) -> pl.DataFrame:
        """One row per test and label: base templates, variations, cases of the default run and the full expansion."""
        rows: dict[tuple[str, str, str], dict[str, object]] = {}
        seen: set[str] = set()
        for unit in self.units:
            label = self.label_of(unit.template)
            row = rows.setdefault(
                (unit.capability.id, unit.test.id, label),
                {
                    "capability": unit.capability.id,
                    "part": unit.capability.part,
                    "test": unit.test.id,
                    "type": unit.test.type,
                    "label": label,
                    "templates": 0,
                    "variations": 0,
                    "default_cases": 0,
                    "all_cases": 0,
                },
            )
            new = unit.template.id not in seen
            seen.add(unit.template.id)
            added = (new, len(unit.variations) * new, self._default_size(unit), unit.size)
            for key, value in zip(("templates", "variations", "default_cases", "all_cases"), added, strict=True):
                row[key] = int(str(row[key])) + int(value)
        return pl.DataFrame(list(rows.values()))


def _distinct(rng: np.random.Generator, population: int, n: int) -> Ints:
    """Distinct numbers below `population`, in random order; numpy uses Floyd's method, so only `n` needs memory."""
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    return np.asarray(rng.choice(population, size=n, replace=False), dtype=np.int64)


def _even(sizes: Ints, n: int, rng: np.random.Generator) -> Ints:
    """Quotas as even as the sizes allow; the remainder goes to randomly drawn units."""
    quotas = np.zeros_like(sizes)
    left = min(n, int(sizes.sum()))
    while left > 0:
        open_units = rng.permutation(np.flatnonzero(quotas < sizes))
        share = np.zeros_like(sizes)
        share[open_units] = left // len(open_units)
        share[open_units[: left % len(open_units)]] += 1
        added = np.minimum(share, sizes - quotas)
        quotas, left = quotas + added, left - int(added.sum())
    return quotas
