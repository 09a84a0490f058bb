"""The ADE corpus, version 2: sentences of PubMed case reports with and without a drug's adverse effect.

`DRUG-AE.rel` has one relation a row, `pmid|sentence|effect|begin|end|drug|begin|end`, and `ADE-NEG.txt` one sentence
without a relation a row, `pmid NEG sentence` (Gurulingappa et al. 2012). The offsets count from the abstract's start,
which the files do not hold; drug and effect are placed in the sentence by the distance between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.errors import CohortError

RELATIONS, NEGATIVES = "DRUG-AE.rel", "ADE-NEG.txt"
SCHEMA = {
    "source": pl.String,
    "patient_id": pl.String,
    "label": pl.Int8,
    "text": pl.String,
    "drug_spans": pl.String,
    "effect_spans": pl.String,
}
_FIELDS = ("pmid", "sentence", "effect", "begin", "end", "drug", "begin of drug", "end of drug")


class Relation(NamedTuple):
    """A drug and its effect in a sentence; the spans are of the sentence."""

    pmid: str
    sentence: str
    effect: tuple[int, int]
    drug: tuple[int, int]


def is_ade_corpus(folder: Path) -> bool:
    """Whether the two files are there."""
    return (folder / RELATIONS).is_file() and (folder / NEGATIVES).is_file()


def read_ade_corpus(folder: Path) -> pl.DataFrame:
    """Sentences with a relation, once for each abstract, then those without.

    `drug_spans` and `effect_spans` are the distinct places in the sentence, as `12-24 30-41`; null without a relation.
    """
    spans: dict[tuple[str, str], tuple[set[tuple[int, int]], set[tuple[int, int]]]] = {}
    for relation in read_relations(folder / RELATIONS):
        drugs, effects = spans.setdefault((relation.pmid, relation.sentence), (set(), set()))
        drugs.add(relation.drug)
        effects.add(relation.effect)
    rows: list[tuple[str, str, int, str, str | None, str | None]] = [
        ("ade-corpus", pmid, 1, sentence, _written(drugs), _written(effects))
        for (pmid, sentence), (drugs, effects) in spans.items()
    ]
    rows += [("ade-corpus", pmid, 0, sentence, None, None) for pmid, sentence in read_negatives(folder / NEGATIVES)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def read_relations(file: Path) -> Iterator[Relation]:
    """The relations of `DRUG-AE.rel`, with places in the sentence."""
    for row, line in _lines(file):
        cells = line.split("|")
        if len(cells) != len(_FIELDS):
            raise CohortError(
                f"there are {len(cells)} fields between '|', not {len(_FIELDS)}", file=file, row=row, hint="check it"
            )
        offsets = {name: _offset(cells[at], name, file, row) for at, name in enumerate(_FIELDS) if at in (3, 4, 6, 7)}
        pmid, sentence, effect, drug = cells[0], cells[1], cells[2], cells[5]
        distance = offsets["begin of drug"] - offsets["begin"]
        starts = [match.start() for match in re.finditer(f"(?={re.escape(effect)})", sentence)] if effect else []
        begin = next((at for at in starts if at + distance >= 0 and sentence.startswith(drug, at + distance)), None)
        if begin is None or not drug:
            raise CohortError(
                "drug and effect do not stand in the sentence at the distance that their offsets give",
                file=file,
                row=row,
                hint="check the offsets",
            )
        at = begin + distance
        yield Relation(_pmid(pmid, file, row), sentence, (begin, begin + len(effect)), (at, at + len(drug)))


def read_negatives(file: Path) -> Iterator[tuple[str, str]]:
    """The abstract and the sentence of each row of `ADE-NEG.txt`."""
    for row, line in _lines(file):
        pmid, mark, sentence = [*line.split(" ", 2), "", ""][:3]
        if mark != "NEG" or not sentence.strip():
            raise CohortError("the row is not of the form `pmid NEG sentence`", file=file, row=row, hint="check it")
        yield _pmid(pmid, file, row), sentence


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CohortError("the file is no UTF-8 text", file=file, hint="download it again") from None
    except OSError as error:
        raise CohortError(f"the file can't be read ({error.strerror})", file=file, hint="check it") from None
    for row, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield row, line.removesuffix("\r")


def _offset(cell: str, name: str, file: Path, row: int) -> int:
    if not cell.isdecimal():
        raise CohortError(f"'{cell[:20]}' is no offset", file=file, row=row, column=name, hint="check it")
    return int(cell)


def _pmid(cell: str, file: Path, row: int) -> str:
    if not cell.isdecimal():
        raise CohortError(f"'{cell[:20]}' is no PubMed id", file=file, row=row, column="pmid", hint="check it")
    return cell


def _written(spans: set[tuple[int, int]]) -> str:
    return " ".join(f"{begin}-{end}" for begin, end in sorted(spans))
