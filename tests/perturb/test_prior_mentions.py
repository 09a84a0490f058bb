"""Prior mentions: the paper's substrings, and mentions that are not denied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb.prior_mentions import find_mentions, label_phrases
from palpate.synthetic.findings import labels

THIRTEEN = labels()


def found(text: str | None, label: str, rule: str = "substring", **more: object) -> int:
    return int(find_mentions([text], [label], rule=rule, **more)[0, 0])  # type: ignore[arg-type]


def test_every_label_has_phrases_in_lower_case_and_none_twice() -> None:
    assert tuple(label_phrases()) == THIRTEEN
    for phrases in label_phrases().values():
        assert len(set(phrases)) == len(phrases) > 1
        assert all(phrase == phrase.lower().strip() and len(phrase) > 2 for phrase in phrases)


@pytest.mark.parametrize("label", THIRTEEN)
def test_each_phrase_is_found_in_any_case_and_inside_words(label: str) -> None:
    for phrase in label_phrases()[label]:
        assert found(f"Admitted. PMH:{phrase.upper()}s, on treatment.", label) == 1
        assert found(f"History of {phrase}.", label, "affirmed") == 1
        first, _, rest = phrase.partition(" ")
        assert found(f"known {first}\n  {rest}", label) == 1  # broken over two lines
    assert found("Admitted for a sprained ankle.", label) == 0


@pytest.mark.parametrize(
    ("text", "affirmed"),
    [
        ("No evidence of pneumonia.", 0),
        ("Denies fever, cough, pneumonia or chills.", 0),
        ("Pneumonia was ruled out.", 0),
        ("CT negative for pneumonia", 0),
        ("No fever. Treated for pneumonia.", 1),
        ("No effusion but pneumonia on the right.", 1),
        ("No pneumonia on admission. Later developed pneumonia.", 1),
        ("Pneumonia, not severe.", 1),
        ("The patient noticed pneumonia-like symptoms", 1),  # "not" inside a word denies nothing
        ("No chest pain\n\nPneumonia: finished antibiotics", 1),
        ("no fever; pneumonia improving", 1),
        ("Not an elective admission, which was for pneumonia.", 1),
        ("CT negative for clots, positive for pneumonia.", 1),
    ],
)
def test_denied_mentions_count_only_for_the_papers_rule(text: str, affirmed: int) -> None:
    assert found(text, "Pneumonia") == 1
    assert found(text, "Pneumonia", "affirmed") == affirmed


def test_what_wards_write_is_known() -> None:
    assert found("Admitted with a CHF exacerbation.", "Edema") == 1
    assert found("Systolic heart failure, EF 25%.", "Edema") == 1
    assert found("CXR with a new right lower lobe opacity.", "Lung Opacity") == 1
    assert found("Leg edema, on stockings.", "Edema") == 0


def test_unknown_where_there_is_no_note_or_no_phrase() -> None:
    out = find_mentions([None, "  \n", "hernia and pneumonia"], ["Hernia", "Pneumonia"])
    assert out.tolist() == [[-1, -1], [-1, -1], [-1, 1]]
    own = find_mentions(["hernia", "pneumonia"], ["Hernia", "Pneumonia"], phrases={"Hernia": ["Hernia"]})
    assert own.tolist() == [[1, 0], [0, 1]]
    assert found("pneumonia", "Pneumonia", phrases={"Pneumonia": ["something else"]}) == 0


@given(st.lists(st.text(max_size=60), max_size=6))
def test_an_affirmed_mention_is_a_mention(parts: list[str]) -> None:
    text = " pneumonia ".join(parts)
    plain = find_mentions([text], THIRTEEN)
    affirmed = find_mentions([text], THIRTEEN, rule="affirmed")
    assert np.array_equal(plain == -1, affirmed == -1)
    assert np.all(affirmed <= plain)
