"""Where pre-test probabilities come from: earlier cases, attributes, earlier notes; and that nothing leaks."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from palpate.audits.context import Context
from palpate.audits.context.features import HistoryFeatures
from palpate.audits.context.groups import PRETEST
from palpate.audits.context.pretest import fit_pretest
from palpate.audits.context.sources import choose_sources, earlier_labels
from palpate.cases.cohort import Cohort
from palpate.results import Table
from palpate.stats import auroc
from tests.audits.context.context_cases import row, run

START = datetime(2100, 1, 1)
QUICK = Context(n_replicates=100, decision_thresholds=())
Case = tuple[int, int | None, bool, bool]


def timed(cases: list[Case]) -> Cohort:
    """Cases as (patient, day or None, label a, label b)."""
    return Cohort.from_frame(
        pl.DataFrame(
            {
                "case_id": [f"c{k}" for k in range(len(cases))],
                "patient_id": [f"p{case[0]}" for case in cases],
                "time": pl.Series(
                    [None if case[1] is None else START + timedelta(days=case[1]) for case in cases],
                    dtype=pl.Datetime("us"),
                ),
                "a": [int(case[2]) for case in cases],
                "b": [int(case[3]) for case in cases],
            }
        ),
        labels=("a", "b"),
    )


CASES = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=20
)


@given(CASES)
def test_earlier_labels_are_those_of_a_slow_loop(cases: list[Case]) -> None:
    found = earlier_labels(timed(cases), ("a", "b"))
    for k, (patient, day, _, _) in enumerate(cases):
        before = [c for c in cases if c[0] == patient and day is not None and c[1] is not None and c[1] < day]
        latest = max((c[1] for c in before if c[1] is not None), default=None)
        assert found.n[k] == len(before)
        for j in (0, 1):
            share = np.mean([c[2 + j] for c in before]) if before else 0.0
            assert found.share[k, j] == pytest.approx(share)
            assert found.last[k, j] == any(c[2 + j] for c in before if c[1] == latest)
            assert found.ever[k, j] == any(c[2 + j] for c in before)


@given(CASES, st.data())
def test_the_present_and_the_future_change_nothing(cases: list[Case], data: st.DataObject) -> None:
    day = data.draw(st.integers(0, 5))
    changed = [
        (c[0], c[1], data.draw(st.booleans()), data.draw(st.booleans())) if c[1] is not None and c[1] >= day else c
        for c in cases
    ]
    one, two = (earlier_labels(timed(each), ("a", "b")) for each in (cases, changed))
    asked = [k for k, c in enumerate(cases) if c[1] is not None and c[1] <= day]
    assert np.array_equal(one.share[asked], two.share[asked])
    assert np.array_equal(one.last[asked], two.last[asked])
    assert np.array_equal(one.n[asked], two.n[asked])


def films(n_patients: int = 700, *, seed: int = 0, notes: bool = False) -> tuple[Cohort, np.ndarray, np.ndarray]:
    """Patients with three films; who has it once tends to have it again. Also a model's scores, and the true risk."""
    rng = np.random.default_rng(seed)
    risk = np.repeat(rng.normal(size=n_patients) * 1.5 - 1.0, 3)
    age = np.repeat(rng.integers(20, 90, n_patients), 3)
    truth = 1 / (1 + np.exp(-(risk + (age - 55) / 20)))
    y = (rng.random(3 * n_patients) < truth).astype(np.uint8)
    split = np.repeat(np.where(np.arange(n_patients) < n_patients // 2, "train", "test"), 3)
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(len(y))],
            "patient_id": [f"p{k // 3}" for k in range(len(y))],
            "time": [START + timedelta(days=k % 3) for k in range(len(y))],
            "split": split,
            "age": age,
            "sex": rng.choice(["F", "M"], len(y)),
            "Pneumonia": y,
        }
    )
    if notes:
        said = np.where(rng.random(len(y)) < truth, "Treated for pneumonia.", "No pneumonia. A fall.")
        words = [f"{said[k]} Word{rng.integers(9)} and more." if k % 3 else None for k in range(len(y))]
        frame = frame.with_columns(prior=pl.Series(words, dtype=pl.String))
    cohort = Cohort.from_frame(frame, labels=("Pneumonia",), attributes=("age", "sex"))
    score = 1 / (1 + np.exp(-(2.0 * y + rng.normal(size=len(y)) - 1)))
    return cohort, score[:, None], truth


