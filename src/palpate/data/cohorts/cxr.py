"""The chest X-ray cohort: images with the discharge summaries of the patient's earlier admissions.

Context paper, Section 3.1 and Appendix A. A note is context for a study if its admission began and ended before the
study and the note was charted before it: strictly before, to the second. Notes from the current or a later admission
never are. Whatever the labeler did not call positive is negative; `uncertain` can say otherwise for what it was not
sure of. The SQL is in `sql/cxr_studies.sql` and `sql/cxr.sql`.

The earlier notes of a case are one text, `prior`, in order of time, with `PRIOR_MARK` between them. A case also has
what earlier studies of the patient found: `earlier_LABEL` is 1 if any study found it, 0 if none did, and empty if there
was no earlier study.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from palpate.cases.cohort import Cohort
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, normal_gender, refuse_empty, split_cases
from palpate.data.cohorts.splits import Ratios
from palpate.data.hospitals import Announce, Hospital, open_hospital, sql_name
from palpate.data.hospitals.mimic import CHEXPERT, METADATA, MIMIC_IV, XRAY_LABELS, attach_xray_tables

CONTEXT_RATIOS = (0.8, 0.1, 0.1)
PRIOR_MARK = "\n\n===== NEXT NOTE =====\n\n"
"""The separator between two earlier notes; `palpate train pretest` splits notes at it."""
ATTRIBUTES = ("age", "gender", "view", "n_prior_admissions", "n_prior_notes", "n_earlier_studies")
EARLIER = tuple(f"earlier_{label}" for label in XRAY_LABELS)
_BLOCK = 500
_NOTES = {
    "addendum": ("discharge summaries (addenda: {addenda})", "an addendum"),
    "blank": ("notes with text", "the note is blank"),
    "no stay": ("notes with a stay", "hadm_id is empty"),
    "unknown stay": ("notes whose stay is known", "hadm_id is not in admissions"),
    "other patient": ("notes of the stay's patient", "subject_id differs from the one in admissions"),
    "no discharge": ("notes of a stay that ended", "dischtime is empty"),
    "no chart time": (
        "notes with a chart time",
        "charttime is empty, so it is unknown whether the note precedes a study",
    ),
}
_IMAGES = {
    "no time": ("images with a time", "StudyDate or StudyTime is empty"),
    "no labels": ("images with labels", "the study is not in the table of labels"),
    "unknown patient": ("images of known patients", "subject_id is not in MIMIC-IV's patients"),
    "view": ("views: {views}", "not a frontal view"),
    "further image": ("one case per {per}", "further image of the study"),
    "uncertain": ("uncertain labels: {uncertain}", "a label of the study is uncertain"),
    "no earlier admission": ("with an earlier admission", "no admission ended before the study"),
    "no earlier note": (
        "with an earlier discharge summary",
        "no summary of an earlier stay was charted before it",
    ),
}


class CxrCohortOptions(BaseModel):
    """Which images are cases, and which notes are their context."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    per: Literal["image", "study"] = "image"
    """What a case is: an image with its dicom_id, as in the paper; or a study with one image, frontal if possible."""
    views: Literal["all", "frontal"] = "all"
    """`frontal`: only images with view position PA or AP."""
    uncertain: Literal["zeros", "ones", "ignore"] = "zeros"
    """What -1 means: 0, as in the paper, 1, or that the study is left out."""
    addenda: Literal["join", "leave"] = "join"
    """Whether addenda to discharge summaries count as notes (`join`) or are left out (`leave`)."""
    max_notes: int | None = Field(default=None, ge=1)
    """Keep at most this many of the most recent earlier notes; None: all, as in the paper."""
    image_folder: str | None = None
    """The folder of `files/p10/...` in the path of an image; default: the folder of MIMIC-CXR-JPG's tables."""
    ratios: Ratios = CONTEXT_RATIOS
    seed: int = 0
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""


def build_cxr(
    source: Path, *, options: CxrCohortOptions | None = None, name: str = "cxr", progress: Announce | None = None
) -> BuiltCohort:
    """Build the chest X-ray cohort from a folder with MIMIC-IV and MIMIC-CXR-JPG in it or below it."""
    chosen = options or CxrCohortOptions()
    with open_hospital(source, progress=progress) as hospital:
        cxr_folder = attach_xray_tables(hospital)
        flow = _stage(hospital, chosen)
        refuse_empty(flow, source)
        hospital.progress("joining earlier notes")
        frame = _cases(hospital, chosen, cxr_folder).join(
            _priors(hospital, chosen), on=["patient_id", "n_prior_notes"], how="left", maintain_order="left"
        )
    any_positive = frame.select(pl.any_horizontal(*(pl.col(label) == 1 for label in XRAY_LABELS))).to_series()
    frame, step = split_cases(frame, any_positive, ratios=chosen.ratios, seed=chosen.seed, file=chosen.splits)
    cohort = Cohort.from_frame(frame, labels=XRAY_LABELS, name=name, attributes=(*ATTRIBUTES, *EARLIER))
    return BuiltCohort(cohort, (*flow, step))


