"""Classes as people write them (`python:module:Class`): found beside audit.yaml, asked as they are, and refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models import ModelSpec, load_model
from palpate.models.adapters.python import load
from palpate.results import Asked
from palpate.testing.model_contract import check_model_contract, check_spec_contract
from tests.e2e.command_line import CommandLine

TEXTS = ["a fever", "no pain", "fever fever"]
WANTED = [[0.25], [0.0], [0.5]]
HEAD = "import numpy as np\nimport pandas as pd\nimport polars as pl\n"


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def made(folder: Path, body: str, target: str = "my_model:Mine", **options: Any) -> Any:
    (folder / "my_model.py").write_text(HEAD + body)
    return load(target, options, folder=folder)


@pytest.mark.parametrize(
    "answer",
    [
        "p",
        "np.array(p)",
        "np.array(p)[:, None]",
        "[[x] for x in p]",
        "{'ill': p}",
        "[{'ill': x} for x in p]",
        "pd.Series(p)",
        "pd.DataFrame({'ill': p})",
        "pl.Series(p)",
        "pl.DataFrame({'ill': p})",
        "tuple(p)",
        "__import__('torch').tensor(p, requires_grad=True)",
    ],
)
def test_whatever_predict_returns(answer: str, tmp_path: Path) -> None:
    body = (
        "class Mine:\n    def predict(self, texts):\n        p = [t.count('fever') / 4 for t in texts]\n"
        f"        return {answer}\n"
    )
    model = made(tmp_path, body)
    np.testing.assert_allclose(model.predict(Inputs.from_texts(TEXTS)), WANTED)
    assert model.labels == (("ill",) if "ill" in answer else ("positive",))


@pytest.mark.parametrize(
    "answer", ["{'b': y, 'a': x}", "pd.DataFrame({'b': y, 'a': x})", "[{'b': j, 'a': i} for i, j in zip(x, y)]"]
)
def test_labels_by_name_and_not_by_order(answer: str, tmp_path: Path) -> None:
    body = (
        "class Mine:\n    labels = ['a', 'b']\n    def predict(self, texts):\n"
        f"        x, y = [0.1] * len(texts), [0.9] * len(texts)\n        return {answer}\n"
    )
    model = made(tmp_path, body)
    assert model.labels == ("a", "b")
    assert model.predict(Inputs.from_texts(TEXTS))[0].tolist() == [0.1, 0.9]
    with pytest.raises(ModelError, match="nothing for label 'c'; it named 2 others"):
        made(tmp_path, body, labels=["a", "c"]).predict(Inputs.from_texts(TEXTS))


def test_names_in_an_answer_are_not_shown_as_they_may_be_notes(tmp_path: Path) -> None:
    model = made(
        tmp_path, "def predict(texts):\n    return {text: 0.5 for text in texts}\n", "my_model:predict", labels=["ill"]
    )
    with pytest.raises(ModelError, match="nothing for label 'ill'; it named 2 others") as raised:
        model.predict(Inputs.from_texts(["Secret one", "Secret two"]))
    assert "Secret" not in str(raised.value)


def test_predict_proba_is_asked_where_predict_gives_classes(tmp_path: Path) -> None:
    body = (
        "class Mine:\n    classes_ = np.array([{classes}])\n"
        "    def predict(self, texts):\n        return [1] * len(texts)\n"
        "    def predict_proba(self, texts):\n        return np.array([[0.2, 0.8]] * len(texts))\n"
    )
    first = made(tmp_path, body.replace("{classes}", "'ill', 'healthy'"), positive="ill")
    assert first.predict(Inputs.from_texts(TEXTS))[0, 0] == 0.2
    assert made(tmp_path, body.replace("{classes}", "0, 1")).predict(Inputs.from_texts(TEXTS))[0, 0] == 0.8
    with pytest.raises(ConfigError, match=r"'case' and 'control'.*`positive: case`"):
        made(tmp_path, body.replace("{classes}", "'case', 'control'"))


def test_arguments(tmp_path: Path) -> None:
    np.savez(tmp_path / "weights.npz", fever=0.25)
    body = (
        "class Mine:\n    def __init__(self, weights, *, scale=1.0):\n"
        "        self.weight = float(np.load(weights)['fever']) * scale\n"
        "    def predict(self, texts):\n        return [self.weight * t.count('fever') for t in texts]\n"
    )
    model = made(tmp_path, body, arguments={"weights": "weights.npz"})
    assert model.predict(Inputs.from_texts(TEXTS)).tolist() == WANTED
    double = made(tmp_path, body, arguments={"weights": "weights.npz", "scale": 2})
    assert double.predict(Inputs.from_texts(TEXTS))[2, 0] == 1.0
    assert double.fingerprint != model.fingerprint
    np.savez(tmp_path / "weights.npz", fever=0.2)
    assert made(tmp_path, body, arguments={"weights": "weights.npz"}).fingerprint != model.fingerprint
    with pytest.raises(ConfigError, match=r"can't be made: .*missing 1 required .*'weights'; `arguments` of the model"):
        made(tmp_path, body)
    with pytest.raises(ConfigError, match=r"unexpected keyword argument 'weight'"):
        made(tmp_path, body, arguments={"weight": "weights.npz"})
    with pytest.raises(ConfigError, match=r"failed: FileNotFoundError \(\w+\.py, line \d+\); see the traceback"):
        made(tmp_path, body, arguments={"weights": "gone.npz"})


@pytest.mark.parametrize("kind", ["ValueError", "TypeError"])
def test_what_an_error_of_its_making_says_is_not_shown(kind: str, tmp_path: Path) -> None:
    body = f"class Mine:\n    def __init__(self):\n        raise {kind}('Mrs Secret fell')\n"
    with pytest.raises(ConfigError, match=rf"making a 'Mine' failed: {kind} \(\w+\.py, line 6\)") as caught:
        made(tmp_path, body)
    assert "Secret" not in str(caught.value)


def test_an_object_of_the_module(tmp_path: Path) -> None:
    body = "class Mine:\n    def predict(self, texts):\n        return [0.5] * len(texts)\nmine = Mine()\n"
    assert made(tmp_path, body, "my_model:mine").predict(Inputs.from_texts(TEXTS))[0, 0] == 0.5
    with pytest.raises(ConfigError, match="`arguments` are for a class"):
        made(tmp_path, body, "my_model:mine", arguments={"a": 1})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("class Mine:\n    pass\n", "'Mine' has no method `predict`; write predict"),
        ("class Mine:\n    def predcit(self, texts): ...\n", "did you mean `predcit`"),
        ("class Mine:\n    labels = ['a', 'a']\n    def predict(self, texts): ...\n", "not a list of different names"),
        ("class Mine:\n    labels = 3\n    def predict(self, texts): ...\n", "can't be made|not a list|failed"),
        ("Mine = 3\n", "not a function"),
        ("", "no 'Mine'"),
    ],
)
def test_what_can_be_wrong_is_said(body: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        made(tmp_path, body)


FULL = """
class Mine:
    labels = ["ill", "pain"]
    threshold = 0.3
    explains = "counting"

    def predict(self, texts):
        return [[self._p(t[:60], "fever"), self._p(t[:60], "pain")] for t in texts]

    def _p(self, text, word):
        return min(0.1 + 0.2 * text.lower().count(word), 1.0)

    def window(self, texts):
        return [min(len(t), 60) for t in texts]

    def words(self):
        return ["fever", "pain"]

    def explain(self, texts, label):
        word = "fever" if label == "ill" else "pain"
        import re
        found = [re.finditer(r"\\w+", t[:60]) for t in texts]
        return [[(m.start(), m.end(), float(m.group().lower() == word)) for m in each] for each in found]
