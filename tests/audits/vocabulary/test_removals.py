"""A model hangs on a word if taking the word out moves it, whatever other words would do in its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate import Cohort
from palpate.audits.vocabulary import Budget, RatingSheet, Vocabulary
from palpate.audits.vocabulary.intervals import PatientSums, change_interval, moments
from palpate.audits.vocabulary.plan import REMOVED, PlannedSwaps
from palpate.cases.edits import splice
from palpate.report.scorecard import details_of
from palpate.results import AuditResult, Plan, Table
from palpate.results.verdicts import Answer
from palpate.testing import KeywordModel
from tests.audits.vocabulary.test_audit import RNG, audit, sigmoid, values
from tests.audits.vocabulary.test_blocks import block

READ = {"sepsis": 1.6, "stroke": 1.3, "dementia": 1.0, "cancer": 0.8}
PLAIN = ("tablet", "monday", "nurse", "window", "larkspur")
OTHERS = ("rest", "walks", "eats", "sleeps", "reads")


def hospital(n: int = 320, *, seed: int = 0) -> Cohort:
    """Short notes in which the words that a sound model reads are as frequent as the others."""
    rng = RNG(seed)
    texts = [" ".join(rng.choice([*READ, *PLAIN, *OTHERS], size=12)) + "." for _ in range(n)]
    frame = pl.DataFrame(
        {
            "patient_id": [f"p{k // 2}" for k in range(n)],
            "text": texts,
            "split": [("train", "test", "test", "test")[(k // 2) % 4] for k in range(n)],
            "ill": [int(rng.random() < 0.1 + 0.1 * text.count("sepsis")) for text in texts],
        }
    )
    return Cohort.from_frame(frame, labels=["ill"])


def rated(words: tuple[str, ...] = (*READ, *PLAIN)) -> RatingSheet:
    scores = tuple((5.0, 4.0) if word in READ else (1.0, 1.0) for word in words)
    return RatingSheet(words, ("a", "b"), scores)


def spurious(result: AuditResult, model: str) -> Answer:
    (found,) = (each for each in result.answers if (each.question, each.model) == ("spurious", model))
    return found


def told(result: AuditResult) -> str:
    return " ".join(each.sentence for each in result.findings if each.question == "spurious")


def removals(plan: Plan[PlannedSwaps]) -> dict[tuple[str, int], list[str]]:
    """The texts that are asked for without a word, by word and note."""
    swaps = plan.memory.swaps
    found: dict[tuple[str, int], list[str]] = {}
    for k in np.flatnonzero(swaps.scheme == REMOVED).tolist():
        row = int(swaps.variant[k])
        parent = int(plan.variants.parent[row])
        assert parent == swaps.note[k]
        text = splice(plan.cohort.texts[parent], plan.variants.edits(row))
        found.setdefault((swaps.words[int(swaps.word[k])], parent), []).append(text)
    return found


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    sound = KeywordModel(READ, bias=-2.0, labels=("ill",))
    odd = KeywordModel({**READ, "larkspur": 2.0}, bias=-2.0, labels=("ill",))
    asked = Vocabulary(raters=rated(), n_replicates=100, diagnostic_notes=0)
    return audit(asked, hospital(), tmp_path_factory.mktemp("removals"), sound=sound, odd=odd)


def test_a_model_that_reads_only_what_clinicians_would_is_not_accused(result: AuditResult) -> None:
    swapped, taken_out = values(result, "sensitivity", "sound"), values(result, "removal", "sound")
    assert all(swapped[word] > 0.02 for word in PLAIN), "the substitutes alone move it by more than the margin"
    assert taken_out == dict.fromkeys(PLAIN, 0.0)
    assert spurious(result, "sound").verdict in ("unsettled", "acceptable")
    assert "sound hangs on '" not in told(result)


def test_a_planted_word_is_found_and_only_that(result: AuditResult) -> None:
    found = spurious(result, "odd")
    assert (found.verdict, found.label) == ("concern", "larkspur")
    assert "odd hangs on 'larkspur', which clinicians rank joint 5th of 9: taking it out of the notes moves" in told(
        result
    )
    assert [word for word, change in values(result, "removal", "odd").items() if change] == ["larkspur"]


def test_the_change_is_that_of_the_note_without_the_word(result: AuditResult) -> None:
    cohort, weights = hospital(), {**READ, "larkspur": 2.0}
    changes = []
    for row in cohort.rows(split="test"):
        tokens = cohort.texts[row].rstrip(".").split()
        if "larkspur" in tokens:
            before = sum(weights.get(token, 0.0) for token in tokens) - 2.0
            changes.append(abs(sigmoid(before) - sigmoid(before - 2.0 * tokens.count("larkspur"))))
    assert values(result, "removal", "odd")["larkspur"] == pytest.approx(np.mean(changes), abs=1e-12)
    row = result.estimates.filter(metric="removal", model="odd", group="larkspur").row(0, named=True)
    assert row["n"] == len(changes)
    assert row["low"] < row["value"] < row["high"]


def test_the_cell_and_the_sentence_count_the_same_words(result: AuditResult) -> None:
    found = spurious(result, "odd")
    assert found.n_unsettled > 0
    assert f"{found.n_unsettled} of {found.n_labels} unsettled" in details_of(found)
    assert f"{found.n_unsettled} of 5 such words are not settled: " in told(result)


def test_where_no_removal_moves_anybody_the_strongest_swap_says_how_far_others_might_move(result: AuditResult) -> None:
    rows = result.estimates.filter(metric="removal", model="sound")
    assert (rows["low"] == 0).all()
    assert (rows["high"] > 0.002).all()
    found = moments(PatientSums(np.zeros(30), np.ones(30), np.zeros(30, np.int64), 1))
    assert change_interval(found, 0.95).high == 0
    assert 0.1 * 0.2 < change_interval(found, 0.95, strongest=0.2).high < 0.15 * 0.2


def test_about_how_many_patients_would_settle_it_where_nobody_moved(result: AuditResult) -> None:
    found = spurious(result, "sound")
    if found.verdict == "unsettled":
        assert found.needed == pytest.approx(120 * (found.high or 0.0) / 0.01, rel=0.1)


@pytest.mark.parametrize("swap", ["first", "all"])
def test_the_plan_takes_unwanted_words_out_once_in_each_note_and_no_others(swap: str) -> None:
    cohort = hospital(80)
    plan = Vocabulary(raters=rated(), swap=swap).plan(cohort, RNG(0))  # type: ignore[arg-type]
    asked = removals(plan)
    wanted = {}
    for row in cohort.rows(split="test").tolist():
        tokens = cohort.texts[row].rstrip(".").split()
        for word in set(PLAIN) & set(tokens):
            wanted[word, row] = ["_" if token == word else token for token in tokens]
    assert set(asked) == set(wanted)
    for key, texts in asked.items():
        (text,) = texts
        assert text.rstrip(".").split() == wanted[key]


def test_listed_words_are_taken_out_and_nothing_is_where_nobody_said_which() -> None:
    cohort = hospital(80)
    listed = removals(Vocabulary(words=("sepsis", "nurse"), unwanted=("Nurse", "window")).plan(cohort, RNG(0)))
    assert {word for word, _ in listed} == {"nurse", "window"}
    assert not removals(Vocabulary(words=("sepsis", "nurse")).plan(cohort, RNG(0)))


def test_the_swaps_are_the_same_with_and_without_removals() -> None:
    cohort, words = hospital(80), (*READ, *PLAIN)
    plain = Vocabulary(words=words).plan(cohort, RNG(0))
    more = Vocabulary(words=words, raters=rated()).plan(cohort, RNG(0))
    n = len(plain.variants)
    assert n < len(more.variants) <= 1.05 * n
    for row in range(0, n, 11):
        assert plain.variants.parent[row] == more.variants.parent[row]
        assert plain.variants.edits(row) == more.variants.edits(row)
    swaps, others = plain.memory.swaps, more.memory.swaps
    kept = others.scheme != REMOVED
    for column in ("word", "note", "filter", "scheme", "variant"):
        assert getattr(others, column)[kept].tolist() == getattr(swaps, column).tolist()


def test_a_budget_takes_words_out_of_its_own_notes_only(tmp_path: Path) -> None:
    cohort = hospital(200)
    asked = Vocabulary(raters=rated(), budget=Budget(notes=4, filters=2))
    swaps = asked.plan(cohort, RNG(0)).memory.swaps
    out, main = swaps.scheme == REMOVED, swaps.scheme == 0
    unwanted = np.isin(swaps.word, [swaps.words.index(word) for word in PLAIN])
    assert set(zip(swaps.word[out], swaps.note[out], strict=True)) == set(
        zip(swaps.word[main & unwanted], swaps.note[main & unwanted], strict=True)
    )
    assert out.sum() == 4 * len(PLAIN)
    odd = KeywordModel({**READ, "larkspur": 2.0}, bias=-2.0, labels=("ill",))
    assert spurious(audit(asked, cohort, tmp_path, odd=odd), "odd").label == "larkspur"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(
            st.sampled_from(["fall", "Fall", "FALL", "falls", "a", "b.", "(fall)", "fall-risk", "x\nfall"]), max_size=7
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_note_without_the_word(notes: list[list[str]]) -> None:
    """The word at either end, alone, repeated, in brackets, beside hyphens and line ends."""
    texts = [" ".join(note) or "a" for note in notes]
    frame = pl.DataFrame({"text": texts, "ill": [k % 2 for k in range(len(texts))]})
    cohort = Cohort.from_frame(frame, labels=["ill"])
    asks = Vocabulary(words=("fall",), unwanted=("fall",), vocabulary=("chair",), filters=("uniform",), threshold=0.5)
    plan = asks.plan(cohort, RNG(0))
    asked = {row: text for (_, row), (text,) in removals(plan).items()}
    for row, text in enumerate(texts):
        hits = [place for place in _whole_words(text) if text[slice(*place)].lower() == "fall"]
        assert (row in asked) == bool(hits)
        if hits:
            kept = zip([0, *(end for _, end in hits)], [*(start for start, _ in hits), len(text)], strict=True)
            assert asked[row] == "_".join(text[end:start] for end, start in kept)


def _whole_words(text: str) -> list[tuple[int, int]]:
    """Where runs of letters stand, one character at a time: a part of "fall-risk" is a word too."""
    places, start = [], None
    for k, c in enumerate(f"{text} "):
        if c.isalpha() and start is None:
            start = k
        elif not c.isalpha() and start is not None:
            places.append((start, k))
            start = None
    return places


def test_a_window_reads_no_further_when_a_word_is_taken_out(tmp_path: Path) -> None:
    """Without the blank, as many words as are taken out would come into sight at its end, and be read."""
    texts = [f"{'nurse ' * (1 + k % 3)}sepsis seen {'sepsis ' * 5}today" for k in range(60)]
    frame = pl.DataFrame({"text": texts, "ill": [k % 2 for k in range(60)]})
    asks = Vocabulary(words=("nurse", "sepsis"), unwanted=("nurse",), vocabulary=("chair",), n_replicates=50)
    model = KeywordModel({"sepsis": 0.5}, labels=("ill",), window_words=6)
    result = audit(asks, Cohort.from_frame(frame, labels=["ill"]), tmp_path, toy=model)
    assert values(result, "removal") == {"nurse": 0.0}


def test_the_report_shows_both_changes_side_by_side(result: AuditResult) -> None:
    table = block(result, "Words that no clinician would use")
    assert isinstance(table, Table)
    assert len(table.rows) == 2 * len(PLAIN)
    shown = {(row[0], row[1]): row[2:4] for row in table.rows}
    taken_out, swapped = shown["sound", "nurse"]
    assert isinstance(taken_out, tuple)
    assert isinstance(swapped, tuple)
    assert taken_out[0] == 0.0
    assert swapped[0] > 2.0
    assert next(row[1] for row in table.rows if row[0] == "odd") == "larkspur"
