"""From notes to variants: pairing, columns, groups, references and the groups of the training split."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import sample_patients
from palpate.audits.characteristics.groups import (
    ArmSpec,
    age_groups,
    arm_specs,
    by_attributes,
    by_notes,
    group_of,
    recorded,
    references,
)
from palpate.audits.kit.scope import training_rows
from palpate.cases.edits import splice
from palpate.errors import ConfigError
from palpate.results import Plan
from tests.audits.characteristics.altered_notes import GENDER, GenderWords, gender_plan, notes

KNOWN = {"gender": ("female", "male"), "ethnicity": ("none", "White"), "age": ("20", "40", "60")}


def spoiled() -> Plan:
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
    by_group = [plan.variants.parent[plan.variants.rows_of(arm.group_name(g))] for g in range(3)]
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
    arm, reader, variants = plan.memory.arms[0], GenderWords(), plan.variants
    kept = 0
    for k, row in enumerate(arm.rows):
        for g, group in enumerate(arm.groups):
            variant = arm.first + k * 3 + g
            text = plan.cohort.texts[row]
            edits, action, _ = reader.edits(text, {"gender": group})
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


def test_arms_and_combinations() -> None:
    specs = arm_specs(("gender", "gender+ethnicity"), KNOWN, known=tuple(KNOWN))
    assert specs[1].name == "gender+ethnicity"
    assert specs[1].names == ("female+none", "female+White", "male+none", "male+White")
    assert specs[1].mappings()[1] == {"gender": "female", "ethnicity": "White"}
    chosen = references(specs, {"ethnicity": "White"}, {})
    assert [spec.names[k] for spec, k in zip(specs, chosen, strict=True)] == ["male", "male+White"]


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (("shoe size",), "there is no characteristic 'shoe size'; there are: age, ethnicity, gender"),
        (("gender+gender",), "names a characteristic twice"),
        (("gender", "gender"), "names a characteristic twice"),
        ((), "names no characteristic"),
    ],
)
def test_wrong_arms(alter: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        arm_specs(alter, KNOWN, known=sorted(KNOWN))


def test_references_by_default() -> None:
    specs = arm_specs(("gender", "ethnicity", "age"), KNOWN, known=tuple(KNOWN))
    assert references(specs, {}, {"age": ["55", "90+", None, "52"]}) == [1, 0, 2]
    assert references(specs, {}, {}) == [1, 0, 1], "without any known age the one in the middle"
    with pytest.raises(ConfigError, match="gender has no 'dog'; the groups are: female, male"):
        references(specs, {"gender": "dog"}, {})
    with pytest.raises(ConfigError, match="'weight' is not altered"):
        references(specs, {"weight": "obese"}, {})


def test_ages_that_can_be_written() -> None:
    assert age_groups((60, "90+", 20)) == ("20", "60", "90+")
    for wrong in (0, 17, 90, "old", "6.5", -3, "4²"):
        with pytest.raises(ConfigError, match="can't be written into a note"):
            age_groups((20, wrong))
    with pytest.raises(ConfigError, match="given twice"):
        age_groups((20, "20"))


def test_an_age_belongs_to_the_nearest_audited_one() -> None:
    every = age_groups((*range(18, 90), "90+"))
    assert group_of("age", "63", every) == "63"
    assert group_of("age", "17", every) is None
    assert group_of("age", "90+", every) == group_of("age", "94", every) == "90+"
    tens = age_groups((20, 30, 40))
    assert [group_of("age", age, tens) for age in ("14", "15", "24", "26", "45", "46")] == [
        None, "20", "20", "30", "40", None,
    ]  # fmt: skip
    assert group_of("age", "93", tens) is None
    assert group_of("age", None, tens) is None
    assert group_of("ethnicity", None, ("none", "White")) == "none"
    assert group_of("gender", None, ("female", "male")) is None
    assert group_of("insurance", "Private", ("none", "private", "Medicare")) == "private"
    assert group_of("insurance", "Government", ("none", "private", "Medicare")) is None


def test_what_is_recorded_in_the_words_of_a_note() -> None:
    assert [recorded("gender", value) for value in ("F", "male", "Transgender female", "", None)] == [
        "female", "male", "transgender", None, None,
    ]  # fmt: skip
    assert recorded("age", 63.9) == "63"
    assert recorded("age", 91.4) == "90+"
    assert recorded("age", float("nan")) is None
    said = (
        "WHITE - RUSSIAN",
        "BLACK/AFRICAN AMERICAN",
        "HISPANIC OR LATINO",
        "ASIAN - CHINESE",
        "UNKNOWN/NOT SPECIFIED",
    )
    assert [recorded("ethnicity", value) for value in said] == ["White", "African American", "Hispanic", "Asian", None]


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("CAUCASIAN", "White"),
        ("White or Caucasian", "White"),
        ("WHITE - BRAZILIAN", "White"),
        ("White, not Hispanic", "White"),
        ("WHITE (NON-HISPANIC)", "White"),
        ("Not Hispanic or Latino", None),
        ("NOT HISPANIC/LATINO", None),
        ("Non-Hispanic", None),
        ("non-Hispanic Black", "African American"),
        ("Black or African American, not Hispanic or Latino", "African American"),
        ("BLACK/CAPE VERDEAN", "African American"),
        ("BLACK/AFRICAN", "African American"),
        ("HISPANIC/LATINO - PUERTO RICAN", "Hispanic"),
        ("White Hispanic", "Hispanic"),
        ("ASIAN - ASIAN INDIAN", "Asian"),
        ("Asian/Pacific Islander", "Asian"),
        ("Non-White", None),
        ("White, Asian", None),
        ("AMERICAN INDIAN/ALASKA NATIVE", None),
        ("MULTI RACE ETHNICITY", None),
        ("PORTUGUESE", None),
        ("OTHER", None),
        ("UNABLE TO OBTAIN", None),
        ("PATIENT DECLINED TO ANSWER", None),
        ("", None),
    ],
)
def test_recorded_ethnicities(value: str, group: str | None) -> None:
    assert recorded("ethnicity", value) == group


@pytest.mark.parametrize(
    ("value", "group"),
    [
        ("> 89", "90+"),
        (">89", "90+"),
        (">= 90", "90+"),
        ("over 89", "90+"),
        ("90+", "90+"),
        ("63 years", "63"),
        ("63 y/o", "63"),
        ("63.7", "63"),
        (300, "90+"),
        (307.2, "90+"),
        (0, "0"),
        ("unknown", None),
        ("", None),
        ("6 months", None),
        ("> 60", None),
        ("60+", None),
        (-4, None),
        (200, None),
        (float("inf"), None),
    ],
)
def test_recorded_ages(value: object, group: str | None) -> None:
    assert recorded("age", value) == group


def test_training_groups_from_attributes_and_from_notes() -> None:
    cohort = notes()
    rows = training_rows(cohort)
    assert (cohort.cases["split"][rows] == "train").all()
    reader = GenderWords()
    said = {"gender": [reader.present(cohort.texts[row])["gender"] for row in rows]}
    by_text, by_column = by_notes(GENDER, rows, said), by_attributes(GENDER, cohort, rows)
    assert by_text.group.tolist() == by_column.group.tolist()
    assert set(by_text.group) == {0, 1}
    both = ArmSpec(("gender", "age"), tuple((g, a) for g in ("female", "male") for a in ("30", "60")))
    pairs = by_attributes(both, cohort, rows)
    for row, group in zip(rows, pairs.group, strict=True):
        age, gender = cohort.cases["age"][int(row)], recorded("gender", cohort.cases["gender"][int(row)])
        near = "30" if 15 <= age <= 45 else "60" if 45 < age <= 75 else None
        assert group == (both.groups.index((gender, near)) if near else -1)
    assert by_attributes(ArmSpec(("ethnicity",), (("none",), ("White",))), cohort, rows).reason == (
        "the cohort has no attribute 'ethnicity'"
    )


def test_a_sample_of_patients_is_whole() -> None:
    cohort = notes()
    test = cohort.rows(split="test")
    chosen = sample_patients(cohort, test, 31, np.random.default_rng(0))
    assert len(chosen) == 30, "two notes a patient"
    inside = np.isin(cohort.patients[test], cohort.patients[chosen])
    assert test[inside].tolist() == chosen.tolist()
    again = sample_patients(cohort, test, 31, np.random.default_rng(1))
    assert again.tolist() != chosen.tolist()
    assert sample_patients(cohort, test, 10_000, np.random.default_rng(0)).tolist() == test.tolist()
    with pytest.raises(ConfigError, match="a single patient has more notes"):
        sample_patients(cohort, test, 1, np.random.default_rng(0))
