"""`onnx:FILE`: a classifier in an ONNX file, run by onnxruntime on the CPU, or where its option `providers` says.

Two kinds of graph are supported:

- one input of strings: a scikit-learn pipeline with its vectorizer, as skl2onnx writes it;
- `input_ids` (and `attention_mask`, `token_type_ids`): an exported transformer; the option `tokenizer` names the
  folder of its tokenizer.

The output used is the one with probabilities, as a tensor or as a ZipMap; the option `output` names another one. An
output called `logits` goes through a softmax (one column: a sigmoid), unless `activation` says otherwise. Two columns
that sum to one are a two-class model, of which the positive class is kept: by the names of the classes, or by the
option `positive`; where they have no names, the second one. Labels come from the option `labels`, else from the ZipMap,
else from the file's metadata (`labels`, a JSON list), else from the classes that the graph lists.

The fingerprint covers the files in which a graph keeps its weights ("external data"), whatever their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, MissingExtra
from palpate.models import Model, Probabilities
from palpate.models.adapters.graphs import chosen_output, classes_in, external_data, listed_labels
from palpate.models.classes import ClassOptions, positive_of, unclear
from palpate.models.networks import probabilities_of
from palpate.models.options import checked_by, digest, existing, parse_options
from palpate.models.text import attention_mask, batches_within, lengths_of, padded
from palpate.models.text.checkpoints import load_tokenizer
from palpate.models.text.windows import TextWindows, clean, text_windows

VERSION = "onnx-2"

_CHARACTERS_PER_RUN = 1_000_000
"""A graph builds a table of all words of a run, as wide as its longest text."""
_ROUNDING = 1e-6
"""Single precision may give 1.0000001."""
_TOKEN_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}


class OnnxOptions(ClassOptions):
    """Options of an ONNX file."""

    output: str | None = None
    """The output with the probabilities or logits; default: found by type and name."""
    activation: Literal["none", "softmax", "sigmoid"] | None = None
    """How the output becomes probabilities; default: as it is, unless it is called `logits`."""
    tokenizer: str | None = None
    """Graphs that take `input_ids`: the folder of the tokenizer."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Graphs that take `input_ids`: how many tokens are read; default: as many as tokenizer and graph allow."""
    batch_tokens: int = Field(default=4096, ge=1)
    """Graphs that take `input_ids`: tokens in one run, padding included."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of onnxruntime; default: its own choice."""
    providers: tuple[str, ...] = Field(default=("CPUExecutionProvider",), min_length=1)
    """Execution providers of onnxruntime in order of preference, such as CUDAExecutionProvider or CUDA for short."""


class _OutputColumns(NamedTuple):
    """What an output contains: one column per class or label, and their names if it has any."""

    values: NDArray[np.float64]
    names: tuple[str, ...] | None


class _Layout(NamedTuple):
    """Which columns are kept, their labels, and two classes of which it is not known which is the positive one."""

    kept: list[int]
    labels: tuple[str, ...]
    classes: tuple[str, ...] = ()


class _Graph:
    """A session, and the output to read."""

    def __init__(self, session: Any, options: OnnxOptions, path: Path) -> None:
        self._session = session
        self.inputs = {node.name: node for node in session.get_inputs()}
        self._output = chosen_output(session.get_outputs(), options.output, path)
        self._activation = options.activation
        self.multi_label = any(
            node.name != self._output and not node.type.startswith("tensor(float") and len(node.shape) == 2
            for node in session.get_outputs()
        )
        """The graph also gives a table of predicted labels, so each label has its own column."""
        self.names_classes = any(node.type == "tensor(string)" for node in session.get_outputs())
        """The graph also gives predicted classes as texts, so its classes have names."""

    def run(self, feed: Mapping[str, Any]) -> _OutputColumns:
        """The probabilities of a batch."""
        columns = _columns(self._session.run([self._output], dict(feed))[0])
        activation = self._activation
        if activation is None:
            by_width: Literal["softmax", "sigmoid"] = "softmax" if columns.values.shape[1] > 1 else "sigmoid"
            activation = by_width if self._output == "logits" else "none"
        if activation == "none":
            return columns
        p = probabilities_of(columns.values, activation)
        if activation == "softmax" and columns.values.shape[1] == 2:
            p = np.column_stack([probabilities_of(columns.values[:, ::-1], activation), p])
        return columns._replace(values=p)

    def fixed(self, name: str, axis: int) -> int | None:
        """The size of an input along an axis, if the graph fixes it."""
        shape = self.inputs[name].shape
        return shape[axis] if axis < len(shape) and isinstance(shape[axis], int) else None


