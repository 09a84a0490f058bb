"""The real run of docs/ade.md: two classifiers of adverse drug events, near-equal F1, different capabilities.

    python benchmarks/ade_real_run.py --corpus DIR --out DIR [--minilm DIR] [--templates DIR]

`--corpus` is the folder of the ADE corpus v2 (DRUG-AE.rel, ADE-NEG.txt), `--minilm` a checkpoint of all-MiniLM-L6-v2.
Builds the cohort, trains a tf-idf model and one on letters (with `--minilm`: on MiniLM), audits both with the suite
`ade` and, with `--templates` (templates_all.csv, templates_base.csv), with the paper's own templates, and prints what
the page tells, with intervals.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from ade_chars import embed
from ade_minilm import Encoder
from palpate.cases.cohort import Cohort
from palpate.commands.audit import audit
from palpate.commands.suites import import_suite
from palpate.data.cohorts import write_built_cohort
from palpate.data.cohorts.ade import build_ade
from palpate.train import train

CONFIG = """\
title: Adverse drug events, two classifiers
cohort: ade.parquet
models:
  tfidf: palpate:tfidf
  {second}: {{source: "python:{module}:probability", labels: [ADE], fingerprint: "{fingerprint}"}}
audits:
  performance: {{n_replicates: 2000}}
  capabilities: {{suite: {suite}{options}}}
cache: cache.sqlite
"""
PAPER_SIZES = ", sizes: {drug: 5, ade: 15, time_entity: 7}"
PENALTIES = (0.1, 1.0, 10.0, 100.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--minilm", type=Path)
    parser.add_argument("--templates", type=Path, help="the folder of the paper's own templates")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--ngrams", type=int, default=2, help="longest n-gram of the tf-idf model")
    parser.add_argument("--only-train", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    built = build_ade(args.corpus)
    write_built_cohort(built, args.out / "ade.parquet")
    print(built.flow_table)
    train_tfidf(built.cohort, args.out / "tfidf", args.ngrams)
    if args.minilm is not None:
        second, module, fingerprint = "minilm", "ade_model", train_minilm(built.cohort, args.minilm, args.out)
    else:
        second, module, fingerprint = "chars", "ade_chars", train_chars(built.cohort, args.out)
    suites = {"run": ("ade", "")}
    if args.templates is not None:
        suites |= imported_suites(args.templates, args.out)
    for name, (suite, options) in suites.items():
        config = args.out / f"{name}.yaml"
        written = CONFIG.format(second=second, module=module, fingerprint=fingerprint, suite=suite, options=options)
        config.write_text(written, encoding="utf-8")
        if not args.only_train:
            shutil.rmtree(args.out / name, ignore_errors=True)
            outcome = audit(config, out=args.out / name, workers=1)
            print(f"=== {name}")
            tell(pl.concat([result.estimates for result in outcome.results], how="diagonal_relaxed"))
            print(outcome.report)


def imported_suites(templates: Path, out: Path) -> dict[str, tuple[str, str]]:
    """The paper's templates with its own base templates, and with those that are found by wording."""
    import_suite(str(templates / "templates_all.csv"), base=templates / "templates_base.csv", out=out / "theirs.csv")
    shutil.copy(templates / "templates_all.csv", out / "as_it_is.csv")
    return {"theirs": ("theirs.csv", PAPER_SIZES), "as_it_is": ("as_it_is.csv", PAPER_SIZES)}


def train_tfidf(cohort: Cohort, folder: Path, ngrams: int) -> None:
    """Tf-idf and logistic regression; the penalty is chosen on the validation split."""
    if not folder.exists():
        train("tfidf-logistic", cohort, folder, {"ngrams": [1, ngrams], "min_patients": 3, "max_features": 50_000})


def train_minilm(cohort: Cohort, checkpoint: Path, out: Path) -> str:
    """Logistic regression on frozen embeddings, weighted like the tf-idf model; returns a fingerprint."""
    shutil.copy(Path(__file__).with_name("ade_minilm.py"), out / "ade_model.py")
    file = out / "ade_minilm.npz"
    if not file.exists():
        encoder = Encoder(checkpoint)
        x, y = {}, {}
        for split in ("train", "validation"):
            rows = cohort.rows(split=split)
            x[split] = encoder.embed([cohort.texts[row] for row in rows.tolist()])
            y[split] = cohort.y_true(rows)[:, 0]
        best = min((fit(x, y, c) for c in PENALTIES), key=lambda fitted: fitted[0])[1]
        np.savez(file, coefficients=best.coef_[0], intercept=best.intercept_[0], c=best.C)
        print(f"MiniLM: c {best.C:g}")
    (out / "ade_minilm.json").write_text(json.dumps({"checkpoint": str(checkpoint.resolve())}), encoding="utf-8")
    weights = np.load(file, allow_pickle=False)
    return f"minilm {float(weights['intercept']):.12g} {float(weights['coefficients'].sum()):.12g}"


def train_chars(cohort: Cohort, out: Path) -> str:
    """Logistic regression on runs of letters, weighted like the tf-idf model; returns a fingerprint."""
    shutil.copy(Path(__file__).with_name("ade_chars.py"), out / "ade_chars.py")
    file = out / "ade_chars.npz"
    if not file.exists():
        x, y = {}, {}
        for split in ("train", "validation"):
            rows = cohort.rows(split=split)
            x[split] = embed([cohort.texts[row] for row in rows.tolist()])
            y[split] = cohort.y_true(rows)[:, 0]
        best = min((fit(x, y, c) for c in PENALTIES), key=lambda fitted: fitted[0])[1]
        np.savez(file, coefficients=best.coef_[0], intercept=best.intercept_[0], c=best.C)
        print(f"letters: c {best.C:g}")
    weights = np.load(file, allow_pickle=False)
    return f"chars {float(weights['intercept']):.12g} {float(weights['coefficients'].sum()):.12g}"


def fit(x: Mapping[str, Any], y: dict[str, NDArray[np.uint8]], c: float) -> tuple[float, LogisticRegression]:
    """A fitted model and its loss on the validation split, where classes weigh alike."""
    model = LogisticRegression(C=c, class_weight="balanced", max_iter=2000).fit(x["train"], y["train"])
    weight = np.where(y["validation"] == 1, 1 / y["validation"].mean(), 1 / (1 - y["validation"].mean()))
    return log_loss(y["validation"], model.predict_proba(x["validation"]), sample_weight=weight), model


def tell(estimates: pl.DataFrame) -> None:
    """The numbers of the two audits that the page may quote."""
    columns = ["metric", "group", "reference", "model", "value", "low", "high", "p_value", "n", "reason"]
    shown = estimates.filter(~pl.col("metric").is_in(["template_pass_rate", "value_pass_rate"]))
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=200, fmt_str_lengths=60, tbl_hide_dataframe_shape=True):
        print(shown.select(columns))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
