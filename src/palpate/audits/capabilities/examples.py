"""The failing sentences worth reading: the surest mistakes of each test, from different templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.analysis import Answered, Memory
from palpate.audits.capabilities.measures import Floats
from palpate.audits.capabilities.plan import Examined
from palpate.results import Plan


class Failure(NamedTuple):
    """One sentence, or pair of sentences, that a model gets wrong."""

    model: str
    cell: int
    template: str
    change: str
    p: float
    p_changed: float | None
    text: str
    changed: str


def failures(plan: Plan, answered: Answered, models: Sequence[str], n: int) -> list[Failure]:
    """At most `n` for each model and cell, the surest mistake first, each from another template."""
    memory: Memory = plan.memory
    examined = memory.examined
    out = []
    for name in models:
        m = answered.models.index(name)
        p = answered.p[m]
        wrong = _wrongness(examined, p)
        for k, cell in enumerate(examined.cells):
            if cell.test.type == "MFT" and not answered.decides[m]:
                continue
            failed = np.flatnonzero((examined.cell == k) & (answered.passed[m] < 0.5))
            ordered = failed[np.argsort(-wrong[failed], kind="stable")]
            _, first = np.unique(examined.template[ordered], return_index=True)
            for case in ordered[np.sort(first)][:n].tolist():
                text, changed = examined.texts(plan.variants, case)
                second = int(examined.second[case])
                out.append(
                    Failure(
                        model=name,
                        cell=k,
                        template=examined.templates[int(examined.template[case])],
                        change=examined.changes[int(examined.change[case])],
                        p=float(p[examined.first[case]]),
                        p_changed=float(p[second]) if second >= 0 else None,
                        text=text,
                        changed=changed,
                    )
                )
    return out


def _wrongness(examined: Examined, p: Floats) -> Floats:
    """[case] how wrong an answer is, if it is wrong."""
    before, moved = p[examined.first], examined.moved(p)
    out = np.zeros(len(examined))
    for k, cell in enumerate(examined.cells):
        rows = examined.cell == k
        if cell.test.type == "MFT":
            out[rows] = 1 - before[rows] if cell.positive else before[rows]
        else:
            out[rows] = moved[rows] if cell.test.type == "INV" else -moved[rows]
    return out
