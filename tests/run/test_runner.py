"""The runner: ensembles reach an audit as members and as one model, and the run's files are fit for other tools."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

from palpate import Cohort, RunDirectory, kit
from palpate.cases.edits import Variants
from palpate.errors import ConfigError, RunError
from palpate.models import ModelSpec
from palpate.results import AuditResult, Plan, Predictions
from palpate.run.conditions import parse
from palpate.run.execute.cache import ScoreCache
from palpate.run.gate import judge
from palpate.run.runner import Job, ModelEntry, run
from palpate.testing import KeywordModel

NOTES = pl.DataFrame({"text": ["fever", "fever fever", "well", "pain"], "ill": [1, 1, 0, 0]})
COHORT = Cohort.from_frame(NOTES, labels=["ill"])
SEEDS = [KeywordModel({"fever": weight}) for weight in (1.0, 3.0)]


@dataclass(frozen=True)
class MeanRisk:
    """A plug-in: the mean probability of each model that it finds."""

    name: ClassVar[str] = "risk"
    token: str = ""
    token_pattern: str = "x"

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[None]:
        return Plan(cohort, Variants.of_cases(np.arange(len(cohort))), cohort.labels)

    def analyse(self, plan: Plan[None], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        patients = plan.cohort.patients[plan.variants.parent]
        rows = [
            kit.RowWriter(self.name).mean(model, "mean_risk", "ill", "all", answers.p[:, 0], patients, rng=0)
            for model, answers in predictions.items()
        ]
        return AuditResult(self.name, kit.estimates_frame(rows))


@dataclass(frozen=True)
class SeedsOnly(MeanRisk):
    """A plug-in that knows nothing of ensembles."""

    def analyse(self, plan: Plan[None], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        alone = {name: replace(answers, ensemble=None) for name, answers in predictions.scored.items()}
        return super().analyse(plan, Predictions(alone), rng)


def job(audit: MeanRisk, **more: bool) -> Job:
    toy = ModelEntry("toy", [ModelSpec(f"toy[{k}]", "") for k in (1, 2)], loaded=SEEDS)
    return Job(
        COHORT, [toy, ModelEntry("flat", [ModelSpec("flat", "")], loaded=[KeywordModel({})])], {"risk": audit}, **more
    )


def ran(folder: Path, audit: MeanRisk, **more: bool) -> AuditResult:
    (result,) = run(job(audit, **more), RunDirectory(folder / "run"), ScoreCache(folder / "scores.sqlite"))
    return result


def test_an_ensemble_reaches_an_audit_as_its_members_and_as_one_model(tmp_path: Path) -> None:
    result = ran(tmp_path, MeanRisk())
    found = dict(result.estimates.select("model", "value").iter_rows())
    assert list(found) == ["toy[1]", "toy[2]", "flat", "toy"]
    assert found["toy"] == pytest.approx((found["toy[1]"] + found["toy[2]"]) / 2)


@pytest.mark.parametrize("audit", [MeanRisk(), SeedsOnly()])
def test_a_gate_on_a_plug_ins_metric_holds_when_both_seeds_hold(audit: MeanRisk, tmp_path: Path) -> None:
    result = ran(tmp_path, audit)
    manifest = RunDirectory(tmp_path / "run").read_manifest()
    conditions = [parse("risk.mean_risk[model=toy] >= 0.6"), parse("risk.mean_risk[model=toy] >= 0.9")]
    holds, fails = judge(conditions, [result], manifest)
    assert holds.passed, holds.detail
    assert not fails.passed


def test_file_names_are_no_patterns_and_nothing_is_pending_at_the_end(tmp_path: Path) -> None:
    ran(tmp_path, MeanRisk())
    files = sorted(path.name for path in (tmp_path / "run" / "predictions").iterdir())
    assert files == ["flat.parquet", "toy@1.parquet", "toy@2.parquet"]
    assert all(pl.read_parquet(tmp_path / "run" / "predictions" / name).height == 4 for name in files)
    assert not (tmp_path / "run" / "pending").exists()


def test_a_plug_ins_secret_is_not_written_down(tmp_path: Path) -> None:
    ran(tmp_path, MeanRisk(token="hunter2", token_pattern="shown"))
    manifest = (tmp_path / "run" / "manifest.json").read_text()
    assert "hunter2" not in manifest
    assert json.loads(manifest)["audits"]["risk"] == {"token": "(hidden)", "token_pattern": "shown"}


def test_a_run_is_resumed_only_as_what_it_was_started_as(tmp_path: Path) -> None:
    first = ran(tmp_path, MeanRisk())
    with pytest.raises(RunError, match="this directory already holds a run; add --resume"):
        ran(tmp_path, MeanRisk())
    with pytest.raises(RunError, match="this run was started with different audits"):
        ran(tmp_path, MeanRisk(token_pattern="y"), resume=True)
    assert ran(tmp_path, MeanRisk(), resume=True).estimates.equals(first.estimates)


def test_a_directory_is_not_taken_before_the_checks_have_passed(tmp_path: Path) -> None:
    """A mistake in the options leaves nothing behind that a corrected configuration would be refused for."""

    class Wrong(MeanRisk):
        def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[None]:
            raise ConfigError("a typing error")

    with pytest.raises(ConfigError):
        ran(tmp_path, Wrong())
    assert not RunDirectory(tmp_path / "run").exists
    assert ran(tmp_path, MeanRisk()).estimates.height == 4
