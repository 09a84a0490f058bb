"""The evidence audit with evidence from tables: scores against a slow version, planted truth, bad input."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palpate.errors import ConfigError
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    audit,
    charts,
    knower,
    notes_table,
    quick,
    row,
    slow_scores,
    table,
    value,
)

RNG = np.random.default_rng
PLAIN = {"faithfulness": False, "explain": "none"}


def test_perfect_evidence_is_exactly_one_and_nothing_is_exactly_zero(tmp_path: Path) -> None:
    cohort, gold = charts()
    evidence = quick(gold, predicted={"toy": table(gold), "none": table(gold.head(0))}, **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower(), none=knower())
    for match in ("token", "span", "token_anywhere", "span_anywhere", "overlap", "iou"):
        for measure in ("precision", "recall", "f1", "f1_by_code"):
            found = row(result, f"{match}_{measure}")
            assert found["value"] == 1.0
            # Certain about these 30 charts, not about all others; averages over codes have no interval.
            if measure == "f1_by_code":
                assert (found["low"], found["high"]) == (None, None)
                assert found["reason"].startswith("no interval: codes that one or two charts have")
            else:
                assert 0.8 < found["low"] < 0.95
                assert found["high"] == 1.0
        assert value(result, f"{match}_recall", model="none") == 0.0
        nothing = row(result, f"{match}_precision", model="none")
        assert nothing["value"] is None
        assert nothing["reason"] == "nothing is predicted"
    assert value(result, "charts_missed") == 0.0
    assert value(result, "charts_missed", model="none") == 1.0
    assert value(result, "token_f1", model="none", reference="toy") == -1.0


def test_a_piece_of_a_word_is_no_match(tmp_path: Path) -> None:
    cohort, gold = charts()
    pneu = gold.filter(pl.col("label") == "J18").with_columns(end=pl.col("start") + 4)
    evidence = quick(gold.filter(pl.col("label") == "J18"), predicted={"toy": table(pneu)}, **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower())
    assert value(result, "token_f1") == 0.0
    assert value(result, "token_anywhere_f1") == 0.0


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), n=st.integers(0, 60))
def test_scores_are_those_of_sets_of_tuples(tmp_path_factory: pytest.TempPathFactory, seed: int, n: int) -> None:
    cohort, gold = charts(24, seed=1)
    rng = RNG(seed)
    words = [
        (case, start, start + len(word))
        for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True)
        for word in [str(rng.choice(text[:-1].split()))]
        for start in [text.index(word)]
    ]
    made = [(*words[int(rng.integers(len(words)))], str(rng.choice(CODES))) for _ in range(n)]
    other = pl.DataFrame(
        [(case, code, start, end) for case, start, end, code in made], schema=gold.schema, orient="row"
    )
    predicted = pl.concat([gold.sample(fraction=0.5, seed=seed), other]).unique(maintain_order=True)
    evidence = quick(gold, predicted={"toy": table(predicted)}, codes="all", **PLAIN)
    result = audit(evidence, cohort, tmp_path_factory.mktemp("run"), toy=knower())
    test = cohort.rows(split="test").tolist()
    number = {cohort.cases["case_id"][r]: k for k, r in enumerate(test)}
    sides = [
        [(number[case], code, start, end) for case, code, start, end in side.iter_rows() if case in number]
        for side in (gold, predicted)
    ]
    if sides[1]:
        for name, expected in slow_scores([cohort.texts[r] for r in test], *sides).items():
            assert value(result, name) == pytest.approx(expected, abs=1e-12)


def test_false_codes_and_charts_without_predictions_count(tmp_path: Path) -> None:
    cohort, gold = charts()
    test = set(cohort.cases["case_id"].gather(cohort.rows(split="test")))
    ours = gold.filter(pl.col("case_id").is_in(test))
    first = ours["case_id"][0]
    text = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    lacking = next(case for case in sorted(test) if len(ours.filter(case_id=case)) < len(CODES))
    code = next(c for c in CODES if ours.filter(case_id=lacking, label=c).is_empty())
    false = pl.DataFrame([(lacking, code, 0, len(text[lacking].split()[0]))], schema=gold.schema, orient="row")
    predicted = pl.concat([ours.filter(pl.col("case_id") != first), false])
    evidence = quick(gold, predicted={"toy": table(predicted)}, codes="all", **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower())
    n_with_gold = ours["case_id"].n_unique()
    assert value(result, "charts_missed") == pytest.approx(1 / n_with_gold)
    assert value(result, "codes_false") == pytest.approx(1 / predicted.select("case_id", "label").n_unique())
    assert value(result, "token_precision") < 1
    assert value(result, "token_recall") < 1


def test_random_evidence_is_at_chance_and_the_interval_holds_the_analytic_value(tmp_path: Path) -> None:
    cohort, gold = charts(240, seed=3)
    rng = RNG(5)
    rows = []
    for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True):
        words = text[:-1].split()
        for code in CODES:
            k = int(rng.integers(len(words)))
            start = len(" ".join(words[:k])) + (k > 0)
            rows.append((case, code, start, start + len(words[k])))
    guess = pl.DataFrame(rows, schema=gold.schema, orient="row")
    result = audit(quick(gold, predicted={"toy": table(guess)}, **PLAIN), cohort, tmp_path, toy=knower())
    chance = value(result, "chance_token_f1")
    assert 0.01 < chance < 0.06
    for group in ("all", "random evidence"):
        found = row(result, "token_f1", group=group)
        assert found["low"] <= chance <= found["high"]
    difference = row(result, "token_f1", reference="random evidence")
    assert not difference["significant"]
    (answer,) = result.answers
    assert (answer.question, answer.margin, answer.required) == ("pointing", 0.05, True)
    assert answer.verdict in ("concern", "unsettled")
    (told,) = (finding for finding in result.findings if finding.kind == answer.verdict)
    assert "beat" in told.sentence
    assert "random words by 0.05" in told.sentence


def test_strata_by_length_category_system_and_annotation(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    gold = gold.with_columns(
        code_system=pl.when(pl.col("label") == "J18").then(pl.lit("ICD-9")).otherwise(pl.lit("ICD-10")),
        completeness=pl.when(pl.col("case_id").str.contains("[13579]$"))
        .then(pl.lit("complete"))
        .otherwise(pl.lit("sufficient")),
    )
    half = [len(text) // 2 for text in cohort.texts]
    places = pl.DataFrame(
        [
            (case, note, kind, low, high)
            for case, text, middle in zip(cohort.cases["case_id"], cohort.texts, half, strict=True)
            for note, kind, low, high in (("1", "Nursing", 0, middle), ("2", "Physician", middle, len(text)))
        ],
        schema=["case_id", "note_id", "category", "start", "end"],
        orient="row",
    )
    short = gold.filter(pl.col("label").is_in(["J18", "E11"]))
    evidence = quick(gold, notes=notes_table(places), predicted={"toy": table(short)}, **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower())
    assert value(result, "span_recall", group="length=1 word") == 1.0
    assert value(result, "span_recall", group="length=2 words") == 0.0
    assert value(result, "span_recall", group="length=3+ words") == 0.0
    ours = gold.filter(pl.col("case_id").is_in(set(cohort.cases["case_id"].gather(cohort.rows(split="test")))))
    for length, codes in (("1 word", ["J18", "E11"]), ("2 words", ["A41"]), ("3+ words", ["I50"])):
        n_gold = len(ours.filter(pl.col("label").is_in(codes)))
        assert row(result, "span_recall", group=f"length={length}")["n_positive"] == n_gold
    by_length = row(result, "span_precision", group="length=1 word")
    assert by_length["value"] is None
    assert "recall only" in by_length["reason"]
    assert value(result, "token_f1", group="code system=ICD-9") == 1.0
    assert value(result, "token_f1", group="code system=ICD-10") < 1
    parts = [row(result, "token_recall", group=f"category={kind}") for kind in ("Nursing", "Physician")]
    whole = row(result, "token_recall")
    # A chart's words are in one half or the other, except for phrases that the middle cuts.
    assert sum(part["n_positive"] for part in parts) == whole["n_positive"]
    assert row(result, "token_precision", group="annotation=complete")["reason"] is None
    assert "lower bound" in row(result, "token_precision", group="annotation=sufficient")["reason"]
    assert any("lower bounds" in finding.sentence for finding in result.findings)


def test_a_category_that_only_a_model_points_at_stays_and_is_false(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    length = dict(zip(cohort.cases["case_id"], map(len, cohort.texts), strict=True))
    places = [(case, "1", "Physician", 0, n - 1) for case, n in length.items()]
    apart = pl.DataFrame(places, schema=["case_id", "note_id", "category", "start", "end"], orient="row")
    first = gold.select("case_id", "label", start=pl.lit(0, pl.Int64), end=pl.lit(4, pl.Int64))
    radiology = apart.with_columns(end=pl.lit(4, pl.Int64), category=pl.lit("Radiology"))
    later = apart.with_columns(note_id=pl.lit("2"), start=pl.lit(4, pl.Int64))
    evidence = quick(
        gold.filter(pl.col("start") > 4),
        notes=notes_table(pl.concat([radiology, later])),
        predicted={"toy": table(pl.concat([gold.filter(pl.col("start") > 4), first]))},
        **PLAIN,
    )
    result = audit(evidence, cohort, tmp_path, toy=knower())
    assert value(result, "token_precision", group="category=Physician") == 1.0
    false = row(result, "token_precision", group="category=Radiology")
    assert (false["value"], false["n_positive"]) == (0.0, 0)
    assert row(result, "token_recall", group="category=Radiology")["reason"] == "no gold evidence"


def test_evidence_beyond_the_window_is_missed_and_told_apart(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    seen = {
        case: len(" ".join(text.split()[:20])) for case, text in zip(cohort.cases["case_id"], cohort.texts, strict=True)
    }
    end = pl.col("case_id").replace_strict(seen)
    near = gold.filter(pl.col("end") <= end)
    evidence = quick(gold, predicted={"toy": table(near)}, **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower(window_words=20))
    assert value(result, "token_recall", group="window=within") == 1.0
    assert value(result, "token_recall", group="window=beyond") == 0.0
    assert 0 < value(result, "evidence_beyond_window") < 1
    assert value(result, "token_recall") < 1
    assert any("beyond the first 20 words, and counts as missed" in finding.sentence for finding in result.findings)
    known = audit(
        quick(gold, predicted={"toy": table(gold)}, **PLAIN), cohort, tmp_path / "known", toy=knower(window_words=20)
    )
    assert any("its evidence includes some of it all the same" in finding.sentence for finding in known.findings)
    assert not any("counts as missed" in finding.sentence for finding in known.findings)


def test_models_are_compared_pairwise_with_corrected_p(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    worse = gold.filter(pl.col("label") != "J18")
    evidence = quick(gold, predicted={"good": table(gold), "bad": table(worse)}, **PLAIN)
    result = audit(evidence, cohort, tmp_path, good=knower(), bad=knower())
    found = row(result, "token_recall", model="bad", reference="good")
    assert found["high"] < 0
    assert found["significant"]
    (told,) = [finding.sentence for finding in result.findings if finding.sentence.startswith("good points at")]
    assert re.search(r"token F1 \+0\.\d+ \(95% interval \+0\.\d+ to \+0\.\d+, corrected p", told), "one direction"


def test_a_model_without_evidence_stays_visible(tmp_path: Path) -> None:
    cohort, gold = charts(40)
    result = audit(quick(gold, predicted={"toy": table(gold)}, **PLAIN), cohort, tmp_path, toy=knower(), mute=knower())
    found = row(result, "token_f1", model="mute")
    assert found["value"] is None
    assert "explain: none" in found["reason"]


def test_options_that_name_an_unknown_model_are_refused_before_scoring(tmp_path: Path) -> None:
    cohort, gold = charts(20)
    with pytest.raises(ConfigError, match="unknown model 'tyo'"):
        audit(quick(gold, predicted={"tyo": table(gold)}, **PLAIN), cohort, tmp_path, toy=knower())


def test_phrases_are_what_the_module_says() -> None:
    cohort, gold = charts(20)
    text = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    for case, code, start, end in gold.iter_rows():
        assert text[case][start:end] == PHRASES[code]


def test_a_sample_of_charts_is_the_same_for_all_models(tmp_path: Path) -> None:
    cohort, gold = charts(80)
    evidence = quick(gold, max_charts=10, faithfulness=False)
    plans = [evidence.plan(cohort, RNG(1)) for _ in range(2)]
    assert plans[0].memory.n_audited == 10
    assert plans[0].cases is not None
    assert plans[0].cases.tolist() == plans[1].cases.tolist()  # type: ignore[union-attr]
    assert len(plans[0].memory.charts.rows) == 20
    # No threshold is chosen where one is given, or where no evidence has scores.
    for options in ({"threshold": 0.5}, {"explain": "none", "predicted": {"toy": table(gold)}}):
        assert quick(gold, **options).plan(cohort, RNG(1)).memory.n_validation == 0


def test_by_patient_the_intervals_are_wider_than_by_chart_where_charts_repeat(tmp_path: Path) -> None:
    cohort, gold = charts(120)
    # Both charts of a patient are missed or found together.
    lucky = {f"c{k}" for k in range(120) if (k // 2) % 2 == 0 or (k // 2) % 3 == 0}
    predicted = {"toy": table(gold.filter(pl.col("case_id").is_in(lucky)))}
    width = {}
    for unit in ("chart", "patient"):
        evidence = quick(gold, predicted=predicted, unit=unit, **PLAIN)
        found = row(audit(evidence, cohort, tmp_path / unit, toy=knower()), "token_recall")
        width[unit] = found["high"] - found["low"]
    assert width["patient"] > 1.15 * width["chart"]
