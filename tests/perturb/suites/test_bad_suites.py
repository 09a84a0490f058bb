"""What is wrong with a suite is said with its file, its line and one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from palpate.errors import ConfigError
from palpate.perturb.suites import load_suite, read_suite_yaml
from tests.perturb.suites.small import HEAD, ONE_TEST, write

GOOD = (HEAD + ONE_TEST).lstrip("\n")
TEMPLATE = '{id: t1, label: no ADE, text: "I [took|tried] {drug} without {effect}."}'

TIED = "slots: {other: drug}\nrelations: [{more: drug, than: other, by: days}]\ncapabilities:"


def line_of(text: str, part: str) -> int:
    return next(n for n, line in enumerate(text.splitlines(), start=1) if part in line)


def test_the_good_one_is_good(tmp_path: Path) -> None:
    assert read_suite_yaml(write(tmp_path, GOOD)).size() == 12


# What to replace in the good suite, by what, a part of the line that the error must name, and a part of the sentence.
BAD = {
    "unknown slot": ("{effect}.", "{efect}.", "{efect}", "unknown slot '{efect}'"),
    "unknown form": ("{effect}.", "{effect:loud}.", "effect:loud", "has no form 'loud'"),
    "empty lexicon": ("effect: [nausea, headaches]", "effect: []", "effect: []", "lexicon 'effect' is empty"),
    "null lexicon": ("effect: [nausea, headaches]", "effect: {values: }", "effect: {", "lexicon 'effect' is empty"),
    "value twice": ("[nausea, headaches]", "[nausea, nausea]", "effect: [", "has 'nausea' twice"),
    "missing label": ("label: no ADE, ", "", "id: t1", "template 't1' has no label"),
    "unknown label": ("label: no ADE", "label: nope", "label: nope", "the label is 'nope'"),
    "missing text": ('text: "I [took|tried] {drug} without {effect}."', "tags: [a]", "id: t1", "has no `text`"),
    "missing id": ("{id: t1, ", "{", "label: no ADE,", "has no `id`"),
    "duplicate id": (TEMPLATE, f"{TEMPLATE}\n          - {TEMPLATE.replace('without', 'with no')}", "with no", "twice"),
    "duplicate text": (TEMPLATE, f"{TEMPLATE}\n          - {TEMPLATE.replace('t1', 't2')}", "id: t2", "twice"),
    "one variation twice": (
        TEMPLATE,
        TEMPLATE + '\n          - {id: t2, label: no ADE, text: "I took {drug} without {effect}."}',
        "id: t2",
        "a variation, 'I took {drug} without {effect}.', occurs twice",
    ),
    "its own variation twice": ("[took|tried]", "[a|a b] [b |]", "id: t1", "occurs twice, first in line 13"),
    "open bracket": ("[took|tried]", "[took|tried", "took|tried", "a [ is not closed"),
    "bar outside": ("[took|tried]", "took|tried", "took|tried", "a | is outside"),
    "lone alternative": ("[took|tried]", "[took]", "[took]", "one alternative"),
    "same alternative": ("[took|tried]", "[took|took]", "took|took", "same alternative twice"),
    "nested": ("[took|tried]", "[took|[tried]]", "[took", "can't be nested"),
    "open brace": ("{effect}.", "{effect.", "{effect.", "a { is not closed"),
    "unknown key": ("type: MFT", "type: MFT\n        tmplates: []", "tmplates", "did you mean `templates`"),
    "unknown type": ("type: MFT", "type: MTF", "type: MTF", "type is 'MTF'"),
    "INV without changes": ("type: MFT", "type: INV\n        tolerance: 0.1", "id: t1", "nothing changes it"),
    "INV without tolerance": ("type: MFT", "type: INV", "id: negated", "has no `tolerance`"),
    "DIR without direction": ("type: MFT", "type: DIR", "id: negated", "has no `direction`"),
    "MFT with a tolerance": ("type: MFT", "type: MFT\n        tolerance: 0.1", "tolerance", "which has no `tolerance`"),
    "tolerance above 1": ("type: MFT", "type: INV\n        tolerance: 10", "tolerance: 10", "from 0 to 1"),
    "change twice": (
        "type: MFT",
        "type: INV\n        tolerance: 0.1\n        changes:\n          - {name: x, append: '!'}\n"
        "          - {name: x, append: '?'}",
        "append: '?'",
        "change 'x' is given twice",
    ),
    "two same keys": ("suite: small", "suite: small\nsuite: other", "suite: other", "`suite` is given twice"),
    "slot of no lexicon": ("capabilities:", "slots: {a: times}\ncapabilities:", "slots:", "not declared"),
    "relation of no slot": (
        "capabilities:",
        "relations: [{more: a, than: drug, by: days}]\ncapabilities:",
        "relations",
        "unknown slot 'a'",
    ),
    "size of no slot": ("capabilities:", "sizes: {dose: 2}\ncapabilities:", "sizes", "unknown slot 'dose'"),
    "lexicon file away": ("[nausea, headaches]", "gone.yaml", "gone.yaml", "is not found"),
    "include away": ("capabilities:", "include: [gone.yaml]\ncapabilities:", "gone.yaml", "is not found"),
    "a list for a text": ("suite: small", "suite: [small]", "suite:", "must be a text"),
    "an anchor that holds itself": ("[nausea, headaches]", "&x [*x]", "&x", "a cycle"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_suite_names_file_line_and_problem(tmp_path: Path, name: str) -> None:
    old, new, place, problem = BAD[name]
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_suite_yaml(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: line {line_of(text, place)}: "), message
    assert problem in message
    assert "\n" not in message


def test_slot_in_some_variations_only(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("{effect}.", "[{effect}|harm]."))
    with pytest.raises(ConfigError, match=r"line 13: template 't1': slot 'effect' is only in some variations"):
        read_suite_yaml(file)


def test_tabs(tmp_path: Path) -> None:
    text = GOOD.replace("      - id: negated", "\t  - id: negated")
    with pytest.raises(ConfigError, match=r"small\.yaml: line 10: the line is indented with a tab; use spaces"):
        read_suite_yaml(write(tmp_path, text))


def test_not_yaml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line \d+: not valid YAML"):
        read_suite_yaml(write(tmp_path, "suite: 'open\nmore: b\n"))


def test_relations_in_a_cycle(tmp_path: Path) -> None:
    ties = "slots: {other: drug}\nrelations:\n  - {more: drug, than: other, by: days}\n"
    text = GOOD.replace("capabilities:", ties + "  - {more: other, than: drug, by: days}\ncapabilities:")
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_suite_yaml(file)
    assert str(caught.value).startswith(f"{file}: line {line_of(text, 'more: other')}: ")
    assert "a cycle" in str(caught.value)


def test_files_that_include_each_other(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("capabilities:", "include: [b.yaml]\ncapabilities:"))
    write(tmp_path, "include: [small.yaml]\n", "b.yaml")
    with pytest.raises(ConfigError, match=r"b\.yaml: line 1: 'small\.yaml' includes itself, a cycle"):
        read_suite_yaml(file)


def test_lexicons_that_take_each_other_in(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD.replace("[nausea, headaches]", "a.yaml"))
    write(tmp_path, "lexicon: a\nunion: [b.yaml]\n", "a.yaml")
    write(tmp_path, "lexicon: b\nunion:\n  - a.yaml\n", "b.yaml")
    with pytest.raises(ConfigError, match=r"b\.yaml: line 3: .*a cycle"):
        read_suite_yaml(file)


def test_relation_by_a_number_that_is_not_there(tmp_path: Path) -> None:
    text = GOOD.replace("capabilities:", TIED)
    text = text.replace("without {effect}", "not {other} without {effect}")
    with pytest.raises(ConfigError, match=r"line \d+: template 't1': 'Zoloft' has no number 'days'"):
        read_suite_yaml(write(tmp_path, text))


def test_template_that_nothing_fills(tmp_path: Path) -> None:
    text = GOOD.replace("[Zoloft, Prozac, aspirin]", "[{value: Zoloft, days: 1}, {value: Prozac, days: 1}]")
    text = text.replace("capabilities:", TIED)
    text = text.replace("without {effect}", "not {other} without {effect}")
    with pytest.raises(ConfigError, match=r"line \d+: template 't1': no value fits slot 'drug' and 'other'"):
        read_suite_yaml(write(tmp_path, text))


def test_change_that_changes_nothing(tmp_path: Path) -> None:
    rule = "type: INV\n        tolerance: 0.1\n        changes: [{name: typo, respell: {takes: taeks}}]"
    with pytest.raises(ConfigError, match=r"template 't1': change 'typo' does not change the text: 'I took"):
        read_suite_yaml(write(tmp_path, GOOD.replace("type: MFT", rule)))


def test_alternatives_of_a_pair_must_match(tmp_path: Path) -> None:
    text = GOOD.replace("type: MFT", "type: DIR\n        direction: up")
    text = text.replace('{effect}."', '{effect}.", to: "I [a|b|c] {drug} with {effect}."')
    with pytest.raises(ConfigError, match=r"the alternatives of `to` don't match"):
        read_suite_yaml(write(tmp_path, text))


def test_unknown_suite_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown suite 'nope'; .*ade, notes"):
        load_suite("nope")


def test_empty_file_and_other_bytes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file is empty"):
        read_suite_yaml(write(tmp_path, ""))
    (tmp_path / "latin.yaml").write_bytes("suite: caf\xe9".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read_suite_yaml(tmp_path / "latin.yaml")
