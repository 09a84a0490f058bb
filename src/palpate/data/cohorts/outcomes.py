"""The outcomes cohort: admission notes, with death in hospital and the diagnosis groups at discharge.

Behavioural-testing paper, section 4.1, which takes the tasks from van Aken et al. 2021: 48,745 admission notes from
MIMIC-III, of which 9,829 are the test set. The note is what `sections` keeps of the stay's first discharge summary: a
later summary of the same stay may report, as history, what happened during its first part, and addenda are written
afterwards. Diagnoses are ICD-9 groups, the code up to the point: 428, V45, E849. The SQL is in `sql/outcomes.sql`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field
from scipy import sparse

from palpate.cases.cohort import Cohort
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, refuse_empty, split_cases
from palpate.data.cohorts.splits import BEHAVIOUR_RATIOS, Ratios
from palpate.data.hospitals import Announce, Hospital, open_hospital
from palpate.data.hospitals.discharge import ATTRIBUTES, Kept, join_cases, read_parts, stage_documents
from palpate.data.hospitals.mimic import DIAGNOSES_ICD, MIMIC_III, choose_layout
from palpate.data.hospitals.sections import admission_note
from palpate.data.tables.labels import encode
from palpate.errors import CohortError

MORTALITY = "mortality"
Task = Literal["mortality", "diagnoses", "both"]


class OutcomesOptions(BaseModel):
    """Which outcomes are labels, and which stays are cases."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Task = "both"
    newborns: Kept = "drop"
    summaries: Literal["first", "last"] = "first"
    """Which of several summaries of a stay is used: the first one says least about how the stay went."""
    min_count: int = Field(default=1, ge=1)
    """Diagnosis groups with fewer cases do not become labels; the cases are kept."""
    ratios: Ratios = BEHAVIOUR_RATIOS
    seed: int = 0
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""


def build_outcomes(
    source: Path,
    *,
    options: OutcomesOptions | None = None,
    name: str = "outcomes",
    progress: Announce | None = None,
) -> BuiltCohort:
    """Build the outcomes cohort from a folder in the layout of MIMIC-III."""
    chosen = options or OutcomesOptions()
    with open_hospital(source, progress=progress) as hospital:
        if choose_layout(source) is not MIMIC_III:
            raise CohortError(
                "the outcomes cohort needs MIMIC-III, but this folder has the layout of MIMIC-IV",
                file=source,
                hint="give the folder with NOTEEVENTS",
            )
        if chosen.task == MORTALITY:
            hospital.connection.execute("CREATE TABLE diagnosed (hadm_id BIGINT, codes VARCHAR[])")
        else:
            hospital.attach(DIAGNOSES_ICD)
            hospital.run("diagnoses")
        flow = stage_documents(hospital, MIMIC_III, summaries=chosen.summaries, addenda="leave")
        hospital.progress("labelling")
        hospital.run("outcomes", chosen.model_dump())
        flow += flow_steps(hospital.frame("SELECT subject_id, dropped FROM labelled"), _steps(chosen))
        refuse_empty(flow, source)
        frame = _read(hospital)
    reason = "no chief complaint, present illness or medical history was found"
    n_dropped = flow[-1].n_cases - frame.height
    flow.append(FlowStep("admission notes", frame.height, frame["patient_id"].n_unique(), n_dropped, reason))
    refuse_empty(flow, source)
    died = frame[MORTALITY]
    frame, step = split_cases(frame, died, ratios=chosen.ratios, seed=chosen.seed, file=chosen.splits)
    return BuiltCohort(_cohort(frame, chosen, name, source), (*flow, step))


def _steps(options: OutcomesOptions) -> dict[str, tuple[str, str]]:
    """The steps of `outcomes.sql` in its order: names, and reasons for dropping a stay."""
    coded = "not needed" if options.task == MORTALITY else "no ICD-9 code in DIAGNOSES_ICD"
    return {
        "newborn": (f"not newborn (newborns: {options.newborns})", "newborn"),
        "no diagnosis": (f"stays with a diagnosis (task: {options.task})", coded),
    }


def _read(hospital: Hospital) -> pl.DataFrame:
    """The stays that are kept, with their admission notes; full summaries are in memory only in batches."""
    hospital.progress("cutting admission notes")
    parts = []
    for part in read_parts(hospital):
        cut = pl.Series("text", [admission_note(text) for text in part["text"]], dtype=pl.String)
        parts.append(part.select("hadm_id", cut).drop_nulls())
    return join_cases(hospital, pl.concat(parts), time="admittime", columns=[f"died AS {MORTALITY}", "codes"])


def _cohort(frame: pl.DataFrame, options: OutcomesOptions, name: str, source: Path) -> Cohort:
    """The cohort with the labels of the task; diagnosis groups are sparse."""
    whole = Cohort.from_frame(frame.drop("codes"), labels=[MORTALITY], name=name, attributes=ATTRIBUTES)
    if options.task == MORTALITY:
        return whole
    coded = encode(frame["codes"], min_count=options.min_count)
    if not coded.labels:
        problem = f"no diagnosis group has {options.min_count} cases"
        raise CohortError(problem, file=source, hint="lower `min_count`")
    rare = f"{coded.n_rare} diagnosis groups with fewer than {options.min_count} cases are left out"
    facts = (*whole.facts, rare) if coded.n_rare else whole.facts
    if options.task == "diagnoses":
        return Cohort(whole.cases, coded.labels, coded.y, whole.attributes, facts)
    y = sparse.csc_array(sparse.hstack([whole.y, coded.y]), dtype=np.uint8)
    return Cohort(whole.cases, (MORTALITY, *coded.labels), y, whole.attributes, facts)