class _StringReader:
    """Feeds texts as they are."""

    window = None

    def __init__(self, graph: _Graph, path: Path) -> None:
        (self._name,) = graph.inputs
        self._flat = len(graph.inputs[self._name].shape) == 1
        self._graph, self._max_rows = graph, _rows_of_a_run(graph, self._name, path)

    def run(self, texts: Sequence[str]) -> _OutputColumns:
        lengths = np.fromiter((len(text) for text in texts), dtype=np.int64, count=len(texts))
        strings = np.array([clean(text) for text in texts], dtype=object)
        strings = strings if self._flat else strings.reshape(-1, 1)
        batches = list(batches_within(_CHARACTERS_PER_RUN, lengths, max_rows=self._max_rows))
        return _in_order(batches, [self._graph.run({self._name: strings[rows]}) for rows in batches])

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.fromiter((len(text) + 1 for text in texts), dtype=np.int64, count=len(texts))


class _TokenReader:
    """Feeds texts as token ids."""

    def __init__(self, graph: _Graph, windows: TextWindows, options: OnnxOptions, path: Path) -> None:
        self._graph, self._windows, self._budget = graph, windows, options.batch_tokens
        self._max_rows = _rows_of_a_run(graph, "input_ids", path)
        self._width = graph.fixed("input_ids", 1)
        self.window = windows.reads

    def run(self, texts: Sequence[str]) -> _OutputColumns:
        ids = self._windows.encode(texts).ids
        batches = list(batches_within(self._budget, lengths_of(ids), max_rows=self._max_rows))
        return _in_order(batches, [self._graph.run(self._feed([ids[row] for row in rows])) for rows in batches])

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return self._windows.visible_ends(texts)

    def _feed(self, ids: list[list[int]]) -> dict[str, NDArray[np.int64]]:
        lengths = lengths_of(ids)
        feed = {
            "input_ids": padded(ids, self._windows.tokenizer.pad_token_id or 0),
            "attention_mask": attention_mask(lengths),
            "token_type_ids": padded([self._windows.frame.types(int(n)) for n in lengths], 0),
        }
        missing = max((self._width or 0) - int(lengths.max()), 0)
        return {
            name: np.pad(feed[name], ((0, 0), (0, missing))).astype(
                np.int32 if node.type == "tensor(int32)" else np.int64
            )
            for name, node in self._graph.inputs.items()
        }


