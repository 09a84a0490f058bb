"""The coding cohort: charts with their notes as one text, codes as labels, and the evidence that coders marked.

Evidence paper, Sections 3, 4 and 6.1. A case is a chart (an admission). Its text consists of its notes, discharge
summaries first and the others by time, with `NOTE_MARK` between them; offsets of evidence are converted from the note
to this text. Splits are MDACE's lists. They list charts, so a patient may be in two of them: see `patients`.

With `charts: code-ev`, charts without annotations are added for training, with the codes that they were billed with.
The SQL is in `sql/mdace.sql` and `sql/billed_*.sql`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, get_args

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palpate.cases.cohort import Cohort
from palpate.cases.evidence import is_category
from palpate.data.annotations import AnnotatedChart, mdace
from palpate.data.annotations.mdace_notes import tidy
from palpate.data.codes import dotted
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, refuse_empty, split_cases
from palpate.data.cohorts.mdace_sources import ChartNote, find_folders, read_chart_notes
from palpate.data.cohorts.splits import Ratios
from palpate.data.hospitals import Announce
from palpate.data.hospitals.discharge import ATTRIBUTES
from palpate.data.hospitals.records import NOTE_MARK
from palpate.data.tables.labels import encode
from palpate.errors import CohortError
from palpate.privacy import hides

EVIDENCE = {
    **{"case_id": pl.String(), "label": pl.String(), "start": pl.Int64(), "end": pl.Int64(), "note_id": pl.String()},
    **{"code_system": pl.String(), "completeness": pl.String(), "type": pl.String()},
}
NOTES = {
    **{"case_id": pl.String(), "note_id": pl.String(), "category": pl.String()},
    **{"start": pl.Int64(), "end": pl.Int64()},
}
_LATER = {"test": 2, "validation": 1, "train": 0}


NoteChoice = Literal["discharge", "annotated", "all"]
Categories = Annotated[tuple[str, ...], Field(min_length=1)]


def _a_list(value: object) -> object:
    """One category is a list of one."""
    return (value,) if isinstance(value, str) and value not in get_args(NoteChoice) else value


def _capitalised(value: object) -> object:
    return value.capitalize() if isinstance(value, str) else value


class MdaceOptions(BaseModel):
    """Which charts, which of their notes, and how spans are cleaned up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    setting: Annotated[Literal["Inpatient", "Profee"], BeforeValidator(_capitalised)] = "Inpatient"
    """Inpatient charts have sufficient evidence, Profee charts complete evidence."""
    system: Literal["ICD-9", "ICD-10"] = "ICD-9"
    charts: Literal["ev", "code-ev"] = "ev"
    """`ev`: the annotated charts; `code-ev`: also charts with billed codes only, for training."""
    notes: Annotated[NoteChoice | Categories, BeforeValidator(_a_list)] = "discharge"
    """Discharge summaries, as in the paper's Table 9; notes with evidence; all notes of the admission; or a list of
    categories, such as the code-able notes of Table 10: discharge, physician, radiology."""
    labels: Literal["auto", "annotated", "both"] = "auto"
    """`both`: also billed ICD-9 codes, the paper's final codes; `auto`: `both` for code-ev, else `annotated`."""
    trim: bool = False
    """Whether spans lose blanks and punctuation at their ends."""
    merge: Literal["none", "blanks", "punctuation"] = "none"
    """Whether spans of the same code are merged if there are only blanks (or also punctuation) between them."""
    patients: Literal["apart", "charts"] = "apart"
    """`apart`: drop a chart if its patient also has one in a later split; `charts`: each chart is its own patient."""
    split: Literal["mdace", "draw"] = "mdace"
    """MDACE's lists, or a split drawn by patient in `ratios` with `seed`."""
    ratios: Ratios = (0.6, 0.2, 0.2)
    seed: int = 0
    mdace: Path | None = None
    """The folder with MDACE's files, if they are not in the source."""
    mimic: Path | None = None
    """The folder with NOTEEVENTS, if it is not in the source."""

    @model_validator(mode="after")
    def _billed_codes_are_icd_9(self) -> MdaceOptions:
        if self.system == "ICD-10" and self.adds_billed:
            raise ValueError("billed codes are ICD-9: use system=ICD-9, or charts=ev and labels=annotated")
        if self.charts == "code-ev" and self.split == "draw":
            raise ValueError("charts=code-ev is one of MDACE's lists: use split=mdace")
        return self

    @property
    def adds_billed(self) -> bool:
        """Whether billed codes are labels too."""
        return self.labels == "both" or (self.labels == "auto" and self.charts == "code-ev")


