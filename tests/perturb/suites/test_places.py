"""Where a sentence is put into a note: in running text about the patient, and nothing else of the note changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import splice
from palpate.perturb.suites.places import find_place, place_sentence

SENTENCE = "The patient has sepsis."


def embedded(note: str, sentence: str = SENTENCE) -> str:
    edit = place_sentence(note, sentence)
    assert edit is not None
    return splice(note, [edit])


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (
            "She came in with a cough today. She went home.",
            "She came in with a cough today. The patient has sepsis. She went home.",
        ),
        (
            "ALLERGIES: None known to this day.\nHISTORY OF PRESENT ILLNESS: Seen by Dr. Lee for two days of cough."
            " Better now.",
            "ALLERGIES: None known to this day.\nHISTORY OF PRESENT ILLNESS: Seen by Dr. Lee for two days of cough."
            " The patient has sepsis. Better now.",
        ),
        (
            "FAMILY HISTORY\n\nHer mother had heart disease at 60.\n\nASSESSMENT AND PLAN"
            "\n\n1. Cough.\n2. Fever, temp 38. 5 today at home.",
            "FAMILY HISTORY\n\nHer mother had heart disease at 60.\n\nASSESSMENT AND PLAN\n\nThe patient has sepsis."
            "\n\n1. Cough.\n2. Fever, temp 38. 5 today at home.",
        ),
        (
            "His father died of a heart attack. He came in with a cough today.",
            "His father died of a heart attack. He came in with a cough today. The patient has sepsis.",
        ),
    ],
)
def test_a_sentence_stands_where_the_patient_is_spoken_of(note: str, expected: str) -> None:
    assert embedded(note) == expected


def test_a_sentence_with_a_heading_of_its_own_follows_the_note() -> None:
    note = "She came in with a cough today.\n"
    assert embedded(note, "IMPRESSION: Sepsis.") == "She came in with a cough today.\n\nIMPRESSION: Sepsis.\n"


@pytest.mark.parametrize(
    "note", ["", "None.", "ALLERGIES: None known to the patient at all.", "1. Cough and fever since today."]
)
def test_a_note_without_running_text_takes_none(note: str) -> None:
    assert find_place(note) is None


PARTS = st.sampled_from(
    [
        "HPI: ",
        "ALLERGIES:\n",
        "She has had a cough for days. ",
        "Dr. Lee saw her. ",
        "\n\n",
        "1. Cough\n",
        "ok",
        "BP 98.6. ",
    ]
)


@given(st.lists(PARTS, max_size=12).map("".join))
def test_the_rest_of_the_note_stays_and_the_sentence_stands_apart(note: str) -> None:
    edit = place_sentence(note, SENTENCE)
    if edit is None:
        return
    assert edit.start == edit.end
    after = splice(note, [edit])
    assert after.replace(edit.text, "", 1) == note
    assert edit.text.endswith(SENTENCE)
    following = note[edit.end : edit.end + 1]
    assert following == "" or following.isspace()
