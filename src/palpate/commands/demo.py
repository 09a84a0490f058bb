"""`palpate demo`: two hospitals, two pairs of models, most of the audits, and the story in a few lines.

Readmission: hospital a ties a ward's name to it; hospital b does not. One model leans on that word; the
makers of the other left out the names of wards and the words that tell the patient's gender. On held-out notes of
hospital a the two can hardly be told apart, and both have a threshold that one could work with.

Chest X-rays of hospital a: two models of equal AUROC whose predictions the hospital ships. One sees the picture; the
other sees less of it, and a sticker that shows the patient's history. The hospital also ships how likely each finding
was before the X-ray, so what the context audit finds can be compared with truth.json.

It is an illustration, not evidence: the models' settings and the split were chosen by hand on seed 0, out of about a
dozen, so that the two have near-equal AUROC at hospital a. Fewer patients blur it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from palpate.commands.build import build_cohort, read_training_cohort
from palpate.config import parse_settings
from palpate.errors import InputError
from palpate.files import make_folder
from palpate.registry import optional
from palpate.results import MACRO
from palpate.synthetic import write_hospital
from palpate.train import train

if TYPE_CHECKING:
    from palpate.commands.audit import Outcome

_MARK = ".palpate-demo"
_SPLITS = {"a": "ratios=[0.5, 0.15, 0.35]", "b": "ratios=[0, 0, 1]"}
"""Hospital a trains, validates and tests; hospital b only tests."""
_GENDER = "he, him, his, himself, she, her, hers, herself, male, female, man, woman, gentleman, lady, mr, mrs, ms, m, f"
_MODELS = {
    "xgboost": ("tfidf-xgboost", ["max_depth=1", "n_estimators=12", "class_weight=none"]),
    "logistic": (
        "tfidf-logistic",
        ["min_patients=20", "sublinear=true", f"exclude_words=[{{ward}}, {_GENDER}]", "class_weight=none"],
    ),
}
_CONFIG = """\
# Two models, two hospitals: near-equal AUROC at home.
title: Readmission within 30 days, two models
cohorts:
  hospital a: cohort-a.parquet
  hospital b: cohort-b.parquet
models:
  logistic: palpate:models/logistic
  xgboost: palpate:models/xgboost
audits:
  performance: {}
  vocabulary: {raters: hospital-a/clinician_ratings.csv}
  characteristics: {}
cache: scores.sqlite
"""
XRAYS = "xrays.yaml"
_XRAY_CONFIG = """\
# Two models of chest X-rays with equal AUROC. What is left of it when the history is known?
title: Chest X-rays, two models
cohort: xrays.parquet
models:
  picture: predictions:hospital-a/mimic-cxr-jpg/predictions/honest.csv.gz
  sticker: predictions:hospital-a/mimic-cxr-jpg/predictions/shortcut.csv.gz
audits:
  performance: {n_replicates: 1000}
  # Pairs may differ by 0.02 in the pre-test probability: where a finding is likelier than not, positives outnumber
  # negatives, and without a limit some would be paired with whom they do not resemble.
  context: {caliper: 0.02, n_replicates: 1000}
