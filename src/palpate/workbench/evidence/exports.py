"""What coders decided, for others: MDACE's JSON, UIMA CAS JSON as a project of INCEpTION, a table, and the agreement.

A zip of CAS JSON has the layout that `palpate codes agreement` reads: `annotation/DOCUMENT/CODER.json` for each coder
and document that they finished, and what was settled in `curation/DOCUMENT/CURATION_USER.json`.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from palpate.commands.evidence import LAYER
from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.uima_cas import write_json
from palpate.data.annotations.webanno import CURATED, Document, Layer, LayerSpan
from palpate.data.annotations.webanno_projects import AnnotatedDocument, ChartIs, agreement_of
from palpate.errors import InputError
from palpate.files import as_cell
from palpate.workbench.evidence.decisions import (
    ACCEPT,
    MODEL,
    REJECT,
    Decisions,
    ProposedSpan,
    ReviewedNote,
    SpanDecision,
)

_FEATURE = "label"
_HUMAN = "Human"


class ReviewedCharts(NamedTuple):
    """A set with everything that was said of it."""

    notes: Sequence[ReviewedNote]
    spans: Sequence[ProposedSpan]
    by_coder: Mapping[str, Decisions]
    settled: Decisions
    judged: Decisions

    def finished(self, given: Decisions) -> set[int]:
        """The notes of which every span is decided."""
        return {note.place for note in self.notes} - {span.note for span in self.spans if span.place not in given}


class CoderAgreement(NamedTuple):
    """Table 2 of the evidence paper for the notes that coders finished; None where a measure can't be said."""

    alpha: float | None
    kappa: float | None
    hooper: float | None
    n_notes: int
    """Notes that all of them finished."""
    n_coders: int


def kept_spans(charts: ReviewedCharts, given: Decisions) -> dict[int, list[Annotation]]:
    """The spans that are left, by note and in order; the same one twice is one."""
    found: dict[int, dict[tuple[int, int, str], Annotation]] = {}
    for span in charts.spans:
        said = given.get(span.place)
        if said is not None and said.decision != REJECT:
            kept = _annotation(span, said)
            found.setdefault(span.note, {}).setdefault((kept.begin, kept.end, kept.code), kept)
    return {note: [spans[key] for key in sorted(spans)] for note, spans in found.items()}


def _annotation(span: ProposedSpan, said: SpanDecision) -> Annotation:
    """What an accepted coder's span was stays; any other is now a human's."""
    if said.decision == ACCEPT and span.by != MODEL:
        return Annotation(span.begin, span.end, span.code, span.code_system, span.type, span.description)
    return Annotation(said.begin, said.end, said.code, span.code_system, _HUMAN)


def mdace_files(charts: ReviewedCharts, given: Decisions, *, include_text: bool) -> bytes:
    """A zip of MDACE's JSON, one file per chart; charts and notes must be named by number."""
    kept = kept_spans(charts, given)
    by_chart: dict[tuple[str, str | None], list[ReviewedNote]] = {}
    for note in charts.notes:
        if not (note.chart.isdecimal() and note.note.isdecimal()):
            hint = "export as UIMA CAS JSON"
            raise InputError("MDACE's files name charts and notes by number, and these have other names", hint=hint)
        by_chart.setdefault((note.chart, note.system), []).append(note)
    made = [
        AnnotatedChart(
            int(notes[0].chart),
            tuple(
                AnnotatedNote(
                    int(note.note), note.category, tuple(kept.get(note.place, ())), note.description, note.text
                )
                for note in notes
            ),
            comment=notes[0].comment,
            setting=notes[0].setting,
            system=notes[0].system,
        )
        for notes in by_chart.values()
    ]
    with tempfile.TemporaryDirectory(prefix="palpate-") as folder:
        mdace.write(made, folder, include_text=include_text)
        files = sorted(path for path in Path(folder).rglob("*.json"))
        return _zipped((str(path.relative_to(folder)), path.read_bytes()) for path in files)


def cas_files(charts: ReviewedCharts) -> bytes:
    """A zip of UIMA CAS JSON, as a project: each coder's finished documents, and what was settled."""
    return _zipped((name, content.encode()) for name, content in _documents(charts))


