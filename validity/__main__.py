"""Print one table per audit: `python -m validity [AUDIT ...] [--samples 1000] [--thin]`; exit 1 on a miss."""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from validity import AUDITS, Cell


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage, false alarms, power and wrong verdicts on simulated data.")
    parser.add_argument("audits", nargs="*", default=AUDITS, metavar="AUDIT", help=", ".join(AUDITS))
    parser.add_argument("--samples", type=int, default=1000, help="simulated data sets per cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--thin", action="store_true", help="a few settings only")
    given = parser.parse_args()
    missed = 0
    for audit in given.audits:
        began = time.monotonic()
        print(f"\n## {audit}\n\n| what | data | rate | asked | data sets |\n|---|---|---|---|---|", flush=True)
        for cell in importlib.import_module(f"validity.{audit}").cells(given.samples, given.seed, thin=given.thin):
            missed += not cell.passes
            print(_row(cell), flush=True)
        print(f"\n{time.monotonic() - began:.0f} s", flush=True)
    return int(missed > 0)


def _row(cell: Cell) -> str:
    asked = [f"≥ {cell.at_least:.2f}"] if cell.at_least > 0 else []
    asked += [f"≤ {cell.at_most:.2f}"] if cell.at_most < 1 else []
    flag = "" if cell.passes else " **missed**"
    return f"| {cell.what} | {cell.setting} | {cell.rate:.3f}{flag} | {', '.join(asked) or '–'} | {cell.n:,} |"


if __name__ == "__main__":
    sys.exit(main())
