from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from palpate.audits.context import Context
from palpate.audits.performance import Performance
from palpate.errors import ConfigError, PalpateError
from palpate.results import AuditResult, Estimate, Finding, estimates_frame
from palpate.results.verdicts import Answer
from palpate.run.conditions import Bound, RunNames, check_labels, parse
from palpate.run.directory import RunDirectory
from palpate.run.gate import Judgement, judge, junit


def row(**more: object) -> Estimate:
    base = {
        "audit": "performance",
        "model": "m",
        "metric": "auroc",
        "label": "ill",
        "group": "home",
        "value": 0.8,
        "n": 100,
    }
    return Estimate(**{**base, "low": 0.75, "high": 0.85, **more})  # type: ignore[arg-type]


def result(*rows: Estimate, values: dict[str, list[float]] | None = None) -> AuditResult:
    replicates = pl.DataFrame(
        [(model, "auroc", "ill", "home", numbers) for model, numbers in (values or {}).items()],
        schema={
            "model": pl.String,
            "metric": pl.String,
            "label": pl.String,
            "group": pl.String,
            "values": pl.List(pl.Float64),
        },
        orient="row",
    )
    return AuditResult("performance", estimates_frame(rows), replicates=replicates)


MANIFEST = {"audits": {"performance": {}}, "models": [], "fingerprints": {"cohort": "x", "seed": "y"}}


def verdict(text: str, *rows: Estimate, manifest: dict[str, object] | None = None) -> Judgement:
    return judge([parse(text)], [result(*rows)], manifest or MANIFEST)[0]


def test_only_models_are_judged_unless_another_is_named() -> None:
    rows = (row(), row(model="pre-test probability", value=0.5), row(model="m-1", value=0.4))
    models = [{"name": "m-1", "ensemble": "m"}, {"name": "m-2", "ensemble": "m"}]
    manifest = {**MANIFEST, "models": models}
    assert verdict("performance.auroc > 0.65", *rows, manifest=manifest).passed
    assert not verdict("performance.auroc[model=pre-test probability] > 0.65", *rows, manifest=manifest).passed
    assert not verdict("performance.auroc[model=m-1] > 0.65", *rows, manifest=manifest).passed


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("performance.auroc >= 0.8", True),
        ("performance.auroc > 0.8", False),
        ("performance.auroc.low >= 0.75", True),
        ("performance.auroc.low>=0.76", False),
        ("performance.auroc.high <= 0.85", True),
        ("performance.auroc.n == 100", True),
        ("performance.auroc[model=m] >= 0.8", True),
        ("performance.auroc.low [ model = m , group = home ] >= 7e-1", True),
        ("performance.auroc[model=other] >= 0.1", False),
        ("performance.nothing >= 0.1", False),
        ("context.auroc >= 0.1", False),
    ],
)
def test_bounds(text: str, passed: bool) -> None:
    assert verdict(text, row()).passed is passed


def test_every_matching_row_must_hold_and_the_failing_one_is_named() -> None:
    judged = verdict("performance.auroc.low >= 0.7", row(), row(model="weak", low=0.6))
    assert not judged.passed
    assert judged.detail == "weak · ill · home: low is 0.6"


def test_a_number_that_cant_be_computed_fails() -> None:
    judged = verdict("performance.auroc >= 0.1", row(value=None, low=None, reason="no positive case"))
    assert not judged.passed
    assert "no positive case" in judged.detail


def test_differences_are_left_out_unless_asked_for() -> None:
    rows = (row(), row(reference="away", value=-0.2))
    assert verdict("performance.auroc >= 0.7", *rows).passed
    assert not verdict("performance.auroc[reference=away] >= -0.05", *rows).passed


def test_macro_is_the_headline_and_a_star_is_every_label() -> None:
    rows = (row(label="rare", value=0.2), row(label="macro", value=0.9))
    assert verdict("performance.auroc >= 0.8", *rows).passed
    assert not verdict("performance.auroc[label=*] >= 0.8", *rows).passed


def test_checkpoints_are_judged_through_their_mean() -> None:
    manifest = {**MANIFEST, "models": [{"name": "x[1]", "ensemble": "x"}]}
    rows = (row(model="x", value=0.8), row(model="x[1]", value=0.1))
    assert verdict("performance.auroc >= 0.7", *rows, manifest=manifest).passed


def test_the_members_stand_for_an_ensemble_without_rows_of_its_own() -> None:
    """A plug-in may know nothing of ensembles: a condition on the model holds when it holds for every seed."""
    models = [{"name": "x[1]", "ensemble": "x"}, {"name": "x[2]", "ensemble": "x"}]
    manifest = {**MANIFEST, "models": models}
    rows = (row(model="x[1]", value=0.8), row(model="x[2]", value=0.6))
    for condition in ("performance.auroc >= {}", "performance.auroc[model=x] >= {}"):
        assert verdict(condition.format(0.6), *rows, manifest=manifest).passed
        failed = verdict(condition.format(0.7), *rows, manifest=manifest)
        assert not failed.passed
        assert failed.detail == "x[2] · ill · home: value is 0.6"