"""


def test_a_class_with_everything_keeps_the_contract(tmp_path: Path) -> None:
    (tmp_path / "whole_model.py").write_text(FULL)
    spec = ModelSpec("mine", "python:whole_model:Mine", str(tmp_path))
    model = load_model(spec)
    try:
        assert (model.labels, model.threshold, model.explains) == (("ill", "pain"), 0.3, ("counting",))
        assert model.words() == ["fever", "pain"]
        assert model.visible_ends(["x" * 70, "fever"]).tolist() == [60, 6]
        check_model_contract(model)
    finally:
        model.close()
    check_spec_contract(spec, is_file=False)


def test_a_number_as_window(tmp_path: Path) -> None:
    body = "class Mine:\n    window = 10\n    def predict(self, texts):\n        return [0.1 for t in texts]\n"
    model = made(tmp_path, body)
    assert model.window == "the first 10 characters"
    assert model.visible_ends(["x" * 11, "x" * 10, ""]).tolist() == [10, 10, 1]


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ("[(0, 999, 1.0)]", r"piece \(0, 999, 1\) of a text of which it reads 7"),
        ("[(3, 3, 1.0)]", r"piece \(3, 3, 1\)"),
        ("[(-2, 3, 1.0)]", r"piece \(-2, 3, 1\)"),
        ("[(0, 4, 1.0), (2, 6, 1.0)]", "overlap at character 2"),
        ("[(0, 4, float('nan'))]", "nan"),
        ("[(0, 4)]", r"no \(start, end, score\)"),
        ("['fever']", r"no \(start, end, score\)"),
        ("None", r"no \(start, end, score\)"),
    ],
)
def test_wrong_explanations_are_errors_that_name_the_case(spans: str, message: str, tmp_path: Path) -> None:
    body = (
        "class Mine:\n    def predict(self, texts):\n        return [0.5] * len(texts)\n"
        f"    def explain(self, texts, label):\n        return [{spans}] * len(texts)\n"
    )
    model = made(tmp_path, body)
    asked = Asked(np.array([0]), np.array([0]))
    with pytest.raises(ModelError, match=message) as said:
        model.explain(Inputs.from_texts(TEXTS, ["c7", "c8", "c9"]), asked, "own")
    assert said.value.case == "c7"
    assert "fever" not in str(said.value) or "'fever'" in spans
    with pytest.raises(ModelError, match="a list for each text"):
        made(tmp_path, body.replace("] * len(texts)\n", "][1:]\n")).explain(Inputs.from_texts(TEXTS), asked, "own")


# --- columns ----------------------------------------------------------------------------------------------------

RISK = """
{imports}
class Risk:
    labels = ["died"]
    def predict(self, frame):
        {check}
        return (frame["age"] / 100).to_numpy()
