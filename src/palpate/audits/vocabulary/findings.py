"""The vocabulary audit's findings: sentences for the first screen, made from its answers and estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.wording import interval, listed, number, ordinal, percent, quoted
from palpate.audits.vocabulary.answers import (
    LOW_ALPHA,
    VocabularyAnalysis,
    agreement_question,
    spurious_effects,
    spurious_question,
)
from palpate.audits.vocabulary.clinicians import CLINICIANS, ClinicianPanel
from palpate.audits.vocabulary.intervals import FEWEST_PATIENTS
from palpate.results import MACRO, Estimate, Finding
from palpate.results.verdicts import Answer, Effect

MANY_OUTSIDE = 0.10
STRONG_FREQUENCY = 0.30
_TOP = 3
_MOST_PAIRS = 6


def vocabulary_findings(analysis: VocabularyAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    by_question = {
        name: [answer for answer in answers if answer.question == name] for name in ("agreement", "spurious")
    }
    return (
        *_agreement(analysis, by_question["agreement"]),
        *_ceiling(analysis),
        *_pairs(analysis),
        *_spurious(analysis, by_question["spurious"]),
        *(_strongest(analysis, model) for model in analysis.models),
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
    """The words that move a model most, and where clinicians put them."""
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
    places = "" if panel is None else f"; clinicians rank them {listed([clinicians_place(panel, w) for w in top])}"
    return Finding(sentence=f"{strongest}{places}{averaged}.")


def _correlation(row: Estimate | None) -> str:
    """A correlation with its interval, in two digits as correlations are printed."""
    if row is None or row.value is None:
        return "unknown"
    return f"{number(row.value, digits=2)} ({interval(row, digits=2)})"


def _agreement(analysis: VocabularyAnalysis, answers: Sequence[Answer]) -> list[Finding]:
    """Each model in a clinician's place; one sentence for all where the same thing keeps them from being judged."""
    found = []
    reasons = {answer.reason for answer in answers}
    if len(answers) > 1 and len(reasons) == 1 and None not in reasons:
        names = listed([answer.model for answer in answers])
        sentence = f"Whether {names} weigh words as clinicians do is not settled: {answers[0].reason}."
        return [agreement_question(0.0).finding(answers[0], sentence)]
    for answer in answers:
        if answer.reason is not None or answer.value is None:
            sentence = f"Whether {answer.model} weighs words as clinicians do is not settled: {answer.reason}."
        else:
            sentence = _in_place(analysis, answer)
        found.append(agreement_question(0.0).finding(answer, sentence))
    return found


def _in_place(analysis: VocabularyAnalysis, answer: Answer) -> str:
    """What is known of a model that takes a clinician's place; lower numbers are harm."""
    model, margin, gap = answer.model, number(abs(answer.margin or 0.0), digits=2), answer.value or 0.0
    row = analysis.estimates.find("rater_agreement", model)
    own = row.value if row is not None and row.value is not None else 0.0
    said = {
        "concern": f"{model} does not weigh words as clinicians do",
        "caution": f"{model} agrees less with the clinicians than they do with each other; whether by more than "
        f"{margin} is open",
        "unsettled": f"Whether {model} weighs words as clinicians do is not settled",
        "acceptable": f"{model} weighs words about as clinicians do; falling short of them by more than {margin} is "
        "excluded",
    }[answer.verdict]
    ends = ("unknown", "unknown") if answer.low is None else (_two(answer.low), _two(answer.high or 0.0))
    place = f"in the place of one clinician, its rank correlation with the others is {number(own, digits=2)}"
    return (
        f"{said}: {place}, the clinicians' own {number(own - gap, digits=2)} (difference {_two(gap)}, "
        f"{analysis.level:.0%} interval {ends[0]} to {ends[1]}; margin {margin}; {row.n if row else 0} words)."
    )


def _two(value: float) -> str:
    return number(value, digits=2, signed=True)


def _pairs(analysis: VocabularyAnalysis) -> list[Finding]:
    """Which of two models agrees better with the clinicians."""
    levels = {name: analysis.estimates.find("clinician_agreement", name) for name in analysis.models}
    found = []
    for model, reference in pairs_of(analysis.models)[:_MOST_PAIRS]:
        row = analysis.estimates.find("clinician_agreement", model, reference=reference)
        if row is not None and row.value is not None:
            found.append(Finding(sentence=_pair(row, levels), question="agreement"))
    return found


def _pair(row: Estimate, levels: Mapping[str, Estimate | None]) -> str:
    """The model that agrees better goes first, so that the reader need not turn a sign round."""
    row_model, reference = row.model, row.reference or ""
    first, second = (row_model, reference) if (row.value or 0) >= 0 else (reference, row_model)
    turned = row if (row.value or 0) >= 0 else row.negated()
    size = f"rank correlation {_correlation(levels[first])} against {_correlation(levels[second])}"
    size += f"; difference {number(turned.value, digits=2)}, {interval(turned, digits=2)}"
    if row.significant:
        return f"{first} agrees better with the clinicians than {second}: {size}."
    return f"Which of {first} and {second} agrees better with the clinicians is open: {size}."


