from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import palpate
from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelError
from palpate.models.adapters.local_code import serving
from palpate.models.adapters.python import load

TEXTS = ["a fever", "", "fever fever"]


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))


def module(folder: Path, code: str, name: str = "my_model") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    return folder


def predict(target: str, folder: Path, **options: Any) -> Any:
    return load(target, options, folder=folder).predict(Inputs.from_texts(TEXTS))


@pytest.mark.parametrize("form", ["[x for x in p]", "np.array(p)", "np.array(p)[:, None]"])
def test_one_label(form: str, tmp_path: Path) -> None:
    code = f"import numpy as np\ndef f(texts):\n    p = [t.count('fever') / 4 for t in texts]\n    return {form}\n"
    p = predict("my_model:f", module(tmp_path, code))
    assert p.tolist() == [[0.25], [0.0], [0.5]]
    assert p.dtype == np.float64


def test_several_labels_and_their_names(tmp_path: Path) -> None:
    module(tmp_path, "def f(texts):\n    return [[0.1, 0.2, 0.3]] * len(texts)\n")
    model = load("my_model:f", {"labels": ["x", "y", "z"]}, folder=tmp_path)
    assert model.labels == ("x", "y", "z")
    assert model.predict(Inputs.from_texts(TEXTS)).shape == (3, 3)


def test_batch_size_is_kept(tmp_path: Path) -> None:
    module(tmp_path, "seen = []\ndef f(texts):\n    seen.append(len(texts))\n    return [0.5] * len(texts)\n")
    predict("my_model:f", tmp_path, batch_size=2)
    assert sys.modules["my_model"].seen == [1, 2, 1], "one text to see what the function reads, then the texts"


def test_callable_objects_and_attributes_of_objects(tmp_path: Path) -> None:
    code = (
        "class Scorer:\n    def __call__(self, texts):\n        return [0.25] * len(texts)\n"
        "    def other(self, texts):\n        return [0.75] * len(texts)\nscorer = Scorer()\n"
    )
    module(tmp_path, code)
    assert predict("my_model:scorer", tmp_path)[0, 0] == 0.25
    assert predict("my_model:scorer.other", tmp_path)[0, 0] == 0.75
    assert predict("my_model:Scorer", tmp_path)[0, 0] == 0.25, "an object of the class is made and called"


def test_module_in_a_package(tmp_path: Path) -> None:
    module(tmp_path / "my_package", "", name="__init__")
    module(
        tmp_path / "my_package", "from my_package.weights import W\ndef f(texts):\n    return [W] * len(texts)\n", "m"
    )
    module(tmp_path / "my_package", "W = 0.5\n", "weights")
    assert predict("my_package.m:f", tmp_path)[0, 0] == 0.5
    module(tmp_path / "my_package", "W = 0.25\n", "weights")
    assert predict("my_package.m:f", tmp_path)[0, 0] == 0.25


def test_same_name_in_two_folders_is_two_models(tmp_path: Path) -> None:
    for name, value in (("one", 0.1), ("two", 0.9)):
        module(tmp_path / name, f"def f(texts):\n    return [{value}] * len(texts)\n")
    one, two = (load("my_model:f", {}, folder=tmp_path / name) for name in ("one", "two"))
    assert one.predict(Inputs.from_texts(TEXTS))[0, 0] == 0.1
    assert two.predict(Inputs.from_texts(TEXTS))[0, 0] == 0.9
    assert one.fingerprint != two.fingerprint


def test_changed_twice_within_a_second(tmp_path: Path) -> None:
    answers = []
    for value in (0.1, 0.2, 0.3):
        module(tmp_path, f"def f(texts):\n    return [{value}] * len(texts)\n")
        answers.append(predict("my_model:f", tmp_path)[0, 0])
    assert answers == [0.1, 0.2, 0.3]


def test_two_functions_of_one_module_run_it_once(tmp_path: Path) -> None:
    module(tmp_path, "token = object()\ndef f(t):\n    return [0.1]\ndef g(t):\n    return [0.1]\n")
    load("my_model:f", {}, folder=tmp_path)
    first = sys.modules["my_model"].token
    load("my_model:g", {}, folder=tmp_path)
    assert sys.modules["my_model"].token is first


