"""What the evidence audit has to say, in words: findings for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from palpate.audits.evidence.estimates import AREA, LABEL
from palpate.audits.evidence.faithfulness import Faithful
from palpate.audits.evidence.marking import TABLE, Found
from palpate.audits.evidence.measures import ALL, RANDOM, Measured
from palpate.results import Estimate, Finding

MATCH_NAMES = {
    "token": "Token",
    "span": "Exact span",
    "token_anywhere": "Token, position independent",
    "span_anywhere": "Exact span, position independent",
    "overlap": "Overlap, one-to-one",
    "iou": "IoU, one-to-one",
}
HEADLINE = "token_f1"
_MUCH_BEYOND = 0.05
_MANY_MISSED = 0.10
_MANY_WITHOUT_GOLD = 0.10
_MUCH_WORSE = 0.15


@dataclass(frozen=True)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    found: Mapping[str, Found | str]
    measured: Mapping[str, Measured]
    faithful: Mapping[str, Faithful | str]
    models: Sequence[str]
    """Models that are compared: a model with several checkpoints stands for them."""
    level: float
    correction: str
    n_charts: int
    n_without_gold: int
    sufficient: bool
    windows: Mapping[str, str | None]
    cost: Mapping[str, int]
    """Copies of charts that each model was asked for."""
    n_strange: int = 0
    """Labels that models point at and the cohort does not have."""
    n_wordless: int = 0
    """Gold spans without a word, which count nowhere."""
    family_of: Mapping[str, str] = field(default_factory=dict)
    """The model that a checkpoint is one of."""

    @cached_property
    def index(self) -> dict[tuple[str, str, str, str | None], Estimate]:
        """Estimates by what they are."""
        return {(row.metric, row.model, row.group, row.reference): row for row in self.rows}

    def find(self, metric: str, model: str, group: str = ALL, reference: str | None = None) -> Estimate | None:
        """One estimate of all codes."""
        return self.index.get((metric, model, group, reference))

    def groups(self, what: str) -> list[str]:
        """The strata of one kind, in the order of the rows."""
        return list(dict.fromkeys(row.group for row in self.rows if row.group.startswith(f"{what}=")))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, reference) of every comparison that was made."""
        return [
            (row.model, row.reference)
            for row in self.rows
            if row.metric == HEADLINE and row.label == LABEL and row.reference is not None and row.reference != RANDOM
        ]


def number(value: float | None, *, signed: bool = False) -> str:
    """Three digits, with a real minus sign where there is a sign."""
    if value is None:
        return "unknown"
    return (f"{value:+.3f}" if signed else f"{value:.3f}").replace("-", "−")


def percent(value: float | None) -> str:
    """A share, with a digit where it is small."""
    return "unknown" if value is None else f"{value:.1%}" if 0 < value < 0.1 else f"{value:.0%}"


def way_in_words(way: str) -> str:
    """The name of a way to explain, for people."""
    return way.replace("_", " ").replace(" x ", " × ")


def span_of(row: Estimate, *, signed: bool = False) -> str:
    """The interval in words."""
    if row.low is None:
        return row.reason or "no interval"
    return f"{row.level or 0.95:.0%} interval {number(row.low, signed=signed)} to {number(row.high, signed=signed)}"


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    told: list[Finding] = []
    for model in story.models:
        told += _level_told(story, model)
    told += _pairs_told(story)
    for model in story.models:
        told += [*_faithful_told(story, model), *_length_told(story, model), *_losses_told(story, model)]
    return (*told, *_caveats(story))


def _level_told(story: Story, model: str) -> list[Finding]:
    row = story.find(HEADLINE, model)
    found = story.found.get(model)
    if isinstance(found, str):
        return [Finding(sentence=f"{model}: its evidence was not compared: {found}.", tone="warning")]
    if row is None or row.value is None:
        return (
            []
            if row is None
            else [Finding(sentence=f"{model}: no token F1 of evidence: {row.reason}.", tone="warning")]
        )
    if found is not None and not len(found.spans.note):
        return [_nothing_told(model, found)]
    by = _way_told(story, model)
    precision, recall = story.find("token_precision", model), story.find("token_recall", model)
    parts = ", ".join(
        f"{name} {number(part.value)}"
        for name, part in (("precision", precision), ("recall", recall))
        if part is not None and part.value is not None
    )
    sentence = (
        f"{model}: its evidence{by} agrees with the coders' at token F1 {number(row.value)} ({span_of(row)}; {parts})"
    )
    chance, gain = story.find("chance_token_f1", model), story.find(HEADLINE, model, reference=RANDOM)
    if chance is not None and chance.value is not None:
        sentence += f"; as many random words would reach {number(chance.value)}"
    if gain is not None and gain.low is not None and gain.low <= 0:
        worse = gain.high is not None and gain.high < 0
        verdict = "worse than chance" if worse else "not shown to be better than chance"
        return [Finding(sentence=f"{sentence}. It is {verdict}.", tone="warning")]
    return [Finding(sentence=f"{sentence}.")]


def _way_told(story: Story, model: str) -> str:
    """Where the evidence comes from; a model of several checkpoints has it from them."""
    members = [name for name, family in story.family_of.items() if family == model] or [model]
    ways = {each.origin for each in map(story.found.get, members) if isinstance(each, Found)}
    return f" by {way_in_words(ways.pop())}" if len(ways) == 1 and TABLE not in ways else ""