class OnnxModel(Model):
    """A classifier in an ONNX graph."""

    def __init__(self, reader: _StringReader | _TokenReader, layout: _Layout, own: OnnxOptions, fingerprint: str):
        self.labels, self.classes, self.fingerprint = layout.labels, layout.classes, fingerprint
        self.window = reader.window
        self.rows_per_call = own.batch_size or type(self).rows_per_call
        self._reader, self._layout = reader, layout
        self.runs_on = ", ".join(own.providers)

    def predict(self, inputs: Inputs) -> Probabilities:
        """Probabilities of the texts, in the order of the rows."""
        if len(inputs) == 0:
            return np.zeros((0, len(self.labels)))
        values = self._reader.run(inputs.texts).values[:, self._layout.kept]
        inside = np.clip(values, 0.0, 1.0)
        return np.where(np.abs(values - inside) <= _ROUNDING, inside, values)

    def visible_ends(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """All of it, unless tokens are cut off."""
        return self._reader.visible_ends(texts)


def check(target: str, options: Mapping[str, Any], *, folder: Path) -> OnnxOptions:
    """The options, if they are right and the files exist."""
    own = parse_options(OnnxOptions, f"onnx:{target}", options)
    for name in (target, *([own.tokenizer] if own.tokenizer is not None else [])):
        existing(name, folder)
    return own.model_copy(update={"providers": _providers(own.providers, f"onnx:{target}")})


def _providers(asked: Sequence[str], source: str) -> tuple[str, ...]:
    """The providers by their full names, if this onnxruntime has them."""
    if set(asked) == {"CPUExecutionProvider"}:
        return tuple(asked)
    here = {name.casefold(): name for name in _runtime(source).get_available_providers()}
    found = [here.get(name.casefold()) or here.get(f"{name}ExecutionProvider".casefold()) for name in asked]
    if None in found:
        raise ConfigError(
            f"option 'providers' of {source}: the installed onnxruntime has no '{asked[found.index(None)]}'",
            hint=f"it has {', '.join(sorted(here.values()))}; GPUs need another build of it (onnxruntime-gpu)",
        )
    return tuple(name for name in found if name is not None)


def _runtime(source: str) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("onnx", needed_for=f"the model {source}") from None
    return onnxruntime


@checked_by(check)
def load(target: str, options: Mapping[str, Any], *, folder: Path) -> Model:
    """The classifier in a file; it is run once on an empty text to see what it returns."""
    source = f"onnx:{target}"
    own, path = check(target, options, folder=folder), existing(target, folder)
    tokenizer = existing(own.tokenizer, folder) if own.tokenizer is not None else None
    session = _session(path, own)
    graph = _Graph(session, own, path)
    reader = _reader(graph, own, path, tokenizer, source)
    layout = _layout(reader.run([""]), graph, session.get_modelmeta().custom_metadata_map, own, path)
    files = [path, *external_data(path)]
    files += [file for file in tokenizer.glob("*.*") if file.suffix in (".json", ".txt", ".model")] if tokenizer else []
    answer_options = {
        "output": own.output,
        "activation": own.activation,
        "max_tokens": own.max_tokens,
        "labels": own.labels,
        "positive": own.positive,
        "fingerprint": own.fingerprint,
    }
    return OnnxModel(reader, layout, own, digest(VERSION, answer_options, files))


def _session(path: Path, own: OnnxOptions) -> Any:
    onnxruntime = _runtime(path.name)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    settings.use_deterministic_compute = True
    settings.intra_op_num_threads = own.threads or 0
    try:
        session = onnxruntime.InferenceSession(str(path), settings, providers=list(own.providers))
    except Exception as error:
        locale = (
            "install the locale that the graph names, or export it with another" if "locale" in str(error) else None
        )
        problem = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"onnxruntime can't load the file: {problem}", file=path, hint=locale) from error
    if own.providers[0] not in session.get_providers():  # it falls back to others without an error
        raise ConfigError(
            f"onnxruntime could not start {own.providers[0]} and would use {session.get_providers()[0]}",
            file=path,
            hint="its drivers or libraries are missing; name another as `providers`",
        )
    return session


def _reader(
    graph: _Graph, own: OnnxOptions, path: Path, tokenizer: Path | None, source: str
) -> _StringReader | _TokenReader:
    names = set(graph.inputs)
    if len(names) == 1 and next(iter(graph.inputs.values())).type == "tensor(string)":
        return _StringReader(graph, path)
    if "input_ids" not in names or names - _TOKEN_INPUTS:
        listed = ", ".join(f"{node.name}: {node.type}" for node in graph.inputs.values())
        raise ConfigError(f"the inputs are {listed}, which is neither one input of strings nor input_ids", file=path)
    if tokenizer is None:
        hint = "set the option `tokenizer` to the folder of its tokenizer"
        raise ConfigError("this graph takes input_ids", file=path, hint=hint)
    try:
        import transformers  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", needed_for=f"the tokenizer of {source}") from None
    windows = text_windows(
        load_tokenizer(tokenizer, trust=False),
        long="truncate",
        max_tokens=own.max_tokens,
        limit=graph.fixed("input_ids", 1),
        stride=None,
        source=source,
    )
    return _TokenReader(graph, windows, own, path)


