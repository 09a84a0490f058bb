"""Table 1: every number against plain Python, what is not told of few patients, and what it says in words."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.audits.data import Data
from palpate.audits.kit.wording import percent
from palpate.cases.cohort import Cohort, stack
from palpate.errors import ConfigError
from palpate.results import AuditResult, Table
from palpate.testing import KeywordModel, run_audit
from tests.data.published import READMISSION
from tests.stats.groups.test_balance import by_hand

TITLE = "Who was audited (Table 1)"


def frame(n: int = 600, *, seed: int = 0, older: float = 0.0) -> pl.DataFrame:
    """Two cases a patient, two thirds of them in development; the test cases are older by `older` years."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    split = np.where(patient % 3 == 0, "test", np.where(patient % 3 == 1, "train", "validation"))
    age = np.round(rng.normal(60, 12, n) + older * (split == "test"))
    return pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n)],
            "patient_id": [f"p{k}" for k in patient],
            "split": split,
            "time": [datetime(2020, 1, 5) + timedelta(days=int(k)) for k in range(n)],
            "sex": rng.choice(["f", "m"], n // 2)[patient],
            "race": rng.choice(["a", "b", "c", ""], n // 2, p=[0.55, 0.3, 0.1, 0.05])[patient],
            "visits": rng.integers(0, 4, n),
            "age": age,
            "ill": rng.integers(0, 2, n),
        }
    ).with_columns(pl.when(pl.col("age") > 85).then(None).otherwise(pl.col("age")).alias("age"))


ATTRIBUTES = ("sex", "race", "visits", "age")


def cohort(table: pl.DataFrame, name: str = "home", attributes: tuple[str, ...] = ATTRIBUTES) -> Cohort:
    return Cohort.from_frame(
        table.with_columns(text=pl.lit("a note")), labels=["ill"], name=name, attributes=attributes
    )


def check(cases: Cohort, **options: Any) -> AuditResult:
    return run_audit(Data(**options), cases, {"m": KeywordModel({"note": 1.0})})


def shown(result: AuditResult, title: str = TITLE) -> Table:
    return next(block for block in result.blocks if isinstance(block, Table) and block.title == title)


def lines(block: Table) -> dict[tuple[str, str], dict[str, Any]]:
    """(characteristic, value): the cells by column."""
    heads = [column.name for column in block.columns]
    return {(str(row[0]), str(row[1])): dict(zip(heads, row, strict=True)) for row in block.rows}


def test_counts_and_quartiles_are_those_of_plain_python() -> None:
    table = frame()
    found = lines(shown(check(cohort(table), smallest_cell=1)))
    for part in ("train", "validation", "test"):
        rows = [row for row in table.iter_rows(named=True) if row["split"] == part]
        assert found["cases", "number"][part] == f"{len(rows):,}"
        assert found["patients", "number"][part] == f"{len({row['patient_id'] for row in rows}):,}"
        events = sum(row["ill"] for row in rows)
        assert found["ill", "events"][part] == f"{events} ({events / len(rows):.0%})"
        ages = sorted(row["age"] for row in rows if row["age"] is not None)
        low, middle, high = statistics.quantiles(ages, n=4, method="inclusive")
        assert found["age", "median (quartiles)"][part] == f"{middle:g} ({low:g} to {high:g})"
        races = Counter(row["race"] for row in rows)
        known = len(rows) - races[""]
        for value in "abc":
            share = races[value] / known
            percent = f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"
            assert found["race", value][part] == f"{races[value]} ({percent})"
        assert found["race", "missing"][part].startswith(f"{races['']} (")
        visits = Counter(row["visits"] for row in rows)
        for count in range(4):
            assert found["visits", f"{count}"][part].startswith(f"{visits[count]} (")
    assert found["period", "first to last month"]["train"].startswith("2020-01 to 2021-0")


