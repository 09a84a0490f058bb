"""Notes written differently: words looked up in dictionaries against one pattern per entry of the lexicon.

    python benchmarks/perturbations.py [--notes 200]

Both ways rename the same medicines, which is checked on every note. The notes are discharge summaries of the synthetic
hospital, made 1,500 tokens long. The ratio is of processor times. Printed beside it: the time that each perturbation
takes, for notes that are read once for all of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import polars as pl

from palpate.cases.edits import Edit
from palpate.perturb.robustness import BUILT_IN, WrittenNote, note_stream, perturbed
from palpate.perturb.robustness.reading import lexicon
from palpate.perturb.robustness.terms import TermSwap, _medicine, swaps
from palpate.synthetic import write_hospital

TOKENS = 1500
ASKED = 5.0


def make_notes(n: int) -> list[str]:
    """Different notes as far as there are, each of 1,500 tokens."""
    with tempfile.TemporaryDirectory() as folder:
        write_hospital(Path(folder), n_patients=100, seed=5, images=False, workers=1)
        table = pl.read_csv(Path(folder) / "mimic-iii" / "NOTEEVENTS.csv.gz")
    texts = table.filter(pl.col("CATEGORY") == "Discharge summary")["TEXT"].to_list()
    long = ["".join(islice(cycle(re.findall(r"\S+\s*", text)), TOKENS)) for text in texts]
    return list(islice(cycle(long), n))


def one_pattern_each(text: str, patterns: list[tuple[re.Pattern[str], TermSwap]]) -> list[Edit]:
    """The naive way: every medicine is searched for in the whole note."""
    note = WrittenNote(text)
    edits = []
    for pattern, swap in patterns:
        for match in pattern.finditer(text):
            new = _medicine(note, *match.span(), swap)
            if new is not None and not note.touches(*match.span()):
                edits.append(Edit(*match.span(), new))
    return sorted(edits)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=200)
    notes = make_notes(parser.parse_args().notes)
    table = swaps(lexicon("drugs")["brands"].items(), exact=False)
    patterns = [
        (re.compile(rf"(?<![\w/&+'’-]){re.escape(swap.form)}(?![\w/&+'’-])", re.IGNORECASE), swap)
        for each in table.values()
        for swap in each
    ]
    brands = BUILT_IN["brands"]
    perturbed(brands, WrittenNote(notes[0]), note_stream(0, brands, WrittenNote(notes[0])))
    began = time.process_time()
    fast = [perturbed(brands, note := WrittenNote(text), note_stream(0, brands, note)) for text in notes]
    halfway = time.process_time()
    slow = [one_pattern_each(text, patterns) for text in notes]
    ended = time.process_time()
    for found, expected in zip(fast, slow, strict=True):
        assert ([] if isinstance(found, str) else found[0]) == expected
    ratio = (ended - halfway) / (halfway - began)
    n_edits = sum(map(len, slow))
    print(f"{len(notes)} notes, {len(patterns)} medicines, {n_edits:,} renamed: {ratio:.1f} times as fast")
    total = 0.0
    read = [WrittenNote(text) for text in notes]
    for name, perturbation in BUILT_IN.items():
        began = time.process_time()
        for note in read:
            perturbed(perturbation, note, note_stream(0, perturbation, note))
        spent = (time.process_time() - began) / len(notes)
        total += spent
        print(f"  {name:16} {1e3 * spent:6.2f} ms per note")
    print(f"  all              {1e3 * total:6.2f} ms per note: 10,000 notes take {1e4 * total:.0f} s")
    return int(ratio < ASKED)


if __name__ == "__main__":
    sys.exit(main())
