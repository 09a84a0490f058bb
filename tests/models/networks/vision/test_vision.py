"""A network that reads images: alone, in a run, and in the cache."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from palpate.audits.context import Context
from palpate.audits.performance import Performance
from palpate.audits.vocabulary import Vocabulary
from palpate.cases.cohort import stack
from palpate.cases.columns import films
from palpate.cases.edits import Inputs
from palpate.data.tables import write_cohort
from palpate.errors import CohortError, ConfigError, MissingExtra, ModelError
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.palpate import save_network
from palpate.models.networks.vision import predictions_table, write_vision
from palpate.models.networks.vision.layers import IMAGENET_MEAN, IMAGENET_STD, VisionShape, make_network
from palpate.run.directory import RunDirectory
from palpate.run.execute import Execution
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run
from tests.e2e.command_line import CommandLine
from tests.train.cxr.image_cohort import LABELS, read, read_back, write_pictures

torch = pytest.importorskip("torch")
pytest.importorskip("monai")

SHAPE = VisionShape(network="densenet121", image_size=32, bits=16, mean=IMAGENET_MEAN, std=IMAGENET_STD)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("cohort"), n=100)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network with its first weights: not trained, but a network."""
    network = make_network(SHAPE, 2, seed=1)
    folder = tmp_path_factory.mktemp("model") / "net"
    return save_network(folder, "vision", lambda out: write_vision(out, network, SHAPE), labels=LABELS, threshold=0.5)


@pytest.fixture(scope="module")
def model(home: Path) -> Any:
    return read_back(home, images_at_once=5)


def test_answers_are_those_of_the_network(model: Any, table: Path) -> None:
    files = read(table).images[:7]
    network = make_network(SHAPE, 2, seed=1).eval()
    expected = []
    for file in files:
        pixels = np.asarray(Image.open(file).resize((32, 32), Image.Resampling.BILINEAR), dtype=np.float32) / 255
        channels = [(pixels - mean) / std for mean, std in zip(IMAGENET_MEAN, IMAGENET_STD, strict=True)]
        with torch.inference_mode():
            expected.append(torch.sigmoid(network(torch.from_numpy(np.stack(channels)[None]))).numpy()[0])
    p = model.predict(Inputs.from_images(files))
    assert p.dtype == np.float64
    np.testing.assert_allclose(p, expected, atol=1e-5)
    assert np.ptp(p[:, 0]) > 1e-4


def test_rows_do_not_depend_on_their_batch(model: Any, table: Path) -> None:
    files = read(table).images[:7]
    together = model.predict(Inputs.from_images(files))
    alone = np.concatenate([model.predict(Inputs.from_images([file])) for file in files])
    order = [3, 1, 6, 0, 2, 1, 5, 4, 6]
    shuffled = model.predict(Inputs.from_images([files[k] for k in order]))
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-6)
    np.testing.assert_allclose(shuffled, together[order], rtol=0, atol=1e-6)
    assert model.predict(Inputs.from_images([])).shape == (0, 2)


def test_colour_and_depth_make_no_difference(model: Any, table: Path, tmp_path: Path) -> None:
    grey = Image.open(read(table).images[0])
    grey.convert("RGB").save(tmp_path / "rgb.png")
    Image.fromarray(np.asarray(grey).astype(np.uint16) * 257).save(tmp_path / "deep.png")
    files = [read(table).images[0], str(tmp_path / "rgb.png"), str(tmp_path / "deep.png")]
    p = model.predict(Inputs.from_images(files))
    np.testing.assert_allclose(p, p[[0, 0, 0]], atol=2e-3)


