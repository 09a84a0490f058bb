"""Models that are in memory already: fitted estimators, functions, networks with their tokenizer, and plain scores.

For use from Python: nothing is written to a file to be read again. A model that reads columns of the table gets the
rows of the user's own frame, in the user's own library; where one of them is the note, it gets the note as altered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError, kind_of
from palpate.models.bagofwords import estimator_model
from palpate.models.classes import ClassOptions, positive_of, unclear
from palpate.models.options import parse_options
from palpate.models.protocol import Model, Probabilities

NO_VERSION = "a function in memory has no version"
_FIXED = (str, bytes, int, float, bool, tuple, frozenset, np.ndarray, type(None))
Key = tuple[str, str]
"""A case: its cohort and its id."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """A model in memory, with what palpate cannot see from the object itself.

        palpate.InMemory(forest, columns=["age", "sex"])
        palpate.InMemory(ask_vendor, fingerprint="2026-03", threshold=0.3)

    `columns` are those of the table that the model reads, as a frame; without them it reads notes, or what its
    `feature_names_in_` say. `fingerprint` is the version of a function: its scores are then reused by later runs. With
    `missing="report"`, scores that are NaN are counted and reported instead of being an error.

    >>> InMemory(len, columns=["age"]).columns
    ['age']
    """

    model: Any
    columns: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    positive: str | int | float | bool | None = None
    threshold: float | None = None
    fingerprint: str | None = None
    batch_size: int | None = None
    missing: Literal["error", "report"] = "error"

    def choices(self) -> bytes:
        """What changes the answers besides the model itself."""
        return repr((self.columns and list(self.columns), self.labels and list(self.labels), self.positive)).encode()

    def options(self) -> ClassOptions:
        """The options as every adapter takes them."""
        given = {name: getattr(self, name) for name in ("labels", "positive", "fingerprint", "batch_size")}
        return parse_options(ClassOptions, "a model in memory", {k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True, eq=False)
class CaseFrame:
    """The user's table, for models that read columns."""

    columns: Sequence[str]
    places: Mapping[Key, int]
    """The row of each case."""
    take: Callable[[Sequence[int], Sequence[str]], Any]
    """Some rows and columns, as a frame of the user's own library."""
    replace: Callable[[Any, str, Sequence[str]], Any]
    """A frame with other values in a column."""
    digest: Callable[[Sequence[str]], str]
    """Of the cases and of what some columns hold: other values are other inputs of a model that reads them."""
    text: str | None = None
    """The column of notes."""

    def rows(self, inputs: Inputs, *, model: str) -> list[int]:
        """The row of each input; a text that belongs to no case has none."""
        found = [self.places.get(key) for key in zip(inputs.cohorts, inputs.case_ids, strict=True)]
        if None in found:
            raise ModelError(
                "the model reads columns of a case, and a text that an audit made up belongs to none",
                model=model,
                hint="leave out audits that make up texts (capabilities)",
            )
        return [row for row in found if row is not None]


class ScoresModel(Model):
    """Scores that are there already, one row per case."""

    reads: ClassVar[Literal["text", "case", "image"]] = "case"
    answers_altered: ClassVar[bool] = False
    cached: ClassVar[bool] = False
    rows_per_call = 65_536

    def __init__(self, name: str, values: Probabilities, labels: tuple[str, ...], frame: CaseFrame) -> None:
        self.labels, self._name, self._frame, self._values = labels, name, frame, values
        self.fingerprint = f"scores-{_digest(values.tobytes(), *map(str.encode, labels))}"

    def predict(self, inputs: Inputs) -> Probabilities:
        """The scores of the cases; nothing else is asked of it."""
        found = self._values[self._frame.rows(inputs, model=self._name)]
        gone = np.flatnonzero(np.isnan(found).any(axis=1))
        if len(gone) and not self.may_miss:
            raise ModelError(
                f"{len(gone):,} of {len(found):,} cases have no score",
                model=self._name,
                case=inputs.case_ids[int(gone[0])],
                hint='drop these cases, or count them: palpate.InMemory(scores, missing="report")',
            )
        return found


