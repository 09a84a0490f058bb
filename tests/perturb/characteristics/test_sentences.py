"""Hand-written hard sentences: every group gives the text that a clinician would have written."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

import pytest

from palpate.cases.edits import splice
from palpate.perturb.characteristics import Alterer, FoundCharacteristics

from .sentences import AGES, ETHNICITIES, Sentence, read_sentences

_SENTENCES = read_sentences()
_ALTERER = Alterer(["gender", "age", "ethnicity"], sure="normal")


def _by(option: str, fits: Callable[[str], bool]) -> list[Sentence]:
    """The sentences whose option (empty if it is not given) fits; `any` means that the template can't say."""
    return [sentence for sentence in _SENTENCES if fits(sentence.options.get(option, ""))]


def _name(sentence: Sentence) -> str:
    return re.sub(r"\W+", "-", sentence.template)[:60]


@lru_cache(maxsize=64)
def _plan(text: str) -> FoundCharacteristics:
    return _ALTERER.plan(text)


def _check(sentence: Sentence, characteristic: str, group: str, start: dict[str, str], *, skip: bool) -> None:
    text = sentence.write(**start)
    edits, action, reason = _ALTERER.edits(_plan(text), (characteristic, group))
    told = f"{characteristic} to {group}: {text!r}"
    if skip and group != start[characteristic]:
        assert action == "skipped", told
        assert reason, told
        assert not edits, told
        return
    expected = sentence.write(**{**start, characteristic: group})
    assert splice(text, edits) == expected, f"{told}, {action}, {reason}"
    assert (action == "kept") == (expected == text), told


def test_there_are_at_least_200() -> None:
    assert len(_SENTENCES) >= 200
    assert len({sentence.template for sentence in _SENTENCES}) == len(_SENTENCES)


@pytest.mark.parametrize("sentence", _by("gender", lambda kind: kind.endswith("skip")), ids=_name)
def test_gender_is_skipped(sentence: Sentence) -> None:
    male = sentence.options["gender"] == "male-skip"
    start = {**sentence.start, "gender": "male" if male else "female"}
    for group in ("female", "trans man") if male else ("male", "trans woman"):
        _check(sentence, "gender", group, start, skip=True)


@pytest.mark.parametrize("sentence", _by("gender", lambda kind: kind != "any" and not kind.endswith("skip")), ids=_name)
def test_gender(sentence: Sentence) -> None:
    sides = [sentence.options["from"]] if "from" in sentence.options else ["female", "male"]
    if "(T)" in sentence.template or "{T" in sentence.template:
        sides += [] if "from" in sentence.options else ["trans woman", "trans man"]
    for side in sides:
        for group in ("female", "male", "trans woman", "trans man"):
            skip = group.startswith("trans ") and sentence.options.get("trans") == "skip"
            _check(sentence, "gender", group, {**sentence.start, "gender": side}, skip=skip)


@pytest.mark.parametrize("sentence", _by("ages", lambda kind: kind != "any"), ids=_name)
def test_age(sentence: Sentence) -> None:
    kind = sentence.options.get("ages", "")
    sides = [sentence.options["from"]] if "from" in sentence.options else ["female", "male"]
    groups = AGES[:30] if kind == "skip" else AGES
    low, high = map(int, kind.split("-")) if "-" in kind else (0, 200)
    for side in sides:
        for group in groups:
            skip = kind == "skip" or not low <= int(group.rstrip("+")) <= high
            _check(sentence, "age", group, {**sentence.start, "gender": side}, skip=skip)


@pytest.mark.parametrize("sentence", _by("eth", lambda kind: kind != "any"), ids=_name)
def test_ethnicity(sentence: Sentence) -> None:
    kind = sentence.options.get("eth", "")
    sides = [sentence.options["from"]] if "from" in sentence.options else ["female", "male"]
    starts = ["none"] if kind == "skip" else ETHNICITIES
    for side in sides:
        for before in starts:
            for group in ETHNICITIES:
                start = {**sentence.start, "gender": side, "ethnicity": before}
                _check(sentence, "ethnicity", group, start, skip=kind == "skip")
