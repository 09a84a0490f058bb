"""What a model's own code reads, so that its fingerprint can cover it.

Python reports every file that it opens to audit hooks (PEP 578), so weights are found whatever the code does with
them. A file counts where it lies below the configuration's folder or in the model's own package, or anywhere else
except in Python's own folders and the system's; local modules count by their source. Files in folders whose content
comes and goes (`/tmp`, `/var`) do not count, and libraries that open files without Python are not seen (`NATIVE`,
`ctypes`), nor is what another program or another machine answers: then the fingerprint cannot vouch for the
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
_SYSTEM = (
    *("/proc", "/sys", "/dev", "/etc", "/lib", "/lib64", "/bin", "/sbin"),
    *("/usr/lib", "/usr/lib64", "/usr/bin", "/usr/sbin", "/usr/include"),
    *("/usr/share/zoneinfo", "/usr/share/locale", "/usr/share/i18n", "/usr/share/fonts", "/usr/share/ca-certificates"),
)
_PASSING = ("/tmp", "/var", "/run", "/dev/shm")
_SHARED_PREFIXES = ("/", "/usr", "/usr/local")
"""Prefixes of a system's Python, below which other things lie too."""
_WRITES = os.O_WRONLY | os.O_TRUNC
_MAKES = os.O_TRUNC | os.O_EXCL
"""A file that is opened so holds nothing of before."""
_BLINDING = {
    "socket.connect": "its code connects to another process or machine",
    **dict.fromkeys(
        ("subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.exec", "os.startfile"),
        "its code starts another program",
    ),
    **dict.fromkeys(("os.fork", "os.forkpty"), "its code starts another process"),
}
_recording: list[Reads] = []


class Reads:
    """Records, while it is entered, which files this process opens for reading."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self._opened: dict[str, None] = {}
        self._made: set[str] = set()
        self._before = set(sys.modules)
        self._pickled: set[str] = set()
        self._packages: set[str] = set()
        self._blind: str | None = None

    def __enter__(self) -> Reads:
        _install()
        _recording.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _recording.remove(self)

    @property
    def blind(self) -> str | None:
        """Why files alone do not tell what the predictions depend on; None: they do."""
        if self._blind is None:
            passing = [name for name in list(self._opened) if self._is_passing(name)]
            found = next((name for name in passing if Path(name).is_file()), None)
            self._blind = None if found is None else f"its code reads {found}, in a folder whose files come and go"
        return self._blind

    @blind.setter
    def blind(self, why: str | None) -> None:
        self._blind = why

    def own_package(self, module: ModuleType) -> None:
        """Count what lies in the package of a module, although packages are installed among Python's own folders."""
        top = sys.modules.get(module.__name__.partition(".")[0], module)
        self._packages |= {os.path.realpath(folder) for folder in getattr(top, "__path__", ())}
        self._packages |= set(getattr(top, "__path__", ()))

    def files(self) -> set[Path]:
        """The local files read so far, and the sources of the local modules."""
        opened = {Path(name) for name in list(self._opened) if self._is_local(name)}
        return {path for path in opened | set(self._modules().values()) if path.is_file()}

    def look_for_libraries(self) -> None:
        """Set `blind` where the model's code came with a library that opens files by itself; its own comes first."""
        came = {name.partition(".")[0] for name in set(sys.modules) - self._before}
        own = set()
        for module in self._modules():
            for value in list(vars(module).values()):
                name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
                own.add(str(name).partition(".")[0])
        seen = sorted(own & NATIVE) or sorted(came & NATIVE)
        if seen and self.blind is None:
            self.blind = f"its code uses {seen[0]}, which reads files unseen by palpate"

    def _modules(self) -> dict[ModuleType, Path]:
        """The local modules with their sources: all those of the folder, and others that were imported meanwhile or
        that a pickle names."""
        found = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            new = name not in self._before or name in self._pickled
            if isinstance(file, str) and (new or _is_below(file, self.folder)) and self._is_local(file):
                found[module] = Path(file)
        return found

    def _is_local(self, name: str) -> bool:
        roots = _python_folders()
        if name.endswith(".pyc"):
            return False
        if any(_is_below(name, package) for package in self._packages):
            return True
        if _is_below(name, self.folder):
            return not any(_is_below(name, root) for root in roots if _is_below(root, self.folder))
        return not any(_is_below(name, root) for root in (*roots, *_SYSTEM, *_passing()))

    def _is_passing(self, name: str) -> bool:
        """Whether a file that is no part of the model's folder lies where files come and go."""
        own = any(_is_below(name, root) for root in (self.folder, *self._packages, *_python_folders()))
        return not own and any(_is_below(name, root) for root in _passing())

    def notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        """One event of the interpreter."""
        if event in _BLINDING:
            self._blind = self._blind or _BLINDING[event]
        elif event == "pickle.find_class":
            self._pickled.add(str(arguments[0]))
        elif event == "ctypes.dlopen":
            if self._is_local(_caller_of_ctypes()):
                self._blind = (
                    self._blind or "its code calls a library by ctypes, which may read files unseen by palpate"
                )
        elif isinstance(arguments[0], str | bytes | os.PathLike):
            name = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100  (the working folder may change)
            flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
            if flags & _MAKES:
                self._made.add(name)
            elif not flags & _WRITES and name not in self._made:
                self._opened[name] = None


_EVENTS = ("open", "sqlite3.connect", "ctypes.dlopen", "pickle.find_class", *_BLINDING)


def _caller_of_ctypes() -> str:
    """The file whose code asked ctypes for a library; ctypes itself asks for one when it is imported."""
    frame = sys._getframe()
    while frame.f_back is not None and (
        frame.f_code.co_filename == __file__
        or (frame.f_globals.get("__name__") == "ctypes" and frame.f_code.co_name != "<module>")
    ):
        frame = frame.f_back
    return frame.f_code.co_filename


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
        yield from (site.getusersitepackages(), *site.getsitepackages())
        yield str(Path(__file__).parents[1])

    named = [folder for folder in folders() if folder and folder not in _SHARED_PREFIXES]
    return tuple(dict.fromkeys([*named, *(os.path.realpath(folder) for folder in named)]))


@cache
def _passing() -> tuple[str, ...]:
    """Where files come and go."""
    temporary = tempfile.gettempdir()
    return tuple(dict.fromkeys([*_PASSING, temporary, os.path.realpath(temporary)]))
