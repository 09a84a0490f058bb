"""Readmission labels against a slow, obvious second implementation; who is left out, and why."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palpate.data.cohorts import BuiltCohort, check_output, side_files, write_built_cohort
from palpate.data.cohorts.readmission import ReadmissionOptions, build_readmission
from palpate.data.tables import TableSpec, read_cohort
from palpate.errors import CohortError
from tests.data.mimic_files import LAST, START, Stay, as_iv, hospital, note, with_last, write

SECOND = 1 / 86400


def labels(built: BuiltCohort) -> dict[int, int]:
    """The label of each stay that is in the cohort."""
    ids = [int(case) for case in built.cohort.cases["case_id"]]
    return dict(zip(ids, built.cohort.y.toarray().ravel().tolist(), strict=True))


def in_time(stay: Stay) -> tuple[datetime, datetime, int]:
    """The order of a patient's stays; one without a discharge is the longest."""
    return stay.admitted, stay.discharged or datetime.max, stay.id


def slow_labels(stays: list[Stay], options: ReadmissionOptions) -> dict[int, int]:
    """The rules of appendix A.2 and the options, one stay at a time, in plain Python."""
    month = timedelta(days=options.days)
    latest = max(stay.admitted for stay in stays)
    answer = {}
    for stay in stays:
        end = stay.discharged
        if end is None or end < stay.admitted:
            continue
        if stay.died and options.deaths == "drop":
            continue
        if stay.kind == "NEWBORN" and options.newborns == "drop":
            continue
        if latest - end < month:
            continue
        if stay.died:
            answer[stay.id] = 0
            continue
        later = sorted(
            (other for other in stays if other.patient == stay.patient and in_time(other) > in_time(stay)), key=in_time
        )
        label: int | None = 0
        for other in later:
            begin = other.admitted
            rules = []
            if begin < end:
                rules.append(options.overlaps)
            if timedelta(0) <= begin - end <= timedelta(hours=options.transfer_hours):
                rules.append(options.transfers)
            if other.kind == "ELECTIVE":
                rules.append(options.electives)
            if "ignore" in rules:
                continue
            if begin - end <= month:
                label = None if "drop" in rules else 1
            break
        if label is not None:
            answer[stay.id] = label
    return answer


def build(folder: Path, stays: list[Stay], **options: object) -> BuiltCohort:
    chosen = ReadmissionOptions.model_validate(options)
    return build_readmission(write(folder, hospital(stays)), options=chosen)