def _rows_of_a_run(graph: _Graph, name: str, path: Path) -> int | None:
    fixed = graph.fixed(name, 0)
    if fixed not in (None, 1):
        raise ConfigError(
            f"the graph takes exactly {fixed} rows at a time", file=path, hint="export it with a free batch axis"
        )
    return fixed


def _columns(output: Any) -> _OutputColumns:
    """A tensor, the dictionaries of a ZipMap, or a pair of columns for each label."""
    if isinstance(output, list) and output and isinstance(output[0], dict):
        keys = list(output[0])
        values = np.array([[row[key] for key in keys] for row in output], dtype=np.float64)
        return _OutputColumns(values, tuple(map(str, keys)))
    if isinstance(output, list):
        return _OutputColumns(np.column_stack([table[:, -1] for table in output]).astype(np.float64), None)
    values = np.asarray(output, dtype=np.float64)
    return _OutputColumns(values.reshape(len(values), -1), None)


def _in_order(batches: Sequence[NDArray[np.int64]], parts: Sequence[_OutputColumns]) -> _OutputColumns:
    values = np.concatenate([part.values for part in parts])
    back = np.empty_like(values)
    back[np.concatenate(batches)] = values
    return _OutputColumns(back, parts[0].names)


def _layout(probe: _OutputColumns, graph: _Graph, metadata: Mapping[str, str], own: OnnxOptions, path: Path) -> _Layout:
    """Which columns are labels, from the graph's metadata and its output for an empty text."""
    n_columns = probe.values.shape[1]
    listed = listed_labels(metadata.get("labels"))
    two_classes = n_columns == 2 and not graph.multi_label and abs(probe.values.sum() - 1) < 1e-3
    classes = probe.names or (classes_in(path, n_columns) if two_classes else None)
    names_both = own.labels is not None and len(own.labels) == 2 and classes in (None, own.labels)
    if two_classes and not names_both:
        return _of_two_classes(classes, listed, graph, own, path)
    names = own.labels or classes or listed
    names = names or (("positive",) if n_columns == 1 else tuple(map(str, range(n_columns))))
    if len(names) != n_columns:
        raise _wrong_number(names, n_columns, path)
    return _Layout(list(range(n_columns)), names)


def _of_two_classes(
    classes: tuple[str, ...] | None, listed: tuple[str, ...] | None, graph: _Graph, own: OnnxOptions, path: Path
) -> _Layout:
    """The positive one of two classes, or both where it is not known which one that is."""
    if own.labels is not None and len(own.labels) > 1:
        raise _wrong_number(own.labels, 1, path)
    both = listed if listed is not None and len(listed) == 2 else None
    if classes is both is None and graph.names_classes and own.positive is None:
        problem = "the classes have names that the graph does not list"
        raise ConfigError(problem, file=path, hint="say with `positive: 0` or `positive: 1` which column is positive")
    names = both or classes or ("0", "1")
    kept = positive_of(names, own, file=path)
    if kept is None and classes is not None:
        kept = positive_of(classes, own, file=path)
    if kept is None:
        if own.labels is not None or (listed is not None and both is None):
            raise unclear(names, file=path)
        return _Layout([0, 1], names, names)
    label = listed if listed is not None and both is None else (names[kept],) if both or classes else ("positive",)
    return _Layout([kept], own.labels or label)


def _wrong_number(names: Sequence[str], n_labels: int, path: Path) -> ConfigError:
    problem = f"there are {len(names)} names for {n_labels} labels"
    return ConfigError(problem, file=path, hint="set the option `labels`")
