"""A re-run whose every answer is in the cache, against the first run, with an `hf:` model: at least 50 times faster.

Both runs are whole runs in one process: read the cohort, load the model, plan, score, analyse, write everything. The
re-run's results must be the first run's, byte for byte. Compiling and importing is done before the clock starts.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from hf_scoring import make_notes, write_checkpoint
from palpate.commands.audit import audit

CONFIG = """\
cohort: {file: notes.parquet, labels: [ill]}
models: {bert: "hf:bert"}
audits:
  performance: {n_replicates: 1000}
cache: scores.sqlite
"""


def run(folder: Path) -> tuple[float, dict[str, bytes]]:
    shutil.rmtree(folder / "run", ignore_errors=True)
    began = time.perf_counter()
    audit(folder / "audit.yaml", out=folder / "run")
    seconds = time.perf_counter() - began
    written = [*(folder / "run").glob("results/*"), *(folder / "run").glob("predictions/*")]
    return seconds, {path.name: path.read_bytes() for path in written}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=1500)
    n = parser.parse_args().notes
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        notes = make_notes(n, rng)
        (folder / "bert").mkdir()
        write_checkpoint(folder / "bert", notes, hidden=384, layers=6)
        frame = pl.DataFrame({"text": notes, "ill": rng.integers(0, 2, n)})
        (folder / "audit.yaml").write_text(CONFIG)
        frame.head(8).write_parquet(folder / "notes.parquet")
        run(folder)
        frame.write_parquet(folder / "notes.parquet")
        first, before = run(folder)
        again, after = run(folder)
    print(f"{n} notes, 6 layers of 384: first run {first:.1f} s, cached re-run {again:.2f} s")
    print(f"ratio {first / again:.0f} (at least 50), results {'equal' if before == after else 'DIFFERENT'}")
    return 0 if first / again >= 50 and before == after else 1


if __name__ == "__main__":
    sys.exit(main())
