"""What coders decided, for others: MDACE's JSON, UIMA CAS JSON as a project of INCEpTION, a table, and the agreement.

A zip of CAS JSON has the layout that `palpate codes agreement` reads: `annotation/DOCUMENT/CODER.json` for each coder
and document that they finished, and what was settled in `curation/DOCUMENT/CURATION_USER.json`.
"""

from __future__ import annotations

import csv
import io
import math
import re
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from palpate.commands.evidence import LAYER
from palpate.data.annotations import AnnotatedChart, AnnotatedNote, Annotation, mdace
from palpate.data.annotations.cas_changes import AddedPlace, CodedPlace, change_cas, coded_places, further_features
from palpate.data.annotations.uima_cas import write_json
from palpate.data.annotations.webanno import CURATED, Document, Layer, LayerSpan
from palpate.data.annotations.webanno_projects import AnnotatedDocument, ChartIs, agreement_of
from palpate.privacy import as_cell
from palpate.stats.evidence import spans
from palpate.stats.evidence.annotation_agreement import character_agreement
from palpate.workbench.evidence.decisions import (
    ACCEPT,
    MODEL,
    REJECT,
    Decisions,
    ProposedSpan,
    ReviewedNote,
    SpanDecision,
    sources,
)
from palpate.workbench.evidence.outcomes import finished_notes
from palpate.workbench.pages import BenchProblem

_FEATURE = "label"
_HUMAN = "Human"


class ReviewedCharts(NamedTuple):
    """A set with everything that was said of it."""

    notes: Sequence[ReviewedNote]
    spans: Sequence[ProposedSpan]
    by_coder: Mapping[str, Decisions]
    settled: Decisions
    judged: Decisions
    read: Mapping[str, Collection[int]] = MappingProxyType({})
    """The notes without a proposed span that each coder has read."""

    def finished(self, coder: str) -> set[int]:
        """The notes of which a coder decided about every proposed span, or has read that there is nothing."""
        return finished_notes(self.spans, self.by_coder[coder], self.read.get(coder, ()))

    def curated(self) -> set[int]:
        """The notes of which everything is settled, and that somebody has read."""
        left = {span.note for span in self.spans if span.place not in self.settled}
        seen = {span.note for span in self.spans} | {note for notes in self.read.values() for note in notes}
        return seen - left


class CoderAgreement(NamedTuple):
    """Table 2 of the evidence paper for the notes that coders finished; None where a measure can't be said."""

    alpha: float | None
    kappa: float | None
    hooper: float | None
    n_notes: int
    """Notes that all of them finished."""
    n_coders: int
    unit: Literal["words", "characters"] = "words"
    """Characters where the text of a note is not here."""


def kept_spans(charts: ReviewedCharts, given: Decisions) -> dict[int, list[Annotation]]:
    """The spans that are left, by note and in order; the same one twice is one."""
    found: dict[int, dict[tuple[int, int, str], Annotation]] = {}
    for span in charts.spans:
        said = given.get(span.place)
        if said is not None and said.decision != REJECT:
            kept = _annotation(span, said)
            found.setdefault(span.note, {}).setdefault((kept.begin, kept.end, kept.code), kept)
    return {note: [those[key] for key in sorted(those)] for note, those in found.items()}


def _annotation(span: ProposedSpan, said: SpanDecision) -> Annotation:
    """What an accepted coder's span was stays; any other is now a human's."""
    if said.decision == ACCEPT and span.by != MODEL:
        return Annotation(span.begin, span.end, span.code, span.code_system, span.type, span.description)
    return Annotation(said.begin, said.end, said.code, span.code_system, _HUMAN)


def mdace_files(charts: ReviewedCharts, given: Decisions, *, include_text: bool) -> bytes:
    """A zip of MDACE's JSON, one file per chart; charts and notes must be named by number."""
    kept = kept_spans(charts, given)
    by_chart: dict[tuple[str, str | None, str | None], list[ReviewedNote]] = {}
    for note in charts.notes:
        if not (note.chart.isdecimal() and note.note.isdecimal()):
            raise BenchProblem("mdace_numbers")
        by_chart.setdefault((note.chart, note.setting, note.system), []).append(note)
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
    for coder, (name, given) in zip(who, charts.by_coder.items(), strict=True):
        kept, finished = kept_spans(charts, given), charts.finished(name)
        for note in charts.notes:
            if note.place in finished:
                yield f"annotation/{names[note.place]}/{coder}.json", _cas(charts, note, given, kept)
    kept, finished = kept_spans(charts, charts.settled), charts.curated()
    for note in charts.notes:
        if note.place in finished:
            yield f"curation/{names[note.place]}/{CURATED[0]}.json", _cas(charts, note, charts.settled, kept)