def test_fingerprint_has_the_function_and_the_labels(tmp_path: Path) -> None:
    module(tmp_path, "def f(t):\n    return [0.1]\ng = f\n")
    prints = {
        load("my_model:f", {}, folder=tmp_path).fingerprint,
        load("my_model:g", {}, folder=tmp_path).fingerprint,
        load("my_model:f", {"labels": ["x"]}, folder=tmp_path).fingerprint,
        load("my_model:f", {"fingerprint": "2"}, folder=tmp_path).fingerprint,
    }
    assert len(prints) == 4


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("my_model", "not of the form"),
        ("no_such_module_here:f", "Python module 'no_such_module_here' not found"),
        ("my_model.sub:f", "Python module 'my_model.sub' not found"),
        ("my_model:nothing", "the module has no 'nothing'"),
        ("my_model:number", "'number' is not a function"),
        ("needs_more:f", "needs 'not_installed_at_all'"),
        ("breaks:f", r"importing 'breaks' failed: ZeroDivisionError \(breaks.py, line 1\)"),
        ("garbled:f", r"importing 'garbled' failed: SyntaxError \(garbled.py, line 2\)"),
        ("json:f", "already imported"),
    ],
)
def test_what_can_be_wrong_is_said(target: str, message: str, tmp_path: Path) -> None:
    module(tmp_path, "number = 1\n")
    module(tmp_path, "import not_installed_at_all\n", "needs_more")
    module(tmp_path, "1 / 0\n", "breaks")
    module(tmp_path, "x = 1\ny = = 2\n", "garbled")
    module(tmp_path, "", "json")
    with pytest.raises(ConfigError, match=message):
        load(target, {}, folder=tmp_path)


@pytest.mark.parametrize(
    "answer", ["[0.1]", "[[0.1, 0.2]] * len(texts)", "0.5", "None", "['secret note'] * len(texts)"]
)
def test_wrong_answers_are_model_errors_without_text(answer: str, tmp_path: Path) -> None:
    module(tmp_path, f"def f(texts):\n    return {answer}\n")
    with pytest.raises(ModelError) as caught:
        predict("my_model:f", tmp_path)
    assert "my_model:f" in str(caught.value)
    assert "secret" not in str(caught.value)


PLANTED = "raise RuntimeError('planted')\n"


def test_the_folder_is_not_on_the_path_afterwards(tmp_path: Path) -> None:
    before = list(sys.path)
    predict("my_model:f", module(tmp_path, "def f(texts):\n    return [0.1] * len(texts)\n"))
    assert sys.path == before
    module(tmp_path, PLANTED, "planted_for_the_report")
    with pytest.raises(ModuleNotFoundError):
        __import__("planted_for_the_report")


def test_a_file_with_the_name_of_a_package_is_not_used(tmp_path: Path) -> None:
    module(tmp_path, PLANTED, "colorsys")
    module(tmp_path, "import colorsys\ndef f(texts):\n    return [colorsys.rgb_to_hls(0, 0, 0)[0]] * len(texts)\n")
    sys.modules.pop("colorsys", None)
    assert predict("my_model:f", tmp_path)[0, 0] == 0
    with pytest.raises(ConfigError, match=r"already imported|an installed module has the name 'colorsys' too"):
        load("colorsys:rgb_to_hls", {}, folder=tmp_path)
    sys.modules.pop("colorsys", None)
    with pytest.raises(ConfigError, match="an installed module has the name 'colorsys' too"):
        load("colorsys:rgb_to_hls", {}, folder=tmp_path)


def test_its_own_modules_are_found_when_they_are_needed(tmp_path: Path) -> None:
    module(tmp_path, "W = 0.25\n", "my_late_weights")
    module(tmp_path, "W = 0.5\n", "my_thread_weights")
    module(
        tmp_path,
        "import threading\n"
        "def late():\n    import my_thread_weights\n    found.append(my_thread_weights.W)\n"
        "found = []\n"
        "def f(texts):\n    from my_late_weights import W\n"
        "    t = threading.Thread(target=late)\n    t.start()\n    t.join()\n"
        "    return [W + found[-1]] * len(texts)\n",
    )
    assert predict("my_model:f", tmp_path)[0, 0] == 0.75


@pytest.mark.parametrize("around", [Path(palpate.__file__).parents[2], None], ids=["palpate", "another model"])
def test_a_thread_finds_the_modules_of_its_own_folder(around: Path | None, tmp_path: Path) -> None:
    """Also where another configuration lies around it, or around palpate itself."""
    with serving(str(around or tmp_path)):
        pass
    inner = tmp_path / "inner"
    module(inner, "W = 0.25\n", f"my_weights_{around is None}")
    module(
        inner,
        "import threading\n"
        "found = []\n"
        f"def late():\n    import my_weights_{around is None} as own\n    found.append(own.W)\n"
        "def f(texts):\n"
        "    t = threading.Thread(target=late)\n    t.start()\n    t.join()\n"
        "    return [found[-1]] * len(texts)\n",
        "my_inner_model",
    )
    assert predict("my_inner_model:f", inner)[0, 0] == 0.25
