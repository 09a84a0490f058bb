"""`palpate train pretest`: how likely each label was before the test, from what was known (context paper, Section 3.2).

    (a) bow         bag of words, seven classifiers
    (b) embeddings  of sliding windows of the notes by local encoders, ten classifiers
    (c) xgboost     on the bag of words, 60 random draws
    (d) tables      attributes: age, sex, what earlier tests found

For each label, the model with the highest cross-validated AUROC of all families is calibrated and gives every case a
probability; the probabilities of cases that it learned from are out of fold. OUT gets `cohort.parquet`, the cohort with
an attribute `pretest_LABEL` per label and one that identifies this training, and `pretest.json`, the card, which
identifies it too. A label for which nothing can be learned has an empty column, and the card says why.

    trained = train_pretest(cohort, Path("pretest"), {"families": ["bow"]})
    trained.table                               # label, classifier, AUROC, ACE, Brier score, Brier skill score
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.cohort import READ, Cohort
from palpate.errors import CohortError, ConfigError, InputError
from palpate.files import replacing, write_atomically
from palpate.models.devices import check_device
from palpate.models.options import digest, parse_options
from palpate.train.notes import check_patients
from palpate.train.options import Progress, TrainStep
from palpate.train.pretest import card
from palpate.train.pretest.calibration import Calibrated, calibrate, method_of, weights_of
from palpate.train.pretest.features import (
    CaseNotes,
    FeatureMatrix,
    average_notes,
    count_words,
    encode_table,
    read_notes,
    table_columns,
)
from palpate.train.pretest.grids import Setup, make, require_all, setups
from palpate.train.pretest.options import JOB, PREFIX, PretestOptions
from palpate.train.pretest.search import (
    CANT_FIT,
    Ints,
    LabelTask,
    SearchResult,
    Tried,
    calm,
    fit,
    make_folds,
    search,
    takes_weights,
)
from palpate.train.resume import TRAINING, open_job

COHORT, CARD = "cohort.parquet", "pretest.json"
BOW, TABLE = "words", "attributes"
_VERSION = "pretest-1"
_MOST_LABELS = 200
NOT_FITTED = "no model could be fitted to the cases to learn from"


class TrainedPretest(NamedTuple):
    """The pre-test probabilities of a cohort, and their card."""

    folder: Path
    cohort: Cohort
    """With the attributes `pretest_LABEL`."""
    card: Mapping[str, Any]

    @property
    def file(self) -> Path:
        """The cohort's file."""
        return self.folder / COHORT

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row per label."""
        return card.table(self.card["labels"])


class _Data(NamedTuple):
    """Everything that does not depend on the label."""

    features: Mapping[str, FeatureMatrix]
    """One row per case of the cohort."""
    learned: Mapping[str, FeatureMatrix]
    """One row per case in `learn`."""
    families: Mapping[str, tuple[str, ...]]
    learn: Ints
    rest: Ints


def train_pretest(
    cohort: Cohort,
    out: Path,
    options: Mapping[str, Any] | None = None,
    *,
    resume: bool = False,
    progress: Progress | None = None,
) -> TrainedPretest:
    """Give every case of the cohort its pre-test probabilities; `resume` skips labels that are done."""
    check_patients(cohort)
    own = parse_options(PretestOptions, "pretest", options or {})
    labels = _labels(cohort, own)
    families = _families(cohort, own)
    check_device(own)
    job = _digest(cohort, own, families)
    candidates = setups(families, own)
    require_all(candidates)
    tell = progress or _silent
    open_job(out, job, resume=resume)
    try:
        data = _read(cohort, families, own, out / TRAINING, tell)
    except InputError:  # trying again with the same cohort and options can't succeed
        shutil.rmtree(out / TRAINING)
        raise
    columns, entries = {}, []
    for k, label in enumerate(labels):
        done = out / TRAINING / f"label-{k:03d}"
        if not done.with_suffix(".json").is_file():
            _train_label(cohort, label, data, candidates, own, done, tell)
        columns[PREFIX + label] = np.load(done.with_suffix(".npy"))
        entries.append(json.loads(done.with_suffix(".json").read_text(encoding="utf-8")))
    trained = TrainedPretest(out, _with_columns(cohort, columns, job), _card(cohort, own, data, entries, job))
    _write(trained)
    shutil.rmtree(out / TRAINING)
    return trained


# --- what to learn from -------------------------------------------------------------------------------------------


def _labels(cohort: Cohort, options: PretestOptions) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(options.labels or cohort.labels))
    unknown = [name for name in wanted if name not in cohort.labels]
    if unknown:
        raise ConfigError(f"the cohort has no label '{unknown[0]}'", hint=f"it has: {', '.join(cohort.labels[:20])}")
    if len(wanted) > _MOST_LABELS:
        raise ConfigError(
            f"{len(wanted):,} labels are too many to train a model for each", hint="choose some as `labels`"
        )
    return wanted


def _families(cohort: Cohort, options: PretestOptions) -> dict[str, tuple[str, ...]]:
    """The families to try and the names of their features: those requested, or those that the cohort has data for."""
    noted = options.notes in cohort.cases.columns and cohort.cases[options.notes].null_count() < len(cohort)
    if options.families is None:
        chosen: tuple[str, ...] = (("bow", "xgboost") if noted else ()) + (("embeddings",) if options.encoders else ())
        chosen = chosen or ("tables",)
    else:
        chosen = tuple(dict.fromkeys(options.families))
    if set(chosen) - {"tables"} and not noted:
        raise CohortError(
            "the cohort has no earlier notes",
            column=options.notes,
            hint="name the `prior` column of the cohort, or use families=tables",
        )
    if "embeddings" in chosen and not options.encoders:
        raise ConfigError("embeddings need an encoder", hint="give the folders of checkpoints as `encoders`")
    if "tables" in chosen and not table_columns(cohort, options):
        raise CohortError(
            "the cohort has no attributes to learn from",
            hint="name columns as `attributes` of the cohort, or its earlier notes as `prior`",
        )
    names = {"embeddings": tuple(path.name for path in options.encoders), "tables": (TABLE,)}
    return {family: names.get(family, (BOW,)) for family in chosen}


def _read(
    cohort: Cohort, families: Mapping[str, tuple[str, ...]], options: PretestOptions, scratch: Path, tell: Progress
) -> _Data:
    """The features of every family for all cases; if notes are read, cases without one are left out."""
    # A case of weight 0 stands for nobody: nothing is learned from it.
    inside = np.ones(len(cohort), dtype=bool) if cohort.weights is None else cohort.weights > 0
    if "split" in cohort.cases.columns:
        inside = inside & cohort.cases["split"].is_in(list(options.splits)).fill_null(False).to_numpy()
    usable = np.ones(len(cohort), dtype=bool)
    notes: CaseNotes | None = None
    if set(families) - {"tables"}:
        tell(TrainStep("reading notes", 0, 1))
        notes = read_notes(cohort, options)
        usable = notes.present
    learn, rest = np.flatnonzero(inside & usable), np.flatnonzero(~inside & usable)
    if not len(learn):
        what = "" if notes is None else " with earlier notes"
        hint = f"there must be cases of the split {' or '.join(options.splits)}{what}"
        raise CohortError("there is no case to learn from", hint=hint)
    features: dict[str, FeatureMatrix] = {}
    for family in families:
        if family == "tables":
            features[TABLE] = encode_table(cohort, table_columns(cohort, options), learn)
        elif family == "embeddings" and notes is not None:
            for path in options.encoders:
                features[path.name] = average_notes(notes, _vectors(path, notes, options, scratch, tell))
        elif notes is not None and BOW not in features:
            tell(TrainStep("counting words", 0, 1))
            features[BOW] = count_words(notes, cohort.patients, learn, options)
    learned = {name: one._replace(x=one.x[learn]) for name, one in features.items()}
    return _Data(features, learned, families, learn, rest)


def _vectors(
    path: Path, notes: CaseNotes, options: PretestOptions, scratch: Path, tell: Progress
) -> NDArray[np.float32]:
    """The embeddings of the notes, kept for a resumed training."""
    from palpate.train.pretest.encoder import encoder_digest, load_encoder

    file = scratch / f"{encoder_digest(path, options)}.npy"
    if not file.is_file():
        stage = f"embedding notes with {path.name}"
        encoder = load_encoder(path, options)
        made = encoder.embed(notes.texts, lambda done: tell(TrainStep(stage, done, len(notes.texts))))
        for notice in encoder.device.notices:
            tell(TrainStep(f"{path.name}: {notice}.", 0, 0, notice=True))
        _save(file, made)
    found: NDArray[np.float32] = np.load(file)
    return found


# --- one label ----------------------------------------------------------------------------------------------------


def _train_label(
    cohort: Cohort,
    label: str,
    data: _Data,
    candidates: list[Setup],
    options: PretestOptions,
    done: Path,
    tell: Progress,
) -> None:
    """Choose, calibrate, score, measure; writes a column and an entry of the card."""
    y = cohort.y_true(np.arange(len(cohort)), [label])[:, 0]
    patients = cohort.patients
    learn, rest = data.learn, data.rest
    column = np.full(len(cohort), np.nan)
    fold, reason = _folds(y[learn], patients[learn], options)
    entry = card.refused(label, y[learn], reason)
    if fold is not None:
        task = LabelTask(data.learned, y[learn], fold, cohort.weights_of(learn))

        def told(number: int, n: int, total: int) -> None:
            tell(TrainStep(f"'{label}': choosing a model, round {number + 1}", n, total))

        found = search(task, candidates, options, told)
        chosen = _calibrated(label, task, data, found, options, tell)
        if chosen is None:
            entry["reason"] = NOT_FITTED
        else:
            best, made = chosen
            column[learn], column[rest] = made.p_learn, made.p_rest
            performance = {
                name: card.measure(y[rows], p, patients[rows], options.n_replicates, _weights(cohort, rows))
                for name, rows, p in (("out_of_fold", learn, made.p_learn), ("other", rest, made.p_rest))
            }
            entry |= {
                "chosen": {**card.describe_tried(best), "calibration": method_of(best.setup, options)},
                "search": card.describe_search(found),
                "performance": performance,
                "words": card.top_words(data.learned[best.setup.features], made.weight) or _words(task, found, options),
                "remarks": [*card.remarks(performance), *_unweighed(task, best.setup, options)],
            }
    _save(done.with_suffix(".npy"), column)
    write_atomically(done.with_suffix(".json"), json.dumps(entry))


def _calibrated(
    label: str, task: LabelTask, data: _Data, found: SearchResult, options: PretestOptions, tell: Progress
) -> tuple[Tried, Calibrated] | None:
    """The best model that can also be fitted to the fewer cases that calibration leaves it."""
    for tried in found.tried:
        if not tried.finished:
            return None
        x, every = task.features[tried.setup.features].x, data.features[tried.setup.features].x
        with suppress(*CANT_FIT):
            return tried, calibrate(
                tried.setup,
                x,
                every[data.rest],
                task.y,
                task.fold,
                options,
                lambda n, total: tell(TrainStep(f"'{label}': calibrating", n, total)),
                task.weight,
            )
    return None


def _weights(cohort: Cohort, rows: Ints) -> NDArray[np.float64] | None:
    """The sampling weights of some cases; None where all count alike, or none counts."""
    if cohort.weights is None or not (cohort.weights[rows] > 0).any():
        return None
    return cohort.weights_of(rows)


def _unweighed(task: LabelTask, setup: Setup, options: PretestOptions) -> list[str]:
    """Said of a classifier that learned without the weights of the cases."""
    if task.weight is None or takes_weights(make(setup, options.seed)):
        return []
    return [f"{setup.classifier} learns without the sampling weights; they chose, calibrated and measured it"]


def _folds(y: NDArray[np.uint8], patients: Ints, options: PretestOptions) -> tuple[Ints | None, str]:
    """The folds, or why there are none."""
    fewest = min(len(np.unique(patients[y == value])) for value in (0, 1))
    if fewest < options.folds:
        kind = "only one class" if fewest == 0 else f"only {fewest} patients with one of the classes"
        return None, f"{kind} among the cases to learn from, for {options.folds} folds"
    fold = make_folds(y, patients, options.folds, options.seed)
    share = [y[fold == k].mean() if (fold == k).any() else 0.0 for k in range(options.folds)]
    if min(share) <= 0 or max(share) >= 1:
        return None, "a fold has only one class, because few patients have most of the cases"
    return fold, ""


def _words(task: LabelTask, found: SearchResult, options: PretestOptions) -> list[list[Any]]:
    """If the chosen model has no words, those of the best bag-of-words model that has weights."""
    for tried in found.tried:
        if tried.setup.features == BOW and tried.setup.classifier not in ("KNeighborsClassifier", "MLPClassifier"):
            features = task.features[BOW]
            with calm():
                model = fit(make(tried.setup, options.seed), features.x, task.y, task.weight)
            return card.top_words(features, weights_of(model))
    return []


# --- files --------------------------------------------------------------------------------------------------------


def _digest(cohort: Cohort, options: PretestOptions, families: Collection[str]) -> str:
    chosen = options.model_dump(mode="json", exclude={"threads", "encoders", "device"})
    encoders = []
    if "embeddings" in families:
        from palpate.train.pretest.encoder import encoder_digest

        names = [path.name for path in options.encoders]
        if len(set(names)) < len(names) or {BOW, TABLE} & set(names):
            raise ConfigError("two encoders have the same folder name", hint="give each folder its own name")
        encoders = [encoder_digest(path, options) for path in options.encoders]
    weighed = {} if cohort.weights is None else {"weighed": True}
    return digest(_VERSION, {"options": chosen, "encoders": encoders, "cohort": cohort.fingerprint, **weighed})


def _save(file: Path, values: NDArray[Any]) -> None:
    content = io.BytesIO()  # np.save to a file itself overlooks a disk that is full when C closes the file
    np.save(content, values)
    write_atomically(file, content.getvalue())


def _with_columns(cohort: Cohort, columns: Mapping[str, NDArray[np.float64]], job: str) -> Cohort:
    added = [pl.Series(name, values, nan_to_null=True, dtype=pl.Float64) for name, values in columns.items()]
    added.append(pl.Series(JOB, [job] * len(cohort)))
    names = [column.name for column in added]
    kept = [name for name in cohort.attributes if name not in names]
    cases = cohort.cases.drop([name for name in names if name in cohort.cases.columns]).hstack(added)
    return Cohort(cases, cohort.labels, cohort.y, (*kept, *names), cohort.facts, cohort.folders)


def _card(
    cohort: Cohort, options: PretestOptions, data: _Data, entries: list[dict[str, Any]], job: str
) -> dict[str, Any]:
    n_words = data.features[BOW].x.shape[1] if BOW in data.features else None
    return {
        "kind": "pretest",
        "options": options.model_dump(mode="json", exclude={"threads"}),
        "cohort": {"names": list(cohort.names), "fingerprint": cohort.fingerprint, "n": len(cohort)},
        "n_learned_from": len(data.learn),
        "weighed": cohort.weights_of(data.learn) is not None,
        "n_only_scored": len(data.rest),
        "n_without_notes": len(cohort) - len(data.learn) - len(data.rest),
        "families": {name: list(features) for name, features in data.families.items()},
        "n_words": n_words,
        "columns": list(table_columns(cohort, options)) if "tables" in data.families else [],
        "labels": entries,
        "limits": list(card.LIMITS),
        "job": job,
    }


def _write(trained: TrainedPretest) -> None:
    """The card, then the cohort in palpate's own columns, so that a folder with a cohort is complete."""
    write_atomically(trained.folder / CARD, json.dumps(trained.card, indent=1) + "\n")
    cohort = trained.cohort
    plain = [name for name in ("case_id", "patient_id", *READ) if name in cohort.cases.columns]
    named = [pl.col(name).alias(f"attribute:{name}") for name in cohort.attributes]
    dense = {f"label:{name}": cohort.y[:, [k]].toarray().ravel() for k, name in enumerate(cohort.labels)}
    labels = [pl.Series(name, values, dtype=pl.UInt8) for name, values in dense.items()]
    with replacing(trained.file) as draft:
        cohort.cases.select(*plain, *named).hstack(labels).write_parquet(draft)


def _silent(_: TrainStep) -> None:
    """Report nothing."""