def _documents(charts: ReviewedCharts) -> Iterator[tuple[str, str]]:
    names = document_names(charts.notes)
    who = _distinct([_plain(name) for name in charts.by_coder])
    for coder, given in zip(who, charts.by_coder.values(), strict=True):
        kept, finished = kept_spans(charts, given), charts.finished(given)
        for note in charts.notes:
            if note.place in finished:
                yield f"annotation/{names[note.place]}/{coder}.json", _cas(note, kept.get(note.place, ()))
    kept, finished = kept_spans(charts, charts.settled), charts.finished(charts.settled)
    for note in charts.notes:
        if note.place in finished:
            yield f"curation/{names[note.place]}/{CURATED[0]}.json", _cas(note, kept.get(note.place, ()))


def _cas(note: ReviewedNote, spans: Iterable[Annotation]) -> str:
    if note.text is None:
        hint = "export as MDACE JSON, or import the charts with their text"
        raise InputError("UIMA CAS holds the text of notes, and these have none here", hint=hint)
    return write_json(note.text, [LayerSpan(one.begin, one.end, LAYER, {_FEATURE: one.code}) for one in spans])


def document_names(notes: Sequence[ReviewedNote]) -> list[str]:
    """A name for each note that a file can have; no two are the same."""
    wanted = [note.chart if note.note == note.chart else f"{note.chart}-{note.note}" for note in notes]
    return _distinct([_plain(name) for name in wanted])


def _plain(name: str) -> str:
    return re.sub(r"[^\w .@+-]", "_", name).strip(". ")[:80] or "unnamed"


def _distinct(names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        tries = (name if k == 1 else f"{name}-{k}" for k in range(1, len(names) + 1))
        found.append(next(each for each in tries if each not in found and each not in CURATED))
    return found


def agreement(charts: ReviewedCharts) -> CoderAgreement:
    """How well coders agree about the notes that they finished, by the measures of `palpate codes agreement`."""
    names, read = document_names(charts.notes), []
    several = len({note.chart for note in charts.notes}) < len(charts.notes)
    for coder, given in charts.by_coder.items():
        kept, finished = kept_spans(charts, given), charts.finished(given)
        for note in charts.notes:
            if note.place in finished and note.text is not None:
                spans = kept.get(note.place, ())
                placed = tuple(LayerSpan(one.begin, one.end, LAYER, {_FEATURE: one.code}) for one in spans)
                content = Document(note.text, (Layer("T_SP", LAYER, (_FEATURE,)),), placed)
                read.append(AnnotatedDocument(note.chart, names[note.place], coder, content))
    coders = {one.annotator for one in read}
    if len(coders) < 2:
        return CoderAgreement(None, None, None, 0, len(coders))
    chart: ChartIs = "project" if several else "document"
    measured = agreement_of(read, (LAYER, _FEATURE), chart=chart).measures.row(0, named=True)
    return CoderAgreement(
        alpha=measured["alpha"],
        kappa=measured["kappa"],
        hooper=measured["hooper"],
        n_notes=measured["n_shared_documents"],
        n_coders=len(coders),
    )


def decision_table(charts: ReviewedCharts) -> str:
    """Every decision with its reason, as CSV; no text of notes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    span = ("chart", "note", "begin", "end", "code", "code_system", "marked_by")
    writer.writerow([*span, "who", "decision", "new_begin", "new_end", "new_code", "reason"])
    for who, given in (*charts.by_coder.items(), ("(adjudicated)", charts.judged)):
        for place, said in sorted(given.items()):
            one = charts.spans[place]
            note = charts.notes[one.note]
            row = (note.chart, note.note, one.begin, one.end, one.code, one.code_system, one.by, who, *said)
            writer.writerow([as_cell(cell) if isinstance(cell, str) else cell for cell in row])
    return out.getvalue()


def _zipped(files: Iterable[tuple[str, bytes]]) -> bytes:
    """The same files give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files:
            packed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    if not packed.namelist():
        raise InputError("there is nothing to export yet")
    return out.getvalue()