@hides("text")
class JoinedNotes(NamedTuple):
    """Several notes as one text, and where each of them starts."""

    text: str
    starts: tuple[int, ...]


class _ChartCase(NamedTuple):
    """A chart with its chosen notes and codes."""

    hadm_id: int
    chart: AnnotatedChart | None
    notes: tuple[ChartNote, ...]
    codes: tuple[str, ...]
    split: str | None

    @property
    def patient(self) -> int | None:
        return self.notes[0].subject_id if self.notes else self.chart.subject_id if self.chart else None

    @property
    def dropped(self) -> str | None:
        """Why the chart is left out; None if it is kept."""
        if self.split is None:
            return "no split"
        return "no note" if not self.notes else None if self.codes else "no code"


def build_mdace(
    source: Path, *, options: MdaceOptions | None = None, name: str = "mdace", progress: Announce | None = None
) -> BuiltCohort:
    """Build the coding cohort, its evidence and its notes from a folder with MDACE and MIMIC-III in it or below it."""
    chosen = options or MdaceOptions()
    folders = find_folders(source, mdace_folder=chosen.mdace, mimic=chosen.mimic)
    charts = list(mdace.read(folders.mdace, setting=chosen.setting, system=chosen.system))
    splits = {} if chosen.split == "draw" else mdace.read_splits(folders.mdace, chosen.setting, kind=chosen.charts)
    wanted = {chart.hadm_id for chart in charts} | set(splits)
    found = read_chart_notes(
        charts,
        wanted,
        folders.mimic,
        only_summaries=chosen.notes in ("discharge", "annotated"),
        billed=chosen.adds_billed,
        progress=progress,
    )
    if isinstance(chosen.notes, tuple):
        _need_categories(chosen.notes, found.notes.values(), folders.mimic)
    between = None if chosen.merge == "none" else chosen.merge
    tidied = {chart.hadm_id: tidy(chart, trim=chosen.trim, merge=between) for chart in found.charts}
    cases = [
        _ChartCase(
            hadm_id,
            tidied.get(hadm_id),
            choose_notes(found.notes.get(hadm_id, ()), tidied.get(hadm_id), chosen.notes),
            _codes(tidied.get(hadm_id), found.billed.get(hadm_id, {})),
            "drawn" if chosen.split == "draw" else splits.get(hadm_id),
        )
        for hadm_id in sorted(wanted)
    ]
    kept, flow = _screen(cases, chosen)
    refuse_empty(flow, folders.mdace)
    return _assemble(kept, flow, chosen, found.stays, name)


def _need_categories(wanted: Sequence[str], notes: Iterable[Sequence[ChartNote]], folder: Path) -> None:
    """Refuse a category that no note of the charts has."""
    known = sorted({note.category.strip() for some in notes for note in some})
    for name in wanted:
        if not any(is_category(name, category) for category in known):
            problem = f"no note of the charts has the category '{name}'"
            raise CohortError(problem, file=folder, column="CATEGORY", hint=f"categories: {', '.join(known)}")


def choose_notes(
    notes: Iterable[ChartNote], chart: AnnotatedChart | None, which: str | Sequence[str]
) -> tuple[ChartNote, ...]:
    """The notes of a chart's text in order: discharge summaries, their addenda, then the others by time.

    Notes that are blank or marked as errors are left out, unless a coder marked evidence in them. A chart without
    annotations has its discharge summaries, unless all notes are wanted.
    """
    evident = {note.note_id for note in chart.notes if note.annotations} if chart else set()
    usable = [note for note in notes if note.note_id in evident or not (note.is_error or not note.text.strip())]
    if not isinstance(which, str):
        usable = [note for note in usable if any(is_category(name, note.category) for name in which)]
    elif which == "annotated" and chart is not None:
        usable = [note for note in usable if note.note_id in evident]
    elif which != "all":
        usable = [note for note in usable if note.is_summary]
    return tuple(sorted(usable, key=lambda note: note.order))


def join_notes(texts: Sequence[str]) -> JoinedNotes:
    """Join notes into one text; note k is `text[starts[k] : starts[k] + len(texts[k])]`."""
    starts, at = [], 0
    for text in texts:
        starts.append(at)
        at += len(text) + len(NOTE_MARK)
    return JoinedNotes(NOTE_MARK.join(texts), tuple(starts))


