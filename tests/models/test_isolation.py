"""A model's own code may exit, crash, print or fork: palpate stays, and says which model it was."""

from __future__ import annotations

import os
import signal
import sys
import time
import types
from pathlib import Path

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.errors import ConfigError, ModelDied, ModelError, traceback_of
from palpate.models import ModelSpec, load_here, load_model
from palpate.models.isolation import IsolatedModel, exits_are_errors
from palpate.run.execute.local import Call, ask_here, checked

MODULE = """
import ctypes, os, sys, time

def good(texts):
    print("printed by the model")
    os.write(1, b"written by the model")
    return [0.25 + 0.5 * ("fever" in text) for text in texts]

def leaves(texts):
    sys.exit(0)

def interrupts(texts):
    raise KeyboardInterrupt

def closes(texts):
    raise GeneratorExit

class TheEnd(BaseException):
    pass

def ends(texts):
    raise TheEnd

def raises(texts):
    if "fever" in texts:
        raise RuntimeError(f"secret note: {texts[0]}")
    return [0.5] * len(texts)

def names(texts):
    raise type(f"patient {texts[0].upper()} was ill", (Exception,), {})

def names_as_a_word(texts):
    raise type(texts[0].upper(), (Exception,), {"__module__": "builtins"})

class Odd(type):
    __name__ = property(lambda kind: "fever of a patient".upper())

class Crooked(Exception, metaclass=Odd):
    pass

def names_by_its_class(texts):
    raise Crooked

class Honest(Exception):
    pass

def calls_a_function_of_that_name(texts):
    code = compile("def f(): raise LookupError", f"{texts[0].upper()}.py", "exec")
    made = {}
    exec(code, made)
    made["f"].__code__ = made["f"].__code__.replace(co_name=f"a {texts[0].upper()}", co_qualname=texts[0].upper())
    made["f"]()

def is_honest(texts):
    raise Honest(texts[0])

def vanishes(texts):
    if "fever" in texts:
        os._exit(0)
    return [0.5] * len(texts)

def crashes(texts):
    if "fever" in texts:
        ctypes.string_at(0)
    return [0.5] * len(texts)

def forks(texts):
    os.fork()
    return [0.5] * len(texts)

def forks_and_vanishes(texts):
    if "fever" in texts and os.fork():
        os._exit(3)
    if "fever" in texts:
        time.sleep(30)
    return [0.5] * len(texts)

def hangs(texts):
    if "fever" in texts:
        time.sleep(60)
    return [0.5] * len(texts)

def whereabouts(texts):
    return [os.getpid() / 2**32] * len(texts)
"""
INPUTS = Inputs.from_texts(["fever", "well"], ["c1", "c2"])


def spec(folder: Path, function: str, isolate: bool | None = None, code: str = MODULE) -> ModelSpec:
    (folder / "odd_model.py").write_text(code)
    return ModelSpec("odd", f"python:odd_model:{function}", str(folder), isolate=isolate)


@pytest.mark.parametrize("isolate", [None, False])
def test_what_a_model_prints_is_not_taken_for_its_answer(
    isolate: bool | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load_model(spec(tmp_path, "good", isolate))
    assert isinstance(model, IsolatedModel) == (isolate is None)
    assert model.predict(INPUTS).tolist() == [[0.75], [0.25]]
    model.close()
    said = capfd.readouterr()
    assert "printed by the model" in (said.err if isolate is None else said.out)
    assert isolate is False or "model" not in said.out


def test_a_process_of_its_own_unless_told_otherwise(tmp_path: Path) -> None:
    def pid(isolate: bool | None) -> int:
        model = load_model(spec(tmp_path, "whereabouts", isolate))
        try:
            return round(float(model.predict(INPUTS)[0, 0]) * 2**32)
        finally:
            model.close()

    assert pid(None) != os.getpid()
    assert pid(False) == os.getpid()


@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize(
    ("function", "name"),
    [("leaves", "SystemExit"), ("interrupts", "KeyboardInterrupt"), ("closes", "GeneratorExit"), ("ends", "TheEnd")],
)
def test_an_exit_of_the_model_is_its_error(function: str, name: str, isolate: bool, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"^model 'odd': {name} while loading") as caught:
        load_model(spec(tmp_path, function, isolate))
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("isolate", [True, False])
@pytest.mark.parametrize("code", ["import sys\nsys.exit(0)\n", "raise KeyboardInterrupt\n"])
def test_so_is_an_exit_while_its_module_is_imported(code: str, isolate: bool, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model 'odd': (SystemExit|KeyboardInterrupt) while loading"):
        load_model(spec(tmp_path, "f", isolate, code))


def test_an_exit_while_scoring_names_the_case(tmp_path: Path) -> None:
    code = "import sys\ndef f(texts):\n    if 'fever' in texts: sys.exit(0)\n    return [0.5] * len(texts)\n"
    for isolate in (True, False):
        model = load_model(spec(tmp_path, "f", isolate, code))
        with pytest.raises(ModelError, match="model 'odd', case 'c1': SystemExit while scoring"):
            checked("odd", model, INPUTS)
        model.close()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("vanishes", "its process ended with exit status 0 while scoring"),
        ("crashes", "its process was ended by SIGSEGV while scoring"),
        ("forks_and_vanishes", "its process ended with exit status 3 while scoring"),
    ],
)
def test_the_end_of_its_process_is_one_sentence(function: str, words: str, tmp_path: Path) -> None:
    model = load_model(spec(tmp_path, function))
    began = time.monotonic()
    with pytest.raises(ModelDied, match=rf"^model 'odd': {words}\.$"):
        checked("odd", model, INPUTS)
    with pytest.raises(ModelDied):
        model.predict(INPUTS)
    model.close()
    assert time.monotonic() - began < 20


