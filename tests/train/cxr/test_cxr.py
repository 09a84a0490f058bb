"""`palpate train cxr`: what it writes, what it begins with, what it refuses, and that an audit reads it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.errors import CohortError, ConfigError, MissingExtra
from palpate.models.adapters.palpate import read_manifest
from palpate.models.networks.vision.layers import VisionShape, load_start, make_network
from palpate.train import train
from palpate.train.cxr.images import usable
from palpate.train.cxr.options import CxrTrainOptions
from tests.e2e.command_line import CommandLine
from tests.train.cxr.image_cohort import LABELS, TINY, read, read_back, write_pictures
from tests.train.training import contents

torch = pytest.importorskip("torch")
pytest.importorskip("monai")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("cohort"), n=40)


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "m"
    train("cxr", read(table), out, TINY)
    return out


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "weights.safetensors")


def test_the_papers_settings_are_the_defaults() -> None:
    own = CxrTrainOptions()
    assert (own.network, own.image_size, own.batch_size, own.epochs) == ("densenet121", 256, 256, 64)
    assert (own.learning_rate, own.rate_factor, own.rate_patience, own.patience) == (5e-4, 0.5, 3, 10)
    assert (own.flip, own.rotate, own.class_weight, len(own.mean)) == (0.5, 15, "none", 3)


def test_what_is_written(trained: Path, table: Path) -> None:
    assert sorted(contents(trained)) == ["MODEL_CARD.md", "network.json", "palpate.json", "weights.safetensors"]
    manifest = read_manifest(trained)
    assert (manifest.kind, manifest.labels) == ("vision", LABELS)
    card = manifest.card
    assert card["cohort"]["splits"]["train"]["n"] == 24
    assert card["fit"]["cases left out because their image is missing"] == {"train": 0, "validation": 0, "test": 0}
    assert len(card["fit"]["tried"]) == 2
    assert card["fit"]["n_weights"] == 6_955_906  # torchvision's DenseNet-121 with two outputs
    text = (trained / "MODEL_CARD.md").read_text()
    assert "The weights may memorise training images" in text
    assert "words" not in text


def test_the_threshold_is_of_the_model_that_is_read_back(trained: Path, table: Path) -> None:
    cohort = read(table)
    rows = cohort.rows(split="validation")
    model = read_back(trained)
    p = model.predict(Inputs.from_images([cohort.images[row] for row in rows]))
    y = cohort.y_true(rows)
    pooled = np.sort(p[y == 1])[::-1]
    wanted = pooled[int(np.ceil(0.7 * len(pooled))) - 1]
    assert model.threshold == pytest.approx(wanted, abs=1e-6)
    assert model.labels == LABELS


def test_stopped_and_resumed_is_the_same_bytes(trained: Path, table: Path, tmp_path: Path) -> None:
    """Stopped within the second epoch, after a save; also shows that the same seed gives the same bytes."""

    class Stop(Exception):
        pass

    def stop(step: Any) -> None:
        if step.stage.startswith("epoch 2") and step.done == 1:
            raise Stop

    options = TINY | {"save_steps": 1}
    with pytest.raises(Stop):
        train("cxr", read(table), tmp_path / "m", options, progress=stop)
    with pytest.raises(ConfigError, match="different options"):
        train("cxr", read(table), tmp_path / "m", options | {"rotate": 3}, resume=True)
    stages: list[str] = []
    train("cxr", read(table), tmp_path / "m", options, resume=True, progress=lambda step: stages.append(step.stage))
    assert not any(stage.startswith("epoch 1 ") for stage in stages)
    ours, whole = contents(tmp_path / "m"), contents(trained)
    assert ours["weights.safetensors"] == whole["weights.safetensors"]
    assert read_manifest(tmp_path / "m").card["validation"] == read_manifest(trained).card["validation"]


def test_missing_images(tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "c", n=20)
    gone = [file.parent / "pictures" / f"{k:03d}.png" for k in (10, 13, 19)]  # train, validation, test
    for path in gone:
        path.unlink()
    options = TINY | {"epochs": 1}
    with pytest.raises(CohortError) as caught:
        train("cxr", read(file), tmp_path / "m", options)
    assert "case 'c10'" in str(caught.value)
    assert str(gone[0]) in str(caught.value)
    assert "missing_images=drop" in str(caught.value)
    assert not (tmp_path / "m").exists()
    train("cxr", read(file), tmp_path / "m", options | {"missing_images": "drop"})
    card = read_manifest(tmp_path / "m").card
    assert card["fit"]["cases left out because their image is missing"] == {"train": 1, "validation": 1, "test": 1}
    assert card["cohort"]["splits"]["train"]["n"] == 11
    for path in file.parent.glob("pictures/*"):
        path.unlink()
    with pytest.raises(CohortError, match="no image file of the cohort exists"):
        train("cxr", read(file), tmp_path / "other", options | {"missing_images": "drop"})


def test_images_of_the_test_split_may_be_elsewhere(tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "c", n=20)
    for k in (4, 9, 14):
        (file.parent / "pictures" / f"{k:03d}.png").unlink()
    cohort, left_out = usable(read(file), "error")
    assert len(cohort) == 20
    assert left_out == {"train": 0, "validation": 0, "test": 0}


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "c", n=20)
    (file.parent / "pictures" / "005.png").write_text("no picture")
    with pytest.raises(CohortError, match=r"005\.png: the image of case 'c5' can't be read \(not an image\)"):
        train("cxr", read(file), tmp_path / "m", TINY)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("image"), "no images to train on"),
        (lambda frame: frame.drop("split"), "no case of the cohort is in the split 'train'"),
        (lambda frame: frame.with_columns(pl.lit(0).alias("label:Device")), "'Device' has only one class"),
    ],
)
def test_cohorts_that_can_t_be_used(change: Any, message: str, table: Path, tmp_path: Path) -> None:
    file = tmp_path / "cases.parquet"
    frame = pl.read_parquet(table).with_columns(pl.lit(f"{table.parent}/").add(pl.col("image")).alias("image"))
    change(frame).write_parquet(file)
    with pytest.raises(CohortError, match=message):
        train("cxr", read(file), tmp_path / "m", TINY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"network": "resnet18"}, "'network'"),
        ({"std": [0.2]}, "one number per channel"),
        ({"std": [0.2, 0.2, 0]}, "above 0"),
        ({"image_size": 8}, "'image_size'"),
        ({"checkpoint": "nowhere.pt"}, "checkpoint file not found"),
        ({"pretrained": True}, "unknown option"),
    ],
)
def test_options_that_can_t_work(options: Any, message: str, table: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        train("cxr", read(table), tmp_path / "m", options)


@pytest.mark.parametrize("name", ["torch", "monai"])
def test_without_the_extra(name: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        train("cxr", read(table), tmp_path / "m", {})


def test_options_can_be_listed_without_the_extra() -> None:
    code = (
        "import sys, palpate.train as t; t.options_of('cxr');"
        "assert not {'torch', 'monai'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_cohort_from_python_has_paths_from_here(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.read_parquet(table).rename({f"label:{label}": label for label in LABELS})
    cohort = Cohort.from_frame(frame, labels=LABELS)
    with pytest.raises(CohortError, match="the image of case 'c0' was not found"):
        train("cxr", cohort, tmp_path / "m", TINY)
    monkeypatch.chdir(table.parent)
    assert Cohort.from_frame(frame, labels=LABELS).images == read(table).images


# --- where it begins ----------------------------------------------------------------------------------------


def begin(table: Path, out: Path, file: Path, **options: Any) -> dict[str, Any]:
    """Trained with a rate of next to nothing, so that the weights stay what they were."""
    quick = {"epochs": 1, "learning_rate": 1e-12, "n_replicates": 0, "checkpoint": file}
    train("cxr", read(table), out, TINY | quick | options)
    return weights(out)


def same(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Weights that are equal, batch norms' statistics apart, which a training always changes."""
    return [name for name in a if "running" not in name and torch.allclose(a[name].float(), b[name].float(), atol=1e-6)]


