"""Fitted scikit-learn estimators as models: reading them safely, naming their columns, asking them.

skops files are data: only types that are known to be harmless are made from them. Pickles are programs, and
run only with `trust: true`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models.options import Options
from palpate.models.protocol import Model, Probabilities

PROBES = ("", "patient")
"""What an estimator is asked at load, to see what it answers with."""


class EstimatorOptions(Options):
    """Options of a model that is read from a scikit-learn file."""

    trust: bool = False
    """Run what the file asks to run: pickles, and any type in a skops file. Only for files of your own."""
    trusted_types: tuple[str, ...] = ()
    """Types in a skops file that are fine, beyond those that skops itself trusts."""


def read_estimator(data: bytes, options: EstimatorOptions, *, file: Path) -> Any:
    """The object in a skops file, joblib file or pickle."""
    if file.suffix == ".skops":
        return _read_skops(data, options, file=file)
    if not options.trust:
        raise ConfigError(
            "this may be a pickle, which can run any program when it is opened",
            file=file,
            hint="save the model with skops.io.dump as .skops, or set `trust: true` if the file is your own",
        )
    import joblib

    try:
        return joblib.load(io.BytesIO(data))
    except Exception as error:
        raise ConfigError(f"can't be read as a joblib or pickle file ({_brief(error)})", file=file) from error


def _read_skops(data: bytes, options: EstimatorOptions, *, file: Path) -> Any:
    import skops.io

    try:
        unknown = set(skops.io.get_untrusted_types(data=data))
        refused = sorted(set() if options.trust else unknown - set(options.trusted_types))
        if not refused:
            return skops.io.loads(data, trusted=sorted(unknown))
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise ConfigError("is no skops file, or is damaged", file=file) from error
    except Exception as error:
        raise ConfigError(f"can't be read ({_brief(error)})", file=file) from error
    raise ConfigError(
        f"holds types that are not known to be safe: {', '.join(refused)}",
        file=file,
        hint="if you know where the file comes from, list them under `trusted_types` or set `trust: true`",
    )


class Answer(NamedTuple):
    """What `predict_proba` of an estimator gives, and what that means."""

    names: tuple[str, ...]
    positive_only: bool
    """Two columns that are one label: only the second counts."""


def examine(estimator: Any, *, file: Path) -> Answer:
    """Ask an estimator about two short texts, to learn its labels."""
    if not hasattr(estimator, "predict_proba"):
        raise ConfigError(
            f"{type(estimator).__name__} gives no probabilities",
            file=file,
            hint="wrap the classifier in sklearn.calibration.CalibratedClassifierCV before you fit it",
        )
    try:
        raw = estimator.predict_proba(list(PROBES))
    except Exception as error:
        raise ConfigError(
            f"the {type(estimator).__name__} does not work on texts ({_brief(error)})",
            file=file,
            hint="save the whole Pipeline, with its vectorizer, fitted",
        ) from error
    if isinstance(raw, list):
        _check_outputs(estimator, raw, file=file)
        return Answer(_numbered(len(raw)), positive_only=False)
    classes = getattr(estimator, "classes_", None)
    if classes is None or _is_multilabel(estimator, classes, np.asarray(raw)):
        return Answer(_numbered(raw.shape[1]), positive_only=False)
    names = tuple(str(name) for name in classes)
    return Answer(names[1:], positive_only=True) if len(names) == 2 else Answer(names, positive_only=False)


def _numbered(n: int) -> tuple[str, ...]:
    return tuple(f"label_{k}" for k in range(n))


def _is_multilabel(estimator: Any, classes: Any, raw: Probabilities) -> bool:
    """Whether the columns are labels of their own; scikit-learn has no single place where this is said."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    if isinstance(classes, list) or getattr(last, "multilabel_", False) or raw.shape[1] != len(classes):
        return True
    if getattr(last, "out_activation_", None) == "logistic" and getattr(last, "n_outputs_", 1) > 1:
        return True
    return bool(np.any(np.abs(raw.sum(axis=1) - 1) > 1e-3))


def _check_outputs(estimator: Any, raw: Sequence[Any], *, file: Path) -> None:
    for k, output in enumerate(raw):
        if np.asarray(output).shape[1] > 2:
            raise ConfigError(
                f"output {k} of the {type(estimator).__name__} has more than two classes",
                file=file,
                hint="save a model of one output with classes, or of several outputs of 0 and 1",
            )


def _positive(output: Any, classes: Any) -> Probabilities:
    """The probability of 1 from the answer for one output, which may have been fitted on 0 or 1 only."""
    values = np.asarray(output, dtype=np.float64)
    return values[:, 1] if values.shape[1] == 2 else np.full(len(values), float(bool(classes[0])))


class EstimatorModel(Model):
    """An estimator that takes texts."""

    learned_words = True

    def __init__(self, estimator: Any, options: Options, *, fingerprint: str, file: Path) -> None:
        answer = examine(estimator, file=file)
        self.labels = options.labels or answer.names
        if len(self.labels) != len(answer.names):
            raise ConfigError(
                f"`labels` names {len(self.labels)} labels, but the model gives {len(answer.names)}",
                file=file,
            )
        self.fingerprint = fingerprint
        self.rows_per_call = options.batch_size or self.rows_per_call
        self._estimator, self._positive_only = estimator, answer.positive_only

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, some rows at a time."""
        texts, size = inputs.texts, self.rows_per_call
        blocks = [self._ask(self._estimator, texts[k : k + size]) for k in range(0, len(texts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def words(self) -> Sequence[str] | None:
        """The vocabulary of a pipeline that begins with a word counter."""
        steps = getattr(self._estimator, "steps", None)
        vectorizer = steps[0][1] if steps else None
        return list(vocabulary) if (vocabulary := getattr(vectorizer, "vocabulary_", None)) else None

    def _ask(self, estimator: Any, rows: Any) -> Probabilities:
        """One call of `predict_proba`, as one column a label."""
        raw = estimator.predict_proba(rows)
        if isinstance(raw, list):
            classes = self._estimator.classes_
            return np.column_stack([_positive(output, classes[k]) for k, output in enumerate(raw)])
        values = np.asarray(raw, dtype=np.float64)
        return values[:, 1:] if self._positive_only else values


def _brief(error: Exception) -> str:
    """The first line of an error, cut short."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
