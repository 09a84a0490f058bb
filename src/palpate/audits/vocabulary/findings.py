"""The vocabulary audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palpate.audits.kit.rows import EstimateIndex, pairs_of
from palpate.audits.kit.wording import interval, listed, number, ordinal, p_value, percent, quoted
from palpate.audits.vocabulary.clinicians import CLINICIANS, ClinicianPanel
from palpate.audits.vocabulary.frequency import SchemeScores
from palpate.audits.vocabulary.measures import Floats, SwapEffects
from palpate.audits.vocabulary.plan import PlannedSwaps, Swaps
from palpate.cases.edits import Ints
from palpate.results import MACRO, Estimate, Finding

MANY_OUTSIDE = 0.10
LOW_ALPHA = 0.40
"""Below it the raters hardly agree, and agreement with their mean says little."""
STRONG_FREQUENCY = 0.30
_TOP = 3
_MOST_PAIRS = 6


@dataclass(frozen=True, eq=False)
class VocabularyAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of the overall label, and of the clinicians as a group."""
    planned: PlannedSwaps
    effects: SwapEffects
    sensitivity: Mapping[str, Floats]
    """[words] of each model."""
    rank: Mapping[str, Floats]
    """[words] of each model, among all words."""
    schemes: SchemeScores
    labels: Sequence[str]
    """The labels with rows of their own."""
    panel: ClinicianPanel | None
    not_audited: Sequence[str]
    """Words that were rated and are not audited."""
    unsettled: NDArray[np.bool_] | None
    """[words] Which words the budget left open; None without a budget."""
    level: float
    correction: str
    top: int
    """Words in each model's plot."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return self.effects.predictions.compared

    @property
    def swaps(self) -> Swaps:
        """The swaps that were scored."""
        return self.planned.swaps

    @property
    def words(self) -> tuple[str, ...]:
        """The audited words."""
        return self.swaps.words

    @property
    def n_notes(self) -> Ints:
        """[words] Notes that the scores rest on."""
        counts: Ints = self.effects.layout.n_notes[0]
        return counts

    def panel_rank(self, model: str) -> Floats:
        """A model's ranks among the words that clinicians rated."""
        return self.panel.rank_of(self.sensitivity[model]) if self.panel else np.full(len(self.words), np.nan)

    @property
    def rated_panel(self) -> ClinicianPanel | None:
        """The clinicians, where there is a word that is both rated and scored."""
        return self.panel if self.panel is not None and self.panel.rated.any() else None


