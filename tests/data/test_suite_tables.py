"""Tables of templates as people write them: other separators, careless cells, and answers about several labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from palpate.data.suites import import_csv, import_jsonl, import_templates, write_cases, write_templates
from palpate.errors import ConfigError
from palpate.perturb.suites import RightAnswer
from palpate.perturb.suites.suite import Suite

HEAD = "capability,label,template\n"
CLASSES = (
    "capability,class,template\nfind,pneumonia,Dense lung.\nfind,edema,Wet lung.\nfind,normal,Clear lung.\n"
    "find,edema,Fluid on {side} side.\n"
)
EACH = (
    'capability,label:pneumonia,label: edema,template\nfind,1,0,Dense lung.\nfind,1,1,"Dense, wet lung."\n'
    "find,0,,Not dense.\n"
)
FUNCTIONS = (
    "capability,test,label,expect,template\nfind,sure,,rules.py:sure,Dense lung.\nfind,sure,,rules.py:sure,Wet lung.\n"
    "find,plain,1,,Fluid seen.\n"
)


def table(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    file = tmp_path / "t.csv"
    file.write_text(text, encoding=encoding)
    return file


def texts(suite: Suite) -> list[str]:
    return [flat.written() for template in suite.templates for flat in template.variations()]


@pytest.mark.parametrize(("mark", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-8"), (",", "utf-8-sig")])
def test_other_separators_and_byte_order_marks(tmp_path: Path, mark: str, encoding: str) -> None:
    rows = [("Capability", " LABEL ", "Template"), ("c", "1.0", "Übelkeit nach {drug}."), ("c", "0.0", "Keine.")]
    file = table(tmp_path, "\r\n".join(mark.join(row) for row in rows), encoding)
    suite = import_csv(file)
    assert texts(suite) == ["Übelkeit nach {drug}.", "Keine."]
    assert [template.label for template in suite.templates] == [True, False]


def test_empty_rows_and_slots_in_capitals_or_with_blanks(tmp_path: Path) -> None:
    suite = import_csv(table(tmp_path, f"{HEAD}c,1,I took {{ DRUG }} and had {{Ade}}.\n,,\n\nc,0,Fine.,,\n,,\n"))
    assert texts(suite) == ["I took {drug} and had {ade}.", "Fine."]
    assert set(suite.lexicons) == {"drug", "ade"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (f"{HEAD}c,1,I took it, and it hurt.\n", "row 1: it has more cells than there are columns; put a text with a"),
        (f"{HEAD}c,1,A smile :{{ here.\n", "a { is not closed by a }; write a brace that is no slot twice, {{ or }}"),
        (f"{HEAD}c,1,I took {{}}.\n", "row 1, column 'template': {} has no name; write {drug} or {{}}"),
        (f"{HEAD}c,1,A smile }} here.\n", "a } has no { before it; write a brace that is no slot twice, {{ or }}"),
        (f"{HEAD}c,1,Ouch.\nc,1,Ow.\nc,1,Ouch.\n", "row 3, column 'template': the same text as in row 1; remove one"),
        (f"{HEAD}c,1,Ouch.\nc,0,Ouch.\n", "row 2, column 'template': the same text as in row 1, with another answer"),
        ("skill,label,template\na,1,b.\n", "'capability': column not found; the columns are: skill, label, template"),
        ("capability,class,label,template\nc,a,1,b.\n", "column 'class': there is a column 'label' too; keep one"),
        (CLASSES.replace("edema,W", "Edema,W"), "row 4, column 'class': 'edema' and 'Edema' (row 2) differ only in"),
        (CLASSES.replace("edema", "normal").replace("pneumonia", "normal"), "column 'class': all rows have the same"),
        (CLASSES.replace(",normal,", ",,"), "row 3, column 'class': the cell is empty"),
        (EACH.replace("find,1,0", "find,present?,0"), "row 1, column 'label:pneumonia': the label is 'present?'"),
        (EACH.replace("find,0,,", "find,,,"), "row 3, column 'label:pneumonia': no label has an answer"),
        (EACH.replace("label: edema", "label:pneumonia"), "column 'label:pneumonia': it is there twice"),
        (FUNCTIONS.replace("rules.py:sure,Wet", "rules.py,Wet"), "row 2, column 'expect': 'rules.py' is not an"),
        (FUNCTIONS.replace("rules.py:sure,Wet", "rules.py:odd,Wet"), "test 'sure' has cases with different types or"),
        (FUNCTIONS.replace(",1,,Fluid", ",,,Fluid"), "row 3, column 'label': the cell is empty"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_csv(table(tmp_path, rows), lexicons={"side": ["one"]})
    assert message in str(caught.value)


def test_a_column_of_classes(tmp_path: Path) -> None:
    suite = import_csv(table(tmp_path, CLASSES), lexicons={"side": ["one"]})
    assert suite.classes == ("pneumonia", "edema", "normal")
    answers = [template.wanted for template in suite.templates]
    assert answers == [RightAnswer(highest=name) for name in ("pneumonia", "edema", "normal", "edema")]
    assert {template.label for template in suite.templates} == {None}


def test_several_columns_of_labels(tmp_path: Path) -> None:
    suite = import_csv(table(tmp_path, EACH))
    assert suite.classes == ("pneumonia", "edema")
    assert [template.wanted for template in suite.templates] == [
        RightAnswer(present=("pneumonia",), absent=("edema",)),
        RightAnswer(present=("pneumonia", "edema")),
        RightAnswer(absent=("pneumonia",)),
    ]


def test_a_column_of_functions(tmp_path: Path) -> None:
    suite = import_csv(table(tmp_path, FUNCTIONS))
    sure, plain = suite.capabilities[0].tests
    assert sure.expect is not None
    assert (sure.expect.name, sure.expect.file) == ("sure", tmp_path / "rules.py")
    assert (plain.expect, [template.label for template in plain.templates]) == (None, [True])


def test_answers_part_base_templates(tmp_path: Path) -> None:
    rows = (
        "capability,class,template\nc,a,I took {drug} today.\nc,a,I tried {drug} today.\nc,b,We tried {drug} today.\n"
    )
    found = import_templates(table(tmp_path, rows))
    assert [len(template.variations()) for template in found.suite.templates] == [2, 1]


@pytest.mark.parametrize("text", [CLASSES, EACH, FUNCTIONS])
def test_written_tables_come_back(tmp_path: Path, text: str) -> None:
    side = {"side": ["one"]}
    suite = import_csv(table(tmp_path, text), lexicons=side)
    again = tmp_path / "again.csv"
    assert write_templates(suite, again) == len(texts(suite))
    back = import_csv(again, lexicons=side)
    assert (back.classes, texts(back)) == (suite.classes, texts(suite))
    assert [t.wanted for t in back.templates] == [t.wanted for t in suite.templates]
    assert [t.expect for t in back.capabilities[0].tests] == [t.expect for t in suite.capabilities[0].tests]


def test_cases_about_several_labels_come_back(tmp_path: Path) -> None:
    for text in (CLASSES, EACH):
        suite = import_csv(table(tmp_path, text), lexicons={"side": ["one", "the other"]})
        file = tmp_path / "cases.jsonl"
        write_cases(suite.default_cases(np.random.default_rng(0)), file)
        back = import_jsonl(file)
        assert back.classes == suite.classes
        assert {t.id: t.wanted for t in back.templates} == {t.id: t.wanted for t in suite.templates}


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ({"labels": ["a"]}, "line 1: `labels` does not give 1 or 0 for each label"),
        ({"labels": {"a": "x"}}, "column 'label:a': the label is 'x'"),
        ({"class": "a"}, "all rows have the same class"),
        ({"expect": "rules"}, "'rules' is not an expectation"),
        ({}, "line 1: the case has no `label`"),
    ],
)
def test_bad_cases_about_several_labels(tmp_path: Path, case: dict[str, object], message: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"text": "Dense lung.", **case}), encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        import_jsonl(file)