class TextFunctionModel(Model):
    """A function of a list of texts."""

    _asks: ClassVar[str] = (
        "it is given a list of texts; one of rows of the table is palpate.InMemory(function, columns=[...])"
    )

    def __init__(self, name: str, function: Callable[[Any], Any], given: InMemory, labels: tuple[str, ...]) -> None:
        self.labels = tuple(given.labels or labels)
        self.rows_per_call = given.batch_size or self.rows_per_call
        version = f"version {given.fingerprint}" if given.fingerprint else f"{name} {_code(function)}"
        self.fingerprint = f"function-{_digest(version.encode(), given.choices())}"
        self.may_change = None if given.fingerprint else NO_VERSION
        self._name, self._function = name, function

    def predict(self, inputs: Inputs) -> Probabilities:
        """What the function says, `batch_size` texts at a time."""
        texts, size = inputs.texts, self.rows_per_call
        blocks = [self._call(texts[k : k + size]) for k in range(0, len(texts), size)]
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def _call(self, rows: Any) -> Probabilities:
        try:
            answer = self._function(rows)
        except Exception as error:  # whose message may quote a note
            raise ModelError(f"the function failed ({kind_of(error)})", model=self._name, hint=self._asks) from error
        return probabilities(answer, len(rows), self.labels, self._name)


class ColumnsModel(TextFunctionModel):
    """An estimator or a function that takes rows of the table."""

    reads: ClassVar[Literal["text", "case", "image"]] = "case"
    _asks: ClassVar[str] = "it is given a frame with the columns that it reads"

    def __init__(
        self, name: str, function: Callable[[Any], Any], given: InMemory, labels: tuple[str, ...], frame: CaseFrame
    ) -> None:
        super().__init__(name, function, given, labels)
        self._frame, self._columns = frame, tuple(given.columns or frame.columns)
        missing = [column for column in self._columns if column not in frame.columns]
        if missing:
            raise ConfigError(
                f"model '{name}' reads column '{missing[0]}', which the table does not have",
                hint=f"the columns are {', '.join(frame.columns[:10])}",
            )
        read = frame.digest([column for column in self._columns if column != frame.text])
        self.fingerprint = f"columns-{_digest(self.fingerprint.encode(), read.encode())}"

    def predict(self, inputs: Inputs) -> Probabilities:
        """What the function says about the rows of the cases."""
        rows, size = self._frame.rows(inputs, model=self._name), self.rows_per_call
        notes = self._frame.text if self._frame.text in self._columns else None
        edited, texts = bool((inputs.n_edits > 0).any()), inputs.texts if notes else []
        blocks = []
        for k in range(0, len(rows), size):
            part = self._frame.take(rows[k : k + size], self._columns)
            if notes is not None and edited:
                part = self._frame.replace(part, notes, texts[k : k + size])
            blocks.append(self._call(part))
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))


def probabilities(answer: Any, n: int, labels: Sequence[str], name: str) -> Probabilities:
    """What a function returned as one column per label, or a sentence about what is wrong with it."""
    try:
        values = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("the function did not return numbers", model=name) from None
    if values.ndim == 2 and values.shape[1] == 2 and len(labels) == 1:
        values = values[:, 1]  # as `predict_proba` of two classes
    values = values[:, None] if values.ndim == 1 else values
    if values.shape != (n, len(labels)):
        raise ModelError(
            f"the function returned an array of shape {list(values.shape)}, not {[n, len(labels)]} (rows, labels)",
            model=name,
            hint="one probability for each row and label",
        )
    return values


def estimator_in_memory(name: str, given: InMemory, labels: tuple[str, ...], frame: CaseFrame) -> Model:
    """A fitted scikit-learn estimator: of texts, or of the columns that it was fitted on."""
    estimator = given.model
    fitted = getattr(estimator, "feature_names_in_", None)
    columns = given.columns or (None if fitted is None else [str(column) for column in fitted])
    version = given.fingerprint or _hash_of(estimator)
    if columns is None:
        if getattr(estimator, "n_features_in_", None) is not None and not hasattr(estimator, "steps"):
            raise ConfigError(
                f"model '{name}' was fitted on an array, so its columns have no names",
                hint=f"name them: palpate.InMemory({type(estimator).__name__.lower()}, columns=[...])",
            )
        options = given.options()
        if options.labels is None and len(labels) > 1:
            options = options.model_copy(update={"labels": labels})
        try:
            model: Model = estimator_model(
                estimator, options, fingerprint=_estimator_version(name, version, given), file=Path(name)
            )
        except ConfigError as error:
            raise ConfigError(f"model '{name}': {error.problem}", hint=_estimator_hint(estimator, error)) from error
    else:
        known = InMemory(
            estimator, columns, given.labels, given.positive, fingerprint=version, batch_size=given.batch_size
        )
        model = ColumnsModel(name, _positive_column(name, estimator, given), known, labels, frame)
    model.may_change = None if version else NO_VERSION
    return model


