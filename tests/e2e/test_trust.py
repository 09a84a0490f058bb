"""What an answer rests on: a model that exits, scores of another model, classes taken the wrong way round."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import skops.io
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from tests.conftest import notes_frame
from tests.e2e.command_line import CommandLine

WEIGHTED = """
import pathlib
weight = float((pathlib.Path(__file__).parent / "weights.txt").read_text())

def predict(texts):
    return [0.5 + weight * ("fever" in text) for text in texts]
"""
EXITS = {
    "in the module": "import sys\nsys.exit(0)\n",
    "in the function": "import sys\ndef predict(texts):\n    sys.exit(0)\n",
    "on a note": "import sys\ndef predict(texts):\n    if len(texts) > 1: sys.exit(0)\n    return [0.5]\n",
    "of the process": "import os\ndef predict(texts):\n    if len(texts) > 1: os._exit(0)\n    return [0.5]\n",
    "by interrupt": "def predict(texts):\n    raise KeyboardInterrupt\n",
}


def configure(folder: Path, model: str, more: str = "") -> Path:
    notes_frame(60).drop("split").write_csv(folder / "notes.csv")
    path = folder / "audit.yaml"
    path.write_text(
        f"cohort: {{file: notes.csv, labels: [ill]}}\nmodels:\n  m: {model}\n"
        f"audits:\n  performance: {{n_replicates: 100}}\ncache: scores.sqlite\n{more}"
    )
    return path


@pytest.mark.parametrize("how", EXITS)
@pytest.mark.parametrize("isolate", ["true", "false"])
def test_a_model_that_exits_fails_the_run_although_a_gate_stands(
    how: str, isolate: str, tmp_path: Path, palpate: CommandLine
) -> None:
    if isolate == "false" and how == "of the process":
        return  # nothing can help
    (tmp_path / "exiting_model.py").write_text(EXITS[how])
    model = f'{{source: "python:exiting_model:predict", isolate: {isolate}}}'
    ran = palpate("audit", configure(tmp_path, model, "gate: [performance.auroc >= 0.5]\n"))
    assert ran.code == 3, ran.err
    assert "palpate: model 'm'" in ran.err
    assert not (tmp_path / "audit-run" / "report.html").exists()


def mean(folder: Path, run: str) -> float:
    table = pl.read_parquet(folder / run / "predictions" / "m.parquet")
    return float(np.asarray(table["p"].to_list()).mean())


def test_changed_weights_are_scored_again(tmp_path: Path, palpate: CommandLine) -> None:
    (tmp_path / "weighted_model.py").write_text(WEIGHTED)
    (tmp_path / "weights.txt").write_text("0.4")
    config = configure(tmp_path, "python:weighted_model:predict")
    assert palpate("audit", config, "--out", tmp_path / "one").code == 0
    again = palpate("audit", config, "--out", tmp_path / "two")
    assert "m: every prediction is in the cache" in again.err
    (tmp_path / "weights.txt").write_text("-0.4")
    changed = palpate("audit", config, "--out", tmp_path / "three")
    assert "scoring m" in changed.err
    assert mean(tmp_path, "one") == mean(tmp_path, "two") > 0.5 > mean(tmp_path, "three")


def test_an_endpoint_without_a_version_is_asked_again_and_the_run_says_so(tmp_path: Path, palpate: CommandLine) -> None:
    from tests.models.adapters.local_server import LocalServer

    server = LocalServer()
    try:
        config = configure(tmp_path, f'{{source: "{server.url}", labels: [ill]}}')
        ran = palpate("audit", config, "--out", tmp_path / "one")
        assert ran.code == 0, ran.err
        assert ran.err.count("The scores of m are not reused by later runs: an endpoint can change behind") == 1
        assert "`fingerprint:`" in ran.err
        facts = json.loads((tmp_path / "one" / "manifest.json").read_text())["facts"]
        assert any("scores of m are not reused" in fact for fact in facts)
        resumed = palpate("audit", config, "--out", tmp_path / "one", "--resume")
        assert "m: every prediction is in the cache" in resumed.err, "what this run scored is still its own"
        other = palpate("audit", config, "--out", tmp_path / "two")
        assert "scoring m: 60 inputs" in other.err
        versioned = configure(tmp_path, f'{{source: "{server.url}", labels: [ill], fingerprint: v1}}')
        assert "not reused" not in palpate("audit", versioned, "--out", tmp_path / "three").err
        assert "in the cache" in palpate("audit", versioned, "--out", tmp_path / "four").err
    finally:
        server.close()


def test_case_and_control_are_not_taken_the_wrong_way_round(tmp_path: Path, palpate: CommandLine) -> None:
    frame = notes_frame(60)
    classes = np.where(frame["ill"].to_numpy() == 1, "case", "control")
    pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)).fit(frame["text"].to_list(), classes)
    skops.io.dump(pipeline, tmp_path / "m.skops")
    ran = palpate("audit", configure(tmp_path, "sklearn:m.skops"))
    assert ran.code == 2
    assert "model 'm' has the classes 'case' and 'control', and it is not known which is the positive one" in ran.err
    assert palpate("audit", configure(tmp_path, "{source: 'sklearn:m.skops', labels: [ill]}")).code == 2
    ran = palpate(
        "audit", configure(tmp_path, "{source: 'sklearn:m.skops', positive: case}"), "--out", tmp_path / "run"
    )
    assert ran.code == 0, ran.err
    estimates = pl.read_parquet(tmp_path / "run" / "results" / "performance.parquet")
    assert estimates.filter(metric="auroc", model="m")["value"][0] > 0.9
