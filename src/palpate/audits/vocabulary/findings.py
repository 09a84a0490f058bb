"""What the vocabulary audit has to say, in a clinician's words: findings for the first screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from palpate.audits.kit.measured import Correction
from palpate.audits.kit.thresholds import ThresholdRule
from palpate.audits.vocabulary.clinicians import CLINICIANS, Panel
from palpate.audits.vocabulary.measures import AVERAGE, Floats
from palpate.cases.edits import Ints
from palpate.results import Estimate, Finding

MANY_OUTSIDE = 0.10
LOW_ALPHA = 0.40
"""Below it the raters hardly agree, and agreement with their mean says little."""
STRONG_FREQUENCY = 0.30
_TOP = 3
_MOST_PAIRS = 6


@dataclass(frozen=True)
class Settings:
    """How the audit analyses its swaps."""

    level: float = 0.95
    n_replicates: int = 10_000
    correction: Correction = "bonferroni"
    top: int = 25
    """Words in each model's plot."""
    threshold: ThresholdRule = field(default_factory=ThresholdRule)
    labels_shown: int = 20
    """Of many labels, the most frequent ones get rows of their own; the average is over all."""
    schemes: tuple[str, str] = ("first occurrence", "all occurrences")
    """What is swapped: the audit's own way, and the other one."""


@dataclass(frozen=True, eq=False)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    settings: Settings
    models: Sequence[str]
    words: Sequence[str]
    families: Sequence[str]
    labels: Sequence[str]
    """The labels with rows of their own."""
    n_labels: int
    overall: str
    n_notes: Ints
    """[words] notes that the scores rest on."""
    n_available: Ints
    """[words] notes that contain the word."""
    n_patients: Ints
    n_occurrences: Ints
    rank: Mapping[str, Floats]
    """[words] of each model, among all words."""
    sensitivity: Mapping[str, Floats]
    outside: Mapping[str, float]
    """Share of all swaps that each model can't see."""
    panel: Panel | None
    unaudited: Sequence[str]
    """Words that were rated and are not audited."""
    scheme_rank: Mapping[tuple[str, str], Floats]
    """[words] of each (model, scheme), among the words that both schemes have."""
    threshold_origin: Mapping[str, str]

    def find(
        self, metric: str, *, model: str, group: str, label: str | None = None, reference: str | None = None
    ) -> Estimate | None:
        """One estimate, by default of the overall label."""
        return self._index.get((metric, model, label or self.overall, group, reference))

    @cached_property
    def _index(self) -> dict[tuple[str, str, str, str, str | None], Estimate]:
        return {(row.metric, row.model, row.label, row.group, row.reference): row for row in self.rows}

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, reference) of every comparison."""
        return [(b, a) for k, b in enumerate(self.models) for a in self.models[:k]]

    @property
    def n_ranked(self) -> int:
        """How many words have a score."""
        return int((self.n_notes > 0).sum())

    def panel_rank(self, model: str) -> Floats:
        """A model's ranks among the words that clinicians rated."""
        return self.panel.rank_of(self.sensitivity[model]) if self.panel else np.full(len(self.words), np.nan)

    @property
    def has_panel(self) -> bool:
        """Whether there is anything to compare with clinicians."""
        return self.panel is not None and bool(self.panel.rated.any())


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    return (
        *(_strongest(story, model) for model in story.models),
        *_agreement_told(story),
        *_ceiling_told(story),
        *_window_told(story),
        *_frequency_told(story),
        *_unscored_told(story),
    )


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def clinicians_place(panel: Panel, word: int) -> str:
    """Where clinicians put a word: "3rd", or "joint 40th" where others got the same rating."""
    place = ordinal(1 + int((panel.mean > panel.mean[word]).sum()))
    return f"joint {place}" if int((panel.mean == panel.mean[word]).sum()) > 1 else place


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _average(story: Story) -> str:
    return f", averaged over {story.n_labels} labels" if story.overall == AVERAGE else ""