"""


@pytest.mark.parametrize(
    ("imports", "check"),
    [
        ("", "assert type(frame).__module__.startswith('polars')"),
        ("import pandas", "assert isinstance(frame, pandas.DataFrame)"),
    ],
)
def test_columns_of_the_cohort_end_to_end(
    imports: str, check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "risk_model.py").write_text(RISK.format(imports=imports, check=check))
    rows = [f"p{k},{20 + k},{'M' if k % 3 else ''},{k % 2},test" for k in range(60)]
    (tmp_path / "cases.csv").write_text("\n".join(["id,age,sex,died,split", *rows]) + "\n")
    (tmp_path / "audit.yaml").write_text(
        "cohort: {file: cases.csv, case: id, labels: [died], split: split}\n"
        "models:\n  risk: {source: 'python:risk_model:Risk', reads: columns}\n"
        "audits:\n  performance: {n_replicates: 100}\ncache: cache.sqlite\n"
    )
    ran = CommandLine(capsys, monkeypatch)("audit", tmp_path / "audit.yaml", "--out", tmp_path / "run", "--debug")
    assert ran.code == 0, ran.err
    kept = pl.read_parquet(tmp_path / "run" / "predictions" / "risk.parquet")["p"].list.first()
    assert sorted(kept) == pytest.approx([k / 100 for k in range(20, 80)])


def test_columns_that_the_table_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("case_id,age\na,1\n")
    body = "class Mine:\n    def predict(self, frame):\n        return frame['age'] / 100\n"
    options: dict[str, Any] = {"reads": "columns", "tables": {"": {"file": "t.csv"}}}
    with pytest.raises(ConfigError, match=r"t\.csv: the model reads column 'sex'.*its columns are case_id, age"):
        made(tmp_path, body, **options, columns=["sex"])
    with pytest.raises(ConfigError, match="needs the table"):
        made(tmp_path, body, reads="columns")
    model = made(tmp_path, body, **options)
    assert model.predict(Inputs.from_texts([""], ["a"])).tolist() == [[0.01]]
    with pytest.raises(ModelError, match="made up belongs to none"):
        model.predict(Inputs.from_texts([""], [""]))


def test_a_note_among_the_columns_is_read_as_altered(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("case_id,age,note\na,10,old man\n")
    body = (
        "class Mine:\n    def predict(self, frame):\n        return [0.1 + ('woman' in t) / 2 for t in frame['note']]\n"
    )
    model = made(tmp_path, body, reads="columns", tables={"": {"file": "t.csv", "text": "note"}})
    plain = Inputs.from_texts(["old man"], ["a"])
    none = np.zeros(1, dtype=np.int64)
    edited = Inputs(none, np.array([0, 1]), np.array([4]), np.array([7]), none, ["woman"], ["old man"], ["a"], [""])
    assert model.predict(plain).tolist() == [[0.1]]
    assert model.predict(edited).tolist() == [[0.6]]
