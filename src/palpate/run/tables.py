"""What was asked and what was predicted, as tables, part by part: all of ten million rows would take gigabytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from polars.io.plugins import register_io_source

from palpate.results import ModelPredictions, NamesVariants, Plan

ROWS_PER_PART = 1 << 18

Named = Callable[[NDArray[np.int64]], pl.Series]


def write_parts(path: Path, parts: Iterator[pl.DataFrame]) -> None:
    """Tables one after the other in one Parquet file; several are written as they come."""
    first = list(islice(parts, 2))
    if len(first) == 1:
        first[0].write_parquet(path)
        return

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        return chain(first, parts)

    whole = register_io_source(source, schema=first[0].schema)
    whole.sink_parquet(path, row_group_size=ROWS_PER_PART)


def variant_tables(plan: Plan[Any]) -> Iterator[pl.DataFrame]:
    """Offsets and replacements, one row per edit; an unedited case is a row without offsets.

    Replacements that hold text of the notes (`plan.private`) are left out.
    """
    variants, n_cases = plan.variants, len(plan.cohort)
    ids = plan.cohort.cases.select("cohort", "case_id")
    cases = pl.concat([ids, pl.DataFrame({"cohort": [None], "case_id": [None]}, schema=ids.schema)])
    words = pl.Series([*([None] * len(variants.replacements) if plan.private else variants.replacements), None])
    made, groups = pl.Series([*variants.made, None]).cast(pl.String), pl.Series(variants.group_names, dtype=pl.String)
    named, words = _named(plan), words.cast(pl.String)
    for begin in range(0, max(len(variants), 1), ROWS_PER_PART):
        n_edits = variants.n_edits[begin : begin + ROWS_PER_PART]
        repeat = np.maximum(n_edits, 1)
        row = np.repeat(np.arange(begin, begin + len(n_edits)), repeat)
        edited = np.repeat(n_edits > 0, repeat)
        span = slice(int(variants.first_edit[begin]), int(variants.first_edit[begin + len(n_edits)]))
        start, end, replacement = (
            _at(edited, each[span]) for each in (variants.start, variants.end, variants.replacement)
        )
        parent = variants.parent[row]
        own = pl.Series(np.where(parent < n_cases, parent, n_cases))
        yield cases[own].with_columns(
            pl.Series("variant", row),
            groups[variants.group[row]].alias("group"),
            *(column(row) for column in named),
            pl.Series("start", start).replace(-1, None),
            pl.Series("end", end).replace(-1, None),
            words[np.where(replacement < 0, len(words) - 1, replacement)].alias("replacement"),
            made[np.where(parent < n_cases, len(made) - 1, parent - n_cases)].alias("made_text"),
        )


def _at(edited: NDArray[np.bool_], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The values of the edits at their rows, -1 in the others."""
    column = np.full(len(edited), -1, dtype=np.int64)
    column[edited] = values
    return column


def _named(plan: Plan[Any]) -> list[Named]:
    """The columns in which a plan names what its variants are about, of some rows; null without a name."""
    if not isinstance(plan.memory, NamesVariants):
        return []

    def column(name: str, code: NDArray[np.int32], names: pl.Series) -> Named:
        return lambda row: names[np.where(code[row] < 0, len(names) - 1, code[row])].alias(name)

    columns = []
    for name, named in plan.memory.variant_names().items():
        code = np.full(len(plan.variants), -1, dtype=np.int32)
        code[named.row] = named.code
        columns.append(column(name, code, pl.Series([*named.names, None], dtype=pl.String)))
    return columns


def prediction_tables(parts: Mapping[str, ModelPredictions]) -> Iterator[pl.DataFrame]:
    """One model's predictions for all audits that asked for any, in the order of their variants.

    `labels` says, as a JSON list, which labels the numbers in `p` are of: each audit has its own.
    """
    asked = {audit: part for audit, part in parts.items() if len(part.p)} or parts
    # An enumeration, because polars would write the names of thousands of labels out for each row.
    named = pl.Enum(list(dict.fromkeys(_label_list(part) for part in asked.values())))
    if sum(len(part.p) for part in asked.values()) <= ROWS_PER_PART:
        yield pl.concat([_predictions(audit, part, 0, named) for audit, part in asked.items()])
        return
    for audit, part in asked.items():
        for begin in range(0, len(part.p), ROWS_PER_PART):
            yield _predictions(audit, part, begin, named)


def _label_list(part: ModelPredictions) -> str:
    return json.dumps(part.labels, ensure_ascii=False)


def _predictions(audit: str, part: ModelPredictions, begin: int, named: pl.Enum) -> pl.DataFrame:
    p, seen = part.p[begin : begin + ROWS_PER_PART], part.seen[begin : begin + ROWS_PER_PART]
    frame = pl.DataFrame(
        {
            "audit": pl.repeat(audit, len(p), eager=True),
            "variant": np.arange(begin, begin + len(p)),
            "seen": seen,
            "labels": pl.repeat(_label_list(part), 1, eager=True).cast(named).new_from_index(0, len(p)),
            "p": pl.Series(p, dtype=pl.Array(pl.Float64, p.shape[1])).arr.to_list(),
        }
    )
    return frame.filter(np.asarray(~np.isnan(p).any(axis=1)))
