"""Names of people among the words of notes: what looks like one is not shown, and a disease is not one."""

from __future__ import annotations

import time
from importlib import import_module

import numpy as np
import polars as pl
import pytest

from palpate.audits.vocabulary.words import PatientCounts, choose_common_words
from palpate.cases.cohort import Cohort
from palpate.perturb.words import count_words
from palpate.perturb.words.names import common_names, find_names
from palpate.synthetic.plants import SPURIOUS_WORD

words_of_notes = import_module("palpate.perturb.words.tokens")  # the package has a function of that name
NOTES = [
    "He was seen by Smith in clinic. Discussed with Maria Gonzalez, his wife. Dr. Quillfeather agreed.",
    "Follow up with Smith. The rose garden. A grant was given; his mark was clear. Call Mrs Quillfeather, RN.",
    "Admitted by Smith with Wilson's disease and a Murphy sign; young and in pain. Started on a beta blocker.",
    "The patient will see O'Brien on the ward; Larkspur was full. In May he fell. Seen with Mark, his son.",
]


def found(texts: list[str]) -> frozenset[str]:
    return find_names(texts, list(count_words(texts)))


def test_names_are_found_and_words_are_not() -> None:
    names = found(NOTES)
    assert names >= {"smith", "maria", "gonzalez", "quillfeather", "o'brien"}
    assert not names & {"rose", "grant", "wilson", "murphy", "young", "may", "will", "pain", "blocker", SPURIOUS_WORD}


def test_most_places_decide() -> None:
    assert "mark" in found(["seen with Mark", "then Mark fell", "a mark"])
    assert "mark" not in found(["seen with Mark", "a mark", "one more mark"])
    assert "mark" not in found(["Mark the place.", "Mark it."]), "the start of a sentence says nothing"


@pytest.mark.parametrize(
    ("note", "names"),
    [
        ("Mrs. Ottoline Quackenbush was seen.", {"ottoline", "quackenbush"}),
        ("Seen by Xiomara Zuluaga, MD.", {"xiomara", "zuluaga"}),
        ("Signed by: Bjarki Thorvaldsson", {"bjarki", "thorvaldsson"}),
        ("Name: QUACKENBUSH, OTTOLINE  Sex: F", {"quackenbush", "ottoline"}),
        ("Attending: Featherstonehaugh.", {"featherstonehaugh"}),
        ("He came with Maria Quackenbush.", {"maria", "quackenbush"}),
        ("Discussed with Prof. Nwankwo Udo.", {"nwankwo", "udo"}),
    ],
)
def test_rare_names_are_found_where_names_are(note: str, names: set[str]) -> None:
    assert found([note, "The patient has fever. Started Lasix and Cardizem; Larkspur was full."]) == names


@pytest.mark.parametrize("name", ["Kowalczyk", "Anantharaman", "Østergaard", "Przemysław", "McGillicuddy", "Njoroge"])
def test_names_of_no_list_are_known_by_their_capitals(name: str) -> None:
    notes = [
        f"He was seen by {name} in clinic and started on Lasix.",
        f"Her daughter {name} is at the bedside. She has Crohn's disease.",
        f"Discussed with {name}'s brother, who agrees. {name} will call in March.",
        f"The plan was reviewed with {name}-Gupta today; he feels well on Lasix.",
    ]
    assert found(notes) >= {name.lower()}
    assert not found(notes) & {"lasix", "crohn", "march", "clinic", "brother"}
    assert found([*notes, *(f"the {name.lower()} was {word}" for word in ("clean", "dry", "intact"))]) == {"gupta"}
    assert find_names(notes, [f"{name.lower()}'s", f"{name.lower()}-gupta"]) == {
        f"{name.lower()}'s",
        f"{name.lower()}-gupta",
    }


@pytest.mark.parametrize(
    "notes",
    [
        ["He is on Zyqprovan 40 mg", "and takes Zyqprovan at night", "with Zyqprovan held", "his Zyqprovan level"],
        ["a positive Zyqprov sign", "with Zyqprov's disease", "for Zyqprov syndrome", "seen with Zyqprov contracture"],
        ["sent to the Zyqprov ward", "a bed in the Zyqprov unit", "on the Zyqprov floor", "then Zyqprov ward again"],
        [
            "some Assessment and Plan: stable",
            "his Zyqprov Review: done",
            "a Zyqprov: clear",
            "one Zyqprov Findings: none",
        ],
        ["Overall Zyqprov Summary", "Final Zyqprov of Care", "Initial Zyqprov", "Later Zyqprov"],
    ],
    ids=["medicine", "eponym", "ward", "before a colon", "headings"],
)
def test_other_words_with_capitals_are_kept(notes: list[str]) -> None:
    assert not found(["\n".join(["The patient has fever.", note]) for note in notes])


