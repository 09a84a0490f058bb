"""The performance audit's findings: one sentence per question and model, never saying more than the verdict does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palpate.audits.kit.answers import Question
from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.wording import counted, interval, listed, number, quoted
from palpate.audits.performance.answers import CHANCE, PerformanceAnalysis, too_few
from palpate.results import Estimate, Finding
from palpate.results.verdicts import VERDICTS, Answer, Effect
from palpate.stats import widen_interval

_MOST_PAIRS = 6


def performance_findings(analysis: PerformanceAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """What casts doubt on everything, then the sentences of each question, and what limits them."""
    by_question = {name: [answer for answer in answers if answer.question == name] for name in _SENTENCES}
    return (
        *_alarms(analysis),
        *(
            Finding(sentence=sentence(analysis, answer), kind=answer.verdict, question=name)
            for name, sentence in _SENTENCES.items()
            for answer in by_question[name]
        ),
        *_label_caveats(analysis),
        *_skills(analysis),
        *_drops(analysis),
        *_pairs(analysis),
        *_threshold_caveats(analysis),
    )


def _size(analysis: PerformanceAnalysis, answer: Answer, *, signed: bool = False) -> str:
    """`0.781, 95% interval 0.701 to 0.850`; the value alone where there is no interval."""
    if answer.low is None or answer.high is None:
        return number(answer.value, signed=signed)
    low, high = (number(end, signed=signed) for end in (answer.low, answer.high))
    return f"{number(answer.value, signed=signed)}, {analysis.level:.0%} interval {low} to {high}"


def _open(answer: Answer) -> str:
    """What would settle it: `; about 1,200 patients would settle it`, or why it cannot be."""
    if answer.reason:
        return f": {answer.reason}"
    if not answer.needed:
        return ""
    where = "" if answer.where is None else f" in {answer.where}"
    return f"; about {answer.needed:,} patients{where} would settle it"


def _separation(analysis: PerformanceAnalysis, answer: Answer) -> str:
    size = f"{analysis.auroc} {_size(analysis, answer)}"
    asked = "better than chance" if analysis.required == CHANCE else f"as required ({analysis.required:g})"
    if answer.value is None:
        return f"{analysis.auroc} of {answer.model} in {analysis.populations[0]} cannot be computed: {answer.reason}."
    if answer.verdict == "acceptable":
        return f"{answer.model} separates patients {asked}: {size}."
    if answer.verdict == "concern":
        short = "does worse than chance" if analysis.required == CHANCE else f"does not separate patients {asked}"
        return f"{answer.model} {short}: {size}."
    return f"Whether {answer.model} separates patients {asked} cannot be told ({size}){_open(answer)}."


def _calibration(analysis: PerformanceAnalysis, answer: Answer) -> str:
    size = f"mean calibration error {_size(analysis, answer)}"
    margin = f"{analysis.calibration.margin:g}"
    if answer.value is None:
        return f"The calibration of {answer.model} cannot be computed: {answer.reason}."
    if answer.verdict == "acceptable":
        return f"The risks of {answer.model} are off by less than {margin} on average: {size}."
    if answer.verdict == "concern":
        return f"The risks of {answer.model} are off by more than {margin} on average: {size}."
    if answer.verdict == "caution":
        return f"The risks of {answer.model} are off; whether by more than {margin} is open: {size}."
    return f"Whether the risks of {answer.model} are off by more than {margin} cannot be told ({size}){_open(answer)}."


def _travel(analysis: PerformanceAnalysis, answer: Answer) -> str:
    where = f"from {analysis.populations[0]} {answer.label or f'to {analysis.populations[-1]}'}"
    what, margin = analysis.auroc, f"{analysis.travel.margin:g}"
    size = f"change {_size(analysis, answer, signed=True)}"
    if answer.value is None:
        return f"The change of {what} of {answer.model} {where} cannot be computed: {answer.reason}."
    if answer.verdict == "acceptable":
        several = "to any other cohort " if len(analysis.populations) > 2 else ""
        return f"{answer.model} does not lose {margin} {what} or more {several}{where} ({size})."
    if answer.verdict == "concern":
        return f"{answer.model} loses more than {margin} {what} {where} ({size})."
    if answer.verdict == "caution":
        return f"{answer.model} loses {what} {where}; whether more than {margin} is open ({size})."
    return f"Whether {answer.model} loses more than {margin} {what} {where} cannot be told ({size}){_open(answer)}."


_SENTENCES = {"separation": _separation, "calibration": _calibration, "travel": _travel}


def _pairs(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """One sentence per pair in the first cohort; its verdict is the worse of the two models'."""
    judged = []
    for model, reference in pairs_of(analysis.models):
        first, second = analysis.pair_effect(model, reference), analysis.pair_effect(reference, model)
        if first is None or second is None or first.harm is None or second.harm is None:
            continue
        worse = min((first, model, reference), (second, reference, model), key=lambda each: _rank(each[0]))
        judged.append(worse)
    judged.sort(key=lambda each: _rank(each[0]))
    for effect, model, other in judged[:_MOST_PAIRS]:
        yield Finding(sentence=_pair(analysis, effect, model, other), kind=effect.verdict, question="comparison")
    if len(judged) > _MOST_PAIRS:
        more = counted(len(judged) - _MOST_PAIRS, "more pair of models is", "more pairs of models are")
        yield Finding(sentence=f"{more} in the table of differences.", question="comparison")


