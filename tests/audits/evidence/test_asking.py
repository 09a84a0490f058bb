"""Evidence that the audit asks for: models that explain themselves, occlusion for all others, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.evidence.asking import EditedCopies, asked_pairs, occlusion_attributions
from palpate.cases.edits import Inputs, splice
from palpate.errors import CohortError, ConfigError, ModelError
from palpate.results import Asked, Attributions
from palpate.testing import CountingModel, KeywordModel
from tests.audits.evidence.evidence_charts import (
    CODES,
    PHRASES,
    SAYS,
    ExplainingModel,
    Watched,
    audit,
    charts,
    knower,
    quick,
    row,
    table,
    value,
)

ONLY = {"faithfulness": False}


def watched(gold: pl.DataFrame, **options: Any) -> Watched:
    return Watched(**{"gold": table(gold), **ONLY, **options})


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


@pytest.mark.parametrize("n_words", [20, 200])
def test_occlusion_is_the_closed_form_of_the_keyword_model(tmp_path: Path, n_words: int) -> None:
    cohort, gold = charts(32, n_words=n_words)
    evidence = watched(gold, segments=8)
    audit(evidence, cohort, tmp_path, toy=knower())
    ((plan, predictions),) = Watched.seen
    memory, answers = plan.memory, predictions["toy"]
    found = occlusion_attributions(memory, "toy", answers, evidence._asking)
    pieces = {
        (int(r), int(label), cohort.texts[r][start:end]): score
        for r, label, start, end, score in zip(*(part.tolist() for part in found), strict=True)
    }
    pairs = asked_pairs(memory, answers, evidence._asking)
    for chart, label in zip(pairs.chart.tolist(), pairs.label.tolist(), strict=True):
        r, code = int(memory.charts.rows[chart]), CODES[label]
        word = PHRASES[code].split()[-1]
        n = cohort.texts[r].split().count(word) + cohort.texts[r].split().count(f"{word}.")
        expected = sigmoid(-2 + 4 * n) - sigmoid(-2 + 4 * (n - 1))
        assert pieces.pop((r, label, word)) == pytest.approx(expected, abs=1e-12)
    assert not pieces  # no other word has any weight


def test_occlusion_finds_the_words_that_the_model_uses(tmp_path: Path) -> None:
    cohort, gold = charts(64, n_words=300)
    result = audit(quick(gold, segments=16, **ONLY), cohort, tmp_path, toy=knower())
    assert value(result, "token_recall", group="length=1 word") == 1.0
    assert value(result, "token_precision") == 1.0
    assert result.provenance["models"]["toy"]["evidence"] == "occlusion"
    assert result.provenance["models"]["toy"]["threshold_from"].startswith("highest token F1")


def test_occlusion_asks_for_no_more_than_its_bound(tmp_path: Path) -> None:
    cohort, gold = charts(32, n_words=300)
    counting = CountingModel(knower())
    result = audit(quick(gold, segments=8, words_per_label=40, **ONLY), cohort, tmp_path, toy=counting)
    about = result.provenance["models"]["toy"]
    n_charts = result.provenance["charts"] + result.provenance["validation_charts"]
    assert counting.rows == about["texts_asked"] + n_charts
    assert about["texts_asked"] <= n_charts * (8 + len(CODES) * 40)
    assert about["texts_asked"] < n_charts * 300 / 2


@pytest.mark.parametrize(("words_per_label", "at_once"), [(20, False), (250, True)])
def test_what_is_taken_out_does_not_depend_on_how_a_model_scores(
    tmp_path: Path, words_per_label: int, at_once: bool
) -> None:
    """Word by word at once if the chart is no longer than the budget, whether or not the model scores differences."""
    cohort, gold = charts(24, n_words=200)
    taken = []
    for uses_edits in (False, True):
        model = knower()
        model.uses_edits = uses_edits
        evidence = watched(gold, segments=8, words_per_label=words_per_label)
        result = audit(evidence, cohort, tmp_path / str(uses_edits), toy=model)
        plan = Watched.seen.pop()[0]
        assert (plan.memory.stage == "evidence") == at_once
        taken.append([column.tolist() for column in plan.memory.occluded.pieces])
        assert result.provenance["occlusion"] == {"segments": 8, "words_per_label": words_per_label}
    assert taken[0] == taken[1]


@pytest.mark.slow
def test_a_search_that_ends_at_its_budget_is_told(tmp_path: Path) -> None:
    """All words matter a little: the finding says that most were not looked at, unless the budget lets all be."""
    cohort, gold = charts(40, n_words=300)
    scattered = KeywordModel(dict.fromkeys({w.strip(".") for t in cohort.texts for w in t.split()}, 0.01), labels=CODES)
    for words_per_label, is_cut in ((20, True), (299, False)):
        evidence = quick(gold, segments=8, words_per_label=words_per_label, **ONLY)
        result = audit(evidence, cohort, tmp_path / str(words_per_label), toy=scattered)
        assert any("occlusion ended at its budget" in finding.sentence for finding in result.findings) == is_cut


def test_what_a_window_hides_is_not_let_in_when_words_are_taken_out(tmp_path: Path) -> None:
    # With 10 words to read, taking out one would bring the eleventh into view.
    filler = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    texts = [" ".join([*filler, "fine", "pneumonia", "again"]) for _ in range(8)]
    frame = pl.DataFrame({"case_id": [f"c{k}" for k in range(8)], "text": texts, "J18": [1] * 8})
    cohort = Cohort.from_frame(frame, labels=["J18"])
    gold = pl.DataFrame({"case_id": ["c0"], "label": ["J18"], "start": [0], "end": [3]})
    model = KeywordModel({"pneumonia": 4.0}, labels=("J18",), window_words=10)
    evidence = watched(gold, threshold=0.5, code_threshold=0.0)
    audit(evidence, cohort, tmp_path, toy=model)
    ((plan, predictions),) = Watched.seen
    assert np.all(predictions["toy"].p == 0.5)
    assert len(occlusion_attributions(plan.memory, "toy", predictions["toy"], evidence._asking).row) == 0


def test_a_model_that_explains_is_asked_for_the_labels_in_question(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    model = ExplainingModel(SAYS)
    result = audit(quick(gold, **ONLY), cohort, tmp_path, toy=model)
    assert value(result, "span_f1") == 1.0
    assert result.provenance["models"]["toy"]["evidence"] == "pointing"
    assert result.provenance["models"]["toy"]["threshold"] == pytest.approx(0.78)
    assert result.provenance["models"]["toy"]["texts_asked"] == 0
    assert model.calls >= 1


def test_a_model_that_predicts_nothing_is_still_asked_about_the_gold_labels(tmp_path: Path) -> None:
    cohort, gold = charts(64)
    for way in ("pointing", "occlusion"):
        evidence = quick(gold, code_threshold=1.0, explain=way, **ONLY)
        result = audit(evidence, cohort, tmp_path / way, toy=ExplainingModel(SAYS))
        assert value(result, "span_recall", group="length=1 word") == 1.0


def test_a_model_is_asked_only_for_its_own_copies(tmp_path: Path) -> None:
    cohort, gold = charts(24)
    counting = CountingModel(ExplainingModel(SAYS))
    counting.explains = ()
    told = CountingModel(knower(window_words=10_000))  # another fingerprint, or the cache would answer
    evidence = watched(gold, predicted={"told": table(gold)})
    audit(evidence, cohort, tmp_path, toy=counting, told=told)
    ((plan, predictions),) = Watched.seen
    n_audited = plan.memory.n_audited
    assert told.rows == n_audited < len(plan.memory.charts.rows) < counting.rows
    assert not np.isnan(predictions["told"].p[:n_audited]).any()
    assert np.isnan(predictions["told"].p[n_audited:]).all()
    assert not np.isnan(predictions["toy"].p).any()
    written = pl.read_parquet(tmp_path / "run" / "predictions" / "told.parquet")
    assert written["variant"].to_list() == list(range(n_audited))


def test_a_table_comes_before_explaining_and_a_way_can_be_chosen(tmp_path: Path) -> None:
    cohort, gold = charts(48)
    model = ExplainingModel(SAYS)
    audit(quick(gold, predicted={"toy": table(gold)}, **ONLY), cohort, tmp_path, toy=model)
    assert model.calls == 0
    chosen = audit(quick(gold, explain={"toy": "occlusion"}, **ONLY), cohort, tmp_path / "b", toy=model)
    assert model.calls == 0
    assert chosen.provenance["models"]["toy"]["evidence"] == "occlusion"
    with pytest.raises(ConfigError, match=r"'toy' cannot explain by 'gradients'.*pointing, occlusion"):
        audit(quick(gold, explain="gradients", **ONLY), cohort, tmp_path / "c", toy=model)


@pytest.mark.parametrize("explain", ["auto", "occlusion", "gradients"])
def test_what_does_not_fit_a_model_is_refused_before_it_is_asked_anything(explain: str, tmp_path: Path) -> None:
    cohort, gold = charts(48)
    lists = Cohort(cohort.cases.with_columns(split=pl.lit("test")), cohort.labels, cohort.y)
    for name, inner in (("speaks", ExplainingModel(SAYS)), ("mute", knower())):
        model = CountingModel(inner)
        with pytest.raises((CohortError, ConfigError), match=r"threshold|cannot explain by"):
            audit(quick(gold, explain=explain), lists, tmp_path / name, toy=model)
        assert model.calls == 0
    given = {"predicted": {"toy": table(gold)}, "explain": "auto"}
    assert value(audit(quick(gold, **given, **ONLY), lists, tmp_path / "table", toy=knower()), "token_f1") == 1.0


def test_what_a_window_cuts_off_leaves_nothing_where_it_was() -> None:
    """A mask stands for words that were taken out, never for text that the model had not read anyway."""
    cohort, gold = charts(8)
    plan = quick(gold, threshold=0.5).plan(cohort, np.random.default_rng(0))
    more = EditedCopies(plan, "[MASK]")
    row = int(plan.memory.charts.rows[0])
    text = cohort.texts[row]
    first, second, third = (len(" ".join(text.split()[:k])) for k in (1, 2, 3))
    places = np.array([first + 1]), np.array([second])
    made = [more.add(row, *places), more.add(row, *places, cut=third), more.add(row, *places, cut=second - 1)]
    larger = more.plan(plan.memory, ["toy"], "occlusion").variants
    found = [splice(text, larger.edits(k)) for k in made]
    masked = f"{text[: first + 1]}[MASK]{text[second:]}"
    assert found == [masked, f"{text[: first + 1]}[MASK]{text[second:third]}", f"{text[: first + 1]}[MASK]"]
    again = EditedCopies(replace(plan, variants=larger), "[MASK]")
    last = again.add(row, *places)
    assert [splice(text, again.plan(plan.memory, ["toy"], "removal").variants.edits(k)) for k in (*made, last)] == [
        *found,
        masked,
    ]


def test_a_run_that_died_while_explaining_resumes_with_the_same_bytes(tmp_path: Path) -> None:
    cohort, gold = charts(160)
    evidence = quick(gold)
    model = ExplainingModel(SAYS)
    audit(evidence, cohort, tmp_path / "whole", toy=model)
    dying = ExplainingModel(SAYS)
    longest = max(
        cohort.rows(split="test").tolist(),
        key=lambda r: (bool(cohort.y_true(np.array([r])).any()), len(cohort.texts[r])),
    )
    dying.fails_on = {cohort.cases["case_id"][longest]}
    with pytest.raises(
        ModelError, match=f"model 'toy', case '{cohort.cases['case_id'][longest]}': RuntimeError while explaining"
    ):
        audit(evidence, cohort, tmp_path / "died", toy=dying)
    kept = list((tmp_path / "died" / "run" / "attributions" / "evidence" / "toy").iterdir())
    assert kept
    again = ExplainingModel(SAYS)
    audit(evidence, cohort, tmp_path / "died", resume=True, toy=again)
    assert 0 < again.rows < model.rows
    for name in ("results/evidence.parquet", "results/evidence.json"):
        assert (tmp_path / "died" / "run" / name).read_bytes() == (tmp_path / "whole" / "run" / name).read_bytes()


def test_members_of_an_ensemble_explain_themselves_one_by_one(tmp_path: Path) -> None:
    """What each said is kept between turns, in files that are named after it."""
    cohort, gold = charts(64)
    half = {code: SAYS[code] for code in CODES[:2]}
    members = [ExplainingModel(SAYS), ExplainingModel(half, window_words=10_000)]
    result = audit(quick(gold), cohort, tmp_path, toy=members)
    assert value(result, "token_f1", model="toy[1]") == 1.0
    assert 0 < value(result, "token_recall", model="toy[2]") < 1
    each = [value(result, "token_f1", model=name) for name in ("toy[1]", "toy[2]")]
    assert value(result, "token_f1") == pytest.approx(np.mean(each), abs=1e-12)
    assert any(finding.sentence.startswith("toy: its evidence by pointing agrees") for finding in result.findings)


class Wrong(ExplainingModel):
    """Answers what was not asked."""

    def __init__(self, change: dict[str, Any]) -> None:
        super().__init__(SAYS)
        self.change = change

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        return super().explain(inputs, asked, way)._replace(**self.change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"score": np.array([np.nan])}, "different lengths"),
        ({"row": 0}, "different lengths"),
    ],
)
def test_answers_of_the_wrong_shape_are_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    cohort, gold = charts(24)
    change = {name: np.atleast_1d(part) for name, part in change.items()}
    with pytest.raises(ModelError, match=f"'toy'.*{says}"):
        audit(quick(gold, **ONLY), cohort, tmp_path, toy=Wrong(change))


@pytest.mark.parametrize(
    ("column", "value_", "says"),
    [
        ("score", np.nan, "not a finite number"),
        ("end", 10_000_000, "outside the text"),
        ("start", -1, "outside the text"),
        ("row", 99, "row that was not asked"),
    ],
)
def test_impossible_answers_are_refused(tmp_path: Path, column: str, value_: float, says: str) -> None:
    cohort, gold = charts(24)

    class Spoilt(ExplainingModel):
        def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
            found = super().explain(inputs, asked, way)
            changed = getattr(found, column).copy()
            changed[0] = value_
            return found._replace(**{column: changed})

    with pytest.raises(ModelError, match=f"'toy'.*{says}"):
        audit(quick(gold, **ONLY), cohort, tmp_path, toy=Spoilt(SAYS))


def test_a_model_that_answers_by_case_and_has_no_table_says_so(tmp_path: Path) -> None:
    cohort, gold = charts(24)

    class ByCase(KeywordModel):
        reads = "case"

    model = ByCase({"pneumonia": 4.0}, labels=CODES)
    result = audit(quick(gold), cohort, tmp_path, toy=model)
    found = row(result, "token_f1")
    assert found["value"] is None
    assert "looked up by case" in found["reason"]
    (tmp_path / "b").mkdir()
    tabled = audit(quick(gold, predicted={"toy": table(gold)}), cohort, tmp_path / "b", toy=model)
    assert value(tabled, "token_f1") == 1.0
    faith = row(tabled, "comprehensiveness_aopc", group="mean over fractions")
    assert faith["value"] is None
    assert "looked up by case" in faith["reason"]
