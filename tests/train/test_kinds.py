"""What every kind of reference model that reads notes promises."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import recall_score, roc_auc_score

from palpate.cases.cohort import Cohort, stack
from palpate.errors import CohortError, ConfigError
from palpate.models.adapters.palpate import read_manifest
from palpate.train import TrainStep, kinds, options_of, train
from palpate.train.resume import TRAINING, MemoryRanOut, TrainingFiles, open_job
from tests.train.synthetic_notes import cohort, frame
from tests.train.training import SMALL, contents, predict, quick, rows_of, small

pytest.importorskip("torch")
KINDS = [kind for kind in kinds() if kind in SMALL]  # those that read notes
SEEDED = [kind for kind in KINDS if kind != "tfidf-logistic"]


@pytest.fixture(scope="module")
def home() -> Cohort:
    return cohort(900)


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, home: Cohort, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("models") / request.param
    steps: list[TrainStep] = []
    return train(request.param, home, out, small(request.param), progress=steps.append), steps


def test_a_patient_in_two_splits_is_refused(tmp_path: Path) -> None:
    home = cohort(100)
    patients = home.cases["patient_id"].to_list()
    splits = home.cases["split"].to_list()
    patients[splits.index("test")] = patients[splits.index("train")]
    leaking = replace(home, cases=home.cases.with_columns(pl.Series("patient_id", patients)))
    with pytest.raises(CohortError, match="is in split 'test' here and in 'train' in row"):
        train("tfidf-logistic", leaking, tmp_path / "m", small("tfidf-logistic"))


def test_it_learns(trained: Any, home: Cohort) -> None:
    result, _ = trained
    y, p = predict(result.folders[0], home, "test")
    assert p.shape == (150, 1)
    assert roc_auc_score(y[:, 0], p[:, 0]) > 0.75


def test_the_threshold_reaches_the_recall_on_validation_and_a_higher_one_does_not(trained: Any, home: Cohort) -> None:
    result, _ = trained
    y, p = predict(result.folders[0], home, "validation")
    assert recall_score(y[:, 0], p[:, 0] >= result.threshold) >= 0.70
    assert recall_score(y[:, 0], p[:, 0] > result.threshold) < 0.70
    assert read_manifest(result.folders[0]).threshold == result.threshold


def test_the_card_has_the_numbers_of_the_model_as_it_is_read_back(trained: Any, home: Cohort) -> None:
    """So probabilities at training are those of the files."""
    result, _ = trained
    y, p = predict(result.folders[0], home, "validation")
    auroc, auprc, brier = result.models[0].metrics
    assert auroc["value"] == round(roc_auc_score(y[:, 0], p[:, 0]), 6)
    assert brier["value"] == pytest.approx(np.mean((p - y) ** 2), abs=1e-6)
    assert auprc["low"] < auprc["value"] < auprc["high"]
    assert auroc["n"] == 300
    assert auroc["n_positive"] == y.sum()


def test_the_card_tells_data_options_and_limits_and_no_note(trained: Any, home: Cohort) -> None:
    result, _ = trained
    folder = result.folders[0]
    card = read_manifest(folder).card
    n_positive = int(home.y_true(rows_of(home, "train")).sum())
    assert card["cohort"]["fingerprint"] == home.fingerprint
    assert card["cohort"]["splits"]["train"] == {"n": 450, "n_patients": 225, "n_positive": {"ill": n_positive}}
    assert card["options"]["target_recall"] == 0.7
    assert "palpate" in card["versions"]
    text = (folder / "MODEL_CARD.md").read_text()
    for part in ("not a medical device", "auroc", home.fingerprint, "Decision threshold", f"{result.threshold:.4f}"):
        assert part in text
    for file, content in contents(folder).items():
        assert b"named" not in content or not any(f"named{k}x".encode() in content for k in range(450)), file
    assert not (folder / ".training").exists()


def test_progress_is_told(trained: Any) -> None:
    _, steps = trained
    assert steps[-1].stage == "validation"
    assert any(step.loss is not None and step.done == step.total for step in steps)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_training_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    data, options = cohort(240), quick(kind)
    for name in ("a", "b"):
        train(kind, data, tmp_path / name, options)
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first.keys() == second.keys()
    for file in first:
        assert first[file] == second[file], file


@pytest.mark.parametrize("kind", SEEDED)
def test_several_seeds_are_several_models(kind: str, tmp_path: Path) -> None:
    data, options = cohort(300), quick(kind, seeds=[24, 42])
    result = train(kind, data, tmp_path / "m", options)
    assert result.folders == (tmp_path / "m" / "seed-24", tmp_path / "m" / "seed-42")
    assert [model.seed for model in result.models] == [24, 42]
    p = [predict(folder, data, "test")[1] for folder in result.folders]
    assert not np.array_equal(p[0], p[1])
    alone = train(kind, data, tmp_path / "alone", options | {"seeds": [42]})
    assert np.array_equal(predict(alone.folders[0], data, "test")[1], p[1])
    assert not (tmp_path / "m" / ".training").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels(kind: str, tmp_path: Path) -> None:
    data = cohort(900, labels=("ill", "frail"))
    result = train(
        kind, data, tmp_path / "m", small(kind, **({"epochs": 15, "dropout": 0} if kind == "transformer" else {}))
    )
    assert result.labels == ("ill", "frail")
    y, p = predict(tmp_path / "m", data, "test")
    for k in range(2):
        assert roc_auc_score(y[:, k], p[:, k]) > 0.75
    y, p = predict(tmp_path / "m", data, "validation")
    assert recall_score(y.ravel(), p.ravel() >= result.threshold) >= 0.70
    own = read_manifest(tmp_path / "m").card["threshold"]["labels"]
    for k, label in enumerate(result.labels):
        assert recall_score(y[:, k], p[:, k] >= own[label]) >= 0.70
    macro = next(row for row in result.models[0].metrics if row["label"] == "macro average")
    assert macro["value"] == pytest.approx(roc_auc_score(y, p, average="macro"), abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_class_weights_change_the_fit(kind: str, tmp_path: Path) -> None:
    """With few positives, weighted models give higher probabilities."""
    data = cohort(600, positive=-4.0)
    share = data.y_true(rows_of(data, "train")).mean()
    assert share < 0.2
    mean = {}
    for weight in ("balanced", "none"):
        train(kind, data, tmp_path / weight, small(kind, class_weight=weight))
        mean[weight] = predict(tmp_path / weight, data, "test")[1].mean()
    assert mean["none"] == pytest.approx(share, abs=0.1)
    assert mean["balanced"] > mean["none"] + 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_split_is_never_read(kind: str, tmp_path: Path) -> None:
    """Other labels and other words in it change nothing but its row in the card."""
    table = frame(240).drop("frail")
    is_test = pl.col("split") == "test"
    changed = table.with_columns(
        pl.when(is_test).then(1 - pl.col("ill")).otherwise(pl.col("ill")).alias("ill"),
        pl.when(is_test).then(pl.lit("zebra zebra crossing")).otherwise(pl.col("text")).alias("text"),
    )
    files = []
    for k, each in enumerate((table, changed)):
        train(
            kind,
            Cohort.from_frame(each, labels=["ill"]),
            tmp_path / f"{k}",
            quick(kind),
        )
        files.append(contents(tmp_path / f"{k}"))
    for name in files[0].keys() - {"palpate.json", "MODEL_CARD.md"}:
        assert files[0][name] == files[1][name], name
    assert not any(b"zebra" in content for content in files[1].values())


def test_cohorts_without_a_split_are_not_trained_on(tmp_path: Path) -> None:
    """An external cohort beside the own one has none."""
    away = Cohort.from_frame(frame(60, seed=1).drop("frail", "split"), labels=["ill"], name="away")
    train("tfidf-logistic", stack([cohort(240), away]), tmp_path / "m", small("tfidf-logistic"))
    splits = read_manifest(tmp_path / "m").card["cohort"]["splits"]
    assert [part["n"] for part in splits.values()] == [120, 80, 40]


# --- what is refused ----------------------------------------------------------------------------------------


def refused(
    error: type[Exception], message: str, data: Cohort, out: Path, kind: str = "tfidf-logistic", **o: Any
) -> None:
    with pytest.raises(error, match=message):
        train(kind, data, out, o)


def test_a_cohort_that_cannot_be_trained_on(tmp_path: Path) -> None:
    table, out = frame(240).drop("frail"), tmp_path / "m"

    def of(changed: pl.DataFrame) -> Cohort:
        return Cohort.from_frame(changed, labels=["ill"])

    refused(CohortError, "split 'train'.*column `split`", of(table.drop("split")), out)
    refused(CohortError, "split 'validation'", of(table.filter(pl.col("split") != "validation")), out)
    refused(CohortError, "no text", of(table.drop("text")), out)
    refused(CohortError, "'ill' has only one class", of(table.with_columns(ill=pl.lit(0))), out)
    none = table.with_columns(ill=pl.when(pl.col("split") == "validation").then(0).otherwise(pl.col("ill")))
    refused(CohortError, "validation.*no decision threshold", of(none), out)
    refused(CohortError, "no words", of(table.with_columns(text=pl.lit("."))), out)
    refused(CohortError, "min_patients", of(table), out, min_patients=10_000)
    assert not list(out.iterdir())


def test_options_that_are_wrong_are_named(tmp_path: Path) -> None:
    data, out = cohort(240), tmp_path / "m"
    refused(ConfigError, "unknown kind of model 'magic'.*tfidf-xgboost", data, out, "magic")
    refused(
        ConfigError,
        r"'depth' of tfidf-xgboost: unknown option.*max_depth",
        data,
        out,
        "tfidf-xgboost",
        depth=3,
    )
    refused(ConfigError, "'target_recall'", data, out, target_recall=1.5)
    refused(ConfigError, "must divide", data, out, "transformer", hidden=30, heads=4)
    refused(
        ConfigError, "nowhere: checkpoint folder not found", data, out, "transformer", checkpoint=tmp_path / "nowhere"
    )
    refused(ConfigError, "config.json", data, out, "transformer", checkpoint=tmp_path)
    two = cohort(240, labels=("ill", "frail"))
    refused(ConfigError, "2 labels.*max_labels", two, out, "tfidf-xgboost", max_labels=1)
    assert not out.exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    data = cohort(240)
    (tmp_path / "thesis.txt").write_text("mine")
    refused(ConfigError, "not empty.*--resume", data, tmp_path)
    with pytest.raises(ConfigError, match="no training to resume"):
        train("tfidf-logistic", data, tmp_path, {}, resume=True)
    refused(ConfigError, "is a file", data, tmp_path / "thesis.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_resuming_a_finished_training_changes_nothing_and_another_one_is_refused(tmp_path: Path) -> None:
    data, out = cohort(240), tmp_path / "m"
    first = train("tfidf-xgboost", data, out, small("tfidf-xgboost", seeds=[1, 2]))
    before = contents(out)
    assert train("tfidf-xgboost", data, out, small("tfidf-xgboost", seeds=[1, 2]), resume=True) == first
    assert contents(out) == before
    with pytest.raises(ConfigError, match="different options or a different cohort"):
        train("tfidf-xgboost", data, out, small("tfidf-xgboost", seeds=[1, 2], max_depth=2), resume=True)
    with pytest.raises(ConfigError, match="different options or a different cohort"):
        train("tfidf-xgboost", cohort(244), out, small("tfidf-xgboost", seeds=[1, 2]), resume=True)


def test_a_folder_of_a_training_without_its_note_is_an_empty_one(tmp_path: Path) -> None:
    """Neither `--resume` nor a new training could go on from it, and each named the other."""
    for resume in (False, True):
        out = tmp_path / f"{resume}"
        (out / TRAINING / "fit").mkdir(parents=True)
        (out / TRAINING / "fit" / "state.pt").write_bytes(b"of a training that nobody knows")
        open_job(out, "this job", resume=resume)
        assert [each.name for each in (out / TRAINING).iterdir()] == ["job.json"]
    (out / TRAINING / "job.json").unlink()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty"):
        open_job(out, "this job", resume=False)


def test_a_training_whose_memory_ran_out_can_be_resumed(tmp_path: Path) -> None:
    """It counts as wrong input, after which a training is removed; here it is not."""
    data, out, options = cohort(120), tmp_path / "m", quick("caml", save_steps=1, batch_size=16, device="cpu")
    torch = pytest.importorskip("torch")
    passes: list[int] = []

    def full(network: Any, *_: Any) -> None:
        passes.extend([1] * (type(network).__module__.startswith("palpate") and network.training))
        if len(passes) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    hook = torch.nn.modules.module.register_module_forward_pre_hook(full)
    try:
        with pytest.raises(ConfigError, match=r"ran out.*--resume, or start a new training.*`batch_size`\.$"):
            train("caml", data, out, options)
    finally:
        hook.remove()
    assert (out / TRAINING / "seed-24" / "state.pt").is_file()
    assert train("caml", data, out, options, resume=True).folders == (out,)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EIO, "Input/output error"), OSError),
        (MemoryError(), MemoryError),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."), MemoryRanOut),
        (FileNotFoundError(errno.ENOENT, "No such file"), ConfigError),
        (RuntimeError("PytorchStreamReader failed"), ConfigError),
    ],
)
def test_only_a_state_that_is_damaged_or_missing_is_called_so(
    error: Exception, told: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    network = pytest.importorskip("torch").nn.Linear(1, 1)
    monkeypatch.setattr("torch.load", fail)
    with pytest.raises(told) as seen:
        TrainingFiles(tmp_path, network, "cpu").take_best()
    assert type(seen.value) is told
    assert ("damaged" in str(seen.value)) == (told is ConfigError)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'{"job": ' + b"[" * 100_000])
def test_a_damaged_note_or_state_of_a_training_is_one_sentence(content: bytes, tmp_path: Path) -> None:
    out = tmp_path / "m"
    open_job(out, "this job", resume=False)
    (out / TRAINING / "job.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"job.json: the note of the interrupted training is damaged; remove"):
        open_job(out, "this job", resume=True)
    (out / TRAINING / "state.pt").write_bytes(content)
    with pytest.raises(ConfigError, match=r"state.pt: the file is missing or damaged; remove"):
        TrainingFiles(out / TRAINING, None, "cpu").restore(None)


def test_a_lost_seed_is_trained_again(tmp_path: Path) -> None:
    data, out, options = cohort(240), tmp_path / "m", small("tfidf-xgboost", seeds=[1, 2])
    train("tfidf-xgboost", data, out, options)
    before = contents(out)
    (out / "seed-2" / "palpate.json").unlink()
    train("tfidf-xgboost", data, out, options, resume=True)
    assert contents(out) == before


@pytest.mark.parametrize("kind", KINDS)
def test_options_are_described(kind: str) -> None:
    options = options_of(kind)
    assert all(option.what.endswith(".") for option in options)
    assert {"class_weight", "target_recall"} <= {option.name for option in options}
    assert json.dumps([option.default for option in options], default=str)


def test_options_may_come_as_words_of_a_command_line(tmp_path: Path) -> None:
    options = {"seeds": "24,42", "max_depth": "2", "exclude_words": "fever, chills", "n_replicates": "0"}
    result = train("tfidf-xgboost", cohort(240), tmp_path / "m", options)
    card = read_manifest(result.folders[1]).card
    assert card["options"]["seeds"] == [24, 42]
    assert card["options"]["exclude_words"] == ["fever", "chills"]
    assert card["validation"][0]["low"] is None
