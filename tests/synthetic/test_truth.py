"""What was planted can be found again, and is gone when it is switched off."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from palpate.synthetic.calibrate import calibrate, expected_auroc, probability
from palpate.synthetic.patients import Stay, simulate
from palpate.synthetic.patients.conditions import condition_names
from palpate.synthetic.patients.findings import findings, labels
from palpate.synthetic.plants import Plants, Site
from palpate.synthetic.truth import describe, expected_ratings, word_effects
from tests.synthetic.conftest import read


def stays(n: int, *, seed: int, site: Site = "a", plants: Plants = Plants()) -> list[tuple[str, str, Stay]]:  # noqa: B008
    intercepts = calibrate(plants, site).intercepts
    patients = simulate(n, seed=seed, site=site, source="iii", plants=plants, intercepts=intercepts)
    return [(patient.gender, patient.ethnicity, stay) for patient in patients for stay in patient.stays]


def latent_features(rows: list[tuple[str, str, Stay]]) -> np.ndarray:
    names = {name: k for k, name in enumerate(condition_names())}
    features = np.zeros((len(rows), len(names) + 6))
    for row, (gender, ethnicity, stay) in enumerate(rows):
        features[row, [names[condition.name] for condition in stay.conditions]] = 1
        state = (stay.severity, stay.age / 10, gender == "F", ethnicity == "African American", ethnicity == "Hispanic")
        features[row, len(names) :] = (*state, stay.spurious)
    return features


def log_odds_ratio(flag: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """With its standard error."""
    cells = [((flag == a) & (y == b)).sum() + 0.5 for a in (1, 0) for b in (1, 0)]
    return float(np.log(cells[0] * cells[3] / (cells[1] * cells[2]))), float(np.sqrt(sum(1 / c for c in cells)))


def test_logistic_model_on_the_latent_state_reaches_the_intended_auroc() -> None:
    train = [row for row in stays(9000, seed=11) if row[2].eligible]
    test = [row for row in stays(9000, seed=12) if row[2].eligible]
    y_train = [row[2].readmitted for row in train]
    model = LogisticRegression(C=1.0, max_iter=2000).fit(latent_features(train), y_train)
    y_true = [row[2].readmitted for row in test]
    reached = roc_auc_score(y_true, model.decision_function(latent_features(test)))
    assert reached == pytest.approx(calibrate(Plants(), "a").auroc_readmission, abs=0.02)
    names = [*condition_names(), "severity", "age", "gender", "African American", "Hispanic", "spurious"]
    coefficients = dict(zip(names, model.coef_[0], strict=True))
    assert coefficients["spurious"] == pytest.approx(Plants().spurious_word, abs=0.35)
    assert coefficients["gender"] == pytest.approx(Plants().gender_effect, abs=0.3)
    assert coefficients["African American"] == pytest.approx(Plants().ethnicity_effect, abs=0.4)


def test_expected_auroc_against_drawn_outcomes() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(-2, 1.5, 60_000)
    y = rng.random(len(logits)) < probability(logits)
    assert expected_auroc(logits) == pytest.approx(roc_auc_score(y, logits), abs=0.006)


@pytest.mark.parametrize(("site", "planted"), [("a", 2.4), ("a", 0.0), ("b", 2.4), ("b", 0.0)])
def test_spurious_word_is_tied_to_readmission_at_site_a_only(site: Site, planted: float) -> None:
    rows = [row[2] for row in stays(5000, seed=4, site=site, plants=Plants(spurious_word=planted)) if row[2].eligible]
    word = np.array([stay.spurious for stay in rows])
    tie, error = log_odds_ratio(word, np.array([stay.readmitted for stay in rows]))
    assert word.mean() == pytest.approx(0.18, abs=0.015)
    if site == "a" and planted:
        assert tie > 1.5
    else:
        assert abs(tie) < 3 * error


@pytest.mark.parametrize("outcome", ["readmitted", "died"])
def test_gender_and_ethnicity_have_no_effect_when_off(outcome: str, off: Plants) -> None:
    rows = [row for row in stays(6000, seed=9, plants=off) if row[2].kind != "NEWBORN"]
    if outcome == "readmitted":
        rows = [row for row in rows if row[2].eligible]
    y = np.array([getattr(row[2], outcome) for row in rows])
    for flag in ([row[0] == "F" for row in rows], [row[1] == "African American" for row in rows]):
        effect, error = log_odds_ratio(np.array(flag), y)
        assert abs(effect) < 3 * error


@pytest.mark.slow
def test_the_note_says_what_the_latent_state_says(large: Path) -> None:
    truth = json.loads((large / "truth.json").read_text())
    notes = read(large, "mimic-iii/NOTEEVENTS").filter(
        (pl.col("CATEGORY") == "Discharge summary") & (pl.col("DESCRIPTION") == "Report")
    )
    table = read(large, "latent_iii").join(notes, left_on="hadm_id", right_on="HADM_ID")
    adults = table.filter(pl.col("eligible") == "1")
    text = adults["TEXT"].str.to_lowercase()
    said = text.str.contains(rf"\b{truth['spurious_word']['word']}\b")
    assert (said == (adults["spurious"] == "1")).all()
    for condition, word in (("dementia", "dementia"), ("dialysis", "dialysis"), ("cirrhosis", "cirrhosis")):
        has = adults[f"has_{condition}"] == "1"
        assert text.str.contains(word).filter(has).mean() > 0.95  # type: ignore[operator]
        assert text.str.contains(word).filter(~has).mean() < 0.02  # type: ignore[operator]


def test_prevalences(large: Path) -> None:
    state = read(large, "latent_iii").with_columns(pl.col("eligible", "readmitted", "planned_next", "died").cast(int))
    assert state["died"].mean() == pytest.approx(0.10, abs=0.02)
    eligible = state.filter(pl.col("eligible") == 1)
    again = (eligible["readmitted"] == 1) | (eligible["planned_next"] == 1)
    assert again.mean() == pytest.approx(0.06, abs=0.02)


def test_admissions_give_the_same_outcomes_as_the_latent_state(large: Path) -> None:
    """By the obvious loop over each patient's stays."""
    by_patient: dict[str, list[tuple[object, ...]]] = {}
    times = pl.col("ADMITTIME", "DISCHTIME").str.to_datetime()
    for row in read(large, "mimic-iii/ADMISSIONS").with_columns(times).iter_rows(named=True):
        by_patient.setdefault(row["SUBJECT_ID"], []).append((row["ADMITTIME"], row["DISCHTIME"], row["HADM_ID"]))
    again = {}
    for rows in by_patient.values():
        rows.sort()
        for (_, discharged, hadm), (admitted, _, _) in pairwise(rows):
            again[hadm] = (admitted - discharged).total_seconds() <= 30 * 86400  # type: ignore[operator]
    for row in read(large, "latent_iii").iter_rows(named=True):
        expected = row["readmitted"] == "1" or row["planned_next"] == "1"
        assert again.get(row["hadm_id"], False) == expected


