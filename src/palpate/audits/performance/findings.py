"""The performance audit's findings: one sentence per question and model, never saying more than the verdict does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from palpate.audits.kit.resampling import FEWEST_FOR_TEST
from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.wording import counted, interval, listed, number, quoted, settled_by
from palpate.audits.performance.answers import CHANCE, ERROR, PerformanceAnalysis, too_few
from palpate.audits.performance.risk_facts import risk_facts
from palpate.results import Estimate, Finding
from palpate.results.verdicts import VERDICTS, Answer, Effect, worst
from palpate.stats import widen_interval

_MOST_PAIRS = 6


def performance_findings(analysis: PerformanceAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """What casts doubt on everything, then the sentences of each question, and what limits them."""
    return (
        *_alarms(analysis),
        *(
            Finding(sentence=sentence(analysis, answer), kind=answer.verdict, question=name)
            for name, sentence in _SENTENCES.items()
            for answer in answers
            if answer.question == name and not _told_by_alarm(analysis, answer)
        ),
        *_label_caveats(analysis),
        *_skills(analysis),
        *risk_facts(analysis, _sound(analysis)),
        *_drops(analysis),
        *_pairs(analysis),
        *_threshold_caveats(analysis),
    )


def _told_by_alarm(analysis: PerformanceAnalysis, answer: Answer) -> bool:
    """Whether a finding of the first rank says all: scores that cannot be judged, or a model that is inverted."""
    if analysis.all_odd(answer.model):
        return True
    if answer.question != "separation" or len(analysis.labels) > 1:
        return False
    return bool(_inverted_rows(analysis, answer.model, analysis.populations[0]))


def _labels(analysis: PerformanceAnalysis, effects: Sequence[Mapping[str, Effect]], mean: str) -> str:
    """Behind the label that decides: how many labels have which verdict, which they are, and the mean over all."""
    if len(analysis.labels) == 1:
        return ""
    decided = {
        label: worst([each[label] for each in effects if label in each]).verdict
        for label in analysis.judged
        if any(label in each for each in effects)
    }
    told = []
    for verdict in VERDICTS:
        names = [label for label, own in decided.items() if own == verdict]
        if names:
            told.append(f"{len(names)} {verdict}" + (f" ({quoted(names)})" if verdict != "acceptable" else ""))
    n, most = len(analysis.labels), len(analysis.judged)
    of = f"Of {n} labels" if most == n else f"Of the {most} most frequent of {n:,} labels"
    return f" {of}: {listed(told)}{mean}."


def _mean(analysis: PerformanceAnalysis, row: Estimate | None, name: str, *, signed: bool = False) -> str:
    """`; mean AUROC over 3 labels 0.841, 95% interval ...`; nothing where the mean is over one label."""
    if row is None or row.value is None or len(analysis.averaged) < 2:
        return ""
    return f"; {name} {number(row.value, signed=signed)}, {interval(row, signed=signed)}"


def _for_label(analysis: PerformanceAnalysis, answer: Answer, worst_is: str) -> str:
    """` for 'c'`: the label that decides, where there are several; of acceptable ones, the one that comes closest."""
    if answer.label is None or len(analysis.labels) == 1:
        return ""
    if answer.verdict == "acceptable":
        return f" for all {answer.n_labels} labels, {worst_is} for '{answer.label}'"
    return f" for '{answer.label}'"


def _size(analysis: PerformanceAnalysis, answer: Answer, *, signed: bool = False) -> str:
    """`0.781, 95% interval 0.701 to 0.850`; the value alone where there is no interval."""
    if answer.low is None or answer.high is None:
        return number(answer.value, signed=signed)
    low, high = (number(end, signed=signed) for end in (answer.low, answer.high))
    return f"{number(answer.value, signed=signed)}, {analysis.level:.0%} interval {low} to {high}"


def _separation(analysis: PerformanceAnalysis, answer: Answer) -> str:
    size, of = f"AUROC {_size(analysis, answer)}", _for_label(analysis, answer, "least")
    asked = "better than chance" if analysis.required == CHANCE else f"as required ({analysis.required:g})"
    mean = _mean(analysis, analysis.estimates.find("auroc", answer.model), analysis.auroc)
    labels = _labels(analysis, [analysis.level_effects(analysis.separation, "auroc", answer.model)], mean)
    if answer.value is None:
        return f"AUROC of {answer.model} in {analysis.populations[0]}{of} cannot be computed: {answer.reason}.{labels}"
    if answer.verdict == "acceptable":
        return f"{answer.model} separates patients {asked}{of}: {size}.{labels}"
    if answer.verdict == "concern":
        short = "does worse than chance" if analysis.required == CHANCE else f"does not separate patients {asked}"
        return f"{answer.model} {short}{of}: {size}.{labels}"
    return f"Whether {answer.model} separates patients {asked}{of} cannot be told ({size}){settled_by(answer)}.{labels}"


def _calibration(analysis: PerformanceAnalysis, answer: Answer) -> str:
    size, of = f"mean calibration error {_size(analysis, answer)}", _for_label(analysis, answer, "most")
    mean = _mean(analysis, analysis.estimates.find(ERROR, answer.model), "mean over the labels")
    labels = _labels(analysis, [analysis.level_effects(analysis.calibration, ERROR, answer.model)], mean)
    risks, margin = f"the risks of {answer.model}", f"{answer.margin:g}"
    if answer.value is None:
        return f"The calibration of {answer.model}{of} cannot be computed: {answer.reason}.{labels}"
    if answer.verdict == "acceptable":
        return f"The risks of {answer.model} are off by less than {margin} on average{of}: {size}.{labels}"
    if answer.verdict == "concern":
        return f"The risks of {answer.model} are off by more than {margin} on average{of}: {size}.{labels}"
    if answer.verdict == "caution":
        return f"The risks of {answer.model} are off{of}; whether by more than {margin} is open: {size}.{labels}"
    return f"Whether {risks} are off by more than {margin}{of} cannot be told ({size}){settled_by(answer)}.{labels}"


def _travel(analysis: PerformanceAnalysis, answer: Answer) -> str:
    main, others = analysis.populations[0], analysis.populations[1:]
    where = f"from {main} {answer.label or f'to {others[-1]}'}"
    margin, size = f"{analysis.travel.margin:g}", f"change {_size(analysis, answer, signed=True)}"
    drops = [analysis.drop_effects(answer.model, name) for name in others]
    row = analysis.estimates.find("auroc", answer.model, group=others[0], reference=main)
    mean = _mean(analysis, row, f"change of the {analysis.auroc}", signed=True) if len(others) == 1 else ""
    labels = _labels(analysis, drops, mean)
    if answer.value is None:
        return f"The change of AUROC of {answer.model} {where} cannot be computed: {answer.reason}.{labels}"
    if answer.verdict == "acceptable":
        several = "to any other cohort, at most " if len(others) > 1 else ""
        several = several or ("for any label, at most " if answer.n_labels > 1 else "")
        return f"{answer.model} does not lose {margin} AUROC or more {several}{where} ({size}).{labels}"
    if answer.verdict == "concern":
        return f"{answer.model} loses more than {margin} AUROC {where} ({size}).{labels}"
    if answer.verdict == "caution":
        return f"{answer.model} loses AUROC {where}; whether more than {margin} is open ({size}).{labels}"
    lost = f"Whether {answer.model} loses more than {margin} AUROC {where}"
    return f"{lost} cannot be told ({size}){settled_by(answer)}.{labels}"


_SENTENCES = {"separation": _separation, "calibration": _calibration, "travel": _travel}


def _pairs(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """One sentence per pair in the first cohort; its verdict is the worse of the two models'."""
    judged = []
    for pair in pairs_of([model for model in analysis.models if not analysis.all_odd(model)]):
        both = [
            (effect, model, other, label)
            for model, other in (pair, pair[::-1])
            for label, effect in analysis.pair_effects(model, other).items()
            if effect.harm is not None
        ]
        if both:
            judged.append(min(both, key=lambda each: _rank(each[0])))
    judged.sort(key=lambda each: _rank(each[0]))
    for effect, model, other, label in judged[:_MOST_PAIRS]:
        sentence = _pair(analysis, effect, model, other, label)
        yield Finding(sentence=sentence, kind=effect.verdict, question="comparison")
    if len(judged) > _MOST_PAIRS:
        more = counted(len(judged) - _MOST_PAIRS, "more pair of models is", "more pairs of models are")
        yield Finding(sentence=f"{more} in the table of differences.", question="comparison")


