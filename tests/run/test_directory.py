"""A run directory gives back what was written to it."""

from __future__ import annotations

from pathlib import Path

from palpate.results import AuditResult, Estimate, estimates_frame
from palpate.run.directory import RunDirectory


def test_results_come_in_the_order_of_the_configuration(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    audits = ("performance", "vocabulary", "context")
    run.write_manifest({"audits": {name: {} for name in audits}})
    for name in sorted(audits):
        row = Estimate(name, "m", "auroc", label="ill", group="all", value=0.5, n=9)
        run.write_result(AuditResult(name, estimates_frame([row])))
    assert [result.audit for result in run.read_results()] == list(audits)
