"""The failing sentences worth reading: the most confident mistakes in each test, from different templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from palpate.audits.capabilities.measures import Answers, movements
from palpate.audits.capabilities.plan import LabelledTest, PlannedSuite, sentence_of
from palpate.audits.kit.wording import percent
from palpate.perturb.suites import RightAnswer
from palpate.privacy import hides
from palpate.results import Chart, Examples, Plan, Table
from palpate.stats.clustered_rates import Floats


@hides("texts")
class Failure(NamedTuple):
    """One sentence, or pair of sentences, that a model gets wrong."""

    model: str
    test: LabelledTest
    change: str
    p: tuple[float, ...]
    """The prediction, or both predictions of a pair."""
    texts: tuple[str, ...]


def find_failures(plan: Plan[PlannedSuite], answers: Answers, models: Sequence[str], n: int) -> list[Failure]:
    """At most `n` for each model, test and label, the most confident mistake first, each from another template."""
    examined = plan.memory.examined
    out = []
    for m in map(answers.models.index, models):
        name, p = answers.models[m], answers.p[m]
        wrongness = _wrongness(plan, p)
        for test in examined.tests:
            if test.decides and not answers.decides[name]:
                continue
            failed = test.cases[answers.passed[m, test.cases] < 0.5]
            ordered = failed[np.argsort(-wrongness[failed], kind="stable")]
            _, first = np.unique(examined.template[ordered], return_index=True)
            for case in ordered[np.sort(first)][:n].tolist():
                change = examined.changes[int(examined.change[case])]
                rows = [int(row) for row in (examined.first[case], examined.second[case]) if row >= 0]
                texts = tuple(sentence_of(plan, row) for row in rows)
                out.append(Failure(name, test, change, tuple(float(p[row, test.column]) for row in rows), texts))
    return out


def _wrongness(plan: Plan[PlannedSuite], p: Floats) -> Floats:
    """[case] how wrong an answer is, if it is wrong; `p` is [variant, label]."""
    examined = plan.memory.examined
    before, moved = p[examined.first], movements(examined, p)
    out = np.zeros(examined.n_cases)
    for test in examined.tests:
        rows = test.cases
        if test.wanted is not None and test.decides:
            out[rows] = _misses(before[rows], test.wanted, plan.labels).max(axis=1)
        elif test.decides:
            out[rows] = 1 - before[rows, 0] if test.positive else before[rows, 0]
        elif test.paired:
            out[rows] = moved[rows] if test.test.type == "INV" else -moved[rows]
    return out


def _misses(p: Floats, wanted: RightAnswer, labels: Sequence[str]) -> Floats:
    """[case, label of the right answer] how far each is from what it should be."""
    there = [labels.index(name) for name in ((wanted.highest,) if wanted.highest else wanted.present)]
    return np.hstack([1 - p[:, there], p[:, [labels.index(name) for name in wanted.absent]]])


def failing_sentences(failures: Sequence[Failure], part: str) -> list[Table | Chart | Examples]:
    """The failures of a part as a block; none where there are none."""
    rows = []
    for each in failures:
        if each.test.part != part:
            continue
        expected = each.test.label
        if each.test.test.expect is not None:
            expected = each.test.test.expect.name
        elif not each.test.decides:
            movement = {"up": "goes up", "down": "goes down"}.get(each.test.test.direction or "", "stays")
            expected = f"{movement} ({each.change})" if each.change else movement
        sentence, risk = " → ".join(each.texts), " → ".join(map(percent, each.p))
        rows.append((each.model, each.test.title, sentence, expected, risk))
    if not rows:
        return []
    return [
        Examples(
            title="Sentences that fail",
            caption="The most confident mistakes of each model in each test and label, each from another template. "
            "They are made from templates; no patient wrote them.",
            columns=("Model", "Test", "Sentence", "Expected", "Predicted risk"),
            rows=tuple(rows),
        )
    ]
