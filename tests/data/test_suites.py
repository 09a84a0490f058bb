"""Templates and cases from elsewhere, and cases for elsewhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from palpate.data.suites import (
    import_csv,
    import_jsonl,
    import_templates,
    read_suite,
    write_cases,
    write_templates,
)
from palpate.errors import ConfigError
from palpate.perturb.suites import load_suite, read_suite_yaml
from palpate.perturb.suites.lexicons import slot_values
from tests.data.published import SHARED
from tests.perturb.suites.small import HEAD, ONE_TEST, write


def test_csv_of_templates(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        """
        capability,label,template
        order,no ADE,"Since {time_entity_large} I had {ade}, {time_entity_small} ago I got {drug}."
        order,ADE,"I took {drug} [twice|often] and it hurt."
        negation,no ADE,I took {drug} without {pain}.
        """,
        "t.csv",
    )
    suite = import_csv(file, lexicons={"pain": ["cramps", "aches"], "drug": ["Zoloft"]}, positive="ADE")
    assert [capability.id for capability in suite.capabilities] == ["order", "negation"]
    assert suite.labels == ("ADE", "no ADE")
    assert [template.label for template in suite.templates] == [False, True, False]
    last = suite.cases(range(suite.size() - 3, suite.size())).texts
    assert last == [
        "I took Zoloft [twice|often] and it hurt.",
        "I took Zoloft without cramps.",
        "I took Zoloft without aches.",
    ]
    cases = suite.sample(200, np.random.default_rng(0), capabilities=["order"])
    days = {entry.value: float(entry.attributes["days"]) for entry in suite.lexicons["time_entity_large"].entries}
    pairs = [
        (days[longer], days[shorter])
        for longer, shorter in zip(cases.values("time_entity_large"), cases.values("time_entity_small"), strict=True)
        if longer and shorter
    ]
    assert len(pairs) > 100
    assert all(longer > shorter for longer, shorter in pairs)


@pytest.mark.parametrize("word", ["1", "true", "Yes", "positive"])
def test_csv_labels_that_need_no_name(tmp_path: Path, word: str) -> None:
    file = write(tmp_path, f"capability,label,template\nc,{word},I took it.\nc,0,I did not.\n", "t.csv")
    assert [template.label for template in import_csv(file).templates] == [True, False]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("capability,template\na,b\n", "column 'label': column not found"),
        ("capability,label,template\nc,,I took it.\n", "row 1, column 'label': the cell is empty"),
        ("capability,label,template\nc,1,I took it.\nc,ADE,I had it.\n", "row 2, column 'label': the label is 'ADE'"),
        ("capability,label,template\nc,1,I took {dose}.\n", "row 1, column 'template': unknown slot '{dose}'"),
        ("capability,label,template\nc,1,I took {drug.\n", "row 1, column 'template': a { is not closed"),
        (
            "capability,label,template\nc,1,Ouch.\nc,0,Ouch.\n",
            "row 2, column 'template': the same text as in row 1, with another answer",
        ),
        ("capability,label,template\n", "the file has no cases"),
    ],
)
def test_bad_csv(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_csv(write(tmp_path, rows, "t.csv"))
    assert message in str(caught.value)
    assert "t.csv" in str(caught.value)


def test_a_slot_that_was_given_in_other_capitals_is_named(tmp_path: Path) -> None:
    file = write(tmp_path, "capability,label,template\nc,1,Kein {Symptom}.\n", "t.csv")
    with pytest.raises(ConfigError, match=r"unknown slot '\{Symptom\}'; 'symptom' was given; .* --set Symptom=FILE"):
        import_templates(file, lexicons={"symptom": ["Husten"]})
    assert import_templates(file, lexicons={"Symptom": ["Husten"]}).suite.lexicons["Symptom"].values == ("Husten",)


def test_a_suite_that_is_not_there(tmp_path: Path) -> None:
    for name in (str(tmp_path / "mine.yaml"), str(tmp_path / "mine.csv"), f"{tmp_path}.d"):
        with pytest.raises(ConfigError, match=r"suite not found; give a YAML, CSV or JSONL file, .*: ade, notes"):
            read_suite(name)
    with pytest.raises(ConfigError, match=r"unknown suite 'nope'; give one of ade, notes"):
        read_suite("nope")


def test_csv_third_label(tmp_path: Path) -> None:
    file = write(tmp_path, "capability,label,template\nc,ADE,A.\nc,no ADE,B.\nc,maybe,C.\n", "t.csv")
    with pytest.raises(ConfigError, match="row 3, column 'label': 'maybe' is a third label besides 'ADE' and 'no ADE'"):
        import_csv(file, positive="ADE")


def test_written_cases_come_back(tmp_path: Path) -> None:
    ade = load_suite("ade")
    cases = ade.default_cases(np.random.default_rng(0), capabilities=["negation", "contrast", "social_media_noise"])
    file = tmp_path / "cases.jsonl"
    # Each change of a template is a template of its own once its cases stand alone: the texts decide.
    assert write_cases(cases, file) == len(cases)
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for record, case in zip(records, cases, strict=True):
        assert (record["text"], record["changed"], record["label"]) == (case.text, case.changed, case.label)
        assert [record["text"][s["start"] : s["end"]] for s in record["slots"]] != [""]
    back = import_jsonl(file)
    again = back.default_cases(np.random.default_rng(1))
    key = ("capability", "test", "type", "template")
    before = sorted(zip(cases.texts, cases.changed, cases.label.tolist(), *map(cases.names, key), strict=True))
    after = sorted(zip(again.texts, again.changed, again.label.tolist(), *map(again.names, key), strict=True))
    assert after == before
    rules = {(t.id, t.tolerance, t.direction, t.margin) for c in back.capabilities for t in c.tests}
    assert ("contrast_down", None, "down", 0.1) in rules
    assert ("noise_invariance", 0.1, None, None) in rules


def test_csv_of_cases(tmp_path: Path) -> None:
    suite = read_suite_yaml(write(tmp_path, HEAD + ONE_TEST))
    file = tmp_path / "cases.csv"
    assert write_cases(suite.sample_batches(12, np.random.default_rng(0), batch=5), file) == 12
    with file.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["text"] for row in rows} == set(suite.cases(range(12)).texts)
    assert {row["label"] for row in rows} == {"0"}
    slots = json.loads(rows[0]["slots"])
    assert [slot["slot"] for slot in slots] == ["drug", "effect"]
    assert rows[0]["text"][slots[0]["start"] : slots[0]["end"]] == slots[0]["value"]


def test_other_endings_are_refused(tmp_path: Path) -> None:
    suite = read_suite_yaml(write(tmp_path, HEAD + ONE_TEST))
    with pytest.raises(ConfigError, match=r"give a file name that ends in \.csv or \.jsonl"):
        write_cases(suite.cases([0]), tmp_path / "cases.xlsx")


def test_jsonl_of_cases(tmp_path: Path) -> None:
    lines = [
        {"text": "I took it [x].", "label": 1, "template": "a"},
        {"text": "I had {it}.", "label": "1", "template": "a"},
        {"text": "I took it.", "changed": "I took it!", "capability": "noise", "tolerance": 0.05},
        {"text": "I have it.", "changed": "I have it not.", "capability": "not", "direction": "down", "margin": 0.2},
    ]
    file = write(tmp_path, "\n".join(json.dumps(line) for line in lines) + "\n\n", "c.jsonl")
    suite = import_jsonl(file)
    cases = suite.default_cases(np.random.default_rng(0))
    assert cases.texts == [line["text"] for line in lines]
    assert cases.names("type") == ["MFT", "MFT", "INV", "DIR"]
    assert cases.template.tolist() == [0, 0, 1, 2]
    assert [(t.tolerance, t.direction, t.margin) for c in suite.capabilities for t in c.tests] == [
        (None, None, None),
        (0.05, None, None),
        (None, "down", 0.2),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 1: not JSON"),
        ("[]", "line 1: no `text`"),
        ('{"text": "A."}', "line 1: the case has no `label`"),
        ('{"text": "A.", "label": "maybe"}', "the label is 'maybe'"),
        ('{"text": "A.", "label": 1, "changed": "B.", "type": "MFT"}', "line 1: an MFT has no `changed`"),
        ('{"text": "A.", "changed": "B.", "type": "DIR"}', "line 1: a DIR case needs a `direction`"),
        ('{"text": "A.", "type": "XYZ", "label": 1}', "line 1: the type is 'XYZ'"),
        ("", "the file has no cases"),
    ],
)
def test_bad_jsonl(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_jsonl(write(tmp_path, line, "c.jsonl"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('"tolerance": "x"', 'line 2: the tolerance is "x"'),
        ('"tolerance": -0.1', "line 2: the tolerance is -0.1"),
        ('"tolerance": NaN', "line 2: the tolerance is NaN"),
        ('"tolerance": true', "line 2: the tolerance is true"),
        ('"direction": "up", "margin": [1]', r"line 2: the margin is \[1\]"),
        ('"direction": "up", "margin": 2', "line 2: the margin is 2"),
    ],
)
def test_jsonl_with_a_bad_number(tmp_path: Path, rule: str, message: str) -> None:
    lines = ['{"text": "I took it.", "label": 1}', '{"text": "Fine.", "changed": "Well.", "label": 1, ' + rule + "}"]
    file = write(tmp_path, "\n".join(lines), "t.jsonl")
    with pytest.raises(ConfigError, match=message) as caught:
        import_jsonl(file)
    assert "t.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    "odd",
    [
        {"changed": "I took it!", "type": "INV"},
        {"changed": "I took it!", "type": "INV", "tolerance": 0.3},
        {"changed": "I took none.", "direction": "down"},
    ],
)
def test_a_template_of_two_types_or_rules_is_refused(tmp_path: Path, odd: dict[str, object]) -> None:
    """Also within one template, where the first case would decide for the others."""
    lines = [{"text": "I took some.", "changed": "I took some!", "type": "INV", "tolerance": 0.2}, odd]
    lines = lines if "tolerance" in odd or "direction" in odd else [{"text": "I took some."}, odd]
    told = {"label": 1, "template": "a", "test": "t"}
    written = [json.dumps({"text": "I took it.", **told, **line}) for line in lines]
    with pytest.raises(ConfigError, match="line 2: test 't' has cases with different types or rules"):
        import_jsonl(write(tmp_path, "\n".join(written), "c.jsonl"))


def test_tags_are_words(tmp_path: Path) -> None:
    lines = ['{"text": "A.", "label": 1, "tags": ["acute"]}', '{"text": "B.", "label": 0, "tags": "acute free_form"}']
    suite = import_jsonl(write(tmp_path, "\n".join(lines), "c.jsonl"))
    assert [template.tags for template in suite.templates] == [("acute",), ("acute", "free_form")]
    with pytest.raises(ConfigError, match="line 1: `tags` is not a list"):
        import_jsonl(write(tmp_path, '{"text": "A.", "label": 1, "tags": 5}', "d.jsonl"))


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\x0b"])
def test_only_line_feeds_part_the_lines_of_jsonl(tmp_path: Path, mark: str) -> None:
    text = f"I took it.{mark}It hurt."
    file = tmp_path / "t.jsonl"
    written = text.replace("\x0b", "\\u000b")
    file.write_text(f'{{"text": "{written}", "label": 1}}\r\n{{"text": "Fine.", "label": 0}}\n', encoding="utf-8")
    suite = import_jsonl(file)
    assert suite.cases(range(suite.size())).texts == [text, "Fine."]


THEIRS = SHARED / "suites" / "ade_templates"
needs_theirs = pytest.mark.skipif(not THEIRS.is_dir(), reason=f"the templates of another group are not in {THEIRS}")


@needs_theirs
def test_the_papers_own_file_is_imported_as_it_is() -> None:
    found = import_templates(THEIRS / "templates_all.csv")
    assert (found.n_rows, found.grouped_by) == (1505, "wording")
    exact = import_templates(THEIRS / "templates_all.csv", base=THEIRS / "templates_base.csv")
    assert (len(exact.suite.templates), exact.grouped_by) == (99, "file")
    counts = {
        (capability.id, label): sum(
            len(template.variations()) for t in capability.tests for template in t.templates if template.label is label
        )
        for capability in exact.suite.capabilities
        for label in (True, False)
    }
    assert sum(counts.values()) == 1505
    # Their file lists the variations of a base template one after the other: 99 bases are 99 runs of rows.
    first_rows = [template.line for template in exact.suite.templates]
    assert len(set(first_rows)) == 99
    base_of = {flat: t.id for t in exact.suite.templates for flat in t.variations()}
    groups = [{base_of[flat] for flat in template.variations()} for template in found.suite.templates]
    # No base template is split, so that no interval is too narrow; some are joined.
    assert sum(map(len, groups)) == 99
    assert 75 <= len(groups) <= 99


@needs_theirs
def test_the_longer_time_of_the_papers_file_is_longer() -> None:
    suite = import_csv(THEIRS / "templates_all.csv")
    days = {entry.value: float(entry.attributes["days"]) for entry in suite.lexicons["time_entity_l"].entries}
    cases = suite.sample(3000, np.random.default_rng(0), capabilities=["TempOrder"])
    pairs = {*zip(cases.values("time_entity_l"), cases.values("time_entity_s"), strict=True)} - {(None, None)}
    assert len(pairs) > 100
    assert all(days[str(longer)] >= 1.25 * days[str(shorter)] for longer, shorter in pairs)


def test_a_column_of_base_templates(tmp_path: Path) -> None:
    rows = "c,0,no pain,I had no pain.\nc,0,no pain,Pain was absent.\nc,1,pain,I had pain.\n"
    found = import_templates(write(tmp_path, f"capability,label,base,template\n{rows}", "t.csv"))
    assert found.grouped_by == "column"
    assert [(t.id, len(t.variations())) for t in found.suite.templates] == [("row-1", 2), ("pain", 1)]
    assert found.suite.size() == 3
    assert len(found.suite.default_cases(np.random.default_rng(0))) == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("c,0,a,I had none.\nc,1,a,I had it.\n", "row 2, column 'base': base template 'a' has another capability"),
        ("c,0,a,I had none.\nc,0,,I had nothing.\n", "row 2, column 'base': the cell is empty"),
        ("c,0,a,I had {drug}.\nc,0,a,I had nothing.\n", "slot 'drug' is only in some variations"),
    ],
)
def test_a_bad_column_of_base_templates(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_csv(write(tmp_path, f"capability,label,base,template\n{rows}", "t.csv"))
    assert message in str(caught.value)


def test_a_row_without_a_base_template_is_told(tmp_path: Path) -> None:
    head = "capability,label,template\n"
    rows = write(tmp_path, f"{head}c,0,I took no {{drug}}.\nc,1,I had it.\n", "t.csv")
    with pytest.raises(ConfigError, match=r"t\.csv, row 2.*no base template in b\.csv has its capability, label"):
        import_csv(rows, base=write(tmp_path, f"{head}c,0,I took no {{drug}}.\n", "b.csv"))


def test_written_templates_come_back_with_their_base_templates(tmp_path: Path) -> None:
    rows = 'c,ADE,"I had [it] {{so}}, {drug}."\nc,ADE,"I got [it] {{so}}, {drug}."\nc,no ADE,No {drug}.\n'
    suite = import_csv(write(tmp_path, f"capability,label,template\n{rows}", "t.csv"), positive="ADE")
    assert len(suite.templates) == 2
    assert write_templates(suite, tmp_path / "out.csv") == 3
    again = import_templates(tmp_path / "out.csv", positive="ADE")
    assert again.grouped_by == "column"
    assert [t.variations() for t in again.suite.templates] == [t.variations() for t in suite.templates]


def test_a_file_of_values_for_an_unknown_slot(tmp_path: Path) -> None:
    rows = write(tmp_path, "capability,label,template\nc,1,I had {pain} for {longer} and {shorter}.\n", "t.csv")
    listed = write(tmp_path, "# two kinds\ncramps\n\naches\n", "pains.txt")
    times = write(tmp_path, "Value;Days\na day;1\na week;7\n;\n", "times.csv")
    slots = {"pain": slot_values(listed), "longer": slot_values(times), "shorter": slot_values(times)}
    suite = read_suite(str(rows), slots=slots)
    assert set(suite.cases(range(suite.size())).texts) == {
        f"I had {pain} for a week and a day." for pain in ("cramps", "aches")
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("v.txt", "\n# none\n", "the file has no values"),
        ("v.csv", "word\ncramps\n", "column 'value': column not found; the columns are: word"),
        ("v.txt", "cramps\naches\n\ncramps \n", "line 4: 'cramps' is in line 1 already; remove one"),
        ("v.csv", "value,days\na day, 1,5\n", "row 1: it has more cells than there are columns"),
    ],
)
def test_a_bad_file_of_values(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        slot_values(write(tmp_path, text, name))
    with pytest.raises(ConfigError, match="the file can't be read"):
        slot_values(tmp_path / "nowhere.txt")


def test_a_folder_is_imported_for_its_one_table(tmp_path: Path) -> None:
    from palpate.commands.suites import import_suite

    rows = "capability,label,template\nnegation,0,No {x}.\nnegation,0,Not any {x}.\n"
    (tmp_path / "all.csv").write_text(rows)
    (tmp_path / "README.md").write_text("about")
    assert import_suite(str(tmp_path), slots={"x": ["fever"]}).source == str(tmp_path / "all.csv")
    (tmp_path / "base.csv").write_text("capability,label,template\nnegation,0,No {x}.\n")
    found = import_suite(str(tmp_path), slots={"x": ["fever"]})
    assert (found.grouped_by, len(found.suite.templates)) == ("file", 1)
    (tmp_path / "more.csv").write_text(rows)
    with pytest.raises(ConfigError, match=r"the folder has all\.csv, more\.csv; name the one file"):
        import_suite(str(tmp_path))


@needs_theirs
def test_the_papers_own_folder_is_imported_as_it_is() -> None:
    from palpate.commands.suites import import_suite

    found = import_suite(str(THEIRS))
    assert (found.n_rows, len(found.suite.templates), found.grouped_by) == (1505, 99, "file")
