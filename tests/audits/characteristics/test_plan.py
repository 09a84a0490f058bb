"""From notes to variants: pairing, columns, and samples of patients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.audits.kit.scope import sample_patients
from palpate.cases.cohort import Cohort
from palpate.cases.edits import splice
from palpate.errors import ConfigError
from palpate.results import Plan
from tests.audits.characteristics.altered_notes import GenderWords, gender_plan, notes


def spoiled() -> Plan[AlteredNotes]:
    """A plan over notes of which one has no mention and one can't be made male."""
    cohort = notes()
    test = cohort.rows(split="test")
    texts = list(cohort.texts)
    texts[test[3]] = "No patient is named here."
    texts[test[5]] = "A woman with a large uterus."
    cases = cohort.cases.with_columns(pl.Series("text", texts))
    return gender_plan(replace(cohort, cases=cases))


def test_all_groups_hold_the_same_notes_and_a_skipped_note_is_in_none() -> None:
    plan = spoiled()
    arm = plan.memory.arms[0]
    test = plan.cohort.rows(split="test")
    by_group = [plan.variants.parent[plan.variants.rows_of(arm.group_names[g])] for g in range(3)]
    for parents in by_group:
        assert parents.tolist() == arm.rows.tolist()
    assert set(test) - set(arm.rows) == {test[3], test[5]}
    assert {(skip.case, skip.reason) for skip in plan.skips} == {
        (test[3], "gender: no mention"),
        (test[5], "gender: contradictory"),
    }
    assert {reason: n.tolist() for reason, n in arm.reasons.items()} == {
        "no mention": [1, 1, 1],
        "contradictory": [0, 1, 0],
    }
    assert arm.n_notes == len(test)


def test_variants_are_the_altered_texts_and_kept_ones_have_no_edit() -> None:
    plan = spoiled()
    arm, alterer, variants = plan.memory.arms[0], GenderWords(), plan.variants
    kept = 0
    for k, row in enumerate(arm.rows):
        for g, group in enumerate(arm.groups):
            variant = arm.first + k * 3 + g
            text = plan.cohort.texts[row]
            edits, action, _ = alterer.edits(text, {"gender": group})
            assert variants.parent[variant] == row
            assert variants.group_names[variants.group[variant]] == f"gender={group}"
            assert splice(text, variants.edits(variant)) == splice(text, edits)
            kept += action == "kept"
            assert (variants.n_edits[variant] == 0) == (action == "kept")
    assert arm.actions.sum() == 3 * len(arm.rows)
    assert arm.actions[:, 2].sum() == kept == len(arm.rows)
    originals = plan.memory.original[arm.rows]
    assert variants.parent[originals].tolist() == arm.rows.tolist()
    assert (variants.n_edits[originals] == 0).all()
    validation = variants.parent[plan.memory.validation]
    assert validation.tolist() == plan.cohort.rows(split="validation").tolist()


def test_a_sample_of_patients_is_whole() -> None:
    cohort = notes()
    test = cohort.rows(split="test")
    chosen = sample_patients("characteristics", cohort, test, 31, np.random.default_rng(0))
    assert len(chosen) == 30, "two notes per patient"
    inside = np.isin(cohort.patients[test], cohort.patients[chosen])
    assert test[inside].tolist() == chosen.tolist()
    again = sample_patients("characteristics", cohort, test, 31, np.random.default_rng(1))
    assert again.tolist() != chosen.tolist()
    assert sample_patients("characteristics", cohort, test, 10_000, np.random.default_rng(0)).tolist() == test.tolist()
    with pytest.raises(ConfigError, match="a single patient has more notes"):
        sample_patients("characteristics", cohort, test, 1, np.random.default_rng(0))


@pytest.mark.slow
def test_several_processes_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte, with the order of replacements, reasons and skips."""
    texts = [
        "68 year old woman with chest pain. She quit smoking in 1985.",
        "The patient is a 24 year old Hispanic man. His wife came.",
        "Mr. Smith, 3 days old.",
        "No age and no name here.",
        "A 55 y/o white female, pregnant at 19, G2P1.",
        "87F with dementia, daughter aged 50.",
        "Prostate cancer in a 61-year-old gentleman of Asian descent.",
    ]
    table = pl.DataFrame({"case_id": [str(k) for k in range(7)], "text": texts, "ill": [0, 1] * 3 + [0]})
    cohort = Cohort.from_frame(table, labels=["ill"], name="home")
    plans = []
    for fewest in (2_000, 2):
        monkeypatch.setattr("palpate.audits.characteristics.plan.FEWEST_FOR_PROCESSES", fewest)
        monkeypatch.setattr("palpate.audits.characteristics.plan.NOTES_PER_PART", 2)
        monkeypatch.setattr("palpate.cases.parallel.n_cores", lambda: 2)
        plans.append(Characteristics(contradictory="alter").plan(cohort, np.random.default_rng(0)))
    here, elsewhere = (
        [*map(vars, (plan.variants, *plan.memory.arms)), plan.skips, plan.memory.original] for plan in plans
    )
    np.testing.assert_equal(elsewhere, here)
