"""The subgroups audit's findings: a sentence per question and model, the largest gap, and what limits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palpate.audits.kit.wording import counted, interval, listed, number, percent, quoted, settled_by
from palpate.audits.subgroups.answers import SubgroupAnalysis
from palpate.audits.subgroups.estimates import MODEL_GAP
from palpate.audits.subgroups.plan import BY, Partition
from palpate.results import Estimate, Finding
from palpate.results.verdicts import VERDICTS, Answer

_MANY_MISSING = 0.05


def subgroup_findings(analysis: SubgroupAnalysis, answers: Sequence[Answer]) -> tuple[Finding, ...]:
    """The answers in words, then the largest gaps, differences of models, and caveats."""
    return (
        *(
            Finding(
                sentence=_SENTENCES[answer.question](analysis, answer), kind=answer.verdict, question=answer.question
            )
            for answer in answers
        ),
        *_gaps(analysis),
        *_models(analysis),
        *_few(analysis),
        *_missing(analysis),
        *_spellings(analysis),
        *_threshold(analysis),
        *_labels(analysis),
    )


def _size(analysis: SubgroupAnalysis, answer: Answer) -> str:
    """`−0.081, 95% interval −0.120 to −0.040`; the value alone where there is no interval."""
    value = number(answer.value, signed=True)
    if answer.low is None or answer.high is None:
        return value
    low, high = (number(end, signed=True) for end in (answer.low, answer.high))
    return f"{value}, {analysis.level:.0%} interval {low} to {high} for all groups at once"


def _verdicts(analysis: SubgroupAnalysis, answer: Answer) -> str:
    """How many groups have which verdict, and which they are."""
    effects = analysis.effects(answer.question, answer.model)
    if len(effects) < 2:
        return ""
    told = []
    for verdict in VERDICTS:
        names = [effect.label for effect in effects if effect.verdict == verdict]
        if names:
            told.append(f"{len(names)} {verdict}" + (f" ({quoted(names)})" if verdict != "acceptable" else ""))
    return f" Of {len(effects)} groups: {listed(told)}."


def _group(answer: Answer) -> str:
    return answer.label or answer.where or "a group"


def _compared(analysis: SubgroupAnalysis, answer: Answer, metric: str, worse: str) -> str:
    model, group, margin = answer.model, _group(answer), f"{abs(answer.margin or 0):g}"
    if answer.value is None:
        return f"Whether {model} {worse} for some patients cannot be told: {answer.reason}."
    size, against = f"{metric} {_size(analysis, answer)}", analysis.against(answer.where or "")
    told = {
        "acceptable": f"In no group is the {metric} of {model} lower by {margin} or more, at most for {group} ({size})",
        "concern": f"{model} {worse} for {group}, by more than {margin} against {against}: {size}",
        "caution": f"{model} {worse} for {group} than for {against}; whether by more than {margin} is open: {size}",
        "unsettled": f"Whether {model} {worse} for {group} by more than {margin} cannot be told ({size})"
        + settled_by(answer),
    }
    return f"{told[answer.verdict]}.{_verdicts(analysis, answer)}"


def _worse(analysis: SubgroupAnalysis, answer: Answer) -> str:
    return _compared(analysis, answer, "AUROC", "separates patients worse")


def _missed(analysis: SubgroupAnalysis, answer: Answer) -> str:
    return _compared(analysis, answer, "sensitivity", "misses more of those with the outcome")


def _risks(analysis: SubgroupAnalysis, answer: Answer) -> str:
    model, group, margin = answer.model, _group(answer), f"{abs(answer.margin or 0):g}"
    if answer.value is None:
        return f"Whether the risks of {model} are right in every group cannot be told: {answer.reason}."
    size, side = f"observed less predicted {_size(analysis, answer)}", "low" if answer.value > 0 else "high"
    off, too = f"off by more than {margin}", f"The risks of {model} are too {side}"
    told = {
        "acceptable": f"The mean risk of {model} is off by less than {margin} in all groups, most for {group} ({size})",
        "concern": f"{too} by more than {margin} for {group}: {size}",
        "caution": f"{too} for {group}; whether by more than {margin} is open: {size}",
        "unsettled": f"Whether the risks of {model} are {off} for {group} cannot be told ({size}){settled_by(answer)}",
    }
    return f"{told[answer.verdict]}.{_verdicts(analysis, answer)}"


_SENTENCES = {"worse": _worse, "missed": _missed, "risks": _risks}


def extremes(analysis: SubgroupAnalysis, partition: Partition, metric: str, model: str, label: str) -> list[Estimate]:
    """The groups with the lowest and the highest value."""
    rows = [analysis.estimates.find(metric, model, label=label, group=group) for group in partition.groups]
    known = [row for row in rows if row is not None and row.value is not None]
    ordered = sorted(known, key=lambda row: row.value or 0.0)
    return [ordered[0], ordered[-1]] if len(ordered) > 1 else []


def _gaps(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    """The largest gap of AUROC, where it is shown that there is one."""
    for model in analysis.models:
        for label in analysis.labels:
            for partition in analysis.partitions:
                gap = analysis.estimates.find("auroc_gap", model, label=label, group=partition.name)
                ends = extremes(analysis, partition, "auroc", model, label)
                if gap is None or not gap.low or not ends:
                    continue
                lowest, highest = ends
                of = "" if len(analysis.labels) == 1 else f" for '{label}'"
                yield Finding(
                    sentence=f"By {partition.name}, the AUROC of {model}{of} differs by up to {number(gap.value)} "
                    f"once chance is allowed for ({interval(gap)}); as measured, it is {number(lowest.value)} in "
                    f"{lowest.group} and {number(highest.value)} in {highest.group}.",
                    question="worse",
                )


def _models(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    """Which of two models leaves a group further behind, where that is shown."""
    against = {contrast.group: contrast.reference for contrast in analysis.contrasts}
    for row in analysis.estimates:
        if row.metric != MODEL_GAP or not row.significant or row.value is None:
            continue
        worse, other = (row.model, row.reference) if row.value < 0 else (row.reference, row.model)
        own = analysis.estimates.find(
            "auroc", worse or "", label=row.label, group=row.group, reference=against[row.group]
        )
        if own is None or own.value is None or own.value >= 0 or not own.significant:
            continue  # the other model is better for this group, rather than this one worse
        shown = row if row.value < 0 else row.negated()
        yield Finding(
            sentence=f"For {analysis.named(row.group, row.label)}, {worse} falls behind by {number(abs(row.value))} "
            f"AUROC more than {other} does ({interval(shown, signed=True)}).",
            question="worse",
        )


def _few(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    if not analysis.few:
        return
    names = list(dict.fromkeys(analysis.named(group, label) for label, group in analysis.few))
    yield Finding(
        sentence=f"Nothing can be said about {counted(len(names), 'group')} with too few patients or events, so that "
        f"harm there would go unseen: {quoted(names)}.",
        kind="caveat",
        question="worse",
    )


def _missing(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    for partition in analysis.partitions:
        group = next((name for name in partition.groups if name == f"{partition.name}=missing"), None)
        if group is None:
            continue
        share = float(partition.rows(partition.groups.index(group)).mean())
        if share >= _MANY_MISSING:
            yield Finding(
                sentence=f"{partition.name} is missing for {percent(share)} of the cases; they are a group of their "
                "own, and the other groups may not be what they seem.",
                kind="caveat",
                question="worse",
            )


def _spellings(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    """Groups of one attribute that differ in case or blanks only; told once, not for each intersection too."""
    told: set[str] = set()
    for partition in sorted(analysis.partitions, key=lambda each: each.name.count(BY)):
        if told & set(partition.name.split(BY)):
            continue
        alike: dict[str, list[str]] = {}
        for group in partition.groups:
            alike.setdefault("".join(group.casefold().split()), []).append(group)
        for names in alike.values():
            if len(names) > 1:
                told.add(partition.name)
                yield Finding(
                    sentence=f"{quoted(names)} differ in capital letters or blanks only, and are audited as "
                    f"{len(names)} groups: write them alike if they are one.",
                    kind="caveat",
                    question="worse",
                )


def _threshold(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    models = analysis.thresholds.optimistic_among(analysis.models, analysis.ensembles)
    if models:
        yield Finding(
            sentence=f"The threshold of {listed(models)} was chosen on the audited cases themselves, for all groups at "
            "once: give a validation split or the threshold that is used.",
            kind="caveat",
            question="missed",
        )


def _labels(analysis: SubgroupAnalysis) -> Iterator[Finding]:
    if analysis.left_out:
        yield Finding(
            sentence=f"{len(analysis.left_out):,} of {len(analysis.left_out) + len(analysis.labels):,} labels, the "
            "less frequent ones, are not audited by group (`most_common`).",
            kind="caveat",
            question="worse",
        )
