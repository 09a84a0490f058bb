"""What the context audit has to say, in words: findings for the first screen, made from its estimates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE, Group, StrataFacts
from palpate.audits.context.incremental import BalanceRow, Beyond
from palpate.audits.context.measures import FEWEST_TESTED, MACRO, PRETEST, Cases
from palpate.audits.context.pretest import Pretest
from palpate.results import Estimate, Finding

Tone = Literal["good", "neutral", "warning"]
Key = tuple[str, str, str, str, str | None]
NAMES = {
    "auroc": "AUROC",
    "auprc": "AUPRC",
    "sensitivity_at_local_specificity": "Sensitivity, local threshold",
    "sensitivity_at_global_specificity": "Sensitivity, global threshold",
    "specificity_at_global_threshold": "Specificity, global threshold",
    "adaptive_calibration_error": "Calibration error",
    "brier_skill_score": "Brier skill",
}
WARNINGS = {
    "effective_size": "the weights leave {value:.0%} of a class as its effective sample size",
    "extreme_weight": "a single case holds {value:.0%} of its class's weight",
    "no_overlap": "{value:.0%} of a class have a pre-test probability that no case of the other class has",
    "unbalanced": "after weighting, the history still tells the classes apart (its AUROC is {value:.2f} from 0.5)",
}
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class Story:
    """What is told: the estimates, and what they are about."""

    rows: Sequence[Estimate]
    index: Mapping[Key, Estimate]
    models: Sequence[str]
    families: Mapping[str, Sequence[str]]
    labels: Sequence[str]
    groups: Sequence[Group]
    strata: Sequence[StrataFacts]
    cases: Cases
    pretest: Pretest
    beyond: Beyond
    level: float
    correction: str
    specificity: float
    caliper: float | None
    n_bins: int
    include_text: bool
    n_left_out: int
    left_out: str

    def find(self, metric: str, model: str, label: str, group: str, reference: str | None = None) -> Estimate | None:
        """One estimate."""
        return self.index.get((metric, model, label, group, reference))

    def tested(self, model: str, group: str, reference: str, metric: str = "auroc") -> list[Estimate]:
        """The labels' differences that were tested, the lowest first."""
        rows = [self.find(metric, model, label, group, reference) for label in self.labels]
        found = [row for row in rows if row is not None and row.significant is not None]
        return sorted(found, key=lambda row: row.value or 0.0)

    @property
    def n_tested(self) -> int:
        """How many tests the family has."""
        return sum(row.p_value is not None for row in self.rows)

    def names(self, kind: str) -> list[str]:
        """The groups of a kind."""
        return [group.name for group in self.groups if group.kind == kind]

    def quoted(self, rows: Sequence[Estimate] | Sequence[BalanceRow]) -> str:
        """The labels of some rows, a few of them by name."""
        names = [f"'{row.label}'" for row in rows[:_MOST_NAMED]]
        more = len(rows) - len(names)
        return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def index_of(rows: Sequence[Estimate]) -> dict[Key, Estimate]:
    """Estimates by what they are."""
    return {(row.metric, row.model, row.label, row.group, row.reference): row for row in rows}


def number(value: float | None, *, signed: bool = False) -> str:
    """Three digits, with a real minus sign where there is a sign."""
    if value is None:
        return "unknown"
    return f"{value:+.3f}".replace("-", "−") if signed else f"{value:.3f}".replace("-", "−")


def span(row: Estimate) -> str:
    """The interval in words."""
    if row.low is None:
        return row.reason or "no interval"
    return f"{row.level or 0.95:.0%} interval {number(row.low, signed=True)} to {number(row.high, signed=True)}"


def findings_of(story: Story) -> tuple[Finding, ...]:
    """The sentences, in the order in which a reader wants them."""
    told: list[Finding] = [*_history_told(story), *_untested_told(story)]
    for model in story.models:
        told += _controlled_told(story, model)
        told += _strata_told(story, model)
        told += _mentions_told(story, model)
        told += _gain_told(story, model)
    return (*told, *_not_alike(story), *_weights_told(story), *_discrete_told(story), *_left_out_told(story))


