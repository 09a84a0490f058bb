"""A fingerprint covers what a model's code reads, or the model says that it cannot vouch for its scores."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import numpy as np
import pytest

from palpate.cases.edits import Inputs
from palpate.models import Model, ModelSpec, load_here, load_model
from palpate.models.reads import Reads

HERE = "import pathlib\nHERE = pathlib.Path(__file__).parent\n"
WEIGHTS = {
    "open": HERE + "W = float((HERE / 'weights.txt').read_text())\ndef f(texts):\n    return [W] * len(texts)\n",
    "relative": "import os\nW = float(os.fdopen(os.open('weights.txt', os.O_RDONLY)).read())\n"
    "def f(texts):\n    return [W] * len(texts)\n",
    "numpy": HERE + "import numpy as np\nW = np.loadtxt(HERE / 'weights.txt')\n"
    "def f(texts):\n    return np.full(len(texts), W)\n",
    "on the first call": HERE + "import functools\n@functools.cache\ndef weights():\n"
    "    return float((HERE / 'weights.txt').read_text())\ndef f(texts):\n    return [weights()] * len(texts)\n",
    "another module": "from reader_of_weights import W\ndef f(texts):\n    return [W] * len(texts)\n",
}
READER = HERE + "W = float((HERE / 'weights.txt').read_text())\n"


def loaded(folder: Path, code: str, *, here: bool = False, **options: object) -> Model:
    (folder / "reading_model.py").write_text(code)
    spec = ModelSpec("m", "python:reading_model:f", str(folder), options)
    return (load_here if here else load_model)(spec)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "weights.txt").write_text("0.25")
    (tmp_path / "reader_of_weights.py").write_text(READER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(model: Model) -> tuple[str, float, str | None]:
    p = float(model.predict(Inputs.from_texts(["fever"]))[0, 0])
    model.close()
    return model.fingerprint, p, model.may_change


@pytest.mark.parametrize("here", [False, True], ids=["isolated", "here"])
@pytest.mark.parametrize("way", WEIGHTS)
def test_weights_are_part_of_the_model(way: str, here: bool, project: Path) -> None:
    first, p, _ = asked(loaded(project, WEIGHTS[way], here=here))
    assert asked(loaded(project, WEIGHTS[way], here=here)) == (first, p, None)
    (project / "weights.txt").write_text("0.75")
    second, q, _ = asked(loaded(project, WEIGHTS[way], here=here))
    assert (p, q) == (0.25, 0.75)
    assert first != second


def test_so_is_the_source_of_another_module(project: Path) -> None:
    first, *_ = asked(loaded(project, WEIGHTS["another module"]))
    (project / "reader_of_weights.py").write_text(READER + "W = W / 2\n")
    second, p, _ = asked(loaded(project, WEIGHTS["another module"]))
    assert first != second
    assert p == 0.125


def test_a_copied_model_is_the_same_model_and_what_it_writes_is_no_part_of_it(project: Path) -> None:
    code = WEIGHTS["open"] + "    pass\n"
    code = code.replace("return", "open(HERE / 'log.txt', 'a').write(texts[0])\n    return")
    first, _, may_change = asked(loaded(project, code))
    assert may_change is None
    shutil.copytree(project, project / "copy")
    assert asked(loaded(project / "copy", code))[0] == first
    assert asked(loaded(project, code))[0] == first


STARTS = {
    way: f"import os, subprocess\ndef f(texts):\n    {call}\n    return [0.5] * len(texts)\n"
    for way, call in {
        "subprocess": "subprocess.run(['true'])",
        "system": "os.system('true')",
        "popen": "os.popen('true').read()",
        "posix_spawn": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
        "fork and exec": "pid = os.fork()\n    pid or os.execv('/bin/true', ['true'])\n    os.waitpid(pid, 0)",
    }.items()
}
BLIND = {
    "reads another file after the first": HERE
    + "def f(texts):\n    return [float((HERE / f'{len(texts[0])}.txt').read_text())] * len(texts)\n",
    "uses safetensors": "import safetensors\ndef f(texts):\n    return [0.5] * len(texts)\n",
    "uses xgboost": "from xgboost import Booster\ndef f(texts):\n    return [0.5] * len(texts)\n",
    "connects to another": "import socket\ndef f(texts):\n    with socket.socket() as s:\n"
    "        s.connect_ex(('127.0.0.1', 9))\n    return [0.5] * len(texts)\n",
    "starts another program": STARTS["subprocess"],
    "calls a library by ctypes": "import ctypes\ndef f(texts):\n    ctypes.CDLL(None).getpid()\n"
    "    return [0.5] * len(texts)\n",
}


@pytest.mark.parametrize("words", BLIND)
def test_where_files_do_not_tell_all_the_model_says_so(words: str, project: Path) -> None:
    (project / "7.txt").write_text("0.5")  # for the text "patient", which is scored first
    (project / "5.txt").write_text("0.5")
    _, p, may_change = asked(loaded(project, BLIND[words]))
    assert p == 0.5
    assert may_change is not None
    assert words in may_change
    assert asked(loaded(project, BLIND[words], fingerprint="v1"))[2] is None


def test_a_model_that_fails_on_the_first_short_text_is_not_refused_for_it(project: Path) -> None:
    model = loaded(project, "def f(texts):\n    assert len(texts) > 1\n    return [0.5] * len(texts)\n")
    assert np.array_equal(model.predict(Inputs.from_texts(["a", "b"])), [[0.5], [0.5]])
    model.close()


@pytest.mark.parametrize("way", STARTS)
def test_another_program_is_noticed_however_it_is_started(way: str, project: Path) -> None:
    _, p, may_change = asked(loaded(project, STARTS[way]))
    assert p == 0.5
    assert may_change is not None
    assert "its code starts another pro" in may_change


def outside(file: Path) -> str:
    return f"W = float(open({str(file)!r}).read())\ndef f(texts):\n    return [W] * len(texts)\n"


def test_weights_where_files_come_and_go_are_not_vouched_for(project: Path) -> None:
    """The configuration's own folder may lie there, and so may Python."""
    (project / "config").mkdir()
    _, p, may_change = asked(loaded(project / "config", outside(project / "weights.txt")))
    assert p == 0.25
    assert may_change == f"its code reads {project / 'weights.txt'}, in a folder whose files come and go"
    assert asked(loaded(project, outside(project / "weights.txt")))[2] is None


