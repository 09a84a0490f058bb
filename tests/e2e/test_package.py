"""The package as a stranger gets it: built, installed into an empty environment, and run from there."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.conftest import notes_frame

ROOT = Path(__file__).parent.parent.parent
MOST_MEGABYTES = 800
"""As `du -m` counts them, of palpate and all that it brings, without extras."""
MODEL = "def predict(texts):\n    return [0.7 if 'fever' in text else 0.2 for text in texts]\n"
CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models: {mine: python:my_model:predict}
audits: {performance: {n_replicates: 200}}
"""


class Environment:
    """An empty virtual environment, without what the tests' own can see."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self._bin = folder / ("Scripts" if os.name == "nt" else "bin")
        hidden = ("PYTHONPATH", "VIRTUAL_ENV", "NUMBA_CACHE_DIR")
        self._variables = {name: value for name, value in os.environ.items() if name not in hidden}

    def __call__(self, program: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        command = [str(self._bin / program), *words]
        return subprocess.run(command, cwd=cwd, env=self._variables, capture_output=True, text=True)

    def megabytes(self) -> dict[str, float]:
        """The size of each distribution."""
        (packages,) = self._bin.parent.glob("**/site-packages")
        sizes = {}
        for each in distributions(path=[str(packages)]):
            files = [Path(str(each.locate_file(file))) for file in each.files or []]
            sizes[each.metadata["Name"]] = sum(file.stat().st_size for file in files if file.exists()) / 2**20
        return sizes


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return out


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_from_the_wheel_to_a_report_and_the_demo(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    fresh = Environment(tmp_path / "empty")
    installed = fresh("pip", "install", "--quiet", str(wheel), cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr[-2000:]
    sizes = {name: size for name, size in fresh.megabytes().items() if name not in ("pip", "setuptools")}
    assert sum(sizes.values()) < MOST_MEGABYTES, sorted(sizes.items(), key=lambda item: -item[1])[:12]

    notes_frame(400).write_csv(tmp_path / "notes.csv")
    (tmp_path / "my_model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "audit.yaml").write_text(CONFIG, encoding="utf-8")
    audited = fresh("palpate", "audit", "audit.yaml", "--out", "run", cwd=tmp_path)
    assert audited.returncode == 0, audited.stderr[-2000:]
    assert "<svg" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")

    without = fresh("palpate", "demo", cwd=tmp_path)
    assert without.returncode == 2
    assert "pip install 'palpate[demo]'" in without.stderr.replace("\n", " ")
    installed = fresh("pip", "install", "--quiet", f"{wheel}[demo]", cwd=tmp_path)
    assert installed.returncode == 0, installed.stderr[-2000:]
    shown = fresh("palpate", "demo", "--patients", "500", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr[-2000:]
    assert "Two hospitals were made" in shown.stdout
    assert (tmp_path / "demo" / "run" / "report.html").exists()


@pytest.mark.slow
def test_the_sources_are_complete(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/palpate/py.typed", "docs/README.md", "mkdocs.yml"} <= names
