"""The evidence audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from palpate.audits.evidence.estimates import AREA
from palpate.audits.evidence.faithfulness import Faithfulness
from palpate.audits.evidence.marking import TABLE, MarkedEvidence
from palpate.audits.evidence.measures import RANDOM, AuditedCharts, EvidenceMeasures
from palpate.audits.evidence.plan import EvidenceMemory
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import counted, interval, number, p_value, percent
from palpate.results import Finding, Plan, Predictions

HEADLINE = "token_f1"
_MUCH_BEYOND = 0.05
_MANY_MISSED = 0.10
_MANY_WITHOUT_GOLD = 0.10
_MUCH_WORSE = 0.15


@dataclass(frozen=True, eq=False)
class EvidenceAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of all labels and all evidence."""
    plan: Plan[EvidenceMemory]
    predictions: Predictions
    charts: AuditedCharts
    marked: Mapping[str, MarkedEvidence | str]
    """What each scored model points at; a string says why that is not known."""
    measured: Mapping[str, EvidenceMeasures]
    faithfulness: Mapping[str, Faithfulness | str]

    @property
    def models(self) -> tuple[str, ...]:
        """Models that are compared: an ensemble stands for its members."""
        return self.predictions.compared

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """(model, reference) of every comparison that was made."""
        return [
            (row.model, row.reference)
            for row in self.estimates
            if row.metric == HEADLINE and row.reference is not None and row.reference != RANDOM
        ]

    @property
    def n_only_predicted(self) -> int:
        """Labels that models point at and the cohort does not have."""
        return self.plan.memory.inputs.n_codes - len(self.plan.labels)

    def n_copies(self, model: str) -> int:
        """How many edited copies of charts a model scored."""
        only, n_charts = self.plan.requests.only, len(self.plan.memory.charts.rows)
        return int(only[model][n_charts:].sum()) if model in only else 0


def way_in_words(way: str) -> str:
    """The name of a way of explaining, for people."""
    return way.replace("_", " ").replace(" x ", " × ")


