"""YAML with line numbers, and files that are whole or not there."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.errors import ConfigError
from palpate.files import parse_value, parse_yaml, read_yaml, remove_scratch, replacing, write_atomically


def test_lines_and_plain_values() -> None:
    text = "a: 1\nb:\n  c: no\n  d: [x, 2020-01-02]\nbase: &base {e: 5}\nmore: {<<: *base, f: 6}\n"
    root = parse_yaml(text, Path("x.yaml"), needs="`a:`")
    assert root.plain() == {
        "a": 1,
        "b": {"c": False, "d": ["x", date(2020, 1, 2)]},
        "base": {"e": 5},
        "more": {"e": 5, "f": 6},
    }
    assert root.require("b", "it").require("c", "it").text("c") == "no"
    assert root.line_of(("b", "d", 1)) == 4
    assert root.line_of(("b", "nothing")) == 2
    assert root.line_of(("nothing",)) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "x.yaml: the file is empty; it needs `a:`."),
        ("- a\n", "x.yaml: line 1: the file must be a mapping of `key: value` lines; it needs `a:`."),
        ("a: 1\na: 2\n", "x.yaml: line 2: `a` is given twice, first in line 1; remove one."),
        ("a:\n\tb: 1\n", "x.yaml: line 2: the line is indented with a tab; use spaces, not tabs, in YAML."),
        ("a: &x [*x]\n", "x.yaml: line 1: an anchor contains itself, a cycle; write the part out."),
        ("{[a]: 1}\n", "x.yaml: line 1: a key must be a word; put a text with { in quotes."),
    ],
)
def test_what_is_wrong_has_its_line(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, Path("x.yaml"), needs="`a:`")
    assert str(caught.value) == sentence


@pytest.mark.parametrize("value", ["!!python/name:os.system", "2020-13-45"])
def test_values_that_yaml_can_not_make(value: str) -> None:
    root = parse_yaml(f"b: 1\na: {value}\n", Path("x.yaml"), needs="`a:`")
    with pytest.raises(ConfigError, match=r"x\.yaml: line \d: not valid YAML"):
        root.plain()


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file not found"):
        read_yaml(tmp_path / "none.yaml", needs="`a:`")
    with pytest.raises(ConfigError, match="the file cannot be read"):
        read_yaml(tmp_path, needs="`a:`")


def test_a_file_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_atomically(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    write_atomically(path, b"\x00")
    assert [file.name for file in path.parent.iterdir()] == ["file.txt"]
    assert path.read_bytes() == b"\x00"


def spoiled(path: Path, *, folder: bool = False) -> None:
    with replacing(path, folder=folder) as scratch:
        if folder:
            scratch.mkdir()
            scratch = scratch / "part"
        scratch.write_bytes(b"half")
        raise RuntimeError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.npy"
    with replacing(path) as scratch:
        np.save(scratch, np.arange(3))
    with pytest.raises(RuntimeError):
        spoiled(path)
    assert np.load(path).tolist() == [0, 1, 2]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_whole_too(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with pytest.raises(RuntimeError):
        spoiled(path, folder=True)
    assert not list(tmp_path.iterdir())
    with replacing(path, folder=True) as scratch:
        scratch.mkdir()
        (scratch / "a").touch()
    assert [file.name for file in path.iterdir()] == ["a"]


def modes(folder: Path) -> dict[str, str]:
    return {str(each.relative_to(folder)): oct(each.stat().st_mode & 0o777) for each in sorted(folder.rglob("*"))}


def test_what_is_written_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_atomically(tmp_path / "a" / "b" / "notes.txt", "text")
        with replacing(tmp_path / "a" / "scores.npy") as scratch:
            assert scratch.stat().st_mode & 0o777 == 0o600, "others could read it while it is written"
            np.save(scratch, np.arange(3))
        with replacing(tmp_path / "kept", folder=True) as scratch:
            scratch.mkdir()
    finally:
        os.umask(before)
    files = {"a/b/notes.txt": "0o600", "a/scores.npy": "0o600"}
    assert modes(tmp_path) == {"a": "0o700", "a/b": "0o700", "kept": "0o700", **files}


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)
    write_atomically(tmp_path / "shared" / "report.html", "text")
    assert modes(tmp_path) == {"shared": "0o750", "shared/report.html": "0o600"}


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    with replacing(tmp_path / "file") as scratch:
        scratch.write_text("before")
    scratch.symlink_to(victim)
    write_atomically(tmp_path / "file", "notes")
    assert victim.read_text() == "mine"
    assert (tmp_path / "file").read_text() == "notes"


def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device") as caught, replacing(tmp_path / "a.parquet"):
        pl.DataFrame({"a": [1]}).write_parquet("/dev/full")  # which polars tells as a ComputeError
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(tmp_path / "a.parquet")
    with pytest.raises(FileNotFoundError) as missing, replacing(tmp_path / "c"):
        (tmp_path / "other").read_text()
    assert missing.value.filename == str(tmp_path / "other")
    with pytest.raises(ConfigError), replacing(tmp_path / "d"):
        raise ConfigError("about (os error 28)")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_has_the_name_of_the_file_whenever_it_fails(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 254)  # a name of its own, but none for the scratch file
    with pytest.raises(OSError, match="too long") as caught, replacing(path):
        pytest.fail("there is no scratch file")
    assert caught.value.filename == str(path)
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "b"):
        _fail_as_torch_does(errno.ENOSPC)
    assert caught.value.filename == str(tmp_path / "b")
    with pytest.raises(RuntimeError), replacing(tmp_path / "c"):
        _fail_as_torch_does(errno.ENOENT)  # which says nothing of this file


def _fail_as_torch_does(number: int) -> None:
    try:
        raise OSError(number, os.strerror(number))
    finally:
        raise RuntimeError("unexpected pos 704 vs 598")


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        names = (f".{running.pid}.a", ".99999999999999999999.b", f".{os.getpid()}.c", ".hidden", "d", ".5x.e")
        for name in names:
            (tmp_path / name).write_text("x")
        (tmp_path / f".{os.getpid()}.folder").mkdir()
        remove_scratch(tmp_path)
        assert {each.name for each in tmp_path.iterdir()} == {f".{running.pid}.a", ".hidden", "d", ".5x.e"}
        running.kill()
    remove_scratch(tmp_path)
    assert {each.name for each in tmp_path.iterdir()} == {".hidden", "d", ".5x.e"}


TAGGED = ["!!timestamp x", "!!bool x", "!!int ''", "!!float ''", "!!int '-'", "!!int _", "2020-13-45", "!!binary é"]


@pytest.mark.parametrize("value", TAGGED)
def test_a_value_that_is_not_what_its_tag_says(value: str) -> None:
    with pytest.raises(ConfigError, match=r"line 3: not valid YAML"):
        parse_yaml(f"a: 1\nb: x\nc: {value}\n", Path("a.yaml"), needs="`a:`").plain()
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_value(f"[{value}]")
    assert isinstance(parse_yaml(f"c: {value}\n", Path("a.yaml"), needs="`c:`").mapping("it")["c"].scalar, str)


def test_merged_anchors_of_one_value_do_not_multiply() -> None:
    lines = ["a0: &a0 {k: 1, l: 2}"]
    lines += [f"a{k}: &a{k} {{<<: [{', '.join([f'*a{k - 1}'] * 10)}]}}" for k in range(1, 12)]
    began = time.process_time()
    with pytest.raises(ValueError, match="not valid YAML"):
        parse_value("\n".join(lines))
    assert time.process_time() - began < 5


KILLED = """
import os, signal, sys
from pathlib import Path
from palpate.files import replacing
with replacing(Path(sys.argv[1])) as scratch:
    scratch.write_text("half of the notes")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    cohort = tmp_path / "cohort.parquet"
    others = [tmp_path / ".2024.diary", tmp_path / ".20241118.cohort.parquet"]
    subprocess.run([sys.executable, "-c", KILLED, str(cohort)])
    (left,) = tmp_path.iterdir()
    host, pid = re.fullmatch(r"\.palpate-(\w+)-(\d+)\.cohort\.parquet", left.name).groups()  # type: ignore[union-attr]
    others.append(left.with_name(left.name.replace(pid, str(os.getppid()))))
    others.append(left.with_name(left.name.replace(host, "abcdef" if host != "abcdef" else "fedcba")))
    for other in others:
        other.write_text("not palpate's to remove, or of a writer that runs, here or on another computer")
    again = "import sys\nfrom pathlib import Path\nfrom palpate.files import write_atomically\n"
    subprocess.run([sys.executable, "-c", f"{again}write_atomically(Path(sys.argv[1]), 'whole')", str(cohort)])
    assert sorted(tmp_path.iterdir()) == sorted([cohort, *others])
    assert cohort.read_text() == "whole"
