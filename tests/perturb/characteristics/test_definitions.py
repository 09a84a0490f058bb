"""Characteristics from YAML: the built-in ones, a user's own, and files that are wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import palpate
from palpate.errors import ConfigError
from palpate.perturb.characteristics import NAMES, Alterer, alter, detect, load_definition
from palpate.perturb.characteristics.wording.contexts import lead_word

_NOTE = "63 year old man with asthma.\n\nSocial History:\nLives alone. Does not smoke.\n\nExam:\nWell."


@pytest.mark.parametrize(
    ("text", "name", "group", "expected"),
    [
        ("63 year old man", "weight", "obese", "63 year old obese man"),
        ("a 63 year old man", "weight", "morbidly obese", "a 63 year old morbidly obese man"),
        ("63 year old obese White man", "weight", "none", "63 year old White man"),
        ("63 year old White man", "weight", "obese", "63 year old obese White man"),
        ("An obese 63M with OSA", "weight", "none", "A 63M with OSA"),
        ("63M with OSA", "weight", "obese", "Obese 63M with OSA"),
        ("63 yo morbidly obese woman", "weight", "underweight", "63 yo underweight woman"),
        ("63 yo man. His mother is obese.", "weight", "underweight", "63 yo underweight man. His mother is obese."),
        ("63 yo man. PMH: obesity.", "weight", "underweight", "63 yo man. PMH: low body weight."),
        ("63 yo man. PMH: morbid obesity.", "weight", "obese", "63 yo man. PMH: obesity."),
        (_NOTE, "insurance", "Medicaid", _NOTE.replace("smoke.", "smoke. Has Medicaid.")),
        (_NOTE.replace("smoke.", "smoke. Has Medicaid."), "insurance", "none", _NOTE),
        (
            _NOTE.replace("smoke.", "smoke. Has Medicaid."),
            "insurance",
            "uninsured",
            _NOTE.replace("smoke.", "smoke. Has no health insurance."),
        ),
        ("Insurance: Medicaid\n63 yo man", "insurance", "private", "Insurance: Private\n63 yo man"),
        ("63 yo man. Sister has Medicaid.", "insurance", "uninsured", "63 yo uninsured man. Sister has Medicaid."),
        ("63 yo woman", "housing", "homeless", "63 yo homeless woman"),
        ("63 yo undomiciled man", "housing", "none", "63 yo man"),
        ("He is homeless. 63 yo man.", "housing", "housed", "He is stably housed. 63 yo man."),
        ("63 yo man, homeless, with cough.", "housing", "housed", "63 yo man, stably housed, with cough."),
        ("63 yo man, homeless, with cough.", "housing", "none", "63 yo man, with cough."),
        ("63 yo transgender woman", "ethnicity", "Asian", "63 yo Asian transgender woman"),
        ("63 yo woman", "language", "Spanish", "63 yo Spanish-speaking woman"),
        ("63 yo Russian-speaking woman", "language", "English", "63 yo English-speaking woman"),
        ("Language: Cantonese\n63 yo woman", "language", "English", "Language: English\n63 yo woman"),
        ("Pt refused labs. Noncompliant.", "wording", "neutral", "Pt declined labs. Nonadherent."),
        ("Pt declined labs.", "wording", "stigmatizing", "Pt refused labs."),
        ("Known alcoholic.", "wording", "neutral", "Known person with alcohol use disorder."),
        ("He is an alcoholic.", "wording", "neutral", "He is a person with alcohol use disorder."),
    ],
)
def test_built_in(text: str, name: str, group: str, expected: str) -> None:
    alteration = alter(text, name, group)
    assert alteration.text == expected
    assert alteration.action in ("changed", "added")
    assert alter(expected, name, group).action == "kept"


@pytest.mark.parametrize(
    ("text", "name", "group", "reason"),
    [
        ("63 yo man.\nABD: obese, soft.", "weight", "underweight", "contradictory"),
        ("63 yo man who lives in a house with 14 steps.", "housing", "homeless", "contradictory"),
        ("CT head: no bleed.", "language", "Spanish", "no mention"),
        ("CT head: no bleed.", "wording", "neutral", "no mention"),
        ("He is homeless.", "housing", "none", "the mention can't be taken out"),
        ("Alcoholic hepatitis.", "wording", "neutral", "no mention"),
    ],
)
def test_built_in_skips(text: str, name: str, group: str, reason: str) -> None:
    alteration = alter(text, name, group)
    assert alteration.action == "skipped"
    assert alteration.reason is not None
    assert alteration.reason.startswith(reason)
    assert alteration.text == text


def test_contradictions_can_be_altered_all_the_same() -> None:
    assert alter("63 yo pregnant woman", "gender", "male").action == "skipped"
    assert alter("63 yo pregnant woman", "gender", "male", contradictory="alter").text == "63 yo pregnant man"


def test_detect_tells_of_all() -> None:
    detection = detect("63 y/o obese Hispanic F, homeless. She refused labs.")
    assert set(detection.present) == set(NAMES)
    assert detection.present["gender"] == "female"
    assert detection.present["age"] == "63"
    assert detection.present["ethnicity"] == "Hispanic"
    assert detection.present["weight"] == "obese"
    assert detection.present["housing"] == "homeless"
    assert detection.present["wording"] == "stigmatizing"
    assert [mention.text for mention in detection.mentions["gender"]] == ["F", "She"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"gender": "female", "ethnicity": "Asian"}, "An 80 year old Asian woman. She fell."),
        ({"age": "85", "ethnicity": "African American"}, "An 85 year old African American man. He fell."),
        ({"gender": "trans woman", "weight": "obese", "ethnicity": "White", "age": "20"},
         "A 20 year old obese White transgender woman. She fell."),
        ({"gender": "male", "age": "80"}, "An 80 year old man. He fell."),
    ],
)  # fmt: skip
def test_combinations(wanted: dict[str, str], expected: str) -> None:
    assert alter("An 80 year old man. He fell.", wanted).text == expected


def test_only_the_first_of_many_adjectives_has_the_capital() -> None:
    wanted = {"ethnicity": "Asian", "housing": "homeless", "insurance": "uninsured", "language": "Spanish"}
    altered = alter("63F with asthma.", {**wanted, "weight": "obese"})
    assert altered.text == "Homeless uninsured obese Spanish-speaking Asian 63F with asthma."
    assert alter("63F with asthma.", {"language": "Spanish", "weight": "obese"}).text == (
        "Obese Spanish-speaking 63F with asthma."
    )


def test_a_combination_is_skipped_with_the_part_that_is() -> None:
    alteration = alter("63 yo man with BPH", {"age": "20", "gender": "female"})
    assert alteration.action == "skipped"
    assert alteration.reason == "gender: contradictory: male anatomy or obstetrics"


def test_a_boy_grows_up() -> None:
    assert alter("A 9 year old boy", "age", "18", sure="normal").text == "An 18 year old man"
    both = {"age": "30", "gender": "female"}
    assert alter("A 9 year old boy", both, sure="normal").text == "A 30 year old woman"


@pytest.mark.parametrize("text", ["3 month old male infant", "A 2-week-old baby girl with jaundice"])
def test_infants_are_skipped(text: str) -> None:
    assert alter(text, "age", "40").reason == "infant: the age is in days, weeks or months"


def test_unknown_names_are_told() -> None:
    with pytest.raises(ConfigError, match="unknown characteristic 'height'"):
        alter("63M", "height", "tall")
    with pytest.raises(ConfigError, match="'gender' has no group 'girl'; the groups are: female, male, trans woman"):
        alter("63M", "gender", "girl")
    for wrong in ("old", "0", "17", "90", "²"):
        with pytest.raises(
            ConfigError, match=rf"'age' has no group '{wrong}'; the groups are: whole years from 18 to 89, or 90\+"
        ):
            alter("63M", "age", wrong)


_OWN = """
name: smoking
insert: [noun]
except: [smoker's cough]
groups:
  none: {}
  smoker: {adjective: [smoking, cigarette-smoking], phrase: [current smoker], signs: [nicotine patch]}
  never smoker: {adjective: [nonsmoking, non-smoking], phrase: [never smoker]}
"""


def test_a_users_own(tmp_path: Path) -> None:
    path = tmp_path / "smoking.yaml"
    path.write_text(_OWN, encoding="utf-8")
    own = load_definition(path)
    assert alter("63 yo man", own, "smoker").text == "63 yo smoking man"
    assert alter("63 yo man, current smoker", own, "never smoker").text == "63 yo man, never smoker"
    assert alter("63 yo man with smoker's cough", own, "none").action == "kept"
    assert alter("63 yo man on a nicotine patch", own, "never smoker").action == "skipped"
    both = Alterer([own, "gender"])
    found = both.plan("63 yo nonsmoking man")
    assert both.edits(found, {"smoking": "none", "gender": "female"}).action == "changed"


def test_patterns_are_signs(tmp_path: Path) -> None:
    path = tmp_path / "frailty.yaml"
    path.write_text(
        "name: frailty\ninsert: [noun]\ngroups:\n  none: {}\n"
        "  frail: {adjective: [frail], patterns: ['gait speed 0\\.[0-7]', 'falls? x\\d'], against: [runs marathons]}\n"
        "  robust: {adjective: [robust]}\n",
        encoding="utf-8",
    )
    own = load_definition(path)
    note = "80 yo man, Gait speed 0.6 m/s."
    assert alter(note, own, "frail").action == "kept"
    assert alter(note, own, "robust").reason == ("contradictory: the note says 'frail' in words that can't be changed")
    assert alter(note, own, "robust", contradictory="alter").text == "80 yo robust man, Gait speed 0.6 m/s."
    assert alter("80 yo man. Father: gait speed 0.6.", own, "robust").action == "added"
    assert alter("80 yo man. No falls x3.", own, "robust").action == "added", "a denied sign is none"
    assert alter("80 yo man who runs marathons.", own, "frail").action == "skipped"
    assert alter("80 yo man who runs marathons.", own, "robust").action == "added"


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        (r"BMI\b.*", "bmi"),
        (r"BMI 4\d", "bmi"),
        (r"BMI\s+4", "bmi"),
        (r"BMI ?4", None),
        (r"obes", None),
        (r"falls? x\d", None),
        (r"BMI 4\d|obese", None),
        (r"BMI (?:3|4)\d", "bmi"),
        (r"BMI [|]", "bmi"),
        (r"\d kg", None),
    ],
)
def test_the_word_that_a_pattern_starts_with(pattern: str, word: str | None) -> None:
    assert lead_word(re.compile(pattern, re.IGNORECASE)) == word


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty; it needs `name` and `groups`"),
        ("- a\n", "line 1: the file must be a mapping"),
        ("name: x\n", "line 1: a characteristic has no `groups`"),
        ("name: x\ngroups:\n  a: {}\n", "line 2: `groups` has fewer than two groups"),
        ("name: x\ngrups: {}\n", "line 2: unknown key `grups` in a characteristic; did you mean `groups`?"),
        (
            "name: x\ngroups:\n  a: {}\n  b:\n    adjectiv: [c]\n",
            "line 5: unknown key `adjectiv` in group 'b'; did you mean `adjective`?",
        ),
        ("name: x\ngroups:\n  a: {}\n  b: {adjective: c}\n", "line 4: `adjective` must be a list"),
        ("name: x\ngroups:\n  a: {}\n  b: {adjective: []}\n", "line 4: `adjective` is empty"),
        (
            "name: x\ngroups:\n  a: {}\n  b:\n    adjective: [d]\n    adjective: [e]\n",
            "line 6: `adjective` is given twice",
        ),
        (
            "name: x\ngroups:\n  a: {adjective: [d]}\n  b: {adjective: [D]}\n",
            "line 2: 'D' is in two groups, 'a' and 'b'",
        ),
        ("name: x\ninsert: [verb]\ngroups: {a: {}, b: {}}\n", "line 2: `insert` has no place 'verb'"),
        ("name: x\ninsert: [section]\ngroups: {a: {}, b: {}}\n", "line 2: `insert` names a section"),
        ("name: x\norder: first\ngroups: {a: {}, b: {}}\n", "line 2: `order` must be a number of at least 0"),
        ("name: x\ngroups: [a, b]\nwording:\n  - {a: c}\n", "line 4: the row needs one phrase for each of a, b"),
        (
            "name: x\ngroups: [a, b]\nwording:\n  - {a: c, b: d}\n  - {a: e, b: C}\n",
            "line 5: 'C' is in `wording` twice",
        ),
        ("name: x\ngroups: {a: {}, b: {adjective: ['{x}']}}\n", "line 2: '{x}' in `adjective` is not a plain phrase"),
        ("name: [\n", "not valid YAML"),
        (
            "name: x\ngroups:\n  a: {}\n  b:\n    patterns:\n      - ok\n      - 'BMI ('\n",
            "line 7: 'BMI (' in `patterns` is not a regular expression (missing ), unterminated subpattern",
        ),
        ("name: x\ngroups:\n  a: {}\n  b: {patterns: ['x*']}\n", "line 4: 'x*' in `patterns` matches an empty text"),
        ("name: x\ngroups:\n  a: {}\n  b: {patterns: x}\n", "line 4: `patterns` must be a list"),
        (
            "name: x\ngroups: [a, b]\nwording:\n  - {a: c, b: d, context: here}\n",
            "line 4: unknown context 'here'; the contexts are: verb, adjective, subject, noun",
        ),
    ],
)
def test_wrong_files_are_told_by_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_definition(path)
    assert problem in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).count("\n") == 0


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file not found"):
        load_definition(tmp_path / "none.yaml")


def _texts(data: object) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _texts(key)
            yield from _texts(value)
    elif isinstance(data, list):
        for value in data:
            yield from _texts(value)


def test_no_phrase_is_broken_at_a_hyphen() -> None:
    """A line that ends with "non-" is joined with a blank to the next: "non- compliant" is found in no note."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    files = sorted(Path(palpate.__file__).parent.rglob("*.yaml"))
    texts = [(file.name, text) for file in files for text in _texts(yaml.load(file.read_text("utf-8"), Loader=loader))]
    assert len(texts) > 1000
    assert [(name, text) for name, text in texts if re.search(r"\w- (?!(?:and|or|to)\b)\w", text)] == []
