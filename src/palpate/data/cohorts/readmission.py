"""The readmission cohort: one row per stay with a discharge summary, positive if it was followed by a readmission.

Vocabulary paper, appendix A.2. With the patient's stays in order of ADMITTIME, a stay is positive if the next ADMITTIME
is at or after DISCHTIME and at most 30 times 24 hours later; exactly 30 days to the second is positive, one second more
is not. A stay discharged less than 30 days before the last ADMITTIME in the table is left out, whatever its label,
because its readmission may not have been observed. The SQL is in `sql/readmission.sql`.

The paper does not mention deaths, newborns, elective returns, transfers and overlapping stays; each is an option, and
the flow table shows how many stays it drops.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from palpate.cases.cohort import Cohort
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, refuse_empty, split_cases
from palpate.data.cohorts.splits import VOCABULARY_RATIOS, Ratios
from palpate.data.hospitals import Announce, open_hospital
from palpate.data.hospitals.discharge import (
    ATTRIBUTES,
    Kept,
    Summaries,
    join_cases,
    join_parts,
    read_parts,
    stage_documents,
)
from palpate.data.hospitals.mimic import LayoutName, choose_layout

LABEL = "readmission"
Return = Literal["count", "ignore", "drop"]


class ReadmissionOptions(BaseModel):
    """What counts as a stay and as a return.

    A return that is an overlap, a transfer or elective counts as a readmission (`count`), is skipped in favour of the
    stay after it (`ignore`), or makes the stay before it unusable if it comes within `days` (`drop`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    days: int = Field(default=30, ge=1)
    deaths: Kept = "drop"
    """Stays that end in death, after which no readmission is possible."""
    newborns: Kept = "drop"
    electives: Return = "count"
    """Returns with the admission type ELECTIVE; the paper counts all causes."""
    transfers: Return = "count"
    """Returns within `transfer_hours` after discharge."""
    transfer_hours: float = Field(default=24.0, ge=0, allow_inf_nan=False)
    overlaps: Return = "ignore"
    """Stays that begin before this one's discharge: a continuation, unless they are counted."""
    summaries: Summaries = "join"
    """Several summaries of one stay: all of them in order of time, or only the first or last."""
    addenda: Literal["join", "leave"] = "join"
    layout: LayoutName = "auto"
    ratios: Ratios = VOCABULARY_RATIOS
    seed: int = 0
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""


def build_readmission(
    source: Path,
    *,
    options: ReadmissionOptions | None = None,
    name: str = "readmission",
    progress: Announce | None = None,
) -> BuiltCohort:
    """Build the readmission cohort from a folder in the layout of MIMIC-III or MIMIC-IV."""
    chosen = options or ReadmissionOptions()
    with open_hospital(source, progress=progress) as hospital:
        layout = choose_layout(source, chosen.layout)
        flow = stage_documents(hospital, layout, summaries=chosen.summaries, addenda=chosen.addenda)
        hospital.progress("labelling")
        hospital.run("readmission", chosen.model_dump())
        rows = hospital.frame("SELECT subject_id, dropped FROM labelled")
        flow += flow_steps(rows, _steps(chosen))
        refuse_empty(flow, source)
        hospital.progress("joining texts")
        texts = join_parts(pl.concat(read_parts(hospital)))
        frame = join_cases(hospital, texts, time="dischtime", columns=[LABEL])
    frame, step = split_cases(frame, frame[LABEL], ratios=chosen.ratios, seed=chosen.seed, file=chosen.splits)
    positive = int(frame[LABEL].sum())
    last = FlowStep(f"positive: {positive:,} ({positive / frame.height:.1%})", step.n_cases, step.n_patients)
    cohort = Cohort.from_frame(frame, labels=[LABEL], name=name, attributes=ATTRIBUTES)
    return BuiltCohort(cohort, (*flow, step, last))


def _steps(options: ReadmissionOptions) -> dict[str, tuple[str, str]]:
    """The steps of `readmission.sql` in its order: names, and reasons for dropping a stay."""
    kinds = [kind for kind in ("overlaps", "transfers", "electives") if getattr(options, kind) == "drop"]
    unclear = " or ".join(kinds) or "none chosen"
    return {
        "no discharge": ("stays with a discharge time", "DISCHTIME is empty"),
        "backwards": ("stays that end after they begin", "DISCHTIME is before ADMITTIME"),
        "death": (f"discharged alive (deaths: {options.deaths})", "died in hospital"),
        "newborn": (f"not newborn (newborns: {options.newborns})", "newborn"),
        "last month": (
            f"observed for {options.days} days",
            f"discharged less than {options.days} days before the last admission in the data",
        ),
        "next stay": ("next stay can be judged", f"the next stay is of a kind to drop ({unclear})"),
    }