def test_earlier_films_and_attributes_make_a_calibrated_pretest_probability() -> None:
    cohort, score, truth = films()
    audit = replace(QUICK, attributes=("age", "sex"))
    found = run(audit, cohort, {"m": score})
    rows = audit.plan(cohort, np.random.default_rng(0)).variants.parent
    assert len(rows) == 700  # the first film of each of 350 patients has no past
    y = cohort.y_true(rows)[:, 0]
    history = row(found, "auroc", PRETEST, "Pneumonia")
    assert 0.7 < history["value"] < auroc(y, truth[rows])  # type: ignore[operator]
    assert row(found, "adaptive_calibration_error", PRETEST, "Pneumonia")["value"] < 0.07  # type: ignore[operator]
    table = next(block for block in found.blocks if block.title == "The pre-test probability")
    assert isinstance(table, Table)
    assert "fitted to age, sex, labels of earlier cases on the training split" in table.caption
    assert "Pneumonia: share of earlier cases" in str(table.rows[0][10])
    assert table.rows[0][1] == "LogisticRegression"
    assert table.rows[0][8] == pytest.approx(history["value"], abs=0.08)
    assert any("350 of 1,050 cases are left out: no earlier case" in each.sentence for each in found.findings)
    groups = set(found.estimates["group"])
    assert {"found before", "not found before"} <= groups
    assert (
        row(found, "auroc", "m", "Pneumonia", "found before")["n"]
        + row(  # type: ignore[operator]
            found, "auroc", "m", "Pneumonia", "not found before"
        )["n"]
        == 700
    )


def fitted(cohort: Cohort, y: np.ndarray, training: np.ndarray, audited: np.ndarray, **parts: object) -> np.ndarray:
    features = HistoryFeatures(**parts)  # type: ignore[arg-type]
    return fit_pretest(features, y, cohort.patients, training=training, audited=audited, seed=0).p


def test_labels_of_audited_cases_do_not_reach_their_pretest_probability() -> None:
    cohort, _, _ = films(200)
    every = np.arange(len(cohort))
    y = cohort.y_true(every)
    training, audited = cohort.rows(split="train"), cohort.rows(split="test")
    past = earlier_labels(cohort, cohort.labels)
    attributes = [("age", cohort.cases["age"])]
    parts = {"attributes": attributes, "earlier": past, "labels": cohort.labels}
    before = fitted(cohort, y, training, audited, **parts)
    flipped = y.copy()
    flipped[audited] = 1 - flipped[audited]
    assert np.array_equal(before, fitted(cohort, flipped, training, audited, **parts))
    flipped = y.copy()
    flipped[training] = 1 - flipped[training]
    assert not np.array_equal(before, fitted(cohort, flipped, training, audited, **parts))


