"""The predictions that MDACE's repository publishes, against its annotations: exact spans, which need no note text.

Evidence paper, Tables 9 and 10. `predictions/MODEL/SETTING/SYSTEM/NOTES/` has the test charts; NOTES says which notes
the model read. A span is found if it has the same note, code, begin and end as one that a coder marked.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from palpate.data.annotations import AnnotatedChart, mdace
from palpate.errors import CohortError

SpanKey = tuple[int, int, str, int, int]
"""Admission, note, code, begin and end."""


class ExactSpans(NamedTuple):
    """A model's spans, how many of them coders marked exactly so, and all that coders marked in these notes.

    `n_answered`: those of the coders' spans for whose code the model points at anything in that note.
    """

    n_predicted: int
    n_found: int
    n_gold: int
    n_answered: int

    @property
    def precision(self) -> float | None:
        """The share of predicted spans that coders marked."""
        return self.n_found / self.n_predicted if self.n_predicted else None

    @property
    def recall(self) -> float | None:
        """The share of coders' spans that the model found."""
        return self.n_found / self.n_gold if self.n_gold else None


class PublishedPredictions(NamedTuple):
    """One set of predictions: whose they are, for which charts and notes, and how they compare."""

    model: str
    setting: str
    system: str
    notes: str
    spans: ExactSpans


def compare_exactly(gold: Iterable[AnnotatedChart], predicted: Iterable[AnnotatedChart]) -> ExactSpans:
    """Exact spans of the predicted charts; gold spans in other charts or categories of notes are left out."""
    theirs = list(predicted)
    charts = {chart.hadm_id for chart in theirs}
    categories = {note.category.strip() for chart in theirs for note in chart.notes}
    ours = _keys((chart for chart in gold if chart.hadm_id in charts), categories)
    said = _keys(theirs, categories)
    pointed = {key[:3] for key in said}
    return ExactSpans(len(said), len(said & ours), len(ours), sum(key[:3] in pointed for key in ours))


def compare_published(folder: Path) -> list[PublishedPredictions]:
    """Every set of predictions in the repository, in the order of their folders; none if it has no predictions."""
    places = sorted({file.parent for file in (folder / mdace.PREDICTIONS).rglob("*.json")})
    found = []
    for place in places:
        parts = place.relative_to(folder / mdace.PREDICTIONS).parts
        if len(parts) != 4:
            hint = "MDACE's repository has predictions/MODEL/SETTING/SYSTEM/NOTES"
            raise CohortError("the folder is not where predictions are", file=place, hint=hint)
        model, setting, system, notes = parts
        spans = compare_exactly(mdace.read(folder, setting=setting, system=system), mdace.read(place, predictions=True))
        found.append(PublishedPredictions(model, setting, system, notes, spans))
    return found


def _keys(charts: Iterable[AnnotatedChart], categories: set[str]) -> set[SpanKey]:
    return {
        (chart.hadm_id, note.note_id, a.code, a.begin, a.end)
        for chart in charts
        for note in chart.notes
        if note.category.strip() in categories
        for a in note.annotations
    }
