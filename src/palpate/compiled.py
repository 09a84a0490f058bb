"""numba's `njit`, with compiled code on disk that survives a kill, a full disk and several processes at once.

numba writes its index before the code that it points to, and gives the numbers of an older version's files out again.
A process that is killed in between, or two that compile at once, leave an index that points to code of another version
or of other types, which later runs then use without a word. Here code is written first and under a name that is never
used again, so the index points to the right code or to none; what can't be read is compiled again, and where nothing
can be written nothing is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from palpate import __version__

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_SECONDS_BEFORE_REMOVAL = 60.0


def njit(*, cache: bool = False, **options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit`; with `cache`, compiled code is stored as this module's docstring says."""

    def decorated(function: Kernel) -> Kernel:
        dispatcher: Any = numba.njit(**options)(function)
        if cache:
            with suppress(RuntimeError):  # there is no folder in which it could be stored
                dispatcher._cache = StoredCode(function)
        return dispatcher  # type: ignore[no-any-return]

    return decorated


@lru_cache(maxsize=64)
def _newest(folder: Path) -> int:
    """When a folder's code last changed: a kernel may contain those of the files beside it."""
    return max((file.stat().st_mtime_ns for file in folder.glob("*.py")), default=0)


class StoredCode(FunctionCache):  # type: ignore[misc]
    """The compiled code of one function on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = (
            self._impl.locator.get_source_stamp(),
            _newest(Path(function.__code__.co_filename).parent),
            __version__,
        )
        self._cache_file = _StoredFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code for some types; None where there is none that can be used."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whatever unpickling damaged code raises: it is compiled again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for some types, if the disk takes it."""
        with suppress(OSError):
            super().save_overload(sig, data)


class _StoredFiles(IndexDataCacheFile):  # type: ignore[misc]
    """An index, and one file for each combination of types."""

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(uuid4().int >> 64)
        self._save_data(name, data)
        named = {**self._load_index(), key: name}
        self._save_index(named)
        self._remove_all_but(set(named.values()))

    def _load_index(self) -> dict[Any, str]:
        try:
            found: dict[Any, str] = super()._load_index()
        except Exception:  # whatever unpickling a damaged index raises: a new one is begun
            return {}
        return found

    def _remove_all_but(self, named: set[str]) -> None:
        """Remove code that the index does not name, unless another process may just have written it."""
        base, _, _ = self._index_name.rpartition(".nbi")
        recent = time.time() - _SECONDS_BEFORE_REMOVAL
        for file in Path(self._cache_path).glob(f"{base}.*.nbc"):
            with suppress(OSError):
                if file.name not in named and file.stat().st_mtime < recent:
                    file.unlink()
