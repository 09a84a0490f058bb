"""Whether a word's rank only reflects its frequency: swapping the first occurrence against swapping all of them.

If all occurrences are swapped, frequent words move a model more for being frequent (vocabulary paper, Figures 1 and 2
and Appendix E.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from palpate.audits.vocabulary.correlations import WordCorrelations
from palpate.audits.vocabulary.intervals import Floats
from palpate.audits.vocabulary.measures import SwapEffects, in_both_schemes, lay_out, rank_words
from palpate.audits.vocabulary.plan import Swaps
from palpate.cases.edits import Ints
from palpate.results import Estimate


@dataclass(frozen=True, eq=False)
class SchemeScores:
    """The compared models' scores for the overall label under each way of swapping, on the same notes and words."""

    sensitivity: Mapping[str, Mapping[str, Floats]]
    """[words] by scheme and model; NaN for words that some scheme lacks, so that ranks are among the same words."""
    n_occurrences: Ints

    @property
    def names(self) -> tuple[str, ...]:
        """What is swapped: the audit's own way first."""
        return tuple(self.sensitivity)

    @property
    def rank(self) -> dict[tuple[str, str], Floats]:
        """[words] by model and scheme."""
        models = self.sensitivity[self.names[0]]
        return {(model, name): rank_words(self.sensitivity[name][model]) for model in models for name in self.names}


def score_schemes(swaps: Swaps, patients: Ints, effects: SwapEffects, weight: Floats | None = None) -> SchemeScores:
    """The audit's own scheme, and the other one where it was planned."""
    layouts = [effects.layout]
    if np.any(swaps.scheme == 1):
        layouts = [
            lay_out(in_both_schemes(swaps), patients, weight=weight),
            lay_out(swaps, patients, scheme=1, weight=weight),
        ]
    scores = []
    for layout in layouts:
        sums = replace(effects, layout=layout).overall()
        scores.append(layout.means(sums)[:, 0, 0])
    known = ~np.isnan(np.concatenate(scores)).any(axis=0)
    sensitivity = {
        scheme: effects.by_compared(np.where(known, values, np.nan))
        for scheme, values in zip(swaps.schemes[: len(scores)], scores, strict=True)
    }
    return SchemeScores(sensitivity, swaps.n_occurrences)


def frequency_rows(scores: SchemeScores, label: str, over_words: WordCorrelations) -> list[Estimate]:
    """Rank against frequency under each scheme, and the other scheme less the audit's own; p is not corrected yet.

    Rank 1 is the most sensitive, so a negative correlation says that frequent words come first.
    """
    frequency = scores.n_occurrences.astype(np.float64)
    own, *others = scores.names
    rows = []
    for model in scores.sensitivity[own]:
        for kind in ("pearson", "spearman"):
            about = (model, f"frequency_{kind}", label)
            found = {
                scheme: over_words.correlate(-values[model], frequency, kind=kind)
                for scheme, values in scores.sensitivity.items()
            }
            rows += [over_words.row(each, *about, scheme) for scheme, each in found.items()]
            rows += [over_words.difference(found[other], found[own], *about, other, reference=own) for other in others]
    return rows
