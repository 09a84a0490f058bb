"""Everything that can go wrong, as one tree; the command line turns each error into one sentence and an exit code.

    PalpateError
    ├── InputError          exit 2: a file, a configuration or an option is wrong
    │   ├── CohortError     the table of cases
    │   ├── ConfigError     the YAML file or an option
    │   ├── RunError        a run directory
    │   └── MissingExtra    an optional dependency is not installed
    └── ModelError          exit 3: a model raised an exception, timed out or returned something invalid
        ├── ModelDied       the process in which it ran has ended
        └── LimitReached    it may cost no more, or be asked no more

A failed gate is a result, not an error: the command line exits with 1.
"""

from __future__ import annotations

import difflib
import json
import linecache
import re
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class PalpateError(Exception):
    """Anything that palpate refuses or that fails; `str()` is one sentence that can be shown to a user.

    >>> issubclass(InputError, PalpateError)
    True
    """

    exit_code = 2

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, vars(self))


def _rebuilt(kind: type[PalpateError], arguments: tuple[object, ...], fields: dict[str, object]) -> PalpateError:
    """Unpickle an error, so that one of another process arrives complete."""
    error = kind.__new__(kind, *arguments)
    vars(error).update(fields)
    return error


_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,59}")
"""What a class or a function of somebody's code may be called in a message."""
_OPTION = re.compile(r"`(\w+): ?([^`{}\[\]]*)`")
"""An option as a configuration has it."""


def _written(value: str) -> str:
    """A value of a configuration as Python has it."""
    plain = value.strip().strip("\"'")
    return plain if not plain or re.fullmatch(r"-?\d+(?:\.\d+)?", plain) else f'"{plain}"'


_WORD = re.compile(r"[^\s'\"`]+(?:['\"`]+[\w&=%/+-][^\s'\"`]*)*")
"""What is not interrupted by a space; a quote within is one that more follows at once."""
_WEB = re.compile(r"(?i)\bhttps?:")
_LOGIN = re.compile(r"(?i)([a-z][a-z0-9+.-]{0,30}:/{1,2})([^\s/'\"`?#]+)")
"""A scheme, also of a path, which has one slash, and what follows up to the path."""
_PASSWORD = re.compile(
    r"(?i)\b(password|passwd|pwd|sslpassword|secret|token|api[_-]?key|accountkey)(\s{0,50}=\s{0,50})"
    r"((?:'[^']{0,2000}')+|(?:\"[^\"]{0,2000}\")+|\{(?:[^}]|\}\}){0,2000}\}|['\"{]?[^\s;&'\"`]+)"
)


def _without_query(word: re.Match[str]) -> str:
    """A word that is cut where the query of an address begins."""
    web = _WEB.search(word[0])
    at = word[0].find("?", web.end()) + 1 if web else 0
    return f"{word[0][:at]}…" if 0 < at < len(word[0]) else word[0]


def _without_login(found: re.Match[str]) -> str:
    """The name of a user alone is shown, but for the web, where it may be a token."""
    scheme, whole = found.groups()
    login, at, host = whole.rpartition("@")
    secret = at and (":" in login or scheme.lower().rstrip("/").endswith(("http:", "https:")))
    return f"{scheme}…@{host}" if secret else found[0]


def without_logins(text: str) -> str:
    """A text without what addresses hide before their host and behind their path, and connection strings in them.

    Each pattern takes time in proportion to the text, whatever it is.

    >>> without_logins("https://me:pass@host/predict?key=1"), without_logins("host=db password=abc user=me")
    ('https://…@host/predict?…', 'host=db password=… user=me')
    """
    return _PASSWORD.sub(r"\1\2…", _LOGIN.sub(_without_login, _WORD.sub(_without_query, text)))


def _sentence(problem: str, hint: str | None) -> str:
    """What is wrong and what to do, on one line whatever it quotes, without keys; a hint may be a question."""
    said = without_logins(" ".join((problem.rstrip(".") + (f"; {hint}" if hint else "")).splitlines()))
    return said if said.endswith("?") else f"{said}."


