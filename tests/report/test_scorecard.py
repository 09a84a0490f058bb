"""The scorecard on the first screen: a word, a number and a margin in each cell; nothing without answers."""

from __future__ import annotations

from palpate.report.html import render
from palpate.report.scorecard import view_scorecard
from palpate.results import AuditResult, estimates_frame
from palpate.results.verdicts import Answer

MANIFEST = {"models": [{"name": "a"}, {"name": "b[1]", "ensemble": "b"}, {"name": "b[2]", "ensemble": "b"}]}


def result(*answers: Answer) -> AuditResult:
    return AuditResult("performance", estimates_frame([]), answers=answers)


def answer(model: str, verdict: str, **more: object) -> Answer:
    base = {"question": "travel", "asks": "Does it <travel>?", "metric": "auroc", "value": -0.1, "margin": -0.03}
    return Answer(model=model, verdict=verdict, **{**base, "low": -0.14, "high": -0.06, **more})  # type: ignore[arg-type]


def test_cells_stand_under_their_models() -> None:
    view = view_scorecard(
        [result(answer("b", "concern"), answer("a", "unsettled", needed=1300, label="x", n_labels=3))], MANIFEST
    )
    assert view is not None
    assert view.models == ("a", "b")
    (question,) = view.questions
    first, second = question.cells
    assert first is not None
    assert second is not None
    assert (first.word, first.details) == ("Unsettled", ("worst of 3: x", "about 1,300 patients would settle it"))
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