def _rank(effect: Effect) -> tuple[int, float]:
    return VERDICTS.index(effect.verdict), -(effect.harm or 0.0)


def _pair(analysis: PerformanceAnalysis, effect: Effect, model: str, other: str) -> str:
    """`model` is the one that may be worse."""
    levels = [number(analysis.estimates.value("auroc", name)) for name in (model, other)]
    answer = analysis.comparison.answer(model, [effect])
    size = f"{levels[0]} against {levels[1]}"
    if answer is not None:
        size += f", difference {_size(analysis, answer, signed=True)}"
    margin, what = f"{analysis.comparison.margin:g}", analysis.auroc
    if effect.verdict == "concern":
        return f"{model} has a lower {what} than {other}, by more than {margin}: {size}."
    if effect.verdict == "caution":
        return f"{model} has a lower {what} than {other}; whether by more than {margin} is open: {size}."
    if effect.verdict == "acceptable":
        return f"{model} and {other} differ by less than {margin} in {what}: {size}."
    open_ = "" if answer is None else _open(answer)
    return f"Whether {model} is worse than {other} by more than {margin} {what} cannot be told: {size}{open_}."


def _drops(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Which of two models loses more, where that is shown."""
    main = analysis.populations[0]
    for population in analysis.populations[1:]:
        for model, reference in pairs_of(analysis.models):
            row = analysis.estimates.find("auroc_drop", model, group=population, reference=reference)
            if row is None or row.value is None or not row.significant:
                continue
            loser, other = (model, reference) if row.value < 0 else (reference, model)
            shown = row if row.value < 0 else row.negated()
            yield Finding(
                sentence=f"From {main} to {population}, the {analysis.auroc} of {loser} changes for the worse by "
                f"{number(abs(row.value))} more than that of {other} ({interval(shown, signed=True)}).",
                question="travel",
            )


def _alarms(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """What makes every other number doubtful: findings of the first rank."""
    odd = {(each.model, each.label) for each in analysis.odd_scores if each.constant}
    for constant in (True, False):
        for model in dict.fromkeys(each.model for each in analysis.odd_scores if each.constant is constant):
            labels = [each.label for each in analysis.odd_scores if (each.model, each.constant) == (model, constant)]
            what = (
                f"{model} gives every case the same score{_for(analysis, labels)}: it tells nobody apart. "
                "Check that it reads the right column and that its weights were loaded."
                if constant
                else f"{model} gives only 0 and 1{_for(analysis, labels)}: decisions, not probabilities. "
                "Ranking and calibration cannot be judged from them; use its probabilities (`predict_proba`)."
            )
            yield Finding(sentence=what, kind="concern")
    for model in analysis.models:
        yield from _inverted(analysis, model)
        yield from _one_decision(analysis, model, odd)


def _for(analysis: PerformanceAnalysis, labels: Sequence[str]) -> str:
    return "" if len(analysis.labels) == 1 else f" for {quoted(list(dict.fromkeys(labels)))}"


def _levels(analysis: PerformanceAnalysis, metric: str, model: str, population: str) -> Iterator[Estimate]:
    for label in analysis.labels:
        row = analysis.estimates.find(metric, model, label=label, group=population)
        if row is not None and row.value is not None and too_few(row) is None:
            yield row


def _inverted(analysis: PerformanceAnalysis, model: str) -> Iterator[Finding]:
    """An AUROC that is shown to lie below 0.5; one of many labels, over all of them at once."""
    for population in analysis.populations:
        rows = list(_levels(analysis, "auroc", model, population))
        n_labels = sum(row.low is not None for row in rows)
        found = [
            row
            for row in rows
            if row.value is not None and row.low is not None and row.high is not None
            if float(widen_interval(row.value, row.low, row.high, n_labels, level=analysis.level).high) < CHANCE
        ]
        if found:
            size = f"AUROC {number(found[0].value)}, {interval(found[0])}"
            yield Finding(
                sentence=f"{model} ranks patients the wrong way round{_for(analysis, [row.label for row in found])} "
                f"in {population} ({size}). Its classes are probably in the wrong order: check `positive:` or the "
                "column that holds the risk.",
                kind="concern",
            )


def _one_decision(analysis: PerformanceAnalysis, model: str, odd: set[tuple[str, str]]) -> Iterator[Finding]:
    """A threshold that flags everybody or nobody."""
    member = analysis.ensembles.get(model, [model])[0]
    origin = analysis.thresholds.origin[member]
    for population in analysis.populations:
        for share, who in ((1.0, "everybody"), (0.0, "nobody")):
            labels = [
                row.label
                for row in _levels(analysis, "sensitivity", model, population)
                if row.value == share and (model, row.label) not in odd
                if analysis.estimates.value("specificity", model, label=row.label, group=population) == 1.0 - share
            ]
            if labels:
                yield Finding(
                    sentence=f"{model} flags {who} in {population}{_for(analysis, labels)} at its threshold "
                    f"({origin}): set `threshold:` to one that divides patients, or check its probabilities.",
                    kind="concern",
                )


def _label_caveats(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Behind a mean over labels: those that are shown to fall short, and those that could not be judged."""
    if len(analysis.labels) == 1:
        return
    question, n = analysis.separation, len(analysis.labels)
    few = [
        label
        for label in analysis.labels
        if (row := analysis.estimates.find("auroc", analysis.models[0], label=label)) is None or too_few(row)
    ]
    if few:
        yield Finding(
            sentence=f"{len(few)} of {n} labels have fewer than {FEWEST_FOR_TEST} cases of one class and are not "
            f"judged: {quoted(few)}.",
            kind="caveat",
            question=question.name,
        )
    for model in analysis.models:
        short = _judged(analysis, "concern", question, model)
        if short and analysis.required != CHANCE:
            yield Finding(
                sentence=f"For {len(short)} of {n} labels, the AUROC of {model} is below the required "
                f"{analysis.required:g}: {quoted(short)}.",
                kind="caveat",
                question=question.name,
            )
        for population in analysis.populations[1:]:
            effects = {label: analysis.drop_effect(model, population, label) for label in analysis.labels}
            lost = [label for label, effect in effects.items() if effect is not None and effect.verdict == "concern"]
            if lost:
                yield Finding(
                    sentence=f"For {len(lost)} of {n} labels, {model} loses more than "
                    f"{analysis.travel.margin:g} AUROC to {population}: {quoted(lost)}.",
                    kind="caveat",
                    question="travel",
                )


def _judged(analysis: PerformanceAnalysis, verdict: str, question: Question, model: str) -> list[str]:
    effects = {label: analysis.level_effect(question, "auroc", model, label) for label in analysis.labels}
    return [label for label, effect in effects.items() if effect is not None and effect.verdict == verdict]


def _skills(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Probabilities that are worse than always predicting the prevalence."""
    for model in analysis.models:
        skills = [analysis.estimates.find("brier_skill_score", model, group=name) for name in analysis.populations]
        bad = [skill for skill in skills if skill is not None and skill.high is not None and skill.high < 0]
        if bad:
            where = listed([f"{skill.group} (Brier skill {number(skill.value, signed=True)})" for skill in bad])
            yield Finding(
                sentence=f"The probabilities of {model} are worse than always predicting the prevalence in {where}: "
                "recalibrate before use.",
                kind="caveat",
                question="calibration",
            )


def _threshold_caveats(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Decisions at a threshold that was chosen on the audited cases look better than they will be."""
    models = [
        name for name in analysis.models if analysis.ensembles.get(name, [name])[0] in analysis.thresholds.optimistic
    ]
    if models:
        its, was = ("its threshold", "was") if len(models) == 1 else ("their thresholds", "were")
        yield Finding(
            sentence=f"Sensitivity, specificity, PPV, NPV and F1 of {listed(models)} are optimistic: {its} {was} "
            "chosen on the audited cases themselves. Give a validation split or a threshold.",
            kind="caveat",
        )