def _rank(effect: Effect) -> tuple[int, float]:
    return VERDICTS.index(effect.verdict), -(effect.harm or 0.0)


def _pair(analysis: PerformanceAnalysis, effect: Effect, model: str, other: str, label: str) -> str:
    """`model` is the one that may be worse, by most for this label."""
    levels = [number(analysis.estimates.value("auroc", name, label=label)) for name in (model, other)]
    answer = analysis.comparison.answer(model, [effect])
    size = f"{levels[0]} against {levels[1]}"
    if answer is not None:
        size += f", difference {_size(analysis, answer, signed=True)}"
    margin, of = f"{analysis.comparison.margin:g}", analysis.named("", label)
    mean = _mean(analysis, analysis.difference(model, other), f"difference of the {analysis.auroc}", signed=True)
    labels = _labels(analysis, [analysis.pair_effects(model, other)], mean)
    if effect.verdict == "concern":
        return f"{model} has a lower AUROC than {other}{of}, by more than {margin}: {size}.{labels}"
    if effect.verdict == "caution":
        return f"{model} has a lower AUROC than {other}{of}; whether by more than {margin} is open: {size}.{labels}"
    if effect.verdict == "acceptable":
        most = of and f", most{of}"
        return f"{model} and {other} differ by less than {margin} in AUROC{most}: {size}.{labels}"
    open_ = "" if answer is None else settled_by(answer)
    worse = f"Whether {model} is worse than {other} by more than {margin} AUROC{of}"
    return f"{worse} cannot be told: {size}{open_}.{labels}"


