"""The context audit's findings: sentences for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from palpate.audits.context.balance import BalanceRow
from palpate.audits.context.cases import AuditedCases, ContextMeasuring
from palpate.audits.context.groups import MATCHED, MENTIONED, PRETEST, REWEIGHTED, WHOLE, CaseGroup, LabelStrata
from palpate.audits.context.incremental import OVER_CONTEXT
from palpate.audits.context.measures import FEWEST_TESTED, ContextMeasures
from palpate.audits.context.pretest import PretestProbabilities
from palpate.audits.kit.rows import EstimateIndex
from palpate.audits.kit.wording import counted, interval, number, quoted
from palpate.results import MACRO, Estimate, Finding

WARNINGS = {
    "effective_size": "the weights reduce the effective sample size of a class to {value:.0%}",
    "extreme_weight": "a single case holds {value:.0%} of the weight of its class",
    "no_overlap": "{value:.0%} of a class have a pre-test probability that no case of the other class has",
    "unbalanced": "after weighting, the history still tells the classes apart (its AUROC is {value:.2f} from 0.5)",
}
_OPENINGS = {
    MATCHED: "Among patients with the same pre-test probability (matched)",
    REWEIGHTED: "If the history said nothing about the label (re-weighted)",
}
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class ContextAnalysis:
    """What findings and blocks are made from."""

    estimates: EstimateIndex
    """By default of all cases."""
    models: Sequence[str]
    ensembles: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    groups: Sequence[CaseGroup]
    strata: Sequence[LabelStrata]
    cases: AuditedCases
    pretest: PretestProbabilities
    measures: ContextMeasures
    measuring: ContextMeasuring
    include_text: bool
    n_left_out: int
    left_out: str

    @property
    def n_tested(self) -> int:
        """How many tests the family has."""
        return sum(row.p_value is not None for row in self.estimates)

    def tested(self, model: str, group: str, reference: str, metric: str = "auroc") -> list[Estimate]:
        """The labels' differences that were tested, the lowest first."""
        rows = (
            self.estimates.find(metric, model, label=label, group=group, reference=reference) for label in self.labels
        )
        found = [row for row in rows if row is not None and row.significant is not None]
        return sorted(found, key=lambda row: row.value or 0.0)

    def names(self, kind: str) -> list[str]:
        """The names of the groups of a kind."""
        return [group.name for group in self.groups if group.kind == kind]


def context_findings(analysis: ContextAnalysis) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    found = [*_history(analysis), *_untested(analysis)]
    for model in analysis.models:
        found += _held_equal(analysis, model)
        found += _strata(analysis, model)
        found += _mentions(analysis, model)
        found += _gain(analysis, model)
    return (*found, *_not_alike(analysis), *_weights(analysis), *_few_values(analysis), *_left_out(analysis))


def _warning(sentence: str) -> Finding:
    return Finding(sentence=sentence, kind="caveat")


def _labels(rows: Sequence[Estimate] | Sequence[BalanceRow]) -> str:
    return quoted([row.label for row in rows], most=_MOST_NAMED)


def _lower(rows: Sequence[Estimate]) -> list[Estimate]:
    return [row for row in rows if row.significant and (row.value or 0) < 0]


def _higher(rows: Sequence[Estimate]) -> list[Estimate]:
    return [row for row in rows if row.significant and (row.value or 0) > 0]


def _for_any(rows: Sequence[Estimate]) -> str:
    return f"for '{rows[0].label}'" if len(rows) == 1 else f"for any of the {len(rows)} labels"


def _size(row: Estimate) -> str:
    return f"{number(row.value, signed=True)}; {interval(row, signed=True)}"