class InputError(PalpateError):
    """The input is wrong; names the file, row and column if they are known.

    >>> print(InputError("the cell is empty", file="notes.csv", row=3, column="age", hint="fill it or drop the row"))
    notes.csv, row 3, column 'age': the cell is empty; fill it or drop the row.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | Path | None = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
        at: tuple[str | int, ...] = (),
    ) -> None:
        self.file, self.row, self.column = file, row, column
        self.problem, self.hint = problem, hint
        self.at = at
        """The option that is wrong, as a path into what is being read, for whoever knows its line."""
        place = [
            str(file) if file is not None else "",
            f"row {row}" if row is not None else "",
            f"column '{column}'" if column is not None else "",
        ]
        where = ", ".join(part for part in place if part)
        sentence = f"{where}: {problem}" if where else problem
        super().__init__(_sentence(sentence, hint))

    def as_argument(self) -> InputError:
        """The same for whoever called a function: `positive: yes` is written as `positive="yes"`."""
        if self.hint is None or "`" not in self.hint:
            return self
        hint = _OPTION.sub(lambda found: f"`{found[1]}={_written(found[2])}`", self.hint)
        return type(self)(self.problem, file=self.file, row=self.row, column=self.column, hint=hint, at=self.at)


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
    """A model raised an exception, timed out or returned something that is not a probability.

    >>> print(ModelError("the function did not return numbers", model="mine"))
    model 'mine': the function did not return numbers.
    """

    exit_code = 3

    def __init__(self, problem: str, *, model: str, case: str | None = None, hint: str | None = None) -> None:
        self.problem, self.model, self.case, self.hint = problem, model, case, hint
        where = f"model '{model}'" + (f", case '{case}'" if case is not None else "")
        super().__init__(_sentence(f"{where}: {problem}", hint))

    def of(self, model: str, case: str | None = None) -> ModelError:
        """The same problem, under the model's name in the run."""
        return type(self)(self.problem, model=model, case=self.case or case, hint=self.hint)


class ModelDied(ModelError):
    """The process of a model ended; it can be asked no more."""


class LimitReached(ModelError):
    """The run has spent on a model what it may; with a higher limit it can be resumed."""

    def __init__(self, problem: str, *, limit: str = "", **about: Any) -> None:
        super().__init__(problem, **about)
        self.limit = limit


def closest(word: str, known: Iterable[str], *, all_are: str = "the options are") -> str:
    """What to do about an unknown name: take the one that it resembles, or one of all."""
    names = sorted(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean `{near[0]}`?" if near else f"{all_are}: {', '.join(names)}"


class Elsewhere(Exception):
    """The traceback of another process, as the cause of an error in this one: without what its errors say, and with."""

    def __init__(self, quiet: str, full: str) -> None:
        super().__init__(quiet)
        self.full = full


def traceback_of(error: BaseException, *, with_notes: bool = False) -> str:
    """Where an error comes from, with the errors that led to it.

    What an error of palpate's says is shown; what any other says only `with_notes`, because it may quote the text that
    a model was given.
    """
    if with_notes:
        full = [each.full for each in _chain(error) if isinstance(each, Elsewhere)]
        return "".join(traceback.format_exception(error)) + "".join(f"\n{text}" for text in full)
    parts = []
    for each in _chain(error):
        frames = "".join(_frame(*at) for at in traceback.walk_tb(each.__traceback__))
        name = kind_of(each, with_module=True)
        own = isinstance(each, PalpateError | Elsewhere)
        said = f"{name}: {each}" if own else f"{name} (what it says is hidden)"
        parts.append(f"Traceback (most recent call last):\n{frames}{said}\n")
    return "\nwhich led to:\n\n".join(parts)


def _frame(frame: FrameType, line: int) -> str:
    """A line of code that a file has; code may name itself, and the file that it claims to be from, after a note."""
    code = frame.f_code
    name = code.co_name if _SAFE_NAME.fullmatch(code.co_name.strip("<>")) else "code of its own"
    if not Path(code.co_filename).is_file():
        return f"  in {name}\n"
    shown = linecache.getline(code.co_filename, line).strip()
    return f'  File "{code.co_filename}", line {line}, in {name}\n' + (f"    {shown}\n" if shown else "")


def kind_of(error: BaseException, *, with_module: bool = False) -> str:
    """The name of an error's class, or of the first above it that a module defines.

    A class that was made on the way may be named after a note.

    >>> kind_of(ValueError()), kind_of(type("Mr. Lee", (KeyError,), {})()), kind_of(type("Lee", (Exception,), {})())
    ('ValueError', 'KeyError', 'an error of its own')
    """
    for kind in type.__dict__["__mro__"].__get__(type(error)):
        module, name = (type.__dict__[each].__get__(kind) for each in ("__module__", "__qualname__"))
        found: Any = sys.modules.get(module) if isinstance(module, str) else None
        for part in str(name).split("."):
            found = vars(found).get(part) if isinstance(found, ModuleType | type) else None
        if found is kind and _SAFE_NAME.fullmatch(name):
            if kind in (Exception, BaseException) and kind is not type(error):
                break
            return f"{module}.{name}" if with_module and module != "builtins" else str(name).rpartition(".")[2]
    return "an error of its own"


def kind_and_line(error: BaseException, folder: Path) -> str:
    """An error of code in `folder` without what it says, which may quote a note: `ValueError (risk.py, line 12)`."""
    frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError):
        frames.append((error.filename or "", error.lineno))
    files = ((Path(file), line) for file, line in frames)
    ours = [(file.name, line) for file, line in files if file.parent == folder.absolute() and file.is_file()]
    return f"{kind_of(error)} ({ours[-1][0]}, line {ours[-1][1]})" if ours else kind_of(error)


