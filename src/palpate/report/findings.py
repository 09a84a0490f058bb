"""Findings by question. Each sentence stands once on the page.

The summary has what harms, what is open and what limits an answer; the sections have what is acceptable, and facts. A
row of the scorecard leads to its finding, from there to the section, and from the section back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from palpate.results import AuditResult, Finding
from palpate.results.verdicts import VERDICTS

MAX_GROUP = 60
KINDS = {kind: kind.capitalize() for kind in (*VERDICTS, "caveat", "fact")}
SUMMARY_KINDS = ("concern", "caution", "unsettled", "caveat")
"""What a reader of the summary should know; the other kinds are in the sections."""


class FindingView(NamedTuple):
    """A finding with the word for its kind; never cut."""

    kind: str
    word: str
    sentence: str


class FindingGroup(NamedTuple):
    """The findings that answer one question, the worst first; without a question, what else an audit has to say."""

    audit: str
    question: str
    asks: str
    kind: str
    """The worst of its findings."""
    findings: tuple[FindingView, ...]
    n_more: int = 0
    """Findings beyond the most that are shown."""

    @property
    def here(self) -> str:
        """Its anchor in the summary."""
        return anchor("found", self.audit, self.question)

    @property
    def there(self) -> str:
        """Its anchor in the section; the section itself where it is about no question."""
        return anchor("audit", self.audit, self.question)

    @property
    def title(self) -> str:
        """The question, or what stands for one."""
        return self.asks or f"{self.audit.replace('_', ' ').capitalize()}: what else to know"


class QuestionGroup(NamedTuple):
    """One question in its section: who got which verdict, and what the summary does not say."""

    there: str
    asks: str
    verdicts: tuple[tuple[str, str, str], ...]
    """Verdict, its word, and the models that got it."""
    back: str
    """The anchor of its findings in the summary; empty where there are none."""
    findings: tuple[FindingView, ...]


class FindingsView(NamedTuple):
    """The findings of the summary: `first` before everything else."""

    first: tuple[FindingView, ...]
    groups: tuple[FindingGroup, ...]


def anchor(*parts: str) -> str:
    """An id from names."""
    return "-".join(re.sub(r"[^\w-]+", "-", part) for part in parts if part)


def is_first_rank(finding: Finding) -> bool:
    """Whether a finding is about the data or a model as a whole and puts every answer in doubt."""
    return finding.kind == "concern" and finding.question is None


def first_findings(results: Sequence[AuditResult]) -> tuple[FindingView, ...]:
    """What puts every answer in doubt, of all audits."""
    sentences = (each for result in results for each in result.findings if is_first_rank(each))
    return tuple(dict.fromkeys(map(view_finding, sentences)))


def view_findings(results: Sequence[AuditResult]) -> FindingsView:
    """What the summary says, the questions with the worst answers first."""
    return FindingsView(first_findings(results), tuple(all_groups(results, SUMMARY_KINDS)))


def all_groups(results: Sequence[AuditResult], kinds: Iterable[str] = tuple(KINDS)) -> list[FindingGroup]:
    """The findings of some kinds by question, the questions with the worst answers first."""
    order = list(KINDS)
    groups = [group for result in results for group in group_findings(result, kinds)]
    return sorted(groups, key=lambda group: order.index(group.kind))


def group_findings(result: AuditResult, kinds: Iterable[str] = tuple(KINDS)) -> list[FindingGroup]:
    """One audit's findings of some kinds by question, in its own order, then all others; no sentence stands twice."""
    asks = {answer.question: answer.asks for answer in result.answers}
    by_question: dict[str | None, list[Finding]] = {question: [] for question in (*asks, None)}
    seen: set[str] = set()
    for finding in result.findings:
        if finding.sentence not in seen and not is_first_rank(finding):
            by_question[finding.question if finding.question in asks else None].append(finding)
        seen.add(finding.sentence)
    order, wanted = list(KINDS), set(kinds)
    groups = []
    for question, said in by_question.items():
        found = sorted((each for each in said if each.kind in wanted), key=lambda each: order.index(each.kind))
        if found:
            views = tuple(view_finding(each) for each in found[:MAX_GROUP])
            title = asks[question] if question else ""
            more = len(found) - len(views)
            groups.append(FindingGroup(result.audit, question or "", title, found[0].kind, views, more))
    return groups


def section_groups(result: AuditResult) -> list[QuestionGroup]:
    """An audit's questions in its section; what is about no question comes last."""
    told = {group.question: group for group in group_findings(result, SUMMARY_KINDS)}
    rest = {
        group.question: group for group in group_findings(result, [kind for kind in KINDS if kind not in SUMMARY_KINDS])
    }
    asks = {answer.question: answer.asks for answer in result.answers}
    groups = []
    for question in (*asks, ""):
        verdicts = tuple(
            (verdict, KINDS[verdict], ", ".join(models))
            for verdict in VERDICTS
            if (
                models := [
                    each.model for each in result.answers if (each.question, each.verdict) == (question, verdict)
                ]
            )
        )
        back = told[question].here if question in told else ""
        found = rest[question].findings if question in rest else ()
        if verdicts or back or found:
            there = anchor("audit", result.audit, question) if question else ""
            groups.append(QuestionGroup(there, asks.get(question, ""), verdicts, back, found))
    return groups


def view_finding(finding: Finding) -> FindingView:
    """A finding with the word for its kind."""
    return FindingView(finding.kind, KINDS[finding.kind], finding.sentence)