NAMES = RunNames(
    {"performance": Performance(), "context": Context(), "mine": object()}, {"xgb": [], "bert": ["bert[1]", "bert[2]"]}
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("performanc.auroc > 0.7", "this run has no audit 'performanc'; did you mean `performance`?"),
        ("no concern in evidence", "this run has no audit 'evidence'; its audits are: context, mine, performance."),
        ("performance.auorc > 0.7", "performance has no metric 'auorc'; did you mean `auroc`?"),
        ("context.pass_rate > 0.7", "context has no metric 'pass_rate'; its metrics are: adaptive_calibration_error, "),
        ("performance.calibration > 0.7", "is a question of performance, not a metric; write 'performance.calibration"),
        ("performance.tarvel is acceptable", "performance has no question 'tarvel'; did you mean `travel`?"),
        (
            "performance.auroc is acceptable",
            "no question 'auroc'; its questions are: calibration, comparison, separation",
        ),
        ("performance.travel is fine", "a gate cannot ask for 'fine'; write 'is acceptable'"),
        ("performance.travel is not concern", "a gate cannot ask for 'not concern'"),
        ("performance.travel[model=xbg] is acceptable", "unknown model 'xbg'; did you mean `xgb`?"),
        ("performance.travel[model=bert[1]] is acceptable", "unknown model 'bert[1]'; did you mean `bert`?"),
        (
            "performance.travel[label=ill] is acceptable",
            "'label=ill' is not a filter, such as [model=xgb]; filters here are: model",
        ),
        ("performance.auroc[model=xbg] > 0.7", "unknown model 'xbg'; did you mean `xgb`?"),
        (
            "performance.auroc[model=clinicians] > 0.7",
            "unknown model 'clinicians'; the models are: bert, bert[1], bert[2], xgb",
        ),
        (
            "performance.auroc[modle=xgb] > 0.7",
            "'modle=xgb' is not a filter, such as [model=xgb]; did you mean `model`?",
        ),
        ("performance.auroc.lo > 0.7", "unknown field 'lo'; did you mean `low`?"),
        ("performance.auroc => 0.7", "cannot be read; write it like"),
        ("no concerns", "cannot be read; write it like"),
    ],
)
def test_words_that_this_run_does_not_have_are_refused_before_it(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text, names=NAMES)
    assert f"gate condition '{text}'" in str(caught.value)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "performance.auroc_sd < 0.01",
        "performance.auroc[model=bert[1], label=ill] > 0.7",
        "context.auroc[model=pre-test probability] < 0.7",
        "context.net_benefit[model=xgb and history] > 0",
        "mine.anything > 0",
        "mine.something is acceptable",
    ],
)
def test_words_that_this_run_has_are_accepted(text: str) -> None:
    """An audit that declares nothing is checked after the run."""
    assert parse(text, names=NAMES).text == text


def test_a_drop_needs_the_performance_audit() -> None:
    with pytest.raises(ConfigError, match="this run has no audit 'performance'"):
        parse("no significant drop against somewhere", names=RunNames({"context": Context()}))


def test_labels_are_checked_when_the_cohort_is_known() -> None:
    def check(text: str) -> None:
        check_labels(parse(text, names=NAMES), ("ill", "dead"), NAMES.audits)

    for label in ("ill", "*", "macro", "micro"):
        check(f"performance.auroc[label={label}] > 0.5")
    check("mine.share[label=anything] > 0.5")
    check("no concern")
    with pytest.raises(ConfigError, match="the cohort has no label 'daed'; did you mean `dead`"):
        check("performance.auroc[label=daed] > 0.5")


@pytest.mark.parametrize(
    "text",
    [
        "performance.auroc",
        "auroc >= 0.7",
        "performance.auroc >= 0.7.0",
        "performance.auroc >= .",
        "performance.auroc.median >= 1",
        "performance.auroc[modle=x] > 1",
        "be good",
    ],
)
def test_a_condition_that_cant_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="gate condition"):
        parse(text)


def test_negative_bound() -> None:
    condition = parse("performance.auroc > -0.05")
    assert isinstance(condition, Bound)
    assert condition.bound == -0.05


def earlier_run(folder: Path, values: list[float], value: float) -> RunDirectory:
    run = RunDirectory(folder)
    run.write_manifest(MANIFEST)
    run.write_result(result(row(value=value), values={"m": values}))
    return run


@pytest.mark.parametrize(("shift", "passed"), [(0.0, True), (0.02, True), (-0.02, False)])
def test_a_paired_drop_is_found_where_independent_intervals_overlap(tmp_path: Path, shift: float, passed: bool) -> None:
    before = [0.70 + 0.002 * k for k in range(100)]
    now = [number + shift + 0.0001 * (k % 7) for k, number in enumerate(before)]
    earlier_run(tmp_path, before, 0.8)
    condition = parse(f"no significant drop against {tmp_path}")
    (judged,) = judge([condition], [result(row(value=0.8 + shift), values={"m": now})], MANIFEST)
    assert judged.passed is passed
    assert "[paired]" in judged.detail
    assert f"{shift:+.4f}" in judged.detail


