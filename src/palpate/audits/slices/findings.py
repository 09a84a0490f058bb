"""The slices audit's findings: what was confirmed, what could have been seen, and what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palpate.audits.kit.wording import counted, interval, listed, number, p_value, quoted
from palpate.audits.slices.answers import SliceAnalysis
from palpate.audits.slices.plan import MOST_WORDS
from palpate.results import Finding
from palpate.results.verdicts import Answer

TOLD = {
    "auroc": ("AUROC", "separates patients worse"),
    "sensitivity": ("sensitivity", "misses more of those with the outcome"),
    "calibration": ("observed less predicted risk", "is off in its risks"),
    "brier": ("Brier score", "is further off in its risks"),
}
"""The metric in a sentence, and what is worse."""


def slice_findings(analysis: SliceAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The answer for each model, every slice that was confirmed, and caveats."""
    return (
        *(Finding(sentence=_answer(analysis, each), kind=each.verdict, question="worse") for each in answers),
        *_confirmed(analysis, answers),
        *_visible(analysis),
        *_limits(analysis),
    )


def _answer(analysis: SliceAnalysis, answer: Answer) -> str:
    metric, worse = TOLD[analysis.how.metric]
    model, margin = answer.model, f"{abs(answer.margin or 0):g}"
    searched = _searched(analysis, answer.model)
    name = answer.label or answer.where or "a slice"
    if answer.value is None:
        return f"Whether there is a group for whom {model} {worse} cannot be told: {answer.reason}."
    size = f"{metric} {_size(analysis, answer)}"
    told = {
        "acceptable": f"In no slice does the {metric} of {model} fall short by {margin} or more, at most for {name} "
        f"({size}, for all slices at once)",
        "concern": f"{model} {worse} for {name} than for all others, by more than {margin}: {size} on patients on whom "
        "it was not found",
        "caution": f"{model} {worse} for {name} than for all others; whether by more than {margin} is open: {size} on "
        "patients on whom it was not found",
        "unsettled": f"No group for whom {model} {worse} was confirmed. The worst that was tested is {name} ({size}); "
        + (answer.reason or ""),
    }
    return f"{told[answer.verdict]}. {searched}"


def _size(analysis: SliceAnalysis, answer: Answer) -> str:
    value = number(answer.value, signed=True)
    if answer.low is None or answer.high is None:
        return value
    low, high = (number(end, signed=True) for end in (answer.low, answer.high))
    return f"{value}, {analysis.how.level:.0%} interval {low} to {high}"


def _searched(analysis: SliceAnalysis, model: str) -> str:
    found = [analysis.found[model, label] for label in analysis.labels]
    n, tested = sum(each.searched.n_slices for each in found), sum(len(each.names) for each in found)
    return f"{counted(n, 'slice')} searched on one half of the patients, {tested:,} tested on the other."


def _confirmed(analysis: SliceAnalysis, answers: Sequence[Answer]) -> Iterator[Finding]:
    """Further slices that were confirmed, beside the one that the answer names."""
    first = {answer.model: answer.label or answer.where for answer in answers}
    metric, worse = TOLD[analysis.how.metric]
    for model in analysis.models:
        for effect in analysis.effects(model):
            if effect.verdict not in ("concern", "caution") or effect.label == first.get(model):
                continue
            label = next((each for each in analysis.labels if effect.label.endswith(f", '{each}'")), analysis.labels[0])
            row = analysis.row(model, label, effect.where or "")
            if row is not None:
                yield Finding(
                    sentence=f"{model} also {worse} for {effect.label}: {metric} {number(row.value, signed=True)} "
                    f"({interval(row, signed=True)}{p_value(row)}).",
                    kind=effect.verdict,
                    question="worse",
                )


def _visible(analysis: SliceAnalysis) -> Iterator[Finding]:
    """What could have been seen, so that silence is not taken for safety."""
    metric, _ = TOLD[analysis.how.metric]
    for model in analysis.models:
        sizes = [analysis.visible(model, label) for label in analysis.labels]
        known = [size for size in sizes if size is not None]
        if known:
            n = next(iter(analysis.found.values())).n_others
            yield Finding(
                sentence=f"With {n:,} patients in the half that confirms, a slice of a tenth of them is shown to be "
                f"worse in 8 of 10 audits if the {metric} of {model} differs there by about {number(max(known))}; "
                "smaller slices and gaps go unseen.",
                kind="caveat",
                question="worse",
            )


def _limits(analysis: SliceAnalysis) -> Iterator[Finding]:
    sliced = analysis.sliced
    if analysis.left_out:
        yield Finding(
            sentence=f"Slices were searched for {quoted(analysis.labels)} only, not for {quoted(analysis.left_out)} "
            "(`labels`, `most_common`).",
            kind="caveat",
            question="worse",
        )
    if sliced.rare:
        yield Finding(
            sentence=f"Too few patients have {quoted(sliced.rare)} in their notes: not searched (`smallest`).",
            kind="caveat",
            question="worse",
        )
    if sliced.constant:
        yield Finding(
            sentence=f"All audited cases have the same value of {quoted(sliced.constant)}: not searched.",
            kind="caveat",
            question="worse",
        )
    if sliced.own_words and len(sliced.names) - sliced.n_attributes == MOST_WORDS:
        yield Finding(
            sentence=f"Of the notes' words, only the {MOST_WORDS:,} most frequent were searched.",
            kind="caveat",
            question="worse",
        )
    optimistic = analysis.thresholds.optimistic_among(analysis.models, analysis.ensembles)
    if analysis.how.metric == "sensitivity" and optimistic:
        yield Finding(
            sentence=f"The threshold of {listed(optimistic)} was chosen on the audited cases themselves: give a "
            "validation split or the threshold that is used.",
            kind="caveat",
            question="worse",
        )
