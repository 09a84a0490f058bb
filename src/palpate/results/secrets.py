"""What may not be written down: secrets among options, and the queries of URLs. One rule for manifest and report."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

HIDDEN = "(hidden)"
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
_SECRET = {"token", "password", "passwd", "passphrase", "secret", "credential", "credentials", "auth", "bearer"}
_SECRET |= {"authorization", "authorisation", "headers", "apikey"}
_KEYS = {"api", "access", "secret", "private", "signing", "subscription"}


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret: `token`, `api_key`, `headers`; not `token_pattern`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words:
        return False
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
    """A source without what a URL may hide in its query or before its host."""
    if not source.startswith(("http:", "https:")):
        return source
    address, mark, _ = source.partition("?")
    return f"{re.sub('//[^/@]*@', '//…@', address)}{'?…' if mark else ''}"
