"""Notes that differ in the ages they can have: against a slow version, note by note and age by age."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.age_ranges import AgeSets, AgeSums, measure_ages
from palpate.audits.characteristics.measures import ModelMeasures, Sums, measure_model
from palpate.audits.kit.paired import FEW_NOTES, FEWEST_PATIENTS
from palpate.cases.edits import Inputs
from palpate.kit import Cohort, Predictions, Resampling
from palpate.models import Model
from palpate.results import AuditResult, Table
from palpate.stats.clustered import units_of
from palpate.stats.curves import roughness
from tests.audits.characteristics.altered_notes import answer

RESAMPLING = Resampling(n_replicates=150, seed=7)
AGES, LABELS, REFERENCE, THRESHOLD = 12, 2, 7, 0.3
YEARS = np.arange(AGES)
CURVES = ("mean_probability", "deviation", "difference")
OTHERS = ("flip_rate", "flip_rate_from_written", "gap", "reversals", "steps")


def answers(n: int = 240, seed: int = 0) -> tuple[np.ndarray, ...]:
    """p[note, age, label], as written, possible ages (from an age on, some with a hole) and patients."""
    rng = np.random.default_rng(seed)
    slope = rng.normal(0.1, 0.1, (n, 1, LABELS))
    logit = rng.normal(-1, 1, (n, 1, LABELS)) + slope * np.arange(AGES)[:, None] + rng.normal(0, 0.2, (n, AGES, LABELS))
    p = 1 / (1 + np.exp(-logit))
    possible = np.arange(AGES) >= rng.integers(0, 7, n)[:, None]
    possible[rng.random(n) < 0.1, 9] = False
    possible[:, 0] &= rng.random(n) < 0.3  # too few patients
    patient = rng.integers(0, n // 2, size=n)
    return p, p[np.arange(n), rng.integers(7, AGES, size=n)], possible, patient


def measured(p: np.ndarray, original: np.ndarray, possible: np.ndarray, patient: np.ndarray) -> ModelMeasures:
    sets = AgeSets.of(possible, REFERENCE, YEARS, units_of(patient))
    seen = np.where(possible[..., None], p, np.nan)
    sums = AgeSums.of(seen, original, np.full(LABELS, THRESHOLD), sets, YEARS)
    run = np.flatnonzero(sets.reached)
    return measure_ages(sums, sets, RESAMPLING, run=run if len(run) >= 10 else None, observed=None)


def slow(p: np.ndarray, original: np.ndarray, possible: np.ndarray, patient: np.ndarray) -> dict[str, np.ndarray]:
    """Every number from its own notes, one age after the other."""

    def mean(values: np.ndarray, *ages: int) -> np.ndarray:
        notes = [i for i in range(len(p)) if all(possible[i, a] for a in ages)]
        if len({patient[i] for i in notes}) < FEWEST_PATIENTS:
            return np.full(LABELS, np.nan)
        return np.mean([values[i] for i in notes], axis=0)

    act = p >= THRESHOLD
    curve = {REFERENCE: np.zeros(LABELS)}
    for a in range(REFERENCE + 1, AGES):
        curve[a] = curve[a - 1] + mean(p[:, a] - p[:, a - 1], a - 1, a)
    for a in range(REFERENCE - 1, -1, -1):
        curve[a] = curve[a + 1] - mean(p[:, a + 1] - p[:, a], a, a + 1)
    moved = np.stack([curve[a] for a in range(AGES)])
    known = [a for a in range(AGES) if np.isfinite(moved[a]).all()]
    deviation = np.full_like(moved, np.nan)
    for a in known:
        deviation[a] = moved[a] - np.mean([moved[b] for b in known if b != a], axis=0)
    inner, changed = range(1, AGES - 1), act[:, 1:] != act[:, :-1]
    return {
        "mean_probability": mean(p[:, REFERENCE], REFERENCE) + moved,
        "difference": moved,
        "deviation": deviation,
        "flip_rate": np.stack([mean(act[:, a] != act[:, REFERENCE], a, REFERENCE) for a in range(AGES)]),
        "flip_rate_from_written": np.stack([mean(act[:, a] != (original >= THRESHOLD), a) for a in range(AGES)]),
        "gap": np.stack([mean(p[:, a] - (p[:, a - 1] + p[:, a + 1]) / 2, a - 1, a, a + 1) for a in inner]),
        "reversals": np.stack(
            [mean((act[:, a] != act[:, a - 1]) & (act[:, a] != act[:, a + 1]), a - 1, a, a + 1) for a in inner]
        ),
        "steps": np.stack(
            [
                mean(changed[:, y] - (changed[:, y - 1] + 0.0 + changed[:, y + 1]) / 2, y - 1, y, y + 1, y + 2)
                for y in range(1, AGES - 2)
            ]
        ),
    }


@pytest.mark.parametrize("seed", range(4))
def test_every_number_is_over_the_notes_that_can_have_its_ages(seed: int) -> None:
    data = answers(seed=seed)
    found, expected = measured(*data), slow(*data)
    for name in (*CURVES, *OTHERS):
        np.testing.assert_allclose(getattr(found, name).value, expected[name], atol=1e-12, err_msg=name)
    assert np.isnan(expected["difference"]).any(), "an age that too few patients can have"
    assert np.isfinite(expected["difference"][1:]).all()
    np.testing.assert_allclose(found.as_written.value[0], data[1].mean(axis=0))


def test_the_interval_of_a_comparison_is_that_of_its_own_notes_alone() -> None:
    p, original, possible, patient = answers()
    found = measured(p, original, possible, patient)
    for age in (2, 5, 9):
        notes = possible[:, age - 1] & possible[:, age] & possible[:, age + 1]
        units = units_of(patient[notes])
        args = {"reference": REFERENCE, "units": units, "years": YEARS}
        sums = Sums.of(p[notes], original[notes], np.full(LABELS, THRESHOLD), **args)
        alone = measure_model(sums, units, RESAMPLING, years=YEARS)
        for name in ("gap", "reversals"):
            a, b = getattr(found, name), getattr(alone, name)
            for part in ("value", "n", *(("error", "skew") if name == "gap" else ("freedom",))):
                np.testing.assert_allclose(getattr(a, part)[age - 1], getattr(b, part)[age - 1], err_msg=part)


def test_where_every_note_can_have_every_age_it_is_the_plain_mean() -> None:
    p, original, possible, patient = answers()
    units = units_of(patient)
    whole = measured(p, original, np.ones_like(possible), patient)
    sums = Sums.of(p, original, np.full(LABELS, THRESHOLD), reference=REFERENCE, units=units, years=YEARS)
    plain = measure_model(sums, units, RESAMPLING, run=YEARS, years=YEARS)
    for name in (*CURVES, *OTHERS, "as_written"):
        for part, other in zip(getattr(whole, name), getattr(plain, name), strict=True):
            np.testing.assert_allclose(part, other, atol=1e-9, err_msg=name)
    assert whole.curve is not None
    assert plain.curve is not None
    np.testing.assert_allclose(roughness(whole.curve).jump_values, roughness(plain.curve).jump_values, atol=1e-9)


def test_a_model_that_does_not_see_the_age_is_exactly_flat_whatever_the_notes() -> None:
    p, _, possible, patient = answers()
    sick = p[:, [0]] + 0.2 * possible.mean(axis=1)[:, None, None]  # who can be young is at another risk
    found = measured(np.repeat(sick, AGES, axis=1), sick[:, 0], possible, patient)
    for name in ("difference", "deviation", "flip_rate", "gap", "reversals", "steps"):
        known = getattr(found, name).value
        assert (known[np.isfinite(known)] == 0.0).all(), name
    level = found.mean_probability.value[1:]
    assert np.ptp(level, axis=0).max() < 1e-12


def test_slopes_that_differ_between_notes_make_no_gap_where_notes_drop_out() -> None:
    """Half of the notes rise with age and can't be young; a mean over those that can have each age would jump."""
    n = 200
    steep = np.arange(n) % 2 == 0
    possible = np.where(steep[:, None], np.arange(AGES) >= 5, True)
    p = (0.1 + 0.05 * steep[:, None] * np.arange(AGES))[..., None].repeat(LABELS, axis=2)
    found = measured(p, p[:, 0], possible, np.arange(n))
    assert np.abs(found.gap.value).max() < 1e-12
    steps = np.diff(found.mean_probability.value[:, 0])
    np.testing.assert_allclose(steps, [0.0] * 5 + [0.025] * 6, atol=1e-12)