def _strongest(story: Story, model: str) -> Finding:
    """The words that move a model most, and whether clinicians think them unimportant."""
    compared = story.panel_rank(model) if story.has_panel else story.rank[model]
    known = np.flatnonzero(~np.isnan(compared))
    n = len(known)
    if n == 0:
        why = "none is in the notes" if not story.n_available.any() else "none has a substitute"
        return Finding(sentence=f"No word could be scored for {model}: {why}.", tone="warning")
    scores = story.sensitivity[model]
    if float(scores[known].max()) <= 0:
        return Finding(sentence=f"{model} reacts to none of the {n} words{_average(story)}.", tone="warning")
    top = [int(w) for w in known[np.argsort(compared[known], kind="stable")][:_TOP] if scores[w] > 0]
    if not story.has_panel or story.panel is None:
        words = _listed([f"'{story.words[w]}'" for w in top])
        return Finding(sentence=f"{model} reacts most to {words}, of {n} words{_average(story)}.")
    # Far apart, not just in the other half: of four words the third of both sides is no disagreement.
    suspects = [w for w in top if story.panel.rank[w] > max((n + 1) / 2, compared[w] + n / 4)]
    if not suspects:
        words = _listed([f"'{story.words[w]}'" for w in top])
        places = _listed([clinicians_place(story.panel, w) for w in top])
        return Finding(
            sentence=f"{model} reacts most to {words}, of {n} words; clinicians rank them {places}{_average(story)}."
        )
    verb = "most" if suspects[0] == top[0] else "strongly"
    told = [
        f"'{story.words[w]}' (rank {compared[w]:g} of {n}), which clinicians rank {clinicians_place(story.panel, w)}"
        for w in suspects
    ]
    return Finding(sentence=f"{model} reacts {verb} to {', and to '.join(told)}{_average(story)}.", tone="warning")


def figure(value: float | None) -> str:
    """Two digits, as correlations are printed, with a real minus sign."""
    return "unknown" if value is None else f"{value:.2f}".replace("-", "−")


def _span(row: Estimate) -> str:
    if row.low is None:
        return row.reason or "no interval"
    return f"{row.level or 0.95:.0%} interval {figure(row.low)} to {figure(row.high)}"


def _level(row: Estimate | None) -> str:
    return "unknown" if row is None or row.value is None else f"{figure(row.value)} ({_span(row)})"


def _p(row: Estimate) -> str:
    if row.p_value is None:
        return ""
    return ", corrected p < 0.001" if row.p_value < 0.001 else f", corrected p = {row.p_value:.3f}"


def _agreement_told(story: Story) -> list[Finding]:
    if story.panel is None:
        return []
    told = []
    levels = {name: story.find("clinician_agreement", model=name, group=CLINICIANS) for name in story.models}
    for name, row in levels.items():
        if row is None or row.value is None:
            why = row.reason if row else "not computed"
            sentence = f"Agreement of {name} with the clinicians can't be computed: {why}."
            told.append(Finding(sentence=sentence, tone="warning"))
        elif row.high is not None and row.high < 0:
            sentence = f"{name} ranks the words against the clinicians: rank correlation {_level(row)}."
            told.append(Finding(sentence=sentence, tone="warning"))
        elif row.low is not None and row.low <= 0:
            sentence = (
                f"How {name} ranks the words can't be told from chance when compared with the clinicians: "
                f"rank correlation {_level(row)}, over {row.n} words."
            )
            told.append(Finding(sentence=sentence, tone="warning"))
        elif len(story.models) == 1:
            verb = "agrees with the clinicians" if row.low is not None else "was compared with the clinicians"
            sentence = f"{name} {verb}: rank correlation {_level(row)}, over {row.n} words."
            told.append(Finding(sentence=sentence))
    for model, reference in story.pairs[:_MOST_PAIRS]:
        row = story.find("clinician_agreement", model=model, group=CLINICIANS, reference=reference)
        if row is not None and row.value is not None:
            told.append(Finding(sentence=_pair_told(row, levels)))
    return told