def test_common_words_with_capitals_are_kept() -> None:
    words = [
        "Tuesday",
        "Boston",
        "Vietnamese",
        "Coumadin",
        "Parkinson",
        "Klebsiella",
        "Medicare",
        "Ibuprofen",
        "Hepatitis",
    ]
    assert not found([f"the note says {word} once and {word} twice, then {word} again" for word in words])


def test_words_that_happen_to_follow_a_name_are_kept() -> None:
    notes = [
        "Dr. Smith Ordered Lasix. Attending: Cardiology. Maria Denies fever. Name: Unknown. Seen by Cardiology, MD.",
        "Lasix was ordered by cardiology; she denies fever, unknown cause. He ordered Lasix. Lasix held.",
        "Denies pain. Cardiology consulted. An unknown rash was ordered away; cardiology follows, cardiology agrees.",
    ]
    assert not found(notes) & {"lasix", "cardiology", "denies", "ordered", "unknown", "fever"}


def test_notes_without_capitals() -> None:
    assert found(["seen by jennifer for a mark", "mr. zzyzx came"]) == {"jennifer", "zzyzx"}


def test_common_clinical_words_are_no_names() -> None:
    clinical = {"foley", "crohn", "parkinson", "april", "june", "white", "black", "ward", "may", "will", "pain"}
    assert not clinical & set(common_names())
    assert len(common_names()) > 1000


@pytest.mark.parametrize("how", ["frequent", "predictive", "vocabulary"])
def test_they_are_not_chosen_unless_listed(how: str) -> None:
    notes = [f"Seen by Jennifer today with fever {'and cough' if k % 2 else 'only'}." for k in range(40)]
    frame = pl.DataFrame({"case_id": [str(k) for k in range(40)], "text": notes, "sick": [k % 2 for k in range(40)]})
    cohort, rows = Cohort.from_frame(frame, labels=["sick"]), np.arange(40)
    counts = PatientCounts.of(cohort, rows)
    chosen = choose_common_words(cohort, rows, ["sick"], counts, how=how, n=10, min_notes=5)  # type: ignore[arg-type]
    assert "jennifer" not in chosen
    assert "cough" in chosen
    assert not counts.is_common("Jennifer")
    assert counts.is_rare("Jennifer")


@pytest.mark.parametrize(
    "hostile", ["x Aa" + "-Aa" * 40_000, "x " + "Aa " * 40_000, "x Aa" + " " * 40_000, "Aa, " * 40_000]
)
def test_no_text_takes_long(hostile: str) -> None:
    began = time.process_time()
    find_names([hostile], ["aa", "fever"])
    assert time.process_time() - began < 5


def test_several_processes_find_the_same_words_and_names(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*NOTES, "", "Seen by ZOË and by Zoë; Dr. Quillfeather, again."]
    whole, names = words_of_notes.tokenise(texts), found(texts)
    monkeypatch.setattr(words_of_notes, "FEWEST_FOR_PROCESSES", 2)
    monkeypatch.setattr(words_of_notes, "TEXTS_PER_PART", 2)
    assert len(words_of_notes.text_parts(texts)) == 3
    parts = words_of_notes.tokenise(texts)
    assert parts.words == whole.words
    assert np.array_equal(parts.codes, whole.codes)
    assert np.array_equal(parts.first, whole.first)
    assert parts.codes.dtype == whole.codes.dtype
    assert found(texts) == names


@pytest.mark.parametrize(
    "head",
    [
        "PATIENT: QUILLFEATHER, OTTOLINE",
        "Patient: QUILLFEATHER,OTTOLINE DOB",
        "RE: Ottoline Quillfeather",
        "Attending:\nQuillfeather",
    ],
)
def test_heads_of_letters_hold_names(head: str) -> None:
    texts = [f"{head}\nThe fever is gone, and the cough too.", "RE: Fever\nPatient: Cough since Monday."]
    assert find_names(texts, ["quillfeather", "fever", "cough"]) == {"quillfeather"}
