"""The words that coding models read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palpate.errors import ConfigError
from palpate.models.networks.coding.words import UNKNOWN, WordWindow, learn_words, read_window

torch = pytest.importorskip("torch")


def test_words_are_folded_and_stand_where_the_text_has_them() -> None:
    text = "CHF (Type 2), 37.5 Größe STRASSE straße"
    window = WordWindow(("chf", "2", "type", "strasse"), 100)
    read = window.read([text])[0]
    pieces = [text[i:j] for i, j in zip(read.begin, read.end, strict=True)]
    assert pieces == ["CHF", "Type", "2", "5", "Größe", "STRASSE", "straße"]
    assert read.ids.tolist() == [2, 4, 3, UNKNOWN, UNKNOWN, 5, 5]


def test_a_text_without_words_is_one_unknown_word_that_stands_nowhere() -> None:
    read = WordWindow(("a",), 5).read(["", " ... 4711"])
    assert [one.ids.tolist() for one in read] == [[UNKNOWN], [UNKNOWN]]
    assert [len(one.begin) for one in read] == [0, 0]


@settings(max_examples=60, deadline=None)
@given(
    text=st.text(alphabet="ab Ié.\u0301ß7_\n", max_size=60),
    max_tokens=st.integers(1, 6),
    change=st.text(alphabet="ab .\u0301_9", max_size=8),
    cut=st.integers(0, 4),
)
def test_a_change_behind_the_visible_end_changes_nothing_that_is_read(
    text: str, max_tokens: int, change: str, cut: int
) -> None:
    window = WordWindow(("a", "b", "ab"), max_tokens)
    end = int(window.visible_ends([text])[0])
    if end > len(text):
        return
    changed = text[:end] + change + text[end + cut :]
    before, after = window.read([text, changed])
    for part in range(3):
        assert before[part].tolist() == after[part].tolist()


def test_the_visible_end_is_not_too_far() -> None:
    """One word more in the window makes the next word count."""
    window = WordWindow(("a", "b", "c"), 2)
    assert window.visible_ends(["a b c", "a b", "a"]).tolist() == [4, 4, 2]
    assert window.read(["a bc c"])[0].ids.tolist() != window.read(["a b c"])[0].ids.tolist()


def test_words_of_few_patients_are_not_learned() -> None:
    texts = ["Fever smith", "fever smith", "FEVER cough", "cough cough cough"]
    patients = np.array([1, 1, 2, 3])
    assert learn_words(texts, patients, min_patients=2, max_words=None) == ("cough", "fever")
    assert learn_words(texts, patients, min_patients=2, max_words=1) == ("cough",)
    assert "smith" in learn_words(texts, patients, min_patients=1, max_words=None)


def test_a_vocabulary_is_read_back(tmp_path: Path) -> None:
    window = WordWindow(("é", "a\u2028b"), 7)
    window.write(tmp_path)
    assert read_window(tmp_path) == window
    (tmp_path / "vocabulary.json").write_text("[]")
    with pytest.raises(ConfigError, match="not the vocabulary of a coding model"):
        read_window(tmp_path)
