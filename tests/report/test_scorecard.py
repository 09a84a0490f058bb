"""The scorecard on the first screen: a word, a number and a margin in each cell; nothing without answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from palpate.report.choice import harm_of
from palpate.report.html import render
from palpate.report.scorecard import AnswerView, view_scorecard
from palpate.results import AuditResult, Estimate, estimates_frame
from palpate.results.verdicts import Answer, scorecard

MANIFEST = {"models": [{"name": "a"}, {"name": "b[1]", "ensemble": "b"}, {"name": "b[2]", "ensemble": "b"}]}


def result(*answers: Answer) -> AuditResult:
    return AuditResult("performance", estimates_frame([]), answers=answers)


def answer(model: str, verdict: str, **more: object) -> Answer:
    base = {"question": "travel", "asks": "Does it <travel>?", "metric": "auroc", "value": -0.1, "margin": -0.03}
    return Answer(model=model, verdict=verdict, **{**base, "low": -0.14, "high": -0.06, **more})  # type: ignore[arg-type]


def test_cells_stand_under_their_models() -> None:
    view = view_scorecard(
        [result(answer("b", "concern"), answer("a", "unsettled", needed=1300, label="x", n_labels=3, n_unsettled=2))],
        MANIFEST,
    )
    assert view is not None
    assert view.models == ("a", "b")
    (question,) = view.questions
    first, second = question.cells
    assert first is not None
    assert second is not None
    assert first.word == "Unsettled"
    assert first.details == ("worst of 3: x", "2 of 3 unsettled", "about 1,300 patients would settle it")
    assert (second.word, second.number, second.margin) == (
        "Concern",
        "−0.100 (−0.140 to −0.060)",
        "difference of AUROC, margin −0.03",
    )
    assert [word for _, word, _ in view.legend] == ["Concern", "Unsettled"]


def test_patients_that_a_question_between_cohorts_needs_are_those_of_one_cohort() -> None:
    view = view_scorecard([result(answer("a", "unsettled", needed=1300, where="b <2>"))], MANIFEST)
    assert view is not None
    (cell,) = view.questions[0].cells
    assert cell is not None
    assert cell.details == ("about 1,300 patients in b <2> would settle it",)


def cell_of(one: Answer) -> AnswerView:
    view = view_scorecard([result(one)], MANIFEST)
    assert view is not None
    (cell,) = view.questions[0].cells
    assert cell is not None
    return cell


def test_an_unsettled_cell_says_what_would_settle_it_or_why_that_is_not_known() -> None:
    on_margin = "no number of patients would settle it: the estimate lies on the margin"
    near = {"value": -0.031, "low": -0.08, "high": 0.02}
    assert cell_of(answer("a", "unsettled", **near)).details == (on_margin,)
    assert cell_of(answer("a", "unsettled", **near)).number == "−0.031 (−0.080 to 0.020)"
    assert cell_of(answer("a", "unsettled")).details == ("how many patients would settle it is not known",)
    assert cell_of(answer("a", "unsettled", value=None, low=None, high=None, reason="too few")).details == ("too few",)
    assert cell_of(answer("a", "caution")).details == ()
    assert cell_of(answer("a", "acceptable", n_labels=14, n_unsettled=0)).details == ()


def test_things_that_are_not_labels_are_not_called_labels() -> None:
    cell = cell_of(answer("a", "concern", label="pair 3", n_labels=14, n_unsettled=9))
    assert cell.details == ("worst of 14: pair 3", "9 of 14 unsettled")


def test_agreement_is_told_without_a_double_negative() -> None:
    cell = cell_of(answer("a", "concern", metric="agreement", value=-0.93, margin=-0.2))
    assert cell.margin == "agreement with clinicians, against their own, margin −0.2"


def estimate(model: str, value: float, reference: str | None = None, significant: bool | None = None) -> Estimate:
    return Estimate(
        audit="performance",
        metric="auroc",
        model=model,
        label="ill",
        group="",
        value=value,
        low=value - 0.05,
        high=value + 0.05,
        level=0.95,
        n=900,
        reference=reference,
        significant=significant,
    )


def test_heads_and_one_sentence_answer_which_of_the_two_and_why() -> None:
    words = answer("b", "concern", question="spurious", asks="A word?", label="larkspur", n_labels=23, metric="shift")
    vocabulary = AuditResult("vocabulary", estimates_frame([]), answers=(words,))
    rows = [estimate("a", 0.74), estimate("b", 0.71), estimate("b", -0.03, "a", significant=False)]
    travels = (answer("a", "unsettled"), answer("b", "concern"))
    performance = AuditResult("performance", estimates_frame(rows), answers=travels)
    view = view_scorecard([performance, vocabulary], MANIFEST)
    assert view is not None
    assert view.heads == (
        ("a", "AUROC", "0.740 (0.690–0.790)", "1 unsettled"),
        ("b", "AUROC", "0.710 (0.660–0.760)", "2 concerns"),
    )
    assert view.choice == (
        "a has no concern (1 unsettled); b has 2 concerns: it loses AUROC in another cohort, and it hangs on the word "
        "'larkspur', which no clinician would use. Their AUROCs cannot be told apart (0.740 and 0.710)."
    )
    page = render(MANIFEST, [performance, vocabulary])
    assert page.index("cannot be told apart (0.740 and 0.710)") < page.index("<table")


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ("Does the patient's gender change the answer?", "the patient's gender changes its answer (worst: x)"),
        ("Does a single year of age change the answer?", "a single year of age changes its answer (worst: x)"),
        ("Does it handle negation?", "it handles negation worse than held-out cases (worst: x)"),
        ("Is it {} loud?", "“Is it {} loud?” (worst: x)"),
    ],
)
def test_a_concern_is_told_in_words_and_other_questions_are_quoted(asks: str, words: str) -> None:
    concern = answer("a", "concern", question="other", asks=asks, label="x", n_labels=3)
    assert harm_of("plugin", concern) == words


def test_the_sentence_claims_no_more_than_was_tested() -> None:
    def choice(significant: bool | None) -> str:
        rows = [estimate("a", 0.74), estimate("b", 0.71), estimate("b", -0.03, "a", significant=significant)]
        tested = AuditResult("performance", estimates_frame(rows), answers=(answer("a", "acceptable"),))
        view = view_scorecard([replace(tested, answers=(*tested.answers, answer("b", "caution")))], MANIFEST)
        assert view is not None
        return view.choice

    start = "a has no concern; b has no concern (1 caution). Their AUROCs "
    assert choice(None) == f"{start}are 0.740 and 0.710."
    assert choice(significant=True) == f"{start}are 0.740 and 0.710: that of a is higher than that of b."
    single = view_scorecard([result(answer("a", "concern"))], MANIFEST)
    assert single is not None
    assert single.choice == ""


def test_rows_have_the_order_of_the_run() -> None:
    answers = (answer("a", "acceptable", question="x", asks="X?"), answer("a", "concern", question="y", asks="Y?"))
    view = view_scorecard([result(*answers)], MANIFEST)
    assert view is not None
    assert [row["asks"] for row in scorecard({"performance": answers}, ["a"])] == [row.asks for row in view.questions]


def test_the_page_shows_it_first_and_escaped() -> None:
    page = render(MANIFEST, [result(answer("a", "concern"))])
    assert page.index("Scorecard") < page.index("On whom")
    assert "Does it &lt;travel&gt;?" in page
    assert "not asked" not in page
    assert "Scorecard" not in render(MANIFEST, [result()])


def test_a_count_of_all_cases_has_no_interval() -> None:
    counted = answer("a", "concern", metric="known_patients", value=0.375, low=0.375, high=0.375, percent=True)
    view = view_scorecard([result(counted)], MANIFEST)
    assert view is not None
    (cell,) = view.questions[0].cells
    assert cell is not None
    assert cell.number == "37.5%"
    assert "patients seen before" in cell.margin