def evidence_findings(analysis: EvidenceAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    found = [each for model in analysis.models for each in _agreement(analysis, model)]
    found += _pairs(analysis)
    for model in analysis.models:
        found += [*_faithful(analysis, model), *_lengths(analysis, model), *_losses(analysis, model)]
    return (*found, *_caveats(analysis))


def _agreement(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    """How well the evidence agrees with the coders', and whether that is more than chance."""
    find, value = analysis.estimates.find, analysis.estimates.value
    row, evidence = find(HEADLINE, model), analysis.marked.get(model)
    if isinstance(evidence, str):
        return [Finding(sentence=f"{model}: its evidence was not compared: {evidence}.", kind="caveat")]
    if row is None:
        return []
    if row.value is None:
        return [Finding(sentence=f"{model}: no token F1 of evidence: {row.reason}.", kind="caveat")]
    if evidence is not None and not len(evidence.spans.note):
        return [_nothing(model, evidence)]
    parts = ", ".join(
        f"{name} {number(part)}"
        for name in ("precision", "recall")
        if (part := value(f"token_{name}", model)) is not None
    )
    sentence = (
        f"{model}: its evidence{_by_way(analysis, model)} agrees with the coders' at token F1 {number(row.value)} "
        f"({interval(row)}; {parts})"
    )
    if (chance := value("chance_token_f1", model)) is not None:
        sentence += f"; as many random words would reach {number(chance)}"
    gain = find(HEADLINE, model, reference=RANDOM)
    if gain is not None and gain.low is not None and gain.low <= 0:
        worse = gain.high is not None and gain.high < 0
        verdict = "worse than chance" if worse else "not shown to be better than chance"
        return [Finding(sentence=f"{sentence}. It is {verdict}.", kind="caveat")]
    return [Finding(sentence=f"{sentence}.")]


def _by_way(analysis: EvidenceAnalysis, model: str) -> str:
    """Where the evidence comes from; an ensemble has it from its members."""
    members = map(analysis.marked.get, analysis.predictions.members(model))
    ways = {evidence.origin for evidence in members if isinstance(evidence, MarkedEvidence)}
    return f" by {way_in_words(ways.pop())}" if len(ways) == 1 and TABLE not in ways else ""


def _nothing(model: str, evidence: MarkedEvidence) -> Finding:
    if evidence.threshold is None:
        return Finding(sentence=f"{model} points at nothing in any chart.", kind="caveat")
    reached = f"no word reaches the threshold of {evidence.threshold:g} ({evidence.threshold_origin})"
    advice = "; `scale: relative` would compare words with the chart's strongest" if evidence.scale == "raw" else ""
    return Finding(sentence=f"{model} points at nothing: {reached}{advice}.", kind="caveat")


def _pairs(analysis: EvidenceAnalysis) -> list[Finding]:
    found = []
    for model, reference in analysis.pairs:
        row = analysis.estimates.find(HEADLINE, model, reference=reference)
        if row is None or row.value is None or not row.significant:
            continue
        better, worse = (model, reference) if row.value > 0 else (reference, model)
        size = f"{interval(row, signed=True)} for {model} less {reference}{p_value(row)}"
        sentence = (
            f"{better} points at the coders' evidence better than {worse}: "
            f"token F1 {number(abs(row.value), signed=True)} ({size})."
        )
        found.append(Finding(sentence=sentence))
    return found


def _faithful(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    """Whether predictions depend on what is pointed at; the worst case is plausible evidence on which they do not."""
    row = analysis.estimates.find("comprehensiveness_aopc", model, group=AREA, reference=RANDOM)
    if row is None or row.value is None or row.significant is None:
        return []
    plausible = analysis.estimates.find(HEADLINE, model, reference=RANDOM)
    agrees = plausible is not None and plausible.low is not None and plausible.low > 0
    size = interval(row, signed=True)
    if row.significant and row.value > 0:
        sentence = (
            f"{model}: taking out the words it points at lowers its probability by {number(row.value)} more than "
            f"taking out random words does ({size}): its predictions rest on them."
        )
        return [Finding(sentence=sentence, kind="fact")]
    start = (
        "its evidence is plausible, but its predictions are not shown to rest on it"
        if agrees
        else "its predictions are not shown to rest on its evidence"
    )
    falls = "less than" if row.significant else "about as much as"
    sentence = (
        f"{model}: {start}: without those words its probability falls {falls} without random ones "
        f"(difference {number(row.value, signed=True)}, {size})."
    )
    return [Finding(sentence=sentence, kind="caveat")]


def _lengths(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    """The paper finds 91% of single tokens, and 18% of longer evidence."""
    lengths = (f"length={name}" for name in ("1 word", "3+ words"))
    short, long = (analysis.estimates.value("span_recall", model, group=group) for group in lengths)
    if short is None or long is None or short - long <= _MUCH_WORSE:
        return []
    sentence = (
        f"{model} finds {percent(short)} of evidence of one word and {percent(long)} of evidence of three words or "
        "more, exactly as marked."
    )
    return [Finding(sentence=sentence, kind="caveat")]


def _losses(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    found, value = [], analysis.estimates.value
    if beyond := value("evidence_beyond_window", model):
        first = analysis.predictions.members(model)[0]
        window = analysis.predictions[first].facts.window or "its window"
        sentence = f"{model} cannot read {percent(beyond)} of the coders' evidence: it lies beyond {window}"
        pointed = value("token_recall", model, group="window=beyond")
        sentence += "; its evidence includes some of it all the same." if pointed else ", and counts as missed."
        found.append(Finding(sentence=sentence, kind="caveat" if beyond > _MUCH_BEYOND else "fact"))
    missed = value("charts_missed", model)
    if missed is not None and missed > _MANY_MISSED:
        sentence = f"{model} points at nothing in {percent(missed)} of the charts with evidence."
        found.append(Finding(sentence=sentence, kind="caveat"))
    return found


def _caveats(analysis: EvidenceAnalysis) -> list[Finding]:
    found, memory = [], analysis.plan.memory
    if memory.n_without_gold > _MANY_WITHOUT_GOLD * memory.n_audited:
        sentence = (
            f"{memory.n_without_gold:,} of {memory.n_audited:,} charts have no gold evidence, and whatever is "
            "predicted there counts as false; if they were not annotated, set `charts: annotated`."
        )
        found.append(Finding(sentence=sentence, kind="caveat"))
    if n := analysis.n_only_predicted:
        labels = f"{counted(n, 'label')} that {'is' if n == 1 else 'are'}"
        sentence = f"Models point at evidence for {labels} not among the cohort's; all of it counts as false."
        found.append(Finding(sentence=sentence, kind="caveat"))
    if n := memory.n_wordless:
        has, counts = ("has", "does not count") if n == 1 else ("have", "do not count")
        sentence = (
            f"{counted(n, 'gold span')} {has} no word (punctuation, or numbers that `largest_number` leaves out) and "
            f"{counts}."
        )
        found.append(Finding(sentence=sentence))
    if analysis.charts.sufficient:
        sentence = (
            "The coders marked evidence that suffices, not all of it: precision and F1 of evidence are lower bounds, "
            "and position-independent matches are the fairer ones."
        )
        found.append(Finding(sentence=sentence))
    return found