def _pair_told(row: Estimate, levels: Mapping[str, Estimate | None]) -> str:
    """The model that agrees better goes first, so that the reader need not turn a sign round."""
    model, reference = row.model, row.reference or ""
    first, second = (model, reference) if (row.value or 0) >= 0 else (reference, model)
    ends = (row.low, row.high)
    if row.low is not None and row.high is not None and first != model:
        ends = (-row.high, -row.low)
    span = "" if row.low is None else f" ({figure(ends[0])} to {figure(ends[1])})"
    size = f"{_level(levels[first])} against {_level(levels[second])}"
    size += f"; difference {figure(abs(row.value or 0))}{span}{_p(row)}"
    if row.significant:
        return f"{first} agrees better with the clinicians than {second}: {size}."
    if row.significant is None:
        return f"{first} and {second} were not tested for agreement with the clinicians: {size} ({row.reason})."
    return f"{first} and {second} do not differ significantly in agreement with the clinicians: {size}."


def _ceiling_told(story: Story) -> list[Finding]:
    """How far clinicians agree with each other, as the most to ask of a model."""
    if story.panel is None or len(story.panel.raters) < 2:
        return []
    alpha = story.find("krippendorff_alpha", model=CLINICIANS, group=CLINICIANS)
    others = story.find("rater_agreement", model=CLINICIANS, group=CLINICIANS)
    if alpha is None or alpha.value is None:
        return []
    size = f"Krippendorff's alpha {_level(alpha)}"
    if others is not None and others.value is not None:
        size += f"; one against the mean of the others {figure(others.value)}"
    if alpha.value < LOW_ALPHA:
        sentence = f"The clinicians hardly agree with each other, so agreement with them says little: {size}."
        return [Finding(sentence=sentence, tone="warning")]
    return [Finding(sentence=f"What can be asked of a model is how well the clinicians agree with each other: {size}.")]


def _window_told(story: Story) -> list[Finding]:
    return [
        Finding(
            sentence=f"{model} never saw {share:.0%} of the swaps: they lie outside its window and count as no change.",
            tone="warning",
        )
        for model, share in story.outside.items()
        if share > MANY_OUTSIDE
    ]


def _frequency_told(story: Story) -> list[Finding]:
    """Whether rank is partly frequency, under the scheme that the audit uses."""
    told = []
    scheme = story.settings.schemes[0]
    for model in story.models:
        row = story.find("frequency_pearson", model=model, group=scheme)
        if row is None or row.value is None or row.low is None or row.high is None:
            continue
        if row.high < 0 and row.value <= -STRONG_FREQUENCY:
            sentence = (
                f"Frequent words rank higher for {model} (correlation of rank and frequency "
                f"{_level(row)}): compare words of like frequency."
            )
            told.append(Finding(sentence=sentence, tone="warning"))
    return told


def _unscored_told(story: Story) -> list[Finding]:
    told = []
    reasons = {
        row.group: row.reason or "unknown"
        for row in story.rows
        if row.metric == "sensitivity" and row.label == story.overall and row.model == story.models[0]
        if row.value is None and row.reference is None
    }
    for reason, n in Counter(reasons.values()).items():
        which = [f"'{word}'" for word, why in reasons.items() if why == reason]
        listed = _listed(which) if n <= 5 else f"{', '.join(which[:5])} and {n - 5} more"
        told.append(Finding(sentence=f"{n} of {len(story.words)} words could not be scored ({reason}): {listed}."))
    if story.unaudited:
        n = len(story.unaudited)
        listed = ", ".join(f"'{word}'" for word in story.unaudited[:5]) + (f" and {n - 5} more" if n > 5 else "")
        told.append(Finding(sentence=f"{n} rated {'word is' if n == 1 else 'words are'} not audited: {listed}."))
    return told
