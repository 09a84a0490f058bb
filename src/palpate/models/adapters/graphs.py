"""What an ONNX file says without being run: the files of its weights, its classes and labels, and its output.

Files and classes are read from its bytes, as protobuf writes them: the package `onnx` is not needed to use a model.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError, parse_json


def external_data(path: Path) -> list[Path]:
    """The files in which the graph keeps its weights: each is the value of a key `location`, as protobuf writes it."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        places = [found.end() for found in re.finditer(rb"\x0a\x08location\x12", data)]
        names = {_text_at(data, place) for place in places}
    return [path.parent / name for name in sorted(names) if name and (path.parent / name).is_file()]


def classes_in(path: Path, n_columns: int) -> tuple[str, ...] | None:
    """The classes that a classifier of the graph lists, as many as there are columns."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for found in re.finditer(rb"\x0a.classlabels_(?:strings|int64s|ints)", data):
            names: list[str] = []
            place = found.end()
            while data[place : place + 1] in (b"\x4a", b"\x40") and len(names) < n_columns:
                texts = data[place] == 0x4A
                names.append(_text_at(data, place + 1) if texts else str(data[place + 1]))
                place += 2 + (data[place + 1] if texts else 0)
            if len(names) == n_columns:
                return tuple(names)
    return None


def _text_at(data: mmap.mmap, place: int) -> str:
    """A text with its length before it."""
    size, shift = 0, 0
    while data[place] & 0x80:
        size, shift, place = size | (data[place] & 0x7F) << shift, shift + 7, place + 1
    size |= data[place] << shift
    return data[place + 1 : place + 1 + size].decode("utf-8", "replace") if size < 4096 else ""


def listed_labels(text: str | None) -> tuple[str, ...] | None:
    """The labels in a file's metadata, a JSON list."""
    try:
        names = parse_json(text) if text else None
    except ValueError:
        return None
    return tuple(map(str, names)) if isinstance(names, list) else None


def chosen_output(outputs: Sequence[Any], asked: str | None, path: Path) -> str:
    """The output with the probabilities: the one asked for, or the only one that may be it."""
    listed = ", ".join(f"{node.name}: {node.type}" for node in outputs)
    if asked is not None:
        if asked not in {node.name for node in outputs}:
            raise ConfigError(f"the graph has no output '{asked}'", file=path, hint=f"its outputs are {listed}")
        return asked
    numbers = [node for node in outputs if node.type.startswith(("seq(", "tensor(float", "tensor(double"))]
    likely = [node for node in numbers if "prob" in node.name.lower()] or [
        node for node in numbers if node.name == "logits"
    ]
    chosen = likely or numbers
    if len(chosen) != 1:
        raise ConfigError(
            f"it is not clear which output holds the probabilities: {listed}",
            file=path,
            hint="name it with the option `output`",
        )
    return str(chosen[0].name)