def learned(a: dict[str, Any]) -> list[str]:
    return [name for name in a if "running" not in name and "tracked" not in name]


def test_a_checkpoint_of_our_own_is_where_it_begins(trained: Path, table: Path, tmp_path: Path) -> None:
    start = weights(trained)
    end = begin(table, tmp_path / "m", trained / "weights.safetensors", seeds=5)
    assert set(learned(start)) <= set(same(start, end))
    assert read_manifest(tmp_path / "m").card["fit"]["head"] == "the checkpoint's"


def test_torchvisions_names_and_another_head(trained: Path, tmp_path: Path) -> None:
    """As saved by data parallelism, in a wrapper, with the older names of dense layers and 1000 classes."""
    start = weights(trained)
    renamed = {}
    for name, value in start.items():
        old = name.replace(".layers.norm", ".norm.").replace(".layers.conv", ".conv.")
        old = old.replace("class_layers.out", "classifier")
        renamed[f"module.{old}"] = value
    renamed["module.classifier.weight"] = torch.zeros(1000, 1024)
    renamed["module.classifier.bias"] = torch.zeros(1000)
    torch.save({"epoch": 3, "state_dict": renamed}, tmp_path / "start.pth")
    shape = VisionShape(**json.loads((trained / "network.json").read_text()))
    network = make_network(shape, 2, seed=5)
    assert not load_start(network, shape, tmp_path / "start.pth"), "the head is new"
    end = network.state_dict()
    body = {name for name in start if "class_layers" not in name}
    assert all(torch.equal(start[name], end[name]) for name in body)
    assert not torch.equal(start["class_layers.out.weight"], end["class_layers.out.weight"])