def test_differences_are_those_of_the_formulas() -> None:
    table = frame(older=5.0)
    result = check(cohort(table), smallest_cell=1)
    rows = {row["group"]: row for row in result.estimates.filter(metric="standardised_difference").to_dicts()}
    test, rest = table.filter(pl.col("split") == "test"), table.filter(pl.col("split") != "test")
    ages = [part["age"].drop_nulls().to_list() for part in (test, rest)]
    spread = math.sqrt(sum(statistics.variance(each) for each in ages) / 2)
    assert rows["age"]["value"] == round(abs(statistics.mean(ages[0]) - statistics.mean(ages[1])) / spread, 2)
    for name, values in (("sex", "fm"), ("race", "abc")):
        counts = [[part[name].to_list().count(value) for value in values] for part in (test, rest)]
        assert rows[name]["value"] == round(by_hand(*counts), 2)
    absent = [[part["age"].null_count(), len(part) - part["age"].null_count()] for part in (test, rest)]
    assert rows["age, missing"]["value"] == round(by_hand(*absent), 2)
    events = [[int(part["ill"].sum()), int(len(part) - part["ill"].sum())] for part in (test, rest)]
    assert rows["ill, events"]["value"] == round(by_hand(*events), 2)
    assert {row["reference"] for row in rows.values()} == {"development"}
    assert rows["age"]["n"] == len(test)
    (told,) = [finding.sentence for finding in result.findings if "made up differently" in finding.sentence]
    assert f"age ({rows['age']['value']:.2f})" in told
    assert "sex" not in told


def test_a_difference_is_made_without_the_values_that_it_would_tell() -> None:
    """And says so: over all values it would be another number."""
    table = frame().with_columns(
        race=pl.when((pl.col("split") == "test") & (pl.int_range(pl.len()) % 150 == 7))
        .then(pl.lit("rare"))
        .otherwise("race")
    )
    test, rest = table.filter(pl.col("split") == "test"), table.filter(pl.col("split") != "test")
    counts = [[part["race"].to_list().count(value) for value in ("a", "b", "c", "rare")] for part in (test, rest)]
    assert 0 < counts[0][3] < 5
    least = counts[0][3] + 1
    rows = lines(shown(check(cohort(table), smallest_cell=least)))
    told = next(row["Difference to development"] for (name, _), row in rows.items() if name == "race")
    assert told == f"{by_hand(counts[0][:3], counts[1][:3]):.2f} (without 1 value)"
    rows = lines(shown(check(cohort(table), smallest_cell=1)))
    told = next(row["Difference to development"] for (name, _), row in rows.items() if name == "race")
    assert told == f"{by_hand(*counts):.2f}"


def test_equal_sets_are_not_said_to_differ() -> None:
    said = [each for seed in range(10) for each in check(cohort(frame(seed=seed))).findings]
    assert sum("made up differently" in each.sentence for each in said) <= 4  # seven lines, one in twenty by chance


def test_cohorts_are_compared_with_the_first_where_there_is_no_development() -> None:
    first, second = (cohort(frame(seed=k).drop("split"), name) for k, name in enumerate(("home", "away")))
    result = check(stack([first, second]), smallest_cell=1)
    assert [column.name for column in shown(result).columns] == [
        "Characteristic",
        "Value",
        "home",
        "away",
        "Difference to home",
    ]
    both = check(stack([cohort(frame(), "home"), second]), smallest_cell=1)
    names = [column.name for column in shown(both).columns]
    assert names[2:6] == ["home, train", "home, validation", "home, test", "away"]
    assert names[6:] == [f"{names[4]} against development", f"{names[5]} against development"]


def test_a_table_by_group() -> None:
    table = frame()
    result = check(cohort(table), by=("sex",), smallest_cell=1)
    found = lines(shown(result, "The audited cases by sex"))
    test = table.filter(pl.col("split") == "test")
    for value in ("f", "m"):
        rows = test.filter(sex=value)
        assert found["cases", "number"][f"sex={value}"] == f"{rows.height}"
        assert found["race", "a"][f"sex={value}"].startswith(f"{rows['race'].to_list().count('a')} (")
    assert ("sex", "f") not in found
    counts = [[test.filter(sex=value)["race"].to_list().count(race) for race in "abc"] for value in "fm"]
    assert found["race", "a"]["Largest difference"] == f"{by_hand(*counts):.2f}"
    with pytest.raises(ConfigError, match="no attribute 'gender'"):
        check(cohort(table), by=("gender",))


