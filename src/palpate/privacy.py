"""What is not shown: text of notes in objects that are printed or logged or in a traceback, and secrets in options.

And what a spreadsheet must not compute: a text that would be a formula.
"""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, TypeVar

from palpate.errors import without_logins

C = TypeVar("C", bound=type)
HIDDEN = "(hidden)"
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_WEB = re.compile(r"(?i)^(https?:/{0,2})([^/#]*@)?")
_SECRET = {"token", "password", "passwd", "passphrase", "secret", "credential", "credentials", "auth", "bearer"}
_SECRET |= {"authorization", "authorisation", "headers", "apikey", "pwd", "cookie", "cookies", "dsn"}
_KEYS = {"api", "access", "secret", "private", "signing", "subscription"}


def hides(*fields: str) -> Callable[[C], C]:
    """Of a named tuple, a dataclass or a pydantic model: these fields are shown by their size alone.

    >>> from typing import NamedTuple
    >>> @hides("text")
    ... class Note(NamedTuple):
    ...     case: str
    ...     text: str
    >>> Note("a1", "He sleeps.")
    Note(case='a1', text=<10 characters>)
    """

    def decorate(cls: C) -> C:
        def shown(self: Any) -> str:
            parts = (
                f"{name}={_size(getattr(self, name)) if name in fields else repr(getattr(self, name))}"
                for name in _fields(self)
            )
            return f"{type(self).__qualname__}({', '.join(parts)})"

        cls.__repr__ = cls.__str__ = shown  # type: ignore[assignment,method-assign]
        return cls

    return decorate


def _fields(value: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(value):
        return tuple(field.name for field in dataclasses.fields(value) if field.repr)
    return tuple(getattr(type(value), "_fields", ()) or getattr(type(value), "model_fields", ()))


def _size(value: object) -> str:
    if isinstance(value, str):
        return f"<{len(value)} characters>"
    return f"<{len(value)} not shown>" if isinstance(value, Sized) else ("None" if value is None else "<not shown>")


# --- secrets -------------------------------------------------------------------------------------------------


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret: `token`, `api_key`, `headers`; not `token_pattern`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
    if words[-2:] == ["connection", "string"]:
        return True
    return words[-1] in _SECRET or (words[-1] in ("key", "keys") and bool(_KEYS & set(words)))


def without_secrets(value: Any, name: str = "") -> Any:
    """A configuration that may be written down, in types that JSON and YAML know."""
    if isinstance(value, Mapping):
        if is_secret(name):
            return {str(key): HIDDEN for key in value}
        return {str(key): without_secrets(part, str(key)) for key, part in value.items()}
    if is_secret(name) and value is not None and not isinstance(value, bool):
        return HIDDEN
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [without_secrets(part, name) for part in value]
    if isinstance(value, str):
        return without_query(value)
    return value if isinstance(value, int | float | bool | None) else str(value)


def without_query(source: str) -> str:
    """A source without what a URL may hide in its query or before its host, and without passwords.

    Where all of it is an address of the web, its query is the rest, whatever signs it has.
    """
    address, mark, _ = source.partition("?")
    if found := _WEB.match(address):
        login = "…@" if found[2] else ""
        source = f"{found[1]}{login}{address[found.end() :]}{'?…' if mark else ''}"
    return without_logins(source)


# --- cells of spreadsheets ---------------------------------------------------------------------------------------

_COMPUTED = frozenset("=+-@\t\r\n")
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and signs without a stroke."""
_SIGNED = re.compile(r"[+-]\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?%?")


def as_cell(value: object) -> object:
    """A cell that a spreadsheet shows instead of computing it: a text that would be a formula gets an apostrophe.

    >>> as_cell("=cmd|' /C calc'!A0"), as_cell("-4.5"), as_cell("- cough"), as_cell(0.5)
    ("'=cmd|' /C calc'!A0", '-4.5', "'- cough", 0.5)
    """
    return f"'{value}" if isinstance(value, str) and _formula(value) else value


def from_cell(text: str) -> str:
    """What `as_cell` was given."""
    return text[1:] if text.startswith("'") and _formula(text) else text


def _formula(text: str) -> bool:
    """Whether a spreadsheet would compute a text, apostrophes before it aside; a number may start with a sign.

    Some drop what nobody sees (marks of direction, joiners, controls), so the first character that is seen decides.
    """
    bare = text.lstrip("'")
    for sign in bare:
        if sign.isalnum() and sign not in _FILLERS:
            return False
        if unicodedata.normalize("NFKC", sign)[:1] in _COMPUTED:  # also a wide or a small equals sign
            return _SIGNED.fullmatch(bare) is None
        if unicodedata.category(sign)[0] not in "CMZ" and sign not in _FILLERS:
            return False
    return False
