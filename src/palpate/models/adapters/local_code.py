"""Python modules beside a configuration: found last, and only by the user's own code.

The configuration's folder is not on `sys.path`, where a file `altair.py` in it would stand in for a package that
palpate imports later. A finder behind all others looks into it, and answers only while the user's code is imported or
called: inside `serving`, or where a file below the folder is on the stack (a thread or a late import of its own).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FrameType, ModuleType

_serving = threading.local()
_OWN = f"{Path(__file__).parents[2]}/"
"""palpate's own code, which is not the user's where a configuration lies in a checkout of palpate."""


class FolderFinder(MetaPathFinder):
    """Finds the modules of some folders for the code in them."""

    def __init__(self) -> None:
        self.folders: dict[str, None] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """See `MetaPathFinder`."""
        if path is not None:  # inside a package, which finds its modules itself
            return None
        folder = getattr(_serving, "folder", None) or self._asking()
        return PathFinder.find_spec(fullname, [folder], target) if folder else None

    def _asking(self) -> str | None:
        """The folder whose code is on the stack; of folders inside each other, the innermost."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            found = [folder for folder in self.folders if file.startswith(f"{folder}/")]
            if found and not file.startswith(_OWN):
                return max(found, key=len)
            frame = frame.f_back
        return None


_finder = FolderFinder()


@contextmanager
def serving(folder: str) -> Iterator[None]:
    """While the code of this folder is imported or called."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    _finder.folders[folder] = None
    before = getattr(_serving, "folder", None)
    _serving.folder = folder
    try:
        yield
    finally:
        _serving.folder = before


def stay_on_path(folder: str) -> None:
    """In a process that is the model's alone: last on the path, so that processes which it starts find it too."""
    if folder not in sys.path:
        sys.path.append(folder)
