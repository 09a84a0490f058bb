"""Whose evidence is compared (`codes:`), numbers as words, and tables that are cut into pieces."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palpate import Cohort
from palpate.cases.edits import Inputs
from palpate.models import Probabilities
from palpate.results import AuditResult
from palpate.testing import KeywordModel
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    SAYS,
    ExplainingModel,
    audit,
    charts,
    knower,
    quick,
    row,
    slow_scores,
    table,
    value,
)

PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}
PROTOCOLS = ("gold", "predicted", "correct", "all")


def mistaken(**options: Any) -> KeywordModel:
    """Misses sepsis, and takes two tablets for pneumonia."""
    weights: dict[str, Any] = {PHRASES[code].split()[-1]: {code: 4.0} for code in CODES if code != "A41"}
    return KeywordModel({**weights, "tablet": {"J18": 1.5}}, bias=-2.0, labels=CODES, **options)


def predicted_codes(text: str) -> set[str]:
    words = text.rstrip(".").split()
    z = {code: -2.0 + 4.0 * words.count(PHRASES[code].split()[-1]) for code in CODES if code != "A41"}
    z["J18"] += 1.5 * words.count("tablet")
    return {code for code, each in z.items() if each >= 0}


def some_evidence(cohort: Cohort, gold: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Half of the gold evidence, and random words for random codes, one code of which nobody has."""
    rng = np.random.default_rng(seed)
    rows = []
    for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True):
        for _ in range(3):
            words = text[:-1].split()
            k = int(rng.integers(len(words)))
            start = len(" ".join(words[:k])) + (k > 0)
            rows.append((case, str(rng.choice([*CODES, "Z99"])), start, start + len(words[k])))
    other = pl.DataFrame(rows, schema=gold.schema, orient="row")
    return pl.concat([gold.sample(fraction=0.5, seed=seed), other]).unique(maintain_order=True)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000))
@pytest.mark.parametrize("codes", PROTOCOLS)
def test_every_protocol_is_a_plain_count_of_its_codes(
    tmp_path_factory: pytest.TempPathFactory, codes: str, seed: int
) -> None:
    cohort, gold = charts(32, seed=2)
    said = some_evidence(cohort, gold, seed)
    evidence = quick(gold, predicted={"toy": table(said)}, codes=codes, **PLAIN)
    result = audit(evidence, cohort, tmp_path_factory.mktemp("run"), toy=mistaken())
    test = cohort.rows(split="test").tolist()
    number = {cohort.cases["case_id"][r]: k for k, r in enumerate(test)}
    texts = [cohort.texts[r] for r in test]
    has = {(number[case], code) for case, code, *_ in gold.iter_rows() if case in number}
    thinks = {(k, code) for k, text in enumerate(texts) for code in predicted_codes(text)}
    asked = {"gold": has, "predicted": thinks, "correct": has & thinks}.get(codes)
    ours, theirs = (
        [
            (number[case], code, start, end)
            for case, code, start, end in side.iter_rows()
            if case in number and (asked is None or (number[case], code) in asked)
        ]
        for side in (gold, said)
    )
    for name, expected in slow_scores(texts, ours, theirs).items():
        assert value(result, name) == pytest.approx(expected, abs=1e-12), name
    n_other = sum(case in number for case, *_ in said.iter_rows()) - len(theirs)
    assert result.provenance["models"]["toy"]["rows_of_other_codes"] == n_other


