"""The evidence audit's answers and findings: does it point where coders point, and do its answers rest on that?

Where it is known how well one coder agrees with another, a model is asked to do as well, up to the margin; otherwise to
beat as many random words by the margin. Its answers rest on what it points at if its probability falls by the margin
more without those words than without random ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palpate.audits.evidence.asking import PROTOCOLS, Codes
from palpate.audits.evidence.estimates import AREA
from palpate.audits.evidence.faithfulness import Faithfulness
from palpate.audits.evidence.marking import TABLE, MarkedEvidence
from palpate.audits.evidence.measures import RANDOM, EvidenceMeasures
from palpate.audits.evidence.plan import EvidenceMemory, OcclusionBudget
from palpate.audits.evidence.strata import AuditedCharts
from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import counted, interval, number, p_value, percent
from palpate.results import Estimate, Finding, Plan, Predictions
from palpate.results.blocks import FindingKind
from palpate.results.verdicts import Answer, Effect

HEADLINE = "token_f1"
POINTING, FAITHFULNESS = "pointing", "faithfulness"
DROP = "comprehensiveness_aopc"
_MUCH_BEYOND = 0.05
_MANY_MISSED = 0.10
_MANY_WITHOUT_GOLD = 0.10
_MUCH_WORSE = 0.15
_MOSTLY_SILENT = 0.5
_NOTHING = "it points at nothing"


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
    coder_f1: float | None
    """Of one coder against another, where it is known."""
    budget: OcclusionBudget
    codes: Codes
    """Whose evidence is compared."""

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

    def silence(self, model: str) -> str:
        """That no word reaches the threshold, in all charts or in most of those with evidence; empty if some do."""
        found = [self.marked.get(name) for name in self.predictions.members(model)]
        if all(isinstance(each, MarkedEvidence) and not len(each.spans.note) for each in found):
            return _NOTHING
        missed = self.estimates.value("charts_missed", model)
        often = missed is not None and missed > _MOSTLY_SILENT
        return f"{_NOTHING} in {percent(missed)} of the charts with evidence" if often else ""

    def n_copies(self, model: str) -> int:
        """How many edited copies of charts a model scored."""
        only, n_charts = self.plan.requests.only, len(self.plan.memory.charts.rows)
        return int(only[model][n_charts:].sum()) if model in only else 0


def way_in_words(way: str) -> str:
    """The name of a way of explaining, for people."""
    return way.replace("_", " ").replace(" x ", " × ")


def evidence_answers(analysis: EvidenceAnalysis, margins: Mapping[str, float]) -> tuple[Answer, ...]:
    """The audit's cells of the scorecard."""
    find, margin, coder_f1 = analysis.estimates.find, margins["evidence_f1"], analysis.coder_f1
    if coder_f1 is None:
        asks = "Does it point where coders point, more than chance would?"
        pointing = Question(POINTING, asks, "evidence_f1", 0.0, harm=-1, origin=margin)
    else:
        asks = "Does it point where coders point, as well as another coder?"
        pointing = Question(POINTING, asks, "evidence_f1", margin, harm=-1, origin=coder_f1)
    asks = "Do its answers rest on the words it points at?"
    rests = Question(FAITHFULNESS, asks, "faithfulness", 0.0, harm=-1, origin=margins["faithfulness"])
    answers = []
    for model in analysis.models:
        row = find(HEADLINE, model, reference=RANDOM if coder_f1 is None else None)
        family = None if coder_f1 is None else len(analysis.models)
        answers.append(
            _answer(analysis, pointing, model, row or find(HEADLINE, model), analysis.charts.n_units, family)
        )
        if (known := analysis.faithfulness.get(model)) is None:
            continue
        if isinstance(known, str):
            answers.append(_answer(analysis, rests, model, find(DROP, model, group=AREA), 0))
        else:
            row = find(DROP, model, group=AREA, reference=RANDOM)
            n_units = known.areas["comprehensiveness"].difference.n_charts
            answer = _answer(analysis, rests, model, row, n_units)
            if answer is not None and (silence := analysis.silence(model)):
                answer = answer.model_copy(update={"verdict": "unsettled", "needed": None, "reason": silence})
            answers.append(answer)
    return tuple(answer for answer in answers if answer is not None)


def _answer(
    analysis: EvidenceAnalysis,
    question: Question,
    model: str,
    row: Estimate | None,
    n_units: int,
    n_family: int | None = None,
) -> Answer | None:
    """One model's answer; how many charts would settle it is said in charts, unless patients are what is counted."""
    effect: Effect | None = question.effect(row, n_units, n_family=n_family)
    answer = question.answer(model, [effect])
    if answer is None or answer.needed is None or answer.verdict in ("concern", "acceptable"):
        return answer
    if analysis.charts.unit == "patient":
        return answer
    needed = max(answer.needed, FEWEST_FOR_TEST)
    why = f"only {counted(n_units, 'chart')}; about {needed:,} would settle it"
    return answer.model_copy(update={"needed": None, "reason": why})


