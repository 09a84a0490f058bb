"""MEDS: what was known at the prediction time and not a second later; splits, attributes, labels; broken shards."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.commands.build import build_cohort
from palpate.data.cohorts import BuiltCohort, FlowStep
from palpate.data.cohorts.meds import MedsOptions, build_meds
from palpate.data.hospitals.records import NOTE_MARK
from palpate.errors import InputError
from palpate.models.adapters.predictions import load
from palpate.testing.reader_contract import check_reader_contract
from tests.data.standards.test_omop import labels, texts
from tests.e2e.command_line import CommandLine

START = datetime(2030, 1, 1, 12)
SCHEMA = {"subject_id": pl.Int64, "time": pl.Datetime("us"), "code": pl.String, "numeric_value": pl.Float32, "text_value": pl.String}  # fmt: skip  # noqa: E501
Event = tuple[int, float | None, str, float | None, str | None]


def at(days: float | None) -> datetime | None:
    return None if days is None else START + timedelta(days=days)


def note(who: int, days: float | None, text: str, code: str = "NOTE//discharge") -> Event:
    return (who, days, code, None, text)


def events() -> list[Event]:
    return [
        *[(1, None, "GENDER//F", None, None), (1, None, "RACE//WHITE//OTHER", None, None)],
        *[(1, -29000, "MEDS_BIRTH", None, None), note(1, 0, "First."), note(1, 5, "Second."), note(1, 9, "Third.")],
        *[(2, None, "SEX//male", None, None), (2, None, "HEIGHT", 180.5, None), note(2, 1, "Other.")],
        (2, 2, "LAB//culture", None, "positive"),
        note(3, 0, "Lonely."),
    ]


TIMES = [(1, 5.0, True), (1, 20.0, False), (2, 3.0, False), (3, 1.0, True)]


def write(
    folder: Path,
    rows: Sequence[Event],
    times: Sequence[tuple[int, float, Any]] = TIMES,
    *,
    value: str = "boolean_value",
    splits: dict[int, str] | None = None,
) -> Path:
    """A shard for each subject of `events`, labels of the task `soon`, and splits."""
    ordered = sorted({row[0] for row in rows})
    for subject in ordered:
        own = [(who, at(days), code, number, text) for who, days, code, number, text in rows if who == subject]
        file = folder / "data" / "train" / f"{subject}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(own, schema=SCHEMA, orient="row").sort("time", nulls_last=False, maintain_order=True).write_parquet(file)  # fmt: skip  # noqa: E501
    task = folder / "task_labels" / "soon"
    task.mkdir(parents=True, exist_ok=True)
    frame = pl.DataFrame([(who, at(days), y) for who, days, y in times], orient="row", schema=["subject_id", "prediction_time", value])  # fmt: skip  # noqa: E501
    frame.write_parquet(task / "0.parquet.parquet")
    (folder / "metadata").mkdir(exist_ok=True)
    named = splits or {1: "train", 2: "tuning", 3: "held_out"}
    pl.DataFrame({"subject_id": list(named), "split": list(named.values())}).write_parquet(
        folder / "metadata" / "subject_splits.parquet"
    )
    return folder


def build(folder: Path, **options: object) -> BuiltCohort:
    return build_meds(folder, options=MedsOptions.model_validate(options))


def test_a_small_data_set(tmp_path: Path) -> None:
    built = build(write(tmp_path, events()))
    assert texts(built) == {
        "1/2030-01-06T12:00:00": f"First.{NOTE_MARK}Second.",  # at the prediction time itself: included
        "1/2030-01-21T12:00:00": f"First.{NOTE_MARK}Second.{NOTE_MARK}Third.",
        "2/2030-01-04T12:00:00": "Other.",
        "3/2030-01-02T12:00:00": "Lonely.",
    }
    assert list(labels(built).values()) == [1, 0, 0, 1]
    cases = built.cohort.cases
    assert cases["split"].to_list() == ["train", "train", "validation", "test"]
    assert cases["gender"].to_list() == ["F", "F", "M", None]
    assert cases["race"].to_list() == ["WHITE//OTHER", "WHITE//OTHER", None, None]
    assert cases["age"].to_list() == [79, 79, None, None]
    assert built.cohort.labels == ("soon",)
    assert build(tmp_path, attributes="HEIGHT").cohort.cases["height"].to_list() == [None, None, 180.5, None]
    assert set(build(tmp_path, last=1).cohort.texts) == {"Second.", "Third.", "Other.", "Lonely."}
    assert "First." not in texts(build(tmp_path, window_days=12))["1/2030-01-21T12:00:00"]
    assert build(tmp_path, notes="lab//*").cohort.texts == ["positive"]


def test_several_values_at_once_are_joined_and_counted(tmp_path: Path) -> None:
    """Whatever their order in the shard; two spellings of one gender are one value, and a later code stands alone."""
    more: list[Event] = [
        *[(1, None, "GENDER//M", None, None), (1, None, "RACE//ASIAN", None, None)],
        *[(2, None, "GENDER//M", None, None), (2, None, "HEIGHT", 99.5, None)],
        *[(3, None, "GENDER//F", None, None), (3, 0, "GENDER//M", None, None)],
    ]
    for rows in (events() + more, more + events()):
        built = build(write(tmp_path, rows), attributes="GENDER,SEX,RACE,HEIGHT")
        cases = built.cohort.cases
        assert cases["gender"].to_list() == ["F, M", "F, M", "M", "M"]
        assert cases["race"].to_list() == ["ASIAN, WHITE//OTHER"] * 2 + [None, None]
        assert cases["height"].to_list() == [None, None, 99.5, None]
        said = [step.name for step in built.flow if "several values" in step.name]
        assert said == [
            "gender: 1 subject with several values at once, joined by commas",
            "height: 1 subject with several values at once, the lowest is used",
            "race: 1 subject with several values at once, joined by commas",
        ]


def test_names_in_capitals(tmp_path: Path) -> None:
    expected = build(write(tmp_path / "a", events())).cohort.fingerprint
    for file in write(tmp_path / "b", events()).rglob("data/*/1.parquet"):
        file.rename(file.with_name("1.PARQUET"))
    assert build(tmp_path / "b").cohort.fingerprint == expected


def test_the_contract_of_readers(tmp_path: Path) -> None:
    assert len(check_reader_contract(build, write(tmp_path / "meds", events()))) == 4


@settings(max_examples=6, deadline=None)
@given(
    notes=st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 500)), min_size=1, max_size=40),
    times=st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 500)), min_size=1, max_size=15, unique=True),
)
def test_notes_up_to_and_including_the_prediction_time(
    notes: list[tuple[int, int]], times: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hours of notes and predictions, compared with every note one by one."""
    rows = [note(who, hour / 24, f"Note {k}.") for k, (who, hour) in enumerate(notes)]
    rows += [(who, -400, "MEDS_BIRTH", None, None) for who in (1, 2, 3)]
    expected = {}
    for who, hour in times:
        mine = sorted((then, k) for k, (other, then) in enumerate(notes) if other == who and then <= hour)
        if mine:
            expected[f"{who}/{at(hour / 24):%Y-%m-%dT%H:%M:%S}"] = [f"Note {k}." for _, k in mine]
    folder = tmp_path_factory.mktemp("meds")
    write(folder, rows, [(who, hour / 24, True) for who, hour in times])
    if not expected:
        return
    found = {case: sorted(text.split(NOTE_MARK)) for case, text in texts(build(folder)).items()}
    assert found == {case: sorted(said) for case, said in expected.items()}


