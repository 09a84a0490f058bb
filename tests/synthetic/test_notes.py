"""Notes that look like notes, and evidence at the offsets that the files say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate.synthetic import write_hospital
from palpate.synthetic.dice import Dice
from palpate.synthetic.notes import Draft, Grammar, family, mistype
from palpate.synthetic.patients.conditions import by_name
from tests.synthetic.conftest import read

HEADINGS = (
    "Admission Date:", "Service:", "Allergies:", "Chief Complaint:",
    "History of Present Illness:", "Past Medical History:", "Social History:", "Family History:",
    "Physical Exam:", "Pertinent Results:", "Brief Hospital Course:", "Medications on Admission:",
    "Discharge Disposition:", "Discharge Diagnosis:", "Discharge Condition:",
)  # fmt: skip


def summaries(folder: Path) -> pl.DataFrame:
    notes = read(folder, "mimic-iii/NOTEEVENTS")
    return notes.filter((pl.col("CATEGORY") == "Discharge summary") & (pl.col("DESCRIPTION") == "Report"))


def adults(folder: Path) -> pl.DataFrame:
    state = read(folder, "latent_iii").filter(pl.col("age").cast(float) >= 18)
    return summaries(folder).join(state, left_on="HADM_ID", right_on="hadm_id")


def test_sections(small: Path) -> None:
    for text in adults(small)["TEXT"]:
        assert all(heading in text for heading in HEADINGS)
    for text in read(small, "mimic-iv/note/discharge")["text"]:
        assert all(heading in text for heading in HEADINGS)


@pytest.mark.parametrize("name", ["mimic-iii", "mimic-iv"])
def test_length(large: Path, name: str) -> None:
    texts = summaries(large)["TEXT"] if name == "mimic-iii" else read(large, "mimic-iv/note/discharge")["text"]
    assert 1000 <= np.median([len(text.split()) for text in texts]) <= 1500


def test_no_two_notes_are_alike(large: Path) -> None:
    texts = [*read(large, "mimic-iii/NOTEEVENTS")["TEXT"], *read(large, "mimic-iv/note/discharge")["text"]]
    texts += [*read(large, "mimic-iv/note/radiology")["text"]]
    assert len(texts) == len(set(texts))


def test_no_slot_is_left_open(small: Path) -> None:
    texts = [*read(small, "mimic-iii/NOTEEVENTS")["TEXT"], *read(small, "mimic-iv/note/discharge")["text"]]
    assert not [text for text in texts if re.search(r"[{}]|\[\[|\]\]", text)]


def test_placeholders_of_each_version_stay_in_it(small: Path) -> None:
    for text in summaries(small)["TEXT"]:
        assert re.search(r"\[\*\*\d{4}-\d+-\d+\*\*\]", text)
        assert "___" not in text
    for text in read(small, "mimic-iv/note/discharge")["text"]:
        assert "___" in text
        assert "[**" not in text
    assert not read(small, "mimic-iv/note/radiology")["text"].str.contains("[**", literal=True).any()


def test_patients_are_spoken_of_as_what_they_are(large: Path) -> None:
    """The history names the patient's gender, and the age spelled in digits is the age."""
    for row in adults(large).iter_rows(named=True):
        text = " ".join(row["TEXT"].split())
        story = text.split("Present Illness:")[1].split("Past Medical History:")[0]
        other = r"\b(he|him|himself|Mr\.)(?!\w)" if row["gender"] == "F" else r"\b(she|Ms\.)(?!\w)"
        assert not re.search(other, story, re.IGNORECASE), story
        for age in re.findall(r"\b(\d+)(?: |-)?(?:year|yo\b|y/o|y\.o\.|yr)", story):
            assert int(age) == int(float(row["age"])), story
    old = adults(large).filter(pl.col("age").cast(float) >= 90)["TEXT"]
    assert old.str.contains("[**Age over 90 **]", literal=True).mean() > 0.8  # type: ignore[operator]


YEARS_OLDER = {"father": (18, 45), "mother": (18, 45), "brother": (-20, 20), "sister": (-20, 20),
               "son": (-80, -16), "daughter": (-80, -16)}  # fmt: skip


@pytest.mark.parametrize("source", ["iii", "iv"])
def test_relatives_have_ages_that_go_with_the_patients(tmp_path: Path, source: str) -> None:
    write_hospital(tmp_path, n_patients=300, seed=8, images=False)
    if source == "iii":
        notes = adults(tmp_path).select("age", pl.col("TEXT").alias("text"))
    else:
        notes = read(tmp_path, "mimic-iv/note/discharge").join(read(tmp_path, "latent_iv"), on="hadm_id")
    kin, seen, masked = "|".join(YEARS_OLDER), 0, 0
    for row in notes.iter_rows(named=True):
        age = int(float(row["age"]))
        text = " ".join(row["text"].split("Family History:")[1].split("Physical Exam:")[0].split())
        masked += len(re.findall(r" (?:is|alive at) (?:___|\[\*\*Age over 90 \*\*\])", text))
        for relative, now in re.findall(rf"(?i)\b({kin}) (?:is|alive at) (\d+)", text):
            low, high = YEARS_OLDER[relative.lower()]
            assert low <= int(now) - age <= high, (age, text)
            assert 1 <= int(now) <= 89
            seen += 1
        for relative, then in re.findall(rf"(?i)\b({kin})\b[^.]* (?:at|at age|the age of) (\d+)", text):
            assert 1 <= int(then) <= min(89, age + YEARS_OLDER[relative.lower()][1]), (age, text)
        assert not re.search(r"(?i)grand(?:father|mother) (?:is|alive)", text)
    assert seen > 100
    assert masked > 3