def test_what_it_declares(model: Any, home: Path, tmp_path: Path) -> None:
    assert (model.reads, model.labels, model.threshold) == ("image", LABELS, 0.5)
    assert model.visible_ends(["a text"]).tolist() == [0]
    shutil.copytree(home, tmp_path / "copy")
    assert read_back(tmp_path / "copy").fingerprint == model.fingerprint
    assert read_back(home, labels=["a", "b"]).fingerprint != model.fingerprint
    other = json.loads((home / "network.json").read_text()) | {"bits": 12}
    (tmp_path / "copy" / "network.json").write_text(json.dumps(other))
    assert read_back(tmp_path / "copy").fingerprint != model.fingerprint


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("network.json", {"network": "vgg"}, r"network\.json, column 'network'"),
        ("network.json", {"network": "resnet50"}, r"weights\.safetensors: the weights do not fit"),
        ("palpate.json", {"labels": ["one"]}, r"weights\.safetensors: the weights do not fit"),
        ("weights.safetensors", None, r"weights\.safetensors"),
    ],
)
def test_damaged_folders(file: str, content: Any, message: str, home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path / "m")
    path = tmp_path / "m" / file
    if content is None:
        path.unlink()
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | content))
    with pytest.raises(ConfigError, match=message):
        read_back(tmp_path / "m")


def test_options_are_checked(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="unknown option"):
        read_back(home, batch_tokens=3)
    with pytest.raises(ConfigError, match="names 3 labels, but the model gives 2"):
        read_back(home, labels=["a", "b", "c"])
    monkeypatch.setitem(sys.modules, "monai", None)
    with pytest.raises(MissingExtra, match=r"palpate\[torch\]"):
        read_back(home)


def test_without_images_it_says_so(model: Any) -> None:
    with pytest.raises(ModelError, match="reads images, and the case has none"):
        model.predict(Inputs.from_texts(["a text"]))
    with pytest.raises(CohortError, match=r"nowhere\.png: the image of case '0' was not found"):
        model.predict(Inputs.from_images(["nowhere.png"]))


# --- in a run -----------------------------------------------------------------------------------------------


class Counting:
    """The model, and how many images it was asked."""

    def __init__(self, model: Any) -> None:
        self._model, self.asked = model, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def predict(self, inputs: Inputs) -> Any:
        self.asked += len(inputs)
        return self._model.predict(inputs)


def audited(cohort: Any, model: Any, folder: Path, audits: Any = None) -> Any:
    job = Job(
        cohort,
        [ModelEntry("net", [ModelSpec("net", "")], loaded=[model])],
        audits or {"performance": Performance(n_replicates=100)},
        execution=Execution(),
    )
    cache = ScoreCache(folder / "scores.sqlite")
    out = RunDirectory(folder / f"run{len(list(folder.glob('run*')))}")
    try:
        return {result.audit: result.estimates for result in run(job, out, cache)}
    finally:
        cache.close()


def test_an_image_is_scored_once_until_it_changes(model: Any, tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "c", n=40)
    pictures = sorted((tmp_path / "c" / "pictures").glob("*4.png"))
    shutil.copy(pictures[0], pictures[1])
    counting = Counting(model)
    first = audited(read(file), counting, tmp_path)
    n_asked = counting.asked
    assert n_asked == 15, "eight cases of test and eight of validation, of which two have the same picture"
    shutil.move(tmp_path / "c", tmp_path / "moved")
    again = audited(read(tmp_path / "moved" / "cases.parquet"), counting, tmp_path)
    assert counting.asked == n_asked, "a moved picture is the same"
    assert first["performance"].equals(again["performance"])
    Image.fromarray(np.full((40, 40), 250, dtype=np.uint8)).save(tmp_path / "moved" / "pictures" / pictures[2].name)
    audited(read(tmp_path / "moved" / "cases.parquet"), counting, tmp_path)
    assert counting.asked == n_asked + 1


