"""The vocabulary audit as a whole: words in, swaps scored by a model whose answers are known, estimates out."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate import Cohort, RunDirectory
from palpate.audits.vocabulary import Budget, RatingSheet, Vocabulary
from palpate.audits.vocabulary.clinicians import ClinicianPanel, as_sheet, unwanted_words
from palpate.cases.edits import splice
from palpate.errors import CohortError, ConfigError
from palpate.models import Model, ModelSpec
from palpate.perturb.words import Ratings, RatingScale
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.wanted import gather
from palpate.run.runner import Job, ModelEntry, run
from palpate.testing import CountingModel, KeywordModel

RNG = np.random.default_rng
WEIGHTS = {"sepsis": 2.0, "fall": 1.0, "fever": -0.5}
FILLER = ("the", "patient", "was", "seen", "today", "and", "felt", "well", "tablet", "daily")
NEUTRAL = ("apple", "bread", "chair", "door", "eagle", "flute")


def notes(n: int = 120, *, seed: int = 0, words: tuple[str, ...] = (*WEIGHTS, "tablet")) -> Cohort:
    rng = RNG(seed)
    texts = [" ".join(rng.choice([*words, *FILLER, *FILLER], size=30)) + "." for _ in range(n)]
    frame = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k // 2}" for k in range(n)],
            "text": texts,
            "split": [("train", "validation", "test", "test")[(k // 2) % 4] for k in range(n)],
            "ill": [int("sepsis" in text) if k % 5 else k % 2 for k, text in enumerate(texts)],
        }
    )
    return Cohort.from_frame(frame, labels=["ill"])


def quick(**options: object) -> Vocabulary:
    return Vocabulary(**{"n_replicates": 200, "words": (*WEIGHTS, "tablet"), "vocabulary": NEUTRAL, **options})  # type: ignore[arg-type]


def audit(vocabulary: Vocabulary, cohort: Cohort, tmp_path: Path, **models: Model) -> AuditResult:
    entries = [ModelEntry(name, [ModelSpec(name, "")], loaded=[model]) for name, model in models.items()]
    job = Job(cohort, entries, {"vocabulary": vocabulary})
    cache = ScoreCache(tmp_path / "scores.sqlite")
    (result,) = run(job, RunDirectory(tmp_path / "run"), cache)
    cache.close()
    return result


def values(result: AuditResult, metric: str, model: str = "toy") -> dict[str, float]:
    rows = result.estimates.filter(
        pl.col("metric") == metric, pl.col("model") == model, pl.col("reference").is_null(), pl.col("label") == "ill"
    )
    return dict(zip(rows["group"].to_list(), rows["value"].to_list(), strict=True))


def predicted(p: np.ndarray) -> Predictions:
    return Predictions({"toy": ModelPredictions(("ill",), p, np.ones(len(p), dtype=bool))})


def asked(plan: Plan) -> set[tuple[object, ...]]:
    variants = plan.variants
    return {(int(variants.parent[row]), *variants.edits(row)) for row in range(len(variants))}


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))


def closed_form(cohort: Cohort, word: str, *, every: bool = False) -> float:
    """The score of a word whose substitutes mean nothing to the model."""
    changes = []
    for row in cohort.rows(split="test"):
        tokens = cohort.texts[row].rstrip(".").split()
        n = tokens.count(word)
        if n:
            before = sum(WEIGHTS.get(token, 0.0) for token in tokens)
            after = before - (n if every else 1) * WEIGHTS.get(word, 0.0)
            changes.append(abs(sigmoid(before) - sigmoid(after)))
    return float(np.mean(changes))


@pytest.mark.parametrize("swap", ["first", "all"])
def test_scores_are_the_closed_form_and_unaffected_words_are_exactly_zero(tmp_path: Path, swap: str) -> None:
    cohort = notes()
    result = audit(quick(filters=("uniform",), swap=swap), cohort, tmp_path, toy=KeywordModel(WEIGHTS, labels=("ill",)))
    found = values(result, "sensitivity")
    for word in WEIGHTS:
        assert found[word] == pytest.approx(closed_form(cohort, word, every=swap == "all"), abs=1e-12)
    assert found["tablet"] == 0.0
    assert values(result, "rank") == {"sepsis": 1.0, "fall": 2.0, "fever": 3.0, "tablet": 4.0}
    assert values(result, "flip_rate")["tablet"] == 0.0


def test_all_filters_give_their_own_scores_and_the_whole_is_their_mean(tmp_path: Path) -> None:
    result = audit(quick(), notes(), tmp_path, toy=KeywordModel(WEIGHTS, labels=("ill",)))
    parts = [values(result, f"sensitivity_{name}") for name in ("uniform", "unigram", "context")]
    whole = values(result, "sensitivity")
    assert whole["sepsis"] == pytest.approx(np.mean([part["sepsis"] for part in parts]), rel=0.2)
    assert set(whole) == {*WEIGHTS, "tablet"}


def test_only_the_swapped_span_changes_and_never_to_the_word_itself() -> None:
    cohort = notes(40)
    plan = quick().plan(cohort, RNG(0))
    swaps = plan.memory.swaps
    for k in range(0, len(swaps.variant), 7):
        row, word = int(swaps.variant[k]), swaps.words[int(swaps.word[k])]
        parent, edits = cohort.texts[int(plan.variants.parent[row])], plan.variants.edits(row)
        assert all(parent[edit.start : edit.end].lower() == word for edit in edits)
        assert all(word not in edit.text.lower() for edit in edits)
        changed = splice(parent, edits)
        assert changed.startswith(parent[: edits[0].start])
        assert changed.endswith(parent[edits[-1].end :])


GAPS = st.sampled_from([" ", ", ", "\n", " (", "; ", "… ", " – ", ". ", '."\r\n'])
TOKENS = st.sampled_from(
    ["fever", "Fever", "FEVER", "feverish", "non-fever", "98.6", "fe\u0301ver", "İß", "fever2", "x"]
)
WRITTEN = {"fever": str, "Fever": str.capitalize, "FEVER": str.upper}


@settings(max_examples=60)
@given(st.sampled_from(["", "- "]), st.lists(st.tuples(TOKENS, GAPS), min_size=1, max_size=7), st.booleans())
def test_what_a_model_is_asked_is_the_note_with_other_words_byte_for_byte(
    lead: str, parts: list[tuple[str, str]], ends: bool
) -> None:
    """Both ways of swapping; the word at the very start or end, alone, repeated, and in what replaces it."""
    pieces = [lead, *(piece for part in parts for piece in part)]
    pieces = pieces if ends else pieces[:-1]
    frame = pl.DataFrame({"text": ["".join(pieces)], "ill": [1]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    offered = ("cough", "non-fever", "fever fever")
    vocabulary = quick(
        words=("fever",), vocabulary=("apple",), filters=("uniform",), replacements={"fever": offered}, keep_case=True
    )
    plan = vocabulary.plan(cohort, RNG(0))
    texts = gather(cohort, {"vocabulary": plan}).inputs.texts
    swaps = plan.memory.swaps
    asked_for = {(int(scheme), texts[row].encode()) for scheme, row in zip(swaps.scheme, swaps.variant, strict=True)}
    places = [k for k, piece in enumerate(pieces) if piece in WRITTEN]
    wanted = set()
    for scheme, swapped in ((0, places[:1]), (1, places)):
        for other in ("apple", *offered) if places else ():
            new = [WRITTEN[piece](other) if k in swapped else piece for k, piece in enumerate(pieces)]
            wanted.add((scheme, "".join(new).encode()))
    assert asked_for == wanted


def test_substitutes_are_written_as_the_word_was() -> None:
    frame = pl.DataFrame({"text": ["Fever and FEVER, fever."], "ill": [1]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    audit_ = Vocabulary(words=("fever",), filters=("uniform",), vocabulary=("apple",), swap="all", diagnostic_notes=0)
    plan = audit_.plan(cohort, RNG(0))
    (row,) = plan.memory.swaps.variant
    assert splice(cohort.texts[0], plan.variants.edits(int(row))) == "Apple and APPLE, apple."


def test_a_budget_finds_the_same_words_with_fewer_scores(tmp_path: Path) -> None:
    cohort = notes(600)
    whole, thrifty = (CountingModel(KeywordModel(WEIGHTS, labels=("ill",))) for _ in range(2))
    options = {"diagnostic_notes": 0, "filters": ("uniform", "context")}
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    all_of_it = audit(quick(**options), cohort, tmp_path / "a", toy=whole)
    some = audit(quick(**options, budget=Budget(notes=10, filters=2, top=2)), cohort, tmp_path / "b", toy=thrifty)
    assert list(values(some, "rank"))[:2] == list(values(all_of_it, "rank"))[:2]
    assert thrifty.rows < whole.rows / 3


def test_a_budget_goes_on_until_the_intervals_are_narrow(tmp_path: Path) -> None:
    cohort = notes(600)
    budget = Budget(notes=4, filters=2, top=None, width=0.06)
    result = audit(
        quick(diagnostic_notes=0, budget=budget), cohort, tmp_path, toy=KeywordModel(WEIGHTS, labels=("ill",))
    )
    rows = result.estimates.filter(pl.col("metric") == "sensitivity")
    texts = [set(cohort.texts[row].rstrip(".").split()) for row in cohort.rows(split="test")]
    for row in rows.iter_rows(named=True):
        narrow = row["high"] - row["low"] < 0.06
        assert narrow or row["n"] == sum(row["group"] in text for text in texts)
    assert rows.filter(group="tablet")["n"].item() < rows.filter(group="sepsis")["n"].item()


def test_what_a_later_turn_asks_holds_what_the_earlier_one_asked() -> None:
    cohort = notes(300)
    audit_ = quick(budget=Budget(notes=3, filters=2, top=1))
    first = audit_.plan(cohort, RNG(0))
    rng = RNG(1)
    answers = rng.random((len(first.variants), 1))
    second = audit_.plan_again(first, predicted(answers), RNG(2))
    assert second is not None
    assert asked(first) < asked(second)


def test_a_budget_has_no_more_turns_than_it_says() -> None:
    """Also where words that were settled open again, so that none of them is in every turn."""
    vocabulary = quick(
        words=("sepsis", "fall"), diagnostic_notes=0, budget=Budget(notes=16, filters=1, width=1e-6, turns=4)
    )
    plan, n_turns = vocabulary.plan(notes(600), RNG(0)), 1
    while True:
        swaps = plan.memory.swaps
        answers = np.full((len(plan.variants), 1), 0.5)
        answers[swaps.variant] = 0.6
        moved = swaps.variant[swaps.word == n_turns % 2]
        answers[moved, 0] = RNG(1).random(len(moved))
        again = vocabulary.plan_again(plan, predicted(answers), RNG(2))
        if again is None:
            break
        plan, n_turns = again, n_turns + 1
    assert n_turns == 4
    assert sorted(plan.memory.n_notes) == [32, 64]


def test_a_word_in_no_note_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    result = audit(quick(words=("sepsis", "unicorn")), notes(), tmp_path, toy=KeywordModel(WEIGHTS, labels=("ill",)))
    row = result.estimates.filter(pl.col("group") == "unicorn", pl.col("metric") == "sensitivity").row(0, named=True)
    assert row["value"] is None
    assert row["n"] == 0
    assert "no note" in row["reason"]


def test_words_can_be_chosen_from_the_training_notes(tmp_path: Path) -> None:
    cohort = notes(400)
    plan = Vocabulary(words="predictive", n_words=3, min_notes=5).plan(cohort, RNG(0))
    assert "sepsis" in plan.memory.swaps.words
    everything = Vocabulary(words="vocabulary", min_notes=5).plan(cohort, RNG(0)).memory.swaps.words
    assert {*WEIGHTS, "tablet"} <= set(everything)


def test_the_rated_words_are_the_default(tmp_path: Path) -> None:
    sheet = RatingSheet(("sepsis", "fall", "fever", "tablet"), ("a", "b"), ((5, 5), (4, None), (3, 2), (1, 1)))
    result = audit(
        quick(words=None, raters=sheet, filters=("uniform",)),
        notes(),
        tmp_path,
        toy=KeywordModel(WEIGHTS, labels=("ill",)),
        odd=KeywordModel({"tablet": 3.0, "fever": 1.0}, labels=("ill",)),
    )
    agreement = {
        row["model"]: row["value"]
        for row in result.estimates.filter(
            pl.col("metric") == "clinician_agreement", pl.col("reference").is_null()
        ).iter_rows(named=True)
    }
    assert agreement["toy"] == pytest.approx(1.0)
    assert agreement["odd"] < 0


def test_a_model_that_reads_little_is_told(tmp_path: Path) -> None:
    model = KeywordModel(WEIGHTS, labels=("ill",), window_words=2)
    result = audit(quick(filters=("uniform",)), notes(), tmp_path, toy=model)
    assert any("window" in finding.sentence for finding in result.findings)


def test_the_same_seed_gives_the_same_result_and_plan_needs_no_model(tmp_path: Path) -> None:
    cohort = notes(60)
    one, two = (quick().plan(cohort, RNG(3)) for _ in range(2))
    assert one.variants.replacements == two.variants.replacements
    assert np.array_equal(one.variants.start, two.variants.start)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"words": ("fever", "Fever")}, ConfigError, "audit 'vocabulary': the target word 'Fever' is given twice"),
        ({"unwanted": ("ward", "Ward")}, ConfigError, "audit 'vocabulary': the target word 'Ward' is given twice"),
        ({"cohort": "nowhere"}, ConfigError, "unknown cohort 'nowhere'"),
        ({"labels": ("dead",)}, ConfigError, "no label 'dead'"),
        ({"split": "nothing"}, CohortError, "no case in split"),
        ({"language_model": "hf:x"}, ConfigError, "made without models"),
    ],
)
def test_bad_options_get_one_clear_sentence(options: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        quick(**options).plan(notes(40), RNG(0))


def test_a_label_that_has_the_name_of_the_average_is_refused() -> None:
    frame = notes(40).cases.drop("cohort").with_columns(macro=pl.lit(1), late=pl.lit(0))
    cohort = Cohort.from_frame(frame, labels=["macro", "late"])
    with pytest.raises(ConfigError, match="'macro' is the name of an average"):
        quick().plan(cohort, RNG(0))


@pytest.mark.parametrize(("scale", "unwanted"), [((1, 5), []), ((0, 9.6), ["tablet"]), ((0, 10), ["tablet", "fever"])])
def test_what_matters_little_is_below_the_middle_of_the_sheet_s_own_scale(
    scale: tuple[float, float], unwanted: list[str]
) -> None:
    words = ("tablet", "fever", "fall", "sepsis")
    sheet = Ratings(words, ("a",), np.array([[4.5], [4.9], [5.0], [5.0]]), RatingScale(*scale))
    panel = ClinicianPanel.of(as_sheet(sheet).ratings, words, np.ones(4, bool))
    assert [words[k] for k in unwanted_words(words, None, panel)] == unwanted


def test_a_model_that_reacts_to_nothing_ends_no_run(tmp_path: Path) -> None:
    sheet = RatingSheet(("sepsis", "fall", "fever", "tablet"), ("a",), ((5,), (4,), (3,), (1,)))
    models = {"flat": KeywordModel({}, labels=("ill",)), "toy": KeywordModel(WEIGHTS, labels=("ill",))}
    result = audit(quick(words=None, raters=sheet), notes(), tmp_path, **models)
    row = result.estimates.filter(metric="clinician_agreement", model="flat").row(0, named=True)
    assert row["value"] is None
    assert row["reason"]


def test_a_width_alone_goes_on_and_what_is_left_open_is_told(tmp_path: Path) -> None:
    cohort = notes(80)
    vocabulary = quick(diagnostic_notes=0, budget=Budget(notes=4, filters=2, width=1e-9))
    result = audit(vocabulary, cohort, tmp_path, toy=KeywordModel(WEIGHTS, labels=("ill",)))
    rows = result.estimates.filter(metric="sensitivity", group="sepsis")
    texts = [cohort.texts[row].rstrip(".").split() for row in cohort.rows(split="test")]
    assert rows["n"].item() == sum("sepsis" in text for text in texts)
    told = [finding.sentence for finding in result.findings if "unsettled" in finding.sentence]
    assert len(told) == 1
    assert "words are unsettled though all their notes were scored" in told[0]
    assert "'sepsis'" in told[0]
    (tmp_path / "short").mkdir()
    hasty = quick(diagnostic_notes=0, budget=Budget(notes=4, filters=2, width=1e-9, turns=2))
    result = audit(hasty, cohort, tmp_path / "short", toy=KeywordModel(WEIGHTS, labels=("ill",)))
    assert any(finding.sentence.startswith("The budget left 4 of 4 words unsettled") for finding in result.findings)


class NamesModel(KeywordModel):
    """Knows the words of its training notes, names among them."""

    learned_words = True

    def words(self) -> list[str]:
        return ["kowalczyk", "tablet", "patient", "today"]


def test_words_of_few_patients_are_no_substitutes(tmp_path: Path) -> None:
    cohort = notes(120)
    named = [f"{text} kowalczyk kowalczyk" if k < 8 else text for k, text in enumerate(cohort.texts)]
    y = pl.Series("ill", cohort.y_true(np.arange(120))[:, 0])
    frame = cohort.cases.drop("cohort").with_columns(pl.Series("text", named), y)
    vocabulary = quick(vocabulary=None, words=("sepsis",), per_filter=50)
    audit(vocabulary, Cohort.from_frame(frame, labels=["ill"]), tmp_path, toy=NamesModel(WEIGHTS, labels=("ill",)))
    written = pl.read_parquet(tmp_path / "run" / "variants" / "vocabulary.parquet")["replacement"].drop_nulls()
    assert "tablet" in set(written)
    assert "kowalczyk" not in set(written)  # eight notes, but four patients


def test_without_a_validation_split_all_audited_notes_set_the_threshold() -> None:
    cohort = notes(120)
    frame = cohort.cases.drop("split", "cohort").with_columns(
        pl.Series("ill", cohort.y_true(np.arange(120))[:, 0]),
        text=pl.when(pl.int_range(120) < 60).then(pl.lit("nothing of note")).otherwise(pl.col("text")),
    )
    plan = quick(diagnostic_notes=0).plan(Cohort.from_frame(frame, labels=["ill"]), RNG(0))
    assert len(plan.cases) == 120
    assert (plan.memory.swaps.original[plan.cases] >= 0).all()


def test_everything_can_be_planned_at_once_for_a_model_elsewhere() -> None:
    cohort = notes(200)
    thrifty = quick(budget=Budget(notes=3, filters=2, top=1))
    assert asked(thrifty.plan(cohort, RNG(0))) < asked(thrifty.without_turns().plan(cohort, RNG(0)))


def test_a_phrase_is_not_replaced_with_one_of_its_words() -> None:
    frame = pl.DataFrame({"text": ["heart failure and failure of the heart"] * 12, "ill": [k % 2 for k in range(12)]})
    plan = Vocabulary(words=("heart failure",)).plan(Cohort.from_frame(frame, labels=["ill"]), RNG(0))
    assert plan.variants.replacements
    assert not {"heart", "failure"} & {text.lower() for text in plan.variants.replacements}
