"""Suites with more than two labels, and expectation functions, from every kind of file and through the audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.capabilities.measures import is_right
from palpate.cases.edits import Inputs
from palpate.data.suites import read_suite_file, write_cases
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.perturb.suites import RightAnswer
from palpate.results import AuditResult
from tests.audits.capabilities.capability_runs import audit, quick, rows, values

HEAD = """
suite: chest
labels: {LABELS}
lexicons: {side: [left, right]}
capabilities:
"""
CLASSES = (
    HEAD.replace("{LABELS}", "{classes: [pneumonia, edema, normal]}")
    + """
  - id: which
    tests:
      - id: which
        type: MFT
        templates:
          - {id: p1, label: pneumonia, text: "Consolidation on the {side}."}
          - {id: p2, label: pneumonia, text: "Opacity on the {side}."}
          - {id: e1, label: edema, text: "Fluid on the {side}."}
          - {id: n1, label: normal, text: "Clear on the {side}."}
      - id: more
        type: DIR
        direction: up
        margin: 0.2
        label: edema
        templates:
          - {id: d1, text: "Clear on the {side}.", to: "Fluid on the {side} now."}
      - id: side
        type: INV
        tolerance: 0.1
        changes: [{name: in short, respell: {the: th}}]
        templates:
          - {id: i1, text: "Fluid at the {side}."}
"""
)
EACH = (
    HEAD.replace("{LABELS}", "{each: [pneumonia, edema, normal]}")
    + """
  - id: both
    tests:
      - id: both
        type: MFT
        templates:
          - {id: b1, label: [pneumonia, edema], text: "Consolidation and Fluid on the {side}."}
          - {id: b2, label: {pneumonia: yes, normal: no}, text: "Consolidation, perhaps Fluid, on the {side}."}
          - {id: b3, label: [], text: "Nothing on the {side}."}
"""
)
EXPECTED = (
    HEAD.replace("{LABELS}", "{each: [pneumonia, edema, normal]}")
    + """
  - id: certainty
    tests:
      - id: sure
        type: MFT
        expect: rules.py:sure
        templates:
          - {id: s1, text: "Consolidation on the {side}."}
          - {id: s2, text: "Opacity on the {side}."}
      - id: follows
        type: DIR
        expect: rules.py:fluid_follows
        templates:
          - {id: f1, text: "Clear on the {side}.", to: "Fluid on the {side} now."}
"""
)
CLASSES_TABLE = """capability,id,class,template
which,p1,pneumonia,Consolidation on the {side}.
which,p2,pneumonia,A large Opacity is there.
which,e1,edema,Fluid on the {side}.
which,n1,normal,Clear on the {side}.
"""
EACH_TABLE = """capability;id;label:pneumonia;label:edema;label:normal;template
both;b1;1;1;0;Consolidation and Fluid on the {side}.
both;b2;1;;0;Consolidation, perhaps Fluid, on the {side}.
both;b3;0;0;0;Nothing on the {side}.
"""
EXPECTED_TABLE = """capability,test,id,label:pneumonia,label:edema,label:normal,expect,template
certainty,sure,s1,,,,rules.py:sure,Consolidation on the {side}.
certainty,sure,s2,,,,rules.py:sure,A large Opacity is there.
"""
FUNCTIONS = """
def sure(case):
    return max(case.before.values()) >= 0.8


def fluid_follows(case):
    return case.after["edema"] - case.before["edema"] > 0.5 and case.slots["side"] in case.changed


def odd(case):
    return "yes"


def broken(case):
    return case.before["nothing"]
"""
WORDS = {"Consolidation": 0, "Fluid": 1, "Clear": 2}
Run = Callable[..., AuditResult]


class Words(Model):
    """A label is likely where its word is in the text."""

    labels, fingerprint = ("pneumonia", "edema", "normal"), "words"

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.array([[0.8 if word in text else 0.1 for word in WORDS] for text in inputs.texts])


def cohort() -> Cohort:
    said = ["Consolidation", "Fluid", "Clear", "Fluid"]
    y = {"pneumonia": [1, 0, 0, 1], "edema": [0, 1, 0, 0], "normal": [0, 0, 1, 0]}
    frame = pl.DataFrame({"case_id": list("abcd"), "text": [f"{word} seen." for word in said], "split": "test", **y})
    return Cohort.from_frame(frame, labels=list(y))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Audits the model with a suite that is written as a file; its functions are in `rules.py` beside it."""
    (tmp_path / "rules.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")

    def audited(text: str, name: str = "suite.yaml", **options: object) -> AuditResult:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        if name.endswith(".csv"):
            options = {"slots": {"side": ["left", "right"]}, **options}
        return audit(quick(suite=file, **options), cohort(), words=Words())

    return audited


def as_cases(tmp_path: Path, table: str) -> str:
    """The finished cases of a table of templates, as JSON Lines."""
    file, cases = tmp_path / "table.csv", tmp_path / "cases.jsonl"
    file.write_text(table, encoding="utf-8")
    suite = read_suite_file(file, slots={"side": ["left", "right"]})
    write_cases(suite.default_cases(np.random.default_rng(0)), cases)
    return cases.read_text(encoding="utf-8")


