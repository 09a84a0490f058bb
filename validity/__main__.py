"""Print one table per audit: `python -m validity [AUDIT ...] [--samples 1000] [--thin] [--write]`; exit 1 on a miss."""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from validity import AUDITS, pages


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage, false alarms, power and wrong verdicts on simulated data.")
    parser.add_argument("audits", nargs="*", default=AUDITS, metavar="AUDIT", help=", ".join(AUDITS))
    parser.add_argument("--samples", type=int, default=1000, help="simulated data sets per cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--thin", action="store_true", help="a few settings only")
    parser.add_argument("--write", action="store_true", help="renew docs/validity.md and docs/validity/AUDIT.md")
    given = parser.parse_args()
    missed = 0
    for audit in given.audits:
        began = time.monotonic()
        print(f"\n## {audit}\n\n{pages.HEAD}", flush=True)
        rows = []
        for cell in importlib.import_module(f"validity.{audit}").cells(given.samples, given.seed, thin=given.thin):
            missed += not cell.passes
            rows.append(pages.row(cell))
            print(rows[-1], flush=True)
        if given.write:
            pages.write(audit, rows)
        print(f"\n{time.monotonic() - began:.0f} s", flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
