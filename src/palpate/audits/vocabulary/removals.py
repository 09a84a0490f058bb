"""What a word itself does to the risk: the words that no clinician would use are taken out of their notes.

A swap does two things: the word goes and a substitute comes. A substitute that the model reads moves the risk whatever
it replaces, so a word that the model does not read has a sensitivity above 0 as soon as 'sepsis' is among its
substitutes. To say that a model hangs on a word takes the change that is left when no word comes in its place: the mean
over the notes that contain the word of |f(x) - f(x without the word)|, with a blank instead of all its occurrences. For
a model that adds up words it is exact: 0 for a word that the model does not read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from palpate.audits.vocabulary.intervals import (
    FEWEST_PATIENTS,
    Floats,
    change_interval,
    moments,
    strongest_change,
)
from palpate.audits.vocabulary.measures import SwapEffects, SwapLayout, lay_out
from palpate.audits.vocabulary.plan import REMOVED, Swaps
from palpate.cases.edits import Ints


class Removals(NamedTuple):
    """What taking words out did to the models' predictions."""

    words: Ints
    """The words that no clinician would use."""
    effects: SwapEffects

    @classmethod
    def of(
        cls, words: Ints, swaps: Swaps, patients: Ints, effects: SwapEffects, weight: Floats | None = None
    ) -> Removals:
        """From all swaps and what they did; `patients` and `weight` are of each row of the cohort."""
        return cls(words, replace(effects, layout=lay_out(swaps, patients, scheme=REMOVED, weight=weight)))

    @property
    def n_notes(self) -> Ints:
        """[words] Notes that a word was taken out of."""
        counts: Ints = self.effects.layout.n_notes[0]
        return counts


class RemovalScores(NamedTuple):
    """[model, word] The mean absolute change once a word is taken out, with its interval; NaN is undefined."""

    value: Floats
    low: Floats
    high: Floats


def score_removals(
    removed: Floats, layout: SwapLayout, swapped: Floats, swaps: SwapLayout, level: Floats | float
) -> RemovalScores:
    """From sums [model, measure, pool, slot] of the removals and of the swaps, as `SwapEffects` gives them.

    Where few patients moved, what the strongest word does to its patients says how far others might move. The words
    that no clinician would use may all be weak, so the strongest is looked for among the swaps of all words too.
    """
    out = np.full((3, len(removed), layout.n_words), np.nan)
    for m, (own, others) in enumerate(zip(removed[:, 0, 0], swapped[:, 0, 0], strict=True)):
        found, among = moments(layout.patient_sums(own, 0)), moments(swaps.patient_sums(others, 0))
        ends = change_interval(found, level, strongest=strongest_change(among))
        enough = found.n_patients >= FEWEST_PATIENTS
        out[:, m] = found.value, *(np.where(enough, end, np.nan) for end in ends)
    return RemovalScores(*out)