EDGES: dict[str, tuple[list[Stay], dict[str, object], dict[int, int]]] = {
    "exactly 30 days": ([Stay(1, 0, 5, 1), Stay(1, 35, 40, 2)], {}, {1: 1, 2: 0}),
    "30 days and a second": ([Stay(1, 0, 5, 1), Stay(1, 35 + SECOND, 40, 2)], {}, {1: 0, 2: 0}),
    "the same second": ([Stay(1, 0, 5, 1), Stay(1, 5, 40, 2)], {}, {1: 1, 2: 0}),
    "never again": ([Stay(1, 0, 5, 1)], {}, {1: 0}),
    "another patient": ([Stay(1, 0, 5, 1), Stay(2, 10, 11, 2)], {}, {1: 0, 2: 0}),
    "overlap, then a return": ([Stay(1, 0, 5, 1), Stay(1, 4, 6, 2), Stay(1, 20, 21, 3)], {}, {1: 1, 2: 1, 3: 0}),
    "overlap only": ([Stay(1, 0, 5, 1), Stay(1, 4, 6, 2)], {}, {1: 0, 2: 0}),
    "overlap counted": ([Stay(1, 0, 5, 1), Stay(1, 4, 6, 2)], {"overlaps": "count"}, {1: 1, 2: 0}),
    "overlap dropped": ([Stay(1, 0, 5, 1), Stay(1, 4, 6, 2)], {"overlaps": "drop"}, {2: 0}),
    "death": ([Stay(1, 0, 5, 1), Stay(1, 9, 10, 2, died=True)], {}, {1: 1}),
    "death kept": ([Stay(1, 0, 5, 1), Stay(1, 9, 10, 2, died=True)], {"deaths": "keep"}, {1: 1, 2: 0}),
    "organ donor kept": (
        [Stay(1, 0, 9, 40, died=True), Stay(1, 9.1, 10, 41, died=True)],
        {"deaths": "keep"},
        {40: 0, 41: 0},
    ),
    "organ donor kept, transfers dropped": (
        [Stay(1, 0, 9, 40, died=True), Stay(1, 9.1, 10, 41, died=True)],
        {"deaths": "keep", "transfers": "drop"},
        {40: 0, 41: 0},
    ),
    "no time at all, then a stay with a lower id": ([Stay(1, 9, 9, 100), Stay(1, 9, 11, 99)], {}, {100: 1, 99: 0}),
    "no time at all, then a stay without an end": ([Stay(1, 9, 9, 100), Stay(1, 9, None, 99)], {}, {100: 1}),
    "newborn": ([Stay(1, 0, 5, 1, "NEWBORN"), Stay(1, 9, 10, 2)], {}, {2: 0}),
    "newborn kept": ([Stay(1, 0, 5, 1, "NEWBORN"), Stay(1, 9, 10, 2)], {"newborns": "keep"}, {1: 1, 2: 0}),
    "transfer": ([Stay(1, 0, 5, 1), Stay(1, 5.5, 9, 2), Stay(1, 80, 81, 3)], {}, {1: 1, 2: 0, 3: 0}),
    "transfer ignored": (
        [Stay(1, 0, 5, 1), Stay(1, 5.5, 9, 2), Stay(1, 30, 31, 3)],
        {"transfers": "ignore", "transfer_hours": 12},
        {1: 1, 2: 1, 3: 0},
    ),
    "transfer dropped": ([Stay(1, 0, 5, 1), Stay(1, 5.5, 9, 2)], {"transfers": "drop", "transfer_hours": 12}, {2: 0}),
    "no transfer": ([Stay(1, 0, 5, 1), Stay(1, 5.6, 9, 2)], {"transfers": "drop", "transfer_hours": 12}, {1: 1, 2: 0}),
    "elective": ([Stay(1, 0, 5, 1), Stay(1, 9, 10, 2, "ELECTIVE")], {}, {1: 1, 2: 0}),
    "elective ignored": (
        [Stay(1, 0, 5, 1), Stay(1, 9, 10, 2, "ELECTIVE"), Stay(1, 20, 21, 3)],
        {"electives": "ignore"},
        {1: 1, 2: 1, 3: 0},
    ),
    "elective dropped": ([Stay(1, 0, 5, 1), Stay(1, 9, 10, 2, "ELECTIVE")], {"electives": "drop"}, {2: 0}),
    "elective after a year": (
        [Stay(1, 0, 5, 1), Stay(1, 370, 371, 2, "ELECTIVE")],
        {"electives": "drop"},
        {1: 0, 2: 0},
    ),
    "no discharge time": ([Stay(1, 0, None, 1), Stay(1, 9, 10, 2)], {}, {2: 0}),
    "backwards": ([Stay(1, 3, 0, 1), Stay(1, 9, 10, 2)], {}, {2: 0}),
    "a week": ([Stay(1, 0, 5, 1), Stay(1, 12, 13, 2), Stay(1, 21, 22, 3)], {"days": 7}, {1: 1, 2: 0, 3: 0}),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge(name: str, tmp_path: Path) -> None:
    stays, options, expected = EDGES[name]
    built = build(tmp_path, with_last(stays), **options)
    assert labels(built) == expected
    assert slow_labels(with_last(stays), ReadmissionOptions.model_validate(options)) == expected


def test_the_last_month_is_left_out_even_if_positive(tmp_path: Path) -> None:
    last = (LAST - START).days
    stays = [
        Stay(1, last - 40, last - 30, 1),
        Stay(2, last - 40, last - 30 + SECOND, 2),
        Stay(3, last - 20, last - 15, 3),
        Stay(3, last - 10, last - 9, 4),
    ]
    built = build(tmp_path, with_last(stays))
    assert labels(built) == {1: 0}
    step = next(step for step in built.flow if "observed" in step.name)
    assert (step.n_cases, step.n_dropped) == (1, 4)


RULES = ("count", "ignore", "drop")
moments = st.integers(0, 200).map(lambda k: k / 2)


@st.composite
def histories(draw: st.DrawFn) -> list[Stay]:
    stays = []
    for k in range(draw(st.integers(1, 12))):
        begin = draw(moments)
        length = draw(st.sampled_from([0, 0.5, 1, 5, 30, -1]))
        end = None if draw(st.integers(0, 15)) == 0 else begin + length
        kind = draw(st.sampled_from(["EMERGENCY", "URGENT", "ELECTIVE", "NEWBORN"]))
        stays.append(Stay(draw(st.integers(1, 4)), begin, end, k + 1, kind, draw(st.integers(0, 5)) == 0))
    return stays


@pytest.mark.slow
@given(
    stays=histories(),
    rules=st.tuples(*[st.sampled_from(RULES)] * 3),
    kept=st.tuples(*[st.sampled_from(["drop", "keep"])] * 2),
    hours=st.sampled_from([0, 12, 36]),
    far=st.booleans(),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_drawn_histories(
    tmp_path_factory: pytest.TempPathFactory,
    stays: list[Stay],
    rules: tuple[str, str, str],
    kept: tuple[str, str],
    hours: int,
    far: bool,
) -> None:
    overlaps, transfers, electives = rules
    options = ReadmissionOptions.model_validate(
        {
            **{"overlaps": overlaps, "transfers": transfers, "electives": electives, "transfer_hours": hours},
            **{"deaths": kept[0], "newborns": kept[1]},
        }
    )
    stays = with_last(stays) if far else stays
    expected = slow_labels(stays, options)
    folder = write(tmp_path_factory.mktemp("drawn"), hospital(stays))
    if not expected:
        with pytest.raises(CohortError, match="no cases are left"):
            build_readmission(folder, options=options)
        return
    built = build_readmission(folder, options=options)
    assert labels(built) == expected
    assert built.flow[-1].n_cases == len(expected)


def people(n: int) -> list[Stay]:
    return with_last([Stay(p, 40 * k, 40 * k + 3 + p % 9 * k, 10 * p + k) for p, k in product(range(1, n), range(3))])


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("lower", [False, True])
def test_formats_and_cases_give_the_same_cohort(suffix: str, lower: bool, tmp_path: Path) -> None:
    tables = hospital(people(20))
    reference = build_readmission(write(tmp_path / "a", tables))
    other = build_readmission(write(tmp_path / "b", tables, suffix=suffix, lower=lower))
    assert other.flow == reference.flow
    assert other.cohort.fingerprint == reference.cohort.fingerprint


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet"])
def test_mimic_iv_gives_the_same_labels(suffix: str, tmp_path: Path) -> None:
    tables = hospital(people(20))
    third = build_readmission(write(tmp_path / "a", tables))
    fourth = build_readmission(write(tmp_path / "b", as_iv(tables), suffix=suffix))
    assert labels(fourth) == labels(third)
    same = [
        "case_id",
        "patient_id",
        "split",
        "time",
        "text",
        "gender",
        "ethnicity",
        "insurance",
        "admission_type",
        "age",
    ]
    assert fourth.cohort.cases.select(same).equals(third.cohort.cases.select(same))


def test_attributes_and_time(tmp_path: Path) -> None:
    stays = with_last([Stay(1, 0, 5, 11), Stay(2, 0.5, 6, 12)])
    tables = hospital(stays)
    tables["PATIENTS"][1]["DOB"] = "1850-01-01 00:00:00"
    case, old = build_readmission(write(tmp_path, tables)).cohort.cases.rows(named=True)
    assert case["age"] == 49  # born in June 2100, admitted in January 2150
    assert old["age"] == 91  # shifted by 300 years
    assert (case["gender"], case["ethnicity"], case["insurance"]) == ("F", "WHITE", "Medicare")
    assert (case["time"], case["patient_id"], case["admission_type"]) == (stays[0].discharged, "1", "EMERGENCY")


def test_addenda_follow_their_summary_in_time_order(tmp_path: Path) -> None:
    stay = Stay(1, 0, 5, 1)
    notes = [
        note(1, stay, "second addendum", DESCRIPTION="Addendum", CHARTDATE="2150-03-02"),
        note(2, stay, "first addendum", DESCRIPTION="Addendum", CHARTDATE="2150-03-01"),
        note(3, stay, "summary", CHARTDATE="2150-03-01"),
        note(4, stay, "wrong", ISERROR=1),
        note(5, stay, "nursing", CATEGORY="Nursing"),
    ]
    folder = write(tmp_path, hospital(with_last([stay]), notes))
    built = build_readmission(folder)
    (text,) = built.cohort.texts
    mark = "\n\n===== ADDENDUM =====\n\n"
    assert text == f"summary{mark}first addendum{mark}second addendum"
    left = build_readmission(folder, options=ReadmissionOptions(addenda="leave"))
    assert left.cohort.texts == ["summary"]
    assert [step.n_dropped for step in built.flow[:2]] == [0, 1]


def test_several_summaries(tmp_path: Path) -> None:
    stay = Stay(1, 0, 5, 1)
    texts = {"2150-03-03": "late", "2150-03-01": "early", "2150-03-02": "early"}
    notes = [note(k, stay, text, CHARTDATE=day) for k, (day, text) in enumerate(texts.items())]
    notes.append(note(9, stay, "more", DESCRIPTION="Addendum", CHARTDATE="2150-03-01"))
    folder = write(tmp_path, hospital(with_last([stay]), notes))

    def text(how: str) -> str:
        return build_readmission(folder, options=ReadmissionOptions.model_validate({"summaries": how})).cohort.texts[0]

    more = "\n\n===== ADDENDUM =====\n\nmore"
    assert text("join") == f"early\n\n===== FURTHER DISCHARGE SUMMARY =====\n\nlate{more}"
    assert text("first") == f"early{more}"
    assert text("last") == f"late{more}"


def test_notes_without_a_stay_are_counted(tmp_path: Path) -> None:
    stays = with_last([Stay(1, 0, 5, 1), Stay(2, 0, 5, 2), Stay(3, 0, 5, 3)])
    notes = [
        note(1, stays[0]),
        note(2, stays[1], HADM_ID=None),
        note(3, stays[1], HADM_ID=77),
        note(4, stays[1], SUBJECT_ID=1),
        note(5, stays[2], "an addendum", DESCRIPTION="Addendum"),
        note(6, stays[2], "  \n"),
    ]
    built = build_readmission(write(tmp_path, hospital(stays, notes)))
    assert labels(built) == {1: 0}
    assert {step.reason: step.n_dropped for step in built.flow[1:7]} == {
        "ISERROR is 1": 0,
        "the note is blank": 1,
        "HADM_ID is empty": 1,
        "HADM_ID is not in ADMISSIONS": 1,
        "SUBJECT_ID differs from the one in ADMISSIONS": 1,
        "an addendum without a summary": 1,
    }
    assert (built.flow[0].n_cases, built.flow[0].n_patients) == (6, 3)


def test_files_beside_the_cohort(tmp_path: Path) -> None:
    built = build(tmp_path / "tables", people(30))
    out = tmp_path / "made" / "readmission.parquet"
    write_built_cohort(built, out)
    flow_file, splits_file = side_files(out)
    assert sorted(path.name for path in out.parent.iterdir()) == sorted(p.name for p in (out, flow_file, splits_file))
    again = read_cohort(TableSpec(file=out), name="readmission")
    assert again.fingerprint == built.cohort.fingerprint
    flow = pl.read_csv(flow_file)
    assert flow["n_cases"].to_list() == [step.n_cases for step in built.flow]
    # The saved split, used again with another seed, is the same split.
    options = ReadmissionOptions(splits=splits_file, seed=9)
    same = build_readmission(tmp_path / "tables", options=options)
    assert same.cohort.fingerprint == built.cohort.fingerprint


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(tmp_path / "tables", people(5))
    out = tmp_path / "made" / "readmission.parquet"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("palpate.data.cohorts.write_cohort", full)
    with pytest.raises(CohortError, match="No space left"):
        write_built_cohort(built, out)
    assert list(out.parent.iterdir()) == []


def test_a_cohort_is_parquet(tmp_path: Path) -> None:
    with pytest.raises(CohortError, match="Parquet"):
        check_output(tmp_path / "cohort.csv")


def test_patients_absent_from_a_given_split_are_left_out(tmp_path: Path) -> None:
    given_file = tmp_path / "mine.csv"
    given_file.write_text("SUBJECT_ID,split\n1,test\n2,dev\n")
    built = build(tmp_path / "tables", people(5), splits=given_file)
    assert set(built.splits.rows()) == {("1", "test"), ("2", "validation")}
    assert built.flow[-2].n_dropped == 6


def test_progress_is_told_in_stages(tmp_path: Path) -> None:
    said: list[str] = []
    build_readmission(write(tmp_path, hospital(people(3)), suffix=".csv.gz"), progress=said.append)
    assert any("NOTEEVENTS.csv.gz" in line for line in said)
    assert len(said) >= 5


def test_awkward_folder_names(tmp_path: Path) -> None:
    folder = tmp_path / "it's [a] *test?"
    assert len(build(folder, people(3)).cohort) == 6


def test_two_stays_at_the_same_time_are_in_order_of_their_ids(tmp_path: Path) -> None:
    stays = with_last([Stay(1, 0, 0, 2), Stay(1, 0, 0, 1)])
    assert labels(build(tmp_path, stays)) == {1: 1, 2: 0}
    assert labels(build(tmp_path, [dataclasses.replace(s) for s in reversed(stays)])) == {1: 1, 2: 0}