def _nothing_told(model: str, found: Found) -> Finding:
    if found.threshold is None:
        return Finding(sentence=f"{model} points at nothing in any chart.", tone="warning")
    sentence = (
        f"{model} points at nothing: no word reaches the threshold of {found.threshold:g} ({found.threshold_origin})"
    )
    if found.scale == "raw":
        sentence += "; `scale: relative` would compare words with the chart's strongest"
    return Finding(sentence=f"{sentence}.", tone="warning")


def _pairs_told(story: Story) -> list[Finding]:
    told = []
    for model, reference in story.pairs:
        row = story.find(HEADLINE, model, reference=reference)
        if row is None or row.value is None or not row.significant:
            continue
        better, worse = (model, reference) if row.value > 0 else (reference, model)
        p = (
            ""
            if row.p_value is None
            else ", corrected p < 0.001"
            if row.p_value < 0.001
            else f", corrected p = {row.p_value:.3f}"
        )
        sentence = f"{better} points at the coders' evidence better than {worse}: token F1 "
        sentence += (
            f"{number(abs(row.value), signed=True)} ({span_of(row, signed=True)} for {model} less {reference}{p})."
        )
        told.append(Finding(sentence=sentence))
    return told


def _faithful_told(story: Story, model: str) -> list[Finding]:
    """Whether the answer depends on what is pointed at; with plausible evidence, the worst case is that it does not."""
    row = story.find("comprehensiveness_aopc", model, AREA, RANDOM)
    if row is None or row.value is None:
        return []
    plausible = story.find(HEADLINE, model, reference=RANDOM)
    agrees = plausible is not None and plausible.low is not None and plausible.low > 0
    if row.significant and row.value > 0:
        sentence = (
            f"{model}: taking out the words it points at lowers its probability by {number(row.value)} more than "
            f"random words do ({span_of(row, signed=True)}): its answers rest on them."
        )
        return [Finding(sentence=sentence, tone="good" if agrees else "neutral")]
    if row.significant is None:
        return []
    start = (
        "its evidence is plausible, but its answers are not shown to rest on it"
        if agrees
        else "its answers are not shown to rest on its evidence"
    )
    falls = "less than" if row.significant else "about as much as"
    sentence = (
        f"{model}: {start}: without those words its probability falls {falls} without random ones "
        f"(difference {number(row.value, signed=True)}, {span_of(row, signed=True)})."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _length_told(story: Story, model: str) -> list[Finding]:
    """The paper finds 91% of single tokens, and 18% of longer evidence."""
    short, long = (story.find("span_recall", model, f"length={name}") for name in ("1 word", "3+ words"))
    if short is None or long is None or short.value is None or long.value is None:
        return []
    if short.value - long.value <= _MUCH_WORSE:
        return []
    sentence = (
        f"{model} finds {percent(short.value)} of evidence of one word and {percent(long.value)} of evidence of three "
        "words or more, exactly as marked."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _losses_told(story: Story, model: str) -> list[Finding]:
    told = []
    beyond = story.find("evidence_beyond_window", model)
    if beyond is not None and beyond.value:
        window = story.windows.get(model) or "its window"
        sentence = f"{model} can't read {percent(beyond.value)} of the coders' evidence: it lies beyond {window}"
        pointed = story.find("token_recall", model, "window=beyond")
        all_the_same = pointed is not None and bool(pointed.value)
        sentence += "; its table points at some of it all the same." if all_the_same else ", and counts as missed."
        told.append(Finding(sentence=sentence, tone="warning" if beyond.value > _MUCH_BEYOND else "neutral"))
    missed = story.find("charts_missed", model)
    if missed is not None and missed.value is not None and missed.value > _MANY_MISSED:
        sentence = f"{model} points at nothing in {percent(missed.value)} of the charts with evidence."
        told.append(Finding(sentence=sentence, tone="warning"))
    return told


def _caveats(story: Story) -> list[Finding]:
    told = []
    if story.n_without_gold > _MANY_WITHOUT_GOLD * story.n_charts:
        sentence = (
            f"{story.n_without_gold:,} of {story.n_charts:,} charts have no gold evidence, and whatever is predicted "
            "there counts as false; if they were not annotated, set `charts: annotated`."
        )
        told.append(Finding(sentence=sentence, tone="warning"))
    if story.n_strange:
        labels = "1 label that is" if story.n_strange == 1 else f"{story.n_strange:,} labels that are"
        sentence = f"Models point at evidence for {labels} not among the cohort's; all of it counts as false."
        told.append(Finding(sentence=sentence, tone="warning"))
    if story.n_wordless:
        one = story.n_wordless == 1
        has, counts = ("1 gold span has", "counts") if one else (f"{story.n_wordless:,} gold spans have", "count")
        sentence = f"{has} no word (punctuation, or numbers that `largest_number` leaves out) and {counts} nowhere."
        told.append(Finding(sentence=sentence))
    if story.sufficient:
        sentence = (
            "The coders marked evidence that suffices, not all of it: precision and F1 of evidence are lower bounds, "
            "and position-independent matches are the fairer ones."
        )
        told.append(Finding(sentence=sentence))
    return told
