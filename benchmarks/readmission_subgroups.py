"""The real run of docs/readmission-subgroups.md: two readmission models on a public table of hospital encounters.

    python benchmarks/readmission_subgroups.py --data diabetic_data_every8th.csv --out DIR [--replicates 10000]

Patients are divided at random: half train the models (of these a fifth is the validation split), half are audited. A
stay that ends with death or hospice can have no readmission and is left out. Writes cohort, scores, configuration, run
and report, and prints the findings and the numbers of the page.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from palpate.commands.audit import audit

NUMBERS = (
    "time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
    "number_emergency", "number_inpatient", "number_diagnoses",
)  # fmt: skip
CATEGORIES = (
    "age", "admission_type_id", "discharge_disposition_id", "admission_source_id", "payer_code", "medical_specialty",
    "chapter", "A1Cresult", "max_glu_serum", "insulin", "change", "diabetesMed",
)  # fmt: skip
DEAD_OR_HOSPICE = ("11", "13", "14", "19", "20", "21")
CONFIG = """\
title: Two models of readmission within 30 days, 130 US hospitals
cohort:
  file: stays.parquet
  case: encounter_id
  patient: patient_nbr
  split: split
  labels: [readmitted]
  attributes: [gender, race, age, admission, payer]
models:
  regression: predictions:regression.csv
  boosting: predictions:boosting.csv
audits:
{audits}
"""
AUDITS = """\
  performance: {{n_replicates: {n}}}
  subgroups:
    by: [gender, race, age, admission, payer, [gender, race]]
    n_replicates: {n}
  operating:
    thresholds: {{vendor: 0.2}}
    capacity: {{flag: 0.1}}
    n_replicates: {n}
  slices: {{}}
  recalibration: {{}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--replicates", type=int, default=10_000)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    write_inputs(args.data, args.out)
    config = args.out / "audit.yaml"
    config.write_text(CONFIG.format(audits=AUDITS.format(n=args.replicates)), encoding="utf-8")
    start = time.perf_counter()
    outcome = audit(config, out=args.out / f"run{time.time_ns()}", workers=1)
    print(f"{time.perf_counter() - start:.0f} s")
    for result in outcome.results:
        print(f"\n## {result.audit}")
        for finding in result.findings:
            print(f"- {finding.kind} ({finding.question or 'in general'}): {finding.sentence}")
        for answer in result.answers:
            print(f"{answer.question}, {answer.model}: {answer.verdict} {answer.value} ({answer.low} to {answer.high})")
    print(outcome.report)


def write_inputs(data: Path, out: Path) -> None:
    """The stays as a cohort, and both models' scores of those that are not for training."""
    stays = pl.read_csv(data, null_values="?", infer_schema_length=0)
    stays = stays.filter(~pl.col("discharge_disposition_id").is_in(DEAD_OR_HOSPICE)).with_columns(
        pl.col(NUMBERS).cast(pl.Float64),
        (pl.col("readmitted") == "<30").cast(pl.UInt8),
        pl.col("diag_1").map_elements(chapter, return_dtype=pl.String).alias("chapter"),
    )
    stays = stays.with_columns(split_of(stays["patient_nbr"]))
    train = stays.filter(pl.col("split") == "train")
    rest = stays.filter(pl.col("split") != "train")
    for name, model in models().items():
        model.fit(features(train), train["readmitted"].to_numpy())
        scores = model.predict_proba(features(rest))[:, 1]
        rest.select(pl.col("encounter_id").alias("case_id"), pl.Series("readmitted", scores)).write_csv(
            out / f"{name}.csv"
        )
    kind = {"1": "emergency", "2": "urgent", "3": "elective"}
    insured = {"MC": "Medicare", "MD": "Medicaid", "SP": "self-pay"}
    rest.select(
        "encounter_id", "patient_nbr", "split", "readmitted", "gender", "race",
        age_band(pl.col("age")),
        pl.col("admission_type_id").replace_strict(kind, default=None).alias("admission"),
        pl.when(pl.col("payer_code").is_not_null()).then(
            pl.col("payer_code").replace_strict(insured, default="other insurance")
        ).alias("payer"),
    ).write_parquet(out / "stays.parquet")  # fmt: skip


def split_of(patients: pl.Series) -> pl.Series:
    """Half of the patients for the audit, two fifths to train, a tenth to validate."""
    unique = patients.unique().sort()
    drawn = np.random.default_rng(0).permutation(len(unique)) / len(unique)
    names = np.where(drawn < 0.5, "test", np.where(drawn < 0.6, "validation", "train"))
    return patients.replace_strict(unique, pl.Series(names)).alias("split")


def age_band(age: pl.Expr) -> pl.Expr:
    """`[70-80)` as 60-79: bands of twenty years."""
    start = age.str.strip_chars("[)").str.split("-").list.first().cast(pl.Int64) // 20 * 20
    return pl.concat_str(start, pl.lit("-"), start + 19).replace({"0-19": "under 20"})


def chapter(code: str | None) -> str:
    """The chapter of a principal diagnosis in ICD-9-CM, coarsely: the first two digits, V or E."""
    return "none" if not code else code[:1] if not code[0].isdigit() else str(int(float(code)) // 50)


def features(stays: pl.DataFrame) -> pl.DataFrame:
    """What both models read; a missing category is a category."""
    return stays.select(*NUMBERS, pl.col(CATEGORIES).fill_null("missing"))


def models() -> dict[str, Any]:
    """A logistic regression and boosted trees, as they come."""
    rare: dict[str, Any] = {"handle_unknown": "infrequent_if_exist", "min_frequency": 20}
    unknown: dict[str, Any] = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
    linear = make_column_transformer((StandardScaler(), list(NUMBERS)), (OneHotEncoder(**rare), list(CATEGORIES)))
    ordered = make_column_transformer(("passthrough", list(NUMBERS)), (OrdinalEncoder(**unknown), list(CATEGORIES)))
    return {
        "regression": make_pipeline(linear, LogisticRegression(C=0.1, max_iter=1000)),
        "boosting": make_pipeline(ordered, HistGradientBoostingClassifier(random_state=0)),
    }


if __name__ == "__main__":
    main()