def test_notes_after_the_last_prediction_change_nothing(tmp_path: Path) -> None:
    before = build(write(tmp_path, events())).cohort.fingerprint
    later = [note(1, 20 + 1e-9, "Later."), (1, 21, "RACE//BLACK", None, None), note(3, 1.5, "Later."), note(2, 99, "x")]
    assert build(write(tmp_path, [*events(), *later])).cohort.fingerprint == before


def test_labels_of_other_kinds(tmp_path: Path) -> None:
    plain = labels(build(write(tmp_path / "b", events())))
    for value, positive in (("integer_value", (0, 1)), ("float_value", (0.0, 1.0)), ("label", (0, 1))):
        times = [(who, days, positive[int(y)]) for who, days, y in TIMES]
        assert labels(build(write(tmp_path / value, events(), times, value=value))) == plain
    frame = pl.read_parquet(tmp_path / "label" / "task_labels" / "soon" / "0.parquet.parquet")
    frame.rename({"prediction_time": "index_timestamp"}).write_parquet(tmp_path / "aces.parquet")  # ACES's own names
    assert labels(build(tmp_path / "label", labels=tmp_path / "aces.parquet")) == plain
    days = [(who, when, [3.5, 12.0][int(y)]) for who, when, y in TIMES]
    assert labels(build(write(tmp_path / "f", events(), days, value="float_value"), above=10)) == plain
    kinds = [(who, when, ["home", "rehab"][int(y)]) for who, when, y in TIMES]
    assert build(write(tmp_path / "c", events(), kinds, value="categorical_value")).cohort.labels == ("home", "rehab")
    some = [(who, when, y if who == 1 else None) for who, when, y in TIMES]
    assert len(build(write(tmp_path / "n", events(), some)).cohort) == 2