def _history_told(story: Story) -> list[Finding]:
    """How far the history alone tells the labels apart."""
    rows = [story.find("auroc", PRETEST, label, WHOLE) for label in story.labels]
    known = sorted((row for row in rows if row is not None and row.value is not None), key=lambda row: row.value or 0)
    if not known:
        why = next((reason for reason in story.pretest.reason if reason), "no pre-test probability")
        return [Finding(sentence=f"Nothing can be said about context: {why}.", tone="warning")]
    best, worst = known[-1], known[0]
    if len(known) == 1:
        sentence = (
            f"The history alone, without the test, predicts '{best.label}' with an AUROC of {number(best.value)}."
        )
    else:
        sentence = (
            "The history alone, without the test, predicts the labels with an AUROC from "
            f"{number(worst.value)} ('{worst.label}') to {number(best.value)} ('{best.label}')."
        )
    return [Finding(sentence=sentence), *_unknown_told(story)]


def _unknown_told(story: Story) -> list[Finding]:
    """Labels of which some cases, or all, have no pre-test probability."""
    n = len(story.cases.patient)
    told = []
    for j, label in enumerate(story.labels):
        known = int(story.cases.known[:, j].sum())
        if known == 0:
            told.append(
                Finding(sentence=f"Nothing can be said of '{label}': {story.pretest.reason[j]}.", tone="warning")
            )
        elif known < n:
            sentence = f"For '{label}', {n - known:,} of {n:,} cases are left out: no pre-test probability."
            told.append(Finding(sentence=sentence))
    return told