def _chain(error: BaseException) -> list[BaseException]:
    """The errors that led to this one, the first one first; those of a group are left out."""
    found: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in found:
        found.insert(0, at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return found


class FieldProblem(NamedTuple):
    """What pydantic found wrong with one field: the path to it, what is wrong, and whether the field is unknown."""

    path: tuple[str | int, ...]
    problem: str
    unknown: bool

    @property
    def field(self) -> str:
        """The path with dots, or an empty string if the problem concerns several fields together."""
        return ".".join(str(part) for part in self.path)


_WORDS = {
    "extra_forbidden": "unknown option",
    "missing": "required but missing",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "too_short": "must have at least {min_length}",
    "too_long": "must have at most {max_length}",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
}
"""What pydantic's types of errors are called here; the numbers are filled in from the error."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "a number",
    "bool": "true or false",
    "string": "a text",
    "path": "the name of a file",
    "dict": "a mapping of `key: value` lines",
    "mapping": "a mapping of `key: value` lines",
    "model": "a mapping of `key: value` lines",
    "dataclass": "a mapping of `key: value` lines",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen": "a list",
    "none": "empty",
    "date": "a date",
    "datetime": "a date with a time",
}
"""By the first word of a type of error: `int_parsing`, `dict_type`."""
_INNER = ("function-", "[key]", "literal[", "tuple[", "list[", "dict[", "set[", "frozenset[", "constrained-", "lax-or-")
_TYPES = {"int", "float", "str", "bool", "none", "int_str", "path"}


def first_problem(error: ValidationError) -> FieldProblem:
    """The first thing that pydantic found wrong; its `problem` follows the field's name and a colon in a sentence.

    Where a field may be one of several things, all of them are named.
    """
    problems = error.errors()
    first = problems[0]
    path = _path(first["loc"])
    same = [each for each in problems if _path(each["loc"]) == path]
    said = list(dict.fromkeys(_words(each) for each in same))
    choices = [words for words in said if words.startswith("must be ")]
    problem = " or ".join([choices[0], *(words.removeprefix("must be ") for words in choices[1:])]) if choices else ""
    return FieldProblem(path, problem or said[0], first["type"] == "extra_forbidden")


def _path(places: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Where the problem is, without the names that pydantic gives to types and to validators that are functions."""
    return tuple(
        part for k, part in enumerate(places) if not str(part).startswith(_INNER) and (k == 0 or part not in _TYPES)
    )


def _words(problem: ErrorDetails) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    if problem["loc"][-1:] == ("[key]",) and kind == "string_type":
        given = {True: "yes, on or true", False: "no, off or false"}.get(problem["input"], str(problem["input"]))
        return f"a name must be a text, and YAML reads {given} as something else: write it in quotes"
    if kind in ("too_short", "too_long"):
        n = context.get("min_length", context.get("max_length"))
        return "must not be empty" if n == 1 and kind == "too_short" else f"{_WORDS[kind].format(**context)} items"
    if kind in _WORDS:
        return _WORDS[kind].format(**context)
    named = _KINDS.get(kind.partition("_")[0])
    if named is not None and kind != "none_required":
        return f"must be {named}"
    return problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")


# --- JSON that others wrote -----------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; whatever is wrong with it is a ValueError, also lists nested a hundred thousand times.

    `json.loads` itself ends with a RecursionError there.

    >>> parse_json('{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None
