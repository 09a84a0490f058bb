"""`python -m reliability fuzz|kills|full-disk|supply`: see the modules."""

from __future__ import annotations

import argparse
import json
import os
import sys

from reliability.fuzz import CORPUS, fuzz
from reliability.runs import fill_disks, kill_runs, with_failing_writes
from reliability.supply import write_supply


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reliability")
    trials = parser.add_subparsers(dest="trial", required=True)
    fuzzing = trials.add_parser("fuzz", help="broken files for every reader")
    fuzzing.add_argument("--inputs", type=int, default=1_000_000)
    fuzzing.add_argument("--seed", type=int, default=0)
    fuzzing.add_argument("--only", action="append", default=[])
    fuzzing.add_argument("--keep", action="store_true", help="store what is found in the corpus")
    killing = trials.add_parser("kills", help="kill -9 at random instants, and resume")
    killing.add_argument("--kills", type=int, default=1000)
    killing.add_argument("--seed", type=int, default=0)
    filling = trials.add_parser("full-disk", help="no room from the k-th write on, for every k; needs a C compiler")
    filling.add_argument("--tries", type=int, default=None)
    trials.add_parser("supply", help="what is installed: build/sbom.json and build/licences.txt")
    return parser


def main() -> int:
    """Run one of the trials; exits with 1 if it found something."""
    chosen = _parser().parse_args()
    if chosen.trial == "fuzz":
        found = fuzz(chosen.inputs, seed=chosen.seed, only=tuple(chosen.only), keep=CORPUS if chosen.keep else None)
        bad = bool(found["findings"])
    elif chosen.trial == "kills":
        found = kill_runs(chosen.kills, seed=chosen.seed)
        bad = bool(found["differences"])
    elif chosen.trial == "supply":
        found, bad = write_supply(), False
    elif "LD_PRELOAD" not in os.environ:
        return with_failing_writes(sys.argv[1:])
    else:
        found = fill_disks(chosen.tries)
        bad = bool(found["wrong"])
    print(json.dumps(found, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
