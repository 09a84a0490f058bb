"""How near `palpate check` comes to the time of the run: the estimate over the real time, on the demo and on a network.

    python benchmarks/check_estimate.py [--patients 1000] [--notes 3000]

Each is run in this process, after the compilations; asked is a ratio between 0.5 and 2.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from palpate.commands.audit import audit
from palpate.commands.check import check
from palpate.commands.demo import write_demo

CONFIG = """\
cohort: {file: notes.csv, labels: [ill]}
models: {bert: {source: 'hf:bert', labels: [ill]}}
audits: {performance: {}, robustness: {perturb: [typos], max_notes: 200}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=1000)
    parser.add_argument("--notes", type=int, default=3000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["PALPATE_CACHE"] = str(folder / "scores.sqlite")
        tell("transformer", write_network(folder / "network", args.notes))
        tell("demo", write_demo(folder / "demo", seed=0, n_patients=args.patients))


def tell(name: str, config: Path) -> None:
    """Estimate, then run."""
    check(config)
    estimate = check(config).preview.seconds
    began = time.perf_counter()
    audit(config, out=config.parent / "run")
    spent = time.perf_counter() - began
    print(f"{name}: estimate {estimate:.1f} s, run {spent:.1f} s, ratio {estimate / spent:.2f} (asked: 0.5 to 2)")


def write_network(folder: Path, n_notes: int) -> Path:
    """A small checkpoint with random weights, and notes for it."""
    from tests.models.tiny_checkpoints import WORDS, checkpoint

    checkpoint(folder / "bert", names=["no", "ill"])
    rows = [f"c{k},{' '.join(WORDS[j % len(WORDS)] for j in range(k % 90 + 5))} {k},{k % 2}\n" for k in range(n_notes)]
    (folder / "notes.csv").write_text("case_id,text,ill\n" + "".join(rows), encoding="utf-8")
    (folder / "audit.yaml").write_text(CONFIG, encoding="utf-8")
    return folder / "audit.yaml"


if __name__ == "__main__":
    main()
