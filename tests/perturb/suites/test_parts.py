"""Template texts, lexicons, and the check of sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palpate.perturb import suites as loader
from palpate.perturb.suites import find_flaws, list_suites, load_suite, read_suite_yaml
from palpate.perturb.suites.lexicons import misspell
from palpate.perturb.suites.patterns import PatternError, Slot, parse
from palpate.perturb.suites.wellformed import problems_of
from tests.perturb.suites.small import HEAD, write


def test_alternatives_multiply_and_may_be_empty() -> None:
    written = [flat.written() for flat in parse("I [really |]took {drug:upper}[.|!]").variations()]
    assert written == [
        "I really took {drug:upper}.",
        "I really took {drug:upper}!",
        "I took {drug:upper}.",
        "I took {drug:upper}!",
    ]


def test_slots_may_stand_in_alternatives() -> None:
    first, second = parse("[{a} and {b}|{b} and {a}]").variations()
    assert first.slots == (Slot("a"), Slot("b"))
    assert second.slots == (Slot("b"), Slot("a"))


def test_doubled_brackets_are_plain() -> None:
    assert parse("a [[b]] {{c}}").variations()[0].pieces == ("a [b] {c}",)


def test_brackets_are_plain_where_there_are_no_alternatives() -> None:
    assert parse("a [b|c] {d}", alternatives=False).variations()[0].pieces == ("a [b|c] ", "")


def test_too_many_variations() -> None:
    with pytest.raises(PatternError, match="1048576 variations"):
        parse("[a|b]" * 20)


@given(st.text(max_size=30))
def test_any_text_parses_or_says_why(text: str) -> None:
    try:
        pattern = parse(text)
    except PatternError:
        assert set(text) & set("[]{}|")
    else:
        assert len(pattern.variations()) == pattern.n_variations


@given(st.text(min_size=1, max_size=12))
def test_misspelling_is_always_another_word(word: str) -> None:
    assert misspell(word) != word


def test_misspelling_swaps_inside_the_longest_word() -> None:
    assert misspell("dry mouth") == "dry motuh"
    assert misspell("XR") == "XRR"
    assert misspell("aaaa") == "aaaaa"


def test_articles_forms_and_attributes(tmp_path: Path) -> None:
    text = """
    lexicons:
      drug:
        - Effexor
        - {value: Zoloft, short: Z}
        - {value: hourly pill, article: an}
        - {value: aspirin, article: none}
    """
    rest = """
    capabilities:
      - id: c
        tests:
          - id: t
            type: MFT
            label: positive
            templates:
              - {id: t1, text: "I took {drug:a}."}
              - {id: t2, text: "{drug:capital} hurts."}
              - {id: t3, text: "I took {drug:short}."}
    """
    suite = read_suite_yaml(write(tmp_path, f"    suite: s{text}{rest}"))
    texts = suite.cases(range(suite.size())).texts
    assert texts[:4] == ["I took an Effexor.", "I took a Zoloft.", "I took an hourly pill.", "I took aspirin."]
    assert texts[4:8] == ["Effexor hurts.", "Zoloft hurts.", "Hourly pill hurts.", "Aspirin hurts."]
    assert texts[8:] == ["I took Z."]


def test_lexicon_union(tmp_path: Path) -> None:
    write(tmp_path, "lexicon: a\nvalues: [x, y]\n", "a.yaml")
    write(tmp_path, "lexicon: b\nvalues: [z]\n", "b.yaml")
    body = """
capabilities:
  - {id: c, tests: [{id: t, type: MFT, label: ADE, templates: [{id: t1, text: "A {both}."}]}]}
"""
    suite = read_suite_yaml(write(tmp_path, HEAD + "  both: {union: [a.yaml, b.yaml]}\n" + body))
    assert suite.cases(range(3)).texts == ["A x.", "A y.", "A z."]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("I took it.", None),
        ("3 weeks ago I took it.", None),
        ("Dr. Who took a unit of an odd drug. It helped!", None),
        ("She had an MRI and a CT.", None),
        ("i took it.", "a sentence begins with a small letter"),
        ("I took it. it helped.", "a sentence begins with a small letter"),
        ("I took it", "does not end with one final mark"),
        ("I took it..", "does not end with one final mark"),
        ("I took it?!", "does not end with one final mark"),
        ("I  took it.", "spacing"),
        ("I took it .", "spacing"),
        ("I took it. ", "spacing"),
        ("I took a odd drug.", "'a odd'"),
        ("I took an drug.", "'an drug'"),
        ("I took the the drug.", "'the the'"),
        ("I took {drug}.", "a brace or bracket is left"),
    ],
)
def test_problems_of_a_text(text: str, problem: str | None) -> None:
    found = problems_of(text)
    assert (problem in found) if problem else found == []


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{drug} helps.", "[Zoloft, zoloft]"),
        ("I took a {drug}.", "[Zoloft, Effexor]"),
        ("I took {drug}.", "[Zoloft, Dr.]"),
        ("I took {drug:upper}.", "[Zoloft, zoloft]"),
        ("I took the {drug}.", "[Zoloft, the drug]"),
    ],
)
def test_flaws_of_single_values_are_found(tmp_path: Path, template: str, values: str) -> None:
    body = f"""
suite: s
lexicons: {{drug: {values}}}
capabilities:
  - {{id: c, tests: [{{id: t, type: MFT, label: positive, templates: [{{id: t1, text: "{template}"}}]}}]}}
"""
    flaws = find_flaws(read_suite_yaml(write(tmp_path, body)))
    assert len(flaws) == 1
    assert flaws[0].template == "t1"


def test_every_shipped_suite_is_listed_and_loads() -> None:
    assert list_suites() == ["ade", "notes", "notes_de", "notes_es"]
    for name in list_suites():
        assert load_suite(name).name == name


def test_shipped_files_are_small() -> None:
    folder = Path(str(load_suite("ade").file)).parent
    assert max(file.stat().st_size for file in folder.rglob("*.yaml")) < 100_000


def test_the_suite_in_the_docstring_loads(tmp_path: Path) -> None:
    text = loader.__doc__.split("\n\n", 3)[3]
    write(tmp_path, "lexicon: e\nvalues: [nausea, hives]\n", "effects.yaml")
    write(tmp_path, "lexicon: t\nvalues: [{value: 1 day, days: 1}, {value: 1 week, days: 7}]\n", "times.yaml")
    more = """
    capabilities:
      - id: order
        tests:
          - id: order
            type: MFT
            label: ADE
            templates:
              - {id: o1, text: "I took {drug} {longer} ago and have had {effect} for {shorter}."}
    """
    write(tmp_path, more, "more.yaml")
    suite = read_suite_yaml(write(tmp_path, text))
    assert [capability.id for capability in suite.capabilities] == ["negation", "order"]
    assert suite.size() == 2 * 2 * 2 + 2 * 2
    assert suite.cases([8]).texts == ["I took Zoloft 1 week ago and have had nausea for 1 day."]


def test_describe_counts_every_test_and_label(tmp_path: Path) -> None:
    table = load_suite("ade").describe()
    main = table.filter(table["part"] == "main")
    assert (main["templates"].sum(), main["variations"].sum(), main["default_cases"].sum()) == (99, 1505, 11265)
    assert main["all_cases"].sum() == load_suite("ade").size()
    assert set(table["label"]) == {"ADE", "no ADE", ""}
