"""What palpate needs of a model: `predict`, and what the model declares about itself.

A model is asked for probabilities and nothing else. What it declares lets the runner check compatibility
before any work, skip edits that the model can't see, and pack batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.results import Asked, Attributions

Probabilities = NDArray[np.float64]


class Model(ABC):
    """A classifier that gives a probability per label.

    Subclasses set `labels` and `fingerprint` and implement `predict`; the rest has defaults. A two-class model
    has one label, its positive class. `fingerprint` changes whenever the answers may change: the cache of
    scores is keyed by it.
    """

    labels: tuple[str, ...]
    fingerprint: str
    threshold: float | None = None
    """The decision threshold that came with the model, if any."""
    reads: ClassVar[Literal["text", "case", "image"]] = "text"
    """What the answer depends on, alone: the text, the image, or the case, by which it is looked up."""
    window: str | None = None
    """How much of a text the model reads, for people ("the first 512 tokens"); None: all of it."""
    tells_cohorts_apart: bool = True
    """False: a model that looks cases up by name alone, and must not be asked where two cohorts share names."""
    cached: ClassVar[bool] = True
    """False: answers come so cheaply that remembering them is not worth it."""
    rows_per_call: int = 1024
    """How many rows the runner hands over in one call; also what a kill can lose."""
    characters_per_call: int | None = None
    """A call may have more rows than that while the texts are no longer than this in all: short texts fill batches."""
    learned_words: ClassVar[bool] = False
    """Whether `words` come from the notes that the model was fitted on, and so may hold names."""
    uses_edits: bool = False
    """True: rows come grouped by parent, because the model scores edits as differences."""
    explains: tuple[str, ...] = ()
    """The ways in which the model can say what it looked at ("attention"), the preferred one first; none: it can't."""

    @abstractmethod
    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities, one row per input and one column per label."""

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """How many characters of each text the model reads; an edit behind that is not scored.

        An edit that starts at or after the returned offset must not be able to change the answer.
        """
        return np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))

    def words(self) -> Sequence[str] | None:
        """The model's vocabulary as it spells it, word pieces and all; None: it can't tell."""
        return None

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """What speaks for the asked labels in the asked rows; `way` is one of `explains`."""
        raise NotImplementedError(f"this model explains nothing; asked for {way} of {len(asked.row)} of {len(inputs)}")

    def close(self) -> None:  # noqa: B027  (optional to override)
        """Give back threads and connections."""


class Loader(Protocol):
    """What an adapter registers under its scheme: `hf:TARGET` calls `load(TARGET, options, folder=...)`."""

    def __call__(self, target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
        """Load the model; relative paths are taken from `folder`."""
        ...


@dataclass(frozen=True)
class ModelSpec:
    """How to get a model, in words: small enough to send to a worker, which loads it there."""

    name: str
    source: str
    folder: str = "."
    options: Mapping[str, Any] = field(default_factory=dict)