def _untested_told(story: Story) -> list[Finding]:
    """That nothing is marked does not mean that nothing is there."""
    if story.n_tested or not story.cases.known.any():
        return []
    sentence = (
        f"No label has the {FEWEST_TESTED} patients with it and {FEWEST_TESTED} without it that a test needs: the "
        "numbers are told, and nothing is marked as significant."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _controlled_told(story: Story, model: str) -> list[Finding]:
    """Matched first: it is the plainer question."""
    told = []
    what = {
        MATCHED: "Among patients with the same pre-test probability (matched)",
        REWEIGHTED: "If the history said nothing about the label (re-weighted)",
    }
    for group, opening in what.items():
        # Numbers not to be relied on are not tested, so that no sentence here sounds sure of them.
        rows = story.tested(model, group, WHOLE)
        if rows:
            told.append(_change_told(story, model, rows, group, opening))
    return told


def _change_told(story: Story, model: str, rows: Sequence[Estimate], group: str, opening: str) -> Finding:
    worse = [row for row in rows if row.significant and (row.value or 0) < 0]
    better = [row for row in rows if row.significant and (row.value or 0) > 0]
    mean = story.find("auroc", model, MACRO, group, WHOLE)
    levels = [story.find("auroc", model, MACRO, name) for name in (WHOLE, group)]
    average = ""
    if mean is not None and mean.significant is not None and all(levels):
        before, after = (number(level.value) for level in levels if level is not None)
        average = f" On average over the labels: {before} to {after} ({number(mean.value, signed=True)}; {span(mean)})."
    if not worse:
        sentence = f"{opening}, the AUROC of {model} is {_for_none(rows, 'significantly lower')}.{average}"
        return Finding(sentence=sentence, tone="neutral" if better else "good")
    row = worse[0]
    before_row, after_row = (story.find("auroc", model, row.label, name) for name in (WHOLE, group))
    drop = f"{number(before_row.value if before_row else None)} to {number(after_row.value if after_row else None)}"
    few = "" if len(rows) == 1 else f"; significantly lower for {len(worse)} of {len(rows)} labels"
    sentence = f"{opening}, the AUROC of {model} for '{row.label}' falls from {drop} ({span(row)}{few}).{average}"
    return Finding(sentence=sentence, tone="warning")


def _for_none(rows: Sequence[Estimate], what: str) -> str:
    return f"not {what} for '{rows[0].label}'" if len(rows) == 1 else f"{what} for none of {len(rows)} labels"


def _strata_told(story: Story, model: str) -> list[Finding]:
    names = story.names("stratum")
    if len(names) < 2:
        return []
    low, high = names[0], names[-1]
    rows = story.tested(model, high, low)
    if not rows:
        return []
    worse = [row for row in rows if row.significant and (row.value or 0) < 0]
    better = [row for row in rows if row.significant and (row.value or 0) > 0]
    if not worse and not better:
        sentence = (
            f"Between patients at high risk ({high}) and at low risk ({low}) the AUROC of {model} is "
            f"{_for_none(rows, 'significantly different')}."
        )
        return [Finding(sentence=sentence, tone="good")]
    told = []
    if worse:
        row = worse[0]
        sentence = (
            f"{model} is worse where the history makes the finding likely: its AUROC for '{row.label}' is "
            f"{number(row.value, signed=True)} among the {high} against the {low} ({span(row)}); significantly lower "
            f"for {len(worse)} of {len(rows)} labels."
        )
        told.append(Finding(sentence=sentence, tone="warning"))
    if better:
        sentence = f"{model} has a higher AUROC among the {high} than the {low} for {story.quoted(better[::-1])}."
        told.append(Finding(sentence=sentence))
    return told


def _mentions_told(story: Story, model: str) -> list[Finding]:
    names = story.names("mention")
    if not names:
        return []
    rows = story.tested(model, names[0], names[1])
    worse = [row for row in rows if row.significant and (row.value or 0) < 0]
    if not worse:
        return []
    row = worse[0]
    known = "mentioned in earlier notes" if names[0] == "prior mention" else "found before"
    sentence = (
        f"Where the finding was {known}, {model} has a lower AUROC, most for '{row.label}' "
        f"({number(row.value, signed=True)}; {span(row)}); significant for {len(worse)} of {len(rows)} labels."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _gain_told(story: Story, model: str) -> list[Finding]:
    """What the model adds for somebody who knows the history."""
    rows = [story.find("auroc_gain_over_context", model, label, WHOLE, PRETEST) for label in story.labels]
    tested = [row for row in rows if row is not None and row.significant is not None]
    if not tested:
        return []
    useless = [row for row in tested if not (row.significant and (row.value or 0) > 0)]
    least = min(tested, key=lambda row: row.value or 0.0)
    most = max(tested, key=lambda row: row.value or 0.0)
    if useless:
        sentence = (
            f"For somebody who knows the history, {model} adds nothing that can be shown for {story.quoted(useless)} "
            f"({len(useless)} of {len(tested)} labels)."
        )
        return [Finding(sentence=sentence, tone="warning")]
    size = f"{number(least.value)} AUROC ('{least.label}')"
    if len(tested) > 1:
        size = f"from {size} to {number(most.value)} ('{most.label}')"
    return [Finding(sentence=f"For somebody who knows the history, {model} adds {size}.", tone="good")]


def _not_alike(story: Story) -> list[Finding]:
    """Where matching could not balance the history (more positives than negatives at high risk)."""
    bad = [row for row in story.beyond.balance if row.unlike]
    if not bad:
        return []
    sentence = (
        f"The matched pairs are not alike for {story.quoted(bad)}: the history still tells them apart (AUROC "
        f"{number(max(row.found.auroc for row in bad))}), so they are not tested. Set a `caliper`, 0.01 for example."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _weights_told(story: Story) -> list[Finding]:
    doubtful = [row for row in story.beyond.balance if row.warnings]
    if not doubtful:
        return []
    first = doubtful[0].warnings[0]
    why = WARNINGS[first.kind].format(value=first.value)
    sentence = f"Do not rely on the re-weighted numbers of {story.quoted(doubtful)}: {why}."
    return [Finding(sentence=sentence, tone="warning")]


def _discrete_told(story: Story) -> list[Finding]:
    known = [(label, facts) for label, facts in zip(story.labels, story.strata, strict=True) if facts.n_values]
    told = _constant_told([label for label, facts in known if facts.n_values == 1])
    bad = [(label, facts) for label, facts in known if facts.n_values > 1 and (facts.uneven or 0 in facts.size)]
    if not bad:
        return told
    label, facts = bad[0]
    sizes = ", ".join(f"{size:,}" for size in facts.size)
    others = len(bad) - 1
    also = f" The same holds for {others} more label{'s' * (others > 1)}." if others else ""
    sentence = (
        f"The strata of '{label}' are not the shares asked for ({sizes} cases), because the pre-test probability has "
        f"only {facts.n_values:,} distinct values.{also}"
    )
    tone: Tone = "warning" if any(0 in each.size for _, each in bad) else "neutral"
    return [*told, Finding(sentence=sentence, tone=tone)]


def _constant_told(labels: Sequence[str]) -> list[Finding]:
    if not labels:
        return []
    names = ", ".join(f"'{label}'" for label in labels[:_MOST_NAMED])
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    sentence = (
        f"The pre-test probability of {names}{more} is the same for all cases: it can't divide, match or weight them."
    )
    return [Finding(sentence=sentence, tone="warning")]


def _left_out_told(story: Story) -> list[Finding]:
    if not story.n_left_out:
        return []
    n = len(story.cases.patient)
    sentence = f"{story.n_left_out:,} of {n + story.n_left_out:,} cases are left out: {story.left_out}."
    return [Finding(sentence=sentence)]
