"""The cases that the context audit wants scored: held-out cases about which something was known before the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from palpate.audits.context.pretest import JOB, PretestModel
from palpate.audits.context.sources import EarlierLabels, Sources, earlier_labels, known_rows
from palpate.audits.kit.scope import counted_rows, training_rows
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Ints, Skip, Variants
from palpate.errors import CohortError, ConfigError
from palpate.perturb.mentions import label_name
from palpate.results import Plan

MentionRule = Literal["auto", "substring", "affirmed", "earlier", "none"]
_BESIDE_THE_COHORT = "give the pretest.json that was written beside the cohort"


class KnownHistory(NamedTuple):
    """What the plan found out about the patients' history."""

    cohort: str
    """The name of the audited cohort."""
    sources: Sources
    past: EarlierLabels | None
    """The labels of earlier cases, where the cohort has times."""
    training: Ints
    """Training rows about which something was known before."""
    n_left_out: int


def plan_cases(cohort: Cohort, name: str, rows: Ints, labels: tuple[str, ...], sources: Sources) -> Plan[KnownHistory]:
    """The audited `rows` with a history; the others are skipped, with the reason."""
    past = earlier_labels(cohort, labels) if "time" in cohort.cases.columns else None
    known = known_rows(cohort, sources, past)
    kept = rows[known[rows]]
    if not len(kept):
        raise CohortError(f"audit 'context': nothing was known before about any audited case ({sources.left_out})")
    training = counted_rows(cohort, training_rows(cohort, name))
    return Plan(
        cohort,
        Variants.of_cases(kept),
        labels,
        skips=tuple(Skip(int(row), sources.left_out) for row in rows[~known[rows]]),
        cases=kept,
        memory=KnownHistory(name, sources, past, training[known[training]], len(rows) - len(kept)),
    )


def check_cuts(quantiles: Sequence[float], clip: tuple[float, float]) -> None:
    """Refuse quantiles and limits that are out of order."""
    if not quantiles or any(b <= a for a, b in pairwise(quantiles)):
        raise ConfigError("audit 'context', option 'quantiles': they must increase, as in [0.25, 0.75]")
    if clip[0] >= clip[1]:
        raise ConfigError("audit 'context', option 'clip': the first must be the lower one, as in [0.001, 0.999]")


def check_mentions(cohort: Cohort, rule: MentionRule) -> None:
    """Refuse a rule for prior mentions that the cohort has no column for."""
    needs = {"substring": "prior", "affirmed": "prior", "earlier": "time"}.get(rule)
    if needs is not None and needs not in cohort.cases.columns:
        raise CohortError(f"audit 'context': `mentions: {rule}` needs the cohort's `{needs}:`")


def check_phrases(phrases: Mapping[str, Sequence[str]], labels: Sequence[str]) -> None:
    """Refuse phrases for other labels only: they would never be looked for."""
    if phrases and not {label_name(label) for label in phrases} & {label_name(label) for label in labels}:
        raise ConfigError(
            "audit 'context', option 'phrases': none of them is for an audited label",
            hint=f"name them as the cohort does: {', '.join(labels[:5])}",
        )


def check_card(
    cohort: Cohort, name: str, labels: Sequence[str], sources: Sources, card: Mapping[str, PretestModel]
) -> None:
    """Refuse a card of pre-test models that do not belong to the cohort's probabilities."""
    if sources.kinds != ("pretest",):
        raise ConfigError(
            "audit 'context', option 'card': the cohort has no ready pre-test probabilities for it to describe",
            hint="audit the cohort.parquet that `palpate train pretest` wrote",
        )
    if not set(card) & set(labels):
        raise ConfigError(
            "audit 'context', option 'card': the card describes no model of an audited label", hint=_BESIDE_THE_COHORT
        )
    made, described = training_runs(cohort, name), {model.job for model in card.values()} - {""}
    if made and described and made != described:
        raise ConfigError(
            "audit 'context', option 'card': the cohort's pre-test probabilities come from another training run",
            hint=_BESIDE_THE_COHORT,
        )


def training_runs(cohort: Cohort, name: str) -> set[str]:
    """Which training runs made the ready probabilities of a cohort, as far as it says so."""
    if JOB not in cohort.cases.columns:
        return set()
    own = cohort.cases.filter(cohort.cases["cohort"] == name)
    return set(own[JOB].drop_nulls().cast(str))