@pytest.mark.slow
def test_the_context_audit_takes_it(model: Any, table: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.read_parquet(table).with_columns(pl.lit("test").alias("split"))
    frame = frame.with_columns(pl.Series(f"attribute:pretest_{label}", rng.random(frame.height)) for label in LABELS)
    file = table.parent / "all.parquet"
    frame.write_parquet(file)
    context = Context(pretest={label: f"pretest_{label}" for label in LABELS}, n_replicates=100)
    found = audited(read(file), model, tmp_path, {"context": context})["context"]
    groups = set(found.filter(pl.col("model") == "net", pl.col("value").is_not_null())["group"])
    assert {"all", "matched", "re-weighted"} <= groups


def test_what_can_t_be_run_is_said_before_any_work(model: Any, table: Path, tmp_path: Path) -> None:
    counting = Counting(model)
    without = tmp_path / "without.parquet"
    pl.read_parquet(table).drop("image").write_parquet(without)
    with pytest.raises(ConfigError, match="'net' reads images, but the cohort has none"):
        audited(read(without), counting, tmp_path)
    noted = table.parent / "noted.parquet"
    pl.read_parquet(table).with_columns(pl.lit("fever today").alias("text")).write_parquet(noted)
    vocabulary = Vocabulary(words=("fever",), filters=("uniform",), vocabulary=("cough", "pain"))
    with pytest.raises(ConfigError, match="'net' reads images, but audit 'vocabulary' alters texts"):
        audited(read(noted), counting, tmp_path, {"vocabulary": vocabulary})
    assert counting.asked == 0


def test_cases_without_their_image_are_left_out_and_counted(
    home: Path, model: Any, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    file = write_pictures(tmp_path / "c", n=60)
    gone = tmp_path / "c" / "pictures" / "009.png"
    gone.unlink()
    monkeypatch.setenv("PALPATE_CACHE", str(tmp_path / "scores.sqlite"))
    palpate = CommandLine(capsys, monkeypatch)
    net = f"{{source: 'palpate:{home}', threads: 1}}"
    (tmp_path / "a.yaml").write_text(
        f"cohort: {file}\nmodels:\n  net: {net}\naudits:\n  performance: {{n_replicates: 100}}\n"
    )
    ran = palpate("audit", tmp_path / "a.yaml", "--out", tmp_path / "run")
    assert ran.code == 0
    fact = "1 of 60 cases are left out because their image file is missing"
    assert fact in (tmp_path / "run" / "report.html").read_text()
    left = read(file).with_images()
    assert left.facts[-1] == fact
    assert "c9" not in set(left.cases["case_id"])
    assert (len(left), left.y.shape[0], len(left.patients)) == (59, 59, 59)
    found = pl.read_parquet(tmp_path / "run" / "results" / "performance.parquet")
    assert set(found.filter(metric="auroc", label=LABELS[0])["n"]) == {len(left.rows(split="test"))}
    for picture in gone.parent.glob("*.png"):
        picture.unlink()
    ran = palpate("audit", tmp_path / "a.yaml", "--out", tmp_path / "none")
    assert ran.code == 2
    assert "no image file of the cohort exists" in ran.err


def test_answers_can_be_handed_on_as_a_table(home: Path, model: Any, table: Path, tmp_path: Path) -> None:
    cohort = read(table)
    frame = predictions_table(model, cohort)
    assert frame.columns == ["cohort", "case_id", *LABELS]
    assert frame["case_id"].to_list() == cohort.cases["case_id"].to_list()
    frame.write_parquet(tmp_path / "scores.parquet")
    handed = load_model(ModelSpec("scores", "predictions:scores.parquet", folder=str(tmp_path)))
    own, theirs = (audited(cohort, each, tmp_path)["performance"] for each in (model, handed))
    ours, others = (each.filter(pl.col("metric") == "auroc").sort("label") for each in (own, theirs))
    assert set(LABELS) <= set(ours["label"])
    assert np.allclose(ours["value"], others["value"], atol=1e-6)
    test = predictions_table(model, cohort, split="test")
    assert test.height == 20
    assert np.allclose(test.join(frame, on="case_id")[f"{LABELS[0]}_right"], test[LABELS[0]], atol=1e-6)


def test_a_plan_names_the_images(table: Path, home: Path, tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    (tmp_path / "a.yaml").write_text(
        f"cohort: {table}\nmodels:\n  net: 'predictions:{tmp_path}/scores.csv'\naudits:\n  performance: {{}}\n"
    )
    assert palpate("plan", tmp_path / "a.yaml", "--out", tmp_path / "plan").code == 0
    asked = pl.read_parquet(tmp_path / "plan" / "inputs.parquet")
    cohort = read(table)
    named = dict(zip(cohort.cases["case_id"], cohort.images, strict=True))
    assert asked.height == 40
    assert asked["image"].to_list() == [named[case] for case in asked["case_id"]]
    answered = asked.with_columns(pl.lit(0.5).alias(LABELS[0]), pl.lit(0.4).alias(LABELS[1]))
    answered.write_csv(tmp_path / "scores.csv")
    assert load_model(ModelSpec("s", f"predictions:{tmp_path}/scores.csv")).labels == LABELS


# --- where images are ---------------------------------------------------------------------------------------


def test_paths_start_at_the_table_of_each_cohort(table: Path, tmp_path: Path) -> None:
    other = write_pictures(tmp_path / "b", n=20)
    one, two = read(table, name="one"), read(other, name="two")
    both = stack([one, two])
    assert both.images == one.images + two.images
    assert all(Path(file).is_file() for file in both.images)
    assert one.fingerprint == read(table, name="one").fingerprint
    shutil.copytree(table.parent, tmp_path / "moved")
    assert read(tmp_path / "moved" / table.name, name="one").fingerprint == one.fingerprint


def test_a_cohort_that_is_written_elsewhere_keeps_its_images(table: Path, tmp_path: Path) -> None:
    write_cohort(read(table), tmp_path / "deep" / "cases.parquet")
    assert read(tmp_path / "deep" / "cases.parquet").images == read(table).images
    write_cohort(read(table), table.parent / "beside.parquet")
    assert pl.read_parquet(table.parent / "beside.parquet")["image"][0] == "pictures/000.png"


def test_films_of_one_case_are_read_each_and_combined(home: Path, model: Any, table: Path) -> None:
    first, second, third = read(table).images[:3]
    each = model.predict(Inputs.from_images([first, second, third]))
    p = model.predict(Inputs.from_images([f"{first}|{second}", third, f"{third}|{first}|{second}"]))
    np.testing.assert_allclose(p, [each[:2].mean(axis=0), each[2], each.mean(axis=0)], atol=1e-7)
    largest = read_back(home, combine="max")
    np.testing.assert_allclose(
        largest.predict(Inputs.from_images([f"{first}|{second}"]))[0], each[:2].max(axis=0), atol=1e-7
    )
    assert largest.fingerprint != model.fingerprint


def test_a_study_of_several_films_is_one_input_until_one_of_them_changes(model: Any, tmp_path: Path) -> None:
    file = write_pictures(tmp_path / "c", n=40)
    frame = pl.read_parquet(file).with_columns(split=pl.lit("test"))
    lists = [[a, b] for a, b in zip(frame["image"], reversed(frame["image"].to_list()), strict=True)]
    frame.with_columns(image=pl.Series(lists)).write_parquet(file)
    cohort, counting = read(file), Counting(model)
    assert all(len(films(image)) == 2 and all(Path(film).is_file() for film in films(image)) for image in cohort.images)
    first = audited(cohort, counting, tmp_path)
    assert counting.asked == 40
    assert audited(read(file), counting, tmp_path)["performance"].equals(first["performance"])
    assert counting.asked == 40
    Image.fromarray(np.full((40, 40), 250, dtype=np.uint8)).save(films(cohort.images[0])[1])
    audited(read(file), counting, tmp_path)
    assert counting.asked == 42, "the picture is in two studies"
    Path(films(cohort.images[0])[1]).unlink()
    assert len(read(file).with_images()) == 38
