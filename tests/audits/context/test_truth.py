"""The context audit on the synthetic hospital: a model that leans on the history falls by what truth.json implies.

The hospital's honest model sees the picture, which given the label does not depend on the history. Its shortcut model
also reads a sticker that shows the history; both have the same AUROC. truth.json says what the second has on matched
studies. With the plant off the two are alike, and the audit must find nothing, in at least 93 of 100 hospitals.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr

from palpate.audits.context import Context
from palpate.cases.cohort import Cohort
from palpate.results import AuditResult
from palpate.stats import matched_share
from palpate.synthetic import write_hospital
from palpate.synthetic.patients.findings import labels
from palpate.synthetic.plants import Plants
from palpate.synthetic.truth import describe
from tests.audits.context.context_cases import hospital, planted, row, run, sigmoid, told_by_history

AUDIT = Context(n_replicates=1000, caliper=0.02, decision_thresholds=())


def implied(cxr: dict[str, Any], cohort: Cohort, label: str) -> float:
    """The change of the shortcut model's AUROC from all studies to the matched pairs, from the planted numbers.

    Where the history makes a label likelier than not there are more positives than negatives, and some positives find
    no partner. So the sticker's share is taken from the histories that are in the pairs; where all find one, this is
    the `shortcut_matched` of truth.json.
    """
    p = cohort.cases[f"pretest_{label}"].to_numpy()
    y = cohort.y_true(np.arange(len(cohort)), [label])[:, 0]
    sticker = cxr["shortcut_weight"] * (np.log(p / (1 - p)) - cxr["pretest_mean"][label]) / cxr["pretest_sd"][label]

    def auroc(weight: np.ndarray) -> float:
        positive, negative = (np.flatnonzero((y == side) & (weight > 0)) for side in (1, 0))
        apart = cxr["shortcut_signal"][label] + sticker[positive][:, None] - sticker[negative][None, :]
        return float(np.average(ndtr(apart / np.sqrt(2)), weights=np.outer(weight[positive], weight[negative])))

    return auroc(matched_share(p, y, caliper=AUDIT.caliper)) - auroc(np.ones(len(y)))


def check_shortcut(result: AuditResult, cohort: Cohort, cxr: dict[str, Any]) -> None:
    """Every label's implied change is in its interval; truth.json's own too, where nearly every positive has a pair."""
    alike = 0
    for label in labels():
        found = row(result, "auroc", "shortcut", label, "matched", "all")
        if found["low"] is None:
            continue
        assert found["low"] <= implied(cxr, cohort, label) <= found["high"], label  # type: ignore[operator]
        if (cohort.cases[f"pretest_{label}"] > 0.5).mean() < 0.02:  # type: ignore[operator]
            told = cxr["auroc"]["shortcut_matched"][label] - cxr["auroc"]["shortcut"][label]
            assert found["low"] <= told <= found["high"], label  # type: ignore[operator]
            alike += 1
    assert alike >= 7
    changed = result.estimates.filter(metric="auroc", group="matched", reference="all", significant=True)
    assert set(changed["model"]) == {"shortcut"}
    assert changed.height >= 6


@pytest.mark.slow
def test_the_shortcut_falls_by_what_the_truth_implies() -> None:
    known = hospital(5000, seed=1, plants=Plants())
    cxr = describe(Plants(), site="a", seed=1, n_patients=5000)["cxr"]
    result = run(replace(AUDIT, n_replicates=500), known.cohort, known.scores)
    check_shortcut(result, known.cohort, cxr)
    changes = np.mean([implied(cxr, known.cohort, label) for label in labels()])
    for model, wanted in (("shortcut", changes), ("honest", 0.0)):
        mean = row(result, "auroc", model, "macro", "matched", "all")
        assert mean["value"] == pytest.approx(wanted, abs=0.02)
        assert mean["significant"] is (model == "shortcut")
    verdicts = {answer.model: answer.verdict for answer in result.answers if answer.question == "held_equal"}
    assert verdicts["shortcut"] == "concern"
    assert verdicts["honest"] != "concern"


def alarms(result: AuditResult) -> list[tuple[str, str, str]]:
    """Everything that is marked; gains over the history are left out, because they are real."""
    found = result.estimates.filter(pl.col("significant"), ~pl.col("metric").str.starts_with("auroc_"))
    return list(zip(found["metric"], found["label"], found["group"], strict=True))


@pytest.mark.slow
@pytest.mark.timeout(3600)  # 160 processor seconds, on a machine that may be busy
def test_with_the_plant_off_nothing_is_found() -> None:
    """In at least 93 of 100 hospitals the audit marks nothing: no label, metric, question, nor the mean over labels."""
    plants = Plants(visual_shortcut=0.0)
    audit = replace(AUDIT, n_replicates=400, phrases=told_by_history(), family="run")
    marked, tested = [], []
    for seed in range(2000, 2100):
        known = hospital(2000, seed=seed, plants=plants)
        result = run(audit, known.cohort, {"shortcut": known.scores["shortcut"]}, seed=seed)
        asked = result.estimates.filter(pl.col("p_value").is_not_null())
        tested.append(set(asked["group"]))
        marked.append(alarms(result))
    assert sum(bool(each) for each in marked) <= 7, marked
    for group in ("matched", "re-weighted", "top 25%", "prior mention"):
        assert sum(group in groups for groups in tested) >= 95, group


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_model_that_adds_nothing_gains_nothing() -> None:
    """Noise, and the history with noise: the gain is marked in at most 7 of 100 cohorts."""
    marked = 0
    for seed in range(100):
        known = planted(1200, seed=seed)
        rng = np.random.default_rng(seed)
        p = known.scores["context"]
        noisy = sigmoid(np.log(p / (1 - p)) + rng.normal(size=p.shape))
        result = run(
            replace(AUDIT, n_replicates=300), known.cohort, {"noise": rng.random(p.shape), "history": noisy}, seed=seed
        )
        gains = result.estimates.filter(metric="auroc_gain_over_context")
        assert gains["significant"].null_count() == 0
        marked += bool(gains["significant"].any())
    assert marked <= 7


@pytest.mark.slow
def test_the_files_of_the_hospital_say_the_same(tmp_path: Path) -> None:
    write_hospital(tmp_path, n_patients=1500, seed=1, images=False)
    cxr = json.loads((tmp_path / "truth.json").read_text())["cxr"]
    folder = tmp_path / "mimic-cxr-jpg"
    state = pl.read_csv(tmp_path / "latent_studies.csv.gz", infer_schema_length=None).filter(has_prior=1)
    chexpert = pl.read_csv(folder / "mimic-cxr-2.0.0-chexpert.csv.gz")
    studies = state.select("dicom_id", "study_id", "subject_id").join(chexpert, on="study_id", maintain_order="left")
    answers = {}
    for model in ("honest", "shortcut", "pretest"):
        table = pl.read_csv(folder / f"predictions/{model}.csv.gz")
        joined = studies.select(case_id="dicom_id").join(table, on="case_id", maintain_order="left")
        answers[model] = joined.select(labels()).to_numpy()
    frame = studies.select(
        case_id="dicom_id",
        patient_id="subject_id",
        **{label: (pl.col(label) == 1.0).fill_null(False).cast(pl.UInt8) for label in labels()},
    ).with_columns(**{f"pretest_{label}": answers["pretest"][:, j] for j, label in enumerate(labels())})
    names = [f"pretest_{label}" for label in labels()]
    cohort = Cohort.from_frame(frame, labels=labels(), attributes=names)
    result = run(AUDIT, cohort, {name: answers[name] for name in ("honest", "shortcut")})
    check_shortcut(result, cohort, cxr)
