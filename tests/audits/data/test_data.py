"""The data checks on planted faults: each is found, counted, told before scoring, and answered on the scorecard."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest

from palpate.audits.data import Data
from palpate.audits.data.findings import data_answers, data_rows
from palpate.cases.cohort import Cohort, stack
from palpate.results import AuditResult
from palpate.results.verdicts import Answer, margins_with
from palpate.testing import KeywordModel, run_audit
from tests.cases.test_duplicates import altered, notes

N = 240
"""Cases, two per patient: the first half trains, the second is audited."""
ALONE = "each case counts as its own patient: there is no patient column, or it repeats the case ids"


def frame(*, seed: int = 0, **columns: object) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    base = {
        "case_id": [f"c{k}" for k in range(N)],
        "patient_id": [f"p{k // 2}" for k in range(N)],
        "split": ["train"] * (N // 2) + ["test"] * (N // 2),
        "text": notes(N, seed=seed),
        "ill": rng.permutation(np.arange(N) % 2),
    }
    return pl.DataFrame({name: value for name, value in {**base, **columns}.items() if value is not None})


def cohort(name: str = "home", labels: tuple[str, ...] = ("ill",), **columns: object) -> Cohort:
    table = frame(**columns)  # type: ignore[arg-type]
    return Cohort.from_frame(table, labels=labels, name=name, attributes=[c for c in ("age",) if c in table.columns])


def check(cases: Cohort, audit: Data | None = None, n_models: int = 1) -> AuditResult:
    models = {f"m{k}": KeywordModel({"bal": 1.0 + k}) for k in range(n_models)}
    return run_audit(audit or Data(), cases, models)


def count(result: AuditResult, metric: str, group: str = "home") -> tuple[int, int] | None:
    rows = result.estimates.filter(pl.col("metric") == metric, pl.col("group") == group, pl.col("model") == "m0")
    return None if rows.is_empty() else rows.select("n_positive", "n").row(0)


def answer(result: AuditResult, question: str) -> Answer:
    return next(each for each in result.answers if each.question == question)


def kinds(result: AuditResult) -> list[str]:
    return [finding.kind for finding in result.findings]


def first_rank(result: AuditResult) -> list[str]:
    return [each.sentence for each in result.findings if each.kind == "concern" and each.question is None]


def test_clean_data_are_acceptable_and_said_once() -> None:
    result = check(cohort())
    assert [(each.question, each.verdict) for each in result.answers] == [
        ("leakage", "acceptable"),
        ("labels", "acceptable"),
    ]
    assert count(result, "known_notes") == (0, 120)
    assert count(result, "known_patients") == (0, 60)
    assert count(result, "constant_labels") == (0, 1)
    assert kinds(result) == ["acceptable", "acceptable"]
    assert "0 of 120 notes and 0 of 60 patients" in result.findings[0].sentence
    assert answer(result, "leakage").margin == 0.01


def test_copies_in_the_training_split_are_a_concern_of_the_first_rank() -> None:
    rng = np.random.default_rng(5)
    texts = notes(N)
    for k in range(30):
        texts[120 + k] = texts[k].upper() if k < 20 else altered(texts[k], 2, rng)
    result = check(cohort(text=texts), n_models=2)
    assert count(result, "known_notes") == (30, 120)
    assert count(result, "identical_notes") == (20, 120)
    leakage = answer(result, "leakage")
    assert (leakage.verdict, leakage.value, leakage.low, leakage.high) == ("concern", 0.25, 0.25, 0.25)
    assert leakage.label == "notes"
    assert [each.model for each in result.answers if each.question == "leakage"] == ["m0", "m1"]
    (sentence,) = first_rank(result)
    assert sentence.startswith("25% of the audited notes (30 of 120) also stand in the training or validation split")
    assert "20 word for word, 10 nearly" in sentence
    pairs = result.blocks[1].rows  # type: ignore[union-attr]
    assert pairs[0] == ("home", "c120", "c0", "train", True)
    assert len(pairs) == 30


def test_one_copy_is_within_the_margin_and_the_margin_can_be_set() -> None:
    texts = notes(N)
    texts[120] = texts[0]
    assert answer(check(cohort(text=texts)), "leakage").verdict == "acceptable"
    assert answer(check(cohort(text=texts), Data(margins={"leakage": 0.001})), "leakage").verdict == "concern"


def test_no_note_text_is_kept() -> None:
    texts = notes(N)
    texts[120] = texts[0] = "xylophone " * 30
    result = check(cohort(text=texts))
    shown = [result.estimates.write_json(), *(f.sentence for f in result.findings), *map(str, result.blocks)]
    assert "xylophone" not in "".join(shown).lower()


def test_notes_of_one_or_two_words_are_not_compared() -> None:
    result = check(cohort(text=["seen, well"] * N))
    assert count(result, "known_notes") == (0, 0)
    assert answer(result, "leakage").verdict == "unsettled"
    assert answer(result, "leakage").reason == "no audited note has 3 words"
    assert result.provenance["notes_too_short"] == 120
    assert count(check(cohort(text=["seen, well"] * N), Data(fewest_words=2)), "identical_notes") == (120, 120)


def test_short_notes_are_compared_word_for_word() -> None:
    """40 of 60 short notes are in training: that the long ones are all new does not hide it."""
    short = [f"chest pain for {k} days" for k in range(N)]
    texts = notes(N)
    texts[:80] = short[:80]
    texts[120:180] = short[40:100]  # 40 of them also in training
    texts[180] = "normal"
    result = check(cohort(text=texts))
    assert count(result, "known_notes") == count(result, "identical_notes") == (40, 119)
    assert answer(result, "leakage").verdict == "concern"
    (sentence,) = first_rank(result)
    assert "(40 word for word, 40 of them short, 0 nearly)" in sentence
    assert "60 audited notes of fewer than 10 words were compared word for word only and 1 audited note" in sentence
    assert result.provenance["notes_compared_word_for_word_only"] == 60


def test_short_notes_that_are_new_are_named_in_the_reassurance() -> None:
    texts = notes(N)
    texts[120:180] = [f"chest pain for {k} days" for k in range(60)]
    result = check(cohort(text=texts))
    assert answer(result, "leakage").verdict == "acceptable"
    assert "60 audited notes of fewer than 10 words were compared word for word only." in result.findings[0].sentence
    all_short = check(cohort(text=[f"chest pain for {k} days" for k in range(N)]))
    assert answer(all_short, "leakage").verdict == "unsettled"
    assert answer(all_short, "leakage").reason == (
        "no audited note has 10 words, so only identical ones were looked for"
    )
    assert kinds(all_short)[0] == "unsettled"


def test_one_known_patient_with_half_of_the_cases() -> None:
    patients = [f"p{k}" for k in range(N)]
    audited = [k for k, split in enumerate(cohort().cases["split"]) if split == "test"]
    for k in audited[: len(audited) // 2]:
        patients[k] = patients[0]
    result = check(cohort(patient_id=patients))
    n_patients = len(audited) - len(audited) // 2 + 1
    assert count(result, "known_patients") == (1, n_patients)
    assert count(result, "known_cases") == (len(audited) // 2, len(audited))
    found = answer(result, "leakage")
    assert (found.verdict, found.metric, found.label) == ("concern", "known_cases", "cases")


def test_a_patient_in_two_splits() -> None:
    patients = [f"p{k // 2}" for k in range(N)]
    patients[120:130] = patients[:10]
    result = check(cohort(patient_id=patients))
    assert count(result, "known_patients") == (5, 60)
    assert answer(result, "leakage").verdict == "concern"
    assert answer(result, "leakage").label == "patients"
    assert first_rank(result)[0].startswith("8.3% of the audited patients (5 of 60) also have cases")


def test_the_validation_split_counts_as_seen_and_train_is_named_first() -> None:
    texts, splits = notes(N), ["train"] * 60 + ["validation"] * 60 + ["test"] * 120
    texts[130] = texts[80] = texts[3]
    texts[131] = texts[70]
    result = check(cohort(text=texts, split=splits))
    assert [row[1:4] for row in result.blocks[1].rows] == [  # type: ignore[union-attr]
        ("c130", "c3", "train"),
        ("c131", "c70", "validation"),
    ]
    validation = check(cohort(text=texts, split=splits), Data(split="validation"))
    assert count(validation, "known_notes") == (1, 60)  # the test split is no split that a model has seen


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"split": None}, "the table holds no training case to compare with"),
        ({"split": ["test"] * N}, "the table holds no training case to compare with"),
        ({"patient_id": None}, ALONE),
    ],
)
def test_what_cannot_be_compared_is_unsettled_with_the_reason(columns: dict[str, object], reason: str) -> None:
    result = check(cohort(**columns))
    leakage = answer(result, "leakage")
    assert (leakage.verdict, leakage.reason) == ("unsettled", reason)
    assert reason in next(each.sentence for each in result.findings if each.kind == "unsettled")


def test_without_text_the_patients_decide() -> None:
    plan = Data().plan(cohort(text=None), np.random.default_rng(0))
    assert "known_notes" not in plan.memory.checked.cohorts[0].found
    assert plan.memory.checked.cohorts[0].found["known_patients"].share == 0.0
    neither = Data().plan(cohort(text=None, patient_id=None), np.random.default_rng(0))
    assert neither.memory.checked.cohorts[0].found["known_patients"].reason == ALONE


def test_constant_labels_by_name() -> None:
    dead = np.asarray([0, 1] * (N // 4) + [0] * (N // 2))
    labels = {"dead": dead, "alive": 1 - dead, "rare": (np.arange(N) >= N // 2) & (np.arange(N) % 3 == 0)}
    result = check(
        cohort(labels=("ill", "dead", "alive", "rare"), **{k: v.astype(int) for k, v in labels.items()}),
        n_models=1,
        audit=Data(),
    )
    assert count(result, "constant_labels") == (2, 4)
    assert answer(result, "labels").verdict == "concern"
    assert first_rank(result) == [
        "No audited case has 'dead' and every audited case has 'alive' (2 of 4 labels): nothing can be said about them."
    ]
    caveat = next(each for each in result.findings if each.kind == "caveat")
    assert caveat.sentence.startswith("'rare' never varies among the training cases")
    assert count(check(cohort(labels=("ill", "dead"), dead=dead), Data(labels=("ill",))), "constant_labels") == (0, 1)


def test_a_single_constant_label() -> None:
    result = check(cohort(ill=np.arange(N) < N // 2))
    assert first_rank(result) == ["No audited case has 'ill': nothing can be said about it."]
    assert answer(result, "labels").value == 1.0


def days(numbers: np.ndarray) -> list[datetime]:
    return [datetime(2150, 1, 1) + timedelta(days=float(day)) for day in numbers]


def test_a_test_before_the_training_is_a_concern_and_a_random_split_is_not() -> None:
    later = np.arange(N)
    assert count(check(cohort(time=days(later))), "earlier_cases") == (0, 120)
    before = check(cohort(time=days(later[::-1])))
    assert count(before, "earlier_cases") == (120, 120)
    assert "where a random split has 40% to 60%: the test lies before the training" in first_rank(before)[0]
    mixed = check(cohort(time=days(np.random.default_rng(0).permutation(N))))
    assert kinds(mixed) == ["acceptable", "acceptable", "caveat"]  # which is about the order of the rows


def in_order(n_before: int, n_after: int, n_training: int, each: int = 1) -> AuditResult:
    """Audited cases before and after all training cases; `each` successive cases are of one patient."""
    n = n_before + n_after + n_training
    day = np.concatenate([1000 + np.arange(n_training), np.arange(n_before), 5000 + np.arange(n_after)])
    table = pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k // each}" for k in range(n)],
            "split": ["train"] * n_training + ["test"] * (n_before + n_after),
            "text": notes(n),
            "ill": np.arange(n) % 2,
            "time": days(day),
        }
    )
    return check(Cohort.from_frame(table, labels=["ill"], name="home"))


def said_of_order(result: AuditResult) -> list[tuple[str, str]]:
    about = [f for f in result.findings if "the training" in f.sentence and "test" in f.sentence]
    return [(f.kind, f.sentence.split(": ")[-1]) for f in about]


def test_the_order_of_test_and_training_is_judged_against_a_random_split() -> None:
    rest = ", so it does not show how the model will do on later patients."
    assert said_of_order(in_order(49, 0, 140)) == [("concern", f"the test lies before the training{rest}")]
    assert said_of_order(in_order(39, 21, 100)) == [("caveat", f"the test tends to lie before the training{rest}")]
    assert said_of_order(in_order(6, 0, 8)) == [("concern", f"the test lies before the training{rest}")]
    assert said_of_order(in_order(31, 29, 100)) == said_of_order(in_order(0, 49, 140)) == []
    assert said_of_order(in_order(39, 21, 100, each=10)) == []  # of six patients, four: chance


def test_an_order_that_cannot_be_judged_is_said() -> None:
    assert said_of_order(in_order(2, 0, 2)) == [("caveat", "2 audited cases and 2 training cases have a time.")]
    times = [None if k >= N // 2 else day for k, day in enumerate(days(np.arange(N)))]
    assert said_of_order(check(cohort(time=times))) == [
        ("caveat", "0 audited cases and 120 training cases have a time.")
    ]


@pytest.mark.slow
def test_a_random_split_is_seldom_said_to_be_out_of_order() -> None:
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(200):
        made = cohort(text=["seen, well"] * N, time=days(rng.permutation(N // 2).repeat(2)))
        (checked,) = Data().plan(made, rng).memory.checked.cohorts
        told += checked.order is not None and checked.order.share > checked.order.by_chance[1]
    assert told <= 12  # 2.5% are expected: 5 of 200


def test_time_running_backwards() -> None:
    """In a table in order of time, rows that go back; in any table, ages that fall."""
    order = np.arange(N, dtype=float)
    assert count(check(cohort(time=days(order))), "backward_rows") == (0, 120)
    order[[10, 11]] = order[[11, 10]]
    swapped = check(cohort(time=days(order)))
    assert count(swapped, "backward_rows") == (1, 120)
    assert next(f.sentence for f in swapped.findings if f.kind == "caveat").startswith("Time runs backwards in 0.8%")
    shuffled = check(cohort(time=days(np.random.default_rng(0).permutation(N))))
    assert count(shuffled, "unordered_patients") == count(shuffled, "backward_rows")  # two cases each
    (caveat,) = (f.sentence for f in shuffled.findings if f.kind == "caveat")
    assert "of 120 patients with several cases are not in order of time" in caveat
    ages = 50 + (np.arange(N) % 2)
    ages[[21, 41]] = 30
    falling = check(cohort(time=days(np.arange(N)), age=ages))
    assert count(falling, "falling_ages") == (2, 120)
    assert any(each.sentence.startswith("The age falls in 1.7% of the steps") for each in falling.findings)


@pytest.mark.parametrize(("n_patients", "kind"), [(3, "caveat"), (15, "concern"), (24, "concern"), (60, "caveat")])
def test_the_worse_the_order_the_more_is_said(n_patients: int, kind: str) -> None:
    order = np.arange(N, dtype=float)
    order[1 : 2 * n_patients : 2] -= 2
    told = check(cohort(time=days(order)))
    assert count(told, "backward_rows") == (n_patients, 120)
    assert [f.kind for f in told.findings if "ime runs backwards" in f.sentence or "order of" in f.sentence] == [kind]


def test_the_cell_names_what_was_compared() -> None:
    assert answer(check(cohort()), "leakage").metric == "known_notes"
    patients = [f"p{k // 2}" for k in range(N)]
    patients[120:130] = patients[:10]
    assert answer(check(cohort(patient_id=patients)), "leakage").metric == "known_patients"
    without_text = cohort(text=None, image=[f"{k}.png" for k in range(N)])
    plan = Data().plan(without_text, np.random.default_rng(0))
    rows = data_rows(plan.memory.checked, ["m"])
    (leakage, _) = data_answers(plan.memory.checked, rows, ["m"], margins_with({}))
    assert (leakage.metric, leakage.label) == ("known_patients", None)


def test_missing_times_are_left_out() -> None:
    times = [None if k % 2 else day for k, day in enumerate(days(np.arange(N)))]
    assert count(check(cohort(time=times)), "earlier_cases") == (0, 60)
    assert count(check(cohort(time=pl.Series([None] * N, dtype=pl.Datetime("us")))), "earlier_cases") is None


def test_notes_of_other_patients_repeated_within_the_audited_cases() -> None:
    texts = notes(N)
    texts[120] = texts[121]  # the same patient: a copied note
    texts[130] = texts[140] = texts[150]
    result = check(cohort(text=texts))
    assert count(result, "repeated_notes") == (3, 120)
    assert any(each.kind == "caveat" and "word for word" in each.sentence for each in result.findings)


def test_a_second_cohort_is_compared_with_what_the_first_was_trained_on() -> None:
    home = cohort()
    texts = notes(N, seed=9)
    texts[:12] = home.texts[:12]
    away = Cohort.from_frame(frame(seed=9, text=texts, split=None), labels=["ill"], name="away")
    result = check(stack([home, away]))
    assert count(result, "known_notes") == (0, 120)
    assert count(result, "known_notes", "away") == (12, 240)
    assert count(result, "known_patients", "away") is None  # the same id in two cohorts means two patients
    assert answer(result, "leakage").label == "notes in away"
    assert "of the audited notes (12 of 240) in away also stand" in first_rank(result)[0]


def test_a_split_that_nobody_is_in_is_said() -> None:
    result = check(cohort(split=["train"] * N))
    assert result.answers == ()
    assert [each.sentence for each in result.findings] == ["No case is in split 'test': the data were not checked."]


def test_the_plan_asks_for_nothing_and_tells_concerns_at_once() -> None:
    cases = cohort(text=notes(N // 2) * 2)
    plan = Data().plan(cases, np.random.default_rng(0))
    assert len(plan.variants) == 0
    assert len(plan.notices) == 1
    assert plan.notices[0] == first_rank(check(cases))[0]
