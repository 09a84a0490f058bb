"""Examples in docstrings (`>>>`) as code blocks: Markdown would take them for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(griffe.Extension):  # type: ignore[misc]
    """Fences every run of lines that begins with `>>>` and ends with an empty line."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for everything that it has read."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with its examples as blocks of Python."""
    return _EXAMPLE.sub(lambda match: f"\n```pycon\n{match[0]}\n```", text)
