"""A module beside the configuration with the name of one that palpate imports itself is never run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NAMES = ("altair", "numpy", "polars", "jinja2", "vl_convert", "yaml", "sqlite3", "json", "scipy", "rich", "token")


def test_nothing_planted_runs(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n")
    rows = "".join(f"c{k},patient {k} is {'ill' if k % 2 else 'well'},{k % 2}\n" for k in range(40))
    (tmp_path / "cohort.csv").write_text(f"case_id,text,sick\n{rows}")
    (tmp_path / "scores.py").write_text("def f(texts):\n    return [0.9 if 'ill' in t else 0.1 for t in texts]\n")
    (tmp_path / "audit.yaml").write_text(
        "cohort: {file: cohort.csv, case: case_id, text: text, labels: [sick]}\n"
        "models: {here: {source: 'python:scores:f', isolate: false}, apart: 'python:scores:f'}\n"
        "cache: cache.sqlite\naudits: {performance: {n_replicates: 100}}\n"
    )
    command = [sys.executable, "-m", "palpate", "audit", str(tmp_path / "audit.yaml")]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "audit-run" / "report.html").is_file()
    assert not list(tmp_path.glob("*.ran"))
