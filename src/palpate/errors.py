"""Everything that can go wrong, as one tree; the command line turns each error into one sentence and an exit code.

    PalpateError
    ├── InputError          exit 2: a file, a configuration or an option is wrong
    │   ├── CohortError     the table of cases
    │   ├── ConfigError     the YAML file or an option
    │   ├── RunError        a run directory
    │   └── MissingExtra    an optional dependency is not installed
    └── ModelError          exit 3: a model raised an exception, timed out or returned something invalid
        └── ModelDied       the process in which it ran has ended

A failed gate is a result, not an error: the command line exits with 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError


class PalpateError(Exception):
    """Anything that palpate refuses or that fails; `str()` is one sentence that can be shown to a user."""

    exit_code = 2

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(kind: type[PalpateError], arguments: tuple[object, ...], fields: dict[str, object]) -> PalpateError:
    """Unpickle an error, so that one of another process arrives complete."""
    error = kind.__new__(kind, *arguments)
    vars(error).update(fields)
    return error


def _sentence(problem: str, hint: str | None) -> str:
    """What is wrong and what to do; a hint may be a question."""
    end = "" if hint and hint.endswith("?") else "."
    return problem.rstrip(".") + (f"; {hint}{end}" if hint else ".")


class InputError(PalpateError):
    """The input is wrong; names the file, row and column if they are known."""

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.file, self.row, self.column = file, row, column
        place = [
            str(file) if file is not None else "",
            f"row {row}" if row is not None else "",
            f"column '{column}'" if column is not None else "",
        ]
        where = ", ".join(part for part in place if part)
        sentence = f"{where}: {problem}" if where else problem
        super().__init__(_sentence(sentence, hint))


class CohortError(InputError):
    """The table of cases can't be used."""


class ConfigError(InputError):
    """The configuration, or an option of the command line, can't be used."""


class RunError(InputError):
    """A run directory is missing or damaged, or belongs to a different configuration."""


class MissingExtra(InputError):
    """An optional dependency is not installed."""

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(f"{needed_for} needs an optional part of palpate", hint=f"pip install 'palpate[{extra}]'")


class ModelError(PalpateError):
    """A model raised an exception, timed out or returned something that is not a probability."""

    exit_code = 3

    def __init__(self, problem: str, *, model: str, case: str | None = None, hint: str | None = None) -> None:
        self.problem, self.model, self.case, self.hint = problem, model, case, hint
        where = f"model '{model}'" + (f", case '{case}'" if case is not None else "")
        super().__init__(_sentence(f"{where}: {problem}", hint))

    def of(self, model: str, case: str | None = None) -> ModelError:
        """The same problem, under the model's name in the run."""
        return ModelError(self.problem, model=model, case=self.case or case, hint=self.hint)


class ModelDied(ModelError):
    """The process of a model ended; it can be asked no more."""


class FieldProblem(NamedTuple):
    """What pydantic found wrong with one field: the path to it, what is wrong, and whether the field is unknown."""

    path: tuple[str | int, ...]
    problem: str
    unknown: bool

    @property
    def field(self) -> str:
        """The path with dots, or an empty string if the problem concerns several fields together."""
        return ".".join(str(part) for part in self.path)


def first_problem(error: ValidationError) -> FieldProblem:
    """The first thing that pydantic found wrong; its `problem` follows the field's name and a colon in a sentence."""
    first = error.errors()[0]
    # Pydantic's path also names validators that are functions ("function-after[...]"), and says "[key]" for a bad key.
    path = tuple(part for part in first["loc"] if not str(part).startswith(("function-", "[key]")))
    known = {"extra_forbidden": "unknown option", "missing": "required but missing"}
    problem = known.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return FieldProblem(path, problem, first["type"] == "extra_forbidden")
