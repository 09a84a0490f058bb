"""What palpate needs from a model: `predict`, and what the model declares about itself.

A model is asked for probabilities and nothing else. Its declarations let the runner check compatibility
before any work, skip edits that the model can't see, and pack batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.results import Asked, Attributions

if TYPE_CHECKING:
    import polars as pl

Probabilities = NDArray[np.float64]


class Model(ABC):
    """A classifier that gives one probability per label.

    Subclasses set `labels` and `fingerprint` and implement `predict`; everything else has a default. A two-class
    model has one label, its positive class. `fingerprint` changes whenever the predictions may change: the score
    cache is keyed by it.

    >>> class Coin(Model):
    ...     labels, fingerprint = ("sick",), "coin-1"
    ...
    ...     def predict(self, inputs):
    ...         return np.full((len(inputs), 1), 0.5)
    >>> Coin().predict(Inputs.from_texts(["a note"])).tolist()
    [[0.5]]
    """

    labels: tuple[str, ...]
    fingerprint: str
    threshold: float | None = None
    """The decision threshold that came with the model, if any."""
    reads: ClassVar[Literal["text", "case", "image"]] = "text"
    """The only thing a prediction depends on: the text, the image, or the case it is looked up by."""
    window: str | None = None
    """How much of a text the model reads, in words ("the first 512 tokens"); None: all of it."""
    tells_cohorts_apart: bool = True
    """False: the model looks cases up by name alone, so it can't be used where two cohorts share case names."""
    truth: pl.DataFrame | None = None
    """What came with the model's scores as the labels of the cases (`case_id`, `y`): the cohort must say the same."""
    may_miss: bool = False
    """True: a prediction may be NaN, which is missing: it is counted and reported, not an error."""
    answers_altered: ClassVar[bool] = True
    """False: the model is nothing but scores of the cases, so it is left out of audits that alter or make up texts."""
    cached: ClassVar[bool] = True
    """False: predictions are so cheap that caching them is not worth it."""
    rows_per_call: int = 1024
    """How many rows the runner passes in one call, which is also the most that a kill can lose."""
    characters_per_call: int | None = None
    """A call may have more rows than that as long as its texts total at most this length: short texts fill batches."""
    learned_words: ClassVar[bool] = False
    """Whether `words` were learned from the notes the model was fitted on, and so may contain names."""
    uses_edits: bool = False
    """True: rows arrive grouped by parent, because the model scores edits as differences."""
    may_change: str | None = None
    """Why the predictions may change although the fingerprint does not ("an endpoint can change behind its address").

    Scores of such a model are not reused by another run. It may turn out while the model predicts.
    """
    draws: bool = False
    """True: the same text may get another prediction when it is asked again, so each case is asked for itself."""
    asked_here: ClassVar[bool] = False
    """True: asked by this process alone, whatever the number of workers: it has its own concurrency, and counts."""
    classes: tuple[str, ...] = ()
    """Two classes of which it is not known which is positive: `labels` are both, and one must be the cohort's."""
    explains: tuple[str, ...] = ()
    """The explanation methods the model offers ("attention"), the preferred one first; empty: it has none."""
    runs_on: str | None = None
    """The device and the precision in which it computes ("cuda:0, bfloat16"); None: it does not say."""
    rounding: float = 1e-6
    """How far a prediction may move with what else is in its batch; more than this in 16 bit."""
    notices: tuple[str, ...] = ()
    """What the user should know once it has predicted ("its batches were halved"); the run says each once."""

    @abstractmethod
    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities, one row per input and one column per label."""

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """How many characters of each text the model reads; an edit beyond that is not scored.

        An edit that starts at or after the returned offset must not be able to change the prediction.
        """
        return np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))

    def words(self) -> Sequence[str] | None:
        """The model's vocabulary in its own spelling, word pieces included; None: it has none to show."""
        return None

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        """What speaks for the asked labels in the asked rows; `way` is one of `explains`."""
        raise NotImplementedError(
            f"this model has no explanations; {way} was asked for {len(asked.row)} predictions of {len(inputs)} inputs"
        )

    def close(self) -> None:  # noqa: B027  (optional to override)
        """Release threads and connections."""


@runtime_checkable
class ListsCases(Protocol):
    """A model that knows which cases it has scores of before it is asked, such as a file."""

    def lacks(self, case_ids: pl.Series, cohorts: pl.Series) -> NDArray[np.bool_] | None:
        """Which cases have no score; None: that is not known."""
        ...


class Loader(Protocol):
    """What an adapter registers under its scheme: `hf:TARGET` calls `load(TARGET, options, folder=...)`."""

    def __call__(self, target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
        """Load the model; relative paths are resolved against `folder`."""
        ...


@dataclass(frozen=True)
class ModelSpec:
    """How to get a model, as plain data: small enough to send to a worker, which loads the model there.

    >>> ModelSpec("bert", "hf:models/bert", options={"max_tokens": 256}).source
    'hf:models/bert'
    """

    name: str
    source: str
    folder: str = "."
    options: Mapping[str, Any] = field(default_factory=dict)
    isolate: bool | None = None
    """Whether the model gets a process of its own; None: as its scheme has it."""
