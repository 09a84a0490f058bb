"""A user's own perturbations, and what is said when they are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Edit, splice
from palpate.errors import ConfigError
from palpate.perturb.robustness import Perturbation, WrittenNote, perturbed
from palpate.perturb.robustness.own import from_function, load_perturbation

STYLE = "name: house_style\nexpects: same\ntolerance: 0.02\nreplace:\n  pt: patient\n  right sided: right-sided\n"


def apply(own: Perturbation, text: str) -> str | list[Edit]:
    edits = perturbed(own, WrittenNote(text), np.random.default_rng(0))
    return edits if isinstance(edits, str) else splice(text, edits[0])


def written(tmp_path: Path, content: str) -> Path:
    (tmp_path / "own.yaml").write_text(content)
    return tmp_path / "own.yaml"


def test_whole_words_are_replaced_and_capitals_follow(tmp_path: Path) -> None:
    own = load_perturbation(written(tmp_path, STYLE))
    assert apply(own, "Pt opted for a right  sided PT. PTs") == "Patient opted for a right-sided PATIENT. PTs"
    assert apply(own, "nothing here") == "none of the words of the file"
    assert (own.expects, own.tolerance, own.question) == ("same", 0.02, "own")


def test_another_content_is_another_source(tmp_path: Path) -> None:
    first = str(load_perturbation(written(tmp_path, STYLE)))
    assert str(load_perturbation(written(tmp_path, STYLE))) == first
    assert str(load_perturbation(written(tmp_path, STYLE.replace("patient", "person")))) != first


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (STYLE.replace("name: house_style", "name: typos"), "line 1: 'typos' can't be its name"),
        (STYLE.replace("expects: same", "expects: up"), "line 2: `expects` is 'up'"),
        (STYLE.replace("0.02", "2"), "line 3: `tolerance` must be a number from 0.0001 to 1"),
        (STYLE.replace("replace", "swap"), "unknown key `swap`"),
        ("name: mine\nreplace:\n  pt: [a]\n", "line 3: what 'pt' becomes must be a text"),
        ("name: mine\nreplace:\n  '..': a\n", "line 3: '..' in `replace` has no letter or digit"),
        ("name: mine\nreplace:\n  pt: a\n  PT: b\n", "'PT' is in `replace` twice"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(ConfigError, match=r"own\.yaml") as error:
        load_perturbation(written(tmp_path, content))
    assert says in str(error.value)


def test_a_function_may_return_a_text_spans_or_nothing() -> None:
    assert apply(from_function(lambda text: text.replace("pain", "ache"), name="ache"), "back pain") == "back ache"
    spans = from_function(lambda text: [(5, 9, "ache")], name="spans")
    assert apply(spans, "back pain today") == "back ache today"
    assert apply(from_function(lambda text: None, name="none"), "x") == "the function changes nothing"

    def drawn(text: str, rng: np.random.Generator) -> str:
        return text + str(rng.integers(10))

    assert apply(from_function(drawn), "x") == f"x{np.random.default_rng(0).integers(10)}"


@pytest.mark.parametrize("made", [3, [(0, 99, "x")], [(0, 2, "a"), (1, 3, "b")], ["abc"], [(0, 1, 2)], {"a": 1}])
def test_what_a_function_may_not_return(made: Any) -> None:
    with pytest.raises(ConfigError, match="perturbation 'bad': the function returned no text"):
        apply(from_function(lambda text: made, name="bad"), "text")


def test_a_function_that_fails_is_named() -> None:
    def bad(text: str) -> str:
        raise KeyError(text)

    with pytest.raises(ConfigError, match=r"perturbation 'bad': the function failed \(KeyError\)") as caught:
        apply(from_function(bad), "a note")
    assert "a note" not in str(caught.value)
    with pytest.raises(ConfigError, match="can't be the name"):
        from_function(lambda text: text)
    with pytest.raises(ConfigError, match="`expects` is 'up'"):
        from_function(bad, expects="up")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="`tolerance` is 3"):
        from_function(bad, tolerance=3)


@given(before=st.text(alphabet="ab ", max_size=20), after=st.text(alphabet="ab ", max_size=20))
def test_a_returned_text_is_what_comes_out(before: str, after: str) -> None:
    made = apply(from_function(lambda text: after, name="f"), before)
    assert made == (after if after != before else "the function changes nothing")