def test_the_papers_protocol_is_the_default_and_is_stated(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    said = some_evidence(cohort, gold, 1)
    found: dict[str, AuditResult] = {}
    for codes in (None, *PROTOCOLS):
        options = {} if codes is None else {"codes": codes}
        evidence = quick(gold, predicted={"toy": table(said)}, **options, **PLAIN)
        found[codes or "default"] = audit(evidence, cohort, tmp_path / str(codes), toy=mistaken())
    assert found["default"].estimates.equals(found["gold"].estimates)
    assert len({value(found[codes], "token_f1") for codes in PROTOCOLS}) == len(PROTOCOLS)
    for codes in PROTOCOLS:
        captions = {block.title: block.caption for block in found[codes].blocks}
        for title in ("Agreement with the coders' evidence", "Precision, recall and F1 of evidence"):
            assert f"(`codes: {codes}`)" in captions[title]
        assert found[codes].provenance["codes"] == codes
        told = [f for f in found[codes].findings if "cannot be compared with these" in f.sentence]
        assert bool(told) == (codes != "gold")
        left_out = [f for f in found[codes].findings if "not in question" in f.sentence]
        assert bool(left_out) == (codes != "all")


def test_for_gold_codes_it_does_not_matter_what_the_model_predicts(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    scores = []
    for name, threshold in (("few", 1.0), ("many", 0.0)):
        evidence = quick(gold, code_threshold=threshold, faithfulness=False)
        model = ExplainingModel({code: {**SAYS[code], "patient": 0.79} for code in CODES})
        result = audit(evidence, cohort, tmp_path / name, toy=model)
        scores.append(result.estimates.drop("reason"))
    assert scores[0].equals(scores[1])


@pytest.mark.parametrize("codes", PROTOCOLS)
def test_models_are_asked_about_the_codes_in_question(tmp_path: Path, codes: str) -> None:
    cohort, gold = charts(48)

    class Recording(ExplainingModel):
        asked: ClassVar[set[tuple[str, str]]] = set()

        def explain(self, inputs: Any, asked: Any, way: str) -> Any:
            pairs = zip(asked.row.tolist(), asked.label.tolist(), strict=True)
            Recording.asked |= {(inputs.case_ids[r], self.labels[j]) for r, j in pairs}
            return super().explain(inputs, asked, way)

    model = Recording(SAYS)
    audit(quick(gold, codes=codes, code_threshold=0.0, faithfulness=False), cohort, tmp_path, toy=model)
    has = {(case, code) for case, code, *_ in gold.iter_rows()}
    splits = dict(zip(cohort.cases["case_id"], cohort.cases["split"], strict=True))
    asked = {pair for pair in Recording.asked if splits[pair[0]] == "test"}
    everything = {(case, code) for case, split in splits.items() for code in CODES if split == "test"}
    expected = {pair for pair in has if splits[pair[0]] == "test"} if codes in ("gold", "correct") else everything
    assert asked == expected


@pytest.mark.parametrize("codes", PROTOCOLS)
def test_members_of_an_ensemble_may_predict_different_codes(tmp_path: Path, codes: str) -> None:
    cohort, gold = charts(64)
    evidence = quick(gold, predicted={"toy": table(gold)}, codes=codes, **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=[knower(), mistaken()])
    assert value(result, "token_precision") == 1.0
    each = [value(result, "token_recall", model=f"toy[{k}]") for k in (1, 2)]
    assert value(result, "token_recall") == pytest.approx(np.mean(each))


def test_faithfulness_is_about_codes_in_question_that_the_model_predicts(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    result = audit(quick(gold), cohort, tmp_path, toy=ExplainingModel(SAYS))
    assert row(result, "comprehensiveness_aopc", group="mean over fractions")["n"] > 0
    nothing = audit(quick(gold, code_threshold=1.0), cohort, tmp_path / "b", toy=ExplainingModel(SAYS))
    reason = row(nothing, "comprehensiveness_aopc", group="mean over fractions")["reason"]
    assert reason == "it predicts no label that is in question in the audited charts (p of 1 or more)"


@pytest.mark.parametrize("explain", ["pointing", "occlusion"])
@pytest.mark.parametrize("codes", ["predicted", "correct"])
def test_where_no_code_is_in_question_nothing_is_scored(tmp_path: Path, codes: str, explain: str) -> None:
    cohort, gold = charts(32)
    evidence = quick(gold, codes=codes, code_threshold=1.0, explain=explain)
    result = audit(evidence, cohort, tmp_path, toy=ExplainingModel(SAYS))
    for metric in ("token_f1", "span_recall", "token_precision"):
        found = row(result, metric)
        assert found["value"] is None
        assert found["reason"] in ("no gold evidence", "nothing is predicted")
    assert result.tables["spans"].height == 0


class TestOnly(KeywordModel):
    """Predictions that were made for the test charts, as a table of them has."""

    __test__ = False
    reads = "case"
    known: frozenset[str] = frozenset()

    def predict(self, inputs: Inputs) -> Probabilities:
        assert set(inputs.case_ids) <= self.known
        return super().predict(inputs)


def test_predictions_for_the_test_charts_suffice_for_evidence_without_scores(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    model = TestOnly({"pneumonia": {"J18": 4.0}}, bias=-2.0, labels=CODES)
    model.known = frozenset(cohort.cases["case_id"].gather(cohort.rows(split="test")))
    evidence = quick(gold, predicted={"toy": table(gold)})
    # Another model explains itself and needs a threshold: it alone is asked about the validation split.
    result = audit(evidence, cohort, tmp_path, toy=model, speaks=ExplainingModel(SAYS))
    assert value(result, "token_f1") == value(result, "token_f1", model="speaks") == 1.0
    assert result.provenance["validation_charts"] > 0
    without = audit(quick(gold), cohort, tmp_path / "b", toy=model)
    assert "looked up by case" in row(without, "token_f1")["reason"]
    given = audit(
        quick(gold, threshold=0.5, predicted={"toy": table(gold.with_columns(score=pl.lit(0.6)))}),
        cohort,
        tmp_path / "c",
        toy=model,
    )
    assert (value(given, "token_f1"), given.provenance["validation_charts"]) == (1.0, 0)
    # For gold codes, a table with scores has all that choosing a threshold takes.
    chosen = quick(gold, predicted={"toy": table(gold.with_columns(score=pl.lit(0.6)))})
    result = audit(chosen, cohort, tmp_path / "d", toy=model)
    assert (value(result, "token_f1"), result.provenance["models"]["toy"]["threshold"]) == (1.0, 0.58)


def test_a_score_at_the_threshold_is_not_above_it(tmp_path: Path) -> None:
    cohort, gold = charts(32)
    scored = table(gold.with_columns(score=pl.lit(0.8)))
    for threshold, expected in ((0.8, 0.0), (0.79, 1.0)):
        evidence = quick(gold, threshold=threshold, predicted={"toy": scored}, **PLAIN)
        assert value(audit(evidence, cohort, tmp_path / str(threshold), toy=knower()), "token_recall") == expected


def one_chart(text: str, gold: list[str], said: list[tuple[int, int]]) -> tuple[Cohort, pl.DataFrame, pl.DataFrame]:
    frame = pl.DataFrame({"case_id": ["a"], "text": [text], "I50": [1], "E66": [0]})
    marks = [("a", "I50", text.index(words), text.index(words) + len(words)) for words in gold]
    schema = {"case_id": pl.String, "label": pl.String, "start": pl.Int64, "end": pl.Int64}
    spans = [pl.DataFrame(rows, schema=schema, orient="row") for rows in (marks, [("a", "I50", *at) for at in said])]
    return Cohort.from_frame(frame, labels=["I50", "E66"]), spans[0], spans[1]


def test_numbers_are_words_unless_they_are_left_out(tmp_path: Path) -> None:
    text = "Systolic failure, EF 35. BMI 45 noted."
    model = KeywordModel({"failure": {"I50": 4.0}}, labels=("I50", "E66"))
    cohort, gold, said = one_chart(text, ["EF 35"], [(18, 20)])
    result = audit(quick(gold, predicted={"toy": table(said)}, **PLAIN), cohort, tmp_path, toy=model)
    assert (value(result, "span_f1"), value(result, "token_recall"), value(result, "token_precision")) == (
        0.0,
        0.5,
        1.0,
    )
    assert result.provenance["gold_spans_without_a_word"] == 0
    small = quick(gold, predicted={"toy": table(said)}, largest_number=10, **PLAIN)
    assert value(audit(small, cohort, tmp_path / "b", toy=model), "span_f1") == 1.0
    cohort, gold, said = one_chart(text, ["45"], [(29, 31)])
    result = audit(quick(gold, predicted={"toy": table(said)}, **PLAIN), cohort, tmp_path / "c", toy=model)
    assert value(result, "span_f1") == 1.0


def test_rows_that_are_cut_differently_are_the_same_evidence(tmp_path: Path) -> None:
    text = "Known acute, on chronic heart failure today."
    model = KeywordModel({"failure": {"I50": 4.0}}, labels=("I50", "E66"))
    cohort, gold, said = one_chart(text, ["acute, on chronic heart failure"], [(5, 12), (12, 23), (16, 29), (29, 38)])
    for name, ours, theirs in (("cut", gold, said), ("gold cut", said, gold)):
        evidence = quick(ours, predicted={"toy": table(theirs)}, **PLAIN)
        result = audit(evidence, cohort, tmp_path / name, toy=model)
        assert (value(result, "span_f1"), row(result, "span_recall")["n_positive"]) == (1.0, 1)