def test_checkpoints_that_do_not_fit(trained: Path, table: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    shape = VisionShape(network="densenet121", image_size=32, bits=16, mean=(0.5,), std=(0.2,))
    network = make_network(shape, 2, seed=0)
    with pytest.raises(ConfigError, match=r"another size: 'features\.conv0\.weight' is 64 x 3 x 7 x 7 where"):
        load_start(network, shape, trained / "weights.safetensors")
    wide = shape.model_copy(update={"mean": (0.5,) * 3, "std": (0.2,) * 3})
    some = {name: value for name, value in weights(trained).items() if "denseblock4" not in name}
    save_file(some, tmp_path / "some.safetensors")
    with pytest.raises(ConfigError, match=r"some\.safetensors: the checkpoint lacks 160 of the .*denseblock4"):
        load_start(make_network(wide, 2, seed=0), wide, tmp_path / "some.safetensors")
    save_file(weights(trained) | {"extra.weight": torch.zeros(2)}, tmp_path / "more.safetensors")
    with pytest.raises(ConfigError, match=r"1 weights that densenet121 has no place for, such as 'extra\.weight'"):
        load_start(make_network(wide, 2, seed=0), wide, tmp_path / "more.safetensors")
    with pytest.raises(ConfigError, match=r"lacks 265 of the .* weights of resnet50"):
        train(
            "cxr",
            read(table),
            tmp_path / "m",
            TINY | {"network": "resnet50", "checkpoint": trained / "weights.safetensors"},
        )
    assert not (tmp_path / "m").exists()


class Evil:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("evil"),)


def test_no_pickled_code_is_run(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Evil()}, tmp_path / "evil.pt")
    (tmp_path / "text.safetensors").write_text("no weights")
    torch.save([1, 2], tmp_path / "list.pt")
    bad = {"evil.pt": "without running code", "text.safetensors": "neither a safetensors file", "list.pt": "no weights"}
    for name, message in bad.items():
        with pytest.raises(ConfigError, match=message):
            train("cxr", read(table), tmp_path / "m", TINY | {"checkpoint": tmp_path / name})
    assert not (tmp_path / "evil").exists()


def test_resnet_50_is_the_published_one() -> None:
    shape = VisionShape(network="resnet50", image_size=64, bits=16, mean=(0.5,) * 3, std=(0.2,) * 3)
    network = make_network(shape, 1000, seed=0)
    assert sum(weight.numel() for weight in network.parameters()) == 25_557_032
    assert network.state_dict()["layer2.0.downsample.0.weight"].shape == (512, 256, 1, 1)
    seen = []
    network.layer1.register_forward_hook(lambda _module, given, _out: seen.append(given[0].shape[-1]))
    network.eval()(torch.zeros(1, 3, 64, 64))
    assert seen == [16], "a stride of two, then pooling"


@pytest.mark.slow
def test_resnet_50_with_one_channel_in_mixed_precision(table: Path, tmp_path: Path) -> None:
    options = {"network": "resnet50", "mean": 0.5, "std": 0.25, "epochs": 1, "precision": "bfloat16"}
    train("cxr", read(table), tmp_path / "m", TINY | options)
    assert read_manifest(tmp_path / "m").card["fit"]["n_weights"] == 25_557_032 - 2049 * 1000 + 2049 * 2 - 2 * 64 * 49
    assert np.isfinite(read_back(tmp_path / "m").predict(Inputs.from_images(read(table).images[:3]))).all()


# --- through the command line -------------------------------------------------------------------------------