def _spurious(analysis: VocabularyAnalysis, answers: Sequence[Answer]) -> list[Finding]:
    """The words that no clinician would use."""
    found = []
    for answer in answers:
        question = spurious_question(answer.margin or 0.0)
        effects = spurious_effects(analysis, question, answer.model)
        if not effects:
            who = f"{listed([each.model for each in answers])} {'hangs' if len(answers) == 1 else 'hang'}"
            sentence = f"Whether {who} on a word that no clinician would use is not settled: {answer.reason}."
            return [question.finding(answer, sentence)]
        found.append(question.finding(answer, _unwanted(analysis, answer, effects)))
    return found


def _unwanted(analysis: VocabularyAnalysis, answer: Answer, effects: Sequence[Effect]) -> str:
    """What is known about the words that no clinician would use, the strongest first."""
    alike = sorted((each for each in effects if each.verdict == answer.verdict), key=lambda each: -(each.harm or 0.0))
    worst, more = alike[0], [each.label for each in alike[1:]]
    model, margin, n = answer.model, _margin(answer), len(effects)
    n_open, still_open = sum(each.verdict == "unsettled" for each in effects), _open_words(effects, margin)
    if answer.verdict == "unsettled":
        every = f"{n_open} of {n} such words: {still_open}"
        return f"Whether {model} hangs on a word that no clinician would use is not settled for {every}."
    which, size = _place_of(analysis, worst.label), f"taking it out of the notes {_moves(worst)}"
    rest = f" {n_open} of {n} such words {'is' if n_open == 1 else 'are'} not settled: {still_open}." if n_open else ""
    if answer.verdict == "concern":
        also = f"; so does taking out {quoted(more)}" if more else ""
        return f"{model} hangs on {which}: {size}, more than the margin of {margin}{also}.{rest}"
    if answer.verdict == "caution":
        also = f"; the same holds for {quoted(more)}" if more else ""
        return f"{model} reacts to {which}: {size}; whether by more than {margin} is open{also}.{rest}"
    return (
        f"None of the {n} words that no clinician would use moves {model} by more than {margin} on average: the "
        f"most is {which}; {size}."
    )


def _place_of(analysis: VocabularyAnalysis, word: str) -> str:
    """A word, and where clinicians put it."""
    panel, w = analysis.rated_panel, analysis.words.index(word)
    if panel is None or not panel.rated[w]:
        return f"'{word}'"
    return f"'{word}', which clinicians rank {clinicians_place(panel, w)} of {int(panel.rated.sum())}"


def _moves(effect: Effect) -> str:
    """How far a word moves the risk."""
    ends = "no interval" if effect.low is None else f"{_points(effect.low)} to {_points(effect.high or 0.0)}"
    return f"moves the risk by {_points(effect.harm or 0.0)} points on average ({ends})"


def _open_words(effects: Sequence[Effect], margin: str) -> str:
    """The words that are not settled, by what keeps them from it."""
    by_reason: dict[str | None, list[Effect]] = {}
    for each in effects:
        if each.verdict == "unsettled":
            by_reason.setdefault(each.reason, []).append(each)
    told = []
    for reason, those in by_reason.items():
        widest = max(those, key=lambda each: each.high or 0.0)
        which = "taking it out" if len(those) == 1 else f"taking out '{widest.label}', for one,"
        why = reason or f"{which} {_moves(widest)}, which may be more or less than {margin}"
        told.append(f"{quoted([each.label for each in those])} ({why})")
    return "; ".join(told)


def _margin(answer: Answer) -> str:
    """In percentage points."""
    points = f"{100 * (answer.margin or 0.0):g}"
    return f"{points} point" if points == "1" else f"{points} points"


def _points(value: float) -> str:
    """A change of risk in percentage points."""
    return number(100 * value, digits=1)


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
        return [Finding(sentence=sentence, kind="caveat", question="agreement")]
    sentence = f"A model can agree with the clinicians no better than they agree with each other: {size}."
    return [Finding(sentence=sentence, question="agreement")]


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
        Finding(
            sentence=f"{len(which)} of {n_words} words could not be scored ({reason}): {quoted(which)}.", kind="caveat"
        )
        for reason, which in by_reason.items()
    ]
    patients = analysis.effects.layout.n_patients_of
    if len(few := np.flatnonzero((patients > 0) & (patients < FEWEST_PATIENTS))):
        which = quoted([analysis.words[w] for w in few])
        sentence = f"{len(few)} of {n_words} words are in the notes of fewer than {FEWEST_PATIENTS} patients"
        sentence += f", so their scores have no intervals and are not judged: {which}."
        found.append(Finding(sentence=sentence, kind="caveat"))
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
