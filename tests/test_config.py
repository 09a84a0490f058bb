from __future__ import annotations

from pathlib import Path

import pytest

from palpate.audits.performance import Performance
from palpate.commands.audit import audit
from palpate.config import load_config, make_audit, parse_settings
from palpate.errors import ConfigError

GOOD = """\
cohort: notes.parquet
models:
  bert: hf:models/bert
  xgb: [palpate:a, palpate:b]
  lr: {source: "sklearn:lr.skops", trust: true, call_timeout: 5}
audits:
  performance:
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(text)
    return path


def test_short_and_long_forms(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert list(config.tables()) == ["notes"]
    specs = config.model_specs(tmp_path)
    assert [spec.name for spec in specs["xgb"]] == ["xgb[1]", "xgb[2]"]
    assert specs["lr"][0].options == {"trust": True}
    assert config.models["lr"].call_timeout == 5
    assert config.audits == {"data": {}, "performance": {}}  # the data are checked first, without being asked


@pytest.mark.parametrize(
    ("audits", "chosen"),
    [
        ("{performance: }", ["data", "performance"]),
        ("{performance: true, context: }", ["data", "performance", "context"]),
        ("{performance: {}, data: {similarity: 0.9}}", ["data", "performance"]),
        ("{performance: {}, data: false}", ["performance"]),
        ("{performance: {}, context: false}", ["data", "performance"]),
        ("{data: }", ["data"]),
    ],
)
def test_the_data_are_checked_first_unless_told_not_to(tmp_path: Path, audits: str, chosen: list[str]) -> None:
    config = load_config(write(tmp_path, GOOD.replace("audits:\n  performance:\n", f"audits: {audits}\n")))
    assert list(config.audits) == chosen


def test_an_option_of_the_data_checks_can_be_set_without_naming_them(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD), overrides=("data.similarity=0.9",))
    assert config.audits["data"] == {"similarity": 0.9}
    with pytest.raises(ConfigError, match="`audits`"):
        load_config(write(tmp_path, GOOD.replace("audits:\n  performance:\n", "audits: {data: false}\n")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty; it needs `cohort:`, `models:` and `audits:`"),
        ("- a\n", "line 1: the file must be a mapping"),
        ("cohort: [", "line 2: not valid YAML"),
        (GOOD + "gates: []\n", "line 8: `gates`: unknown option; did you mean `gate`?"),
        (GOOD.replace("cohort: notes.parquet", "cohort: {file: x.csv, txt: note}"), "did you mean `text`"),
        (GOOD.replace("cohort: notes.parquet\n", ""), "give either `cohort:` (one) or `cohorts:`"),
        (GOOD.replace("  bert:", "  ../bert:"), "a name has at most 80 letters"),
        (GOOD + "seed: -1\n", "line 8: `seed`"),
        ("cohort: a.csv\naudits: {performance: {}}\n", "`models`: required but missing"),
        (GOOD.replace("cohort: notes.parquet", "cohorts: {bert: a.csv}"), "names a cohort and a model"),
        (GOOD + "seed: many\n", "line 8: `seed`: must be a whole number."),
        (GOOD + "margins: [1]\n", "line 8: `margins`: must be a mapping"),
        (GOOD + "margins: {aurco: 0.03}\n", "line 8: `margins.aurco`: unknown margin 'aurco'; did you mean `auroc`?"),
        (GOOD + "margins: {auroc: 3}\n", "line 8: `margins.auroc`: must be less than 1"),
        (GOOD + "include_text: 3\n", "line 8: `include_text`: must be true or false."),
        (GOOD + "executor: cloud\n", "line 8: `executor`: must be 'local' or 'ray'."),
        ("cohort: a.csv\nmodels: {}\naudits: {performance: {}}\n", "`models`: must not be empty"),
        ("cohort: a.csv\nmodels:\naudits: {performance: {}}\n", "`models:` names none; write one below it"),
        (GOOD.replace("hf:models/bert", "{source: 3}"), "line 3: `models.bert.source`: must be a text or a list."),
        (
            GOOD.replace("bert: hf:models/bert", "bert: {predictions: p.csv}"),
            "line 3: `models.bert`: `source` is missing; write `source: predictions:p.csv`.",
        ),
    ],
)
def test_mistakes_are_named_with_their_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert words in str(caught.value)
    assert "audit.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="file not found"):
        load_config(tmp_path / "nothing.yaml")


def test_options_of_an_audit_are_its_fields(tmp_path: Path) -> None:
    assert make_audit("performance", {"threshold": 0.3, "labels": ["a"]}) == Performance(threshold=0.3, labels=("a",))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"treshold": 1}, "option 'treshold': unknown option; did you mean `threshold`?"),
        ({"zzz": 1}, "option 'zzz': unknown option; the options are: "),
        ({"n_replicates": 3}, "option 'n_replicates': must be at least 100."),
        ({"n_replicates": "many"}, "option 'n_replicates': must be a whole number."),
        ({"n_replicates": 100.5}, "option 'n_replicates': must be a whole number."),
        ({"level": 1}, "option 'level': must be at most 0.9999."),
        ({"correction": "magic"}, "option 'correction': must be 'bonferroni'"),
        ({"threshold": "best"}, "option 'threshold': must be a number or 'auto',"),
        ({"labels": 3}, "option 'labels': must be a list."),
        ({"required": [1]}, "option 'required': must be a mapping of `key: value` lines."),
        ({"required": {"auroc": "high"}}, "option 'required.auroc': must be a number."),
        ({"net_benefit": [0, 0.5]}, "option 'net_benefit.0': must be greater than 0"),
    ],
)
def test_wrong_options_of_an_audit(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_audit("performance", options)
    assert words in str(caught.value)
    assert "Input should" not in str(caught.value)


def test_an_unknown_audit_says_which_there_are() -> None:
    with pytest.raises(ConfigError, match=r"unknown audit 'performanc'; the audits are: .*performance"):
        make_audit("performanc", {})


def test_overrides_from_the_command_line(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD), overrides=("performance.threshold=0.3",))
    assert config.audits["performance"] == {"threshold": 0.3}
    with pytest.raises(ConfigError, match=r"--set performance.threshold=\[1: the value is not valid YAML"):
        load_config(write(tmp_path, GOOD), overrides=("performance.threshold=[1",))
    with pytest.raises(ConfigError, match="--set nothing=1"):
        load_config(write(tmp_path, GOOD), overrides=("nothing=1",))
    assert parse_settings(["titles=*summary", "notes= * "]) == {"titles": "*summary", "notes": "*"}, "no YAML reference"
    with pytest.raises(ConfigError, match="does not have audit 'vocab'"):
        load_config(write(tmp_path, GOOD), overrides=("vocab.x=1",))


def test_a_bad_name_is_named_as_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 3: `models\.\.\./bert`: a name has at most 80 letters"):
        load_config(write(tmp_path, GOOD.replace("  bert:", "  ../bert:")))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("prediction:p.csv", "line 3: model 'm': unknown scheme 'prediction'; did you mean `predictions:p.csv`?"),
        ("magic:x", "line 3: model 'm': unknown scheme 'magic'; the schemes are hf:, http:,"),
        ("p.csv", "line 3: model 'm': 'p.csv' is not of the form scheme:target; the schemes are "),
        (
            "{source: 'python:a:b',\n    lables: [x]}",
            "line 4: option 'lables' of python:a:b: unknown option; did you mean",
        ),
        ("{source: 'sklearn:a.skops', trust: maybe}", "option 'trust' of sklearn:a.skops: must be true or false."),
        (
            "{source: 'http://127.0.0.1:1/', retries: -1}",
            "option 'retries' of http://127.0.0.1:1/: must be at least 0.",
        ),
        ("{source: 'http://127.0.0.1:1/', api: chat, model: x, prompt: hi}", "has no {text}"),
        ("http://example.org/predict", "example.org is not this machine"),
        ("'python:module'", "is not of the form python:package.module:function"),
        ("[predictions:p.csv, onxx:b]", "line 3: model 'm[2]': unknown scheme 'onxx'; did you mean `onnx:b`?"),
    ],
)
def test_a_wrong_model_is_named_with_its_line_before_anything_is_read(tmp_path: Path, model: str, words: str) -> None:
    (tmp_path / "p.csv").write_text("case_id,ill\n1,0.5\n")
    path = write(tmp_path, f"cohort: a.csv\nmodels:\n  m: {model}\naudits: {{performance: {{}}}}\n")
    with pytest.raises(ConfigError) as caught:
        audit(path)
    assert words in str(caught.value), str(caught.value)
    assert "audit.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("sklearn:gone.skops", "gone.skops: model file or folder not found"),
        ("onnx:gone.onnx", "gone.onnx: model file or folder not found"),
        ("predictions:gone.csv", "gone.csv: model file or folder not found"),
        ("palpate:gone", "gone: model file or folder not found"),
        ("hf:gone", "gone: checkpoint folder not found"),
    ],
)
def test_so_is_a_missing_file(tmp_path: Path, model: str, words: str) -> None:
    path = write(tmp_path, f"cohort: a.csv\nmodels: {{m: '{model}'}}\naudits: {{performance: {{}}}}\n")
    with pytest.raises(ConfigError) as caught:
        audit(path)
    assert words in str(caught.value), str(caught.value)


def test_a_wrong_option_of_an_audit_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("case_id,ill\n1,0.5\n")
    text = "cohort: a.csv\nmodels: {m: 'predictions:p.csv'}\naudits:\n  performance:\n    level: 0.9\n    treshold: 1\n"
    with pytest.raises(ConfigError, match=r"audit\.yaml: line 6: audit 'performance', option 'treshold': unknown"):
        audit(write(tmp_path, text))
    with pytest.raises(ConfigError, match=r"audit\.yaml: line 4: unknown audit 'performanc'"):
        audit(write(tmp_path, text.replace("performance:", "performanc:")))