def test_a_drop_against_a_run_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not hold a run"):
        parse(f"no significant drop against {tmp_path / 'nowhere'}")


def test_a_model_that_the_earlier_run_lacks_fails(tmp_path: Path) -> None:
    earlier_run(tmp_path, [0.7] * 100, 0.8)
    condition = parse(f"no significant drop against {tmp_path}")
    now = result(row(), row(model="new"), values={"m": [0.7] * 100, "new": [0.7] * 100})
    (judged,) = judge([condition], [now], MANIFEST)
    assert not judged.passed
    assert "new · home: the earlier run does not have this model" in judged.detail


def test_other_options_are_not_paired(tmp_path: Path) -> None:
    earlier_run(tmp_path, [0.7 + 0.001 * (k % 9) for k in range(100)], 0.8)
    manifest = {**MANIFEST, "audits": {"performance": {"unit": "case"}}}
    now = result(row(), values={"m": [0.7 + 0.001 * (k % 7) for k in range(100)]})
    (judged,) = judge([parse(f"no significant drop against {tmp_path}")], [now], manifest)
    assert "[independent resamples]" in judged.detail


def test_what_can_be_known_before_a_run_is_refused_before(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="this run has no audit 'vocabulary'"):
        parse("vocabulary.rank >= 1", names=NAMES)
    earlier_run(tmp_path, [0.7] * 100, 0.8)
    with pytest.raises(ConfigError, match="cannot be compared by 'npv'"):
        parse(f"no significant drop in npv against {tmp_path}")
    unfinished = RunDirectory(tmp_path / "unfinished")
    unfinished.write_manifest(MANIFEST)
    with pytest.raises(PalpateError):
        parse(f"no significant drop against {unfinished.path}")


def test_a_wrong_filter_is_told_with_what_there_is() -> None:
    judged = verdict("performance.auroc[model=nope] >= 0.1", row())
    assert judged.detail == "unknown model 'nope'; the results have: m"


def test_junit_counts_and_escapes() -> None:
    text = junit([Judgement("a < 1", True, "fine\x01"), Judgement("b", False, "<script>")])
    suite = ElementTree.fromstring(text)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.text == "<script>"


def answered(*verdicts: str) -> list[AuditResult]:
    answers = tuple(
        Answer(question="travel", asks="Does it travel?", model=f"m{k}", verdict=verdict, metric="auroc")  # type: ignore[arg-type]
        for k, verdict in enumerate(verdicts)
    )
    return [AuditResult("performance", estimates_frame([]), answers=answers)]


@pytest.mark.parametrize(
    ("condition", "verdicts", "passed"),
    [
        ("no concern", ("caution", "unsettled"), True),
        ("no concern", ("acceptable", "concern"), False),
        ("no concern in performance", ("concern",), False),
        ("no concern", (), False),
        ("performance.travel is acceptable", ("acceptable", "acceptable"), True),
        ("performance.travel is acceptable", ("acceptable", "unsettled"), False),
        ("performance.travel[model=m0] is acceptable", ("acceptable", "unsettled"), True),
        ("performance.travel[model=m7] is acceptable", ("acceptable",), False),
        ("performance.tarvel is acceptable", ("acceptable",), False),
    ],
)
def test_a_gate_reads_verdicts(condition: str, verdicts: tuple[str, ...], passed: bool) -> None:
    (judged,) = judge([parse(condition)], answered(*verdicts), MANIFEST)
    assert judged.passed is passed, judged.detail


def test_no_concern_fails_on_a_concern_about_the_data_or_a_model_as_a_whole() -> None:
    """A finding of the first rank has no question, and no cell of the scorecard."""
    (clean,) = answered("acceptable")
    first = Finding(sentence="64% of the audited notes also stand in training.", kind="concern")
    about_answers = Finding(sentence="It loses.", kind="concern", question="travel")
    for finding, passed in ((first, False), (about_answers, True)):
        (judged,) = judge([parse("no concern")], [replace(clean, findings=(finding,))], MANIFEST)
        assert judged.passed is passed
    (judged,) = judge([parse("no concern")], [replace(clean, answers=(), findings=(first,))], MANIFEST)
    assert judged.detail == "concern: performance: 64% of the audited notes also stand in training"


def test_a_condition_on_verdicts_names_an_audit_of_the_run() -> None:
    with pytest.raises(ConfigError, match="this run has no audit 'context'"):
        parse("no concern in context", names=RunNames({"performance": Performance()}))
    failed = judge([parse("performance.travel is acceptable")], answered("acceptable", "unsettled"), MANIFEST)[0]
    assert failed.detail == "m1: unsettled"
