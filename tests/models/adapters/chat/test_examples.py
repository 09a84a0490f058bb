"""Worked examples as people keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.errors import ConfigError
from palpate.models.adapters.chat.examples import Example, read_examples

FEVER = (Example("fever", "yes"), Example("well", "no"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "text,answer\nfever,yes\nwell,no\n"),
        ("a.csv", "\ufeffText ; Answer\r\nfever;yes\r\n;\r\nwell;no\r\n"),
        ("a.tsv", "note\tresponse\nfever\tyes\nwell\tno"),
        ("a.txt", "text|answer\nfever|yes\nwell|no"),
        ("a.jsonl", '{"text": "fever", "answer": "yes"}\n\n{"text": "well", "answer": false}\n'),
        ("a.json", '[{"user": "fever", "assistant": "yes"}, {"user": " well ", "assistant": "no"}]'),
        ("a.csv", '[{"text": "fever", "answer": "yes"}, {"text": "well", "answer": "no"}]'),
        ("a.yaml", "- {text: fever, answer: yes}\n- {text: well, answer: no}\n"),
        ("a.yml", "examples:\n  - text: fever\n    answer: 'yes'\n  - text: well\n    answer: no\n"),
    ],
)
def test_examples_in_any_dress(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert read_examples(tmp_path / name, ["ill"], as_json=False) == FEVER


def test_a_column_for_each_label(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text,Death,sepsis\nfever,no,yes\n")
    found = read_examples(tmp_path / "a.csv", ["death", "sepsis"], as_json=False)
    assert found == (Example("fever", "no", "death"), Example("fever", "yes", "sepsis"))
    (whole,) = read_examples(tmp_path / "a.csv", ["death", "sepsis"], as_json=True)
    assert whole == Example("fever", '{"death": "no", "sepsis": "yes"}')


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "", "has no example"),
        ("a.csv", "text,answer\n", "has no example"),
        ("a.csv", "text\nfever\n", "no `answer`"),
        ("a.csv", "words,answer\nfever,yes\n", "row 1.*no `text`.*words"),
        ("a.csv", "text,answer\nfever, high,yes\n", "row 1.*more cells"),
        ("a.csv", "text,answer\nfever,\n", "row 1.*answer is empty"),
        ("a.csv", "text,answer\n,yes\n", "row 1.*text is empty"),
        ("a.csv", "text,answer,label\nfever,yes,gout\n", "'gout' is no label"),
        ("a.csv", 'text,answer\n"fever,yes\n', "not a table"),
        ("a.jsonl", '{"text": "fever", "answer": "yes"}\nnot json\n', "line 2 is not JSON"),
        ("a.json", '["fever"]', "not a list of examples"),
        ("a.yaml", "text: [", "not valid YAML"),
        ("a.yaml", "fever", "not a list of examples"),
        ("a.csv", "text,answer\n" + "fever,yes\n" * 300, "300 examples"),
    ],
)
def test_careless_files_get_one_sentence(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        read_examples(tmp_path / name, ["ill"], as_json=False)
    assert "fever" not in str(caught.value)
    assert caught.value.at == ("examples",)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("text,answer\nfièvre,yes\n".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_examples(tmp_path / "a.csv", ["ill"], as_json=False)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_examples(tmp_path, ["ill"], as_json=False)