def _history(analysis: ContextAnalysis) -> list[Finding]:
    """How well the history alone predicts the labels."""
    rows = (analysis.estimates.find("auroc", PRETEST, label=label) for label in analysis.labels)
    known = sorted((row for row in rows if row is not None and row.value is not None), key=lambda row: row.value or 0)
    if not known:
        why = next((reason for reason in analysis.pretest.reason if reason), "no pre-test probability")
        return [_warning(f"Nothing can be said about context: {why}.")]
    best, worst = known[-1], known[0]
    sentence = f"The history alone, without the test, predicts '{best.label}' with an AUROC of {number(best.value)}."
    if len(known) > 1:
        sentence = (
            "The history alone, without the test, predicts the labels with an AUROC from "
            f"{number(worst.value)} ('{worst.label}') to {number(best.value)} ('{best.label}')."
        )
    return [Finding(sentence=sentence), *_unknown(analysis)]


def _unknown(analysis: ContextAnalysis) -> list[Finding]:
    """Labels for which some cases, or all, have no pre-test probability."""
    n = len(analysis.cases.patient)
    found = []
    for j, label in enumerate(analysis.labels):
        known = int(analysis.cases.known[:, j].sum())
        if known == 0:
            found.append(_warning(f"Nothing can be said about '{label}': {analysis.pretest.reason[j]}."))
        elif known < n:
            sentence = f"For '{label}', {n - known:,} of {n:,} cases are left out: no pre-test probability."
            found.append(Finding(sentence=sentence))
    return found


def _untested(analysis: ContextAnalysis) -> list[Finding]:
    """That nothing is marked does not mean that there is nothing."""
    if analysis.n_tested or not analysis.cases.known.any():
        return []
    return [
        _warning(
            f"No label has the {FEWEST_TESTED} patients with it and {FEWEST_TESTED} without it that a test needs: "
            "numbers are reported, but none is marked as significant."
        )
    ]


def _held_equal(analysis: ContextAnalysis, model: str) -> list[Finding]:
    """Matched first: it is the simpler question. Unreliable numbers are not tested, so no sentence relies on them."""
    tested = ((group, analysis.tested(model, group, WHOLE)) for group in _OPENINGS)
    return [_change(analysis, model, group, rows) for group, rows in tested if rows]


def _change(analysis: ContextAnalysis, model: str, group: str, rows: Sequence[Estimate]) -> Finding:
    opening, lower = f"{_OPENINGS[group]}, the AUROC of {model}", _lower(rows)
    mean, average = analysis.estimates.find("auroc", model, label=MACRO, group=group, reference=WHOLE), ""
    if mean is not None and mean.significant is not None:
        average = f" On average over the labels: {_levels(analysis, model, MACRO, group)} ({_size(mean)})."
    if not lower:
        sentence = f"{opening} is not significantly lower {_for_any(rows)}.{average}"
        return Finding(sentence=sentence, kind="fact")
    worst = lower[0]
    few = "" if len(rows) == 1 else f"; significantly lower for {len(lower)} of {len(rows)} labels"
    levels = _levels(analysis, model, worst.label, group)
    return _warning(
        f"{opening} for '{worst.label}' falls from {levels} ({interval(worst, signed=True)}{few}).{average}"
    )


def _levels(analysis: ContextAnalysis, model: str, label: str, group: str) -> str:
    values = (analysis.estimates.value("auroc", model, label=label, group=name) for name in (WHOLE, group))
    return " to ".join(map(number, values))


def _strata(analysis: ContextAnalysis, model: str) -> list[Finding]:
    names = analysis.names("stratum")
    low, high = names[0], names[-1]
    rows = analysis.tested(model, high, low)
    lower, higher = _lower(rows), _higher(rows)
    if rows and not lower and not higher:
        sentence = (
            f"The AUROC of {model} does not differ significantly between patients at high risk ({high}) and at low "
            f"risk ({low}) {_for_any(rows)}."
        )
        return [Finding(sentence=sentence, kind="fact")]
    found = []
    if lower:
        sentence = (
            f"{model} is worse where the history makes the finding likely: from the {low} to the {high}, its AUROC for "
            f"'{lower[0].label}' changes by {_size(lower[0])}; significantly lower for {len(lower)} of "
            f"{counted(len(rows), 'label')}."
        )
        found.append(_warning(sentence))
    if higher:
        sentence = f"{model} has a higher AUROC among the {high} than among the {low} for {_labels(higher[::-1])}."
        found.append(Finding(sentence=sentence))
    return found


