"""`palpate check`: what would be scored, what is cached, what is wrong, and how long a run takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.commands.audit import audit
from palpate.commands.check import check, duration, size
from palpate.errors import CohortError, ModelError
from palpate.run import extrapolation, preview, runner
from palpate.run.runner import Job, NullProgress
from tests.contracts.torch_and_remote_models import coding
from tests.e2e.command_line import CommandLine
from tests.models.tiny_checkpoints import checkpoint

CONFIG = """
cohort: {file: notes.csv, labels: [ill]}
models:
  words: "python:check_model_17:score"
  answers: "predictions:scores.csv"
audits:
  performance: {n_replicates: 500}
"""
GROWING = """
cohort: {file: notes.csv, labels: [ill]}
models: {words: "python:check_model_17:score"}
audits:
  performance: {n_replicates: 100}
  characteristics: {alter: [gender], n_replicates: 100}
  robustness: {perturb: [typos], max_notes: 50}
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


@pytest.mark.parametrize("by_patient", [False, True])
def test_many_cases_are_judged_by_samples(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], by_patient: bool
) -> None:
    """Plans that grow with the cases and plans that do not are both drawn out right, and the size is said."""
    patient = [f"p{k // 3 if by_patient else k}" for k in range(1200)]
    rows = "".join(f"c{k},{patient[k]},A 60 year old man with fever {k},{k % 2}\n" for k in range(1200))
    (folder / "notes.csv").write_text(f"case_id,patient_id,text,ill\n{rows}")
    (folder / "audit.yaml").write_text(GROWING)
    whole = check(folder / "audit.yaml", whole=True).preview
    assert (whole.sampled, whole.notes) == (None, [])
    monkeypatch.setattr(extrapolation, "FEW_CASES", 1000)
    monkeypatch.setattr(extrapolation, "SAMPLES", (200, 400))
    found = check(folder / "audit.yaml").preview
    assert found.sampled in ((400, 401, 402) if by_patient else (400,))
    assert (found.n_cases, found.n_patients) == (1200, len(set(patient)))
    assert found.variants == pytest.approx(whole.variants, rel=0.01)
    assert found.variants["robustness"] == whole.variants["robustness"], "which does not grow"
    (model,), (all_of_it,) = found.models, whole.models
    for name in ("asked", "distinct", "to_score", "n_characters"):
        assert getattr(model, name) == pytest.approx(getattr(all_of_it, name), rel=0.02), name
    palpate = CommandLine(capsys, monkeypatch)
    ran = palpate("check", folder / "audit.yaml")
    assert "of the 1,200 cases; --whole plans all of them" in " ".join(ran.out.split())


def test_a_sample_in_which_an_audit_fails_is_no_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit may find too few cases in a sample: then all cases are planned."""

    def plan_all(job: Job, *others: Any) -> Any:
        if len(job.cohort) < 100:
            raise CohortError("too few cases")
        return runner.plan_all(job, *others)

    monkeypatch.setattr(preview, "plan_all", plan_all)
    monkeypatch.setattr(extrapolation, "FEW_CASES", 50)
    monkeypatch.setattr(extrapolation, "SAMPLES", (20, 40))
    found = check(folder / "audit.yaml").preview
    assert (found.variants["performance"], found.sampled) == (100, None)


def test_one_sample_alone_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a plan grows with the cases needs two; and what a model does wrong is told, not passed over."""
    planned: list[int] = []

    def look(job: Job, *_: Any) -> Any:
        planned.append(len(job.cohort))
        if len(job.cohort) < 30:
            raise error
        return extrapolation.RunPreview(len(job.cohort), 0)

    error: Exception = CohortError("too few cases")
    monkeypatch.setattr(preview, "_look", look)
    monkeypatch.setattr(extrapolation, "FEW_CASES", 50)
    monkeypatch.setattr(extrapolation, "SAMPLES", (20, 40))
    job = Job(Cohort.from_frame(pl.DataFrame({"ill": [0, 1] * 50}), labels=["ill"]), (), {})
    assert preview._from_samples(job, (), None, NullProgress()) is None
    assert planned == [20, 40]
    error = ModelError("is broken", model="words")
    with pytest.raises(ModelError, match="is broken"):
        preview._from_samples(job, (), None, NullProgress())


def test_a_patient_with_most_of_the_cases_is_in_both_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the one that is called `unknown`: samples of one size gave a division by zero."""
    frame = pl.DataFrame({"patient_id": ["unknown"] * 90 + [f"p{k}" for k in range(10)], "ill": [0, 1] * 50})
    monkeypatch.setattr(extrapolation, "FEW_CASES", 50)
    monkeypatch.setattr(extrapolation, "SAMPLES", (30, 60))
    assert len(list(extrapolation.samples_of(Cohort.from_frame(frame, labels=["ill"])))) == 1
    seen = [(5, extrapolation.RunPreview(5, 5, disk=2))] * 2
    assert extrapolation.drawn_out(seen, 10, {}).disk == 4


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


@pytest.mark.parametrize(("workers", "copies"), [(1, 1), (2, 3)])
def test_a_network_that_does_not_fit_is_warned_about_before_it_is_loaded(
    folder: Path, workers: int, copies: int
) -> None:
    pytest.importorskip("transformers")
    checkpoint(folder / "bert", names=["not ill", "ill"])
    (folder / "audit.yaml").write_text(
        "cohort: {file: notes.csv, labels: [ill]}\nmodels: {bert: {source: 'hf:bert', labels: [ill]}}\n"
        "audits: {performance: {n_replicates: 100}}\n"
    )
    load_file = pytest.importorskip("safetensors.numpy").load_file
    weights = sum(tensor.nbytes for tensor in load_file(folder / "bert" / "model.safetensors").values())
    told = Told()
    need = check(folder / "audit.yaml", workers=workers, progress=told, free=lambda _: 10**15).needs["bert"]
    assert weights <= need.weights < 1.02 * weights, "and buffers, which are not in the file"
    assert told.lines == [stage for stage in told.lines if stage.startswith("stage ")]
    asked = copies * need.weights + workers * need.passes
    for room, warned in ((asked, False), (asked - 1, True)):
        told = Told()
        check(folder / "audit.yaml", workers=workers, progress=told, free=lambda _, room=room: room)
        warnings = [line for line in told.lines if line.startswith("bert may not fit into the memory of cpu")]
        assert bool(warnings) is warned
    assert told.lines.index(warnings[0]) < told.lines.index("stage loading models")


class Told(NullProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, text: str) -> None:
        self.lines.append(f"stage {text}")

    def note(self, text: str) -> None:
        self.lines.append(text)


def test_the_memory_of_networks_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    coding(folder, "caml")
    (folder / "audit.yaml").write_text(
        "cohort: {file: notes.csv, labels: [ill]}\naudits: {performance: {n_replicates: 100}}\n"
        "models: {coder: {source: 'palpate:coding', labels: [ill, other]}, answers: 'predictions:scores.csv'}\n"
    )
    ran = CommandLine(capsys, monkeypatch)("check", folder / "audit.yaml")
    assert ran.code == 0
    kilobytes = (folder / "coding" / "model.safetensors").stat().st_size / 1000
    assert f"coder runs on cpu, float32: about {kilobytes:.3g} kB of memory for its weights\n" in ran.out
    assert "answers runs on" not in ran.out
