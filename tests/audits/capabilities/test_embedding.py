"""Sentences inside real notes: the hosts, the variants, and that a model is asked about the whole note."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from palpate import Cohort
from palpate.cases.edits import Inputs, splice
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.results import ModelPredictions, Predictions
from tests.audits.capabilities.capability_runs import MIRRORED, PAIRS, RNG, cohort_of, quick, values

HOST = "Seen in clinic today for a routine visit number {k}. Vitals are stable and nothing hurts."


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "suite.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def hosts(n: int = 12) -> Cohort:
    """Half have the label; one mentions an effect, and one has no sentence."""
    texts = [HOST.format(k=k) for k in range(n)]
    texts[1], texts[3] = "The patient complains of nausea since Monday. Seen in clinic.", "None."
    return cohort_of(texts, [int(k % 2 == 0) for k in range(n)])


class Keyword(Model):
    """Positive where a word is in the note."""

    labels, fingerprint = ("ADE",), "keyword"

    def __init__(self, word: str) -> None:
        self.word = word

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.array([[0.9 if self.word in text else 0.1] for text in inputs.texts])


def asked(plan: object, model: Model) -> tuple[list[str], Predictions]:
    """The spliced texts of a plan and a model's predictions for them."""
    variants, cohort = plan.variants, plan.cohort  # type: ignore[attr-defined]
    texts = [splice(cohort.texts[int(variants.parent[k])], variants.edits(k)) for k in range(len(variants))]
    p = model.predict(Inputs.from_texts(texts))
    seen = np.ones(len(texts), dtype=bool)
    return texts, Predictions({"m": ModelPredictions(("ADE",), p, seen, threshold=0.5)})


def test_sentences_stand_in_notes_without_the_label_and_without_the_finding(tmp_path: Path) -> None:
    audit, cohort = quick(suite=written(tmp_path, MIRRORED), embed=3), hosts()
    plan = audit.plan(cohort, RNG(0))
    texts, predictions = asked(plan, Keyword("before"))
    rows = plan.variants.rows_of("template")
    parents = set(plan.variants.parent[rows].tolist())
    assert len(parents) == 3
    assert parents <= {5, 7, 9, 11}
    for row in rows.tolist():
        host = cohort.texts[int(plan.variants.parent[row])]
        (edit,) = plan.variants.edits(row)
        assert texts[row] == host[: edit.start] + edit.text + host[edit.start :]
        assert host[: edit.start].endswith(".")
    result = audit.analyse(plan, predictions, RNG(1))
    assert any("inside 3 held-out notes without the label" in each.sentence for each in result.findings)
    rates = values(result, "template_pass_rate")
    assert (rates["b1"], rates["a1"]) == (0.0, 1.0)
    shown = [row[2] for block in result.blocks if block.title == "Sentences that fail" for row in block.rows]
    assert shown
    assert not any("routine visit" in sentence for sentence in shown)


def test_both_sentences_of_a_pair_stand_in_the_same_note(tmp_path: Path) -> None:
    audit = quick(suite=written(tmp_path, PAIRS), embed=4)
    plan = audit.plan(hosts(), RNG(0))
    examined = plan.memory.examined
    parent = plan.variants.parent
    pairs = examined.second >= 0
    assert pairs.all()
    assert (parent[examined.first] == parent[examined.second]).all()
    places = [plan.variants.edits(int(row))[0].start for row in examined.first]
    assert places == [plan.variants.edits(int(row))[0].start for row in examined.second]
    _, predictions = asked(plan, Keyword("Denies"))
    result = audit.analyse(plan, predictions, RNG(1))
    assert values(result, "pass_rate")["denial/denied"] == 0.0


def test_too_few_notes_are_told_before_anything_is_scored(tmp_path: Path) -> None:
    plan = quick(suite=written(tmp_path, MIRRORED), embed=50).plan(hosts(), RNG(0))
    (notice,) = plan.notices
    assert notice == (
        "Only 4 of 50 notes can take a sentence; left out: 6 have the label; 1 mention what the sentences are about; "
        "1 have no running text."
    )
    with pytest.raises(ConfigError, match="no held-out note can take a sentence"):
        quick(suite=written(tmp_path, MIRRORED), embed=5).plan(cohort_of(["None.", "Fine."], [0, 1]), RNG(0))


def test_intervals_allow_for_other_notes(tmp_path: Path) -> None:
    """A model that answers by the note, not by the sentence: every template passes in the same share of notes."""
    suite = written(tmp_path, MIRRORED)
    cohort = cohort_of([HOST.format(k=k) for k in range(24)], [0] * 24)
    low = {}
    for name, embed in (("many", 10), ("few", 4)):
        audit = quick(suite=suite, embed=embed)
        plan = audit.plan(cohort, RNG(0))
        assert plan.memory.examined.host is not None
        assert len(np.unique(plan.memory.examined.host)) == embed
        chosen = sorted(set(plan.variants.parent[plan.memory.examined.first].tolist()))[: embed // 2]
        texts = {HOST.format(k=k)[:50] for k in chosen}
        result = audit.analyse(plan, asked(plan, ByNote(texts))[1], RNG(1))
        row = result.estimates.filter(metric="pass_rate", group="order/order: ADE", model="m")
        row = row.filter(row["reference"].is_null())
        low[name] = float(row["high"][0] - row["low"][0])
        assert result.provenance["unit"].startswith("base template and by the patient of the note")
    assert low["few"] > 0.75
    assert low["many"] < low["few"]


class ByNote(Model):
    """Positive in some notes, whatever the sentence says."""

    labels, fingerprint = ("ADE",), "note"

    def __init__(self, starts: set[str]) -> None:
        self.starts = starts

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.array([[0.9 if text[:50] in self.starts else 0.1] for text in inputs.texts])
