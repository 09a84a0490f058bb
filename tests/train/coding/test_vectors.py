"""Word vectors from files: every layout that people have, and files that are none."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from palpate.errors import ConfigError
from palpate.models.adapters.palpate import read_manifest
from palpate.train import train
from palpate.train.coding.vectors import read_vectors
from tests.train.coding.coding_cohort import cohort, tiny
from tests.train.training import read_back

WORDS = ("fever", "gout", "größe", "nowhere", "10")
VECTORS = {"Fever": (9.0, 9.0, 9.0), "fever": (0.5, -1.25, 2.0), "größe": (1e-3, 0.0, 4.0), "GOUT": (1.0, 2.0, 3.0)}
LAYOUTS = ("word2vec", "glove", "binary", "binary with line breaks", "word2vec.gz", "binary.gz", "blank lines")


def write(file: Path, layout: str) -> Path:
    head = f"{len(VECTORS)} 3\n".encode()
    if "binary" in layout:
        end = b"\n" if "breaks" in layout else b""
        body = b"".join(w.encode() + b" " + np.array(v, dtype="<f4").tobytes() + end for w, v in VECTORS.items())
    else:
        break_ = "\n\n" if layout == "blank lines" else "\n"
        body = break_.join(f"{w} {' '.join(map(str, v))}" for w, v in VECTORS.items()).encode()
        head = b"" if layout == "glove" else head
    file.write_bytes(gzip.compress(head + body) if layout.endswith(".gz") else head + body)
    return file


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same(layout: str, tmp_path: Path) -> None:
    found = read_vectors(write(tmp_path / "vectors", layout), WORDS)
    assert found.size == 3
    assert found.rows.tolist() == [0, 1, 2]
    expected = [VECTORS["fever"], VECTORS["GOUT"], VECTORS["größe"]]
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)


def test_words_with_blanks_in_them_and_a_mark_at_the_beginning(tmp_path: Path) -> None:
    """GloVe's largest file has ". . ." among its words; an editor may put a byte order mark before the first."""
    lines = "\ufefffever 1 2\n. . . 7 8\nchest\u00a0pain 0 0\nat name@domain 1 1\ngout 3 4\n"
    (tmp_path / "vectors.txt").write_text(lines, encoding="utf-8")
    found = read_vectors(tmp_path / "vectors.txt", ["gout", "fever", ". . ."])
    assert found.values.tolist() == [[3, 4], [1, 2], [7, 8]]


def _broken(content: bytes) -> bytes:
    return content[:20] + bytes(byte ^ 255 for byte in content[20:40]) + content[40:]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "no word vectors are in the file"),
        (b"fever 1 2\ngout 1 2 3\n", "'gout' has 3 numbers, the first word 2"),
        (b"fever one two\n", "word 1 is not followed by numbers only"),
        (b"elsewhere 1 2\n", "has a vector for none of the words"),
        (b"2 3\nfever \x00\x00", "the file ends early"),
        (b"fever 1 nan\n", "a number is not finite"),
        (b"fever\ngout\n", "word 1 is not followed by numbers only"),
        (gzip.compress(b"fever 1 2\n" * 5000)[:-20], "the compressed file is damaged or ends early"),
        (_broken(gzip.compress(bytes(range(256)) * 200)), "the compressed file is damaged or ends early"),
    ],
)
def test_what_is_no_file_of_vectors(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(ConfigError, match=what):
        read_vectors(tmp_path / "vectors.txt", WORDS)
    with pytest.raises(ConfigError, match="file not found"):
        read_vectors(tmp_path / "none.txt", WORDS)


def test_training_starts_from_them(tmp_path: Path) -> None:
    """With a learning rate near 0 they are still there, and the card says for how many words."""
    pytest.importorskip("torch")
    (tmp_path / "vectors.txt").write_text("2 3\nward 1 2 3\nfamily -1 0.5 4\n", encoding="utf-8")
    given = tiny("caml", vectors=tmp_path / "vectors.txt", learning_rate=1e-12, epochs=1)
    train("caml", cohort(), tmp_path / "m", given)
    assert read_manifest(tmp_path / "m").card["fit"]["words_with_vectors"] == 2
    model = read_back(tmp_path / "m")
    row = model._window.words.index("family") + 2
    np.testing.assert_allclose(model._network.embedding.weight[row].detach(), [-1, 0.5, 4], atol=1e-6)
