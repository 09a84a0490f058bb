"""A structured fuzzer of our own: broken files for every reader, and what each of them says.

A reader may succeed or refuse: one sentence (`PalpateError`). Anything else is a finding: another exception, more than
ten seconds, or memory that grows. What was found is stored in `corpus/`, and the tests read all of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palpate.errors import PalpateError
from reliability.readers import BY_NAME, READERS
from reliability.seeds import Reader

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 10
MEGABYTES = 1024
"""How much memory may grow over all inputs of a process, the largest of them included."""
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112
"""Files that are read once need no disk."""
_REFUSED = 2
_TOKENS = [
    *(b'"', b"'", b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\\"),
    *(
        b"\\ud800",
        b"\\u0000",
        b"{",
        b"}",
        b"[",
        b"]",
        b"{{",
        b": ",
        b"- ",
        b"&a ",
        b"*a",
        b"!!binary ",
        b"!!set ",
        b"|\n",
        b"!!timestamp x",
        b"!!bool x",
        b"!!int ''",
        b"~no-such-user/",
    ),
    *(b"<<: ", b"? ", b"%", b"#", b"@", b"=cmd", b"null", b"true", b"~", b"NaN", b".nan", b".inf", b"-.inf", b"1e999"),
    *(b"-1", b"0", b"9223372036854775808", b"1" * 400, b"1_000", b"0x1F", b"1:30", b"2020-13-45", b"2020-01-01"),
    *(
        b"\xe2\x80\xa8",
        b"\xf0\x9f\x98\x80",
        b"e\xcc\x81",
        b"\xe2\x80\xae",
        b"a" * 5000,
        b"[" * 300,
        b"[" * 3000,
        b"{a: " * 300,
        b"\n" * 50,
    ),
    *(
        b"yes",
        b"no",
        b"on",
        b"{}",
        b"[]",
        b'""',
        b"../../etc/passwd",
        b"http://h/",
        b"python:os:system",
        b"hf:",
        b"*" * 20,
    ),
]
_VALUES: list[Any] = [None, True, False, 0, -1, 1e308, 2**63, -(2**70), "", "x" * 5000, [], {}, [[]], {"a": None}]
_VALUES += ["\ud800", "\x00", "NaN", 0.5, [None], {"": {}}]


class Finding(NamedTuple):
    """An input that was neither read nor refused with a sentence."""

    reader: str
    what: str
    file: Path


def mutate(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:
    """One to four changes, of bytes, of lines or cells, or of the values of JSON."""
    for _ in range(dice.choice((1, 1, 1, 2, 2, 3, 4))):
        content = dice.choice(_CHANGES)(content, others, dice)
    return content[: 2**20]


def _bytes(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:  # noqa: ARG001
    at, to = sorted(dice.randrange(len(content) + 1) for _ in range(2))
    to = min(to, at + dice.choice((0, 1, 1, 2, 8, 64)))
    return content[:at] + dice.choice((b"", dice.choice(_TOKENS), dice.randbytes(2), content[at:to] * 2)) + content[to:]


def _lines(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:  # noqa: ARG001
    lines = content.split(b"\n")
    at = dice.randrange(len(lines))
    what = dice.randrange(6)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(dice.randrange(len(lines) + 1), lines[at])
    elif what == 2:
        dice.shuffle(lines)
    elif what == 3:
        cells = lines[at].split(b",")
        cells[dice.randrange(len(cells))] = dice.choice(_TOKENS)
        lines[at] = b",".join(cells)
    elif what == 4:
        lines[at] = dice.choice((b" ", b"\t", b"    ")) + lines[at]
    else:
        key, colon, _ = lines[at].partition(b":")
        lines[at] = key + colon + b" " + dice.choice(_TOKENS)
    return b"\n".join(lines)


def _splice(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:
    other = dice.choice(others)
    return content[: dice.randrange(len(content) + 1)] + other[dice.randrange(len(other) + 1) :]


def _json(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return _json_line(content, others, dice)
    return json.dumps(_changed(value, dice)).encode()


def _json_line(content: bytes, others: tuple[bytes, ...], dice: random.Random) -> bytes:
    """One line of JSON Lines changed."""
    lines = content.split(b"\n")
    at = dice.randrange(len(lines))
    try:
        lines[at] = json.dumps(_changed(json.loads(lines[at]), dice)).encode()
    except (ValueError, RecursionError):
        return _bytes(content, others, dice)
    return b"\n".join(lines)


def _changed(value: Any, dice: random.Random) -> Any:
    """The value with one of its parts exchanged, dropped or doubled."""
    if isinstance(value, dict) and value and dice.random() < 0.85:
        key = dice.choice(list(value))
        what = dice.random()
        if what < 0.15:
            return {k: v for k, v in value.items() if k != key}
        if what < 0.25:
            return {**value, dice.choice(("", "x", key.upper())): value[key]}
        return {**value, key: _changed(value[key], dice)}
    if isinstance(value, list) and value and dice.random() < 0.85:
        at = dice.randrange(len(value))
        return [*value[:at], _changed(value[at], dice), *value[at + dice.choice((0, 1, 1)) :]]
    return dice.choice(_VALUES)


_CHANGES: tuple[Callable[[bytes, tuple[bytes, ...], random.Random], bytes], ...] = (
    _bytes,
    _bytes,
    _lines,
    _splice,
    _json,
)


def attempt(reader: Reader, content: bytes, folder: Path) -> str | None:
    """What is wrong with how a reader takes a content; None: nothing."""
    file = folder / f"input{reader.suffix}"
    file.write_bytes(content)
    signal.signal(signal.SIGPROF, _too_slow)  # of the processor's time: the machine may be busy
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_VIRTUAL, 3 * SECONDS)  # ends the process where compiled code does not come back
    try:
        reader.read(file)
    except PalpateError as error:
        return None if "\n" not in str(error) else f"a sentence of several lines: {str(error)[:80]!r}"
    except MemoryError:
        return "MemoryError"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        own = [each for each in traceback.extract_tb(error.__traceback__) if "palpate" in each.filename]
        at = own[-1] if own else place
        return f"{type(error).__name__} in {Path(at.filename).name}:{at.lineno} {at.name}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return None


def _too_slow(*_: object) -> None:
    raise TimeoutError


def in_turn(readers: Sequence[Reader]) -> list[Reader]:
    """One round: the readers in the order in which they get inputs, each as often as its share says, evenly spread."""
    most = max(reader.share for reader in readers)
    return [
        reader
        for turn in range(most)
        for reader in readers
        if (turn + 1) * reader.share // most > turn * reader.share // most
    ]


def _seeds_of(reader: Reader) -> tuple[bytes, ...]:
    """What a reader can read, and what once was wrong for it."""
    kept = sorted(CORPUS.glob(f"{reader.name.replace(' ', '_')}--*"))
    return (*reader.seeds, *(file.read_bytes() for file in kept))


def fuzz(
    n: int,
    *,
    seed: int = 0,
    only: tuple[str, ...] = (),
    keep: Path | None = None,
    minutes: float = 600.0,
    first: int = 0,
    place: Path | None = None,
) -> dict[str, Any]:
    """Try the inputs from `first` to `n`, over all readers in turn, or as many as the time allows.

    The counts, and the findings by kind. `place` always has the number of the input that is tried.
    """
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    readers = in_turn([BY_NAME[name] for name in only] or READERS)
    seeds = {reader.name: _seeds_of(reader) for reader in readers}
    everything = tuple(seed for reader in READERS for seed in reader.seeds)
    found: dict[tuple[str, str], bytes] = {}
    k = first
    with tempfile.TemporaryDirectory(prefix="palpate-fuzz-", dir=MEMORY) as scratch:
        while k < n and time.monotonic() < began + 60 * minutes:
            if place is not None:
                place.write_text(str(k))
            dice, reader = random.Random(f"{seed} {k}"), readers[k % len(readers)]
            own = seeds[reader.name]
            content = mutate(dice.choice(own), own if dice.random() < 0.7 else everything, dice)
            wrong = attempt(reader, content, Path(scratch))
            if wrong is not None and (reader.name, wrong) not in found:
                found[reader.name, wrong] = content
                print(f"FOUND {reader.name}: {wrong}", file=sys.stderr, flush=True)
                _keep(reader, content, keep)
            k += 1
            if k % 10_000 == 0:
                used = f"{time.process_time():.0f} s of processor time, {_grown(before)} MB more"
                print(f"{k:,} inputs, {time.monotonic() - began:.0f} s, {used}", file=sys.stderr, flush=True)
    findings = sorted(map(str, found)) + [
        f"memory grew by {grown} MB" for grown in [_grown(before)] if grown > MEGABYTES
    ]
    counts = {"inputs": k - first, "readers": len(set(readers)), "grown_mb": _grown(before)}
    return {**counts, "seconds": round(time.monotonic() - began), "findings": findings}


def _grown(before: int) -> int:
    """By how many megabytes the most memory that this process ever had is above what it was."""
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024


def _keep(reader: Reader, content: bytes, folder: Path | None) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{reader.name.replace(' ', '_')}--{hashlib.sha256(content).hexdigest()[:12]}").write_bytes(content)


def fuzz_apart(
    n: int, *, seed: int = 0, only: tuple[str, ...] = (), keep: Path | None = None, minutes: float = 600.0
) -> dict[str, Any]:
    """`fuzz` in a process of its own: some damaged files make polars abort it, which is no finding if it says so.

    The next process goes on after such a file.
    """
    began, first, ended, grown = time.monotonic(), 0, 0, 0
    findings: list[str] = []
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONWARNINGS": "ignore"}  # tiny files: threads only wait
    with tempfile.TemporaryDirectory(prefix="palpate-fuzz-", dir=MEMORY) as scratch:
        place, out = Path(scratch) / "place", Path(scratch) / "out"
        while first < n and (left := minutes - (time.monotonic() - began) / 60) > 0:
            asked = {"n": n, "seed": seed, "only": list(only), "minutes": left, "first": first, "place": str(place)}
            asked |= {"keep": None if keep is None else str(keep), "out": str(out)}
            command = [sys.executable, "-m", "reliability.fuzz", json.dumps(asked)]
            ran = subprocess.run(command, stderr=subprocess.PIPE, env=environment)
            reached = int(place.read_text())
            if ran.returncode == 0:
                told = json.loads(out.read_text())
                findings, grown, first = [*findings, *told["findings"]], max(grown, told["grown_mb"]), reached + 1
            else:
                ended, first = ended + 1, reached + 1
                said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
                if ran.returncode != _REFUSED or not said or not said[-1].startswith("palpate: "):
                    findings.append(f"input {reached} ended the process: {ran.returncode}")
            if ran.returncode == 0:
                break
    counts = {"inputs": first, "readers": len(only) or len(READERS), "processes_ended": ended, "grown_mb": grown}
    return {**counts, "seconds": round(time.monotonic() - began), "findings": findings}


def replay(file: Path, folder: Path) -> str | None:
    """What a file of the corpus does now."""
    return attempt(BY_NAME[file.name.partition("--")[0].replace("_", " ")], file.read_bytes(), folder)


def _main() -> None:
    asked = json.loads(sys.argv[1])
    out, place, keep = Path(asked.pop("out")), Path(asked.pop("place")), asked.pop("keep")
    found = fuzz(asked.pop("n"), only=tuple(asked.pop("only")), place=place, keep=keep and Path(keep), **asked)
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    _main()
