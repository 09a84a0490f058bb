"""Which of a model's two classes is the positive one: by its name, by the label's, or because the user says so.

The order of the classes says nothing: scikit-learn sorts `case` before `control`, and a model taken the wrong way round
looks like one that is worse than chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from palpate.errors import ConfigError
from palpate.files import parse_value
from palpate.models.options import Options

_POSITIVE = {"1", "true", "yes", "y", "positive", "pos", "present", "+"}
_NEGATIVE = {"0", "-1", "false", "no", "n", "negative", "neg", "absent", "none", "-"}
_NUMBERED = re.compile(r"(?:label|class)[ _-]*(\d+)")
_DENIES = re.compile(r"(?:not|non|no|without)[ _-]*(.+)")


class ClassOptions(Options):
    """Options of a model that may have classes with names."""

    positive: str | int | float | bool | None = None
    """The positive one of two classes, where neither its name nor the label's tells."""


def plain(name: Any) -> str:
    """A class as it is compared: `True`, `1.0`, `LABEL_1` and `class 1` are `true`, `1`, `1` and `1`."""
    word = str(name).strip().casefold()
    numbered = _NUMBERED.fullmatch(word)
    return numbered[1] if numbered else re.sub(r"(?<=\d)\.0+$", "", word)


def positive_of(classes: Sequence[Any], own: ClassOptions, *, file: Path) -> int | None:
    """The place of the positive one of two classes; None: neither of them is known to be."""
    if own.positive is not None:
        return _chosen(classes, own.positive, file)
    words = [plain(name) for name in classes]
    if own.labels is not None and len(own.labels) == 1:
        named = [k for k, word in enumerate(words) if word == plain(own.labels[0])]
        if len(named) == 1:
            return named[0]
    if all(re.fullmatch(r"-?\d+", word) for word in words) and not {"0", "-1"} & set(words):
        return None  # 1 and 2: some code the cases as 1, others as 2
    yes = [word in _POSITIVE for word in words]
    no = [word in _NEGATIVE or _denies(word, other) for word, other in zip(words, reversed(words), strict=True)]
    likely = [k for k in (0, 1) if (yes[k] or no[1 - k]) and not (no[k] or yes[1 - k])]
    return likely[0] if len(likely) == 1 else None


def _denies(word: str, other: str) -> bool:
    """Whether a class is the absence of the other: `not readmitted`."""
    found = _DENIES.fullmatch(word)
    return found is not None and found[1] == other


def _chosen(classes: Sequence[Any], positive: Any, file: Path) -> int:
    words = [plain(name) for name in classes]
    # YAML takes `positive: yes` for true.
    same = (
        {"true", "yes", "y", "on"} if positive is True else {"false", "no", "n", "off"} if positive is False else set()
    )
    found = [k for k, word in enumerate(words) if word == plain(positive)] or [
        k for k, word in enumerate(words) if word in same
    ]
    if len(found) != 1:
        listed = " and ".join(f"'{name}'" for name in classes)
        raise ConfigError(f"`positive` is '{positive}', but the classes are {listed}", file=file)
    return found[0]


def unclear(classes: Sequence[Any], *, file: Path | None = None, what: str = "the model") -> ConfigError:
    """The refusal of classes that cannot be told apart."""
    first, second = classes
    return ConfigError(
        f"{what} has the classes '{first}' and '{second}', and it is not known which is the positive one",
        file=file,
        hint=f"say so with `positive: {_as_yaml(first)}` or `positive: {_as_yaml(second)}`",
    )


def _as_yaml(name: Any) -> str:
    """A class name as it can be pasted into a YAML file: in quotes where it would be read as something else."""
    text = str(name)
    try:
        plain = parse_value(f"positive: {text}") == {"positive": name}
    except ValueError:
        plain = False
    return text if plain else "'" + text.replace("'", "''") + "'"


def is_positive(name: Any, *, file: Path) -> bool:
    """Whether the only class that occurred in training is the positive one."""
    word = plain(name)
    if word not in _POSITIVE | _NEGATIVE:
        problem = f"only the class '{name}' occurred in training, and it is not known whether it is the positive one"
        raise ConfigError(problem, file=file, hint="train it on 0 and 1")
    return word in _POSITIVE
