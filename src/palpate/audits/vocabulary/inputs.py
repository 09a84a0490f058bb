"""What the vocabulary audit is given: ratings, how common the notes' words are, and what there is without models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError, ConfigError
from palpate.perturb.words import Choice, Ratings, choose_words, count_words, normalise_word
from palpate.perturb.words.substitutes import ContextModel
from palpate.results import KnownWords

RARE = 5
"""A word in the notes of fewer patients is never chosen and never a substitute: it may be a name."""


@dataclass(frozen=True)
class RatingSheet:
    """Clinicians' ratings as plain values, because an audit's fields are its saved spec."""

    words: tuple[str, ...]
    raters: tuple[str, ...]
    scores: tuple[tuple[float | None, ...], ...]

    @property
    def ratings(self) -> Ratings:
        """As an array; NaN where a rater gave none."""
        scores = [[np.nan if score is None else score for score in row] for row in self.scores]
        return Ratings(self.words, self.raters, np.asarray(scores, dtype=np.float64))


def as_sheet(value: Any) -> Any:
    """Ratings from a file as a sheet; anything else as it is."""
    if not isinstance(value, Ratings):
        return value
    scores = tuple(tuple(None if np.isnan(x) else float(x) for x in row) for row in value.scores)
    return RatingSheet(value.words, value.raters, scores)


def by_patient(cohort: Cohort, rows: Ints) -> list[str]:
    """One text a patient: the notes in `rows`, with a gap between them."""
    texts: dict[int, list[str]] = {}
    for row in rows.tolist():
        texts.setdefault(int(cohort.patients[row]), []).append(cohort.texts[row])
    return ["\n\n".join(notes) for notes in texts.values()]


class WordsTold(NamedTuple):
    """In the notes of how many patients each word is: what few patients' notes have may be a name."""

    n_patients: Mapping[str, int]
    fewest: int

    @classmethod
    def of(cls, cohort: Cohort, rows: Ints) -> WordsTold:
        """Count the words of some notes."""
        texts = by_patient(cohort, rows)
        counts = {word: count.n_texts for word, count in count_words(texts).items()}
        return cls(counts, min(RARE, len(texts)))

    def is_common(self, word: str) -> bool:
        """Whether enough patients' notes have it."""
        return self.n_patients.get(normalise_word(word), 0) >= self.fewest

    def is_rare(self, word: str) -> bool:
        """Whether some, but not enough, have it."""
        return 0 < self.n_patients.get(normalise_word(word), 0) < self.fewest


def choose_common(
    cohort: Cohort, rows: Ints, labels: Sequence[str], told: WordsTold, *, how: Choice, n: int, min_notes: int
) -> tuple[str, ...]:
    """The first `n` words of some notes (all, for `vocabulary`) that are in at least `min_notes` of them.

    As `choose_words` orders them, without those that only few patients' notes have.
    """
    texts = [cohort.texts[row] for row in rows.tolist()]
    y = cohort.y_true(rows, labels)
    ordered = choose_words(texts, y, how=how, n=None, min_texts=min(min_notes, len(texts))).words
    common = [word for word in ordered if told.is_common(word)]
    if not common:
        raise CohortError(f"no word is in the notes of {told.fewest} patients", hint="give the words")
    return tuple(common if how == "vocabulary" else common[:n])


class NobodyLends:
    """For planning without models."""

    def vocabulary(self) -> KnownWords:
        """Nothing is known."""
        return KnownWords((), ())

    def context_model(self, source: str) -> ContextModel:
        """There is none."""
        raise ConfigError(f"the language model '{source}' is not at hand here")
