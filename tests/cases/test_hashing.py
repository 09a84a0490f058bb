from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Edit, splice
from palpate.cases.hashing import ReplacementHashes, key_of, keys_of_edits
from tests.cases.test_edits import edited_texts


@given(edited_texts(), edited_texts())
def test_the_key_of_an_edited_text_is_that_of_the_text_itself(
    case: tuple[str, list[Edit]], other: tuple[str, list[Edit]]
) -> None:
    text, edits = case
    variants = [edits, [], [edit for edit in other[1] if edit.end <= len(text)]]
    flat = [edit for variant in variants for edit in variant]
    pieces = ReplacementHashes([edit.text for edit in flat])
    first = np.concatenate([[0], np.cumsum([len(variant) for variant in variants])]).astype(np.int64)
    columns = (np.asarray(column, dtype=np.int64) for column in ([e.start for e in flat], [e.end for e in flat]))
    keys = keys_of_edits(text, first, *columns, np.arange(len(flat)), pieces)
    assert [key.tobytes() for key in keys] == [key_of(splice(text, variant)) for variant in variants]


@given(st.lists(st.text(max_size=12), unique=True, max_size=40))
def test_different_texts_have_different_keys(texts: list[str]) -> None:
    assert len({key_of(text) for text in texts}) == len(texts)


def test_near_texts_have_different_keys() -> None:
    text = "the quick brown fox " * 500
    near = {text, text[1:], text[:-1], text + "\0", "\0" + text, text.swapcase(), text[::-1], "", "\0", "\0\0"}
    near |= {text[:k] + "X" + text[k + 1 :] for k in range(0, len(text), 37)}
    near |= {text[:k] + text[k + 20] + text[k + 1 : k + 20] + text[k] + text[k + 21 :] for k in range(100)}
    assert len({key_of(each) for each in near}) == len(near)


def test_lone_surrogates_and_long_texts() -> None:
    assert len(key_of("\ud800")) == 16
    assert key_of("ab" * 200_000) != key_of("ba" * 200_000)


def test_keys_do_not_change_between_versions() -> None:
    """They are written to caches and files: a change here must be meant."""
    assert key_of("").hex() == EMPTY
    assert key_of("Fever, 38.5 °C").hex() == FEVER


EMPTY = "941e0c502c87478811f1b6a130227018"
FEVER = "66b636588b79baaa8ef4bd976b89328d"
