"""For the tests of plug-ins: run an audit on models in memory; a model with known predictions, and misbehaving ones."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.models import Model, ModelSpec, Probabilities
from palpate.models.options import digest
from palpate.results import Audit, AuditResult
from palpate.run.answering import ANSWER_METRICS
from palpate.run.directory import RunDirectory
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run

Weight = float | Mapping[str, float]


def run_audit(
    audit: Audit, cohort: Cohort, models: Mapping[str, Model | Sequence[Model]], *, seed: int = 0
) -> AuditResult:
    """Run one audit through the real runner, in a temporary folder; several models under a name are an ensemble."""
    entries = []
    for name, given in models.items():
        loaded = [given] if isinstance(given, Model) else list(given)
        members = [name] if len(loaded) == 1 else [f"{name}[{k}]" for k in range(1, len(loaded) + 1)]
        entries.append(ModelEntry(name, [ModelSpec(member, "") for member in members], loaded=loaded))
    with TemporaryDirectory() as folder:
        cache = ScoreCache(Path(folder) / "scores.sqlite")
        try:
            (result,) = run(Job(cohort, entries, {audit.name: audit}, seed), RunDirectory(Path(folder) / "run"), cache)
        finally:
            cache.close()
    check_declared(audit, result)
    return result


def check_declared(audit: Audit, result: AuditResult) -> None:
    """Refuse results that the audit has not declared, if it declares any: a gate could not be written about them."""
    found = {
        "metrics": {metric.removesuffix("_sd") for metric in result.estimates["metric"].unique()} - set(ANSWER_METRICS),
        "questions": {answer.question for answer in result.answers},
    }
    for what, names in found.items():
        declared = getattr(audit, what, None)
        if declared is not None and (more := names - set(declared)):
            raise ValueError(f"audit '{audit.name}' has results that its `{what}` do not name: {sorted(more)}")


class KeywordModel(Model):
    """sigmoid(bias + the sum over the words of weight times count), so that an audit can be checked to 1e-12.

    Words count as whole words, in any case. A weight is a number, for all labels, or a mapping from label to
    number. With `window_words`, the model reads so many words (runs of non-blanks) and no more.
    """

    def __init__(
        self,
        weights: Mapping[str, Weight],
        bias: float = 0.0,
        labels: Sequence[str] = ("positive",),
        window_words: int | None = None,
    ) -> None:
        self.labels = tuple(labels)
        self.bias = bias
        self.window_words = window_words
        self.window = None if window_words is None else f"the first {window_words} words"
        self._patterns = [re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE) for word in weights]
        table = [self._weights_of(weight) for weight in weights.values()]
        self._weights = np.array(table, dtype=np.float64).reshape(len(weights), len(self.labels))
        answer_options = {"words": list(weights), "weights": table, "bias": bias, "labels": self.labels}
        self.fingerprint = digest("keyword-1", {**answer_options, "window": window_words})

    def _weights_of(self, weight: Weight) -> list[float]:
        if not isinstance(weight, Mapping):
            return [float(weight)] * len(self.labels)
        unknown = set(weight) - set(self.labels)
        if unknown:
            raise ValueError(f"weights for labels that the model does not have: {sorted(unknown)}")
        return [float(weight.get(label, 0.0)) for label in self.labels]

    def predict(self, inputs: Inputs) -> Probabilities:
        """The closed form."""
        texts = inputs.texts
        read = [text[:end] for text, end in zip(texts, self.visible_ends(texts), strict=True)]
        counts = [[len(pattern.findall(text)) for pattern in self._patterns] for text in read]
        table = np.array(counts, dtype=np.float64).reshape(len(texts), len(self._patterns))
        # Summed one word after the other: a matrix product may round differently in a batch of another size.
        score = np.full((len(texts), len(self.labels)), float(self.bias))
        for k in range(len(self._patterns)):
            score += table[:, k, None] * self._weights[k]
        return np.asarray(1 / (1 + np.exp(-score)))

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """One character behind the last word that is read: an edit at the end of a word changes the word."""
        if self.window_words is None:
            return super().visible_ends(texts)
        return np.fromiter((self._visible_end(text) for text in texts), dtype=np.int64, count=len(texts))

    def _visible_end(self, text: str) -> int:
        n_words = 0
        for n_words, word in enumerate(re.finditer(r"\S+", text), start=1):
            if n_words == self.window_words:
                return word.end() + 1
        return len(text) + 1 if self.window_words else 0


class _Wrapped(Model):
    """A model that does what another does."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.labels, self.fingerprint = model.labels, model.fingerprint
        self.threshold, self.window = model.threshold, model.window
        self.rows_per_call, self.uses_edits = model.rows_per_call, model.uses_edits
        self.characters_per_call = model.characters_per_call
        vars(self).update(reads=model.reads, cached=model.cached)

    def predict(self, inputs: Inputs) -> Probabilities:
        """What the other model says."""
        return self.model.predict(inputs)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """What the other model says."""
        return self.model.visible_ends(texts)

    def close(self) -> None:
        """Close the other model."""
        self.model.close()


class CountingModel(_Wrapped):
    """Counts what it is asked, to prove that nothing is scored twice."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.calls, self.rows = 0, 0
        self.rows_by_call: list[int] = []

    def predict(self, inputs: Inputs) -> Probabilities:
        """Count, then answer."""
        self.calls += 1
        self.rows += len(inputs)
        self.rows_by_call.append(len(inputs))
        return super().predict(inputs)


class FlakyModel(_Wrapped):
    """Raises RuntimeError on some calls, which are counted from 1: those in `fail_on`, or every n-th."""

    def __init__(self, model: Model, *, fail_on: Collection[int] = (), every: int | None = None) -> None:
        super().__init__(model)
        self.fail_on, self.every, self.calls = frozenset(fail_on), every, 0

    def predict(self, inputs: Inputs) -> Probabilities:
        """Answer, or fail."""
        self.calls += 1
        if self.calls in self.fail_on or (self.every and self.calls % self.every == 0):
            raise RuntimeError(f"planned failure of call {self.calls}")
        return super().predict(inputs)


class SlowModel(_Wrapped):
    """Waits before each answer."""

    def __init__(self, model: Model, *, seconds: float) -> None:
        super().__init__(model)
        self.seconds = seconds

    def predict(self, inputs: Inputs) -> Probabilities:
        """Wait, then answer."""
        time.sleep(self.seconds)
        return super().predict(inputs)


class NaNModel(_Wrapped):
    """Answers NaN for some cases, or for every n-th row that it is ever asked for."""

    def __init__(self, model: Model, *, case_ids: Collection[str] = (), every: int | None = None) -> None:
        super().__init__(model)
        self.case_ids, self.every, self.rows = frozenset(case_ids), every, 0

    def predict(self, inputs: Inputs) -> Probabilities:
        """Answer, with holes."""
        values = super().predict(inputs).copy()
        number = self.rows + 1 + np.arange(len(inputs))
        self.rows += len(inputs)
        broken = np.array([case in self.case_ids for case in inputs.case_ids], dtype=bool)
        if self.every:
            broken |= number % self.every == 0
        values[broken] = np.nan
        return values
