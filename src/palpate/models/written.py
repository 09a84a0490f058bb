"""Models that users write in Python: a function of texts, or a class with `predict` and, if it likes, more.

    class Risk:
        labels = ["readmitted"]                     # else the option `labels`, or one label
        def __init__(self, weights): ...            # `arguments: {weights: risk.npz}`
        def predict(self, texts): ...               # probabilities: [n], [n, labels], {label: [n]}, or a frame
        def explain(self, texts, label): ...        # for each text a list of (start, end, score)
        def words(self): ...                        # its vocabulary
        def window(self, texts): ...                # how many characters of each text it reads; or a number

A class with `predict_proba` is asked for that, as scikit-learn's `predict` gives classes. With `reads: columns` what
`predict` gets is a frame: some rows of the cohort's table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError, closest, kind_and_line, kind_of
from palpate.models.adapters.local_code import serving
from palpate.models.classes import ClassOptions, positive_of, unclear
from palpate.models.protocol import Model, Probabilities
from palpate.models.reads import Reads
from palpate.models.tables import TableRows
from palpate.results import Asked, Attributions, no_attributions

_LATE = "its code reads another file after the first prediction"


class UserCode(NamedTuple):
    """What the user wrote: the function that predicts and, of a class, the object with the rest."""

    predict: Callable[[Any], Any]
    labels: tuple[str, ...]
    it: Any = None

    def optional(self, name: str) -> Any:
        """A method or a value that the object has, or None."""
        return getattr(self.it, name, None)


def written(found: Any, options: ClassOptions, arguments: Mapping[str, Any], *, name: str, file: Any) -> UserCode:
    """A function as it is, a class as an object of it, an object with its method."""
    if not isinstance(found, type) and not hasattr(found, "predict") and callable(found):
        _refuse_arguments(arguments, name, file)
        return UserCode(found, options.labels or ())
    it = _made(found, arguments, name, file) if isinstance(found, type) else found
    if it is found:
        _refuse_arguments(arguments, name, file)
    labels = options.labels or _labels(it, name, file)
    if callable(getattr(it, "predict_proba", None)):
        return UserCode(_positive(it, options, name, file), labels, it)
    if callable(getattr(it, "predict", None)):
        return UserCode(it.predict, labels, it)
    if not callable(it):
        methods = [each for each in dir(it) if not each.startswith("_") and callable(getattr(it, each))]
        raise ConfigError(
            f"'{name}' has no method `predict`",
            file=file,
            hint=closest("predict", methods, all_are="its methods are") if methods else "write predict(self, texts)",
        )
    return UserCode(it, labels, it)


def _refuse_arguments(arguments: Mapping[str, Any], name: str, file: Any) -> None:
    if arguments:
        raise ConfigError(f"`arguments` are for a class, and '{name}' is none", file=file)


def _made(kind: type, arguments: Mapping[str, Any], name: str, file: Any) -> Any:
    try:
        return kind(**arguments)
    except Exception as error:
        if isinstance(error, TypeError) and _by_the_call(error):
            hint = f"`arguments` of the model are given to {name}(...)"
            raise ConfigError(f"'{name}' can't be made: {error}", file=file, hint=hint) from error
        failed = kind_and_line(error, Path(file).parent) if file else kind_of(error)
        hint = "see the traceback with --debug"
        raise ConfigError(f"making a '{name}' failed: {failed}", file=file, hint=hint) from error


def _by_the_call(error: TypeError) -> bool:
    """Whether Python refused the arguments, before any line of the class ran."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _labels(it: Any, name: str, file: Any) -> tuple[str, ...]:
    labels = getattr(it, "labels", None)
    if labels is None:
        return ()
    named = (labels,) if isinstance(labels, str) else tuple(labels) if isinstance(labels, Iterable) else ()
    if not named or not all(isinstance(each, str) for each in named) or len(set(named)) < len(named):
        raise ConfigError(f"`labels` of '{name}' is not a list of different names", file=file)
    return named


