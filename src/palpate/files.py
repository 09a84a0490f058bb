"""Files on disk: YAML that knows its line numbers, and files that are there whole or not at all.

Whoever writes a configuration, a suite or a definition writes it by hand, so every complaint names the file and the
line. `read_yaml` gives a tree of `YamlNode`s. Asking a node for something that it is not (a list where there is a
text, a key that is missing or unknown) raises a `ConfigError` of one sentence with a hint.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import io
import os
import platform
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from palpate.errors import ConfigError, PalpateError

MOST_LEVELS, MOST_NODES = 100, 100_000
"""Of a YAML file: how deeply it may be nested, and how many values it may have."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Values(yaml.constructor.SafeConstructor):
    """YAML's values; one that is not what its tag says (`!!bool x`) is an error of YAML with a line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
            said = (
                str(error)
                if isinstance(error, ValueError)
                else f"not a value of the type {node.tag.rpartition(':')[2]}"
            )
            raise yaml.constructor.ConstructorError(None, None, said, node.start_mark) from None


_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)|No space left on device")
_HERE = f".palpate-{hashlib.sha256(platform.node().encode()).hexdigest()[:6]}-"
"""Before the number of the process: nobody else's files have such names, and other computers' have another one."""
_SCRATCH = re.compile(r"(\.palpate-[0-9a-f]{6}-|\.)(\d+)\.(.+)")  # the dot alone: by earlier versions
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""What palpate writes may hold notes, scores or words of notes: nobody but its owner reads it until they say so."""


def make_folder(path: Path) -> Path:
    """A folder that only its owner can enter, with the folders above it; one that is there already stays as it is."""
    for missing in reversed([each for each in (path, *path.parents) if not each.exists()]):
        missing.mkdir(PRIVATE_FOLDER, exist_ok=True)
    path.mkdir(exist_ok=True)  # says so where there is a file of this name
    return path


def at_home(name: str | Path) -> Path:
    """A path with `~` written out; as it is where nobody has that home."""
    try:
        return Path(name).expanduser()
    except (RuntimeError, ValueError):
        return Path(name)


def make_private_file(path: Path) -> None:
    """An empty file that only its owner can read, for whoever opens it next; one that is there already is kept."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


def make_private() -> None:
    """From now on, whatever this process and those that it starts write is its owner's alone: for the command line."""
    os.umask(0o777 & ~PRIVATE_FOLDER)


