"""The public face: names, import time, no optional dependency on import, file sizes."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import palpate

NAMES = [
    "Audit",
    "AuditResult",
    "Capabilities",
    "Characteristics",
    "Cohort",
    "Context",
    "Data",
    "Drift",
    "Edit",
    "Estimate",
    "Evidence",
    "InMemory",
    "InputError",
    "Inputs",
    "Model",
    "ModelError",
    "ModelSpec",
    "Operating",
    "PalpateError",
    "Performance",
    "Plan",
    "Recalibration",
    "Result",
    "Robustness",
    "RunDirectory",
    "Slices",
    "Subgroups",
    "TableSpec",
    "Variants",
    "Vocabulary",
    "__version__",
    "alter",
    "audit",
    "compare",
    "list_suites",
    "load_model",
    "match_pairs",
    "read_cohort",
    "read_run",
    "stats",
    "suite",
]


def test_public_names_are_these() -> None:
    assert palpate.__all__ == NAMES
    for name in NAMES:
        assert getattr(palpate, name) is not None


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("__version__", "stats")])
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    it = getattr(palpate, name)
    found = doctest.DocTestFinder(recurse=False).find(it, name, globs=vars(import_module(it.__module__)).copy())
    assert found
    assert found[0].examples, f"{name} has no example"
    ran = doctest.DocTestRunner().run(found[0])
    assert not ran.failed


def test_import_brings_nothing_heavy() -> None:
    heavy = [
        "torch",
        "transformers",
        "ray",
        "onnxruntime",
        "numba",
        "sklearn",
        "polars",
        "vl_convert",
        "xgboost",
        "spacy",
    ]
    code = f"import json, sys, palpate; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == []


def test_jobs_do_not_need_the_extras() -> None:
    """Everything that `palpate demo` imports works without torch, transformers, ray, onnxruntime and xgboost."""
    code = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "transformers", "ray", "onnxruntime", "xgboost", "spacy"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import palpate.commands.audit, palpate.cli, palpate.commands.demo
import palpate.models.adapters.sklearn, palpate.models.adapters.palpate
import palpate.models.adapters.hf, palpate.models.adapters.onnx, palpate.run.execute.ray, palpate.models.adapters.http
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_large_files() -> None:
    root = Path(__file__).parent.parent
    ran = subprocess.run([str(root / ".ci" / "no-large-files")], cwd=root, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