@pytest.mark.slow
def test_the_error_of_the_curve_is_that_of_resampled_patients() -> None:
    p, original, possible, patient = answers(600)
    found, rng = measured(p, original, possible, patient).difference, np.random.default_rng(0)
    people = np.unique(patient)
    rows = {k: np.flatnonzero(patient == k) for k in people}
    drawn = []
    for _ in range(300):
        chosen = rng.choice(people, len(people))
        notes = np.concatenate([rows[k] for k in chosen])
        anew = np.concatenate([np.full(len(rows[k]), j) for j, k in enumerate(chosen)])
        drawn.append(slow(p[notes], original[notes], possible[notes], anew)["difference"])
    spread = np.std(drawn, axis=0)
    known = np.flatnonzero(np.isfinite(found.value).all(axis=1) & (found.error > 0).all(axis=1))
    assert len(known) >= 9
    np.testing.assert_allclose(found.error[known], spread[known], rtol=0.2)


# --- the whole audit ----------------------------------------------------------------------------------------------

AUDIT = Characteristics(alter=("age",), ages=tuple(range(40, 70)), observed="none", threshold=0.3, n_replicates=50)
AUDIT = replace(AUDIT, sure="normal", margins={"shift": 0.1, "flips": 0.1})


def smokers(n: int = 400, years: tuple[int, ...] = (5, 20, 35, 50)) -> Cohort:
    """Patients of 66 to 69 who have smoked for some years, which a younger patient can't have."""
    frame = pl.DataFrame(
        {
            "case_id": range(n),
            "patient_id": range(n),
            "text": [
                f"Patient is a {66 + k % 4} year old man who fell. He has smoked for {years[k % len(years)]} years."
                for k in range(n)
            ],
            "ill": [k % 2 for k in range(n)],
        }
    )
    return Cohort.from_frame(frame, labels=["ill"], name="smokers")


