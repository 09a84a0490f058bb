"""The runner's seven promises, on models whose answers are known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Inputs, Variants, VariantsBuilder
from palpate.cases.hashing import key_of
from palpate.cases.keys import KeyArray, distinct
from palpate.errors import ModelError
from palpate.models import Model, ModelSpec, Probabilities
from palpate.results import Plan
from palpate.run.execute import Execution, Scored, score
from palpate.run.execute.cache import ScoreCache
from palpate.run.execute.local import checked
from palpate.run.execute.wanted import gather
from palpate.run.runner import NullProgress
from palpate.testing import CountingModel, FlakyModel, KeywordModel, NaNModel, SlowModel


class Kept:
    """Pending lists in memory."""

    def __init__(self) -> None:
        self.lists: dict[str, KeyArray] = {}

    def write_pending(self, model: str, keys: KeyArray) -> None:
        self.lists[model] = keys.copy()

    def read_pending(self, model: str) -> KeyArray | None:
        return self.lists.get(model)


def swaps(cohort: Cohort, word: str, replacements: Sequence[str]) -> Plan:
    builder = VariantsBuilder(n_cases=len(cohort))
    for row, text in enumerate(cohort.texts):
        builder.add(row, "original")
        at = text.find(word)
        for replacement in replacements:
            if at >= 0:
                builder.add(row, replacement, [Edit(at, at + len(word), replacement)])
    return Plan(cohort, builder.build(), cohort.labels)


def ask(model: Model, plan: Plan, cache: ScoreCache, pending: Kept | None = None, **more: float) -> Scored:
    asked = gather(plan.cohort, {"words": plan})
    return score(
        ModelSpec("m", ""),
        model,
        asked,
        cache=cache,
        pending=pending or Kept(),
        execution=Execution(),
        progress=NullProgress(),
        run_id="one",
        call_timeout=more.get("call_timeout"),
    )


@pytest.fixture
def cache(tmp_path: Path) -> ScoreCache:
    return ScoreCache(tmp_path / "scores.sqlite")


KEYWORD = KeywordModel({"fever": 1.5, "stable": -1.0, "cough": 0.3}, bias=-1.0)


def test_answers_are_those_of_the_spliced_texts(cohort: Cohort, cache: ScoreCache) -> None:
    plan = swaps(cohort, "fever", ["cough", "stable", "x"])
    scored = ask(KEYWORD, plan, cache)
    texts = gather(cohort, {"words": plan}).inputs.texts
    assert np.array_equal(scored.p, KEYWORD.predict(Inputs.from_texts(texts)))
    assert scored.p.std() > 0.05


def test_each_distinct_input_is_scored_once_ever(cohort: Cohort, cache: ScoreCache) -> None:
    plan = swaps(cohort, "fever", ["cough", "fever", "cough"])
    first, second = CountingModel(KEYWORD), CountingModel(KEYWORD)
    scored = ask(first, plan, cache)
    texts = gather(cohort, {"words": plan}).inputs.texts
    assert first.rows == len(set(texts)) < len(texts)
    again = ask(second, plan, cache)
    assert second.rows == 0
    assert np.array_equal(again.p, scored.p)
    assert again.counts["cached"] == len(set(texts))


def test_an_edit_outside_the_window_is_not_scored_but_counted(cohort: Cohort, cache: ScoreCache) -> None:
    model = KeywordModel({"fever": 1.5, "stable": -1.0}, window_words=4)
    counting = CountingModel(model)
    plan = swaps(cohort, "fever", ["stable"])
    scored = ask(counting, plan, cache)
    texts = gather(cohort, {"words": plan}).inputs.texts
    full = model.predict(Inputs.from_texts(texts))
    assert np.array_equal(scored.p, full)
    assert 0 < scored.counts["outside_window"] == np.count_nonzero(~scored.seen)
    assert counting.rows < len(set(texts))
    edited = plan.variants.n_edits > 0
    unseen = np.flatnonzero(~scored.seen)
    assert edited[unseen].all()


def test_unseen_edits_are_answered_by_the_parent_even_if_it_was_not_asked(cohort: Cohort, cache: ScoreCache) -> None:
    builder = VariantsBuilder(n_cases=len(cohort))
    end = len(cohort.texts[0])
    builder.add(0, "late", [Edit(end, end, " fever")])
    model = KeywordModel({"fever": 2.0}, window_words=3)
    scored = ask(model, Plan(cohort, builder.build(), cohort.labels), cache)
    assert scored.p[0, 0] == model.predict(Inputs.from_texts([cohort.texts[0]]))[0, 0]
    found, _ = cache.get(model.fingerprint, [key_of(cohort.texts[0])], 1)
    assert found.all()


class LengthWatcher(Model):
    """Notes how long the texts of each call are."""

    labels = ("positive",)
    fingerprint = "watcher"
    rows_per_call = 16

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def predict(self, inputs: Inputs) -> Probabilities:
        self.calls.append([len(text) for text in inputs.texts])
        return np.full((len(inputs), 1), 0.5)


def test_texts_of_like_length_come_together(cohort: Cohort, cache: ScoreCache) -> None:
    model = LengthWatcher()
    ask(model, swaps(cohort, "fever", ["a very long replacement for it"]), cache)
    flat = [length for call in model.calls for length in call]
    assert flat == sorted(flat)
    assert all(len(call) == 16 for call in model.calls[:-1])


def test_a_failed_model_is_named_with_its_case_and_what_was_scored_stays(cohort: Cohort, cache: ScoreCache) -> None:
    plan = swaps(cohort, "fever", ["cough"])
    inner = CountingModel(KEYWORD)
    inner.rows_per_call = 20
    flaky = FlakyModel(inner, fail_on=[4])
    flaky.rows_per_call = 20
    with pytest.raises(ModelError, match=r"model 'm', case 'c\d+'"):
        ask(flaky, plan, cache)
    keys = gather(cohort, {"words": plan}).text_keys
    known = ScoreCache(cache.path).get(flaky.fingerprint, keys[distinct(keys).rows], 1)[0].sum()
    assert known >= 60


def test_resumed_calls_are_the_calls_of_the_run_that_was_killed(cohort: Cohort, tmp_path: Path) -> None:
    class Recorder(LengthWatcher):
        seen: list[tuple[str, ...]]

        def predict(self, inputs: Inputs) -> Probabilities:
            self.calls.append([len(text) for text in inputs.texts])
            batches.append(tuple(inputs.texts))
            return np.full((len(inputs), 1), 0.5)

    plan = swaps(cohort, "fever", ["cough", "x"])
    batches: list[tuple[str, ...]] = []
    ask(Recorder(), plan, ScoreCache(tmp_path / "whole.sqlite"))
    whole, batches = batches, []
    pending, cache = Kept(), ScoreCache(tmp_path / "killed.sqlite")
    with pytest.raises(ModelError):
        ask(FlakyModel(Recorder(), fail_on=[3]), plan, cache, pending)
    batches.clear()
    ask(Recorder(), plan, cache, pending)
    assert batches == whole[2:]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.full((3, 1), np.nan), "predicted NaN for label 'positive'"),
        (np.full((3, 1), 1.5), "predicted 1.5"),
        (np.full((3, 1), -0.1), "predicted -0.1"),
        (np.zeros((2, 1)), "shape"),
        (np.zeros((3, 2)), "shape"),
    ],
)
def test_nonsense_is_an_error(answer: Probabilities, words: str) -> None:
    class Nonsense(LengthWatcher):
        def predict(self, inputs: Inputs) -> Probabilities:
            return answer

    with pytest.raises(ModelError, match=words):
        checked("m", Nonsense(), Inputs.from_texts(["a", "b", "c"]))


def test_a_rounding_error_above_one_is_one() -> None:
    class Rounded(LengthWatcher):
        def predict(self, inputs: Inputs) -> Probabilities:
            return np.full((1, 1), 1 + 1e-7)

    assert checked("m", Rounded(), Inputs.from_texts(["a"])).item() == 1.0


def test_nan_names_its_case(cohort: Cohort, cache: ScoreCache) -> None:
    model = NaNModel(KEYWORD, case_ids=["c17"])
    with pytest.raises(ModelError, match="case 'c17': predicted NaN"):
        ask(model, swaps(cohort, "nothing", []), cache)


def test_a_raising_case_is_found_inside_its_batch() -> None:
    class Picky(LengthWatcher):
        def predict(self, inputs: Inputs) -> Probabilities:
            if "bad" in inputs.texts:
                raise RuntimeError("this text must not be shown: secret")
            return np.full((len(inputs), 1), 0.5)

    texts = ["good"] * 37 + ["bad"] + ["good"] * 26
    with pytest.raises(ModelError, match="case '37': RuntimeError") as caught:
        checked("m", Picky(), Inputs.from_texts(texts))
    assert "secret" not in str(caught.value)


def test_a_slow_model_times_out_by_name(cohort: Cohort, cache: ScoreCache) -> None:
    with pytest.raises(ModelError, match=r"model 'm', case 'c\d+': no prediction for \d+ rows within 0.05 s"):
        ask(SlowModel(KEYWORD, seconds=5.0), swaps(cohort, "fever", []), cache, call_timeout=0.05)


def test_two_audits_share_answers(cohort: Cohort, cache: ScoreCache) -> None:
    one, two = swaps(cohort, "fever", ["cough"]), swaps(cohort, "fever", ["cough", "x"])
    counting = CountingModel(KEYWORD)
    asked = gather(cohort, {"one": one, "two": two})
    scored = score(
        ModelSpec("m", ""),
        counting,
        asked,
        cache=cache,
        pending=Kept(),
        execution=Execution(),
        progress=NullProgress(),
        run_id="one",
    )
    assert counting.rows == len(set(asked.inputs.texts))
    assert asked.slices["two"].stop == len(scored.p)
    assert np.array_equal(scored.p, KEYWORD.predict(Inputs.from_texts(asked.inputs.texts)))


def test_made_texts_are_scored_and_kept_apart(cohort: Cohort, cache: ScoreCache) -> None:
    plans = {}
    for name in ("one", "two"):
        builder = VariantsBuilder(n_cases=len(cohort))
        builder.add(3, "case")
        builder.make(f"fever in {name}" if name == "one" else "stable", "made")
        plans[name] = Plan(cohort, builder.build(), cohort.labels)
    asked = gather(cohort, plans)
    assert asked.inputs.texts == [cohort.texts[3], "fever in one", cohort.texts[3], "stable"]
    assert list(asked.inputs.case_ids) == ["c3", "", "c3", ""]


def test_short_texts_share_a_call_and_long_ones_do_not(tmp_path: Path) -> None:
    texts = [*(f"short {k}" for k in range(50)), *("long " * 40 + str(k) for k in range(6))]
    cohort = Cohort.from_frame(pl.DataFrame({"text": texts, "ill": [k % 2 for k in range(56)]}), labels=["ill"])
    plan = Plan(cohort, Variants.of_cases(np.arange(56)), ("ill",))
    model = CountingModel(KeywordModel({"short": 1.0}, labels=("ill",)))
    model.rows_per_call, model.characters_per_call = 4, 450
    ask(model, plan, ScoreCache(tmp_path / "scores.sqlite"))
    assert sum(model.rows_by_call) == 56
    assert max(model.rows_by_call) > 20
    assert model.rows_by_call[-1] <= 4