def test_the_named_class_must_be_the_highest(run: Run) -> None:
    result = run(CLASSES)
    rates = values(result, "pass_rate")
    assert rates["which/which: pneumonia"] == 0.5  # "Opacity" says nothing to the model, and a tie is no answer
    assert (values(result, "template_pass_rate")["p1"], values(result, "template_pass_rate")["p2"]) == (1.0, 0.0)
    assert (rates["which/which: edema"], rates["which/which: normal"]) == (1.0, 1.0)
    assert (rates["which/more: edema"], rates["which/side"]) == (1.0, 1.0)
    recall = values(result, "recall")
    assert recall == {"held-out: pneumonia": 0.5, "held-out: edema": 1.0, "held-out: normal": 1.0}
    gap = rows(result, "pass_rate", reference="held-out: edema")
    assert gap["value"].to_list() == [0.0]
    assert set(result.estimates["label"]) == {"all labels"}


def test_every_label_is_decided_for_itself(run: Run) -> None:
    result = run(EACH)
    assert values(result, "pass_rate") == {
        "both/both: pneumonia, edema, no normal": 1.0,
        "both/both: pneumonia, no normal": 1.0,
        "both/both: no pneumonia, no edema, no normal": 1.0,
    }
    reasons = dict(rows(result, "recall").select("group", "reason").iter_rows())
    assert reasons["held-out: pneumonia, edema, no normal"] == "no 'pneumonia, edema, no normal' case in split 'test'"
    assert values(result, "recall")["held-out: pneumonia, no normal"] == 0.5


def test_a_table_says_the_same_as_yaml(run: Run, tmp_path: Path) -> None:
    """Templates in CSV and finished cases in JSONL give the pass rates of the YAML suite with the same sentences."""
    named = {"p1": 1.0, "p2": 0.0, "e1": 1.0, "n1": 1.0}
    in_yaml = values(run(CLASSES), "template_pass_rate")
    assert {name: in_yaml[name] for name in named} == named
    for name, text in (("t.csv", CLASSES_TABLE), ("t.jsonl", as_cases(tmp_path, CLASSES_TABLE))):
        result = run(text, name)
        assert values(result, "template_pass_rate") == named
        assert values(result, "recall") == values(run(CLASSES), "recall")
    for name, text in (("e.csv", EACH_TABLE), ("e.jsonl", as_cases(tmp_path, EACH_TABLE))):
        assert values(run(text, name), "pass_rate") == values(run(EACH), "pass_rate")
    result = run(EXPECTED_TABLE, "f.csv")
    assert values(result, "template_pass_rate") == {"s1": 1.0, "s2": 0.0}


def test_right_answers_one_by_one() -> None:
    rng, labels, cut = np.random.default_rng(0), ("a", "b", "c"), np.array([0.5, 0.3, 0.7])
    p = rng.random((200, 3))
    found = is_right(p, cut, None, RightAnswer(present=("c",), absent=("a",)), labels)
    assert found.tolist() == [float(row[2] >= 0.7 and row[0] < 0.5) for row in p]
    highest = is_right(p, cut, None, RightAnswer(highest="b"), labels)
    assert highest.tolist() == [float(row[1] == max(row)) for row in p]
    assert np.isnan(is_right(p, np.array([np.nan, 0.3, 0.7]), None, RightAnswer(present=("a",)), labels)).all()
    assert not np.isnan(is_right(p, np.array([np.nan, 0.3, 0.7]), None, RightAnswer(present=("b",)), labels)).any()


def test_a_function_says_what_passes(run: Run) -> None:
    result = run(EXPECTED)
    assert values(result, "pass_rate") == {"certainty/sure": 0.5, "certainty/follows": 1.0}
    assert values(result, "template_pass_rate") == {"s1": 1.0, "s2": 0.0, "f1": 1.0}
    assert any("expectation 'sure' does not hold" in finding.sentence for finding in result.findings)
    (shown,) = (block for block in result.blocks if block.title == "Sentences that fail")
    assert [row[3] for row in shown.rows] == ["sure"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rules.py:odd", "expectation 'odd' of test 'sure', template 's1': it gives str; give True or False"),
        ("rules.py:broken", "expectation 'broken' of test 'sure', template 's1': KeyError"),
        ("rules.py:nowhere", "there is no function 'nowhere'"),
        ("missing.py:sure", "the file of expectation 'sure' is not found"),
        ("bad.py:sure", "the file of expectation 'sure' can't be run"),
    ],
)
def test_a_bad_function_is_told(run: Run, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(EXPECTED.replace("rules.py:sure", name))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: edema,", "label: oedema,", "the label is 'oedema'"),
        ("{classes: [pneumonia, edema, normal]}", "{classes: [pneumonia]}", "needs at least two different names"),
        ("        label: edema\n", "", "template 'd1' has no label"),
        ('label: pneumonia, text: "O', 'text: "O', "template 'p2' has no label; add `label: pneumonia`"),
        (
            "tolerance: 0.1",
            "tolerance: 0.1\n        expect: rules.py:sure",
            "has an `expect`, so it has no `tolerance`",
        ),
        ("tolerance: 0.1", "expect: rules", "'rules' is not an expectation"),
    ],
)
def test_a_bad_suite_of_several_labels(run: Run, old: str, new: str, message: str) -> None:
    assert old in CLASSES
    with pytest.raises(ConfigError, match=message):
        run(CLASSES.replace(old, new, 1))


def test_labels_of_the_cohort_have_the_suites_names(run: Run) -> None:
    for text, name in ((CLASSES, "suite.yaml"), (CLASSES_TABLE, "t.csv")):
        with pytest.raises(ConfigError, match="the cohort has no label 'oedema'"):
            run(text.replace("edema", "oedema"), name)
        with pytest.raises(ConfigError, match="has labels of its own; remove `label:`"):
            run(text, name, label="edema")
