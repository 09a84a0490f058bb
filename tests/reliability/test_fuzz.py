"""The fuzzer's corpus is read or refused with a sentence, some new inputs too, and the fuzzer finds what it should."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reliability.fuzz import CORPUS, attempt, fuzz_apart, in_turn, mutate, replay
from reliability.readers import BY_NAME, READERS
from reliability.seeds import Reader


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*--*")), ids=lambda file: file.name)
def test_the_corpus(file: Path, tmp_path: Path) -> None:
    assert replay(file, tmp_path) is None


def test_some_new_inputs() -> None:
    assert fuzz_apart(1500, seed=random.SystemRandom().randrange(2**32))["findings"] == []


def test_seeds_are_right(tmp_path: Path) -> None:
    for reader in READERS:
        for content in reader.seeds:
            assert attempt(reader, content, tmp_path) is None, reader.name
            reader.read(tmp_path / f"input{reader.suffix}")  # read, not refused: mutants of it go deep


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(BY_NAME)), st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_anything_at_all(name: str, content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        assert attempt(BY_NAME[name], content, Path(folder)) is None


def test_readers_get_their_shares() -> None:
    turns = in_turn(READERS)
    assert {reader.name: turns.count(reader) for reader in READERS} == {reader.name: reader.share for reader in READERS}


def fragile(path: Path) -> None:
    if b"NaN" in path.read_bytes():
        raise ZeroDivisionError
    while b'""' in path.read_bytes():
        pass


def test_it_finds_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reliability.fuzz.SECONDS", 1)
    reader = Reader("fragile", ".txt", fragile, (b"a: 1\nb: 2\n",))
    dice = random.Random(0)
    found = {attempt(reader, mutate(reader.seeds[0], reader.seeds, dice), tmp_path) for _ in range(600)}
    assert {str(each).partition(" ")[0] for each in found} == {"None", "ZeroDivisionError", "TimeoutError"}
