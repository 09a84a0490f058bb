"""Fitted scikit-learn estimators as models: naming their output columns, and calling them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.models.classes import ClassOptions, is_positive, positive_of, unclear

PROBES = ("", "patient")
"""Texts on which an estimator is called when it is loaded, to see what it returns."""


class EstimatorOutput(NamedTuple):
    """What `predict_proba` of an estimator returns, and what that means."""

    names: tuple[str, ...]
    kept: int | None = None
    """Two columns are one label: only this one counts."""
    classes: tuple[str, ...] = ()
    """Two columns of which it is not known which is the positive class."""
    positives: tuple[int | bool, ...] = ()
    """Where each label has a table of its own: the column that counts; for a single column, whether it is all ones."""


def examine(estimator: Any, options: ClassOptions, *, file: Path) -> EstimatorOutput:
    """Call an estimator on two short texts to learn its labels."""
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
            f"the {type(estimator).__name__} does not work on texts ({brief(error)})",
            file=file,
            hint="save the whole fitted Pipeline, including its vectorizer",
        ) from error
    if isinstance(raw, list):
        _check_outputs(estimator, raw, file=file)
        positives = _positives(estimator.classes_, options, file=file)
        return EstimatorOutput(_numbered(len(raw)), positives=positives)
    classes = getattr(estimator, "classes_", None)
    if classes is None or _is_multilabel(estimator, classes, np.asarray(raw)):
        return EstimatorOutput(_numbered(raw.shape[1]))
    names = tuple(str(name) for name in classes)
    if len(names) != 2:
        return EstimatorOutput(names)
    kept = positive_of(names, options, file=file)
    if kept is None and options.labels is not None:
        raise unclear(names, file=file)
    return EstimatorOutput(names, classes=names) if kept is None else EstimatorOutput((names[kept],), kept=kept)


def _numbered(n: int) -> tuple[str, ...]:
    return tuple(f"label_{k}" for k in range(n))


def _is_multilabel(estimator: Any, classes: Any, raw: Probabilities) -> bool:
    """Whether each column is a label of its own; scikit-learn has no single attribute that says so."""
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
                hint="save a model with one multi-class output, or with several outputs of 0 and 1",
            )


def _positives(classes: Sequence[Any], options: ClassOptions, *, file: Path) -> tuple[int | bool, ...]:
    """For each output the column of its positive class; an output may have been fitted on only 0 or only 1."""
    found: list[int | bool] = []
    for k, names in enumerate(classes):
        place = positive_of(list(names), options, file=file) if len(names) == 2 else is_positive(names[0], file=file)
        if place is None:
            raise unclear(list(names), file=file, what=f"output {k} of the model")
        found.append(place)
    return tuple(found)


def _positive(output: Any, place: int | bool) -> Probabilities:
    """The probability of the positive class for one output."""
    values = np.asarray(output, dtype=np.float64)
    return values[:, place] if values.shape[1] == 2 else np.full(len(values), float(place))


class EstimatorModel(Model):
    """An estimator that takes texts."""

    learned_words = True

    def __init__(self, estimator: Any, options: ClassOptions, *, fingerprint: str, file: Path) -> None:
        output = examine(estimator, options, file=file)
        self.labels, self.classes = options.labels or output.names, output.classes
        if len(self.labels) != len(output.names):
            raise ConfigError(
                f"`labels` names {len(self.labels)} labels, but the model gives {len(output.names)}",
                file=file,
            )
        self.fingerprint = fingerprint
        self.rows_per_call = options.batch_size or self.rows_per_call
        self._estimator, self._output = estimator, output

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, a block of rows at a time."""
        texts, size = inputs.texts, self.rows_per_call
        blocks = [self._ask(self._estimator, texts[k : k + size]) for k in range(0, len(texts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def words(self) -> Sequence[str] | None:
        """The vocabulary of a pipeline that starts with a word counter."""
        steps = getattr(self._estimator, "steps", None)
        vectorizer = steps[0][1] if steps else None
        return list(vocabulary) if (vocabulary := getattr(vectorizer, "vocabulary_", None)) else None

    def _ask(self, estimator: Any, rows: Any) -> Probabilities:
        """One call of `predict_proba`, as one column per label."""
        raw = estimator.predict_proba(rows)
        if isinstance(raw, list):
            return np.column_stack([_positive(*pair) for pair in zip(raw, self._output.positives, strict=True)])
        values = np.asarray(raw, dtype=np.float64)
        return values if self._output.kept is None else values[:, [self._output.kept]]


def brief(error: Exception) -> str:
    """The type and the first line of an error, cut short."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
