"""The whole analysis: its estimates, what it shows and what it says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from palpate.audits.vocabulary import Vocabulary
from palpate.audits.vocabulary.clinicians import as_sheet
from palpate.models import Model
from palpate.perturb.words import Ratings
from palpate.report.charts import draw
from palpate.results import AuditResult, Chart, Table
from palpate.testing import KeywordModel
from tests.audits.vocabulary.vocabulary_cases import Case, build, hospital, random_notes

IMPORTANT = ("sepsis", "stroke", "tumour", "fall", "delirium", "dementia")
PLAIN = ("larkspur", "table", "window", "pencil", "carpet", "corridor")
WORDS = (*IMPORTANT, *PLAIN)
SOUND = {word: 2.4 - 0.4 * k for k, word in enumerate(IMPORTANT)}
SPURIOUS = {"larkspur": 2.0, "table": 0.9, "sepsis": 0.3, "stroke": 0.1, "pencil": 0.2}


def rated(*, words: tuple[str, ...] = WORDS, raters: int = 3) -> Ratings:
    base = np.array([5 - 0.5 * WORDS.index(w) if w in IMPORTANT else 1.0 for w in words])
    noise = np.random.default_rng(2).choice([-0.5, 0.0, 0.5], size=(len(words), raters))
    return Ratings(words, tuple(f"r{k}" for k in range(raters)), np.clip(base[:, None] + noise, 1, 5))


@pytest.fixture(scope="module")
def case() -> Case:
    return build(hospital(random_notes(100, WORDS, chance=0.4)), (*WORDS, "absent"))


def run(
    case: Case,
    models: dict[str, Model],
    ratings: Ratings | None = None,
    ensembles: dict[str, str] | None = None,
    **options: object,
) -> AuditResult:
    audit = Vocabulary(**{"n_replicates": 300, "raters": as_sheet(ratings), **options})  # type: ignore[arg-type]
    return audit.analyse(case.plan, case.ask(models, ensembles=ensembles), np.random.default_rng(3))


MODELS: dict[str, Model] = {"logistic": KeywordModel(SOUND, bias=-4.0), "xgboost": KeywordModel(SPURIOUS, bias=-1.0)}


@pytest.fixture(scope="module")
def result(case: Case) -> AuditResult:
    return run(case, MODELS, rated())


def value(result: AuditResult, metric: str, **where: str | None) -> dict[str, object]:
    rows = result.estimates.filter(pl.col("metric") == metric)
    for column, wanted in {"reference": None, **where}.items():
        rows = rows.filter(pl.col(column).is_null() if wanted is None else pl.col(column) == wanted)
    assert rows.height == 1, rows
    return rows.row(0, named=True)


def sentences(result: AuditResult, kind: str | None = None) -> str:
    return "\n".join(finding.sentence for finding in result.findings if kind in (None, finding.kind))


def block(result: AuditResult, title: str) -> Table | Chart:
    return next(each for each in result.blocks if each.title == title)  # type: ignore[return-value]


def test_every_number_is_once_in_the_table_and_a_missing_one_has_its_reason(result: AuditResult) -> None:
    keys = ["model", "metric", "label", "group", "reference"]
    assert result.estimates.select(keys).is_duplicated().sum() == 0
    missing = result.estimates.filter(pl.col("value").is_null())
    assert missing["reason"].is_not_null().all()
    assert value(result, "sensitivity", model="xgboost", group="absent")["reason"] == "in no note"
    assert value(result, "rank", model="xgboost", group="absent")["n"] == 0
    metrics = {"sensitivity", "signed_change", "flip_rate", "rank", "sensitivity_uniform", "flip_rate_context"}
    assert metrics <= set(result.estimates["metric"])


def test_the_spurious_word_is_told_with_its_ranks(result: AuditResult) -> None:
    assert value(result, "rank", model="xgboost", group="larkspur")["value"] == 1
    assert (
        "xgboost hangs on 'larkspur', which clinicians rank joint 11th of 12: taking it out of the notes moves the "
        "risk by 40." in (sentences(result, "concern"))
    )
    told = "logistic reacts most to 'sepsis', 'stroke' and 'tumour', of 12 words; clinicians rank them 1st, 2nd and"
    assert told in sentences(result, "fact")
    assert "1 of 13 words could not be scored (in no note): 'absent'." in sentences(result)


def test_the_model_that_agrees_less_with_the_clinicians_is_told(result: AuditResult) -> None:
    row = value(result, "clinician_agreement", model="xgboost", reference="logistic")
    assert row["significant"] is True
    assert "logistic agrees better with the clinicians than xgboost: " in sentences(result)
    assert "xgboost agrees less with the clinicians than they do with each other" in sentences(result, "caution")
    assert "falling short of them by more than 0.20 is excluded" in sentences(result, "acceptable")
    assert "no better than they agree with each other: Krippendorff's alpha" in sentences(result)


def test_rank_differences_are_paired_and_corrected_over_words(case: Case, result: AuditResult) -> None:
    rows = result.estimates.filter(pl.col("metric") == "rank", pl.col("reference") == "logistic")
    assert rows.height == 13
    larkspur = rows.filter(pl.col("group") == "larkspur").row(0, named=True)
    both = [value(result, "rank", model=name, group="larkspur")["value"] for name in ("xgboost", "logistic")]
    assert larkspur["value"] == both[0] - both[1]  # type: ignore[operator]
    assert larkspur["significant"] is True
    none = run(case, {"a": MODELS["xgboost"], "b": KeywordModel(SPURIOUS, bias=-1.0)}, n_replicates=100)
    same = none.estimates.filter(pl.col("metric") == "rank", pl.col("reference") == "a", pl.col("value").is_not_null())
    assert (same["value"] == 0).all()
    assert not same["significant"].any()


def test_blocks_can_be_drawn_and_tables_fit_their_columns(result: AuditResult) -> None:
    titles = [each.title for each in result.blocks]
    assert titles[:4] == [
        "Words that move logistic",
        "Words that move xgboost",
        "Model against clinicians",
        "Largest disagreements with the clinicians",
    ]
    for each in result.blocks:
        if isinstance(each, Chart):
            assert draw(each).panels
            assert each.data
        elif isinstance(each, Table):
            assert {len(row) for row in each.rows} == {len(each.columns)}, each.title


def test_the_plot_is_ordered_by_rank_in_percentage_points(result: AuditResult) -> None:
    chart = block(result, "Words that move xgboost")
    assert isinstance(chart, Chart)
    assert chart.data[0]["word"] == "larkspur"
    values = [row["value"] for row in chart.data]
    assert values == sorted(values, reverse=True)
    estimate = value(result, "sensitivity", model="xgboost", group="larkspur")
    assert chart.data[0]["value"] == pytest.approx(100 * estimate["value"])  # type: ignore[operator]
    assert chart.data[0]["n"] == estimate["n"]


def test_disagreements_go_both_ways(result: AuditResult) -> None:
    table = block(result, "Largest disagreements with the clinicians")
    assert isinstance(table, Table)
    ours = [row for row in table.rows if row[0] == "xgboost"]
    more = [row[2] for row in ours if row[1] == "model more than clinicians"]
    less = [row[2] for row in ours if row[1] == "clinicians more than model"]
    assert more[0] == "larkspur"
    assert not {"window", "carpet", "corridor"} & set(more), "a word that does nothing gets no weight"
    assert less[0] in IMPORTANT


def test_few_words_in_the_plot(case: Case) -> None:
    some = run(case, MODELS, rated(words=("pencil", "sepsis")), top=2, n_replicates=100)
    chart = block(some, "Words that move logistic")
    assert isinstance(chart, Chart)
    assert [row["word"] for row in chart.data] == ["sepsis", "stroke"]
    assert "10 weaker words" in chart.caption
    unsettled = "Whether logistic and xgboost weigh words as clinicians do is not settled: only 2 of 2 rated words"
    assert unsettled in sentences(some, "unsettled")


def test_without_ratings_both_questions_are_unsettled_with_the_reason(case: Case) -> None:
    alone = run(case, {"xgboost": MODELS["xgboost"]})
    assert [answer.verdict for answer in alone.answers] == ["unsettled", "unsettled"]
    assert [str(answer.reason).split(" ")[:3] for answer in alone.answers] == [
        ["no", "clinicians'", "ratings"],
        ["nobody", "said", "which"],
    ]
    assert "xgboost reacts most to 'larkspur', 'table' and 'sepsis', of 12 words." in sentences(alone)
    titles = [each.title for each in alone.blocks]
    assert "Who agrees with whom" not in titles
    assert "Words that two models treat differently" not in titles
    assert "Rank and frequency" in titles


def test_rated_words_that_are_not_audited_are_named(case: Case) -> None:
    more = Ratings((*WORDS, "Larkspur hill"), ("r",), np.append(rated(raters=1).scores, [[3.0]], axis=0))
    told = sentences(run(case, MODELS, more, n_replicates=100))
    assert "1 rated word is not audited: 'Larkspur hill'." in told


def test_swaps_outside_the_window_are_told() -> None:
    texts = ["fever rest rest rest.", "rest rest rest fever."] * 20
    case = build(hospital(texts), ["fever", "rest"], both_schemes=False)
    found = run(case, {"bert": KeywordModel({"fever": 1.0}, window_words=1)})
    row = value(found, "outside_window", model="bert", group="fever")
    assert (row["value"], row["n"]) == (0.5, 128)
    assert "bert never saw" in sentences(found, "caveat")


def test_a_model_that_reacts_to_nothing(case: Case) -> None:
    found = run(case, {"dull": KeywordModel({"nothing": 1.0})}, rated())
    assert "dull reacts to none of the 12 words." in sentences(found, "caveat")
    assert value(found, "clinician_agreement", model="dull")["reason"] == "every word moves the model alike"


def test_the_frequency_diagnostic_shows_both_schemes(result: AuditResult) -> None:
    schemes = set(result.estimates.filter(pl.col("metric") == "frequency_pearson")["group"])
    assert schemes == {"first occurrence", "all occurrences"}
    chart = block(result, "Rank and frequency")
    assert isinstance(chart, Chart)
    assert chart.facet == "panel"
    assert {row["panel"] for row in chart.data} == {f"{m} · {s}" for m in MODELS for s in schemes}


def test_one_scheme_only_is_shown_alone() -> None:
    case = build(hospital(random_notes(60, WORDS)), WORDS, both_schemes=False)
    found = run(case, {"m": MODELS["xgboost"]})
    chart = block(found, "Rank and frequency")
    assert isinstance(chart, Chart)
    assert chart.facet is None


def test_several_labels_lead_with_their_average() -> None:
    labels = ("early", "late", "never")
    case = build(hospital(random_notes(60, WORDS), labels=labels), WORDS, both_schemes=False)
    models: dict[str, Model] = {"m": KeywordModel({"larkspur": {"early": 2.0}, "fall": {"late": 0.5}}, labels=labels)}
    found = run(case, models, rated(), labels_shown=2, n_replicates=100)
    assert "larkspur" in sentences(found)
    assert "averaged over 3 labels" in sentences(found)
    assert set(found.estimates.filter(pl.col("metric") == "sensitivity")["label"]) > {"macro"}
    assert found.estimates.filter(pl.col("metric") == "sensitivity")["label"].n_unique() == 3
    assert isinstance(block(found, "Every label"), Table)


def test_findings_speak_of_an_ensemble_as_one_model(case: Case) -> None:
    members: dict[str, Model] = {f"x[{k}]": KeywordModel({"larkspur": 1.0 + k}) for k in range(2)}
    found = run(case, {**members, "solo": MODELS["logistic"]}, rated(), dict.fromkeys(members, "x"))
    each = [value(found, "sensitivity", model=name, group="larkspur")["value"] for name in members]
    assert value(found, "sensitivity", model="x", group="larkspur")["value"] == pytest.approx(np.mean(each))  # type: ignore[arg-type]
    sd = value(found, "sensitivity_sd", model="x", group="larkspur")["value"]
    assert sd == pytest.approx(np.std(each, ddof=1))  # type: ignore[arg-type]
    assert "x[0]" not in sentences(found)
    assert found.estimates.filter(pl.col("reference") == "x[0]").is_empty()
    assert value(found, "clinician_agreement", model="x", reference=None)["value"] is not None


def test_flips_use_the_thresholds_of_the_performance_audit(case: Case) -> None:
    never = run(case, {"m": MODELS["xgboost"]}, threshold=1.0)
    assert (never.estimates.filter(pl.col("metric") == "flip_rate")["value"].drop_nulls() == 0).all()
    found = run(case, {"m": MODELS["xgboost"]})
    assert found.provenance["threshold"] == {"m": "reaches 70% recall on the validation split"}
    assert value(found, "flip_rate", group="larkspur")["value"] > 0  # type: ignore[operator]


def test_the_same_seed_gives_the_same_result(case: Case, result: AuditResult) -> None:
    again = run(case, MODELS, rated())
    assert again.estimates.equals(result.estimates)
    assert (again.blocks, again.findings) == (result.blocks, result.findings)


def test_no_word_in_any_note() -> None:
    case = build(hospital(random_notes(20, WORDS)), ["absent", "nowhere"])
    found = run(case, {"m": MODELS["logistic"]}, rated())
    assert "No word could be scored for m" in sentences(found, "caveat")
    assert found.estimates.filter(pl.col("metric") == "sensitivity")["value"].is_null().all()


def test_no_note_text_is_in_the_result(result: AuditResult) -> None:
    told = "".join(each.model_dump_json() for each in result.blocks) + sentences(result)
    assert "walks" not in told
    assert "eats" not in told
