"""The capabilities audit's cells of the scorecard: verdicts on planted models, and the sentences that go with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.cases.edits import Inputs
from palpate.models import Model, Probabilities
from palpate.results import AuditResult
from palpate.results.verdicts import Answer
from palpate.testing import KeywordModel
from tests.audits.capabilities.capability_runs import (
    PAIRS,
    RNG,
    NegationRule,
    ask,
    audit,
    cohort_of,
    quick,
    rows,
    tweets,
    values,
)
from tests.perturb.suites.small import write


def answers(result: AuditResult, model: str = "toy") -> dict[str, Answer]:
    return {answer.question: answer for answer in result.answers if answer.model == model}


def sentence(result: AuditResult, question: str, model: str = "toy") -> str:
    """The sentence that carries the question's verdict."""
    verdicts = ("concern", "caution", "unsettled", "acceptable")
    (found,) = (
        finding
        for finding in result.findings
        if finding.question == question and finding.kind in verdicts and f", {model}:" in finding.sentence
    )
    assert found.kind == answers(result, model)[question].verdict
    return found.sentence


def many_templates(n: int, kind: str = "MFT", **options: Any) -> str:
    """A suite of one capability with `n` templates per label, or of pairs."""
    lines = [
        "suite: many",
        "labels: {positive: ADE, negative: no ADE}",
        "lexicons: {drug: [Zoloft, Prozac, aspirin, Advil, Humira]}",
        "capabilities:",
        "  - id: certainty",
        "    title: Certainty",
        "    tests:",
        f"      - {{id: certainty, type: {kind}, {', '.join(f'{k}: {v}' for k, v in options.items())} templates: [",
    ]
    for k in range(n):
        if kind == "MFT":
            lines.append(f'          {{id: y{k}, label: ADE, text: "I am sure of {{drug}} harm {k}."}},')
            lines.append(f'          {{id: n{k}, label: no ADE, text: "I am free of {{drug}} harm {k}."}},')
        else:
            lines.append(f'          {{id: p{k}, text: "Took {{drug}} {k}.", to: "Took {{drug}} {k} now."}},')
    return "\n".join([*lines, "        ]}"])


def test_one_question_per_capability_in_a_clinicians_words() -> None:
    found = answers(audit(quick(), tweets(), toy=KeywordModel({"not": -2.0}, bias=1.0, labels=("ADE",))))
    assert {name: answer.asks for name, answer in found.items()} == {
        "temporal_order": "Does it handle temporal order?",
        "positive_sentiment": "Does it handle positive sentiment?",
        "beneficial_effect": "Does it handle beneficial effect?",
        "negation": "Does it handle negation?",
    }
    assert {answer.metric for answer in found.values()} == {"pass_rate"}


def test_a_model_far_below_its_held_out_recall_is_a_concern_and_the_worst_label_is_named() -> None:
    # "nausea" finds 90% of held-out cases and nothing in sentences with other effects.
    result = audit(quick(), tweets(600), toy=KeywordModel({"nausea": 6.0}, bias=-3.0, labels=("ADE",)))
    found = answers(result)["temporal_order"]
    assert (found.verdict, found.margin) == ("concern", pytest.approx(-0.1))
    assert found.label is not None
    assert found.label.endswith(": ADE")
    assert found.high is not None
    assert found.high < -0.1
    told = sentence(result, "temporal_order")
    assert "more than 10 points worse than on held-out cases" in told
    assert "of the 'ADE' sentences of" in told
    wide = audit(
        quick(margins={"pass_rate": 0.99}), tweets(600), toy=KeywordModel({"nausea": 6.0}, bias=-3.0, labels=("ADE",))
    )
    assert answers(wide)["temporal_order"].verdict != "concern"


def test_one_answer_to_everything_is_a_concern_although_held_out_recall_is_no_better() -> None:
    result = audit(quick(), tweets(), toy=KeywordModel({}, bias=3.0, labels=("ADE",)))
    found = answers(result)["negation"]
    # The recall of "no ADE" is 0, and so is the pass rate: no difference, and yet a concern.
    assert (found.verdict, found.value, found.margin, found.label) == ("concern", 0.0, 0.4, "Negation: no ADE")
    assert "can't tell the two sides apart" in sentence(result, "negation")


def test_a_model_as_good_as_on_held_out_cases_is_acceptable_with_enough_templates_only(tmp_path: Path) -> None:
    def right(n: int) -> AuditResult:
        sure = KeywordModel({"sure": 4.0, "nausea": 4.0}, bias=-2.0, labels=("ADE",))
        folder = tmp_path / str(n)
        folder.mkdir()
        return audit(quick(suite=write(folder, many_templates(n))), tweets(2000), toy=sure)

    many, few = right(80), right(6)
    assert answers(many)["certainty"].verdict == "acceptable"
    assert "no test is more than 10 points worse than held-out cases" in sentence(many, "certainty")
    found = answers(few)["certainty"]
    assert (found.verdict, found.needed) == ("unsettled", None)
    assert found.reason is not None
    assert found.reason.startswith("only 6 templates; about ")
    assert found.reason in sentence(few, "certainty")
    assert "cannot be told" in sentence(few, "certainty")