def vocabulary_findings(analysis: VocabularyAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    return (
        *(_strongest(analysis, model) for model in analysis.models),
        *_agreement(analysis),
        *_ceiling(analysis),
        *_window(analysis),
        *_frequency(analysis),
        *_not_scored(analysis),
        *_budget(analysis),
    )


def clinicians_place(panel: ClinicianPanel, word: int) -> str:
    """Where clinicians put a word: "3rd", or "joint 40th" where others got the same rating."""
    place = ordinal(1 + int((panel.mean > panel.mean[word]).sum()))
    return f"joint {place}" if int((panel.mean == panel.mean[word]).sum()) > 1 else place


def _strongest(analysis: VocabularyAnalysis, model: str) -> Finding:
    """The words that move a model most, and whether clinicians think them unimportant."""
    panel, words, scores = analysis.rated_panel, analysis.words, analysis.sensitivity[model]
    compared = analysis.rank[model] if panel is None else analysis.panel_rank(model)
    known = np.flatnonzero(~np.isnan(compared))
    n = len(known)
    if n == 0:
        why = "none has a substitute" if analysis.swaps.n_notes.any() else "none is in the notes"
        return Finding(sentence=f"No word could be scored for {model}: {why}.", kind="caveat")
    averaged = f", averaged over {len(analysis.effects.labels)} labels" if analysis.estimates.label == MACRO else ""
    if float(scores[known].max()) <= 0:
        return Finding(sentence=f"{model} reacts to none of the {n} words{averaged}.", kind="caveat")
    top = [int(w) for w in known[np.argsort(compared[known], kind="stable")][:_TOP] if scores[w] > 0]
    strongest = f"{model} reacts most to {quoted([words[w] for w in top])}, of {n} words"
    if panel is None:
        return Finding(sentence=f"{strongest}{averaged}.")
    # Far apart, not just in the other half: of four words, ranked third by both sides is no disagreement.
    suspects = [w for w in top if panel.rank[w] > max((n + 1) / 2, compared[w] + n / 4)]
    if not suspects:
        places = listed([clinicians_place(panel, w) for w in top])
        return Finding(sentence=f"{strongest}; clinicians rank them {places}{averaged}.")
    how = "most" if suspects[0] == top[0] else "strongly"
    which = ", and to ".join(
        f"'{words[w]}' (rank {compared[w]:g} of {n}), which clinicians rank {clinicians_place(panel, w)}"
        for w in suspects
    )
    return Finding(sentence=f"{model} reacts {how} to {which}{averaged}.", kind="caveat")


def _correlation(row: Estimate | None) -> str:
    """A correlation with its interval, in two digits as correlations are printed."""
    if row is None or row.value is None:
        return "unknown"
    return f"{number(row.value, digits=2)} ({interval(row, digits=2)})"


def _agreement(analysis: VocabularyAnalysis) -> list[Finding]:
    """Each model against the clinicians, where that is worth a warning or there is no other; and pairs of models."""
    if analysis.panel is None:
        return []
    found = []
    levels = {name: analysis.estimates.find("clinician_agreement", name) for name in analysis.models}
    for name, row in levels.items():
        size, is_warning = f"rank correlation {_correlation(row)}", True
        if row is None or row.value is None:
            why = row.reason if row else "not computed"
            sentence = f"Agreement of {name} with the clinicians can't be computed: {why}."
        elif row.high is not None and row.high < 0:
            sentence = f"{name} ranks the words against the clinicians: {size}."
        elif row.low is not None and row.low <= 0:
            sentence = f"Agreement of {name} with the clinicians can't be told from chance: {size}, over {row.n} words."
        elif len(analysis.models) == 1:
            verb = "agrees with the clinicians" if row.low is not None else "was compared with the clinicians"
            sentence, is_warning = f"{name} {verb}: {size}, over {row.n} words.", False
        else:
            continue
        found.append(Finding(sentence=sentence, kind="caveat" if is_warning else "fact"))
    for model, reference in pairs_of(analysis.models)[:_MOST_PAIRS]:
        row = analysis.estimates.find("clinician_agreement", model, reference=reference)
        if row is not None and row.value is not None:
            found.append(Finding(sentence=_pair(row, levels)))
    return found


def _pair(row: Estimate, levels: Mapping[str, Estimate | None]) -> str:
    """The model that agrees better goes first, so that the reader need not turn a sign round."""
    first, second = row.model, row.reference or ""
    ends = (row.low, row.high)
    if (row.value or 0) < 0:
        first, second = second, first
        ends = (None, None) if row.low is None or row.high is None else (-row.high, -row.low)
    span = "" if ends[0] is None else f" ({number(ends[0], digits=2)} to {number(ends[1], digits=2)})"
    size = f"{_correlation(levels[first])} against {_correlation(levels[second])}"
    size += f"; difference {number(abs(row.value or 0), digits=2)}{span}{p_value(row)}"
    if row.significant:
        return f"{first} agrees better with the clinicians than {second}: {size}."
    if row.significant is None:
        return f"{first} and {second} were not tested for agreement with the clinicians: {size} ({row.reason})."
    return f"{first} and {second} do not differ significantly in agreement with the clinicians: {size}."


def _ceiling(analysis: VocabularyAnalysis) -> list[Finding]:
    """How far clinicians agree with each other, as the most to ask of a model."""
    alpha = analysis.estimates.find("krippendorff_alpha", CLINICIANS)
    if alpha is None or alpha.value is None:
        return []
    size = f"Krippendorff's alpha {_correlation(alpha)}"
    others = analysis.estimates.value("rater_agreement", CLINICIANS)
    if others is not None:
        size += f"; one clinician against the mean of the others {number(others, digits=2)}"
    if alpha.value < LOW_ALPHA:
        sentence = f"The clinicians hardly agree with each other, so agreement with them says little: {size}."
        return [Finding(sentence=sentence, kind="caveat")]
    return [
        Finding(sentence=f"A model can agree with the clinicians no better than they agree with each other: {size}.")
    ]


def _window(analysis: VocabularyAnalysis) -> list[Finding]:
    """The models that cannot see many of the swaps."""
    outside = "they lie outside its window and count as no change"
    return [
        Finding(sentence=f"{model} never saw {percent(share)} of the swaps: {outside}.", kind="caveat")
        for model, share in analysis.effects.outside_overall().items()
        if share > MANY_OUTSIDE
    ]


def _frequency(analysis: VocabularyAnalysis) -> list[Finding]:
    """Whether rank is partly frequency, under the scheme that the audit uses."""
    found = []
    scheme = analysis.schemes.names[0]
    for model in analysis.models:
        row = analysis.estimates.find("frequency_pearson", model, group=scheme)
        if row is None or row.value is None or row.high is None:
            continue
        if row.high < 0 and row.value <= -STRONG_FREQUENCY:
            size = f"correlation of rank and frequency {_correlation(row)}"
            sentence = f"Frequent words rank higher for {model} ({size}): compare words of similar frequency."
            found.append(Finding(sentence=sentence, kind="caveat"))
    return found


def _not_scored(analysis: VocabularyAnalysis) -> list[Finding]:
    """Words without a score, by reason, and rated words that are not audited."""
    n_words = len(analysis.words)
    by_reason: dict[str, list[str]] = {}
    for word in analysis.words:
        row = analysis.estimates.find("sensitivity", analysis.models[0], group=word)
        if row is not None and row.value is None:
            by_reason.setdefault(row.reason or "unknown", []).append(word)
    found = [
        Finding(sentence=f"{len(which)} of {n_words} words could not be scored ({reason}): {quoted(which)}.")
        for reason, which in by_reason.items()
    ]
    if analysis.not_audited:
        n, which = len(analysis.not_audited), quoted(analysis.not_audited)
        found.append(Finding(sentence=f"{n} rated {'word is' if n == 1 else 'words are'} not audited: {which}."))
    return found


def _budget(analysis: VocabularyAnalysis) -> list[Finding]:
    """What the budget left open."""
    if analysis.unsettled is None:
        return []
    n_words, still = len(analysis.words), np.flatnonzero(analysis.unsettled)
    if not len(still):
        return [Finding(sentence=f"The budget settled all {n_words} words.")]
    which = quoted([analysis.words[w] for w in still])
    if analysis.planned.all_scored[still].all():
        sentence = f"{len(still)} of {n_words} words are unsettled though all their notes were scored: {which}."
    else:
        sentence = f"The budget left {len(still)} of {n_words} words unsettled: {which}."
    return [Finding(sentence=sentence)]