def _stage(hospital: Hospital, options: CxrCohortOptions) -> list[FlowStep]:
    """Create the tables `labelled`, `history` and `contexts`; returns the flow of notes, then that of images."""
    hospital.run("cxr_cells")
    _check_cells(hospital)
    hospital.progress("reading studies")
    settings = options.model_dump()
    hospital.run("cxr_studies", settings)
    hospital.progress("reading stays")
    stays_sql, notes_sql = MIMIC_IV.sql
    hospital.run(stays_sql)
    hospital.progress(f"reading discharge summaries from {hospital.file(MIMIC_IV.notes.name).name}")
    hospital.run(notes_sql)
    hospital.progress("looking for earlier notes")
    hospital.run("cxr", settings)
    flow: list[FlowStep] = []
    for start, table, steps in (
        ("discharge summaries and addenda", "screened", _NOTES),
        ("images of chest X-rays", "labelled", _IMAGES),
    ):
        rows = hospital.frame(f"SELECT subject_id, dropped FROM {table}")
        flow.append(FlowStep(start, rows.height, rows["subject_id"].n_unique()))
        flow += flow_steps(rows, {key: (text.format(**settings), why) for key, (text, why) in steps.items()})
    return flow


def _check_cells(hospital: Hospital) -> None:
    refuse = hospital.refuse_cells
    refuse(METADATA.name, {"dicom_id": "dicom_id IS NULL"}, "", "fill the cell or drop the row")
    refuse(
        METADATA.name, {"studydate": "NOT is_study_date(studydate)"}, "which is not a date", "write it like 21800506"
    )
    clock = "write it like 93014.531, for half past nine and 14.531 seconds"
    refuse(METADATA.name, {"studytime": "NOT is_study_clock(studytime)"}, "which is not a time of day", clock)
    findings = {sql_name(label): f"NOT is_finding({sql_name(label)})" for label in XRAY_LABELS}
    hint = "labels are 1.0 (positive), 0.0 (negative), -1.0 (uncertain) or empty"
    refuse(CHEXPERT.name, findings, "which is not a label", hint)


def _cases(hospital: Hospital, options: CxrCohortOptions, cxr_folder: Path) -> pl.DataFrame:
    """The images that are kept, sorted by patient and time, with a cohort's columns."""
    named = [f'{sql_name(label)} AS "{label}"' for label in XRAY_LABELS]
    named += [f'earlier_{sql_name(label)} AS "earlier_{label}"' for label in XRAY_LABELS]
    listed = ", ".join(("dicom_id", "study_id", "subject_id", "time", *ATTRIBUTES, *named))
    frame = hospital.frame(
        f"SELECT {listed} FROM labelled WHERE dropped IS NULL ORDER BY subject_id, time, study_id, dicom_id"
    )
    root = str(cxr_folder.resolve()) if options.image_folder is None else options.image_folder
    patient, study = pl.col("subject_id").cast(pl.String), pl.col("study_id").cast(pl.String)
    folder = pl.concat_str(pl.lit("files/p"), patient.str.slice(0, 2), pl.lit("/p"), patient, pl.lit("/s"), study)
    path = pl.concat_str(folder, pl.lit("/"), "dicom_id", pl.lit(".jpg"))
    return frame.with_columns(
        normal_gender(),
        case_id=pl.col("dicom_id") if options.per == "image" else study,
        patient_id=patient,
        image=pl.concat_str(pl.lit(f"{root.rstrip('/')}/"), path) if root else path,
    ).drop("dicom_id", "study_id", "subject_id")


def _priors(hospital: Hospital, options: CxrCohortOptions) -> pl.DataFrame:
    """Each distinct context as one text, some patients at a time: `patient_id`, `n_prior_notes`, `prior`."""
    (n_contexts,) = hospital.frame("SELECT count(*) AS n FROM contexts").row(0)
    first = "0" if options.max_notes is None else f"contexts.n_prior_notes - {options.max_notes}"
    parts = []
    for start in range(0, n_contexts, _BLOCK):
        wanted = (
            "SELECT contexts.subject_id, contexts.n_prior_notes, history.* EXCLUDE (subject_id) "
            "FROM contexts JOIN history ON history.subject_id = contexts.subject_id "
            f"AND history.place <= contexts.n_prior_notes AND history.place > {first} "
            f"WHERE contexts.number > {start} AND contexts.number <= {start + _BLOCK}"
        )
        # The rows of a patient are adjacent in the file, so a block of patients is a narrow range of notes.
        low, high = hospital.frame(f"SELECT min(note_row) AS low, max(note_row) AS high FROM ({wanted})").row(0)
        parts.append(
            hospital.frame(
                f"SELECT wanted.subject_id::VARCHAR AS patient_id, wanted.n_prior_notes, "
                f"list(notes.text ORDER BY wanted.place) AS notes FROM ({wanted}) AS wanted "
                f"JOIN notes ON notes.rowid = wanted.note_row WHERE notes.rowid BETWEEN {low} AND {high} "
                "GROUP BY wanted.subject_id, wanted.n_prior_notes"
            ).select("patient_id", "n_prior_notes", prior=pl.col("notes").list.join(PRIOR_MARK))
        )
    return pl.concat(parts)
