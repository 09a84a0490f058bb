"""The ADE corpus, version 2: sentences from PubMed case reports with and without an adverse effect of a drug.

`DRUG-AE.rel` has one relation per row, `pmid|sentence|effect|begin|end|drug|begin|end`, and `ADE-NEG.txt` has one
sentence without a relation per row, `pmid NEG sentence` (Gurulingappa et al. 2012). Offsets are relative to the
abstract, which is not in the files, so drug and effect are located in the sentence by the distance between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.errors import CohortError
from palpate.privacy import hides

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


@hides("sentence")
class DrugEffect(NamedTuple):
    """A drug and its adverse effect in a sentence; spans are characters of the sentence."""

    pmid: str
    sentence: str
    effect: tuple[int, int]
    drug: tuple[int, int]


def is_ade_corpus(folder: Path) -> bool:
    """Whether the folder has the corpus's two files."""
    return (folder / RELATIONS).is_file() and (folder / NEGATIVES).is_file()


def read_ade_corpus(folder: Path) -> pl.DataFrame:
    """Sentences with a relation, once per abstract, then those without one.

    `drug_spans` and `effect_spans` are the distinct spans in the sentence, as in `12-24 30-41`; null without a
    relation.
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


def read_relations(file: Path) -> Iterator[DrugEffect]:
    """The relations in `DRUG-AE.rel`, with their spans in the sentence."""
    for row, line in _lines(file):
        cells = line.split("|")
        if len(cells) != len(_FIELDS):
            raise CohortError(
                f"expected {len(_FIELDS)} fields separated by '|' but found {len(cells)}",
                file=file,
                row=row,
                hint="correct the row",
            )
        offsets = {name: _offset(cells[at], name, file, row) for at, name in enumerate(_FIELDS) if at in (3, 4, 6, 7)}
        pmid, sentence, effect, drug = cells[0], cells[1], cells[2], cells[5]
        distance = offsets["begin of drug"] - offsets["begin"]
        starts = [match.start() for match in re.finditer(f"(?={re.escape(effect)})", sentence)] if effect else []
        begin = next((at for at in starts if at + distance >= 0 and sentence.startswith(drug, at + distance)), None)
        if begin is None or not drug:
            raise CohortError(
                "the sentence does not contain the drug and the effect at the distance that their offsets imply",
                file=file,
                row=row,
                hint="check the offsets",
            )
        at = begin + distance
        yield DrugEffect(_pmid(pmid, file, row), sentence, (begin, begin + len(effect)), (at, at + len(drug)))


def read_negatives(file: Path) -> Iterator[tuple[str, str]]:
    """The abstract and the sentence in each row of `ADE-NEG.txt`."""
    for row, line in _lines(file):
        pmid, mark, sentence = [*line.split(" ", 2), "", ""][:3]
        if mark != "NEG" or not sentence.strip():
            raise CohortError(
                "the row does not have the form `pmid NEG sentence`", file=file, row=row, hint="correct it"
            )
        yield _pmid(pmid, file, row), sentence


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CohortError("the file is not UTF-8 text", file=file, hint="download it again") from None
    except OSError as error:
        raise CohortError(
            f"the file can't be read ({error.strerror})", file=file, hint="check its permissions"
        ) from None
    for row, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield row, line.removesuffix("\r")


def _offset(cell: str, name: str, file: Path, row: int) -> int:
    if not cell.isdecimal():
        raise CohortError(
            f"'{cell[:20]}' is not an offset", file=file, row=row, column=name, hint="write a whole number"
        )
    return int(cell)


def _pmid(cell: str, file: Path, row: int) -> str:
    if not cell.isdecimal():
        raise CohortError(
            f"'{cell[:20]}' is not a PubMed id", file=file, row=row, column="pmid", hint="write a whole number"
        )
    return cell


def _written(spans: set[tuple[int, int]]) -> str:
    return " ".join(f"{begin}-{end}" for begin, end in sorted(spans))
