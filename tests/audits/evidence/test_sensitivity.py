"""Sensitivity-n: near 1 for scores that are contributions, near 0 for scores that are not; against a plain loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate.audits.evidence.sensitivity import correlations
from palpate.cases.edits import Inputs
from palpate.testing import KeywordModel
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    SAYS,
    ExplainingModel,
    Watched,
    audit,
    charts,
    quick,
    row,
    table,
    value,
)

NOISE = {code: {"tablet": 0.9, "daily": 0.6} for code in CODES}


def test_contributions_correlate_and_other_scores_do_not(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    models = {"honest": ExplainingModel(SAYS), "other": ExplainingModel(NOISE)}
    result = audit(quick(gold, sensitivity_draws=30), cohort, tmp_path, **models)
    assert value(result, "sensitivity_n", model="honest") > 0.8
    assert abs(value(result, "sensitivity_n", model="other")) < 0.2
    honest = row(result, "sensitivity_n", model="honest")
    assert honest["low"] < honest["value"] < honest["high"]


def test_each_pair_is_the_plain_correlation(tmp_path: Path) -> None:
    """Texts are cut by hand and scored again."""
    cohort, gold = charts(60)
    evidence = Watched(gold=table(gold), sensitivity_draws=6)
    audit(evidence, cohort, tmp_path, toy=ExplainingModel(SAYS))
    ((plan, predictions),) = Watched.seen
    memory, removal = plan.memory, plan.memory.removal["toy"]
    from palpate.audits.evidence.marking import mark_evidence

    marked = mark_evidence(plan, predictions, evidence._asking, evidence._marking)["toy"]
    assert not isinstance(marked, str)
    found = correlations(memory, removal, marked, predictions["toy"])
    words = memory.charts.words
    weights = {PHRASES[code].split()[-1]: {code: 4.0} for code in CODES}
    model = KeywordModel(weights, bias=-2.0, labels=CODES)
    scores = {
        (int(w), int(label)): float(s)
        for w, label, s in zip(marked.scored.word, marked.scored.label, marked.scored.score, strict=True)  # type: ignore[union-attr]
    }
    checked = 0
    for k, (chart, label) in enumerate(zip(*(column.tolist() for column in removal.pairs), strict=True)):
        sums, drops = [], []
        text = words.texts[chart]
        before = model.predict(Inputs.from_texts([text]))[0, label]
        for taken in removal.random[chart].words:
            cut = text
            for w in sorted(taken.tolist(), reverse=True):
                cut = cut[: words.begin[w]] + " " + cut[words.end[w] :]
            sums.append(sum(scores.get((w, label), 0.0) for w in taken.tolist()))
            drops.append(before - model.predict(Inputs.from_texts([cut]))[0, label])
        if np.ptp(sums) > 1e-9 and np.ptp(drops) > 1e-9:
            assert found[k] == pytest.approx(np.corrcoef(sums, drops)[0, 1])
            checked += 1
        else:
            assert np.isnan(found[k])
    assert checked > 5


def test_it_can_be_left_out(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    result = audit(quick(gold, sensitivity_draws=0), cohort, tmp_path, toy=ExplainingModel(SAYS))
    assert "sensitivity_n" not in set(result.estimates["metric"])