def cxr(large: Path) -> tuple[pl.DataFrame, np.ndarray]:
    studies = pl.read_csv(large / "latent_studies.csv.gz", infer_schema_length=None)
    found = pl.read_csv(large / "mimic-cxr-jpg/mimic-cxr-2.0.0-chexpert.csv.gz", infer_schema_length=None)
    table = studies.join(found, on=["study_id", "subject_id"]).filter(pl.col("has_prior") == 1)
    return table, (table.select(labels()).fill_null(0).to_numpy() == 1.0)


def test_chest_labels_have_the_published_prevalences(large: Path) -> None:
    table, y = cxr(large)
    truth = json.loads((large / "truth.json").read_text())["cxr"]
    n = table["subject_id"].n_unique()
    for k, label in enumerate(labels()):
        expected = truth["prevalence"][label]
        assert y[:, k].mean() == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / n)), label


def test_history_predicts_chest_labels_and_models_reach_their_aurocs(large: Path) -> None:
    table, y = cxr(large)
    truth = json.loads((large / "truth.json").read_text())["cxr"]["auroc"]
    for name in ("honest", "shortcut", "pretest"):
        answers = pl.read_csv(large / f"mimic-cxr-jpg/predictions/{name}.csv.gz")
        scores = table.select("dicom_id").join(answers, left_on="dicom_id", right_on="case_id", maintain_order="left")
        expected = truth["context" if name == "pretest" else name]
        reached = [roc_auc_score(y[:, k], scores[label]) for k, label in enumerate(labels())]
        gaps = np.array(reached) - np.array([expected[label] for label in labels()])
        assert abs(gaps.mean()) < 0.03, name
        assert abs(gaps[[labels().index(label) for label in ("Pleural Effusion", "Cardiomegaly")]]).max() < 0.05


def test_shortcut_model_equals_the_honest_one_until_matched() -> None:
    auroc = findings(Plants(), "a").auroc
    assert auroc["shortcut"] == pytest.approx(auroc["honest"], abs=0.002)
    assert (auroc["shortcut"] - auroc["shortcut_matched"]).min() > 0.04
    none = findings(Plants(visual_shortcut=0.0), "a").auroc
    assert none["shortcut_matched"] == pytest.approx(none["honest"], abs=1e-6)


def test_without_history_the_context_says_nothing(off: Plants) -> None:
    made = findings(off, "a")
    assert made.auroc["context"] == pytest.approx(np.full(13, 0.5), abs=1e-9)
    assert made.pretest({"cancer", "heart_failure"}) == pytest.approx(made.pretest(set()))
    assert (made.standard(made.pretest({"cancer"})) == 0).all()


def test_ratings_follow_the_effects() -> None:
    effects, ratings = word_effects(), expected_ratings()
    words = list(effects)
    rank = np.corrcoef([effects[word] for word in words], [ratings[word] for word in words])[0, 1]
    assert rank > 0.9
    assert ratings["larkspur"] == min(ratings.values())


@pytest.mark.parametrize("site", ["a", "b"])
def test_the_truth_says_what_differs_between_the_sites(site: Site) -> None:
    truth = describe(Plants(), site=site, seed=0, n_patients=1)
    assert truth["spurious_word"]["applies_at_this_site"] == (site == "a")
    assert truth["site_shift"]["readmission_prevalence"] == {"a": 0.056, "b": 0.075}
    assert truth["site_shift"]["readmission_prevalence"][site] == truth["readmission"]["prevalence"]
    assert truth["site_shift"]["spurious_word_log_odds"][site] == truth["spurious_word"]["log_odds"]
    assert all(set(values) == {"a", "b"} for values in truth["site_shift"].values())
    assert all(rating == round(rating, 3) for rating in truth["words"]["ratings"].values())
    json.dumps(truth, allow_nan=False)
