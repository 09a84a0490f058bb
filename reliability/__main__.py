"""`python -m reliability fuzz|kills|disks|soak|supply`: see the modules, which are imported when they are asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reliability")
    trials = parser.add_subparsers(dest="trial", required=True)
    fuzzing = trials.add_parser("fuzz", help="broken files for every reader")
    fuzzing.add_argument("--inputs", type=int, default=1_000_000)
    fuzzing.add_argument("--only", action="append", default=[])
    fuzzing.add_argument("--keep", action="store_true", help="store what is found in the corpus")
    killing = trials.add_parser("kills", help="kill -9 at random instants, and resume")
    killing.add_argument("--kills", type=int, default=1000)
    killing.add_argument("--way", choices=("local", "workers", "ray"), default="local")
    failing = trials.add_parser("disks", help="a full disk or an error from each write on; needs a C compiler")
    failing.add_argument("--tries", type=int, default=None, help="of so many writes, spread over all")
    for trial in (fuzzing, killing, failing):
        trial.add_argument("--seed", type=int, default=0)
        trial.add_argument("--minutes", type=float, default=600.0, help="end after so many")
    trials.add_parser("supply", help="what is installed: build/sbom.json and build/licences.txt")
    return parser


def _tried(chosen: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """What a trial found, and whether it is bad."""
    if chosen.trial == "fuzz":
        from reliability.fuzz import CORPUS, fuzz_apart

        keep = CORPUS if chosen.keep else None
        found = fuzz_apart(chosen.inputs, seed=chosen.seed, only=tuple(chosen.only), keep=keep, minutes=chosen.minutes)
        return found, bool(found["findings"])
    if chosen.trial == "kills":
        from reliability.kills import kill_runs

        found = kill_runs(chosen.kills, way=chosen.way, seed=chosen.seed, minutes=chosen.minutes)
        return found, bool(found["differences"] or found["orphans"])
    if chosen.trial == "disks":
        from reliability.disks import fail_writes

        found = fail_writes(chosen.tries, seed=chosen.seed, minutes=chosen.minutes)
        return found, bool(found["wrong"])
    from reliability.supply import write_supply

    return write_supply(), False


def main() -> int:
    """Run one of the trials; exits with 1 if it found something."""
    chosen = _parser().parse_args()
    if chosen.trial == "disks" and "LD_PRELOAD" not in os.environ:
        from reliability.disks import with_failing_writes

        return with_failing_writes(sys.argv[1:])
    found, bad = _tried(chosen)
    print(json.dumps(found, indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