def _positive(it: Any, options: ClassOptions, name: str, file: Any) -> Callable[[Any], Any]:
    """`predict_proba`, of two classes the positive one."""
    classes = getattr(it, "classes_", None)
    kept = 1
    if classes is not None and not isinstance(classes, list) and len(classes) == 2:
        place = positive_of([str(each) for each in classes], options, file=Path(file or name))
        if place is None:
            raise unclear([str(each) for each in classes], file=file, what=f"'{name}'")
        kept = place

    def ask(rows: Any) -> Any:
        answer = it.predict_proba(rows)
        if isinstance(answer, list) and answer and np.ndim(answer[0]) == 2:  # one table per label
            return np.column_stack([np.asarray(each)[:, -1] for each in answer])
        shape = np.shape(answer)
        return np.asarray(answer)[:, kept] if len(shape) == 2 and shape[1] == 2 else answer

    return ask


def answers(answer: Any, n: int, labels: Sequence[str], source: str) -> Probabilities:
    """What a function returned, one column per label: an array, a list, a frame, or probabilities by label."""
    values = _by_label(answer, labels, source)
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError("the function did not return numbers", model=source) from error
    if values.ndim == 1 and len(labels) == 1:
        values = values[:, None]
    if values.shape != (n, len(labels)):
        raise ModelError(
            f"the function returned an array of shape {list(values.shape)}, not {[n, len(labels)]} (texts, labels)",
            model=source,
            hint="name one label per column with the option `labels`",
        )
    return np.asarray(values)


def names_in(answer: Any) -> tuple[str, ...]:
    """The labels that an answer names by itself: the keys of a dictionary, or the columns of a frame."""
    first = answer[0] if isinstance(answer, list) and answer else answer
    names = list(first) if isinstance(first, Mapping) else list(getattr(answer, "columns", ()))
    return tuple(names) if names and all(isinstance(name, str) for name in names) else ()


def _by_label(answer: Any, labels: Sequence[str], source: str) -> Any:
    if hasattr(answer, "detach"):  # a torch tensor, perhaps on a GPU and with its gradient
        answer = answer.detach().float().cpu()
    names = names_in(answer)
    if not names or (len(names) == len(labels) == 1):
        return next(iter(answer.values())) if isinstance(answer, Mapping) and len(answer) == 1 else _rows(answer)
    missing = [label for label in labels if label not in names]
    if missing:
        if hasattr(answer, "columns") and len(names) == len(labels) == len(missing):
            return answer  # the option `labels` gives the columns other names
        raise ModelError(
            f"the function returned nothing for label '{missing[0]}'",
            model=source,
            hint=f"it named {len(names)} others; name them with the option `labels`",  # which may be notes: not shown
        )
    if isinstance(answer, list):
        return [[row[label] for label in labels] for row in answer]
    return np.column_stack([np.asarray(answer[label], dtype=np.float64) for label in labels])


def _rows(answer: Any) -> Any:
    """A list of dictionaries with one probability each as a list of these."""
    if isinstance(answer, list) and answer and isinstance(answer[0], Mapping):
        return [next(iter(row.values())) for row in answer]
    return answer


