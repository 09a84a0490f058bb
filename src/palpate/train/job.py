"""One call of `palpate train`: checks, then one fit a seed, each saved with threshold and card; resumable.

While it works, OUT/.training holds `job.json` (what is being trained, as a digest) and the files of unfinished fits.
A finished model has its `palpate.json`, which names the same digest, so a resumed job skips it.
"""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, InputError
from palpate.models.adapters.palpate import MANIFEST, read_manifest
from palpate.models.digest import digest
from palpate.models.options import parse_options
from palpate.train.cards import CARD_FILE, card_text, choose_threshold, describe_cohort, make_card, measure
from palpate.train.options import Kind, Option, Progress, Step, Task, TrainOptions, describe

KINDS = {
    "tfidf-xgboost": "palpate.train.tfidf.xgboost",
    "tfidf-logistic": "palpate.train.tfidf.logistic",
    "transformer": "palpate.train.transformer",
    "cxr": "palpate.train.cxr",
    "caml": "palpate.train.coding.caml",
    "effective-can": "palpate.train.coding.effective_can",
}
"""Where each kind's `KIND` is; imported when it is asked for."""
TRAINING = ".training"
_VERSION = "train-1"


class TrainedModel(NamedTuple):
    """One model that was written."""

    folder: Path
    seed: int | None
    threshold: float
    metrics: tuple[Mapping[str, Any], ...]
    """On the validation split: metric, label, value, low, high, n, n_positive, reason."""


class Trained(NamedTuple):
    """What a training made: one model, or one a seed."""

    kind: str
    labels: tuple[str, ...]
    models: tuple[TrainedModel, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """What to name as `palpate:` in a configuration, as a list if there are several."""
        return tuple(model.folder for model in self.models)

    @property
    def threshold(self) -> float:
        """The decision threshold of the first model."""
        return self.models[0].threshold


def kinds() -> tuple[str, ...]:
    """The kinds that can be trained."""
    return tuple(KINDS)


def options_of(kind: str) -> tuple[Option, ...]:
    """The options of a kind with their defaults, for help texts."""
    return describe(_kind(kind).options)


def train(
    kind: str,
    cohort: Cohort,
    out: Path,
    options: Mapping[str, Any] | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> Trained:
    """Train a reference model on the cohort's split `train` and write it to `out`.

    With several `seeds`, each model is in a folder of its own in `out`. `resume` goes on with a training that was
    interrupted, which must be the same: kind, options, cohort.
    """
    chosen = _kind(kind)
    own = parse_options(chosen.options, kind, options or {})
    depends = chosen.check(own, cohort.labels) if chosen.check is not None else {}
    cohort, split = chosen.read(cohort, own)
    job = _digest(kind, own, cohort, depends)
    seeds = own.repeats()
    folders = [out / f"seed-{seed}" if len(seeds) > 1 else out for seed in seeds]
    _open(out, folders, job, kind, resume=resume)
    about = describe_cohort(cohort)
    keep = bool(getattr(own, "keep_training_files", False))
    try:
        for seed, folder in zip(seeds, folders, strict=True):
            if not (folder / MANIFEST).is_file():
                scratch = out / TRAINING / ("fit" if seed is None else f"seed-{seed}")
                task = Task(seed, scratch, _named(progress, seed, len(seeds)))
                _train_one(kind, chosen, own, split, folder, task, about=about, job=job)
                if not keep:
                    shutil.rmtree(task.scratch)
    except (InputError, ValueError):  # no second try with the same cohort and options can succeed
        shutil.rmtree(out / TRAINING)
        raise
    if not keep:
        shutil.rmtree(out / TRAINING)
    return Trained(kind, cohort.labels, tuple(_read_back(folder) for folder in folders))


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise ConfigError(f"there is no kind of model '{name}' to train", hint=f"there are: {', '.join(KINDS)}")
    kind: Kind = importlib.import_module(KINDS[name]).KIND
    return kind


def _named(progress: Progress | None, seed: int | None, n_seeds: int) -> Progress:
    """Progress that says for which seed, where there are several."""
    if progress is None:
        return lambda _: None
    if n_seeds == 1:
        return progress
    return lambda step: progress(step._replace(stage=f"seed {seed}: {step.stage}"))


def _digest(kind: str, options: TrainOptions, cohort: Cohort, depends: Mapping[str, Any]) -> str:
    facts = {
        "kind": kind,
        "options": options.model_dump(mode="json", exclude={"keep_training_files"}),
        "cohort": cohort.fingerprint,
        "depends": dict(depends),
    }
    return digest(_VERSION, facts)


def _train_one(
    name: str,
    kind: Kind,
    options: TrainOptions,
    split: Any,
    folder: Path,
    task: Task,
    *,
    about: Mapping[str, Any],
    job: str,
) -> None:
    task.scratch.mkdir(parents=True, exist_ok=True)
    fitted = kind.fit(split, options, task)
    task.progress(Step("validation", 0, 1))
    threshold = choose_threshold(split.validation, fitted.p_validation, split.labels, options.target_recall)
    validation = measure(split.validation, fitted.p_validation, split.labels, options.n_replicates)
    card = make_card(
        name,
        kind,
        options,
        fitted,
        cohort=about,
        validation=validation,
        threshold=threshold,
        seed=task.seed,
        job=job,
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD_FILE).write_text(card_text(card, split.labels), encoding="utf-8")
    fitted.save(folder, labels=split.labels, threshold=threshold["value"], card=card)


def _read_back(folder: Path) -> TrainedModel:
    manifest = read_manifest(folder)
    card = manifest.card
    return TrainedModel(folder, card["seed"], card["threshold"]["value"], tuple(card["validation"]))


# --- the folder ---------------------------------------------------------------------------------------------


def _open(out: Path, folders: list[Path], job: str, kind: str, *, resume: bool) -> None:
    """Make the folder, or see that what is in it is this very job."""
    if out.exists() and not out.is_dir():
        raise ConfigError("is a file, not a folder", file=out, hint="choose another folder for the model")
    if out.is_dir() and any(out.iterdir()):
        if not resume:
            raise ConfigError(
                "the folder is not empty",
                file=out,
                hint="choose another, or go on with an interrupted training with --resume",
            )
        _check_same(out, folders, job)
    home = out / TRAINING
    home.mkdir(parents=True, exist_ok=True)
    draft = home / "job.json.tmp"
    draft.write_text(json.dumps({"kind": kind, "job": job}) + "\n", encoding="utf-8")
    draft.replace(home / "job.json")


def _check_same(out: Path, folders: list[Path], job: str) -> None:
    found = [read_manifest(folder).card.get("job") for folder in folders if (folder / MANIFEST).is_file()]
    note = out / TRAINING / "job.json"
    if note.is_file():
        found.append(json.loads(note.read_text(encoding="utf-8")).get("job"))
    if not found:
        raise ConfigError("there is no training to resume in this folder", file=out, hint="choose an empty folder")
    if any(other != job for other in found):
        raise ConfigError(
            "the training in this folder has other options or another cohort",
            file=out,
            hint="resume with those, or choose an empty folder",
        )
