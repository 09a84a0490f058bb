"""What every audit must do: the same plan and results each time, a table of estimates in the usual form, no note text.

    def test_mine():
        check_audit_contract(Mine(), cohort, {"toy": KeywordModel({"fever": 1.0})})

The built-in audits are held to the same checks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.models import Model
from palpate.results import Audit, AuditResult, Plan
from palpate.results.estimates import ESTIMATE_SCHEMA
from palpate.run.directory import RunDirectory
from palpate.run.execute.wanted import gather
from palpate.run.runner import LoadedModels, make_plans
from palpate.testing import run_audit
from palpate.testing.model_contract import expect

_WINDOW = 40
"""So many characters of a note in a result are more than a word or a phrase that an audit may name."""

Models = Mapping[str, Model | Sequence[Model]]


def check_audit_contract(audit: Audit, cohort: Cohort, models: Models, *, seed: int = 0) -> AuditResult:
    """All checks of an audit on a cohort and models; returns what it found.

    The first promise that it breaks is raised as `BrokenContract`. The models' predictions must be repeatable.
    """
    check_is_a_dataclass(audit)
    check_plan(audit, cohort, models, seed=seed)
    first = run_audit(audit, cohort, models, seed=seed)
    check_estimates(audit, first, models)
    check_answers(audit, first)
    check_same_results(first, run_audit(audit, cohort, models, seed=seed))
    check_can_be_stored(first)
    if not getattr(audit, "include_text", False):
        check_holds_no_text(first, cohort)
    return first


def check_is_a_dataclass(audit: Audit) -> None:
    """Its fields are its options and its saved spec, so it is a frozen dataclass with a name of one word."""
    frozen = dataclasses.is_dataclass(audit) and type(audit).__dataclass_params__.frozen
    expect(bool(frozen), "an audit is a frozen dataclass")
    expect(isinstance(audit.name, str) and audit.name.isidentifier(), "an audit's name is one word")
    fields = {field.name for field in dataclasses.fields(audit)}  # type: ignore[arg-type]
    expect("name" not in fields, "an audit's name is a ClassVar, not an option")
    expect(dataclasses.replace(audit) == audit, "an audit equals its copy")  # type: ignore[type-var]


def check_plan(audit: Audit, cohort: Cohort, models: Models, *, seed: int) -> None:
    """The same seed gives the same plan, on a cohort that planning leaves as it was; edits lie inside their texts."""
    loaded = {name: model if isinstance(model, Model) else model[0] for name, model in models.items()}
    before = cohort.fingerprint

    def plan() -> Plan[Any]:
        return make_plans({audit.name: audit}, cohort, seed, LoadedModels(loaded, Path()))[audit.name]

    first, second = plan(), plan()
    after = dataclasses.replace(cohort).fingerprint  # computed anew
    expect(before == after, "planning leaves the cohort as it was")
    expect(set(first.labels) <= set(cohort.labels), "a plan is about labels of the cohort")
    for name in ("parent", "n_edits", "start", "end", "replacement"):
        one, other = (np.asarray(getattr(each.variants, name)) for each in (first, second))
        expect(np.array_equal(one, other), f"the same seed gives the same plan ({name} differs)")
    expect(list(first.variants.replacements) == list(second.variants.replacements), "the same seed gives the same plan")
    gather(cohort, {audit.name: first})  # which refuses edits beyond the text


def check_estimates(audit: Audit, result: AuditResult, models: Models) -> None:
    """One long table in the usual form: undefined is null with a reason, intervals are ordered, models are known."""
    table = result.estimates
    expect(result.audit == audit.name, "a result has the name of its audit")
    expect(dict(table.schema) == ESTIMATE_SCHEMA, "estimates have the columns of ESTIMATE_SCHEMA (kit.estimates_frame)")
    expect(bool((table["audit"] == audit.name).all()), "every estimate names its audit")
    scored = {*models}
    scored |= {f"{name}[{k}]" for name, given in models.items() if not isinstance(given, Model) for k in range(1, 100)}
    beside = tuple(getattr(audit, "beside_models", ()))
    known = {*scored, *beside, "", *(each.format(model=name) for each in beside for name in scored if "{" in each)}
    stray = sorted(set(table["model"].drop_nulls()) - known)
    expect(not stray, f"estimates are about models of the run or `beside_models`, not {stray[:3]}")
    silent = table.filter(pl.col("value").is_null() & (pl.col("reason").fill_null("") == ""))
    expect(not silent.height, "a number that can't be computed is null with a reason")
    for name in ("value", "low", "high"):
        expect(bool(table[name].drop_nulls().is_finite().all()), f"`{name}` is a finite number or null")
    ordered = table.filter(pl.col("low") > pl.col("high"))
    expect(not ordered.height, "the lower end of an interval is not above its upper end")
    expect(bool((table["n"].drop_nulls() >= 0).all()), "`n` is not negative")


def check_answers(audit: Audit, result: AuditResult) -> None:
    """Cells of the scorecard have a verdict, and each question is asked once per model."""
    asked = [(answer.question, answer.model) for answer in result.answers]
    expect(len(set(asked)) == len(asked), f"audit '{audit.name}' answers a question once per model")


def check_same_results(first: AuditResult, second: AuditResult) -> None:
    """The same seed and predictions give the same numbers and sentences."""
    expect(first.estimates.equals(second.estimates), "the same seed gives the same estimates")
    expect(first.findings == second.findings, "the same seed gives the same findings")
    expect(first.answers == second.answers, "the same seed gives the same answers")


def check_can_be_stored(result: AuditResult) -> None:
    """What is written to a run is read back as it was."""
    with TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder) / "run")
        run.write_manifest({"audits": {result.audit: {}}})
        run.write_result(result)
        (read,) = run.read_results()
    expect(read.estimates.equals(result.estimates), "estimates are read back as they were written")
    expect(len(read.blocks) == len(result.blocks), "blocks are read back as they were written")
    expect(tuple(read.findings) == tuple(result.findings), "findings are read back as they were written")


def check_holds_no_text(result: AuditResult, cohort: Cohort) -> None:
    """Without `include_text`, nothing that is written holds a passage of a note."""
    with TemporaryDirectory() as folder:
        run = RunDirectory(Path(folder) / "run")
        run.write_result(result)
        files = [file for file in (Path(folder) / "run").rglob("*") if file.is_file()]
        written = "\n".join(file.read_text("utf-8") for file in files if file.suffix == ".json")
        tables = [pl.read_parquet(file) for file in files if file.suffix == ".parquet"]
    cells = [
        str(cell) for table in tables for column in table.select(pl.selectors.string()) for cell in column.unique()
    ]
    said = "\n".join([written, *cells])
    for text in cohort.texts if cohort.has_text else ():
        for start in range(0, max(len(text) - _WINDOW, 0), _WINDOW):
            passage = text[start : start + _WINDOW].strip()
            # Notes with the same few words repeated hold no passage that would give a patient away.
            if len(passage) > _WINDOW / 2 and "\n" not in passage:
                expect(passage not in said, "results hold no text of a note unless `include_text` is set")
