"""Reviews of altered notes: the notes that they are drawn from, and the marks that a clinician saved.

The notes are a table that needs no labels: a column of texts, with patients and splits where there are any. The marks
are the file that the page of `palpate alter --sample` saves; it holds no note text.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palpate.cases import columns
from palpate.cases.columns import ColumnCheck, missing_column
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError, parse_json
from palpate.perturb.characteristics.review import MARKS, AlterationReview
from palpate.privacy import hides

FORMAT = "palpate_review"
_SAVED = "give the .json file that the page of `palpate alter --sample` saves"


@hides("texts", "cases")
class NoteTable(NamedTuple):
    """The notes of one split, in the order of the file."""

    texts: Sequence[str]
    patients: Sequence[object]
    names_patients: bool = True
    """Otherwise each note counts as a patient."""
    cases: Sequence[str] = ()
    """The notes' names, where they have any."""
    split: str | None = None
    """The split that they are of; None if the table has none."""


def read_notes(path: Path, *, text: str = "text", split: str | None = None) -> NoteTable:
    """The notes of a table; of one split, or of `test` where the table has splits, or of all."""
    form = format_of(path)
    names = form.columns(path)
    if text not in names:
        raise missing_column(text, names, file=path)
    if split is not None and "split" not in names:
        raise missing_column("split", names, file=path)
    wanted_columns = dict.fromkeys((text, "patient_id", "split", "case_id"))
    frame = form.frame(path, [name for name in wanted_columns if name in names], {})
    frame = frame.with_columns(columns.texts(ColumnCheck(frame[text], file=path)).alias(text))
    if "split" in names:
        wanted, known = split or "test", columns.splits(ColumnCheck(frame["split"], file=path))
        frame = frame.filter(known == wanted)
        if not frame.height:
            hint = f"its splits are {', '.join(sorted(set(known.to_list())))}; choose one with --split"
            raise CohortError(f"no note is in split '{wanted}'", file=path, hint=hint)
    if not frame.height:
        raise CohortError("the table has no rows", file=path, hint="give one row per note")
    patients = frame["patient_id"].to_list() if "patient_id" in names else range(frame.height)
    cases = frame["case_id"].cast(pl.String).fill_null("").to_list() if "case_id" in names else ()
    of_split = (split or "test") if "split" in names else None
    return NoteTable(frame[text].to_list(), patients, "patient_id" in names, cases, of_split)


def read_review(path: Path) -> AlterationReview:
    """The marks of one reviewer, counted."""
    saved = _json(path)
    to, marks = saved.get("to"), saved.get("marks")
    if saved.get(FORMAT) != 1 or not isinstance(to, dict) or not to or not isinstance(marks, list):
        raise CohortError("the file is not a review of alterations", file=path, hint=_SAVED)
    if not all(isinstance(part, str) for pair in to.items() for part in pair):
        raise CohortError("`to` does not name characteristics and groups", file=path, hint=_SAVED)
    given: Counter[str] = Counter()
    for row, one in enumerate(marks, start=1):
        mark = one.get("mark") if isinstance(one, dict) else None
        if mark not in MARKS:
            hint = f"a mark is {', '.join(MARKS[:-1])} or empty"
            raise CohortError(f"the mark is {json.dumps(mark)[:40]}", file=path, row=row, column="mark", hint=hint)
        given[mark] += 1
    if not given["right"] + given["wrong"]:
        hint = "mark them on the page, save again, and give that file"
        raise CohortError("no alteration is marked right or wrong", file=path, hint=hint)
    return AlterationReview(
        to=to,
        right=given["right"],
        wrong=given["wrong"],
        unsure=given["unsure"],
        unmarked=given[""],
        **{name: str(saved.get(name) or "")[:80] for name in ("reviewer", "cohort", "palpate")},
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        saved = parse_json(path.read_text(encoding="utf-8-sig"))
    except OSError:
        raise CohortError("the file can't be read", file=path, hint="check the path and its permissions") from None
    except ValueError:  # also what is not UTF-8
        raise CohortError("the file is not JSON", file=path, hint=_SAVED) from None
    return saved if isinstance(saved, dict) else {}