def _mentions(analysis: ContextAnalysis, model: str) -> list[Finding]:
    names = analysis.names("mention")
    rows = analysis.tested(model, names[0], names[1]) if names else []
    lower = _lower(rows)
    if not lower:
        return []
    known = "mentioned in earlier notes" if names[0] == MENTIONED[0] else "found before"
    sentence = (
        f"Where the finding was {known}, {model} has a lower AUROC, most of all for '{lower[0].label}' "
        f"({_size(lower[0])}); significantly lower for {len(lower)} of {counted(len(rows), 'label')}."
    )
    return [_warning(sentence)]


def _gain(analysis: ContextAnalysis, model: str) -> list[Finding]:
    """What the model adds for someone who knows the history."""
    rows = analysis.tested(model, WHOLE, PRETEST, OVER_CONTEXT)
    if not rows:
        return []
    useful = _higher(rows)
    useless = [row for row in rows if row not in useful]
    opening = f"For someone who knows the history, {model} adds"
    if useless:
        order = sorted(useless, key=lambda row: analysis.labels.index(row.label))
        what = f"{_labels(order)} ({len(useless)} of {counted(len(rows), 'label')})"
        return [_warning(f"{opening} nothing demonstrable for {what}.")]
    least, most = rows[0], rows[-1]
    size = f"{number(least.value)} to the AUROC for '{least.label}'"
    if len(rows) > 1:
        size = f"between {number(least.value)} ('{least.label}') and {number(most.value)} ('{most.label}') to the AUROC"
    return [Finding(sentence=f"{opening} {size}.", kind="fact")]


def _not_alike(analysis: ContextAnalysis) -> list[Finding]:
    """Where matching could not balance the history: more positives than negatives at high risk."""
    bad = [row for row in analysis.measures.balance if row.unlike]
    if not bad:
        return []
    worst = number(max(row.found.auroc for row in bad))
    sentence = (
        f"The matched pairs are not alike for {_labels(bad)}: the history still tells them apart (AUROC {worst}), so "
        "they are not tested. Set a `caliper`, for example 0.01."
    )
    return [_warning(sentence)]


def _weights(analysis: ContextAnalysis) -> list[Finding]:
    bad = [row for row in analysis.measures.balance if row.warnings]
    if not bad:
        return []
    first = bad[0].warnings[0]
    why = WARNINGS[first.kind].format(value=first.value)
    return [_warning(f"Do not rely on the re-weighted numbers for {_labels(bad)}: {why}.")]


def _few_values(analysis: ContextAnalysis) -> list[Finding]:
    """Pre-test probabilities that do not vary, or have too few values for the strata."""
    known = [(label, strata) for label, strata in zip(analysis.labels, analysis.strata, strict=True) if strata.n_values]
    constant = [label for label, strata in known if strata.n_values == 1]
    bad = [(label, strata) for label, strata in known if strata.n_values > 1 and (strata.uneven or 0 in strata.size)]
    found = []
    if constant:
        names = quoted(constant, most=_MOST_NAMED)
        why = "is the same for all cases, so it can't divide, match or weight them"
        found.append(_warning(f"The pre-test probability of {names} {why}."))
    if bad:
        (label, strata), others = bad[0], len(bad) - 1
        sentence = (
            f"The strata of '{label}' do not have the sizes asked for ({', '.join(f'{n:,}' for n in strata.size)} "
            f"cases), because the pre-test probability has only {strata.n_values:,} distinct values."
            + (f" The same is true of {counted(others, 'more label')}." if others else "")
        )
        empty = any(0 in strata.size for _, strata in bad)
        found.append(Finding(sentence=sentence, kind="caveat" if empty else "fact"))
    return found


def _left_out(analysis: ContextAnalysis) -> list[Finding]:
    n = len(analysis.cases.patient) + analysis.n_left_out
    sentence = f"{analysis.n_left_out:,} of {n:,} cases are left out: {analysis.left_out}."
    return [Finding(sentence=sentence)] if analysis.n_left_out else []
