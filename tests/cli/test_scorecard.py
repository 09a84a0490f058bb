"""What `palpate audit` prints: how the models compare, above the table, and each finding whole."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from palpate.cli import audits
from palpate.results import AuditResult, Finding, estimates_frame
from palpate.results.verdicts import Answer


def test_the_comparison_stands_above_the_table_and_no_finding_is_cut() -> None:
    asked: dict[str, Any] = {"question": "travel", "asks": "Does it travel?", "metric": "auroc", "value": -0.1}
    answers = (Answer(model="a", verdict="acceptable", **asked), Answer(model="b[x]", verdict="concern", **asked))
    long = "It is lower for 'a', 'b' and 9 more. " * 30 + "The end."
    findings = (
        Finding(sentence=long, kind="concern", question="travel"),
        Finding(sentence="A fact.", question="travel"),
    )
    result = AuditResult("performance", estimates_frame([]), findings=findings, answers=answers)
    manifest = {"models": [{"name": "a"}, {"name": "b[x]"}]}
    run = SimpleNamespace(read_manifest=lambda: manifest)
    outcome: Any = SimpleNamespace(results=[result], run=run, judgements=[], report=Path("report.html"))
    with audits.out.capture() as said:
        audits._tell(outcome, [])
    text = said.get()
    sentence = "a has no concern; b[x] has 1 concern: it loses AUROC in another cohort."
    assert text.index(sentence) < text.index("Question")
    assert "1 acceptable" in text
    assert "The end." in text
    assert text.count("Does it travel?") == 2, "in the table, and once above all that was found"
    assert "A fact." in text
