"""One model in one run, and in which of the run's cohorts something was measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from palpate.report.cards.entries import Statement
from palpate.report.cards.facts import EVALUATION_KIND
from palpate.report.cards.small import SmallCounts
from palpate.results import ONE_COHORT, AuditResult

_ONE = ONE_COHORT.partition("{others}")[0]


class Run:
    """One model in one run, as the cards see it."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        results: Iterable[AuditResult],
        model: str,
        table1: pl.DataFrame | None = None,
    ) -> None:
        self.manifest, self.model, self.table1 = manifest, model, table1
        self.small = SmallCounts(manifest, table1)
        self.results = {result.audit: result for result in results}

    def rows(self, audit: str, *, reference: str | None = None, **equal: str) -> pl.DataFrame:
        """Estimates of the model: those that are no differences, or differences to a reference."""
        result = self.results.get(audit)
        if result is None:
            return pl.DataFrame(schema={"metric": pl.String})
        found = result.estimates.filter(pl.col("model") == self.model, pl.col("reference").eq_missing(reference))
        return found.filter(*(pl.col(name) == value for name, value in equal.items()))

    @property
    def cohorts(self) -> list[Mapping[str, Any]]:
        """What the manifest says of each cohort."""
        return list(self.manifest.get("cohorts") or [])

    @property
    def names(self) -> list[str]:
        """The names of the cohorts."""
        return [str(cohort["name"]) for cohort in self.cohorts]

    def audited(self, audit: str) -> list[str]:
        """The cohorts that an audit is about; which one of several it says itself."""
        said = [finding.sentence for finding in self.results[audit].findings] if audit in self.results else []
        one = [name for name in self.names if any(each.startswith(_ONE.format(one=name)) for each in said)]
        return one or self.names


def alone(run: Run, audit: str) -> str:
    """Where an audit measured, if that is one of several cohorts."""
    cohorts = run.audited(audit)
    return f"measured in cohort '{cohorts[0]}' alone" if len(cohorts) < len(run.names) else ""


def not_in(run: Run, audit: str, wanted: Sequence[str]) -> tuple[Statement, ...]:
    """Why an audit says nothing of these cohorts alone; nothing if it does."""
    cohorts = run.audited(audit)
    if set(cohorts) <= set(wanted):
        return ()
    text = (
        f"Groups were measured in {' and '.join(cohorts)} together, not in {' and '.join(wanted)} alone "
        f"(`cohort:` of the audit `{audit}` chooses one)."
    )
    if not set(cohorts) & set(wanted):
        text = f"Not measured: the audit `{audit}` is about {' and '.join(cohorts)} alone (its option `cohort`)."
    return (Statement(text, f"results/{audit}.json: findings"),)


def of_kind(
    run: Run, kinds: Any, kind: str, of: Callable[[Run, Sequence[str]], tuple[Statement, ...]]
) -> tuple[Statement, ...]:
    """What was measured on cohorts of one kind; which cohort is of which kind only people know."""
    if kinds is None:
        text = f"This run has numbers, but nobody has said whether its cases are {kind} data."
        return (Statement(text, "manifest.json: cohorts", needs=EVALUATION_KIND),)
    chosen = [name for name in run.names if (kinds.get(name) if isinstance(kinds, Mapping) else kinds) == kind]
    if not chosen:
        open_ones = [name for name in run.names if isinstance(kinds, Mapping) and name not in kinds]
        unless = f", unless {' or '.join(open_ones)} is: nobody has said of which kind it is" if open_ones else ""
        return (Statement(f"Not measured in this run: no cohort is {kind} data{unless}.", "manifest.json: cohorts"),)
    return of(run, chosen)
