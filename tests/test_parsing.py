"""JSON and files that others wrote to break a reader: one sentence, whatever they are."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from palpate.data.annotations import mdace
from palpate.data.annotations.inception import find_exports
from palpate.data.annotations.reviews import read_review
from palpate.data.suites import read_suite_file
from palpate.data.tables import read_pretest_card
from palpate.errors import InputError, parse_json
from palpate.models.adapters.chat.examples import read_examples
from palpate.models.adapters.graphs import listed_labels
from palpate.models.adapters.remote.said import error_of
from palpate.models.networks.coding import SHAPE_FILE, read_shape
from palpate.models.networks.coding.words import WORDS_FILE, read_window
from palpate.train.coding.vectors import read_vectors

DEEP = "[" * 100_000


def test_json_is_a_value_or_a_value_error() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}
    for text in (DEEP, '{"a": ' * 100_000, "{", b"\xff"):
        with pytest.raises(ValueError, match=r"."):
            parse_json(text)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("chart.json", mdace.read_chart),
        ("review.json", read_review),
        ("suite.jsonl", read_suite_file),
        ("pretest.json", read_pretest_card),
        ("examples.jsonl", lambda path: read_examples(path, ["ill"], as_json=False)),
        ("examples.yaml", lambda path: read_examples(path, ["ill"], as_json=False)),
        (SHAPE_FILE, lambda path: read_shape(path.parent)),
        (WORDS_FILE, lambda path: read_window(path.parent)),
    ],
)
def test_lists_in_lists_are_refused(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    (tmp_path / name).write_text(DEEP)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert "[[[" not in str(caught.value)


def test_lists_in_lists_of_an_endpoint_or_a_graph_are_nothing() -> None:
    assert error_of(DEEP.encode())[0] == ""
    assert listed_labels(DEEP) is None


@pytest.mark.parametrize("head", [b"2 99999999999999", b"2 " + b"9" * 5000])
def test_vectors_that_say_they_are_endless(tmp_path: Path, head: bytes) -> None:
    file = tmp_path / "w.bin"
    file.write_bytes(head + b"\nfever \x00\x00\x80\x3f\x00\x00\x00\x40")
    with pytest.raises(InputError, match=r"w\.bin"):
        read_vectors(file, ["fever"])


def test_a_project_that_unpacks_to_much_more_is_refused(tmp_path: Path) -> None:
    """An export of 100 kB that would be 100 MB."""
    file, inside = tmp_path / "project.zip", io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("annotation/note.txt/anna.json", b" " * 100_000_000)
    file.write_bytes(inside.getvalue())
    with pytest.raises(InputError, match=r"project\.zip: decompressed, the file is more than 200 times as large"):
        list(find_exports(file))