def evidence_findings(analysis: EvidenceAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    found = []
    plausible = {answer.model for answer in answers if (answer.question, answer.verdict) == (POINTING, "acceptable")}
    for answer in answers:
        if answer.question == POINTING:
            sentence = _agreement(analysis, answer)
        else:
            sentence = _faithful(analysis, answer, plausible=answer.model in plausible)
        found.append(Finding(sentence=sentence, kind=answer.verdict, question=answer.question))
    found += _pairs(analysis)
    for model in analysis.models:
        found += [*_lengths(analysis, model), *_losses(analysis, model)]
    return (*found, *_caveats(analysis))


def _agreement(analysis: EvidenceAnalysis, answer: Answer) -> str:
    """How well the evidence agrees with the coders', and what that is worth."""
    model, value = answer.model, analysis.estimates.value
    row, evidence = analysis.estimates.find(HEADLINE, model), analysis.marked.get(model)
    if isinstance(evidence, str):
        return f"{model}: its evidence was not compared: {evidence}."
    if row is None or row.value is None:
        return f"{model}: no token F1 of evidence: {row.reason if row else 'it was not measured'}."
    if evidence is not None and not len(evidence.spans.note):
        return _nothing(model, evidence)
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
        sentence += f"; as many random words would reach {number(chance)} on average"
    return f"{sentence}. {_worth(analysis, answer)}."


def _worth(analysis: EvidenceAnalysis, answer: Answer) -> str:
    """The verdict on the agreement, in words."""
    gain = analysis.estimates.find(HEADLINE, answer.model, reference=RANDOM)
    required, size = number(answer.margin), "" if gain is None else f" ({_difference(gain)})"
    if analysis.coder_f1 is not None:
        said = {
            "concern": f"It falls short of the {required} that another coder's agreement asks for",
            "caution": f"It falls short of another coder; whether it reaches {required} is open",
            "unsettled": f"Whether it reaches the {required} that another coder's agreement asks for cannot be told",
            "acceptable": f"It reaches the {required} that another coder's agreement asks for",
        }[answer.verdict]
    else:
        said = {
            "concern": f"It does not beat random words by {required}{size}",
            "caution": f"Whether it beats random words by {required} is open{size}",
            "unsettled": f"Whether it beats random words by {required} cannot be told{size}",
            "acceptable": f"It beats random words by more than {required}{size}",
        }[answer.verdict]
    return said + _settles(answer)


def _difference(row: Estimate) -> str:
    return f"difference {number(row.value, signed=True)}, {interval(row, signed=True)}"


def _settles(answer: Answer) -> str:
    """What would settle an open question."""
    if answer.verdict in ("concern", "acceptable"):
        return ""
    needed = f"about {counted(answer.needed, 'patient')} would settle it" if answer.needed else ""
    return f"; {answer.reason or needed}" if answer.reason or needed else ""


def _by_way(analysis: EvidenceAnalysis, model: str) -> str:
    """Where the evidence comes from; an ensemble has it from its members."""
    members = map(analysis.marked.get, analysis.predictions.members(model))
    ways = {evidence.origin for evidence in members if isinstance(evidence, MarkedEvidence)}
    return f" by {way_in_words(ways.pop())}" if len(ways) == 1 and TABLE not in ways else ""


def _nothing(model: str, evidence: MarkedEvidence) -> str:
    if evidence.threshold is None:
        return f"{model} points at nothing in any chart."
    reached = f"no word reaches the threshold of {evidence.threshold:g} ({evidence.threshold_origin})"
    advice = "; `scale: relative` would compare words with the chart's strongest" if evidence.scale == "raw" else ""
    return f"{model} points at nothing: {reached}{advice}."


def _pairs(analysis: EvidenceAnalysis) -> list[Finding]:
    found = []
    for model, reference in analysis.pairs:
        row = analysis.estimates.find(HEADLINE, model, reference=reference)
        if row is None or row.value is None or not row.significant:
            continue
        better, worse = (model, reference) if row.value > 0 else (reference, model)
        shown = row if row.value > 0 else row.negated()
        sentence = (
            f"{better} points at the coders' evidence better than {worse}: "
            f"token F1 {number(shown.value, signed=True)} ({interval(shown, signed=True)}{p_value(row)})."
        )
        found.append(Finding(sentence=sentence, question=POINTING))
    return found


def _faithful(analysis: EvidenceAnalysis, answer: Answer, *, plausible: bool) -> str:
    """Whether predictions depend on what is pointed at; the worst case is plausible evidence on which they do not."""
    row = analysis.estimates.find(DROP, answer.model, group=AREA, reference=RANDOM)
    if row is None or row.value is None:
        return f"{answer.model}: whether its predictions rest on its evidence cannot be told: {answer.reason}."
    if answer.reason is not None and answer.reason.startswith(_NOTHING):
        size = f"{number(row.value)} more than taking out random words does ({interval(row, signed=True)})"
        return (
            f"{answer.model}: {answer.reason}, so there its predictions can rest on no evidence; taking out the words "
            f"that it scores highest, marked or not, lowers its probability by {size}."
        )
    but = "its evidence is plausible, but " if plausible else ""
    said = {
        "concern": f"{but}its predictions do not rest on it",
        "caution": f"{but}whether its predictions rest on it is open",
        "unsettled": f"{but}whether its predictions rest on it cannot be told",
        "acceptable": "its predictions rest on the words it points at",
    }[answer.verdict]
    than = f"{number(abs(row.value))} {'more' if row.value >= 0 else 'less'} than taking out random words does"
    size = f"taking those words out lowers its probability by {than} ({interval(row, signed=True)}"
    return f"{answer.model}: {said}: {size}; asked is {number(answer.margin)} more){_settles(answer)}."


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
    return [Finding(sentence=sentence, kind="caveat", question=POINTING)]


def _losses(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    found, value = [], analysis.estimates.value
    if beyond := value("evidence_beyond_window", model):
        first = analysis.predictions.members(model)[0]
        window = analysis.predictions[first].facts.window or "its window"
        sentence = f"{model} cannot read {percent(beyond)} of the coders' evidence: it lies beyond {window}"
        pointed = value("token_recall", model, group="window=beyond")
        sentence += "; its evidence includes some of it all the same." if pointed else ", and counts as missed."
        kind: FindingKind = "caveat" if beyond > _MUCH_BEYOND else "fact"
        found.append(Finding(sentence=sentence, kind=kind, question=POINTING))
    found += _cut(analysis, model)
    missed = value("charts_missed", model)
    if missed is not None and missed > _MANY_MISSED:
        sentence = f"{model} marks no word in {percent(missed)} of the charts with evidence."
        found.append(Finding(sentence=sentence, kind="caveat", question=POINTING))
    return found


def _cut(analysis: EvidenceAnalysis, model: str) -> list[Finding]:
    """Where occlusion ended at its budget."""
    parts = [cut for name in analysis.predictions.members(model) if (cut := analysis.plan.memory.cut.get(name))]
    n, of = sum(part.n for part in parts), sum(part.of for part in parts)
    if not n:
        return []
    sentence = (
        f"{model}: for {percent(n / of)} of the codes that it was asked about, occlusion ended at its budget "
        "(`segments`, `words_per_label`): words that matter less were not looked at, and count as no evidence."
    )
    return [Finding(sentence=sentence, kind="caveat", question=POINTING)]


def _left_out(model: str, n: int, codes: Codes) -> str:
    are = "is about a code that is" if n == 1 else "are about codes that are"
    does = "does" if n == 1 else "do"
    return f"{counted(n, 'row')} of {model}'s table {are} not in question (`codes: {codes}`) and {does} not count."


def _caveats(analysis: EvidenceAnalysis) -> list[Finding]:
    found, memory = [], analysis.plan.memory
    if analysis.codes != "gold":
        sentence = (
            f"Evidence is compared for {PROTOCOLS[analysis.codes]} (`codes: {analysis.codes}`); the paper's numbers "
            "are for codes with gold evidence, predicted or not, and cannot be compared with these."
        )
        found.append(Finding(sentence=sentence, question=POINTING))
    if analysis.codes in ("predicted", "all") and memory.n_without_gold > _MANY_WITHOUT_GOLD * memory.n_audited:
        sentence = (
            f"{memory.n_without_gold:,} of {memory.n_audited:,} charts have no gold evidence, and whatever is "
            "predicted there counts as false; if they were not annotated, set `charts: annotated`."
        )
        found.append(Finding(sentence=sentence, kind="caveat", question=POINTING))
    if n := analysis.n_only_predicted:
        labels = f"{counted(n, 'label')} that {'is' if n == 1 else 'are'}"
        sentence = f"Models point at evidence for {labels} not among the cohort's; all of it counts as false."
        found.append(Finding(sentence=sentence, kind="caveat", question=POINTING))
    found += [
        Finding(sentence=_left_out(model, each.n_other, analysis.codes), question=POINTING)
        for model, each in analysis.marked.items()
        if isinstance(each, MarkedEvidence) and each.n_other and analysis.codes != "all"
    ]
    if n := memory.n_wordless:
        has, counts = ("has", "does not count") if n == 1 else ("have", "do not count")
        sentence = (
            f"{counted(n, 'gold span')} {has} no word (punctuation, or numbers that `largest_number` leaves out) and "
            f"{counts}."
        )
        found.append(Finding(sentence=sentence, question=POINTING))
    if analysis.charts.sufficient:
        sentence = (
            "The coders marked evidence that suffices, not all of it: precision and F1 of evidence are lower bounds, "
            "and position-independent matches are the fairer ones."
        )
        found.append(Finding(sentence=sentence, kind="caveat", question=POINTING))
    return found
