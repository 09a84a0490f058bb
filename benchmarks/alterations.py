"""Notes altered to 83 groups: one scan per note against a scan per group and pattern.

    python benchmarks/alterations.py [--notes 10000] [--workers 2]

Both ways give the same edits, which is checked on the notes that the slow way gets. The slow way looks for every word
of the lexicon with its own pattern, again for every group. The notes are discharge summaries of the synthetic hospital,
made 1,500 tokens long. The ratio is of processor times; memory is the most that Python allocated while one note was
altered to few and to all groups.
"""

from __future__ import annotations

import argparse
import gc
import re
import resource
import tempfile
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import polars as pl

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer
from palpate.perturb.characteristics.reading import Hit, ScannedNote, TriggerWords
from palpate.synthetic import write_hospital

NAMES = ("gender", "age", "ethnicity")
TOKENS = 1500


def all_groups(alterer: Alterer) -> list[tuple[str, str]]:
    """5 genders, 73 ages, 5 ethnicities."""
    return [(name, group) for name in NAMES for group in alterer.groups(name)]


def make_notes(n: int) -> list[str]:
    """Different notes as far as there are, each of 1,500 tokens."""
    with tempfile.TemporaryDirectory() as folder:
        write_hospital(Path(folder), n_patients=300, seed=5, images=False, workers=1)
        table = pl.read_csv(Path(folder) / "mimic-iii" / "NOTEEVENTS.csv.gz")
    texts = table.filter(pl.col("CATEGORY") == "Discharge summary")["TEXT"].to_list()
    long = []
    for text in texts:
        words = re.findall(r"\S+\s*", text)
        long.append("".join(islice(cycle(words), TOKENS)))
    return list(islice(cycle(long), n))


def alter_all(notes: list[str], write: bool) -> int:
    """All groups of all notes; gives the number of edits, or of characters when the texts are written."""
    alterer = Alterer(NAMES)
    groups = all_groups(alterer)
    total = 0
    for text in notes:
        found = alterer.plan(text)
        for group in groups:
            edits, _, _ = alterer.edits(found, group)
            total += len(splice(text, edits)) if write else len(edits)
    return total


class SlowLexicon(TriggerWords):
    """A pattern for every word, one after the other."""

    def scan(self, text: str) -> ScannedNote:
        """As the fast one, without the walk."""
        masks = [match.span() for match in re.finditer(r"\[\*\*[^\]]*\]", text)]
        hits: dict[str, list[Hit]] = {}
        for word, tags in self._tags.items():
            for match in re.finditer(rf"(?<![A-Za-z]){word}(?![A-Za-z])", text, re.IGNORECASE | re.ASCII):
                if any(start <= match.start() < end for start, end in masks):
                    continue
                for tag in tags:
                    hits.setdefault(tag, []).append(Hit(match.start(), match.end(), word))
        return ScannedNote(text, {tag: sorted(found) for tag, found in hits.items()})


def alter_slowly(notes: list[str]) -> list[object]:
    """A new scan for every group."""
    alterer = Alterer(NAMES)
    alterer._lexicon.__class__ = SlowLexicon
    return [alterer.edits(alterer.plan(text), group) for text in notes for group in all_groups(alterer)]


def peak(text: str, groups: int) -> int:
    """Bytes allocated at most while a note is altered to some groups, one after the other."""
    alterer = Alterer(NAMES)
    alterer.edits(alterer.plan(text), ("gender", "male"))
    gc.collect()
    tracemalloc.start()
    found = alterer.plan(text)
    for group in all_groups(alterer)[:groups]:
        alterer.edits(found, group)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def timed(notes: list[str], workers: int, *, write: bool) -> str:
    """Seconds for all notes, on the clock and of the processor."""
    start, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with ProcessPoolExecutor(workers) as pool:
        parts = [notes[k :: workers * 4] for k in range(workers * 4)]
        assert sum(pool.map(alter_all, parts, [write] * len(parts))) > 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
    return f"{time.perf_counter() - start:.1f} s ({used / workers:.1f} s of the processor per worker)"


def main() -> None:
    """Print the times and the ratio."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow", type=int, default=4, help="notes for the slow way")
    options = parser.parse_args()
    notes = make_notes(options.notes)
    few = list(dict.fromkeys(notes))[: options.slow]
    start = time.process_time()
    slow = alter_slowly(few)
    each_slow = (time.process_time() - start) / len(few)
    alterer = Alterer(NAMES)
    fast = [alterer.edits(found, group) for found in map(alterer.plan, few) for group in all_groups(alterer)]
    assert slow == fast, "both ways must give the same edits"
    sample = notes[:200]
    start = time.process_time()
    alter_all(sample, False)
    each_fast = (time.process_time() - start) / len(sample)
    print(
        f"one note, {len(all_groups(alterer))} groups, one core: slow {each_slow:.3f} s, fast {each_fast * 1e3:.2f} ms"
    )
    print(f"ratio {each_slow / each_fast:,.0f}")
    seconds = timed(notes, options.workers, write=False)
    print(f"{len(notes):,} notes x {len(all_groups(alterer))} groups, {options.workers} workers: edits {seconds}")
    print(f"the same with texts written: {timed(notes, options.workers, write=True)}")
    print(f"peak memory for 8 groups {peak(notes[0], 8):,} bytes, for all groups {peak(notes[0], 999):,} bytes")


if __name__ == "__main__":
    main()