def evidence_rows(chart: AnnotatedChart, starts: Mapping[int, int]) -> list[tuple[object, ...]]:
    """The chart's spans as rows of `EVIDENCE`, in characters of its text, for the notes that are in the text."""
    return [
        (
            *(str(chart.hadm_id), a.code, starts[note.note_id] + a.begin, starts[note.note_id] + a.end),
            *(str(note.note_id), a.code_system, chart.completeness, a.type),
        )
        for note in chart.notes
        if note.note_id in starts
        for a in note.annotations
    ]


def _codes(chart: AnnotatedChart | None, billed: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    annotated = {a.code for note in chart.notes for a in note.annotations} if chart else set()
    return tuple(sorted(annotated | {dotted(code, system) for system, codes in billed.items() for code in codes}))


def _screen(cases: Sequence[_ChartCase], options: MdaceOptions) -> tuple[list[_ChartCase], list[FlowStep]]:
    """The charts that are kept, and the flow: in no list, no note, no code, a patient in a later split."""
    latest: dict[int | None, int] = {}
    if options.patients == "apart" and options.split == "mdace":
        for case in cases:
            if case.dropped is None:
                rank = _LATER[str(case.split)]
                latest[case.patient] = max(rank, latest.get(case.patient, rank))
    dropped = [
        case.dropped or ("other split" if latest and _LATER[str(case.split)] < latest[case.patient] else None)
        for case in cases
    ]
    rows = pl.DataFrame(
        {"subject_id": [case.patient for case in cases], "dropped": dropped},
        schema={"subject_id": pl.Int64, "dropped": pl.String},
    )
    lists = "any chart" if options.split == "draw" else f"MDACE's lists ({options.charts})"
    steps = {
        "no split": (f"charts of {lists}", "the chart is not in a list"),
        "no note": (
            f"charts with notes (notes: {_listed(options.notes)})",
            "NOTEEVENTS has no such note for the admission",
        ),
        "no code": ("charts with a code", "no code was annotated or billed"),
        "other split": ("each patient in one split", "the patient also has a chart in a later split"),
    }
    known = rows["subject_id"].drop_nulls().n_unique()
    flow = [FlowStep(f"charts of {options.setting}, {options.system}", rows.height, known), *flow_steps(rows, steps)]
    return [case for case, why in zip(cases, dropped, strict=True) if why is None], flow


def _listed(notes: str | Sequence[str]) -> str:
    return notes if isinstance(notes, str) else ", ".join(notes)


def _assemble(
    cases: Sequence[_ChartCase], flow: list[FlowStep], options: MdaceOptions, stays: pl.DataFrame | None, name: str
) -> BuiltCohort:
    """The cohort with texts and labels, and the two tables that go with it."""
    rows, evidence, notes, n_spans = [], list[tuple[object, ...]](), list[tuple[object, ...]](), 0
    for case in cases:
        case_id = str(case.hadm_id)
        joined = join_notes([note.text for note in case.notes])
        places = list(zip(case.notes, joined.starts, strict=True))
        notes += [(case_id, str(n.note_id), n.category, at, at + len(n.text)) for n, at in places]
        if case.chart is not None:
            evidence += evidence_rows(case.chart, {n.note_id: at for n, at in places})
            n_spans += sum(len(note.annotations) for note in case.chart.notes)
        patient = case_id if options.patients == "charts" else str(case.patient)
        rows.append((case_id, patient, case.split, joined.text, list(case.codes)))
    schema = {"case_id": pl.String, "patient_id": pl.String, "split": pl.String, "text": pl.String}
    frame = pl.DataFrame(rows, schema={**schema, "codes": pl.List(pl.String)}, orient="row")
    attributes: tuple[str, ...] = ()
    if stays is not None:
        frame, attributes = frame.join(stays, on="case_id", how="left", maintain_order="left"), ATTRIBUTES
    if options.split == "draw":
        evident = frame["case_id"].is_in([row[0] for row in evidence])
        frame, step = split_cases(frame.drop("split"), evident, ratios=options.ratios, seed=options.seed, file=None)
        flow = [*flow, step]
    told = f"evidence in these notes: {len(evidence):,} of {n_spans:,} spans"
    flow = [*flow, FlowStep(told, flow[-1].n_cases, flow[-1].n_patients)]
    whole = Cohort.from_frame(frame.drop("codes"), labels=(), name=name, attributes=attributes)
    coded = encode(frame["codes"])
    cohort = Cohort(whole.cases, coded.labels, coded.y, whole.attributes, whole.facts)
    tables = {
        "evidence": pl.DataFrame(evidence, schema=EVIDENCE, orient="row"),
        "notes": pl.DataFrame(notes, schema=NOTES, orient="row"),
    }
    return BuiltCohort(cohort, tuple(flow), tables)
