"""`palpate:DIR`: a model that `palpate train` wrote, which is `palpate.json` and the files of its kind.

    sklearn         pipeline.skops
    tfidf-xgboost   vectorizer.skops, booster.json (XGBoost's own format) or, one per label, booster-0000.json, ...
    hf              checkpoint/ (a transformers checkpoint, read by the `hf:` adapter)
    coding          network.json, vocabulary.json, model.safetensors (`caml` and `effective-can`)
    vision          network.json, weights.safetensors

`palpate.json` is written last, so a folder that has one is complete.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from palpate.errors import ConfigError, MissingExtra, first_problem, parse_json
from palpate.files import failed_write, make_folder, write_atomically
from palpate.models import Model
from palpate.models.adapters.sklearn import EstimatorOptions, read_estimator
from palpate.models.devices import DeviceOptions, choose
from palpate.models.options import Options, checked_by, digest, existing, parse_options, sized_by

VERSION = "palpate-1"
MANIFEST = "palpate.json"
Kind = Literal["sklearn", "tfidf-xgboost", "hf", "coding", "vision"]


class Manifest(BaseModel):
    """The contents of `palpate.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    kind: Kind
    labels: tuple[str, ...] = Field(min_length=1)
    threshold: float | None = Field(default=None, ge=0, le=1)
    card: dict[str, Any] = Field(default_factory=dict)
    """What the model is and how it was trained: data, settings, performance."""


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> None:
    """Refuse a folder that is no model, and options that its kind does not have."""
    home = existing(target, folder)
    kind = read_manifest(home).kind
    parse_options(_options_of(kind), f"palpate:{home.name}", options)


def _options_of(kind: Kind) -> type[Options]:
    if kind == "hf":
        from palpate.models.adapters.hf import HfOptions

        return HfOptions
    if kind == "coding":
        from palpate.models.networks.coding.model import CodingModelOptions

        return CodingModelOptions
    if kind == "vision":
        from palpate.models.networks.vision import VisionOptions

        return VisionOptions
    return EstimatorOptions


def needs(target: str, options: Mapping[str, Any], *, folder: Path) -> Any:
    """The memory that a network would take (`MemoryNeed`); None: the model is no network."""
    home = existing(target, folder)
    kind = read_manifest(home).kind
    if kind == "hf":
        from palpate.models.adapters import hf

        return hf.needs("checkpoint", options, folder=home)
    own = parse_options(_options_of(kind), f"palpate:{home.name}", options)
    if not isinstance(own, DeviceOptions):
        return None
    from palpate.models.text.sizes import MemoryNeed, size_of_weights

    return MemoryNeed(size_of_weights(home), 0, choose(own))


@sized_by(needs)
@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """Read the manifest, then the model of its kind."""
    home = existing(target, folder)
    manifest = read_manifest(home)
    model = _LOADERS[manifest.kind](home, manifest, options)
    model.threshold = manifest.threshold
    return model


def read_manifest(home: Path) -> Manifest:
    """The checked contents of `palpate.json`."""
    file = home / MANIFEST
    if not file.is_file():
        seeds = sorted(path.parent.name for path in home.glob(f"*/{MANIFEST}"))
        hint = f"name one of its seeds, such as palpate:{home.name}/{seeds[0]}, or list them all" if seeds else None
        raise ConfigError(
            f"not a model that palpate trained: the folder has no {MANIFEST}",
            file=home,
            hint=hint or "for other models use sklearn:FILE or hf:DIR",
        )
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except ValidationError as error:
        wrong = first_problem(error)
        raise ConfigError(wrong.problem, file=file, column=wrong.field or None) from None


def _load_sklearn(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> Model:
    from palpate.models.bagofwords import estimator_model

    own = _own_options(home, manifest, options)
    file = existing("pipeline.skops", home)
    data = file.read_bytes()
    pipeline = read_estimator(data, own, file=file)
    return estimator_model(pipeline, own, fingerprint=_fingerprint(manifest, own, file), file=file)


def _load_tfidf_xgboost(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> Model:
    from sklearn.pipeline import Pipeline

    from palpate.models.bagofwords import estimator_model

    own = _own_options(home, manifest, options)
    words = existing("vectorizer.skops", home)
    boosters = sorted(home.glob("booster-*.json")) or [existing("booster.json", home)]
    trees = [_read_trees(file.read_bytes(), file) for file in boosters]
    steps = [
        ("vectorizer", read_estimator(words.read_bytes(), own, file=words)),
        ("trees", trees[0] if len(trees) == 1 else one_per_label(trees)),
    ]
    return estimator_model(Pipeline(steps), own, fingerprint=_fingerprint(manifest, own, words, *boosters), file=home)


def one_per_label(trees: Sequence[Any]) -> Any:
    """Fitted binary classifiers, one per label, as one estimator."""
    from sklearn.multioutput import MultiOutputClassifier

    together = MultiOutputClassifier(trees[0])
    together.estimators_, together.classes_ = list(trees), [each.classes_ for each in trees]
    return together


def _read_trees(data: bytes, file: Path) -> Any:
    try:
        import xgboost
    except ImportError as error:
        raise MissingExtra("xgboost", needed_for="a tfidf-xgboost model") from error
    classifier = xgboost.XGBClassifier()
    try:
        parse_json(data)
        classifier.load_model(bytearray(data))
    except (ValueError, xgboost.core.XGBoostError) as error:
        raise ConfigError("not an XGBoost model in JSON", file=file) from error
    return classifier


def _load_hf(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> Model:
    from palpate.models.adapters import hf

    given: dict[str, Any] = {"labels": manifest.labels, **options}
    model: Model = hf.load("checkpoint", given, folder=home)
    return model


def _load_coding(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> Model:
    from palpate.models.networks.coding.model import load_coding

    return load_coding(home, manifest.labels, options)


def _load_vision(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> Model:
    from palpate.models.networks.vision import load_vision

    return load_vision(home, manifest.labels, options)


_LOADERS: dict[Kind, Callable[[Path, Manifest, Mapping[str, Any]], Model]] = {
    "sklearn": _load_sklearn,
    "tfidf-xgboost": _load_tfidf_xgboost,
    "hf": _load_hf,
    "coding": _load_coding,
    "vision": _load_vision,
}


def _own_options(home: Path, manifest: Manifest, options: Mapping[str, Any]) -> EstimatorOptions:
    own = parse_options(EstimatorOptions, f"palpate:{home.name}", options)
    return own if own.labels else own.model_copy(update={"labels": manifest.labels})


def _fingerprint(manifest: Manifest, own: EstimatorOptions, *files: Path) -> str:
    options = {
        "kind": manifest.kind,
        "labels": own.labels,
        "positive": own.positive,
        "fingerprint": own.fingerprint,
    }
    return digest(VERSION, options, files)


def save_sklearn(
    folder: Path,
    pipeline: Any,
    *,
    labels: Sequence[str],
    threshold: float | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted scikit-learn pipeline that takes texts."""
    manifest = _manifest("sklearn", labels, threshold, card)

    def write(home: Path) -> None:
        _write_skops(pipeline, home / "pipeline.skops")

    return _save(folder, manifest, write)


def save_tfidf_xgboost(
    folder: Path,
    vectorizer: Any,
    trees: Any,
    *,
    labels: Sequence[str],
    threshold: float | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write a fitted vectorizer and the XGBClassifier, or those of `one_per_label`, fitted on its output."""
    manifest = _manifest("tfidf-xgboost", labels, threshold, card)

    def write(home: Path) -> None:
        _write_skops(vectorizer, home / "vectorizer.skops")
        for old in home.glob("booster*.json"):
            old.unlink()
        several = getattr(trees, "estimators_", None)
        if several is None:
            _write_trees(trees, home / "booster.json")
        for k, booster in enumerate(several or ()):
            _write_trees(booster, home / f"booster-{k:04d}.json")

    return _save(folder, manifest, write)


def save_hf(
    folder: Path,
    write_checkpoint: Callable[[Path], None],
    *,
    labels: Sequence[str],
    threshold: float | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write a transformers checkpoint; `write_checkpoint` puts weights, config and tokenizer into the folder."""
    manifest = _manifest("hf", labels, threshold, card)

    def write(home: Path) -> None:
        checkpoint = home / "checkpoint"
        shutil.rmtree(checkpoint, ignore_errors=True)
        make_folder(checkpoint)
        write_checkpoint(checkpoint)

    return _save(folder, manifest, write)


def save_network(
    folder: Path,
    kind: Literal["coding", "vision"],
    write: Callable[[Path], None],
    *,
    labels: Sequence[str],
    threshold: float | None = None,
    card: Mapping[str, Any] | None = None,
) -> Path:
    """Write one of palpate's own networks; `write` puts its sizes and weights into the folder."""
    return _save(folder, _manifest(kind, labels, threshold, card), write)


def _manifest(kind: Kind, labels: Sequence[str], threshold: float | None, card: Mapping[str, Any] | None) -> Manifest:
    return Manifest(kind=kind, labels=tuple(labels), threshold=threshold, card=dict(card or {}))


def _write_skops(estimator: Any, file: Path) -> None:
    """Write a skops file whose bytes depend only on the estimator.

    skops names objects by their address in memory and stamps its archive with the time of day; here objects are
    numbered in order of appearance, and the time stamp is constant.
    """
    import skops.io

    numbers: dict[bytes, bytes] = {}

    def number(found: re.Match[bytes]) -> bytes:
        return found[1] + numbers.setdefault(found[2], str(len(numbers)).encode()) + found[3]

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(estimator))) as before:
        parts = {name: before.read(name) for name in before.namelist()}
    schema = re.sub(rb'("__id__": |"file": ")(\d+)(\b)', number, parts.pop("schema.json"))
    named = {_renumbered(name, numbers): data for name, data in parts.items()} | {"schema.json": schema}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as after:
        for name in sorted(named):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            after.writestr(entry, named[name], compress_type=zipfile.ZIP_DEFLATED)
    write_atomically(file, packed.getvalue())


def _write_trees(classifier: Any, file: Path) -> None:
    """What `classifier.save_model` writes, which does not tell a full disk from other errors."""
    booster = classifier.get_booster()
    booster.set_attr(scikit_learn=json.dumps({"_estimator_type": "classifier"}))
    content = bytes(booster.save_raw("json"))
    booster.set_attr(scikit_learn=None)
    write_atomically(file, content)


def _renumbered(name: str, numbers: Mapping[bytes, bytes]) -> str:
    stem, dot, suffix = name.partition(".")
    return numbers.get(stem.encode(), stem.encode()).decode() + dot + suffix


def _save(folder: Path, manifest: Manifest, write: Callable[[Path], None]) -> Path:
    """Write the files of a kind, then the manifest, so that an interrupted save is not taken for a model."""
    make_folder(folder)
    final = folder / MANIFEST
    final.unlink(missing_ok=True)
    try:
        write(folder)
    except Exception as error:
        failed = failed_write(error, folder)  # safetensors has its own words for a full disk
        if failed is None:
            raise
        raise failed from None
    write_atomically(final, manifest.model_dump_json(indent=2) + "\n")
    return folder