def test_what_the_model_makes_for_itself_and_what_the_system_has_are_no_input(project: Path) -> None:
    code = (
        "import ctypes, tempfile, pathlib\nopen('/etc/passwd').close()\ndef f(texts):\n"
        "    with tempfile.TemporaryDirectory() as folder:\n"
        "        file = pathlib.Path(folder, 'x')\n        file.write_text('0.5')\n"
        "        p = float(file.read_text())\n"
        "    with tempfile.NamedTemporaryFile() as kept:\n        open(kept.name).read()\n"
        "    return [p] * len(texts)\n"
    )
    assert asked(loaded(project, code))[1:] == (0.5, None)


@pytest.mark.parametrize("name", ["/var/lib/models/w.bin", "/run/w.bin", "/dev/shm/w.bin"])
def test_folders_of_the_system_that_hold_data(name: str, tmp_path: Path) -> None:
    assert Reads(tmp_path)._is_passing(name)
    assert not Reads(Path(name).parent)._is_passing(name)
    assert not Reads(tmp_path)._is_passing("/etc/hosts")
    assert Reads(tmp_path)._is_local("/usr/local/share/models/w.bin")


@pytest.mark.parametrize("where", ["vendored/site-packages", "elsewhere/site-packages"])
def test_a_package_in_a_folder_named_as_pythons_own_is_part_of_the_model(
    where: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the configuration, or elsewhere on the path."""
    (config := project / "vendored").mkdir()
    package = project / where / "hospital_model"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        READER.replace("weights.txt", "w.txt") + "def f(texts): return [W] * len(texts)"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    found = []
    for weight in ("0.25", "0.75"):
        (package / "w.txt").write_text(weight)
        found.append(asked(load_model(ModelSpec("m", "python:hospital_model:f", str(config)))))
    assert [p for _, p, _ in found] == [0.25, 0.75]
    assert found[0][0] != found[1][0]


def test_an_installed_package_counts_where_the_model_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "lib"
    (package := installed / "installed_model").mkdir(parents=True)
    (package / "__init__.py").write_text(
        READER.replace("weights.txt", "w.txt") + "def f(texts): return [W] * len(texts)"
    )
    (package / "w.txt").write_text("0.25")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.setattr("palpate.models.reads._python_folders", lambda: (str(installed),))
    reads = Reads(tmp_path / "config")
    with reads:
        module = importlib.import_module("installed_model")
    assert package / "w.txt" not in reads.files()
    reads.own_package(module)
    assert {package / "w.txt", package / "__init__.py"} <= reads.files()


def test_a_library_that_comes_with_the_first_real_batch_is_noticed(project: Path) -> None:
    code = "def f(texts):\n    if texts == ['patient']: raise IndexError\n    import safetensors\n"
    _, p, may_change = asked(loaded(project, code + "    return [0.5] * len(texts)\n"))
    assert p == 0.5
    assert may_change == "its code uses safetensors, which reads files unseen by palpate"
