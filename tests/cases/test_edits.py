from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.cases.edits import Edit, Inputs, NamesOfRows, Variants, VariantsBuilder, splice


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(st.text(max_size=60))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    spans = zip(cuts[::2], cuts[1::2], strict=False)
    return text, [Edit(a, b, draw(st.text(max_size=5))) for a, b in spans]


@given(edited_texts())
def test_splice_equals_replacing_from_the_back(case: tuple[str, list[Edit]]) -> None:
    text, edits = case
    expected = text
    for start, end, word in reversed(edits):
        expected = expected[:start] + word + expected[end:]
    assert splice(text, edits) == expected


@given(st.lists(edited_texts(), min_size=1, max_size=6), st.data())
def test_inputs_survive_any_selection(cases: list[tuple[str, list[Edit]]], data: st.DataObject) -> None:
    builder = VariantsBuilder(n_cases=len(cases))
    for row, (_, edits) in enumerate(cases):
        builder.add(row, "g", edits)
    variants = builder.build()
    inputs = Inputs(
        parent=variants.parent,
        first_edit=variants.first_edit,
        start=variants.start,
        end=variants.end,
        replacement=variants.replacement,
        replacements=variants.replacements,
        parents=[text for text, _ in cases],
        case_ids=[str(k) for k in range(len(cases))],
        cohorts=["c"] * len(cases),
    )
    expected = [splice(text, edits) for text, edits in cases]
    assert inputs.texts == expected
    rows = data.draw(st.lists(st.integers(0, len(cases) - 1), max_size=8))
    taken = inputs.take(rows)
    assert taken.texts == [expected[row] for row in rows]
    assert taken.case_ids == [str(row) for row in rows]
    plain = data.draw(st.lists(st.booleans(), min_size=len(cases), max_size=len(cases)))
    without = inputs.without_edits(np.asarray(plain))
    assert without.texts == [
        text if bare else spliced for (text, _), bare, spliced in zip(cases, plain, expected, strict=True)
    ]


def test_overlapping_edits_are_refused_and_touching_ones_are_not() -> None:
    builder = VariantsBuilder(n_cases=1)
    builder.add(0, "g", [Edit(0, 2, "a"), Edit(2, 3, "b")])
    builder.add(0, "g", [Edit(0, 1, "a")])
    assert len(builder.build()) == 2
    builder.add(0, "g", [Edit(0, 3, "a"), Edit(2, 4, "b")])
    with pytest.raises(ValueError, match="do not overlap"):
        builder.build()


def test_edits_of_two_variants_may_overlap() -> None:
    builder = VariantsBuilder(n_cases=1)
    builder.add(0, "g", [Edit(5, 8, "a")])
    builder.add(0, "g")
    builder.add(0, "h", [Edit(0, 3, "b")])
    variants = builder.build()
    assert variants.n_edits.tolist() == [1, 0, 1]
    assert variants.rows_of("h").tolist() == [2]


def test_made_texts_come_after_the_cases() -> None:
    builder = VariantsBuilder(n_cases=10)
    builder.make("I took the drug.", "template")
    variants = builder.build()
    assert variants.parent.tolist() == [10]
    assert variants.made == ("I took the drug.",)


def test_cases_as_they_are() -> None:
    variants = Variants.of_cases([3, 1])
    assert len(variants) == 2
    assert not variants.n_edits.any()


def test_names_of_some_rows_are_those_that_are_looked_up_one_by_one() -> None:
    names = NamesOfRows(["a", "b", "c"], np.array([2, 0, 0, 1]))
    rows = np.array([3, 0, 0, 2])
    assert names.take(rows) == [names[int(row)] for row in rows] == ["b", "c", "c", "a"]
    inputs = replace(Inputs.from_texts(["p", "q", "r", "s"]), case_ids=names)
    assert list(inputs.take(rows).case_ids) == ["b", "c", "c", "a"]