def test_without_a_baseline_or_a_threshold_it_is_unsettled_and_says_why() -> None:
    frame = pl.DataFrame({"case_id": ["1", "2"], "text": ["One.", "Two."]})
    bare = Cohort.from_frame(frame, labels=[])
    found = answers(audit(quick(capabilities=("negation",)), bare, toy=NegationRule()))["negation"]
    assert (found.verdict, found.reason) == ("unsettled", "the cohort has no label 'ADE'")
    no_threshold = audit(quick(capabilities=("negation",), threshold="auto"), bare, toy=NegationRule())
    assert answers(no_threshold)["negation"].verdict == "unsettled"
    assert "cannot be told (the cohort has no label 'ADE')" in sentence(no_threshold, "negation")
    assert any(finding.kind == "caveat" and "has no threshold" in finding.sentence for finding in no_threshold.findings)


def test_pairs_are_judged_by_how_many_fail(tmp_path: Path) -> None:
    cohort = cohort_of(["Took it.", "Fine."] * 20, [1, 0] * 20)
    suite = write(tmp_path, many_templates(60, "DIR", **{"direction": "up", "margin": "0.1,"}))
    moves = audit(quick(suite=suite), cohort, toy=KeywordModel({"now": 2.0}, labels=("ADE",)))
    still = audit(quick(suite=suite), cohort, toy=KeywordModel({}, labels=("ADE",)))
    found = answers(moves)["certainty"]
    assert (found.verdict, found.value, found.margin, found.required) == ("acceptable", 1.0, 0.9, True)
    assert answers(still)["certainty"].verdict == "concern"
    told = sentence(still, "certainty")
    assert "the prediction does not go up by 10 points as it should in 100%" in told


class Seeded(Model):
    """Says ADE to two of three sentences, the first ones or the last ones of each template."""

    labels = ("ADE",)

    def __init__(self, seed: int) -> None:
        self.seed, self.fingerprint = seed, f"seed-{seed}"

    def predict(self, inputs: Inputs) -> Probabilities:
        drugs = ("Zoloft", "Prozac", "aspirin")
        return np.array([[0.1 if drugs[self.seed] in text else 0.9] for text in inputs.texts])


def test_an_ensemble_that_passes_two_thirds_of_every_template_has_an_interval(tmp_path: Path) -> None:
    suite = write(tmp_path, many_templates(12).replace(", Advil, Humira", ""))
    capabilities = quick(suite=suite)
    plan = capabilities.plan(tweets(), RNG(0))
    models = {f"m-{k}": Seeded(k) for k in range(3)}
    result = capabilities.analyse(plan, ask(plan, models, **dict.fromkeys(models, "m")), RNG(1))
    found = rows(result, "pass_rate", model="m").filter(pl.col("group") == "certainty/certainty: ADE")
    assert found["value"][0] == pytest.approx(2 / 3)
    assert found["high"][0] - found["low"][0] > 0.2
    assert {answer.model for answer in result.answers} == {"m"}


def test_the_spread_over_seeds_of_pair_tests_needs_no_threshold(tmp_path: Path) -> None:
    frame = pl.DataFrame({"case_id": ["1", "2"], "text": ["One.", "Two."]})
    capabilities = quick(suite=write(tmp_path, PAIRS), threshold="auto", label="ill")
    plan = capabilities.plan(Cohort.from_frame(frame, labels=[]), RNG(0))
    models = {"m-1": KeywordModel({"urgent": 2.0}, labels=("ill",)), "m-2": KeywordModel({}, labels=("ill",))}
    result = capabilities.analyse(plan, ask(plan, models, **dict.fromkeys(models, "m")), RNG(1))
    spread = values(result, "pass_rate_sd", model="m")
    assert spread["shorthand/polite: ill"] == pytest.approx(np.std([0.5, 1.0], ddof=1))


def test_families_are_capabilities_or_the_run() -> None:
    models = {"toy": KeywordModel({"nausea": 6.0}, bias=-3.0, labels=("ADE",)), "rule": NegationRule()}
    by_question = audit(quick(), tweets(600), **models)
    of_run = audit(quick(family="run"), tweets(600), **models)
    sizes = {}
    for result in (by_question, of_run):
        found = rows(result, "pass_rate", reference="held-out: no ADE").filter(
            pl.col("group") == "negation/negation: no ADE"
        )
        sizes[result is of_run] = found["n_family"][0]
        assert (found["p_value"][0] < 0.05) == (found["high"][0] < 0 or found["low"][0] > 0)
    # Two labels of two models; and all tests of the run.
    assert sizes[False] == 4
    assert sizes[True] > 40
    assert answers(of_run)["negation"].low < answers(by_question)["negation"].low  # type: ignore[operator]


def test_findings_are_grouped_by_question_and_reassure_nobody_by_a_test() -> None:
    result = audit(quick(), tweets(600), toy=KeywordModel({"nausea": 6.0}, bias=-3.0, labels=("ADE",)))
    told = [finding for finding in result.findings if finding.kind in ("concern", "caution", "unsettled", "acceptable")]
    assert [finding.question for finding in told] == list(answers(result))
    assert not any("significant" in finding.sentence or "not clearly" in finding.sentence for finding in told)
