from __future__ import annotations

from pathlib import Path

import pytest

from palpate.audits.performance import Performance
from palpate.config import load_config, make_audit
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
    assert config.audits == {"performance": {}}


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
        ({"treshold": 1}, "option 'treshold': unknown option; the options are: labels, split, threshold"),
        ({"n_replicates": 3}, "option 'n_replicates'"),
        ({"correction": "magic"}, "option 'correction'"),
        ({"threshold": "best"}, "option 'threshold'"),
    ],
)
def test_wrong_options_of_an_audit(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        make_audit("performance", options)
    assert words in str(caught.value)


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
    with pytest.raises(ConfigError, match="does not have audit 'vocab'"):
        load_config(write(tmp_path, GOOD), overrides=("vocab.x=1",))


def test_a_bad_name_is_named_as_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"line 3: `models\.\.\./bert`: a name has at most 80 letters"):
        load_config(write(tmp_path, GOOD.replace("  bert:", "  ../bert:")))
