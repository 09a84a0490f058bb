"""Small vocabulary audits built by hand: notes, swaps as the audit's plan would make them, and models' predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import polars as pl

from palpate.audits.vocabulary.plan import BLANK, REMOVED, PlannedSwaps, Swaps
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Inputs, VariantsBuilder
from palpate.models import Model
from palpate.results import ModelPredictions, Plan, Predictions

SUBSTITUTES = {"uniform": ("alpha", "beta", "gamma"), "context": ("delta",)}


class Case(NamedTuple):
    plan: Plan[PlannedSwaps]

    @property
    def swaps(self) -> Swaps:
        return self.plan.memory.swaps

    def with_swaps(self, **changes: object) -> Case:
        """The same with other columns of its swaps."""
        return Case(replace(self.plan, memory=self.plan.memory._replace(swaps=replace(self.swaps, **changes))))

    def ask(self, models: Mapping[str, Model], *, ensembles: Mapping[str, str] | None = None) -> Predictions:
        """What the runner would hand to the audit; `ensembles` says which model is a member of which."""
        variants, cohort = self.plan.variants, self.plan.cohort
        inputs = Inputs(
            parent=variants.parent,
            first_edit=variants.first_edit,
            start=variants.start,
            end=variants.end,
            replacement=variants.replacement,
            replacements=variants.replacements,
            parents=cohort.texts,
            case_ids=[""] * len(variants),
            cohorts=[""] * len(variants),
        )
        answers = {}
        for name, model in models.items():
            ends = model.visible_ends(cohort.texts)[variants.parent]
            first = np.array([min((e.start for e in variants.edits(row)), default=-1) for row in range(len(variants))])
            answers[name] = ModelPredictions(
                self.plan.labels, model.predict(inputs), first < ends, ensemble=(ensembles or {}).get(name)
            )
        return Predictions(answers)


def hospital(texts: Sequence[str], *, labels: Sequence[str] = ("ill",), per_patient: int = 2, seed: int = 0) -> Cohort:
    """Notes with labels by lot; the first fifth is the validation split."""
    rng = np.random.default_rng(seed)
    n = len(texts)
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k // per_patient}" for k in range(n)],
            "split": ["validation" if k // per_patient < n // per_patient // 5 else "test" for k in range(n)],
            "text": texts,
        }
    )
    y = {label: rng.permutation(np.arange(n) % 2) for label in labels}
    return Cohort.from_frame(frame.with_columns(**{k: pl.Series(v) for k, v in y.items()}), labels=list(labels))


def build(
    cohort: Cohort,
    words: Sequence[str],
    *,
    substitutes: Mapping[str, Sequence[str]] = SUBSTITUTES,
    both_schemes: bool = True,
) -> Case:
    """Every word in every test note that has it, swapped for every substitute and taken out; slow and obvious."""
    rows = cohort.rows(split="test")
    validation = cohort.rows(split="validation")
    builder = VariantsBuilder(len(cohort))
    original = np.full(len(cohort), -1)
    for row in rows:
        original[row] = builder.add(int(row), "original")
    columns: list[tuple[int, int, int, int, int]] = []
    n_occurrences, n_notes = np.zeros(len(words), int), np.zeros(len(words), int)
    for w, word in enumerate(words):
        for row in rows:
            found = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", cohort.texts[row], re.I)]
            n_occurrences[w] += len(found)
            n_notes[w] += bool(found)
            for scheme, spans in ((0, found[:1]), (1, found if both_schemes else [])):
                for f, name in enumerate(substitutes):
                    for text in substitutes[name] if spans else ():
                        edits = [Edit(start, end, text) for start, end in spans]
                        columns.append((w, row, f, scheme, builder.add(int(row), "swap", edits)))
            if found:
                edits = [Edit(start, end, BLANK) for start, end in found]
                columns.append((w, row, -1, REMOVED, builder.add(int(row), "removal", edits)))
    first = len(builder._parent)
    for row in validation:
        builder.add(int(row), "validation")
    word, note, number, scheme, variant = np.array(columns, dtype=np.int64).reshape(-1, 5).T
    swaps = Swaps(
        words=tuple(words),
        filters=tuple(substitutes),
        word=word,
        note=note,
        filter=number,
        schemes=("first occurrence", "all occurrences"),
        scheme=scheme,
        variant=variant,
        original=original,
        n_occurrences=n_occurrences,
        n_notes=n_notes,
        reasons=tuple("in no note" if n == 0 else None for n in n_notes),
    )
    candidates = SimpleNamespace(origin={})  # all that an analysis needs of them
    memory = PlannedSwaps(candidates, swaps, n_notes, 1, slice(first, first + len(validation)))  # type: ignore[arg-type]
    return Case(Plan(cohort, builder.build(), cohort.labels, cases=rows, memory=memory))


def random_notes(n: int, words: Sequence[str], *, seed: int = 0, chance: float = 0.5) -> list[str]:
    """Notes in which each word stands once, twice or not at all, among fillers."""
    rng = np.random.default_rng(seed)
    notes = []
    for _ in range(n):
        chosen = [word for word in words for _ in range(rng.integers(1, 3)) if rng.random() < chance]
        notes.append(" ".join(rng.permutation([*chosen, "rest", "walks", "eats"])) + ".")
    return notes