@pytest.mark.slow
@pytest.mark.parametrize("split", ["train", "none"])
def test_cases_that_a_fit_has_seen_get_an_out_of_fold_answer(split: str) -> None:
    """Forty columns of noise and few cases: a fit judged on its own cases would look good."""
    rng = np.random.default_rng(0)
    n = 300
    names = [f"noise{k}" for k in range(40)]
    frame = pl.DataFrame(
        {"case_id": range(n), "patient_id": [k // 2 for k in range(n)], "ill": (rng.random(n) < 0.3).astype(np.uint8)}
        | {name: rng.normal(size=n) for name in names}
    )
    frame = frame.with_columns(split=pl.lit("train")) if split == "train" else frame
    cohort = Cohort.from_frame(frame, labels=("ill",), attributes=names)
    audit = replace(QUICK, attributes=tuple(names), split="train", mentions="none")
    found = run(audit, cohort, {"m": rng.random((n, 1))})
    assert abs(row(found, "auroc", PRETEST, "ill")["value"] - 0.5) < 0.1  # type: ignore[operator]


@pytest.mark.slow
def test_missing_and_rare_values_of_attributes() -> None:
    cohort, score, _ = films(300)
    cases = cohort.cases.with_columns(
        age=pl.when(pl.int_range(pl.len()) % 5 == 0).then(None).otherwise(pl.col("age")),
        sex=pl.when(pl.int_range(pl.len()) == 7).then(pl.lit("X")).otherwise(pl.col("sex")),
    )
    odd = replace(cohort, cases=cases)
    learned = HistoryFeatures(attributes=[("age", cases["age"]), ("sex", cases["sex"])]).learn(np.arange(100))
    assert learned.names == ("age", "age is missing", "sex = F", "sex = M")
    table = learned.table(np.arange(100))
    assert np.allclose(table.mean(axis=0), 0)
    assert not np.isnan(table).any()
    found = run(replace(QUICK, context=("attributes",), attributes=("age", "sex")), odd, {"m": score})
    assert row(found, "auroc", PRETEST, "Pneumonia")["value"] > 0.6  # type: ignore[operator]


def test_a_label_too_rare_to_fit_has_a_reason_and_the_run_goes_on() -> None:
    cohort, score, _ = films(200)
    y = cohort.y.toarray()
    rare = np.zeros((len(cohort), 1), np.uint8)
    rare[:5] = 1
    both = Cohort(cohort.cases, ("Pneumonia", "Rare"), sparse.csc_array(np.hstack([y, rare])), cohort.attributes)
    found = run(QUICK, both, {"m": np.hstack([score, score])})
    assert "fewer than 10 patients" in str(row(found, "auroc", "m", "Rare")["reason"])
    assert row(found, "auroc", "m", "Rare", "matched", "all")["value"] is None
    assert row(found, "auroc", "m", "Pneumonia")["value"] is not None


def test_earlier_notes_are_read_and_their_words_are_not_shown() -> None:
    cohort, score, _ = films(notes=True)
    found = run(QUICK, cohort, {"m": score})
    assert row(found, "auroc", PRETEST, "Pneumonia")["value"] > 0.6  # type: ignore[operator]
    assert any("no earlier note" in finding.sentence for finding in found.findings)
    mentioned, silent = (
        row(found, "auroc", "m", "Pneumonia", group)["n"] for group in ("prior mention", "no prior mention")
    )
    assert (mentioned, silent) == (700, 0)  # "no pneumonia" mentions it, as in the paper
    shown = run(replace(QUICK, include_text=True, mentions="affirmed"), cohort, {"m": score})
    mentioned, silent = (
        row(shown, "auroc", "m", "Pneumonia", group)["n"] for group in ("prior mention", "no prior mention")
    )
    assert mentioned + silent == 700  # type: ignore[operator]
    assert min(mentioned, silent) > 100  # type: ignore[type-var]
    words = {}
    for name, result in (("hidden", found), ("shown", shown)):
        table = next(block for block in result.blocks if block.title == "The pre-test probability")
        assert isinstance(table, Table)
        words[name] = table.rows[0][10]
    assert words["hidden"] == ""
    assert "treated" in str(words["shown"])


def test_the_best_source_there_is() -> None:
    cohort, _, _ = films(60, notes=True)

    def pick(among: Cohort, wanted: object = "auto", attributes: tuple[str, ...] = ()) -> tuple[str, ...]:
        return choose_sources(among, among.labels, wanted, "pretest_{label}", attributes).kinds  # type: ignore[arg-type]

    assert pick(cohort) == ("notes",)
    assert pick(cohort, attributes=("age",)) == ("notes", "attributes")
    assert pick(cohort, wanted=("earlier", "notes")) == ("earlier", "notes")
    without = replace(cohort, cases=cohort.cases.drop("prior"))
    assert pick(without) == ("earlier",)
    bare = replace(cohort, cases=cohort.cases.drop("prior", "time"))
    assert pick(bare, attributes=("age",)) == ("attributes",)
    ready = replace(cohort, cases=cohort.cases.with_columns(pretest_Pneumonia=pl.lit(0.2)))
    assert pick(ready, attributes=("age",)) == ("pretest",)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_notes_of_nobody_and_words_of_no_use_do_not_stop_the_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = 60
    notes = [None if rng.random() < 0.5 else "word" for _ in range(n)]
    y = (rng.random((n, 1)) < 0.5).astype(np.uint8)
    found = fit_pretest(
        HistoryFeatures(notes=notes), y, np.arange(n), training=np.arange(40), audited=np.arange(40, n), seed=seed
    )
    if found.reason[0] is None:
        assert np.all((found.p > 0) & (found.p < 1))
    else:
        assert np.isnan(found.p).all()


def test_words_are_weighed_as_scikit_learn_would_from_the_learned_notes_alone() -> None:
    rng = np.random.default_rng(3)
    words = np.asarray([f"word{k}" for k in range(60)], dtype=object)
    often = 1 / (1 + np.arange(60))
    notes = [" ".join(rng.choice(words, 25, p=often / often.sum())) if k % 7 else None for k in range(300)]
    notes += ["secret secret secret"] * 20
    learned, asked = np.arange(200), np.arange(200, 320)
    found = HistoryFeatures(notes=notes).learn(learned)
    theirs = TfidfVectorizer(max_features=8192, min_df=5, max_df=0.9, sublinear_tf=True)
    theirs.fit([notes[k] or "" for k in learned])
    expected = theirs.transform([notes[k] or "" for k in asked]).toarray()
    assert found.names == tuple(theirs.get_feature_names_out())
    assert "secret" not in found.names
    assert np.allclose(found.table(asked).toarray(), expected, atol=1e-12)
