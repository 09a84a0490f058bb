"""`python -m reliability fuzz|kills|disks|soak|supply|lock|weaknesses`: see the modules, imported when asked for."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any


def _part(text: str) -> tuple[int, int]:
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError
    return number, of


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
    failing.add_argument("--part", type=_part, default=(1, 1), help="2/3: the second of three parts of them")
    failing.add_argument("--cohort", help="of `palpate cohort KIND`, not of an audit", metavar="KIND=FOLDER")
    for trial in (fuzzing, killing, failing):
        trial.add_argument("--seed", type=int, default=0)
        trial.add_argument("--minutes", type=float, default=600.0, help="end after so many")
    soaking = trials.add_parser(
        "soak", help="run after run in one process: memory, files, processes and ports stay as they are"
    )
    soaking.add_argument("--minutes", type=float, default=60.0)
    supplying = trials.add_parser("supply", help="what is installed: build/sbom.json and build/licences.txt")
    supplying.add_argument("--out", type=Path, default=Path("build"))
    locking = trials.add_parser("lock", help="hashes of the development environment: requirements/dev.txt")
    locking.add_argument("--torch", default="torch", help="the requirement for torch, such as torch==2.13.0")
    trials.add_parser("weaknesses", help="known weaknesses of what is in the lock, by pip-audit")
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
        from reliability.disks import fail_cohorts, fail_writes

        how = {"seed": chosen.seed, "minutes": chosen.minutes, "part": chosen.part}
        if chosen.cohort is not None:
            kind, _, source = chosen.cohort.partition("=")
            found = fail_cohorts(kind, Path(source), chosen.tries, **how)
        else:
            found = fail_writes(chosen.tries, **how)
        return found, bool(found["wrong"])
    if chosen.trial == "soak":
        from reliability.soak import soak

        found = soak(chosen.minutes)
        return found, bool(found["wrong"])
    from reliability.supply import look_up_weaknesses, write_lock, write_supply

    if chosen.trial == "weaknesses":
        found = look_up_weaknesses()
        return found, bool(found["weaknesses"])
    return (write_lock(chosen.torch) if chosen.trial == "lock" else write_supply(chosen.out)), False


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