def test_train_audit_and_report(table: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds are one model with two checkpoints."""
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    palpate = CommandLine(capsys, monkeypatch)
    sets = [f"--set={name}={value}" for name, value in (TINY | {"epochs": 1, "seeds": "1,2"}).items()]
    ran = palpate("train", "cxr", "--cohort", table, "--out", tmp_path / "m", *sets)
    assert ran.code == 0, ran.err
    assert "train images" in ran.err
    assert "epoch 1 of 1" in ran.err
    assert ran.out.count("threshold") == 2
    assert not np.array_equal(*(weights(tmp_path / "m" / f"seed-{seed}")["class_layers.out.weight"] for seed in (1, 2)))
    audit = tmp_path / "audit.yaml"
    audit.write_text(
        f"cohort: {table}\nmodels:\n  net: {{source: [palpate:m/seed-1, palpate:m/seed-2], threads: 1}}\n"
        "audits:\n  performance: {n_replicates: 100}\n"
    )
    ran = palpate("audit", audit, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    rows = pl.read_parquet(tmp_path / "run" / "results" / "performance.parquet")
    found = rows.filter(pl.col("metric") == "auroc", pl.col("model") == "net", pl.col("value").is_not_null())
    assert set(LABELS) <= set(found["label"])


def test_a_label_with_one_class_is_left_out_as_the_hint_says(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = write_pictures(tmp_path, n=20)
    pl.read_parquet(table).with_columns(pl.lit(0).alias("label:Device")).write_parquet(table)
    palpate = CommandLine(capsys, monkeypatch)
    sets = [f"--set={name}={value}" for name, value in (TINY | {"epochs": 1, "n_replicates": 0}).items()]
    ran = palpate("train", "cxr", "--cohort", table, "--out", tmp_path / "m", *sets)
    said = " ".join(ran.err.split())
    assert ran.code == 2
    assert "label 'Device' has only one class in the split 'train'" in said
    assert "--cohort also accepts an audit.yaml, whose `cohort:` can list the others as `labels`" in said
    audit = tmp_path / "audit.yaml"
    audit.write_text(
        f"cohort: {{file: {table.name}, labels: [Opacity]}}\nmodels: {{net: palpate:m}}\naudits: {{performance: }}\n"
    )
    ran = palpate("train", "cxr", "--cohort", audit, "--out", tmp_path / "m", *sets)
    assert ran.code == 0, ran.err
    assert read_manifest(tmp_path / "m").labels == ("Opacity",)


CHILD = """
import os, signal, sys
from pathlib import Path
from palpate.train import train
from tests.train.cxr.image_cohort import TINY, read

table, out, kill_at = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
seen = 0
def progress(step):
    global seen
    seen += 1
    if seen == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
train("cxr", read(table), out, TINY | {"seeds": [1, 2], "save_steps": 1}, resume=True, progress=progress)
"""


@pytest.mark.slow
def test_a_killed_training_ends_with_the_same_bytes(table: Path, tmp_path: Path) -> None:
    """Killed while reading images, within epochs and between seeds, by the system."""

    def run(out: Path, kill_at: int) -> int:
        command = [sys.executable, "-c", CHILD, str(table), str(out), str(kill_at)]
        return subprocess.run(command, cwd=Path(__file__).parents[3], check=False).returncode

    assert run(tmp_path / "whole", 0) == 0
    for moment in (1, 6, 3, 14):
        assert run(tmp_path / "cut", moment) == -signal.SIGKILL
    assert run(tmp_path / "cut", 0) == 0
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_planted_finding_is_learned(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DenseNet-121 at 32 pixels on the synthetic hospital's X-rays, all by the command line, to the report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    palpate = CommandLine(capsys, monkeypatch)
    planted = ["Pleural Effusion", "Support Devices", "Cardiomegaly"]
    (tmp_path / "audit.yaml").write_text(
        f"cohort: {{file: cxr.parquet, labels: {json.dumps(planted)}}}\n"
        "models:\n  net: {source: palpate:net, threads: 1}\naudits:\n  performance: {n_replicates: 500}\n"
    )
    options = {"image_size": 32, "batch_size": 32, "learning_rate": 1e-3, "epochs": 5, "flip": 0, "rotate": 0}
    sets = [f"--set={name}={value}" for name, value in (options | {"threads": 1, "n_replicates": 0}).items()]
    for words in (
        ["synth", "--out", "hospital", "--patients", "700", "--seed", "3"],
        ["cohort", "cxr", "--source", "hospital", "--out", "cxr.parquet", "--set", "ratios=[0.7,0.1,0.2]"],
        ["train", "cxr", "--cohort", "audit.yaml", "--out", "net", *sets],
        ["audit", "audit.yaml", "--out", "run"],
    ):
        ran = palpate(*words)
        assert ran.code == 0, ran.err
    rows = pl.read_parquet(tmp_path / "run" / "results" / "performance.parquet")
    auroc = rows.filter(pl.col("metric") == "auroc", pl.col("label").is_in(planted), pl.col("reference").is_null())
    assert auroc.height == len(planted)
    assert auroc["value"].min() > 0.7
    assert auroc["low"].min() > 0.55
