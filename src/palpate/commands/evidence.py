"""Spans in formats that coders open in their own tools: MDACE's JSON, UIMA CAS JSON for INCEpTION, and tables.

`palpate evidence RUN` writes the spans that the audit found, missed and got wrong; `palpate codes export` writes
annotations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import polars as pl

from palpate.commands.codes import check_table, write_table
from palpate.data.annotations import mdace
from palpate.data.annotations.evidence_tables import read_evidence, read_note_places
from palpate.data.annotations.inception import FORMATS as EXPORTS
from palpate.data.annotations.mdace_export import charts_of_tables
from palpate.data.annotations.uima_cas import write_json
from palpate.data.annotations.webanno import LayerSpan
from palpate.data.annotations.webanno_projects import ChartIs, import_evidence
from palpate.errors import CohortError, ConfigError, RunError
from palpate.files import write_atomically
from palpate.run.directory import RunDirectory, file_name

SpanFormat = Literal["csv", "mdace", "cas"]
STATUSES = ("found", "partly", "missed", "false")
LAYER = "custom.Span"
"""The span layer of INCEpTION's basic projects; its feature `label` is what the tool shows."""
_AUDIT = "evidence"


class WrittenSpans(NamedTuple):
    """How many spans and files were written, and spans by model and status."""

    n_spans: int
    n_files: int
    counts: pl.DataFrame


def export_spans(
    run: Path,
    out: Path,
    *,
    form: SpanFormat = "csv",
    models: Sequence[str] = (),
    statuses: Sequence[str] = (),
    code_system: str | None = None,
) -> WrittenSpans:
    """Write the spans of a run's evidence audit as a table, or by model and chart in a folder.

    Text is written only if the audit was run with `include_text`; UIMA CAS cannot do without it.
    """
    if form == "csv":
        check_table(out)
    elif out.exists() and not out.is_dir():
        raise ConfigError(f"--format {form} writes a folder, and this is a file", file=out)
    directory = RunDirectory(run)
    directory.read_manifest()
    spans = directory.read_table(_AUDIT, "spans")
    if spans is None:
        hint = "run the audit 'evidence' with this version of palpate"
        raise RunError("the run has no spans of the evidence audit", file=run, hint=hint)
    chosen = _choose(spans, models, statuses)
    counts = chosen.group_by("model", "status", maintain_order=True).len("spans")
    if form == "csv":
        write_table(chosen, out)
        return WrittenSpans(chosen.height, 1, counts)
    texts = directory.read_table(_AUDIT, "texts")
    if form == "cas" and texts is None:
        hint = "set `include_text: true` in the configuration and run the audit again, or choose csv or mdace"
        raise RunError("UIMA CAS holds the charts' text, and the run has none", file=run, hint=hint)
    known = None if texts is None else dict(texts.iter_rows())
    notes = directory.read_table(_AUDIT, "notes")
    n_files = 0
    for (model,), part in chosen.group_by("model", maintain_order=True):
        place = out / file_name(str(model))
        if form == "cas":
            n_files += _write_cas(part, known or {}, place)
        else:
            n_files += _write_mdace(part, notes, known, place, code_system)
    return WrittenSpans(chosen.height, n_files, counts)


def export_annotations(
    source: Path,
    out: Path,
    *,
    notes: Path | None = None,
    annotator: str | None = None,
    layer: str | None = None,
    feature: str | None = None,
    code_system: str | None = None,
    chart: ChartIs = "document",
    setting: str | None = None,
    system: str | None = None,
    include_text: bool = False,
) -> int:
    """Write annotations as MDACE's JSON, one file per chart: from a table of evidence, or from an annotation project.

    Returns the number of charts.
    """
    if _is_table(source):
        if include_text:
            raise ConfigError("a table of evidence has no text", file=source, hint="leave out --include-text")
        evidence, texts = read_evidence(source).rows, None
        places = None if notes is None else read_note_places(notes).rows
    else:
        imported = import_evidence(
            source,
            annotator=annotator,
            layer=layer,
            feature=feature,
            code_system=code_system or "ICD-10-CM",
            chart=chart,
        )
        evidence, places = imported.evidence, imported.notes
        texts = dict(imported.cases.select("case_id", "text").iter_rows()) if include_text else None
    charts = charts_of_tables(
        evidence, places, code_system=code_system, texts=texts, setting=setting, system=system, file=source
    )
    if not charts:
        raise CohortError("there is no span to write", file=source, hint="check --layer, --feature and --annotator")
    return mdace.write(charts, out, include_text=include_text)


def _is_table(source: Path) -> bool:
    """Whether a file is a table of evidence; WebAnno's TSV says in its first line what it is."""
    ending = source.suffix.lower()
    if not source.is_file() or ending not in EXPORTS:
        return source.is_file()
    with source.open("rb") as file:
        return ending == ".tsv" and not file.read(32).removeprefix(b"\xef\xbb\xbf").startswith(b"#FORMAT=")


def _choose(spans: pl.DataFrame, models: Sequence[str], statuses: Sequence[str]) -> pl.DataFrame:
    """The spans of some models and statuses; an ensemble stands for its members."""
    there = spans["model"].unique(maintain_order=True).to_list()
    for name in models:
        if not any(_is_member(known, name) for known in there):
            raise ConfigError(f"the run has no spans of model '{name}'", hint=f"its models are: {', '.join(there)}")
    for status in statuses:
        if status not in STATUSES:
            raise ConfigError(f"unknown status '{status}'", hint=f"use {', '.join(STATUSES)}")
    kept = [known for known in there if not models or any(_is_member(known, name) for name in models)]
    rows = spans.filter(pl.col("model").is_in(kept))
    return rows.filter(pl.col("status").is_in(list(statuses))) if statuses else rows


def _is_member(known: str, name: str) -> bool:
    return known == name or re.fullmatch(rf"{re.escape(name)}\[\d+\]", known) is not None


def _write_mdace(
    part: pl.DataFrame,
    notes: pl.DataFrame | None,
    texts: dict[str, str] | None,
    place: Path,
    code_system: str | None,
) -> int:
    """One file per chart; the type of an annotation is its status, its description says who marked it."""
    rows = part.with_columns(
        type=pl.col("status"),
        description=pl.format("marked by {}", "marked_by"),
        note_id=pl.col("case_id" if notes is None else "note_id"),
    )
    charts = charts_of_tables(rows, notes, code_system=code_system, texts=texts, file=place)
    return mdace.write(charts, place, include_text=texts is not None)


def _write_cas(part: pl.DataFrame, texts: dict[str, str], place: Path) -> int:
    """One document per chart, readable by its owner only; a span's label is its code and status."""
    n = 0
    for (case,), rows in part.group_by("case_id", maintain_order=True):
        spans = [
            LayerSpan(
                row["start"],
                row["end"],
                LAYER,
                {
                    "label": f"{row['label']} {row['status']}",
                    **{"code": row["label"], "status": row["status"], "marked_by": row["marked_by"]},
                },
            )
            for row in rows.iter_rows(named=True)
        ]
        name = re.sub(r"[^\w.-]", "_", str(case))
        write_atomically(place / f"{name}.json", write_json(texts[str(case)], spans))
        n += 1
    return n