class YearsModel(Model):
    """A risk that rises with the age in the note, and a cliff at one birthday."""

    def __init__(self, cliff: int | None) -> None:
        self.labels, self.fingerprint, self.cliff = ("ill",), f"years {cliff}", cliff

    def predict(self, inputs: Inputs) -> np.ndarray:
        ages = [int(text.split("is a ")[1][:2]) for text in inputs.texts]
        step = [0.2 if self.cliff is not None and age >= self.cliff else 0.0 for age in ages]
        return np.asarray([[0.15 + 0.001 * age + more] for age, more in zip(ages, step, strict=True)])


def audited(cohort: Cohort, cliff: int | None, audit: Characteristics = AUDIT) -> AuditResult:
    plan = audit.plan(cohort, np.random.default_rng(0))
    model = YearsModel(cliff)
    return audit.analyse(plan, Predictions({"m": answer(plan, model)}), np.random.default_rng(1))


def test_notes_are_altered_to_the_ages_that_do_not_contradict_them() -> None:
    cohort = smokers()
    plan = AUDIT.plan(cohort, np.random.default_rng(0))
    arm, variants = plan.memory.arms[0], plan.variants
    assert arm.possible is not None
    assert len(arm.rows) == 400
    assert 0 < arm.n_possible[0] < 400, "some can be 40"
    assert arm.n_possible[-1] == 400, "and all can be 69"
    assert arm.stop - arm.first == arm.possible.sum() == arm.actions.sum()
    assert sum(arm.partly.values()) == (~arm.possible.all(axis=1)).sum()
    assert not plan.skips
    for k, g in ((0, 0), (3, 29), (7, 28), (399, 20)):
        if arm.possible[k, g]:
            variant = arm.variant(k, g)
            assert variants.parent[variant] == arm.rows[k]
            assert variants.group_names[variants.group[variant]] == arm.group_names[g]
    numbers = np.arange(len(variants), dtype=np.float64)
    cut = arm.cut(numbers)
    assert np.array_equal(np.isnan(cut), ~arm.possible)
    assert np.array_equal(cut[arm.possible], numbers[arm.first : arm.stop])