cache: scores.sqlite
"""


def write_demo(
    folder: Path, *, seed: int = 0, n_patients: int = 5000, step: Callable[[str, int, int], None] | None = None
) -> Path:
    """Make the hospitals, the cohorts and the models; returns the configuration's path. That of the X-rays is `XRAYS`.

    `folder` must be new, empty, or of an earlier demo, which is replaced.
    """
    for module in ("duckdb", "xgboost"):
        optional(module, extra="demo", needed_for="the demo")
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise InputError("is not empty", file=folder, hint="choose another --out for the demo")
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)
    (folder / _MARK).touch()
    say = step or (lambda *_: None)
    for site, n in (("a", n_patients), ("b", 3 * n_patients // 5)):
        stage = f"making hospital {site}"
        hospital = folder / f"hospital-{site}"
        write_hospital(
            hospital,
            n_patients=n,
            seed=seed,
            site="a" if site == "a" else "b",
            images=False,
            progress=lambda done, total, stage=stage: say(stage, done, total),  # type: ignore[misc]
        )
        cohort = folder / f"cohort-{site}.parquet"
        build_cohort("readmission", hospital / "mimic-iii", cohort, overrides=[_SPLITS[site]])
    cases = read_training_cohort(folder / "cohort-a.parquet")
    ward = _truth(folder)["spurious_word"]["word"]
    for k, (name, (kind, options)) in enumerate(_MODELS.items()):
        say("training models", k, len(_MODELS))
        settings = parse_settings([option.format(ward=ward) for option in options])
        train(kind, cases, folder / "models" / name, settings)
    say("joining chest X-rays", 0, 1)
    _write_xrays(folder)
    config = folder / "audit.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    return config


def _write_xrays(folder: Path) -> None:
    """The X-rays of hospital a, all of them held out, with their pre-test probabilities as attributes."""
    file, hospital = folder / "xrays.parquet", folder / "hospital-a"
    built = build_cohort("cxr", hospital, file, overrides=["ratios=[0, 0, 1]"])
    pretest = pl.read_csv(hospital / "mimic-cxr-jpg" / "predictions" / "pretest.csv.gz").select(
        "case_id", **{f"attribute:pretest_{label}": label for label in built.cohort.labels}
    )
    pl.read_parquet(file).join(pretest, on="case_id", how="left", maintain_order="left").write_parquet(file)
    (folder / XRAYS).write_text(_XRAY_CONFIG, encoding="utf-8")


def tell(folder: Path, outcome: Outcome) -> list[str]:
    """What was made and what was found, for someone who sees palpate for the first time."""
    word = _truth(folder)["spurious_word"]["word"]
    row = _EstimateRows(outcome)
    auroc = {"audit": "performance", "metric": "auroc"}
    pair = row(model="xgboost", group="hospital a", reference="logistic", **auroc)
    drops = [row(model=name, group="hospital b", reference="hospital a", **auroc) for name in _MODELS]
    home = {name: row(model=name, group="hospital a", **auroc)["value"] for name in _MODELS}
    levels = " and ".join(f"{name} {value:.3f}" for name, value in home.items())
    same = "which cannot be told apart" if not pair["significant"] else "which differ this time"
    ranks = {name: row(audit="vocabulary", metric="rank", model=name, group=word) for name in _MODELS}
    places = " and ".join(f"{_place(rank['value'])} for {name}" for name, rank in ranks.items())
    rated = row(audit="vocabulary", metric="rank", model="clinicians", group=word)
    agree = {name: row(audit="vocabulary", metric="clinician_agreement", model=name) for name in _MODELS}
    agreement = " and ".join(f"{name} {each['value']:.2f}" for name, each in agree.items())
    changes = " and ".join(f"{drop['model']} {_change(drop)}" for drop in drops)
    return [
        f"Two hospitals were made. At hospital a, a ward's name, '{word}', goes with readmission; at b it does not.",
        f"Two models learned from hospital a. Their AUROC on its held-out notes: {levels}, {same}.",
        f"Of {agree['xgboost']['n']} words, ranked by how far they move the prediction, '{word}' is {places}; "
        f"clinicians rank it {_place(rated['value'])}.",
        f"Agreement with the clinicians (Spearman, 1 is perfect): {agreement}.",
        f"At hospital b, {changes}.",
    ]


def tell_xrays(folder: Path, outcome: Outcome) -> list[str]:
    """What was found on the chest X-rays."""
    truth = _truth(folder)["cxr"]["auroc"]
    planted = sum(truth["shortcut_matched"][label] - truth["shortcut"][label] for label in truth["shortcut"])
    found = {
        (row["model"], row["group"], row["reference"]): row
        for row in outcome.results[-1].estimates.filter(metric="auroc", label=MACRO).iter_rows(named=True)
    }
    models = ("picture", "sticker")
    if any((model, "matched", "all") not in found for model in models):
        return ["There are too few chest X-rays to tell their two models apart."]
    levels = " and ".join(f"{name} {found[name, 'all', None]['value']:.3f}" for name in models)
    changes = " and ".join(f"{name} {_change(found[name, 'matched', 'all'])}" for name in models)
    return [
        f"Two models read chest X-rays. Their AUROC, the mean of {len(truth['shortcut'])} labels: {levels}.",
        f"Among patients with a similar pre-test probability, {changes} (planted: 0 and "
        + f"{planted / len(truth['shortcut']):.2f}).".replace("-", "−"),
    ]


def _truth(folder: Path) -> dict[str, Any]:
    """What was planted in hospital a."""
    found: dict[str, Any] = json.loads((folder / "hospital-a" / "truth.json").read_text(encoding="utf-8"))
    return found


class _EstimateRows:
    """Looks single estimates up; a row without a reference unless one is asked for."""

    def __init__(self, outcome: Outcome) -> None:
        self._estimates = pl.concat(result.estimates for result in outcome.results)

    def __call__(self, *, reference: str | None = None, **wanted: str) -> dict[str, Any]:
        same = pl.col("reference").is_null() if reference is None else pl.col("reference") == reference
        return self._estimates.filter(same, **wanted).row(0, named=True)


def _place(rank: float) -> str:
    """1st, 2nd, 3rd; a shared rank is told by its number."""
    if rank != round(rank):
        return f"{rank:g}"
    place = round(rank)
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def _change(drop: Mapping[str, Any]) -> str:
    size = f"{'loses' if drop['value'] < 0 else 'gains'} {abs(drop['value']):.2f} AUROC"
    return size if drop["significant"] else f"{size}, which may be chance"