def test_shards_alone_with_folders_as_splits_and_labels_elsewhere(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", events())
    alone = tmp_path / "alone"
    for name, subject in (("train", 1), ("tuning", 2), ("held_out", 3)):
        (alone / name).mkdir(parents=True)
        frame = pl.read_parquet(whole / "data" / "train" / f"{subject}.parquet")
        frame.drop("numeric_value").write_parquet(alone / name / "0.parquet")
    task = whole / "task_labels" / "soon"
    assert build(alone, labels=task).cohort.fingerprint == build(whole).cohort.fingerprint
    assert (
        build(alone, labels=task / "0.parquet.parquet", task="soon", split="draw").flow[-2].name.startswith("split 0.7")
    )


def test_no_notes_at_all(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", [row for row in events() if not row[2].startswith("NOTE")])
    built = build(folder)
    assert not built.cohort.has_text
    assert built.cohort.cases["patient_id"].to_list() == ["1", "1", "2"]  # subject 3 has no event left
    assert not build(folder, text="leave").cohort.has_text


def test_notes_without_a_time_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", [*events(), note(1, None, "When?"), note(3, None, "When?")])
    built = build(folder)
    assert built.cohort.fingerprint == build(write(tmp_path / "plain", events())).cohort.fingerprint
    assert built.flow[:2] == (FlowStep("notes", 7, 3), FlowStep("notes with a time", 5, 3, 2, "the event has no time"))
    bare = [row for row in events() if not row[2].startswith("NOTE")] + [
        note(3, None, "When?"),
        (3, 0, "x", None, None),
    ]
    built = build(write(tmp_path / "bare", bare))
    assert not built.cohort.has_text
    assert built.flow[1] == FlowStep("notes with a time", 0, 0, 1, "the event has no time")
    assert "none of the 1 notes has a time; write the times of notes" in refused(tmp_path / "bare", "text=require")


def refused(folder: Path, *overrides: str) -> str:
    with pytest.raises(InputError) as caught:
        build_cohort("meds", folder, folder.parent / "cohort.parquet", overrides=overrides)
    assert not list(folder.parent.glob("cohort*"))
    assert "First." not in str(caught.value)
    return str(caught.value)


def test_broken_data_sets(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    shard = folder / "data" / "train" / "1.parquet"
    frame = pl.read_parquet(shard)
    two = pl.concat([frame, pl.read_parquet(folder / "data" / "train" / "2.parquet")])
    (folder / "data" / "train" / "2.parquet").unlink()

    def wrong(rows: pl.DataFrame) -> str:
        rows.write_parquet(shard)
        return refused(folder)

    assert "1.parquet, row 7, column 'subject_id': subject 1 occurs again" in wrong(two[[0, 1, 2, 6, 7, 8, 3, 4, 5]])
    assert "1.parquet, row 5, column 'time': the event is earlier" in wrong(frame[[0, 1, 2, 4, 3, 5]])
    assert "row 4, column 'time': the event is earlier" in wrong(frame[[0, 2, 3, 1]])
    assert "column 'time': column not found" in wrong(frame.rename({"time": "when"}))
    assert "the column holds String, not times" in wrong(frame.with_columns(pl.col("time").cast(pl.String)))
    empty = frame.with_columns(pl.when(pl.col("time") == at(5)).then(None).otherwise("subject_id").alias("subject_id"))
    assert "row 5, column 'subject_id': the cell is empty" in wrong(empty)
    frame.write_parquet(shard)
    frame.write_parquet(shard.with_name("9.parquet"))
    assert "subject 1 is also in" in refused(folder)
    shard.with_name("9.parquet").write_bytes(b"PAR1")
    assert "9.parquet" in refused(folder)


def test_labels_that_do_not_fit(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events(), [(1, 5, 2.5)], value="float_value")
    assert "the labels are numbers other than 0 and 1" in refused(folder)
    assert "two labels for the prediction time" in refused(write(tmp_path / "meds", events(), [(1, 5, True)] * 2))
    assert "no event by the prediction time" in refused(write(tmp_path / "meds", events(), [(7, 5, True)]))
    assert "codes with text are: NOTE//discharge" in refused(write(folder, events()), "notes=LETTER*")
    (folder / "task_labels" / "other").mkdir()
    (folder / "task_labels" / "soon" / "0.parquet.parquet").rename(folder / "task_labels" / "other" / "0.parquet")
    write(folder, events())
    assert "which task? The tasks are: other, soon; choose with `--set task=NAME`" in refused(folder)
    assert "the split 'mine' is not known" in refused(write(folder, events(), splits={1: "mine"}), "task=soon")


@pytest.mark.parametrize("names", [("part.1.parquet", "part.2.parquet"), ("0.parquet", "0.PARQUET")])
def test_shards_whose_names_are_alike(names: tuple[str, str], tmp_path: Path) -> None:
    folder = write(tmp_path, events())
    expected = texts(build(folder))
    for subject, name in zip((1, 2), names, strict=True):
        (folder / "data" / "train" / f"{subject}.parquet").rename(folder / "data" / "train" / name)
    assert texts(build(folder)) == expected


@pytest.mark.parametrize("name", ["text", "age", "gender", "case_id", "time", "split", "patient_id", "Race"])
def test_labels_named_as_other_columns(name: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    (folder / "task_labels" / "soon").rename(folder / "task_labels" / name)
    said = refused(folder)
    assert f"task_labels/{name}: the task is called '{name}', which is also the name of another column" in said
    assert "rename it" in said
    assert build(folder, labels=folder / "task_labels" / name, task="soon").cohort.labels == ("soon",)
    kinds = [(who, when, [name, "home"][int(y)]) for who, when, y in TIMES]
    said = refused(write(tmp_path / "kinds", events(), kinds, value="categorical_value"))
    assert f"the value of categorical_value is called '{name}'" in said


def test_tasks_in_nested_folders(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    root = folder / "task_labels"
    whole = pl.read_parquet(root / "soon" / "0.parquet.parquet")
    shutil.rmtree(root)
    for place, rows in (("icu/day/train", whole[:2]), ("icu/day/held_out", whole[2:]), ("ward/day", whole[:1])):
        (root / place).mkdir(parents=True)
        rows.write_parquet(root / place / "0.parquet")
    assert "The tasks are: icu/day, ward/day" in refused(folder)
    assert build(folder, task="icu/day").cohort.labels == ("icu/day",)
    assert [len(build(folder, task=task).cohort) for task in ("icu/day", "ward/day")] == [4, 1]
    shutil.rmtree(root)
    for split, rows in (("train", whole[:2]), ("tuning", whole[2:])):
        (root / split).mkdir(parents=True)
        rows.write_parquet(root / split / "0.parquet")
    assert len(build(folder).cohort) == 4  # no task has a folder: those of splits are shards of one


def test_times_that_cannot_be_compared(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    file = folder / "task_labels" / "soon" / "0.parquet.parquet"
    frame = pl.read_parquet(file)
    for zone in ("America/New_York", "UTC"):
        frame.with_columns(pl.col("prediction_time").dt.replace_time_zone(zone)).write_parquet(file)
        said = f"0.parquet.parquet, column 'prediction_time': the times are in the time zone {zone}, but times of MEDS"
        assert said in refused(folder)
    frame.cast({"prediction_time": pl.String}).write_parquet(file)
    assert "column 'prediction_time': the column holds String, not times" in refused(folder)
    frame.cast({"subject_id": pl.String}).write_parquet(file)
    assert "column 'subject_id': the column holds String, not whole numbers" in refused(folder)
    frame.write_parquet(file)
    shard = folder / "data" / "train" / "1.parquet"
    pl.read_parquet(shard).with_columns(pl.col("time").dt.replace_time_zone("UTC")).write_parquet(shard)
    assert "1.parquet, column 'time': the times are in the time zone UTC" in refused(folder)


def test_labels_as_csv(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    pl.read_parquet(folder / "task_labels" / "soon" / "0.parquet.parquet").write_csv(tmp_path / "soon.csv")
    assert "soon.csv: labels of MEDS are Parquet files" in refused(folder, f"labels={tmp_path / 'soon.csv'}")


def test_splits_that_do_not_fit(tmp_path: Path) -> None:
    folder = write(tmp_path / "meds", events())
    file = folder / "metadata" / "subject_splits.parquet"
    frame = pl.read_parquet(file)
    twice = pl.DataFrame({"subject_id": [3], "split": ["train"]})
    pl.concat([frame, twice]).write_parquet(file)
    assert "subject_splits.parquet, column 'subject_id': subject 3 is in two splits" in refused(folder)
    pl.concat([frame, frame, twice.with_columns(split=pl.lit(None, pl.String))]).write_parquet(file)
    assert build(folder).cohort.cases["split"].to_list() == ["train", "train", "validation", "test"]
    file.write_bytes(file.read_bytes()[:-20])
    assert "subject_splits.parquet: the file is damaged or is not a Parquet file" in refused(folder)
    assert len(build(folder, split="draw").cohort) == 4


# --- predictions, in and out --------------------------------------------------------------------------------


def predictions(file: Path, built: BuiltCohort) -> pl.DataFrame:
    cases = built.cohort.cases
    frame = pl.DataFrame(
        {
            "subject_id": cases["patient_id"].cast(pl.Int64),
            "prediction_time": cases["time"],
            "boolean_value": built.cohort.y.toarray()[:, 0].astype(bool),
            "predicted_boolean_value": [True, False, False, True],
            "predicted_boolean_probability": [0.9, 0.2, 0.4, 0.7],
        }
    )
    frame.write_parquet(file)
    return frame


def prepared(palpate: CommandLine, place: Path) -> pl.DataFrame:
    """A cohort, an audit and the predictions of another's model, all in the current folder."""
    folder = write(place / "meds", events(), splits=dict.fromkeys((1, 2, 3), "held_out"))
    assert palpate("cohort", "meds", "--source", folder, "--out", "c.parquet").code == 0
    Path("audit.yaml").write_text(
        "cohort: c.parquet\nmodels: {theirs: 'predictions:p.parquet'}\naudits: {performance: {n_replicates: 100}}\n"
    )
    return predictions(place / "p.parquet", build(folder))


def test_predictions_in_and_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    given = prepared(palpate, tmp_path)
    ran = palpate("audit", "audit.yaml", "--out", "run")
    assert ran.code == 0, ran.err
    made = palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "out.parquet")
    assert (made.code, "4 rows" in made.out) == (0, True), made.err
    exported = pl.read_parquet("out.parquet")
    assert exported.equals(given.sort("subject_id", "prediction_time"))
    assert exported.schema == given.schema
    given.write_csv("p.csv")
    again = load("p.csv", {}, folder=tmp_path)
    assert again.labels == ("predicted_boolean_probability",)
    assert palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "out.csv").code == 2
    assert "no model 'x'" in palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "o.parquet", "--model", "x").err  # fmt: skip  # noqa: E501


def test_predictions_with_other_labels_than_the_cohort(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are of another task, or reversed."""
    palpate = CommandLine(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    given = prepared(palpate, tmp_path)
    reversed_ = given.with_columns(~pl.col("boolean_value"))
    for wrong, n in ((reversed_, 4), (given.with_columns(boolean_value=pl.lit(1)), 2)):
        wrong.write_parquet("p.parquet")
        ran = palpate("audit", "audit.yaml", "--out", "run")
        said = (
            f"model 'theirs': of 4 cases, {n} have another label in the model's file than in the cohort, such as case"
        )
        assert (ran.code, said in ran.err) == (2, True), ran.err
        assert not Path("run").exists()
    # What the file does not say is no contradiction.
    given.with_columns(boolean_value=pl.lit(None, pl.Boolean)).write_parquet("p.parquet")
    assert palpate("audit", "audit.yaml", "--out", "run").code == 0


def test_only_the_audited_split_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    palpate = CommandLine(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / "meds", events(), splits={1: "held_out", 2: "tuning", 3: "tuning"})
    assert palpate("cohort", "meds", "--source", folder, "--out", "c.parquet").code == 0
    predictions(tmp_path / "p.parquet", build(folder))
    Path("audit.yaml").write_text(
        "cohort: c.parquet\nmodels: {theirs: 'predictions:p.parquet'}\naudits: {performance: {n_replicates: 100}}\n"
    )
    ran = palpate("audit", "audit.yaml", "--out", "run")
    assert ran.code == 0, ran.err
    for options, subjects, left_out in (
        ((), [1, 1], "2 scored cases of other splits were left out"),
        (("--split", "validation"), [2, 3], "2 scored cases of other splits were left out"),
        (("--split", "all"), [1, 1, 2, 3], ""),
    ):
        made = palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "out.parquet", *options)
        assert pl.read_parquet("out.parquet")["subject_id"].to_list() == subjects, made.err
        assert left_out in made.out
        assert bool(left_out) == ("left out" in made.out)
    wrong = palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "out.parquet", "--split", "held_out")
    assert (wrong.code, "the cohort has no case in split 'held_out'; choose one with --split: all, test" in wrong.err) == (2, True), wrong.err  # fmt: skip  # noqa: E501


def test_the_export_of_one_split_is_read_by_a_cohort_with_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """meds-evaluation's files are of held-out cases; only the threshold would need the others."""
    palpate = CommandLine(capsys, monkeypatch)
    monkeypatch.chdir(tmp_path)
    folder = write(tmp_path / "meds", events(), splits={1: "held_out", 2: "tuning", 3: "tuning"})
    assert palpate("cohort", "meds", "--source", folder, "--out", "c.parquet").code == 0
    predictions(tmp_path / "p.parquet", build(folder))
    said = "cohort: c.parquet\nmodels: {theirs: 'predictions:p.parquet'}\naudits: {performance: {n_replicates: 100}}\n"
    Path("audit.yaml").write_text(said)
    Path("again.yaml").write_text(said.replace("p.parquet'", "one.parquet'"))
    assert palpate("audit", "audit.yaml", "--out", "run").code == 0
    assert palpate("export", "meds", "run", "--cohort", "c.parquet", "--out", "one.parquet").code == 0
    ran = palpate("audit", "again.yaml", "--out", "again")
    assert ran.code == 0, ran.err
    assert "theirs: its file has no predictions of the validation split" in ran.out + ran.err
    assert "its threshold was chosen on the audited cases themselves" in ran.out
    before, after = (
        pl.read_parquet(f"{run}/results/performance.parquet").filter(pl.col("metric").is_in(["auroc", "brier"]))
        for run in ("run", "again")
    )
    assert before.height == 2
    assert after.equals(before)
    # A file that lacks one of the audited cases, or some of the validation cases, is refused as before.
    for k, gap in enumerate(([0], [2])):
        whole = pl.read_parquet("p.parquet")
        whole.with_row_index().filter(~pl.col("index").is_in(gap)).drop("index").write_parquet("one.parquet")
        refused = palpate("audit", "again.yaml", "--out", f"no{k}")
        assert (refused.code, "the file has no prediction for the case" in refused.err) == (3, True), refused.err
