"""A team's own annotation project: how well its annotators agree, and its spans as evidence to score models with.

Evidence paper, Section 3.4, Table 2 and Appendix C. A path is an export (`inception`) or a folder of several. In the
paper a project is a chart and its documents are the notes; if a project is just a collection, each document is a chart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from palpate.data.annotations import Annotation, webanno
from palpate.data.annotations.inception import find_exports, read_export
from palpate.data.annotations.webanno import Document
from palpate.data.cohorts.mdace import EVIDENCE, NOTES, join_notes
from palpate.errors import CohortError
from palpate.privacy import hides
from palpate.stats.evidence import EvidenceWords, spans, tokenise
from palpate.stats.evidence.annotation_agreement import KINDS, Marks, Units, code_agreement, disagreements, marks_of

ChartIs = Literal["document", "project"]
_EVERYBODY = "all"


class AnnotatedDocument(NamedTuple):
    """A document as one annotator marked it."""

    project: str
    document: str
    annotator: str
    content: Document


class ProjectAgreement(NamedTuple):
    """Table 2 for all annotators and each pair, how often each kind of difference occurs, and every disagreement."""

    measures: pl.DataFrame
    kinds: pl.DataFrame
    disagreements: pl.DataFrame


@hides("cases", "notes")
class ImportedEvidence(NamedTuple):
    """Cases with their text and codes, and their tables of evidence and notes."""

    cases: pl.DataFrame
    evidence: pl.DataFrame
    notes: pl.DataFrame


def read_projects(folder: Path, *, curated: bool = False) -> list[AnnotatedDocument]:
    """Every document of an export, or of the exports in a folder, for each annotator."""
    return [
        AnnotatedDocument(export.name, document.removesuffix(".txt"), who, content)
        for export in find_exports(folder, curated=curated)
        for document, versions in read_export(export, curated=curated).items()
        for who, content in sorted(versions.items())
    ]


def choose_feature(
    read: Sequence[AnnotatedDocument], layer: str | None, feature: str | None, folder: Path
) -> tuple[str, str]:
    """The span layer and feature that hold the codes: as given, or the only ones with values."""
    used = {(s.layer, name) for one in read for s in one.content.spans for name, value in s.features.items() if value}
    fitting = sorted(
        (known, name)
        for known, name in used
        if (layer is None or layer in (known, known.rsplit(".", 1)[-1])) and feature in (None, name)
    )
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{known} ({name})" for known, name in sorted(used)) or "none"
    problem = "no span layer matches" if not fitting else "several span layers have values"
    hint = f"choose one with --layer and --feature; those with values are: {there}"
    raise CohortError(problem, file=folder, hint=hint)


def measure_agreement(
    folder: Path,
    *,
    layer: str | None = None,
    feature: str | None = None,
    chart: ChartIs = "document",
    units: Units = "pairs",
    include_text: bool = False,
) -> ProjectAgreement:
    """Agreement between two or more annotators; the units are words, without punctuation."""
    read = read_projects(folder)
    field = choose_feature(read, layer, feature, folder)
    return agreement_of(read, field, chart=chart, units=units, include_text=include_text, file=folder)


def agreement_of(
    read: Sequence[AnnotatedDocument],
    field: tuple[str, str],
    *,
    chart: ChartIs = "document",
    units: Units = "pairs",
    include_text: bool = False,
    file: Path | None = None,
) -> ProjectAgreement:
    """Agreement about documents that were read; `field` is the layer and the feature with the codes."""
    names = sorted({one.annotator for one in read})
    if len(names) < 2:
        hint = "agreement needs two or more; each annotator has a file in the document's folder"
        raise CohortError(f"all documents are by the same annotator, '{names[0]}'", file=file, hint=hint)
    project = _Project(read, field, chart, file)
    rows = [project.measure(names, units, _EVERYBODY)]
    if len(names) > 2:
        rows += [project.measure(pair, units, " and ".join(pair)) for pair in itertools.combinations(names, 2)]
    every = project.disagreements(names, include_text)
    counts = every.group_by("kind").len("n_runs_of_words")
    kinds = pl.DataFrame({"kind": list(KINDS)}).join(counts, on="kind", how="left", maintain_order="left")
    return ProjectAgreement(pl.DataFrame(rows), kinds.fill_null(0), every)


def import_evidence(
    folder: Path,
    *,
    annotator: str | None = None,
    layer: str | None = None,
    feature: str | None = None,
    code_system: str = "ICD-10-CM",
    chart: ChartIs = "document",
) -> ImportedEvidence:
    """The spans of one annotator, or the curated ones (`CURATION_USER`), as evidence for the documents."""
    read = read_annotator(folder, annotator)
    known, name = choose_feature(read, layer, feature, folder)
    cases: dict[str, list[AnnotatedDocument]] = {}
    for one in read:
        cases.setdefault(one.document if chart == "document" else one.project, []).append(one)
    rows, evidence, notes = list[tuple[object, ...]](), list[tuple[object, ...]](), list[tuple[object, ...]]()
    for case_id, documents in cases.items():
        if chart == "document" and len(documents) > 1:
            problem = f"the document '{case_id}' is in several projects"
            raise CohortError(problem, file=folder, hint="use --chart project, or import each project separately")
        joined = join_notes([one.content.text for one in documents])
        codes: set[str] = set()
        for one, at in zip(documents, joined.starts, strict=True):
            notes.append((case_id, one.document, "", at, at + len(one.content.text)))
            for a in annotations_in(one, known, name, code_system):
                codes.add(a.code)
                place = (case_id, a.code, at + a.begin, at + a.end)
                evidence.append((*place, one.document, code_system, None, a.type))
        rows.append((case_id, joined.text, sorted(codes)))
    schema = {"case_id": pl.String(), "text": pl.String(), "codes": pl.List(pl.String())}
    return ImportedEvidence(
        pl.DataFrame(rows, schema=schema, orient="row"),
        pl.DataFrame(evidence, schema=EVIDENCE, orient="row"),
        pl.DataFrame(notes, schema=NOTES, orient="row"),
    )


class _Project:
    """The documents of a project and what each annotator marked in them; documents, charts and codes are numbers."""

    def __init__(
        self, read: Sequence[AnnotatedDocument], field: tuple[str, str], chart: ChartIs, file: Path | None
    ) -> None:
        self._keys = sorted({(one.project, one.document) for one in read})
        number = {key: k for k, key in enumerate(self._keys)}
        texts: dict[int, str] = {}
        for one in read:
            k = number[one.project, one.document]
            if texts.setdefault(k, one.content.text) != one.content.text:
                problem = f"the annotators of '{one.document}' have different texts"
                raise CohortError(problem, file=file, hint="export the whole project again")
        self._words: EvidenceWords = tokenise([texts[k] for k in range(len(texts))], largest_number=None)
        projects = sorted({project for project, _ in self._keys})
        by_project = [projects.index(project) for project, _ in self._keys]
        self._chart = np.arange(len(self._keys)) if chart == "document" else np.asarray(by_project)
        marked = {
            (one.annotator, number[one.project, one.document]): annotations_in(one, *field, "ICD-10-CM") for one in read
        }
        self._codes = sorted({a.code for some in marked.values() for a in some})
        self._marked = marked

    def _marks(self, who: str) -> tuple[Marks, list[bool], int]:
        """What an annotator marked, which documents they saw, and how many spans they marked."""
        code = {name: k for k, name in enumerate(self._codes)}
        rows = [
            (d, a.begin, a.end, code[a.code]) for (name, d), some in self._marked.items() for a in some if name == who
        ]
        columns = tuple(zip(*rows, strict=True)) or ((), (), (), ())
        seen = [(who, d) in self._marked for d in range(len(self._keys))]
        return marks_of(self._words, spans(*columns)), seen, len(rows)

    def measure(self, names: Sequence[str], units: Units, who: str) -> dict[str, object]:
        """A row of Table 2; a measure that is undefined is null, with a reason."""
        marks, seen, counts = zip(*(self._marks(name) for name in names), strict=True)
        found = code_agreement(marks, self._words.note, chart=self._chart, seen=np.array(seen), units=units)
        values = {name: getattr(found, name) for name in ("alpha", "kappa", "hooper")}
        lacking = [name for name, value in values.items() if math.isnan(value)]
        reason = (
            f"{', '.join(lacking)}: undefined, because the shared documents have no variation in what is marked"
            if lacking
            else None
        )
        return {
            "annotators": who,
            "n_shared_documents": int(np.array(seen).all(axis=0).sum()),
            "n_spans": sum(counts),
            "n_marked_words": found.n_marks,
            **{name: None if math.isnan(value) else value for name, value in values.items()},
            "reason": reason,
        }

    def disagreements(self, names: Sequence[str], include_text: bool) -> pl.DataFrame:
        """Every run of words that one annotator marked and another did not, in characters of the document."""
        marks, seen, _ = zip(*(self._marks(name) for name in names), strict=True)
        rows = []
        for d in disagreements(marks, self._words.note, chart=self._chart, seen=np.array(seen)):
            start, end = int(self._words.begin[d.first_word]), int(self._words.end[d.last_word])
            covered = (self._words.texts[d.document][start:end],) if include_text else ()
            names_of = (*self._keys[d.document], names[d.annotator], names[d.other])
            rows.append((*names_of, self._codes[d.code], start, end, d.kind, *covered))
        text, whole = pl.String(), pl.Int64()
        schema: dict[str, pl.DataType] = dict.fromkeys(("project", "document", "annotator", "other", "code"), text)
        schema |= {"start": whole, "end": whole, "kind": text} | ({"text": text} if include_text else {})
        return pl.DataFrame(rows, schema=schema, orient="row")


def read_annotator(folder: Path, annotator: str | None) -> list[AnnotatedDocument]:
    """The documents of the named annotator, or of the only one."""
    if annotator == webanno.CURATED[0]:
        return read_projects(folder, curated=True)
    read = read_projects(folder)
    names = sorted({one.annotator for one in read})
    if annotator is None and len(names) > 1:
        hint = f"choose --annotator: {', '.join(names)}, or {webanno.CURATED[0]} for the curated version"
        raise CohortError("the documents have several annotators", file=folder, hint=hint)
    if annotator is not None and annotator not in names:
        raise CohortError(f"unknown annotator '{annotator}'", file=folder, hint=f"choose one of {', '.join(names)}")
    return [one for one in read if annotator in (None, one.annotator)]


def annotations_in(one: AnnotatedDocument, layer: str, feature: str, code_system: str) -> Iterable[Annotation]:
    """The codes in a document; none if it does not have the layer."""
    if not any(known.name == layer and feature in known.columns for known in one.content.layers):
        return ()
    return webanno.evidence(one.content, layer=layer, feature=feature, code_system=code_system)
