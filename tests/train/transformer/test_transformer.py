"""The transformer: from scratch and fine-tuned, what is chosen, and that a kill costs nothing but time."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, MissingExtra
from palpate.models.adapters.palpate import read_manifest
from palpate.models.options import parse_options
from palpate.train import train
from palpate.train.notes import class_weights, split_notes
from palpate.train.transformer.options import PAPER_RATES, SCRATCH_RATES, TransformerOptions
from tests.models.tiny_checkpoints import checkpoint
from tests.train.synthetic_notes import cohort, frame
from tests.train.training import contents, predict, read_back, small

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_the_papers_grid_is_the_default_for_a_checkpoint(tmp_path: Path) -> None:
    assert parse_options(TransformerOptions, "transformer", {"checkpoint": tmp_path}).rates == PAPER_RATES  # type: ignore[attr-defined]
    assert TransformerOptions().rates == SCRATCH_RATES
    assert TransformerOptions().epochs == 10


@pytest.mark.parametrize("family", ["Bert", "Roberta", "DistilBert", "GPT2"])
def test_fine_tuning_changes_the_weights_of_a_checkpoint(family: str, tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "start", family, n_outputs=3)
    untouched = contents(path)
    options = {"checkpoint": path, "epochs": 1, "learning_rates": [1e-3], "threads": 1, "n_replicates": 0}
    train("transformer", cohort(120), tmp_path / "m", options)
    before, after = weights(path), weights(tmp_path / "m" / "checkpoint")
    shared = [name for name in before if name in after and before[name].shape == after[name].shape]
    assert len(shared) > 10
    changed = [name for name in shared if not torch.equal(before[name], after[name])]
    assert len(changed) > len(shared) / 2
    moved = max(float((before[name] - after[name]).abs().max()) for name in changed)
    assert 0 < moved < 0.1, "the same network, a little further"
    assert contents(path) == untouched
    model = read_back(tmp_path / "m")
    assert model.labels == ("ill",)
    assert model.window == "the first 32 tokens"


def test_a_base_checkpoint_without_a_head_gets_one(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "start", task="MaskedLM")
    options = {"checkpoint": path, "epochs": 1, "learning_rates": [1e-3], "threads": 1, "n_replicates": 0}
    train("transformer", cohort(120), tmp_path / "m", options | {"max_tokens": 16})
    assert read_back(tmp_path / "m").window == "the first 16 tokens"
    before, after = weights(path), weights(tmp_path / "m" / "checkpoint")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    assert float((before[name] - after[name]).abs().max()) < 0.1


def test_a_checkpoint_that_lacks_its_encoder_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = checkpoint(tmp_path / "start")
    kept = {name: value for name, value in weights(path).items() if ".layer.1." not in name}
    save_file(kept, path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ConfigError, match="lacks 16 weights of its encoder"):
        train("transformer", cohort(120), tmp_path / "m", {"checkpoint": path})


def test_pickled_weights_need_trust(tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "start")
    torch.save(weights(path), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    options = {"checkpoint": path, "epochs": 1, "learning_rates": [1e-3], "threads": 1, "n_replicates": 0}
    with pytest.raises(ConfigError, match=r"safetensors.*`trust`"):
        train("transformer", cohort(120), tmp_path / "m", options)
    train("transformer", cohort(120), tmp_path / "m", options | {"trust": True})
    assert (tmp_path / "m" / "checkpoint" / "model.safetensors").is_file()


def test_the_learning_rate_and_epoch_of_the_lowest_validation_loss_are_used(tmp_path: Path) -> None:
    data = cohort(600)
    train("transformer", data, tmp_path / "m", small("transformer", learning_rates=[1e-9, 3e-3, 1e4]))
    fit = read_manifest(tmp_path / "m").card["fit"]
    losses = [row for row in fit["tried"] if row["validation_loss"] is not None]
    best = min(losses, key=lambda row: row["validation_loss"])
    assert {row["learning_rate"] for row in fit["tried"]} == {1e-9, 3e-3, 1e4}
    assert (fit["learning_rate"], fit["epochs"]) == (3e-3, best["epoch"])
    # The written weights are those of that epoch: their loss, computed anew, is the one in the card.
    y, p = predict(tmp_path / "m", data, "validation")
    own = class_weights(split_notes(data).train.y, "balanced")
    weight = np.where(y == 1, own[0, 1], own[0, 0])
    loss = np.average(-np.log(np.where(y == 1, p, 1 - p)), weights=weight)
    assert loss == pytest.approx(best["validation_loss"], abs=1e-5)


def test_every_learning_rate_starts_from_the_same_weights(tmp_path: Path) -> None:
    """The second of two goes as it does alone."""
    data = cohort(240)
    tried = []
    for rates in ([3e-3], [1e-2, 3e-3]):
        out = tmp_path / f"{len(rates)}"
        train("transformer", data, out, small("transformer", learning_rates=rates, epochs=2))
        tried.append(read_manifest(out).card["fit"]["tried"])
    assert tried[1][2:] == tried[0]


def test_a_training_that_only_diverges_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"diverged \(learning rate"):
        train("transformer", cohort(240), tmp_path / "m", small("transformer", learning_rates=[1e30], warmup=0))


def test_patience_ends_a_learning_rate(tmp_path: Path) -> None:
    train(
        "transformer",
        cohort(240),
        tmp_path / "m",
        small("transformer", learning_rates=[1e-12, 1e-11], epochs=9, patience=1),
    )
    tried = read_manifest(tmp_path / "m").card["fit"]["tried"]
    assert len(tried) < 18
    assert {row["learning_rate"] for row in tried} == {1e-12, 1e-11}


def test_mixed_precision_is_close(tmp_path: Path) -> None:
    data = cohort(300)
    for precision in ("float32", "bfloat16"):
        train("transformer", data, tmp_path / precision, small("transformer", precision=precision, epochs=2))
    p = [predict(tmp_path / precision, data, "test")[1] for precision in ("float32", "bfloat16")]
    assert not np.array_equal(p[0], p[1])
    np.testing.assert_allclose(p[0], p[1], atol=0.1)


def test_the_global_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(5)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    train("transformer", cohort(120), tmp_path / "m", small("transformer", epochs=1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_word_pieces_come_from_words_of_several_patients(tmp_path: Path) -> None:
    import polars as pl

    table = (
        frame(240)
        .drop("frail")
        .with_columns(
            pl.when(pl.col("patient_id") == "p0")
            .then(pl.lit("zanzibar жук " * 50))
            .otherwise(pl.col("text"))
            .alias("text")
        )
    )
    options = small("transformer", epochs=1, keep_training_files=True)
    train("transformer", Cohort.from_frame(table, labels=["ill"]), tmp_path / "m", options)
    pieces = transformers.AutoTokenizer.from_pretrained(tmp_path / "m" / "checkpoint").get_vocab()
    assert "fever" in pieces
    assert not [piece for piece in pieces if "zanz" in piece or "ж" in piece]
    assert (tmp_path / "m" / ".training" / "seed-24" / "state.pt").is_file()


def test_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        train("transformer", cohort(240), tmp_path / "m", {})


def test_word_models_need_no_torch() -> None:
    code = "import sys, palpate.train as t; t.options_of('transformer'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- kill -9 ------------------------------------------------------------------------------------------------

CHILD = """
import os, signal, sys
from pathlib import Path
from palpate.train import train
from tests.train.synthetic_notes import cohort
from tests.train.training import small

