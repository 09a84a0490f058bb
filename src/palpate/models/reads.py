"""What a model's own code reads, so that its fingerprint can cover it.

Python reports every file that it opens to audit hooks (PEP 578), so weights are found whatever the code does with
them. A file counts where it lies below the configuration's folder, or anywhere else except in Python's own folders, the
system's and the temporary ones; local modules count by their source. Libraries that open files without Python are not
seen (`NATIVE`), nor is what another program or another machine answers: then the fingerprint cannot vouch for the
predictions, and `Reads.blind` says why.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

NATIVE = {
    *("torch", "safetensors", "tokenizers", "sentencepiece", "onnxruntime", "tensorflow", "h5py", "openvino"),
    *("xgboost", "lightgbm", "catboost", "llama_cpp", "ctranslate2", "fasttext", "vllm", "polars", "pyarrow", "duckdb"),
    "rpy2",
}
"""Libraries that open files by themselves."""
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/bin", "/sbin", "/var", "/run")
_WRITES = os.O_WRONLY | os.O_TRUNC
_recording: list[Reads] = []


class Reads:
    """Records, while it is entered, which files this process opens for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self._opened: dict[str, None] = {}
        self._before = set(sys.modules)
        self.blind: str | None = None
        """Why files alone do not tell what the predictions depend on; None: they do."""

    def __enter__(self) -> Reads:
        _install()
        _recording.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _recording.remove(self)

    def files(self) -> set[Path]:
        """The local files read so far, and the sources of the local modules."""
        opened = {Path(name) for name in list(self._opened) if self._is_local(name)}
        return {path for path in opened | set(self._modules().values()) if path.is_file()}

    def look_for_libraries(self) -> None:
        """Set `blind` where the model's code came with a library that opens files by itself."""
        found = {name.partition(".")[0] for name in set(sys.modules) - self._before}
        for module in self._modules():
            for value in list(vars(module).values()):
                name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                found.add(str(name).partition(".")[0])
        seen = sorted(found & NATIVE)
        if seen and self.blind is None:
            self.blind = f"its code uses {seen[0]}, which reads files unseen by palpate"

    def _modules(self) -> dict[ModuleType, Path]:
        """The local modules with their sources: all those of the folder, and others that were imported meanwhile."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            new = name not in self._before
            if isinstance(file, str) and (new or _is_below(file, self.folder)) and self._is_local(file):
                found[module] = Path(file)
        return found

    def _is_local(self, name: str) -> bool:
        roots = _python_folders()
        if name.endswith(".pyc") or "site-packages" in name or "dist-packages" in name:
            return False
        if _is_below(name, self.folder):
            return not any(_is_below(name, root) for root in roots if _is_below(root, self.folder))
        return not any(_is_below(name, root) for root in (*roots, *_SYSTEM, tempfile.gettempdir()))

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """One event of the interpreter."""
        if event == "socket.connect":
            self.blind = self.blind or "its code connects to another process or machine"
        elif event == "subprocess.Popen":
            self.blind = self.blind or "its code starts another program"
        elif event == "sqlite3.connect" or not (isinstance(arguments[2], int) and arguments[2] & _WRITES):
            name = arguments[0]
            if isinstance(name, str | bytes | os.PathLike):
                self._opened[os.path.abspath(os.fsdecode(name))] = None  # noqa: PTH100  (the working folder may change)


_EVENTS = ("open", "sqlite3.connect", "socket.connect", "subprocess.Popen")


@cache
def _install() -> None:
    """Listen from now on: an audit hook cannot be removed."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _recording and event in _EVENTS:
        for reads in _recording:
            reads.notice(event, arguments)


def _is_below(name: str, folder: str) -> bool:
    return name == folder or name.startswith(folder.rstrip(os.sep) + os.sep)


@cache
def _python_folders() -> tuple[str, ...]:
    """Where Python, installed packages and palpate itself are."""

    def folders() -> Iterator[str]:
        yield from (sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values())
        yield site.getusersitepackages()
        yield str(Path(__file__).parents[1])

    named = [folder for folder in folders() if folder]
    return tuple(dict.fromkeys([*named, *(os.path.realpath(folder) for folder in named)]))