@contextmanager
def replacing(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """A scratch path beside `path` that takes its name when the block ends without an error.

    So a reader finds the old file, or the new one, or none, but never half of one. The scratch path keeps the suffix,
    because some writers add their own where it is missing. With `folder` it is for a folder, if there is none at
    `path`. Either can be read by its owner alone.
    """
    make_folder(path.parent)
    scratch = path.with_name(f"{_HERE}{os.getpid()}.{path.name}")
    for left in _left_in(path.parent).pop(path.name, ()):  # by a writer of this very path, which may hold notes
        with suppress(OSError):
            _remove(left)
    try:
        _remove(scratch)
        if not folder:
            make_private_file(scratch)
        yield scratch
        scratch.chmod(PRIVATE_FOLDER if scratch.is_dir() else PRIVATE_FILE)
        scratch.replace(path)
    except Exception as error:
        if (failed := failed_write(error, path, scratch)) is None:
            raise
        raise failed from None
    finally:
        with suppress(OSError):  # what failed is told already
            _remove(scratch)


def failed_write(error: Exception, path: Path, scratch: Path | None = None) -> OSError | None:
    """The system's error about a file, with the file's own name, also where a library has put it in its own words."""
    if isinstance(error, PalpateError) or getattr(error, "filename", None) not in (None, str(scratch)):
        return None
    number, before = getattr(error, "errno", None), getattr(error.__context__, "errno", None)
    number = before if not number and before in (errno.ENOSPC, errno.EDQUOT, errno.EIO) else number
    if not number:
        told = _SYSTEM_ERROR.search(str(error))
        number = int(told[1] or errno.ENOSPC) if told else None
    return None if number is None else OSError(number, os.strerror(number), str(path))


def remove_scratch(folder: Path) -> None:
    """Remove what killed writers left in a folder of palpate's own, which is locked; not of those that still run."""
    for left in folder.glob(".*"):
        named = _SCRATCH.fullmatch(left.name)
        if named and (named[1] not in (_HERE, ".") or not _runs(int(named[2]))):
            with suppress(OSError):  # another process was faster, or may not
                _remove(left)


@lru_cache(maxsize=1000)
def _left_in(folder: Path) -> dict[str, list[Path]]:
    """What killed writers had left in a folder when this process first wrote there, by the name that it was for."""
    left: dict[str, list[Path]] = {}
    with suppress(OSError):
        for each in folder.glob(f"{_HERE}*"):
            named = _SCRATCH.fullmatch(each.name)
            if named and not _runs(int(named[2])):
                left.setdefault(named[3], []).append(each)
    return left


def _runs(pid: int) -> bool:
    if pid == os.getpid():  # it has nothing open yet: an earlier process had its number
        return False
    if os.name == "nt":  # where this signal would be heeded
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _remove(scratch: Path) -> None:
    if scratch.is_dir() and not scratch.is_symlink():
        shutil.rmtree(scratch)
    scratch.unlink(missing_ok=True)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a whole file at once; see `replacing`. Text is written as UTF-8 without translating line ends."""
    with replacing(path) as scratch:
        scratch.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


class _NamedFile(io.FileIO):
    """A file whose errors name it, as those of the system about a write do not."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.name)) from None


def open_named(path: Path) -> io.BufferedWriter:
    """A new file for bytes; what goes wrong with it names it."""
    return io.BufferedWriter(_NamedFile(path, "wb"))


def open_named_text(path: Path) -> io.TextIOWrapper:
    """A new file for text in UTF-8, whose line ends are written as they are; what goes wrong with it names it."""
    return io.TextIOWrapper(open_named(path), "utf-8", newline="")


def read_resource(package: str, name: str) -> Any:
    """A YAML file that comes with palpate, as plain values."""
    return yaml.load(resources.files(package).joinpath(name).read_text("utf-8"), Loader=_LOADER)


@dataclass(frozen=True)
class YamlNode:
    """A value in a YAML file and its line; `content` is a text, a list of nodes or a mapping to nodes."""

    content: str | list[YamlNode] | dict[str, YamlNode]
    parsed: yaml.Node
    file: Path
    key_lines: dict[str, int] = field(default_factory=dict)

    @property
    def line(self) -> int:
        """The line on which the value starts, counted from 1."""
        return int(self.parsed.start_mark.line) + 1

    @property
    def scalar(self) -> Any:
        """The number, text, true or false that is written; dates stay texts."""
        kind = self.parsed.tag.rsplit(":", 1)[-1]
        if not isinstance(self.content, str) or kind not in ("int", "float", "bool", "null"):
            return self.parsed.value
        try:
            return _Values().construct_object(self.parsed)
        except yaml.YAMLError:
            return self.parsed.value

    def plain(self) -> Any:
        """The whole value as YAML itself reads it: mappings, lists, numbers, dates."""
        try:
            return _Values().construct_document(self.parsed)
        except yaml.YAMLError as error:
            raise _syntax_error(self.file, "", error) from None

    def error(self, problem: str, *, hint: str | None = None, key: str | None = None) -> ConfigError:
        """An error that names the file and the line of this value, or of one of its keys."""
        line = self.key_lines.get(key, self.line) if key is not None else self.line
        return ConfigError(f"line {line}: {problem}", file=self.file, hint=hint)

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """The line of the deepest key or item on a path that is in the file; None if not even the first one is."""
        line, node = None, self
        for part in path:
            if isinstance(node.content, list) and isinstance(part, int) and part < len(node.content):
                node = node.content[part]
                line = node.line
            elif isinstance(node.content, dict) and str(part) in node.content:
                line, node = node.key_lines[str(part)], node.content[str(part)]
            else:
                break
        return line

    def mapping(self, what: str, *, known: Collection[str] | None = None) -> dict[str, YamlNode]:
        """The keys and values; a key outside `known` is refused."""
        if not isinstance(self.content, dict):
            raise self.error(f"{what} must be a mapping of `key: value` lines")
        for key in self.content if known is not None else ():
            if known is not None and key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean `{close[0]}`?" if close else f"the keys are: {', '.join(known)}"
                raise self.error(f"unknown key `{key}` in {what}", hint=hint, key=key)
        return self.content

    def items(self, what: str) -> list[YamlNode]:
        """The elements of a list that is not empty."""
        if not isinstance(self.content, list):
            raise self.error(f"{what} must be a list", hint="write it as [one, another] or in `- item` lines")
        if not self.content:
            raise self.error(f"{what} is empty", hint="give at least one item")
        return self.content

    def text(self, what: str) -> str:
        """The text as it is written, so that the label `no` stays the word `no`."""
        if not isinstance(self.content, str):
            raise self.error(f"{what} must be a text")
        if not self.content.strip():
            raise self.error(f"{what} is empty", hint="fill it in")
        return self.content

    def number(self, what: str, *, low: float, high: float = float("inf")) -> float:
        """A number between `low` and `high`."""
        value = self.scalar
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            bounds = f"of at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
            raise self.error(f"{what} must be a number {bounds}")
        return float(value)

    def whole(self, what: str, *, low: int = 1) -> int:
        """A whole number of at least `low`."""
        value = self.number(what, low=low)
        if value != int(value):
            raise self.error(f"{what} must be a whole number")
        return int(value)

    def choice(self, what: str, choices: Collection[str]) -> str:
        """One of several words."""
        value = self.text(what)
        if value not in choices:
            raise self.error(f"{what} is '{value}'", hint=f"choose one of {', '.join(choices)}")
        return value

    def texts(self, what: str) -> list[str]:
        """A list of texts, or a single text."""
        if isinstance(self.content, str):
            return [self.text(what)]
        return [item.text(what) for item in self.items(what)]

    def require(self, key: str, what: str) -> YamlNode:
        """The value of a key that must be given."""
        found = self.mapping(what).get(key)
        if found is None:
            raise self.error(f"{what} has no `{key}`", hint=f"add a line `{key}: ...`")
        return found


def read_yaml(file: Path, *, needs: str) -> YamlNode:
    """Read a YAML file, which must hold a mapping; `needs` says what should be in it, for whoever left it empty."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("file not found", file=file, hint="check the path") from None
    except OSError as error:
        raise ConfigError(f"the file cannot be read ({error.strerror})", file=file, hint="check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"is not UTF-8 (byte {error.start})", file=file, hint="save it as UTF-8") from None
    return parse_yaml(text, file, needs=needs)


def parse_value(text: str) -> Any:
    """A value as YAML reads it; ValueError where it is not YAML, or too much of it."""
    try:
        root = _composed(text, Path())
        if root is None:
            return None
        _build(root, Path(), (), [MOST_NODES])
        return _Values().construct_document(root)
    except (yaml.YAMLError, UnicodeError, ConfigError) as error:
        raise ValueError("not valid YAML") from error


def _refuse_unusable(text: str, file: Path) -> None:
    """Refuse what is nested so deeply that reading it would exhaust the stack; the events of the parser need none.

    And a null character, which no path, name or text of a configuration can have.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.ScalarEvent) and "\0" in event.value:
            raise ConfigError(f"line {line}: a text has a null character", file=file, hint="leave out `\\0`")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            problem = f"line {line}: lists and mappings are nested more than {MOST_LEVELS} levels deep"
            raise ConfigError(problem, file=file, hint="write it with fewer levels")