@pytest.mark.parametrize("age", [*range(18, 112)])
def test_every_relative_has_a_possible_age(age: int) -> None:
    dice = Dice(np.random.default_rng(age))
    for name in family.living(age):
        ages = [family.current_age(name, age, dice) for _ in range(50)]
        low, high = YEARS_OLDER.get(name, (-20, 40))
        assert all(18 <= now <= 97 and now - age <= high and (now - age >= low or now == 97) for now in ages)
    for name in {*family.living(age), *family.dead(age)}:
        most = YEARS_OLDER.get(name, (0, 80))[1]
        for draw in (family.age_at_death, family.age_at_event):
            assert all(1 <= draw(name, age, dice) < min(90, age + most) for _ in range(50))


def test_ethnicity_is_mentioned_now_and_then(large: Path) -> None:
    table = adults(large).filter(pl.col("ethnicity") == "African American")
    said = table["TEXT"].str.contains(r"(?i)african.american|\bblack\s+(?:woman|man|male|female|lady|gentleman)")
    assert 0.3 < said.mean() < 0.6  # type: ignore[operator]


def test_typing_errors_are_rare() -> None:
    dice = Dice(np.random.default_rng(0))
    changed = [mistype("patient complained bitterly", dice) for _ in range(200)]
    assert len(set(changed)) > 20
    assert all(len(text.split()) == 3 for text in changed)
    assert mistype("larkspur", dice) == "larkspur"


def test_every_offset_covers_what_was_written(small: Path) -> None:
    texts = dict(read(small, "mimic-iii/NOTEEVENTS").select("ROW_ID", "TEXT").iter_rows())
    rows = read(small, "mdace/true_spans").rows(named=True)
    assert len(rows) > 200
    names = {name: [re.sub(r"\{.*?\}", ".+", n).lower() for n in c.names] for name, c in by_name().items()}
    exact = 0
    for row in rows:
        covered = texts[row["note_id"]][int(row["begin"]) : int(row["end"])]
        assert covered == row["covered_text"]
        flat = " ".join(covered.lower().split())
        exact += any(re.fullmatch(name, flat) for name in names[row["condition"]])
    assert exact / len(rows) > 0.97  # the rest has typing errors


@pytest.mark.parametrize("setting", ["Inpatient", "Profee"])
def test_evidence_has_the_mdace_layout(large: Path, setting: str) -> None:
    notes = {row["ROW_ID"]: row for row in read(large, "mimic-iii/NOTEEVENTS").iter_rows(named=True)}
    coded = {
        (row["HADM_ID"], row["ICD9_CODE"])
        for table in ("DIAGNOSES_ICD", "PROCEDURES_ICD")
        for row in read(large, f"mimic-iii/{table}").iter_rows(named=True)
    }
    systems = {"ICD-9": {"ICD-9-CM", "ICD-9-PCS"}, "ICD-10": {"ICD-10-CM", "ICD-10-PCS"}}
    charts = set()
    for system, known in systems.items():
        files = sorted((large / "mdace" / setting / system / "1.0").glob("*.json"))
        charts.add(tuple(path.name.split("-")[0] for path in files))
        for path in files:
            chart = json.loads(path.read_text())
            assert list(chart) == ["hadm_id", "comment", "notes"]
            assert path.name == f"{chart['hadm_id']}-{system}.json"
            for note in chart["notes"]:
                assert list(note) == ["note_id", "category", "description", "annotations"]
                written = notes[str(note["note_id"])]
                assert written["CATEGORY"].strip() == note["category"]
                for mark in note["annotations"]:
                    assert list(mark) == ["begin", "end", "code", "code_system", "description", "type"]
                    assert 0 <= mark["begin"] < mark["end"] <= len(written["TEXT"])
                    assert mark["code_system"] in known
                    if system == "ICD-9":
                        assert (str(chart["hadm_id"]), mark["code"].replace(".", "")) in coded
    assert len(charts) == 1
    listed = [
        (large / "mdace/splits" / setting / f"MDace-ev-{s}.csv").read_text().split() for s in ("train", "val", "test")
    ]
    assert sorted(hadm for part in listed for hadm in part) == sorted(charts.pop())
    owner = dict(read(large, "mimic-iii/ADMISSIONS").select("HADM_ID", "SUBJECT_ID").iter_rows())
    patients = [{owner[hadm] for hadm in part} for part in listed]
    assert not (patients[0] & patients[1] | patients[0] & patients[2] | patients[1] & patients[2])


def test_draft_keeps_offsets_through_line_breaks() -> None:
    draft = Draft(Dice(np.random.default_rng(0)))
    for _ in range(30):
        draft.add("some words before [[heart failure]] and [[CHF]] after it, ", condition="heart_failure")
    text = draft.text()
    assert max(len(line) for line in text.split("\n")) <= 81
    assert {" ".join(text[begin:end].split()) for begin, end, _ in draft.spans} == {"heart failure", "CHF"}


def test_grammar_fills_every_kind_of_slot() -> None:
    grammar = Grammar({"fruit": ("apple {1-3}",), "colour": ("red",)})
    dice = Dice(np.random.default_rng(1))
    filled = grammar.fill("{Fruit}, {COLOUR}, {who}, {Who}, {0.5-0.9}", dice, {"who": "she"})
    assert re.fullmatch(r"Apple [1-3], RED, she, She, 0\.[5-9]", filled)
    with pytest.raises(KeyError):
        grammar.fill("{unknown}", dice, {})


@pytest.mark.slow
def test_ten_thousand_words(tmp_path: Path) -> None:
    write_hospital(tmp_path, n_patients=5000, images=False)
    words: set[str] = set()
    for text in summaries(tmp_path)["TEXT"]:
        words.update(re.findall(r"[a-z]{2,}", text.lower()))
    assert len(words) >= 10_000
