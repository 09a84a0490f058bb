"""What a test asks of a prediction beyond two labels: one of several classes, several labels at once, or a function.

labels: {classes: [pneumonia, edema, neither]}     the named class must have the highest probability
labels: {each: [pneumonia, edema, effusion]}       every label is decided for itself
expect: rules.py:at_least_one                      a test's own function says whether a case passes
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from palpate.errors import ConfigError
from palpate.privacy import hides


@dataclass(frozen=True)
class RightAnswer:
    """The right answer about several labels: the one that must be highest, or those that are there and that are not.

    A label that is in none of them does not count.
    """

    highest: str | None = None
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The answer in words."""
        if self.highest is not None:
            return self.highest
        return ", ".join([*self.present, *(f"no {label}" for label in self.absent)])

    @property
    def first(self) -> str:
        """The label whose probability a DIR test moves and that is shown of a failing sentence."""
        return self.highest or (*self.present, *self.absent)[0]


@hides("text", "changed")
class ExpectedCase(NamedTuple):
    """What an expectation function is given: a case with a model's probabilities by label."""

    text: str
    before: Mapping[str, float]
    """The probabilities of the text, or of the first text of a pair."""
    changed: str
    """The second text of a pair, or empty."""
    after: Mapping[str, float] | None
    """The probabilities of the second text of a pair."""
    slots: Mapping[str, str]
    template: str


ExpectFunction = Callable[[ExpectedCase], bool]


@dataclass(frozen=True)
class Expectation:
    """A function that says whether a case passes: one of Python, or `name` in a file, which is read when it is used."""

    name: str
    file: Path | None = None
    function: ExpectFunction | None = None

    def resolve(self) -> ExpectFunction:
        """The function itself."""
        if self.function is not None:
            return self.function
        file = self.file or Path()
        found = importlib.util.spec_from_file_location(f"palpate_expectation_{file.stem}", file)
        if found is None or found.loader is None or not file.is_file():
            raise ConfigError(f"the file of expectation '{self.name}' is not found", file=file, hint="check the path")
        module = importlib.util.module_from_spec(found)
        try:
            found.loader.exec_module(module)
        except Exception as error:
            problem = f"the file of expectation '{self.name}' can't be run ({type(error).__name__}: {error})"
            raise ConfigError(problem, file=file) from error
        function = getattr(module, self.name, None)
        if not callable(function):
            raise ConfigError(f"there is no function '{self.name}'", file=file, hint="check its name")
        checked: ExpectFunction = function
        return checked

    def fingerprint(self) -> str:
        """Changes when the file does."""
        if self.file is None or not self.file.is_file():
            return self.name
        return f"{self.name} {hashlib.blake2b(self.file.read_bytes(), digest_size=16).hexdigest()}"
