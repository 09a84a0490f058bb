"""The words of the notes: which ones are audited, and which are too rare, or too like a name, to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from palpate.audits.kit.scope import training_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints
from palpate.errors import CohortError
from palpate.perturb.words import Choice, choose_words, count_words, normalise_word
from palpate.perturb.words.names import find_names
from palpate.privacy import hides

RARE = 5
"""A word in the notes of fewer patients is never chosen and never a substitute: it may be a name."""


def texts_by_patient(cohort: Cohort, rows: Ints) -> list[str]:
    """One text per patient: the notes in `rows`, with a gap between them."""
    texts: dict[int, list[str]] = {}
    for row in rows.tolist():
        texts.setdefault(int(cohort.patients[row]), []).append(cohort.texts[row])
    return ["\n\n".join(notes) for notes in texts.values()]


class PatientCounts(NamedTuple):
    """How many patients have each word in their notes."""

    n_patients: Mapping[str, int]
    fewest: int
    """A word of fewer patients is rare."""
    names: frozenset[str] = frozenset()
    """Words that look like names of people, however many patients have them: they count as rare."""

    @classmethod
    def of(cls, cohort: Cohort, rows: Ints) -> PatientCounts:
        """Count the words of some notes."""
        texts = texts_by_patient(cohort, rows)
        counts = {word: count.n_texts for word, count in count_words(texts).items()}
        fewest = min(RARE, len(texts))
        names = find_names(texts, [word for word, n in counts.items() if n >= fewest])
        return cls(counts, fewest, names)

    def is_common(self, word: str) -> bool:
        """Whether enough patients have it in their notes, and it looks like nobody's name."""
        said = normalise_word(word)
        return self.n_patients.get(said, 0) >= self.fewest and said not in self.names

    def is_rare(self, word: str) -> bool:
        """Whether some patients have it in their notes, but not enough; or it looks like somebody's name."""
        said = normalise_word(word)
        return 0 < self.n_patients.get(said, 0) < self.fewest or said in self.names


@hides("texts")
class AuditedNotes(NamedTuple):
    """The notes that are audited, and those that words and substitutes are learned from."""

    cohort: Cohort
    rows: Ints
    texts: Sequence[str]
    training: Ints
    training_name: str
    """What the training notes are, in words."""
    counts: PatientCounts
    """Over both."""

    @classmethod
    def of(cls, cohort: Cohort, rows: Ints) -> AuditedNotes:
        """The audited rows, with the training split; where there is none, words are learned from the audited notes."""
        training, name = training_rows(cohort), "the training notes"
        if not len(training):
            training, name = rows, "the audited notes themselves, because there is no training split"
        texts = [cohort.texts[row] for row in rows.tolist()]
        return cls(cohort, rows, texts, training, name, PatientCounts.of(cohort, np.union1d(training, rows)))


def choose_common_words(
    cohort: Cohort, rows: Ints, labels: Sequence[str], counts: PatientCounts, *, how: Choice, n: int, min_notes: int
) -> tuple[str, ...]:
    """The first `n` words (all, for `vocabulary`) that are in at least `min_notes` of the notes in `rows`.

    In the order of `choose_words`, without the words of few patients.
    """
    texts = [cohort.texts[row] for row in rows.tolist()]
    y = cohort.y_true(rows, labels)
    ordered = choose_words(texts, y, how=how, n=None, min_texts=min(min_notes, len(texts))).words
    common = [word for word in ordered if counts.is_common(word)]
    if not common:
        raise CohortError(f"no word is in the notes of {counts.fewest} patients", hint="set `words:` of the audit")
    return tuple(common if how == "vocabulary" else common[:n])
