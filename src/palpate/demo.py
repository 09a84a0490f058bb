"""`palpate demo`: two hospitals, two models, every audit there is.

Hospital a ties a ward's name to readmission; hospital b does not. One model has learned little but that word; the other
reads many words. On held-out notes of hospital a they are about as good.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from palpate import jobs
from palpate.config import parse_settings
from palpate.errors import InputError
from palpate.models.train import train
from palpate.synthetic.hospital import write_hospital

_MARK = ".palpate-demo"
_SPLITS = {"a": "ratios=[0.5, 0.15, 0.35]", "b": "ratios=[0, 0, 1]"}
"""Hospital a trains, validates and tests; hospital b only tests."""
_MODELS = {
    "xgboost": ("tfidf-xgboost", ["max_depth=1", "n_estimators=6", "class_weight=none"]),
    "logistic": ("tfidf-logistic", ["max_features=3000", "class_weight=none"]),
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
cache: scores.sqlite
"""


def write_demo(
    folder: Path, *, seed: int = 0, n_patients: int = 5000, step: Callable[[str, int, int], None] | None = None
) -> Path:
    """Make the hospitals, the cohorts and the models; returns the configuration's path.

    `folder` must be new, empty, or of an earlier demo, which is replaced.
    """
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise InputError("is not empty", file=folder, hint="choose another --out for the demo")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
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
        jobs.build_cohort("readmission", hospital / "mimic-iii", cohort, overrides=[_SPLITS[site]])
    cases = jobs.read_training_cohort(folder / "cohort-a.parquet")
    for k, (name, (kind, options)) in enumerate(_MODELS.items()):
        say("training models", k, len(_MODELS))
        train(kind, cases, folder / "models" / name, parse_settings(options))
    config = folder / "audit.yaml"
    config.write_text(_CONFIG, encoding="utf-8")
    return config
