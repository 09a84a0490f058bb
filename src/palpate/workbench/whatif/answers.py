"""The models of the configuration, asked about texts that somebody wrote: probabilities, and what they look at.

Models are loaded when a page first asks. A model that can't answer new texts is named with the reason. Nothing that is
asked here is stored, cached or logged.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.config import load_config
from palpate.errors import PalpateError
from palpate.models import Model, load_model, with_labels
from palpate.results import Asked
from palpate.workbench.sections import Bench
from palpate.workbench.shelf import find_config

Floats = NDArray[np.float64]
DEFAULT_THRESHOLD = 0.5
MOST_OCCLUDED = 600
"""Words of a note that are left out one by one."""
NO_SCORES, NO_TEXT, FAILED = "no_scores", "no_text", "failed"
"""Why a model has no answer: keys of the texts."""


class AskedModel(NamedTuple):
    """A model, or several seeds of one; without members it can't be asked, and `problem` says why."""

    name: str
    members: Sequence[Model]
    problem: str = ""


class ModelAnswer(NamedTuple):
    """What one model says of several texts."""

    name: str
    labels: tuple[str, ...]
    p: Floats
    """[texts, labels]"""
    threshold: float
    own_threshold: bool
    """Whether it came with the model."""
    seconds: float
    problem: str = ""


class WordWeights(NamedTuple):
    """How much each piece of a text speaks for a label, for one model: spans and scores, and how they were found."""

    way: str
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    score: Floats


class AskedModels:
    """The models, loaded once; they answer one request at a time."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._lock = threading.Lock()
        self._models: list[AskedModel] | None = None

    def all(self) -> list[AskedModel]:
        """Every model of the configuration."""
        with self._lock:
            if self._models is None:
                self._models = self._load()
            return self._models

    def _load(self) -> list[AskedModel]:
        config = find_config(self._bench.options)
        if config is None:
            return []
        found, settings = [], load_config(config)
        labels = list(dict.fromkeys(label for table in settings.tables().values() for label in table.labels or ()))
        for name, specs in settings.model_specs(config.absolute().parent).items():
            try:
                members = [load_model(with_labels(spec, labels)) for spec in specs]
            except PalpateError as error:
                said = str(error).replace(f"{config.absolute().parent}/", "")
                found.append(AskedModel(name, (), said))
                continue
            problem = next((_problem(model) for model in members if _problem(model)), "")
            found.append(AskedModel(name, () if problem else members, problem))
        return found

    def ask(self, texts: Sequence[str], threshold: float | None = None) -> list[ModelAnswer]:
        """Every model's probabilities; of several seeds the mean, as in the audits."""
        return [self._one(model, texts, threshold) for model in self.all()]

    def _one(self, asked: AskedModel, texts: Sequence[str], threshold: float | None) -> ModelAnswer:
        own = next((model.threshold for model in asked.members if model.threshold is not None), None)
        used = threshold if threshold is not None else DEFAULT_THRESHOLD if own is None else own
        labels = asked.members[0].labels if asked.members else ()
        nothing = ModelAnswer(asked.name, labels, np.zeros((len(texts), 0)), used, own is not None, 0.0, asked.problem)
        if not asked.members:
            return nothing
        begun = time.perf_counter()
        try:
            with self._lock:
                p = np.mean([model.predict(Inputs.from_texts(list(texts))) for model in asked.members], axis=0)
        except PalpateError:
            return nothing._replace(problem=FAILED)
        return nothing._replace(p=p, seconds=time.perf_counter() - begun, own_threshold=threshold is None and bool(own))

    def weights(self, name: str, text: str, label: int) -> WordWeights | None:
        """What a model looks at: its own explanation if it has one, or what changes when a word is left out."""
        asked = next((model for model in self.all() if model.name == name and model.members), None)
        if asked is None or not 0 <= label < len(asked.members[0].labels):
            return None
        model = asked.members[0]
        with self._lock:
            if model.explains:
                return _explained(model, text, label)
            return _occluded(asked.members, text, label)

    def close(self) -> None:
        """Release threads and connections."""
        for asked in self._models or ():
            for model in asked.members:
                model.close()


def _problem(model: Model) -> str:
    if model.reads == "case":
        return NO_SCORES
    return "" if model.reads == "text" else NO_TEXT


def _explained(model: Model, text: str, label: int) -> WordWeights:
    asked = Asked(np.zeros(1, np.int64), np.full(1, label, np.int64))
    found = model.explain(Inputs.from_texts([text]), asked, model.explains[0])
    return WordWeights(model.explains[0], found.start, found.end, found.score)


def _occluded(members: Sequence[Model], text: str, label: int) -> WordWeights:
    """The fall of the probability when each word is left out."""
    start, end = word_spans(text)
    n = len(start)
    inputs = Inputs(
        parent=np.zeros(n + 1, np.int64),
        first_edit=np.concatenate([[0], np.arange(n + 1)]).astype(np.int64),
        start=start,
        end=end,
        replacement=np.zeros(n, np.int64),
        replacements=("",),
        parents=(text,),
        case_ids=[""] * (n + 1),
        cohorts=[""] * (n + 1),
    )
    p = np.mean([model.predict(inputs)[:, label] for model in members], axis=0)
    return WordWeights("occlusion", start, end, p[0] - p[1:])


def word_spans(text: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the words of a text begin and end, the first `MOST_OCCLUDED` of them."""
    spans: list[tuple[int, int]] = []
    position = 0
    for piece in text.split():
        begin = text.index(piece, position)
        position = begin + len(piece)
        core = piece.strip(".,;:!?()[]{}\"'*")
        if core:
            first = begin + piece.index(core)
            spans.append((first, first + len(core)))
    chosen = np.asarray(spans[:MOST_OCCLUDED], dtype=np.int64).reshape(-1, 2)
    return chosen[:, 0].copy(), chosen[:, 1].copy()
