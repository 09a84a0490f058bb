"""What a user may say about cases from people, visits and notes, in whatever standard; and what palpate may assume.

Only a default may be replaced by an assumption, never what a user has set, and each assumption is said aloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from palpate.data.cohorts.splits import VOCABULARY_RATIOS, Ratios

NOTES_ALONE = "notes alone are cases with `--set cases=notes --set outcome=none`, or with labels: `--set labels=FILE`"
_SHOWN = 5


def listed(value: object) -> object:
    """One value, or several with commas, as on the command line, is a list."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return (value,) if isinstance(value, int) else value


Names = Annotated[tuple[Annotated[str, BeforeValidator(str)], ...], BeforeValidator(listed)]


class RecordOptions(BaseModel):
    """Which visits or notes are cases, when the model is asked, and what it is to predict."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: Literal["visits", "notes"] = "visits"
    """One case for each visit, with its notes; or one for each note, at the time of the note."""
    outcome: Literal["readmission", "death", "condition", "file", "none"] = "readmission"
    """What happens within `days` after the index: another visit begins, the patient dies, one of `conditions` is
    recorded; or `file`: the labels are in the file `labels`; or `none`: the cohort has no labels."""
    days: int = Field(default=30, ge=1)
    """How long after the index the outcome may happen."""
    conditions: Names = ()
    """What counts as the condition: concept ids in OMOP, codes in FHIR (`I50*`, `http://snomed.info/sct|84114007`)."""
    labels: Path | None = None
    """A table with `case_id` (or `visit_occurrence_id`, `encounter_id`, `note_id`) and labels in columns of 0 and 1."""
    label: str | None = None
    """The label's name; default: the outcome's."""
    index: Literal["end", "start"] = "end"
    """The moment of prediction: the end or the start of the visit."""
    visits: Annotated[Literal["inpatient", "all"] | Names, Field(union_mode="left_to_right")] = "inpatient"
    """Visits that are cases and readmissions: inpatient ones, all, or a list of visit concepts or encounter classes."""
    people: Literal["known", "any"] = "known"
    """Whether patients must be in the table of patients, if there is one."""
    gap_hours: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """A visit that begins sooner after the index is its continuation, not a readmission."""
    deaths: Literal["drop", "keep"] = "drop"
    """Visits whose patient was dead by the index."""
    prevalent: Literal["drop", "keep"] = "drop"
    """Cases whose patient already had the condition by the index."""
    min_age: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """In years at the index; cases whose age is unknown are left out if it is above 0."""
    observation: Literal["respect", "merge", "ignore"] = "respect"
    """The index must be in an observation period, and `days` after it too; `merge`: overlapping periods are merged
    instead of refused. Without periods, the data end with the last visit that begins."""
    incomplete: Literal["drop", "keep"] = "drop"
    """Cases that are observed for less than `days`: all are dropped, or those with the outcome are kept."""
    text: Literal["auto", "require", "leave"] = "auto"
    """Whether cases need notes: `auto`, if there are any; `leave`: the cohort has no text."""
    which: Literal["all", "first", "last"] = "all"
    """Of several notes of a case: all of them in order of time, or one."""
    same_day: Literal["auto", "keep", "drop"] = "auto"
    """Notes of the day of the index, where the time of day is unknown: `auto` keeps them at the end of a visit only."""
    grace_hours: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Notes written so long after the index still count as written at it, such as discharge summaries."""
    window_days: int = Field(default=1, ge=0)
    """A note without a visit may be so many days older than the visit to which it is joined."""
    ratios: Ratios = VOCABULARY_RATIOS
    """Training, validation and test patients."""
    seed: int = 0
    """The same seed gives the same split."""
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""

    @model_validator(mode="before")
    @classmethod
    def _follow(cls, values: Any) -> Any:
        """Who names conditions or a file of labels need not say that these are the outcome."""
        if not isinstance(values, Mapping) or "outcome" in values:
            return values
        given = {"labels": "file", "conditions": "condition"}
        named = [outcome for option, outcome in given.items() if values.get(option)]
        return {**values, "outcome": named[0]} if len(named) == 1 else values

    @model_validator(mode="after")
    def _fit_together(self) -> RecordOptions:
        if self.outcome == "readmission" and self.cases == "visits" and self.index == "start":
            raise ValueError("a readmission follows the end of a visit: use index=end")
        if (self.outcome == "condition") != bool(self.conditions):
            raise ValueError("give `conditions` with outcome=condition, and only then")
        if (self.outcome == "file") != (self.labels is not None):
            raise ValueError("give `labels` with outcome=file, and only then")
        return self

    @property
    def keeps_same_day(self) -> bool:
        """Whether notes of the index's day count where the time of day is unknown."""
        return self.same_day == "keep" or (self.same_day == "auto" and (self.index == "end" or self.cases == "notes"))

    @property
    def follows(self) -> bool:
        """Whether a case must be observed after its index."""
        return self.outcome not in ("file", "none") and self.observation != "ignore"

    def unsaid(self, *names: str) -> bool:
        """Whether the user has set none of these options, so that palpate may assume others."""
        return not self.model_fields_set & {*names}


Chosen = TypeVar("Chosen", bound=RecordOptions)


def notes_alone(options: Chosen) -> tuple[Chosen, tuple[str, ...]]:
    """The options for a source that has notes but no visits, and what they assume; unchanged if a user wants visits."""
    if not options.unsaid("cases"):
        return options, ()
    if options.outcome == "file":
        return options.model_copy(update={"cases": "notes"}), ("cases=notes, because there are no visits",)
    if not options.unsaid("outcome"):
        return options, ()
    said = "cases=notes and outcome=none, because there are notes but no visits: each note is a case, and has no label"
    return options.model_copy(update={"cases": "notes", "outcome": "none"}), (said,)


def every_kind(options: Chosen, kinds: Sequence[str]) -> tuple[Chosen, tuple[str, ...]]:
    """The options for a source without an inpatient visit, and what they assume; unchanged if a user wants a kind."""
    if not options.unsaid("visits"):
        return options, ()
    listed = ", ".join(kind or "none" for kind in kinds[:_SHOWN]) + (", ..." if len(kinds) > _SHOWN else "")
    said = (
        f"visits=all, because no visit is inpatient (kinds of visits: {listed}): "
        "every visit is a case, and any later one is a readmission"
    )
    return options.model_copy(update={"visits": "all"}), (said,)
