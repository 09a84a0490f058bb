"""What a model is, as a short hash: the bytes of its files and the options that change its answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_BLOCK = 1 << 20


def digest(kind: str, answer_options: Mapping[str, Any], files: Iterable[Path] = ()) -> str:
    """A fingerprint. `kind` holds the version of the adapter, which changes when its answers do.

    Files count with their name and bytes, not with their folder or date, so a copied model is the same model.
    """
    total = hashlib.blake2b(digest_size=16)
    total.update(json.dumps([kind, dict(answer_options)], sort_keys=True, default=str).encode())
    for path in sorted(files, key=lambda path: path.name):
        total.update(json.dumps(path.name).encode() + _bytes_digest(path))
    return f"{kind}-{total.hexdigest()}"


def _bytes_digest(path: Path) -> bytes:
    own = hashlib.blake2b(digest_size=32)
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            own.update(block)
    return own.digest()