class WrittenModel(Model):
    """A function or an object of the user's."""

    def __init__(self, made: UserCode, options: ClassOptions, *, source: str, fingerprint: str, reads: Reads) -> None:
        self.labels = made.labels or ("positive",)
        self.fingerprint = fingerprint
        self.rows_per_call = options.batch_size or self.rows_per_call
        self._made, self._source = made, source
        self._reads, self._known, self._versioned = reads, reads.files(), options.fingerprint is not None
        threshold = made.optional("threshold")
        self.threshold = float(threshold) if isinstance(threshold, float | int) else None
        self.window = _window_in_words(made.optional("window"))
        name = made.optional("explains")
        self.explains = (name if isinstance(name, str) else "own",) if callable(made.optional("explain")) else ()
        self._look()

    def predict(self, inputs: Inputs) -> Probabilities:
        """Call the function, `batch_size` rows at a time."""
        with self._reads, serving(self._reads.folder):
            blocks = [self._call(rows, n) for rows, n in self._rows(inputs)]
        self._look()
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.labels)))

    def _rows(self, inputs: Inputs) -> Iterator[tuple[Any, int]]:
        """What the function is given, part by part, and how many rows each part has."""
        texts, size = inputs.texts, self.rows_per_call
        for k in range(0, len(texts), size):
            yield texts[k : k + size], len(texts[k : k + size])

    def _look(self) -> None:
        """Say where the predictions may depend on something that the fingerprint does not cover."""
        if not self._versioned and self.may_change is None:
            self._reads.look_for_libraries()
            self.may_change = self._reads.blind or (None if self._reads.files() <= self._known else _LATE)

    def _call(self, rows: Any, n: int) -> Probabilities:
        try:
            answer = self._made.predict(rows)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"the function failed or did not return numbers ({kind_of(error)})", model=self._source
            ) from error
        return answers(answer, n, self.labels, self._source)

    def words(self) -> Sequence[str] | None:
        """The vocabulary that the object has, as a method or as a list."""
        words = self._made.optional("words")
        with serving(self._reads.folder):
            words = words() if callable(words) else words
        if words is None:
            return None
        listed = list(words)
        if not all(isinstance(word, str) for word in listed):
            raise ModelError("`words` are not texts", model=self._source)
        return listed

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """What `window` says: so many characters, or a number for each text."""
        whole = super().visible_ends(texts)
        window = self._made.optional("window")
        if isinstance(window, int):
            return np.where(whole > window, window, whole)
        if not callable(window) or not texts:
            return whole
        with serving(self._reads.folder):
            ends = np.asarray(window(list(texts)))
        if ends.shape != whole.shape or not np.issubdtype(ends.dtype, np.integer) or bool((ends < 0).any()):
            raise ModelError("`window` did not return a number of characters for each text", model=self._source)
        return np.where(ends >= whole - 1, whole, ends).astype(np.int64)

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:  # noqa: ARG002  (it has one)
        """What `explain` says, label by label; wrong places are errors that name the case."""
        if not len(asked.row):
            return no_attributions()
        texts = inputs.texts
        ends = np.minimum(self.visible_ends(texts), [len(text) for text in texts])
        parts: list[list[tuple[int, int, float]]] = [[]] * len(asked.row)
        with self._reads, serving(self._reads.folder):
            for label in np.unique(asked.label).tolist():
                pairs = np.flatnonzero(asked.label == label)
                rows = asked.row[pairs].tolist()
                found = self._made.it.explain([texts[row] for row in rows], self.labels[label])
                if not isinstance(found, Sequence) or len(found) != len(rows):
                    raise ModelError("`explain` did not return a list for each text", model=self._source)
                for pair, row, spans in zip(pairs.tolist(), rows, found, strict=True):
                    parts[pair] = self._checked(spans, int(ends[row]), inputs.case_ids[row])
        counts = [len(part) for part in parts]
        start, end, score = np.array([span for part in parts for span in part], dtype=np.float64).reshape(-1, 3).T
        row, label_of = (np.repeat(np.asarray(column, dtype=np.int64), counts) for column in asked)
        return Attributions(row, label_of, start.astype(np.int64), end.astype(np.int64), score)

    def _checked(self, spans: Any, end: int, case: str) -> list[tuple[int, int, float]]:
        """The pieces of one text in order, if they lie in what is read and do not overlap."""
        wrong = ""
        try:
            found = sorted((int(a), int(b), float(score)) for a, b, score in spans)
        except (TypeError, ValueError):
            found, wrong = [], "something that is no (start, end, score)"
        last = 0
        for a, b, score in found:
            if not (0 <= a < b <= end) or not np.isfinite(score):
                wrong = f"the piece ({a}, {b}, {score:g}) of a text of which it reads {end} characters"
            elif a < last:
                wrong = f"pieces that overlap at character {a}"
            last = b
            if wrong:
                break
        if wrong:
            hint = "pieces are (start, end, score) with 0 <= start < end, in characters, without overlap"
            raise ModelError(f"`explain` returned {wrong}", model=self._source, case=case or None, hint=hint)
        return found


class WrittenColumnsModel(WrittenModel):
    """The same for rows of the cohort's table."""

    reads: ClassVar[Literal["text", "case", "image"]] = "case"

    def __init__(self, made: UserCode, options: ClassOptions, *, table: TableRows, **rest: Any) -> None:
        super().__init__(made, options, **rest)
        self._table, self.explains, self.window = table, (), None

    def _rows(self, inputs: Inputs) -> Iterator[tuple[Any, int]]:
        size = self.rows_per_call
        for k in range(0, len(inputs), size):
            part = inputs.take(np.arange(k, min(k + size, len(inputs))))
            yield self._table.frame(part, model=self._source), len(part)


def _window_in_words(window: Any) -> str | None:
    if isinstance(window, str):
        return window
    if isinstance(window, int):
        return f"the first {window:,} characters"
    return "the part of a text that its `window` names" if callable(window) else None