def test_few_patients_are_not_told_and_do_not_follow_from_the_rest() -> None:
    table = frame().with_columns(
        rare=pl.when(pl.col("patient_id").is_in(["p0", "p1", "p4", "p7", "p10"]))
        .then(pl.lit("rare"))
        .otherwise(pl.lit("common")),
        once=pl.when(pl.col("patient_id") == "p0").then(pl.lit("Jane Roe")).otherwise(pl.col("sex")),
        ill=pl.when(pl.col("split") == "test").then(pl.col("patient_id") == "p3").otherwise(True).cast(pl.Int64),
    )
    result = check(cohort(table, attributes=("rare", "once", "race")))
    found = lines(shown(result))
    assert found["rare", "rare"]["test"] == "<5 patients"
    assert found["rare", "common"]["test"] == "withheld"
    assert found["rare", "common"]["Difference to development"] == ""  # it would tell the number
    assert found["rare", "rare"]["validation"] == "0 (0%)"
    assert found["ill", "events"]["test"] == "<5 patients"
    assert found["ill", "events"]["Difference to development"] == ""
    told = [result.estimates.write_json(), *map(str, result.blocks), *(each.sentence for each in result.findings)]
    assert "Jane Roe" not in "".join([*told, result.tables["table1"].write_json()])
    assert ("once", "other") in found
    kept = result.tables["table1"].filter(characteristic="rare", value="rare", part="test").row(0, named=True)
    assert (kept["n"], kept["of"], kept["reason"]) == (None, None, "withheld")
    open_ones = lines(shown(check(cohort(table, attributes=("rare",)), smallest_cell=1)))
    n = table.filter(rare="rare", split="test").height
    assert open_ones["rare", "rare"]["test"].startswith(f"{n} (")


