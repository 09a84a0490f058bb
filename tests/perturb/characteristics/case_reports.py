"""Case reports that were altered and read once, as hashes in case_reports.tsv.

    python -m tests.perturb.characteristics.case_reports    # what changed, to be read

The texts are abstracts put together from the sentences of the ADE corpus, which is read in place (`../shared/data`). No
rule was written on these 173 abstracts before they were read. Columns: PubMed id, then one outcome per group:
`group=hash` of the text, `group=kept`, `group=-` for a skip, or `group=wrong` where the text that was read is wrong and
no right one is reached yet.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from pathlib import Path

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer, FoundCharacteristics

DATA = Path(__file__).parents[4] / "shared" / "data"
FILE = Path(__file__).parent / "case_reports.tsv"
GROUPS = (
    *(("gender", group) for group in ("female", "male", "trans woman", "trans man", "non-binary")),
    ("age", "25"),
    ("age", "80"),
)


def is_here() -> bool:
    """Whether the corpus is on this machine."""
    return (DATA / "ade_corpus_v2" / "ADE-NEG.txt").exists()


def abstracts() -> dict[str, str]:
    """The sentences of each abstract: those with an adverse event, then the others in the order of the file."""
    told: dict[str, list[tuple[int, str]]] = defaultdict(list)
    with (DATA / "ade_corpus_v2" / "DRUG-AE.rel").open(encoding="utf-8", errors="replace") as file:
        for fields in (line.rstrip("\n").split("|") for line in file):
            if all(sentence != fields[1] for _, sentence in told[fields[0]]):
                told[fields[0]].append((int(fields[3]), fields[1]))
    plain: dict[str, list[str]] = defaultdict(list)
    with (DATA / "ade_corpus_v2" / "ADE-NEG.txt").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            key, _, sentence = line.rstrip("\n").partition(" NEG ")
            plain[key].append(sentence)
    keys = told.keys() | plain.keys()
    return {
        key: " ".join([*(s for _, s in sorted(told[key], key=lambda row: row[0])), *plain[key]]) for key in sorted(keys)
    }


def read_expected() -> dict[str, dict[str, str]]:
    """By PubMed id, the outcome of each group."""
    lines = (line.split("\t") for line in FILE.read_text("utf-8").splitlines() if not line.startswith("#"))
    return {key: dict(part.rsplit("=", 1) for part in rest) for key, *rest in lines}


def outcome(alterer: Alterer, found: FoundCharacteristics, group: tuple[str, str]) -> str:
    """An outcome as it is written in the file."""
    edits, action, _ = alterer.edits(found, group)
    if edits:
        return hashlib.sha256(splice(found.text, edits).encode()).hexdigest()[:8]
    return "kept" if action == "kept" else "-"


def main() -> None:
    """Show what differs from the file."""
    alterer, texts = Alterer(("gender", "age"), sure="normal"), abstracts()
    for key, told in read_expected().items():
        found = alterer.plan(texts[key])
        for group in GROUPS:
            now = outcome(alterer, found, group)
            if now != told[group[1]]:
                sys.stdout.write(f"{key}\t{group[1]}\t{told[group[1]]}\t{now}\n")


if __name__ == "__main__":
    main()
