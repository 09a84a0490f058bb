"""Which rows are variations of one base template: on suites whose answer is known, and as properties."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb.suites import load_suite
from palpate.perturb.suites.grouping import _common, clauses_of, group_variations, nearest_bases

WORDS = st.lists(
    st.sampled_from(["{drug}", "{pain}", "i", "took", "had", "before", "not", "gave", "me", "a"]), max_size=6
)


def test_wordings_of_one_sentence_are_one_base_template() -> None:
    taken, had = ("took", "was given", "went on"), ("had", "got", "noticed")
    before = [f"I {t} {{drug}} before I {h} {{pain}}." for t, h in product(taken, had)]
    after = [f"After I {h} {{pain}}, I {t} {{drug}}." for t, h in product(taken, had)]
    assert group_variations([*before, *after], [0] * 18) == [0] * 9 + [1] * 9


def test_connectives_and_the_order_of_clauses_are_wording() -> None:
    texts = [
        "{drug} gives me {pain}. But, I would recommend it to anyone.",
        "{drug} gives me {pain}, yet I would recommend it to anyone.",
        "I would recommend it to anyone, although {drug} gives me {pain}.",
        "{drug} gives me {pain}. But, my days have become far brighter than they were.",
    ]
    assert group_variations(texts, [0] * 4) == [0, 0, 0, 1]


def test_a_cue_or_another_order_of_slots_makes_another_template() -> None:
    texts = ["I had {pain} before {drug}.", "I had {pain} after {drug}.", "I had {drug} before {pain}."]
    assert group_variations(texts, [0] * 3) == [0, 1, 2]
    assert group_variations(["I had {pain}.", "I didn't have {pain}.", "I cannot have {pain}."], [0] * 3) == [0, 1, 1]


def test_openings_of_one_sentence_are_joined_but_crossed_openings_and_endings_are_not() -> None:
    openings = ("{drug} gives me weight loss.", "I always have weight loss when I'm on {drug}.")
    one = [f"{opening} I was trying hard to lose some weight anyway." for opening in openings]
    assert group_variations(one, [0, 0]) == [0, 0]
    endings = ("I was trying hard to lose some weight anyway.", "It worries all of my family and friends.")
    crossed = [f"{opening} {ending}" for opening, ending in product(openings, endings)]
    found = group_variations(crossed, [0] * 4)
    assert found[0] != found[2]
    assert found[1] != found[3]


def test_rows_that_only_ever_differ_in_two_clauses_are_two_templates() -> None:
    texts = [
        f"{opening} weight {change}. I was trying hard to {wish} weight anyway."
        for change, wish in (("loss", "lose"), ("gain", "gain"))
        for opening in ("I'm taking {drug} and having", "{drug} gives me", "From {drug} I have")
    ]
    assert group_variations(texts, [0] * 6) == [0, 0, 0, 1, 1, 1]
    # One row of each shows nothing of what changes alone: in doubt they are one.
    assert group_variations([texts[0], texts[3]], [0, 0]) == [0, 0]


def test_other_labels_are_never_joined() -> None:
    assert group_variations(["I had {pain}.", "I had {pain} today."], [True, False]) == [0, 1]


@pytest.mark.parametrize(("name", "most_split"), [("ade", 0.07), ("notes", 0.12)])
def test_the_base_templates_of_palpates_own_suites_are_found(name: str, most_split: float) -> None:
    """Few are split, which would make intervals too narrow; a few more are joined, which makes them wider."""
    texts, places, truth = [], [], []
    for capability in load_suite(name).capabilities:
        for test in capability.tests:
            for template in test.templates if test.type == "MFT" else ():
                for flat in template.variations():
                    texts.append(flat.written())
                    places.append((test.id, template.label))
                    truth.append(template.id)
    found = group_variations(texts, places)
    groups = defaultdict(set)
    for base, group in zip(truth, found, strict=True):
        groups[base].add(group)
    assert sum(len(each) > 1 for each in groups.values()) <= most_split * len(groups)
    assert 0.8 * len(groups) < len(set(found)) < 1.1 * len(groups)


@given(st.lists(WORDS.map(" ".join), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(texts: list[str], random: object) -> None:
    places = [k % 2 for k in range(len(texts))]
    order = list(range(len(texts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    found = group_variations(texts, places)
    again = group_variations([texts[k] for k in order], [places[k] for k in order])
    pairs = {(found[k], group) for k, group in zip(order, again, strict=True)}
    assert len(pairs) == len(set(found)) == len(set(again))
    assert all(len({places[k] for k in range(len(texts)) if found[k] == group}) == 1 for group in set(found))


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_common_words_as_counted_one_by_one(words: list[list[str]]) -> None:
    for (a, first), (b, second) in product(enumerate(words), repeat=2):
        total = len(first) + len(second)
        shared = sum((Counter(first) & Counter(second)).values())
        assert np.isclose(_common(words)[a, b], 2 * shared / total if total else 0.0)


def test_clauses_lose_their_marks_and_connectives() -> None:
    assert clauses_of("{Drug} hurts. Even so, I go on!") == (("{drug}", "hurts"), ("i", "go", "on"))
    assert clauses_of("") == ()


def test_the_nearest_base_template_has_the_same_slots_and_place() -> None:
    bases = [("x", "I took {drug} and had {pain}."), ("x", "After {pain}, I took {drug}."), ("y", "I had {pain}.")]
    texts = ["I used {drug} and had {pain}.", "After {pain}, I used {drug}.", "I got {pain}.", "I got {pain}."]
    assert nearest_bases(texts, ["x", "x", "y", "x"], bases) == [0, 1, 2, -1]