def test_a_cliff_is_found_and_a_smooth_curve_is_acceptable_though_few_notes_can_have_every_age() -> None:
    cliff, smooth = audited(smokers(), 60), audited(smokers(), None)
    assert cliff.answers[0].verdict == "concern"
    assert smooth.answers[0].verdict == "acceptable"
    rows = cliff.estimates.filter(metric="year_flips", group="age=60")
    assert rows["value"][0] == pytest.approx(1.0)
    assert 0 < rows["n"][0] < 400
    smooth_curve = smooth.estimates.filter(metric="mean_probability").filter(pl.col("group") != "age=as written")
    np.testing.assert_allclose(smooth_curve["value"], 0.15 + 0.001 * np.arange(40, 70), atol=1e-9)


def test_ages_that_too_few_can_have_are_empty_with_a_reason_and_not_judged() -> None:
    cohort = smokers(years=(35,) * 19 + (5,))
    result = audited(cohort, None, replace(AUDIT, ages=tuple(range(46, 70))))
    gaps = result.estimates.filter(metric="neighbour_gap")
    empty = gaps.filter(pl.col("value").is_null())
    assert 0 < len(empty) < len(gaps) / 2
    assert set(empty["reason"]) == {FEW_NOTES}
    assert result.answers[0].verdict == "acceptable"
    sentence = result.findings[0].sentence
    assert "for every age from " in sentence
    assert " to 68" in sentence
    assert any("notes contradict some ages" in each.sentence for each in result.findings)
    coverage = next(b for b in result.blocks if isinstance(b, Table) and b.title == "How many notes could be altered")
    assert coverage.rows == (("age", 400, 400, 400, 1.0, 380),)
    reasons = next(b for b in result.blocks if isinstance(b, Table) and b.title == "Why notes could not be altered")
    assert reasons.rows == (("age", "some ages left out", "contradictory: the note tells of a duration", 380, 0.95),)


def test_an_answer_is_open_where_most_ages_could_not_be_compared() -> None:
    result = audited(smokers(years=(50,)), None, replace(AUDIT, ages=tuple(range(40, 70))))
    assert result.answers[0].verdict == "unsettled"
    assert "half of the notes can have only " in (result.answers[0].reason or "")


@pytest.mark.slow
def test_an_age_that_few_can_have_is_no_part_of_the_answer_unless_harm_is_seen_there() -> None:
    cohort = smokers(2000, (35,) * 9 + (5,))
    youngest = replace(AUDIT, ages=tuple(range(40, 70)))
    smooth, cliff = audited(cohort, None, youngest), audited(cohort, 44, youngest)
    gaps = smooth.estimates.filter(metric="neighbour_gap")
    assert gaps["value"].is_not_null().all(), "200 patients can have every age"
    assert smooth.answers[0].verdict == "acceptable"
    assert "every age from " in smooth.findings[0].sentence
    assert cliff.answers[0].verdict == "concern"
    assert "age 44 instead of 43" in cliff.findings[0].sentence
