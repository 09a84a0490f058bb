"""Public notes (read in place, never copied): promises that hold for every note, and how many notes allow what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import polars as pl
import pytest

from palpate.perturb.robustness import BUILT_IN
from tests.data.published import SHARED

from .made_notes import changed, reason

FILES = [SHARED / "aci_bench" / name for name in ("train.csv", "valid.csv")]


@pytest.fixture(scope="module")
def notes() -> list[str]:
    there = [file for file in FILES if file.is_file()]
    if not there:
        pytest.skip("ACI-Bench is not in ../shared/data")
    return [note for file in there for note in pl.read_csv(file)["note"].to_list()]


def letters_and_digits(text: str) -> str:
    return "".join(c for c in text if c.isalnum())


def digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def others(text: str) -> Counter[str]:
    return Counter(text.split("\n"))


@pytest.mark.parametrize(
    ("names", "keeps"),
    [
        (("spaces", "wrapping", "one_line"), lambda text: "".join(text.split())),
        (("punctuation",), letters_and_digits),
        (("case",), str.casefold),
        (("section_order",), others),
        (
            ("typos", "brands", "generics", "british", "american", "contractions", "no_contractions", "abbreviations"),
            digits,
        ),
        (("denial_added", "denial_removed", "irrelevant"), digits),
    ],
)
def test_promises_hold(notes: list[str], names: tuple[str, ...], keeps: Callable[[str], object]) -> None:
    for name in names:
        for note in notes:
            assert keeps(changed(name, note)) == keeps(note), name


def test_most_notes_allow_most_perturbations(notes: list[str]) -> None:
    share = {name: sum(reason(name, note) is None for note in notes) / len(notes) for name in BUILT_IN}
    least = {
        **dict.fromkeys(("typos", "ocr", "case", "punctuation", "spaces", "wrapping", "one_line", "irrelevant"), 1.0),
        **{"numbers": 0.9, "british": 0.75, "contractions": 0.9, "abbreviations": 0.7, "denial_removed": 0.8},
        **{"denial_added": 0.9, "section_order": 0.5, "full_forms": 0.4, "brands": 0.4, "generics": 0.4},
    }
    assert {name: share[name] for name, bound in least.items() if share[name] < bound} == {}