def _estimator_version(name: str, version: str | None, given: InMemory) -> str:
    return f"estimator-{_digest((version or name).encode(), given.choices())}"


def _estimator_hint(estimator: Any, error: ConfigError) -> str | None:
    """What to do about an estimator that cannot be asked about notes."""
    if "NotFitted" in error.problem:
        return "fit it first"
    if not hasattr(estimator, "predict_proba"):
        return error.hint
    return "give a pipeline that takes notes, or one that was fitted on a frame with column names"


def _positive_column(name: str, estimator: Any, given: InMemory) -> Callable[[Any], Any]:
    """`predict_proba` of an estimator of columns, as one column per label."""
    if not hasattr(estimator, "predict_proba"):
        raise ConfigError(
            f"model '{name}': {type(estimator).__name__} gives no probabilities",
            hint="wrap the classifier in sklearn.calibration.CalibratedClassifierCV before you fit it",
        )
    classes = getattr(estimator, "classes_", None)
    if classes is None or len(classes) != 2 or isinstance(classes, list):
        return lambda rows: _per_label(estimator.predict_proba(rows))
    place = positive_of([str(each) for each in classes], given.options(), file=Path(name))
    if place is None:
        raise unclear([str(each) for each in classes], what=f"model '{name}'")
    kept = place
    return lambda rows: estimator.predict_proba(rows)[:, kept]


def _per_label(raw: Any) -> Any:
    """One table for each label becomes one column for each: the probability of its last class."""
    return np.column_stack([np.asarray(each)[:, -1] for each in raw]) if isinstance(raw, list) else raw


def network_in_memory(name: str, network: Any, tokenizer: Any, given: InMemory) -> Model:
    """A transformers classifier with its tokenizer."""
    from palpate.models.adapters.hf import HfOptions, of_network

    own = {key: value for key, value in given.options().model_dump().items() if value is not None}
    digest = hashlib.blake2b(given.choices(), digest_size=16)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    words = backend.to_str() if backend is not None else repr(sorted(tokenizer.get_vocab().items()))
    for part in (words, repr(tokenizer), network.config.to_json_string()):
        digest.update(part.encode())
    for key, tensor in sorted(network.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().float().contiguous().numpy().tobytes())
    version = f"network-{digest.hexdigest()}"
    return of_network(network, tokenizer, HfOptions(**own), source=name, fingerprint=lambda _: version)


def _hash_of(it: Any) -> str | None:
    """A digest of an object's parameters and arrays; None where it holds what cannot be looked into."""
    import joblib

    try:
        return str(joblib.hash(it))
    except Exception:  # whatever its parts raise when they are pickled
        return None


def _code(function: Any) -> str:
    """What tells one function from another within a session: not a version, but a run can be resumed with it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__qualname__} {_constants(vars(function)) if hasattr(function, '__dict__') else ''}"
    cells = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)}
    return f"{_instructions(code)} {_constants(cells)} {_constants(dict(enumerate(function.__defaults__ or ())))}"


def _constants(held: Mapping[Any, Any]) -> str:
    """What a function holds and does not change: numbers, words, arrays. A list may be its diary."""
    kept = {name: each for name, each in held.items() if isinstance(each, _FIXED)}
    return f"{sorted(map(str, held))} {_hash_of(kept)}"


def _instructions(code: Any) -> str:
    """The code of a function with its constants, and that of the functions inside."""
    constants = [_instructions(each) if hasattr(each, "co_code") else repr(each) for each in code.co_consts]
    return repr((code.co_code, code.co_names, constants))


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()