out, kill_at = Path(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")]
seen = 0
def progress(step):
    global seen
    seen += 1
    if seen in kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
options = small("transformer", epochs=2, learning_rates=[1e-3, 3e-3], save_steps=3, seeds=[1, 2])
train("transformer", cohort(300), out, options, resume=True, progress=progress)
"""


def run(out: Path, kill_at: int) -> int:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", CHILD, str(out), str(kill_at)]
    return subprocess.run(command, cwd=root, check=False, stderr=subprocess.PIPE).returncode


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_bytes(tmp_path: Path) -> None:
    """Killed within epochs, between epochs, between learning rates and between seeds: all bytes are equal."""
    assert run(tmp_path / "whole", 0) == 0
    for k, moments in enumerate([(2, 8, 13), (14, 24, 1), (45, 3, 43)]):
        out = tmp_path / f"killed{k}"
        for moment in moments:
            assert run(out, moment) == -signal.SIGKILL
            assert (out / ".training" / "job.json").is_file()
        assert run(out, 0) == 0
        first, second = contents(tmp_path / "whole"), contents(out)
        assert first.keys() == second.keys()
        for file in first:
            assert first[file] == second[file], f"{moments}: {file}"


def test_an_interrupted_training_goes_on_in_the_same_process(tmp_path: Path) -> None:
    """The quick twin of the test above: stopped within the second epoch by an exception."""
    data, options = cohort(300), small("transformer", epochs=2, save_steps=4)
    train("transformer", data, tmp_path / "whole", options)

    class Stop(Exception):
        pass

    seen: list[str] = []

    def stop(step: Any) -> None:
        seen.append(step.stage)
        if step.stage.endswith("epoch 2 of 2") and step.done == 6:
            raise Stop

    with pytest.raises(Stop):
        train("transformer", data, tmp_path / "m", options, progress=stop)
    with pytest.raises(ConfigError, match="not empty"):
        train("transformer", data, tmp_path / "m", options)
    later: list[str] = []
    train("transformer", data, tmp_path / "m", options, resume=True, progress=lambda step: later.append(step.stage))
    assert not any(stage.endswith("epoch 1 of 2") for stage in later), "what was saved is not done again"
    assert contents(tmp_path / "m") == contents(tmp_path / "whole")