def test_no_hidden_count_follows_from_the_counts_that_are_told() -> None:
    """In every part, a value that is not told leaves at least two counts open."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = frame(90, seed=seed).with_columns(
            ward=pl.Series(rng.choice([*"abcd", None], 90, p=[0.6, 0.3, 0.04, 0.03, 0.03]))
        )
        kept = check(cohort(table, attributes=("ward",)), smallest_cell=5).tables["table1"]
        for part in ("train", "validation", "test"):
            rows = kept.filter(characteristic="ward", part=part)
            size = kept.filter(characteristic="cases", part=part)["n"].item()
            hidden = rows["n"].is_null().sum()
            assert hidden != 1 or rows["n"].sum() == size
            if rows.filter(value="missing")["n"].is_null().any():
                assert set(rows["of"].drop_nulls()) <= {size}  # "of 29 known ones" would tell how many are missing
            cells = table.filter(split=part).group_by("ward").agg(pl.col("patient_id").n_unique())
            for value, patients in cells.rows():
                told = rows.filter(value=value or "missing")
                assert patients >= 5 or told.is_empty() or told["n"].item() is None


def test_an_attribute_with_thousands_of_values_is_named() -> None:
    table = frame(6000).with_columns(bed=pl.Series([f"bed {k % 5000}" for k in range(6000)]))
    result = check(cohort(table, attributes=("bed", "sex")))
    assert ("bed", "5,000 different values: too many to show") in lines(shown(result))
    (said,) = [finding for finding in result.findings if "'bed'" in finding.sentence]
    assert said.kind == "caveat"
    assert "5,000 different values" in said.sentence
    assert "fewer categories" in said.sentence
    assert "bed 17" not in str(result.blocks)


def test_values_beyond_the_most_frequent_are_counted_together() -> None:
    table = frame(3000).with_columns(ward=pl.Series([f"w{(k // 2) % 30:02}" for k in range(3000)]))
    found = lines(shown(check(cohort(table, attributes=("ward",)), most_values=4)))
    named = [value for name, value in found if name == "ward"]
    assert len(named) == 5
    assert named[-1] == "other (26 values)"
    total = sum(int(found["ward", value]["test"].split(" ")[0].replace(",", "")) for value in named)
    assert f"{total:,}" == found["cases", "number"]["test"]


def test_ranges_stand_in_their_order_and_few_known_values_differ_by_chance() -> None:
    rng = np.random.default_rng(1)
    bands = rng.choice(["[80-90)", "[9-10)", "[70-80)"], 3000, p=[0.5, 0.2, 0.3])
    known = rng.random(3000) < 0.02
    table = frame(3000).with_columns(
        band=pl.Series(bands), weight=pl.Series([b if k else None for b, k in zip(bands, known, strict=True)])
    )
    result = check(cohort(table, attributes=("band", "weight")), smallest_cell=1)
    assert [value for name, value in lines(shown(result)) if name == "band"] == ["[9-10)", "[70-80)", "[80-90)"]
    apart = result.estimates.filter(metric="standardised_difference", group="weight")["value"].item()
    assert apart > 0.1  # of some 60 known values: chance
    assert not any("weight" in finding.sentence for finding in result.findings)


def test_a_cohort_without_anything_else_has_its_numbers() -> None:
    table = frame(60).select("case_id", "patient_id", "ill")
    found = lines(shown(check(cohort(table, attributes=()))))
    assert set(found) >= {("cases", "number"), ("patients", "number"), ("ill", "events")}


@pytest.mark.skipif(not READMISSION.exists(), reason="the public readmission table is not on this machine")
def test_the_public_readmission_table() -> None:
    """As it is, all of its columns: the numbers of a few, counted by polars."""
    raw = pl.read_csv(READMISSION, infer_schema_length=None, null_values=["?"])
    names = [name for name in raw.columns if name not in ("encounter_id", "patient_nbr", "readmitted")]
    table = raw.with_columns(
        case_id=pl.col("encounter_id").cast(pl.String),
        patient_id=pl.col("patient_nbr").cast(pl.String),
        split=pl.when(pl.col("patient_nbr") % 2 == 0).then(pl.lit("train")).otherwise(pl.lit("test")),
        readmitted=(pl.col("readmitted") != "NO").cast(pl.Int64),
        text=pl.lit("a note"),
    )
    cases = Cohort.from_frame(table, labels=["readmitted"], name="home", attributes=names)
    result = check(cases)
    found = lines(shown(result))
    test = table.filter(split="test")
    women = test.filter(gender="Female").height
    assert found["gender", "Female"]["test"] == f"{women:,} ({women / test.height:.0%})"
    days = test["time_in_hospital"]
    wanted = [days.quantile(q, "linear") for q in (0.5, 0.25, 0.75)]
    assert found["time_in_hospital", "median (quartiles)"]["test"] == "{:g} ({:g} to {:g})".format(*wanted)
    weights = test["weight"].null_count()
    assert found["weight", "missing"]["test"] == f"{weights:,} ({weights / test.height:.0%})"
    crowded = {name for name in names if raw[name].dtype == pl.String and raw[name].n_unique() > 101}
    told = {name for name, value in found if "different values" in value}
    assert told == crowded == {"diag_1", "diag_2", "diag_3"}


def test_an_attribute_whose_values_are_all_rare_is_other() -> None:
    table = frame(12).with_columns(race=pl.format("r{}", pl.int_range(pl.len())))
    found = lines(shown(check(cohort(table))))
    assert [value for name, value in found if name == "race"] == ["other (12 values)"]


def test_weighted_numbers_stand_beside_the_counts() -> None:
    table = frame()
    weight = np.where(table["ill"].to_numpy() == 1, 1.0, 4.5)
    weighted = table.with_columns(sampling_weight=pl.Series(weight))
    result = check(cohort(weighted), smallest_cell=1)
    found, plain = lines(shown(result)), lines(shown(check(cohort(table), smallest_cell=1)))
    long = result.tables["table1"]
    for part in ("train", "test"):
        own = weighted.filter(split=part)
        mass = own["sampling_weight"].to_numpy()
        assert found["cases", "number"][part] == f"{len(own)}; weighted {mass.sum():g}"
        share = float(mass[own["ill"].to_numpy() == 1].sum() / mass.sum())
        cell = found["ill", "events"][part]
        assert cell.startswith(f"{plain['ill', 'events'][part]}; weighted {own['ill'].sum()} (")
        assert cell.endswith(f"({percent(share)})")
        ages = own.drop_nulls("age").sort("age")
        reached = np.cumsum(ages["sampling_weight"].to_numpy()) / ages["sampling_weight"].sum()
        median = float(ages["age"][int(np.searchsorted(reached, 0.5))])
        row = long.filter(part=part, characteristic="age", value="median (quartiles)").row(0, named=True)
        assert row["weighted_median"] == median
        assert f"; weighted {median:g} (" in found["age", "median (quartiles)"][part]
        race = long.filter(part=part, characteristic="race", value="b").row(0, named=True)
        known = own.filter(pl.col("race") != "")
        assert race["weighted_n"] == pytest.approx(known.filter(race="b")["sampling_weight"].sum())
        assert race["weighted_of"] == pytest.approx(known["sampling_weight"].sum())
    assert "stand for by their sampling weights" in str(shown(result).caption)
    assert "weighted" not in str(plain)


def test_what_is_not_told_has_no_weighted_number() -> None:
    table = frame(60).with_columns(sampling_weight=pl.Series(np.where(np.arange(60) % 2, 1.0, 3.0)))
    result = check(cohort(table))
    hidden = result.tables["table1"].filter(reason="withheld")
    assert hidden.height
    assert hidden["weighted_n"].is_null().all()
