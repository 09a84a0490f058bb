"""A team's own annotation project: how well its annotators agree, and its spans as evidence that models are scored by.

Evidence paper, Section 3.4, Table 2 and Appendix C. A folder is one exported project, or holds several of them. In the
paper a project was a chart and its documents the notes; where a project is a mere collection, a document is a chart.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from palpate.data.annotations import webanno
from palpate.data.annotations.mdace import Annotation
from palpate.data.annotations.webanno import Document
from palpate.data.cohorts.mdace import EVIDENCE, NOTES, join_notes
from palpate.errors import CohortError
from palpate.stats.evidence import NoteWords, spans, tokenise
from palpate.stats.evidence.annotation_agreement import KINDS, Marks, Units, code_agreement, disagreements, marks_of

ChartIs = Literal["document", "project"]
_EVERYBODY = "all"


class Read(NamedTuple):
    """A document as one annotator left it."""

    project: str
    document: str
    annotator: str
    content: Document


class ProjectAgreement(NamedTuple):
    """Table 2 for all annotators and each pair, how often they differ in which way, and every disagreement."""

    measures: pl.DataFrame
    kinds: pl.DataFrame
    disagreements: pl.DataFrame


class Imported(NamedTuple):
    """Cases with their text and codes, and the tables of evidence and notes that go with them."""

    cases: pl.DataFrame
    evidence: pl.DataFrame
    notes: pl.DataFrame


def read_projects(folder: Path, *, curated: bool = False) -> list[Read]:
    """Every document of a project, or of the projects in a folder, by each annotator."""
    part = "curation" if curated else "annotation"
    several = [] if (folder / part).is_dir() or not folder.is_dir() else _with_folder(folder, part)
    found = []
    for place in several or [folder]:
        for document, versions in webanno.read_project(place, curated=curated).items():
            name = document.removesuffix(".txt")
            found += [Read(place.resolve().name, name, who, content) for who, content in sorted(versions.items())]
    return found


def choose_feature(read: Sequence[Read], layer: str | None, feature: str | None, folder: Path) -> tuple[str, str]:
    """The span layer and feature that hold the codes: as given, else the only ones that have values."""
    used = {(s.layer, name) for one in read for s in one.content.spans for name, value in s.features.items() if value}
    fitting = sorted(
        (known, name)
        for known, name in used
        if (layer is None or layer in (known, known.rsplit(".", 1)[-1])) and feature in (None, name)
    )
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{known} ({name})" for known, name in sorted(used)) or "none"
    problem = "no span layer fits" if not fitting else "several span layers have values"
    hint = f"say --layer and --feature; with values there are: {there}"
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
    """Agreement of two or more annotators, words as units, punctuation disregarded."""
    read = read_projects(folder)
    field = choose_feature(read, layer, feature, folder)
    names = sorted({one.annotator for one in read})
    if len(names) < 2:
        hint = "agreement needs two or more; each annotator has a file of their own in the document's folder"
        raise CohortError(f"all documents are by one annotator, '{names[0]}'", file=folder, hint=hint)
    project = _Project(read, field, chart, folder)
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
) -> Imported:
    """The spans of one annotator, or the curated ones (`CURATION_USER`), as evidence in cases of their own text."""
    read = _of_annotator(folder, annotator)
    known, name = choose_feature(read, layer, feature, folder)
    cases: dict[str, list[Read]] = {}
    for one in read:
        cases.setdefault(one.document if chart == "document" else one.project, []).append(one)
    rows, evidence, notes = list[tuple[object, ...]](), list[tuple[object, ...]](), list[tuple[object, ...]]()
    for case_id, documents in cases.items():
        if chart == "document" and len(documents) > 1:
            problem = f"the document '{case_id}' is in several projects"
            raise CohortError(problem, file=folder, hint="say --chart project, or import each project by itself")
        joined = join_notes([one.content.text for one in documents])
        codes: set[str] = set()
        for one, at in zip(documents, joined.starts, strict=True):
            notes.append((case_id, one.document, "", at, at + len(one.content.text)))
            for a in _annotations(one, known, name, code_system):
                codes.add(a.code)
                place = (case_id, a.code, at + a.begin, at + a.end)
                evidence.append((*place, one.document, code_system, None, a.type))
        rows.append((case_id, joined.text, sorted(codes)))
    schema = {"case_id": pl.String(), "text": pl.String(), "codes": pl.List(pl.String())}
    return Imported(
        pl.DataFrame(rows, schema=schema, orient="row"),
        pl.DataFrame(evidence, schema=EVIDENCE, orient="row"),
        pl.DataFrame(notes, schema=NOTES, orient="row"),
    )


class _Project:
    """Documents, charts and codes by number, and what each annotator marked."""

    def __init__(self, read: Sequence[Read], field: tuple[str, str], chart: ChartIs, folder: Path) -> None:
        self._keys = sorted({(one.project, one.document) for one in read})
        number = {key: k for k, key in enumerate(self._keys)}
        texts: dict[int, str] = {}
        for one in read:
            k = number[one.project, one.document]
            if texts.setdefault(k, one.content.text) != one.content.text:
                problem = f"the annotators of '{one.document}' have different texts"
                raise CohortError(problem, file=folder, hint="export the project again, all of it")
        self._words: NoteWords = tokenise([texts[k] for k in range(len(texts))], largest_number=None)
        projects = sorted({project for project, _ in self._keys})
        by_project = [projects.index(project) for project, _ in self._keys]
        self._chart = np.arange(len(self._keys)) if chart == "document" else np.asarray(by_project)
        marked = {
            (one.annotator, number[one.project, one.document]): _annotations(one, *field, "ICD-10-CM") for one in read
        }
        self._codes = sorted({a.code for some in marked.values() for a in some})
        self._marked = marked

    def _marks(self, who: str) -> tuple[Marks, list[bool], int]:
        """What an annotator marked, which documents they saw, and how many spans that were."""
        code = {name: k for k, name in enumerate(self._codes)}
        rows = [
            (d, a.begin, a.end, code[a.code]) for (name, d), some in self._marked.items() for a in some if name == who
        ]
        columns = tuple(zip(*rows, strict=True)) or ((), (), (), ())
        seen = [(who, d) in self._marked for d in range(len(self._keys))]
        return marks_of(self._words, spans(*columns)), seen, len(rows)

    def measure(self, names: Sequence[str], units: Units, who: str) -> dict[str, object]:
        """A row of Table 2; a measure that is not defined is null, with the reason."""
        marks, seen, counts = zip(*(self._marks(name) for name in names), strict=True)
        found = code_agreement(marks, self._words.note, chart=self._chart, seen=np.array(seen), units=units)
        values = {name: getattr(found, name) for name in ("alpha", "kappa", "hooper")}
        lacking = [name for name, value in values.items() if math.isnan(value)]
        reason = (
            f"{', '.join(lacking)}: nothing that could differ was marked in what all have seen" if lacking else None
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
        """Every run of words that one marked and another did not, in characters of the document."""
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


def _with_folder(folder: Path, part: str) -> list[Path]:
    return sorted(place for place in folder.iterdir() if (place / part).is_dir())


def _of_annotator(folder: Path, annotator: str | None) -> list[Read]:
    """The documents of the annotator that is named, or of the only one there is."""
    if annotator == webanno.CURATED[0]:
        return read_projects(folder, curated=True)
    read = read_projects(folder)
    names = sorted({one.annotator for one in read})
    if annotator is None and len(names) > 1:
        hint = f"say --annotator, one of {', '.join(names)}, or {webanno.CURATED[0]} for the curated version"
        raise CohortError("several annotators marked the documents", file=folder, hint=hint)
    if annotator is not None and annotator not in names:
        raise CohortError(f"there is no annotator '{annotator}'", file=folder, hint=f"there are {', '.join(names)}")
    return [one for one in read if annotator in (None, one.annotator)]


def _annotations(one: Read, layer: str, feature: str, code_system: str) -> Iterable[Annotation]:
    """The codes of a document; a document without the layer has none."""
    if not any(known.name == layer and feature in known.columns for known in one.content.layers):
        return ()
    return webanno.evidence(one.content, layer=layer, feature=feature, code_system=code_system)
