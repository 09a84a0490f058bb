"""Objects that hold text of notes and do not show it: not when they are printed, logged or part of a traceback."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sized
from typing import Any, TypeVar

C = TypeVar("C", bound=type)


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
