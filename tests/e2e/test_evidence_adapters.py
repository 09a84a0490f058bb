"""One pipeline has one evidence, however it is loaded: by `sklearn:`, by `python:` in a process or not, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import polars as pl
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from tests.audits.evidence.evidence_charts import CODES, charts
from tests.data.published import SHARED
from tests.e2e.command_line import CommandLine
from tests.models.adapters.local_server import LocalServer

PUBLISHED = SHARED / "rationales" / "evidence_inference"
MODULE = """
from pathlib import Path

import joblib

model = joblib.load(Path(__file__).with_name("pipeline.joblib"))


def predict(texts):
    return model.predict_proba(list(texts))
"""


def audit_four(home: Path, frame: pl.DataFrame, gold: pl.DataFrame, palpate: CommandLine) -> pl.DataFrame:
    """The evidence of one pipeline behind four sources."""
    labels = [name for name in frame.columns if name not in ("case_id", "patient_id", "split", "text")]
    pipeline = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=30.0)))
    train = frame.filter(pl.col("split") == "train")
    pipeline.fit(train["text"].to_list(), train.select(labels).to_numpy())
    joblib.dump(pipeline, home / "pipeline.joblib")
    frame.write_parquet(home / "charts.parquet")
    gold.write_parquet(home / "gold.parquet")
    (home / "same_pipeline.py").write_text(MODULE)
    server = LocalServer(answer=lambda asked: {"probabilities": pipeline.predict_proba(asked["texts"]).tolist()})
    source = "python:same_pipeline:predict"
    config = {
        "cohort": {"file": "charts.parquet", "labels": labels},
        "models": {
            "sklearn": {"source": "sklearn:pipeline.joblib", "labels": labels, "trust": True},
            "process": {"source": source, "labels": labels},
            "direct": {"source": source, "labels": labels, "isolate": False},
            "server": {"source": server.url, "labels": labels},
        },
        "audits": {"evidence": {"gold": "gold.parquet", "segments": 8, "words_per_label": 40}},
    }
    (home / "audit.yaml").write_text(json.dumps(config))
    ran = palpate("audit", home / "audit.yaml", "--out", home / "run")
    assert ran.code == 0, ran.err
    return pl.read_parquet(home / "run" / "results" / "evidence.parquet").filter(pl.col("reference").is_null())


def assert_one_result(found: pl.DataFrame) -> None:
    names = ["metric", "label", "group"]
    first = found.filter(model="sklearn").select(*names, "value", "low", "high")
    assert first.filter(metric="chance_token_f1", group="all")["value"][0] > 0, "it points at something"
    for model in ("process", "direct", "server"):
        other = found.filter(model=model).select(*names, "value", "low", "high")
        both = first.join(other, on=names, how="full", nulls_equal=True)
        assert len(both) == len(first) == len(other)
        for column in ("value", "low", "high"):
            gap = (both[column] - both[f"{column}_right"]).abs().max()
            assert gap is None or gap < 1e-9, (model, column)


@pytest.mark.slow
def test_synthetic_charts(tmp_path: Path, palpate: CommandLine) -> None:
    cohort, gold = charts(80, n_words=200)
    y = cohort.y_true(list(range(len(cohort))))
    frame = cohort.cases.select("case_id", "patient_id", "split", "text")
    frame = frame.with_columns(pl.Series(code, y[:, k]) for k, code in enumerate(CODES))
    split = pl.when(pl.int_range(pl.len()) % 4 < 2).then(pl.lit("train")).otherwise(pl.col("split"))
    assert_one_result(audit_four(tmp_path, frame.with_columns(split=split), gold, palpate))


@pytest.mark.slow
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="../shared/data is not here")
def test_published_rationales(tmp_path: Path, palpate: CommandLine) -> None:
    """Articles of trials: is an effect significant, and where does it say so?"""
    marked = pl.read_csv(PUBLISHED / "annotations.csv", infer_schema_length=None)
    marked = marked.filter((pl.col("Evidence Start") >= 0) & pl.col("Label Code").is_in([-1, 0, 1]))
    rows, gold = [], []
    for file in sorted((PUBLISHED / "txt_files").glob("*.txt"))[:40]:
        text = file.read_text(encoding="utf-8")[:8000]
        own = marked.filter(pl.col("PMCID") == int(file.stem.removeprefix("PMC")))
        own = own.filter((pl.col("Evidence End") <= len(text)) & (pl.col("Evidence End") > pl.col("Evidence Start")))
        significant = own.filter(pl.col("Label Code") != 0)
        rows.append(
            (file.stem, file.stem, ("train", "validation", "test")[len(rows) % 3], text, int(len(significant) > 0))
        )
        rows[-1] = (*rows[-1], int(len(own) > len(significant)))
        for start, end, code in own.select("Evidence Start", "Evidence End", "Label Code").iter_rows():
            gold.append((file.stem, "effect" if code else "none", start, end))
    schema = ["case_id", "patient_id", "split", "text", "effect", "none"]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    spans = pl.DataFrame(gold, schema=["case_id", "label", "start", "end"], orient="row")
    assert_one_result(audit_four(tmp_path, frame, spans, palpate))