def _drops(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Which of two models loses more, where that is shown."""
    main = analysis.populations[0]
    for population in analysis.populations[1:]:
        for model, reference in pairs_of(analysis.models):
            row = analysis.estimates.find("auroc_drop", model, group=population, reference=reference)
            if row is None or row.value is None or not row.significant:
                continue
            if analysis.all_odd(model) or analysis.all_odd(reference):
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
                "Ranking and calibration cannot be judged from them; use its probabilities (`predict_proba`, or "
                "`parser: logprobs` of a chat endpoint)."
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


def _inverted_rows(analysis: PerformanceAnalysis, model: str, population: str) -> list[Estimate]:
    """The AUROCs that are shown to lie below 0.5; those of many labels, over all of them at once."""
    rows = list(_levels(analysis, "auroc", model, population))
    n_labels = sum(row.low is not None for row in rows)
    return [
        row
        for row in rows
        if row.value is not None and row.low is not None and row.high is not None
        if float(widen_interval(row.value, row.low, row.high, n_labels, level=analysis.level).high) < CHANCE
    ]


def _inverted(analysis: PerformanceAnalysis, model: str) -> Iterator[Finding]:
    """Of an ensemble, the seeds that are inverted: their mean may hide it."""
    members = analysis.ensembles.get(model, [])
    for name in (model, *members):
        found = {each: _inverted_rows(analysis, name, each) for each in analysis.populations}
        for population, rows in found.items():
            if not rows:
                continue
            lowest = min(rows, key=lambda row: row.value or 0.0)
            label = f"lowest for '{lowest.label}': " if len(rows) > 1 else ""
            labels = [row.label for row in rows]
            yield Finding(
                sentence=f"{name} ranks patients the wrong way round{_for(analysis, labels)} in {population} "
                f"({label}AUROC {number(lowest.value)}, {interval(lowest)}). {_why_inverted(analysis, name, lowest)}",
                kind="concern",
            )


def _why_inverted(analysis: PerformanceAnalysis, model: str, inverted: Estimate) -> str:
    """Classes in the wrong order turn a model round everywhere; one that is right elsewhere has another problem."""
    rows = (
        analysis.estimates.find("auroc", model, label=inverted.label, group=name)
        for name in analysis.populations
        if name != inverted.group
    )
    elsewhere = [row.group for row in rows if row is not None and row.low is not None and row.low > CHANCE]
    if elsewhere:
        return f"In {listed(elsewhere)} it does not: check how the label and the inputs are coded in {inverted.group}."
    return "Its classes are probably in the wrong order: check `positive:` or the column that holds the risk."


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
    """The labels about which nothing can be said: too rare, or not among those that are judged one by one."""
    if len(analysis.labels) == 1:
        return
    n = len(analysis.labels)
    few = [
        label
        for label in analysis.judged
        if (row := analysis.estimates.find("auroc", analysis.models[0], label=label)) is None or too_few(row)
    ]
    told = []
    if few:
        told.append(
            f"{len(few)} of {n:,} labels {'has' if len(few) == 1 else 'have'} fewer than {FEWEST_FOR_TEST} cases of "
            f"one class, so that harm there may go unseen: {quoted(few)}."
        )
    rest = [label for label in analysis.labels if label not in set(analysis.judged)]
    if rest:
        told.append(
            f"{len(rest):,} of {n:,} labels are not judged one by one, because only the {len(analysis.judged)} most "
            f"frequent have intervals (`labels_with_intervals`): {quoted(rest)}."
        )
    for sentence in told:
        yield Finding(sentence=sentence, kind="caveat", question=analysis.separation.name)


def _sound(analysis: PerformanceAnalysis) -> list[str]:
    """The models whose risks can be spoken of: of the others an alarm tells, and recalibration would not mend them."""
    main = analysis.populations[0]
    return [name for name in analysis.models if not analysis.all_odd(name) and not _inverted_rows(analysis, name, main)]


def _skills(analysis: PerformanceAnalysis) -> Iterator[Finding]:
    """Probabilities that are worse than always predicting the prevalence."""
    for model in _sound(analysis):
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
    models = analysis.thresholds.optimistic_among(analysis.models, analysis.ensembles)
    if models:
        its, was = ("its threshold", "was") if len(models) == 1 else ("their thresholds", "were")
        yield Finding(
            sentence=f"Sensitivity, specificity, PPV, NPV and F1 of {listed(models)} are optimistic: {its} {was} "
            "chosen on the audited cases themselves. Give a validation split or a threshold.",
            kind="caveat",
        )
