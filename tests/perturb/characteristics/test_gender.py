"""Sentences on gender that a reviewer broke, each with the text that is right, or why it is skipped."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer, alter

_ALTERER = Alterer(["gender"], sure="normal")


def _read() -> list[tuple[str, str, str]]:
    lines = (Path(__file__).parent / "gender_cases.tsv").read_text("utf-8").splitlines()
    rows = [line.replace("\\n", "\n").split("\t") for line in lines if not line.startswith("#")]
    return [(text, group, expected) for text, group, expected in rows]


_CASES = _read()


def test_no_case_stands_twice() -> None:
    assert len({case[:2] for case in _CASES}) == len(_CASES) > 150


@pytest.mark.parametrize("case", _CASES, ids=lambda case: re.sub(r"\W+", "-", case[1][0] + " " + case[0])[:70])
def test_case(case: tuple[str, str, str]) -> None:
    text, group, expected = case
    edits, action, reason = _ALTERER.edits(_ALTERER.plan(text), ("gender", group))
    if expected.startswith("skipped "):
        assert (action, (reason or "").split(":")[0]) == tuple(expected.split()), splice(text, edits)
    else:
        assert splice(text, edits) == expected, reason
        assert action == "changed"
    assert all(first.end <= second.start for first, second in pairwise(edits))


def test_every_first_name_goes_there_and_back() -> None:
    """The list is a bijection, and each of its names is found where it introduces the patient."""
    pairs = yaml.safe_load(
        files("palpate.perturb.characteristics.gender").joinpath("firstnames.yaml").read_text("utf-8")
    )["pairs"]
    assert len({*pairs, *pairs.values()}) == 2 * len(pairs) >= 160
    for male, female in pairs.items():
        man, woman = f"{male} Allen is a 57-year-old male.", f"{female} Allen is a 57-year-old female."
        assert alter(man, "gender", "female", sure="normal").text == woman
        assert alter(woman, "gender", "male", sure="normal").text == man


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("She has two cats.", "transgender"),
        ("Rash on her arm.", "trans woman"),
        ("I told the mother to call. He has a cold.", "trans man"),
    ],
)
def test_the_sentence_needs_a_subject_and_is_not_the_papers_variant(text: str, group: str) -> None:
    outcome = _ALTERER.edits(_ALTERER.plan(text), ("gender", group))
    assert (outcome.action, (outcome.reason or "").split(":")[0]) == ("skipped", "no mention")
