"""`python -m reliability fuzz`: see the modules."""

from __future__ import annotations

import argparse
import json
import sys

from reliability.fuzz import CORPUS, fuzz


def main() -> int:
    """Run one of the trials; exits with 1 if it found something."""
    parser = argparse.ArgumentParser(prog="python -m reliability")
    trials = parser.add_subparsers(dest="trial", required=True)
    fuzzing = trials.add_parser("fuzz", help="broken files for every reader")
    fuzzing.add_argument("--inputs", type=int, default=1_000_000)
    fuzzing.add_argument("--seed", type=int, default=0)
    fuzzing.add_argument("--only", action="append", default=[])
    fuzzing.add_argument("--keep", action="store_true", help="store what is found in the corpus")
    chosen = parser.parse_args()
    found = fuzz(chosen.inputs, seed=chosen.seed, only=tuple(chosen.only), keep=CORPUS if chosen.keep else None)
    print(json.dumps(found, indent=1))
    return 1 if found["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
