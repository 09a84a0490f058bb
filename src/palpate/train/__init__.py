"""`palpate train`: the reference models, each a folder that `palpate:DIR` reads back.

    tfidf-xgboost   counts, tf-idf, XGBoost (vocabulary paper, Appendix B.2)
    tfidf-logistic  counts, tf-idf, logistic regression: a second model that needs no extra
    transformer     a fine-tuned checkpoint, or a small encoder from scratch (Section 2.2, Appendix B.1)
    caml            one convolution, label-wise attention over thousands of codes (evidence paper, Table 9)
    effective-can   residual squeeze-and-excitation blocks, label-wise attention, evidence (Sections 5 and 6)
    plm-icd         an encoder over the chunks of a long note, label-wise attention over all of it (Huang et al., 2022)
    cxr             DenseNet-121 or ResNet-50 on chest X-rays (context paper, Appendix A)

Each kind fits on the cases of the split `train` and chooses (rounds, penalty, learning rate, epochs, threshold) on
those of `validation`; cases of `test` are counted for the model card and never read.

    trained = train("tfidf-xgboost", cohort, Path("models/xgb"), {"seeds": [24, 42]})
    trained.folders                         # models/xgb/seed-24, models/xgb/seed-42

Pre-test probabilities for the context audit are trained by `palpate.train.pretest`.

Meanwhile OUT/.training contains `job.json` (a digest of what is being trained) and the files of unfinished fits. A
finished model has its `palpate.json`, which states the same digest, so a resumed job skips it.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from palpate.cases.cohort import Cohort
from palpate.errors import ConfigError, InputError
from palpate.files import make_folder, write_atomically
from palpate.models.adapters.palpate import MANIFEST, read_manifest
from palpate.models.options import digest, parse_options
from palpate.train.cards import CARD_FILE, card_text, choose_threshold, describe_cohort, make_card, measure
from palpate.train.notes import check_patients
from palpate.train.options import FitTask, Kind, Option, Progress, TrainOptions, TrainStep, describe
from palpate.train.resume import TRAINING, MemoryRanOut, open_job

__all__ = [
    "KINDS",
    "Option",
    "Progress",
    "TrainStep",
    "Trained",
    "TrainedModel",
    "check_options",
    "kinds",
    "options_of",
    "train",
]

KINDS = {
    "tfidf-xgboost": "palpate.train.tfidf.xgboost:KIND",
    "tfidf-logistic": "palpate.train.tfidf.logistic:KIND",
    "transformer": "palpate.train.transformer:KIND",
    "cxr": "palpate.train.cxr:KIND",
    "caml": "palpate.train.coding:CAML",
    "effective-can": "palpate.train.coding:EFFECTIVE_CAN",
    "plm-icd": "palpate.train.coding.chunked:KIND",
}
"""Where each kind is defined; imported when it is needed."""
_VERSION = "train-1"


class TrainedModel(NamedTuple):
    """One model that was written."""

    folder: Path
    seed: int | None
    threshold: float
    metrics: tuple[Mapping[str, Any], ...]
    """On the validation split: metric, label, value, low, high, n, n_positive, reason."""


class Trained(NamedTuple):
    """The result of a training: one model, or one per seed."""

    kind: str
    labels: tuple[str, ...]
    models: tuple[TrainedModel, ...]

    @property
    def folders(self) -> tuple[Path, ...]:
        """What to name as `palpate:` in a configuration; several as a list."""
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


def check_options(kind: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown kind or a wrong option before a cohort is read."""
    parse_options(_kind(kind).options, kind, options)


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

    With several `seeds`, each model gets a folder of its own in `out`. `resume` continues an interrupted training,
    which must have the same kind, options and cohort.
    """
    check_patients(cohort)
    chosen = _kind(kind)
    own = parse_options(chosen.options, kind, options or {})
    depends = chosen.check(own, cohort.labels) if chosen.check is not None else {}
    cohort, split = chosen.read(cohort, own)
    job = _digest(kind, own, cohort, depends)
    seeds = own.repeats()
    folders = [out / f"seed-{seed}" if len(seeds) > 1 else out for seed in seeds]
    there = [folder for folder in folders if resume and (folder / MANIFEST).is_file()]
    open_job(out, job, resume=resume, finished=[read_manifest(folder).card.get("job") for folder in there])
    about = describe_cohort(cohort)
    keep = bool(getattr(own, "keep_training_files", False))
    try:
        for seed, folder in zip(seeds, folders, strict=True):
            if not (folder / MANIFEST).is_file():
                scratch = out / TRAINING / ("fit" if seed is None else f"seed-{seed}")
                task = FitTask(seed, scratch, _named(progress, seed, len(seeds)))
                _train_one(kind, chosen, own, split, folder, task, about=about, job=job)
                if not keep:
                    shutil.rmtree(task.scratch)
    except MemoryRanOut:
        raise
    except (InputError, ValueError):  # trying again with the same cohort and options can't succeed
        shutil.rmtree(out / TRAINING)
        raise
    if not keep:
        shutil.rmtree(out / TRAINING)
    return Trained(kind, cohort.labels, tuple(_read_back(folder) for folder in folders))


def _kind(name: str) -> Kind:
    if name not in KINDS:
        raise ConfigError(f"unknown kind of model '{name}'", hint=f"the kinds are: {', '.join(KINDS)}")
    module, _, attribute = KINDS[name].partition(":")
    kind: Kind = getattr(importlib.import_module(module), attribute)
    return kind


def _named(progress: Progress | None, seed: int | None, n_seeds: int) -> Progress:
    """Progress that names the seed, if there are several."""
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
    task: FitTask,
    *,
    about: Mapping[str, Any],
    job: str,
) -> None:
    make_folder(task.scratch)
    fitted = kind.fit(split, options, task)
    task.progress(TrainStep("validation", 0, 1))
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
    write_atomically(folder / CARD_FILE, card_text(card, split.labels))
    fitted.save(folder, labels=split.labels, threshold=threshold["value"], card=card)


def _read_back(folder: Path) -> TrainedModel:
    manifest = read_manifest(folder)
    card = manifest.card
    return TrainedModel(folder, card["seed"], card["threshold"]["value"], tuple(card["validation"]))