def _composed(text: str, file: Path) -> yaml.Node | None:
    _refuse_unusable(text, file)
    loader = _LOADER(text)
    try:
        root: yaml.Node | None = loader.get_single_node()
        return root
    finally:
        loader.dispose()


def parse_yaml(text: str, file: Path, *, needs: str) -> YamlNode:
    """The same for the text of a file that was read already."""
    try:
        root = _composed(text, file)
    except (yaml.YAMLError, UnicodeError) as error:
        raise _syntax_error(file, text, error) from None
    if root is None:
        raise ConfigError("the file is empty", file=file, hint=f"it needs {needs}")
    node = _build(root, file, (), [MOST_NODES])
    if not isinstance(node.content, dict):
        raise node.error("the file must be a mapping of `key: value` lines", hint=f"it needs {needs}")
    return node


def _syntax_error(file: Path, text: str, error: Exception) -> ConfigError:
    """What the YAML parser says in one sentence; tabs, which look like spaces, get a sentence of their own."""
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    near = [n for n in (line, line - 1, line + 1) if 1 <= n <= len(lines)]
    for number in near:
        written = lines[number - 1]
        if "\t" in written[: len(written) - len(written.lstrip())]:
            return ConfigError(
                f"line {number}: the line is indented with a tab", file=file, hint="use spaces, not tabs, in YAML"
            )
    problem = getattr(error, "problem", None) or str(error)
    return ConfigError(f"line {line}: not valid YAML ({problem})", file=file, hint="put a text with : { [ # in quotes")


def _build(node: yaml.Node, file: Path, inside: tuple[int, ...], left: list[int]) -> YamlNode:
    """A node of the parser with its children; one that contains itself through `&` and `*` is refused.

    So are anchors that repeat each other until there are more than `left` values.
    """
    line = node.start_mark.line + 1
    left[0] -= 1
    if left[0] < 0:
        problem = f"line {line}: the file has more than {MOST_NODES:,} values when its anchors are written out"
        raise ConfigError(problem, file=file, hint="use fewer `*` references")
    if id(node) in inside:
        raise ConfigError(f"line {line}: an anchor contains itself, a cycle", file=file, hint="write the part out")
    inside = (*inside, id(node))
    if isinstance(node, yaml.SequenceNode):
        return YamlNode([_build(item, file, inside, left) for item in node.value], node, file)
    if not isinstance(node, yaml.MappingNode):
        return YamlNode(str(node.value), node, file)
    content: dict[str, YamlNode] = {}
    key_lines: dict[str, int] = {}
    for key, value in node.value:
        at = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"line {at}: a key must be a word", file=file, hint="put a text with { in quotes")
        name = str(key.value)
        if name in content:
            problem = f"line {at}: `{name}` is given twice, first in line {key_lines[name]}"
            raise ConfigError(problem, file=file, hint="remove one")
        content[name], key_lines[name] = _build(value, file, inside, left), at
    return YamlNode(content, node, file, key_lines)
