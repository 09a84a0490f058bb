"""Suites with more than two labels, and tests with a function of their own: counted by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from palpate import Cohort
from palpate.audits.capabilities.measures import is_right
from palpate.cases.edits import Inputs
from palpate.errors import ConfigError
from palpate.models import Model, Probabilities
from palpate.perturb.suites import RightAnswer, read_suite_yaml
from palpate.results import AuditResult
from tests.audits.capabilities.capability_runs import audit, quick, rows, values

CLASSES = """
suite: chest
labels: {classes: [pneumonia, edema, normal]}
lexicons: {side: [left, right]}
capabilities:
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
EACH = """
suite: chest
labels: {each: [pneumonia, edema, normal]}
lexicons: {side: [left, right]}
capabilities:
  - id: both
    tests:
      - id: both
        type: MFT
        templates:
          - {id: b1, label: [pneumonia, edema], text: "Consolidation and Fluid on the {side}."}
          - {id: b2, label: {pneumonia: yes, normal: no}, text: "Consolidation, perhaps Fluid, on the {side}."}
          - {id: b3, label: [], text: "Nothing on the {side}."}
"""
WORDS = {"Consolidation": 0, "Fluid": 1, "Clear": 2}


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


def run(tmp_path: Path, text: str, **options: object) -> AuditResult:
    file = tmp_path / "suite.yaml"
    file.write_text(text, encoding="utf-8")
    return audit(quick(suite=file, **options), cohort(), words=Words())


def test_the_named_class_must_be_the_highest(tmp_path: Path) -> None:
    result = run(tmp_path, CLASSES)
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


def test_every_label_is_decided_for_itself(tmp_path: Path) -> None:
    result = run(tmp_path, EACH)
    assert values(result, "pass_rate") == {
        "both/both: pneumonia, edema, no normal": 1.0,
        "both/both: pneumonia, no normal": 1.0,
        "both/both: no pneumonia, no edema, no normal": 1.0,
    }
    reasons = dict(rows(result, "recall").select("group", "reason").iter_rows())
    assert reasons["held-out: pneumonia, edema, no normal"] == "no 'pneumonia, edema, no normal' case in split 'test'"
    assert values(result, "recall")["held-out: pneumonia, no normal"] == 0.5


def test_right_answers_one_by_one() -> None:
    rng, labels, cut = np.random.default_rng(0), ("a", "b", "c"), np.array([0.5, 0.3, 0.7])
    p = rng.random((200, 3))
    found = is_right(p, cut, None, RightAnswer(present=("c",), absent=("a",)), labels)
    assert found.tolist() == [float(row[2] >= 0.7 and row[0] < 0.5) for row in p]
    highest = is_right(p, cut, None, RightAnswer(highest="b"), labels)
    assert highest.tolist() == [float(row[1] == max(row)) for row in p]
    assert np.isnan(is_right(p, np.array([np.nan, 0.3, 0.7]), None, RightAnswer(present=("a",)), labels)).all()
    assert not np.isnan(is_right(p, np.array([np.nan, 0.3, 0.7]), None, RightAnswer(present=("b",)), labels)).any()


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
EXPECTED = """
suite: chest
labels: {each: [pneumonia, edema, normal]}
lexicons: {side: [left, right]}
capabilities:
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


def test_a_function_says_what_passes(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(FUNCTIONS, encoding="utf-8")
    result = run(tmp_path, EXPECTED)
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
def test_a_bad_function_is_told(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "rules.py").write_text(FUNCTIONS, encoding="utf-8")
    (tmp_path / "bad.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        run(tmp_path, EXPECTED.replace("rules.py:sure", name))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("label: edema,", "label: oedema,", "line 13: the label is 'oedema'"),
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
def test_a_bad_suite_of_several_labels(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in CLASSES
    file = tmp_path / "suite.yaml"
    file.write_text(CLASSES.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_suite_yaml(file)


def test_labels_of_the_cohort_have_the_suites_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the cohort has no label 'oedema'"):
        run(tmp_path, CLASSES.replace("edema", "oedema"))
    with pytest.raises(ConfigError, match="has labels of its own; remove `label:`"):
        run(tmp_path, CLASSES, label="edema")