def test_an_end_while_loading(tmp_path: Path) -> None:
    with pytest.raises(ModelDied, match="its process ended with exit status 7 while loading"):
        load_model(spec(tmp_path, "f", None, "import os\nos._exit(7)\n"))


def test_an_exception_is_named_without_its_text(tmp_path: Path) -> None:
    model = load_model(spec(tmp_path, "raises"))
    with pytest.raises(ModelError, match="model 'odd', case 'c1': RuntimeError while scoring") as caught:
        checked("odd", model, INPUTS)
    assert "secret" not in str(caught.value)
    assert model.predict(Inputs.from_texts(["well"])).item() == 0.5, "the process lives on"
    model.close()


@pytest.mark.parametrize("isolate", [None, False])
@pytest.mark.parametrize(
    ("function", "named"),
    [
        ("names", "an error of its own"),
        ("names_as_a_word", "an error of its own"),
        ("names_by_its_class", "Crooked"),
        ("calls_a_function_of_that_name", "LookupError"),
        ("is_honest", "Honest"),
    ],
)
def test_the_name_of_an_exception_carries_no_note(
    function: str, named: str, isolate: bool | None, tmp_path: Path
) -> None:
    model = load_model(spec(tmp_path, function, isolate))
    with pytest.raises(ModelError, match=f"case 'c1': {named} while scoring") as caught:
        checked("odd", model, INPUTS)
    told = str(caught.value) + traceback_of(caught.value)
    assert named in told
    assert "FEVER" not in told
    model.close()


def test_a_copy_that_the_model_forks_does_not_answer(tmp_path: Path) -> None:
    model = load_model(spec(tmp_path, "forks"))
    for _ in range(3):
        assert model.predict(INPUTS).tolist() == [[0.5], [0.5]]
    model.close()


def test_a_model_that_hangs_is_ended_with_the_run(tmp_path: Path) -> None:
    model = load_model(spec(tmp_path, "hangs"))
    assert isinstance(model, IsolatedModel)
    with pytest.raises(ModelError, match=r"model 'odd', case 'c1': no prediction for 2 rows within 0\.2 s"):
        list(ask_here("odd", model, [Call(0, INPUTS)], call_timeout=0.2))
    began = time.monotonic()
    model.close()
    assert model._process.poll() is not None
    assert time.monotonic() - began < 15


def test_errors_of_the_configuration_arrive_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the module has no 'nothing'"):
        load_model(spec(tmp_path, "nothing"))
    with pytest.raises(ConfigError, match="importing 'odd_model' failed: ZeroDivisionError"):
        load_model(spec(tmp_path, "f", None, "1 / 0\n"))


def test_a_module_that_exists_only_in_memory_is_asked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_in_a_notebook")
    module.f = lambda texts: [0.5] * len(texts)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_in_a_notebook", module)
    model = load_model(ModelSpec("cell", "python:made_in_a_notebook:f"))
    assert not isinstance(model, IsolatedModel)
    assert model.predict(INPUTS).tolist() == [[0.5], [0.5]]
    assert model.may_change == "its code is in no file"


def test_any_scheme_can_be_isolated(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("case_id,ill\nc1,0.1\nc2,0.9\n")
    plain = ModelSpec("table", "predictions:p.csv", str(tmp_path))
    here, there = load_here(plain), load_model(ModelSpec("table", plain.source, plain.folder, isolate=True))
    assert isinstance(there, IsolatedModel)
    for name in ("labels", "fingerprint", "reads", "cached", "rows_per_call", "tells_cohorts_apart", "explains"):
        assert getattr(there, name) == getattr(here, name), name
    assert np.array_equal(there.predict(INPUTS), here.predict(INPUTS))
    assert there.words() == here.words()
    assert there.visible_ends(["abc"]).tolist() == [4]
    there.close()


def test_ctrl_c_of_the_user_is_not_the_models_error() -> None:
    with pytest.raises(KeyboardInterrupt), exits_are_errors("odd", "scoring"):
        signal.raise_signal(signal.SIGINT)

    def exits_when_interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            sys.exit(1)

    with pytest.raises(KeyboardInterrupt), exits_are_errors("odd", "scoring"):
        exits_when_interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_file_named_as_one_of_pythons_own_does_not_stand_in_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "json.py").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "other"), *sys.path])
    load_model(spec(tmp_path, "whereabouts", None)).close()
