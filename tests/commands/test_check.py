"""`palpate check`: what would be scored, what is cached, what is wrong, and how long a run takes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from palpate.commands.audit import audit
from palpate.commands.check import check, duration, size
from tests.e2e.command_line import CommandLine

CONFIG = """
cohort: {file: notes.csv, labels: [ill]}
models:
  words: "python:check_model_17:score"
  answers: "predictions:scores.csv"
audits:
  performance: {n_replicates: 500}
"""
MODEL = """
import time

def score(texts):
    time.sleep(0.002 * len(texts))
    return [min(1.0, 0.1 + 0.2 * text.count("fever")) for text in texts]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    rows = "".join(f"c{k},{'fever ' * (k % 4)}and Mrs Smith {k // 2},{k % 2}\n" for k in range(100))
    (tmp_path / "notes.csv").write_text(f"case_id,text,ill\n{rows}")
    (tmp_path / "scores.csv").write_text("case_id,ill\n" + "".join(f"c{k},0.{k % 9}1\n" for k in range(100)))
    (tmp_path / "check_model_17.py").write_text(MODEL)
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


def test_what_would_be_scored_and_what_is_cached(folder: Path) -> None:
    found = check(folder / "audit.yaml").preview
    assert (found.n_cases, found.variants) == (100, {"data": 0, "performance": 100})
    words, answers = found.models
    distinct = len({line.split(",")[1] for line in (folder / "notes.csv").read_text().splitlines()[1:]})
    assert (words.asked, words.distinct, words.cached, words.to_score) == (100, distinct, 0, distinct)
    assert (answers.asked, answers.distinct) == (100, 100)
    assert 0 < words.measured <= distinct + 5
    assert words.seconds > 0.002 * distinct * 0.8
    assert {path.name for path in folder.iterdir() if path.name != "__pycache__"} == {
        "notes.csv",
        "scores.csv",
        "check_model_17.py",
        "audit.yaml",
    }, "nothing is written"
    audit(folder / "audit.yaml")
    again = check(folder / "audit.yaml").preview.models[0]
    assert (again.cached, again.to_score, again.measured) == (distinct, 0, 0)


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    ran = palpate("check", folder / "audit.yaml", "--json", "--quiet")
    assert (ran.code, ran.err) == (0, "")
    summary = json.loads(ran.out)
    assert summary["models"][1]["name"] == "answers"
    assert summary["estimated_seconds"] > 0
    assert summary["disk"] > 0 < summary["memory"]
    assert "Smith" not in ran.out
    (folder / "scores.csv").write_text("case_id,ill\nc1,0.5\n")
    ran = palpate("check", folder / "audit.yaml")
    assert ran.code == 3
    assert "the file has no prediction for the case" in ran.err
    (folder / "audit.yaml").write_text(CONFIG.replace("n_replicates: 500", "n_replicate: 500"))
    ran = palpate("check", folder / "audit.yaml")
    assert ran.code == 2
    assert "line 7: audit 'performance', option 'n_replicate'" in ran.err


def test_an_endpoint_has_tokens_and_a_price(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.models.adapters.local_server import LocalServer

    server = LocalServer()
    (folder / "audit.yaml").write_text(
        f"cohort: {{file: notes.csv, labels: [ill]}}\nmodels: {{far: {{source: '{server.url}', labels: [ill]}}}}\n"
        "audits: {performance: {n_replicates: 100}}\n"
    )
    found = check(folder / "audit.yaml")
    (far,) = found.preview.models
    assert far.remote
    texts = {line.split(",")[1] for line in (folder / "notes.csv").read_text().splitlines()[1:]}
    assert far.tokens == -(-sum(map(len, texts)) // 4)
    assert far.measured <= 11, "an endpoint is asked little"
    assert found.money(2.0) == {"far": pytest.approx(far.tokens * 2e-6)}
    ran = CommandLine(capsys, monkeypatch)("check", folder / "audit.yaml", "--price", "2")
    assert f"about {far.tokens:,} tokens of text" in ran.out
    server.close()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.2, "under 1 s"), (3.14, "3.1 s"), (50, "50 s"), (300, "5 min"), (9e3, "2.5 h"), (2e5, "2.31 days")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_sizes() -> None:
    assert [size(n) for n in (12, 3_400, 5_600_000, 7_890_000_000)] == ["12 bytes", "3.4 kB", "5.6 MB", "7.89 GB"]


def _ratio(config: Path, out: Path) -> float:
    """The estimate over the real time, each in this process; compilations are done before."""
    check(config)
    estimate = check(config).preview.seconds
    began = time.perf_counter()
    audit(config, out=out)
    return estimate / (time.perf_counter() - began)


@pytest.mark.slow
def test_the_estimate_is_within_a_factor_of_2_on_the_demo(tmp_path: Path) -> None:
    from palpate.commands.demo import write_demo

    config = write_demo(tmp_path / "demo", seed=0, n_patients=1000)
    assert 0.5 < _ratio(config, tmp_path / "run") < 2


@pytest.mark.slow
def test_the_estimate_is_within_a_factor_of_2_for_a_transformer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    from tests.models.tiny_checkpoints import WORDS, checkpoint

    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    checkpoint(tmp_path / "bert", names=["no", "ill"])
    rows = "".join(
        f"c{k},{' '.join(WORDS[j % len(WORDS)] for j in range(k % 90 + 5))} {k},{k % 2}\n" for k in range(3000)
    )
    (tmp_path / "notes.csv").write_text(f"case_id,text,ill\n{rows}")
    (tmp_path / "audit.yaml").write_text(
        "cohort: {file: notes.csv, labels: [ill]}\nmodels: {bert: {source: 'hf:bert', labels: [ill]}}\n"
        "audits: {performance: {}, robustness: {perturb: [typos], max_notes: 200}}\n"
    )
    assert 0.5 < _ratio(tmp_path / "audit.yaml", tmp_path / "run") < 2
