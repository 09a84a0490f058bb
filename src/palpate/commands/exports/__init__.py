"""What a run holds, in formats of other tools: `palpate export`.

`export_meds` writes predictions in the schema of meds-evaluation, with the labels of a MEDS cohort.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.commands.build import read_training_cohort
from palpate.errors import CohortError, ConfigError, RunError, closest
from palpate.files import replacing
from palpate.run.directory import RunDirectory

MEDS_PREDICTIONS = {
    "subject_id": pl.Int64(),
    "prediction_time": pl.Datetime("us"),
    "boolean_value": pl.Boolean(),
    "predicted_boolean_value": pl.Boolean(),
    "predicted_boolean_probability": pl.Float64(),
}
_THRESHOLD = 0.5


class MedsExport(NamedTuple):
    """What was written, and of how many cases that were scored too the split was not asked for."""

    predictions: pl.DataFrame
    n_left_out: int


def export_meds(
    run: Path,
    cohort: Path,
    out: Path,
    *,
    model: str | None = None,
    label: str | None = None,
    threshold: float | None = None,
    split: str | None = None,
) -> MedsExport:
    """Write one model's predictions for the cases that a run scored.

    The cohort gives subjects, prediction times and labels. The threshold is the model's own, else 0.5. `split` is one
    of the cohort's, or `all`; default: what the run audited, since validation cases are scored for a threshold only.
    """
    if out.suffix.lower() != ".parquet":
        raise ConfigError("predictions of MEDS are written as Parquet", file=out, hint="give a name ending in .parquet")
    directory = RunDirectory(run)
    manifest = directory.read_manifest()
    chosen = _model(manifest, model, run)
    labels = tuple(chosen["labels"])
    cases = read_training_cohort(cohort)
    name = _label(cases, label, cohort)
    if name not in labels and len(labels) > 1:
        raise ConfigError(
            f"model '{chosen['name']}' does not predict '{name}'", hint=f"it predicts {', '.join(labels)}"
        )
    scores = directory.read_scores(chosen["name"], name)
    if scores is None or not scores.height:
        raise RunError("the run has no scores of the cohort's own cases", file=run, hint="run the audit `performance`")
    cut = threshold if threshold is not None else chosen.get("threshold") or _THRESHOLD
    wanted = cases.cases["case_id"][_rows(cases, manifest, split, cohort)]
    kept = scores["case_id"].is_in(wanted.implode())
    left_out = scores.filter(~kept & scores["case_id"].is_in(cases.cases["case_id"].implode()))["case_id"].n_unique()
    frame = _frame(cases, name, scores.filter(kept), cut, cohort)
    with replacing(out) as scratch:
        frame.write_parquet(scratch)
    return MedsExport(frame, left_out)


def _model(manifest: dict[str, Any], name: str | None, run: Path) -> dict[str, Any]:
    models = {each["name"]: each for each in manifest["models"]}
    if name is None and len(models) == 1:
        return next(iter(models.values()))
    if name in models:
        found: dict[str, Any] = models[name]
        return found
    problem = "the run has several models" if name is None else f"the run has no model '{name}'"
    raise ConfigError(problem, file=run, hint=f"choose one with --model: {', '.join(models)}")


def _rows(cohort: Cohort, manifest: dict[str, Any], split: str | None, file: Path) -> NDArray[np.int64]:
    """The cases of a split, or those of any split that an audit of the run was about."""
    if split is None:
        splits = {options["split"] for options in manifest["audits"].values() if "split" in options} or {None}
        return np.unique(np.concatenate([cohort.rows(split=each) for each in splits]))
    rows = cohort.rows(split=None if split == "all" else split)
    if not len(rows):
        known = cohort.cases["split"].drop_nulls().unique().sort().to_list()
        hint = closest(split, [*known, "all"], all_are="choose one with --split")
        raise ConfigError(f"the cohort has no case in split '{split}'", file=file, hint=hint)
    return rows


def _label(cohort: Cohort, name: str | None, file: Path) -> str:
    if name is None and len(cohort.labels) == 1:
        return cohort.labels[0]
    if name in cohort.labels:
        return str(name)
    raise ConfigError("which label?", file=file, hint=f"choose one with --label: {', '.join(cohort.labels)}")


def _frame(cohort: Cohort, label: str, scores: pl.DataFrame, threshold: float, file: Path) -> pl.DataFrame:
    """The table in MEDS's columns, sorted by subject and time."""
    if "time" not in cohort.cases.columns:
        raise CohortError("the cohort has no times of prediction", file=file, hint="name the column with `time:`")
    subject = cohort.cases["patient_id"].cast(pl.Int64, strict=False)
    if subject.null_count():
        row = int(subject.is_null().arg_true()[0]) + 1
        hint = "subjects of MEDS are whole numbers"
        raise CohortError("the patient's id is not a number", file=file, row=row, column="patient_id", hint=hint)
    y = cohort.y_true(np.arange(len(cohort)), [label])[:, 0]
    own = cohort.cases.select("case_id", pl.col("time").cast(pl.Datetime("us")).alias("prediction_time"))
    own = own.with_columns(subject.alias("subject_id"), pl.Series("boolean_value", y).cast(pl.Boolean))
    scored = scores.select("case_id", predicted_boolean_probability="p").unique("case_id", maintain_order=True)
    whole = own.join(scored, on="case_id").sort("subject_id", "prediction_time")
    if not whole.height:
        raise CohortError(
            "the run scored none of these cases", file=file, hint="give the run's own cohort, or `--split all`"
        )
    return whole.with_columns(predicted_boolean_value=pl.col("predicted_boolean_probability") >= threshold).select(
        *MEDS_PREDICTIONS
    )