def _cas(charts: ReviewedCharts, note: ReviewedNote, given: Decisions, kept: Mapping[int, list[Annotation]]) -> str:
    """A note after a review: the document that was imported, with what was decided, or a new one."""
    if note.text is None:
        raise BenchProblem("cas_text")
    known = sources(note.source)
    if not known:
        left = kept.get(note.place, ())
        return write_json(note.text, [LayerSpan(one.begin, one.end, LAYER, {_FEATURE: one.code}) for one in left])
    side, base = next(iter(known.items()))
    there = coded_places(base)
    wanted: dict[CodedPlace, CodedPlace | None] = {}
    added: dict[CodedPlace, AddedPlace] = {}
    for span in charts.spans:
        said = given.get(span.place)
        if span.note != note.place or said is None:
            continue
        place = CodedPlace(span.begin, span.end, span.code)
        becomes = None if said.decision == REJECT else CodedPlace(said.begin, said.end, said.code)
        if place in there:
            wanted[place] = becomes
        elif becomes is not None:
            other = next((further_features(known[one], place) for one in known if one != side), AddedPlace(place))
            added[becomes] = other._replace(place=becomes)
    _merge(wanted, there)
    stays = {wanted.get(place, place) for place in there}
    return change_cas(base, wanted, [one for place, one in sorted(added.items()) if place not in stays])


def _merge(wanted: dict[CodedPlace, CodedPlace | None], there: Iterable[CodedPlace]) -> None:
    """Where a corrected span lands on one that is there, or two on the same place, one is left."""
    taken = {place for place in there if wanted.get(place, place) == place}
    for place, becomes in wanted.items():
        if becomes is not None and becomes != place:
            wanted[place] = None if becomes in taken else becomes
            taken.add(becomes)


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
    """How well coders agree about the notes that they finished, by the measures of `palpate codes agreement`.

    Where the text of one of these notes is not here, the units are characters instead of words.
    """
    every = {coder: charts.finished(coder) for coder in charts.by_coder}
    finished = {coder: notes for coder, notes in every.items() if notes}
    if len(finished) < 2:
        return CoderAgreement(None, None, None, 0, len(finished))
    seen = set().union(*finished.values())
    if any(note.text is None for note in charts.notes if note.place in seen):
        return _by_characters(charts, finished, [note for note in charts.notes if note.place in seen])
    return _by_words(charts, finished)


def _several(charts: ReviewedCharts) -> bool:
    """Whether charts have several notes."""
    return len({note.chart for note in charts.notes}) < len(charts.notes)


def _by_words(charts: ReviewedCharts, finished: Mapping[str, set[int]]) -> CoderAgreement:
    names, read = document_names(charts.notes), []
    for coder, places in finished.items():
        kept = kept_spans(charts, charts.by_coder[coder])
        for note in charts.notes:
            if note.place in places and note.text is not None:
                left = kept.get(note.place, ())
                placed = tuple(LayerSpan(one.begin, one.end, LAYER, {_FEATURE: one.code}) for one in left)
                content = Document(note.text, (Layer("T_SP", LAYER, (_FEATURE,)),), placed)
                read.append(AnnotatedDocument(note.chart, names[note.place], coder, content))
    chart: ChartIs = "project" if _several(charts) else "document"
    measured = agreement_of(read, (LAYER, _FEATURE), chart=chart).measures.row(0, named=True)
    return CoderAgreement(
        alpha=measured["alpha"],
        kappa=measured["kappa"],
        hooper=measured["hooper"],
        n_notes=measured["n_shared_documents"],
        n_coders=len(finished),
    )


def _by_characters(
    charts: ReviewedCharts, finished: Mapping[str, set[int]], notes: Sequence[ReviewedNote]
) -> CoderAgreement:
    """A note whose text is not here ends with the last character that anybody marked."""
    number = {note.place: k for k, note in enumerate(notes)}
    size = [0 if note.text is None else len(note.text) for note in notes]
    for span in charts.spans:
        if span.note in number and notes[number[span.note]].text is None:
            size[number[span.note]] = max(size[number[span.note]], span.end)
    codes: dict[str, int] = {}
    columns = []
    for coder, places in finished.items():
        rows = []
        for place, kept in kept_spans(charts, charts.by_coder[coder]).items():
            if place in places:
                rows += [(number[place], one.begin, one.end, codes.setdefault(one.code, len(codes))) for one in kept]
                size[number[place]] = max(size[number[place]], *(one.end for one in kept))
        columns.append(spans(*(zip(*rows, strict=True) if rows else ((), (), (), ()))))
    seen = np.array([[note.place in places for note in notes] for places in finished.values()])
    names = {note.chart: k for k, note in enumerate(charts.notes)}
    chart = [names[note.chart] for note in notes] if _several(charts) else None
    found = character_agreement(columns, size, chart=chart, seen=seen)
    alpha, kappa, hooper = (None if math.isnan(value) else value for value in (found.alpha, found.kappa, found.hooper))
    return CoderAgreement(alpha, kappa, hooper, int(seen.all(axis=0).sum()), len(finished), "characters")


def decision_table(charts: ReviewedCharts) -> str:
    """Every decision with its reason, as CSV; no text of notes."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    by_place = {one.place: one for one in charts.spans}
    span = ("chart", "note", "begin", "end", "code", "code_system", "marked_by")
    writer.writerow([*span, "who", "decision", "new_begin", "new_end", "new_code", "reason"])
    for who, given in (*charts.by_coder.items(), ("(adjudicated)", charts.judged)):
        for place, said in sorted(given.items()):
            one = by_place[place]
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
        raise BenchProblem("nothing_to_export")
    return out.getvalue()
