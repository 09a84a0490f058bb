"""Seconds for a synthetic hospital, and how they grow: ten times the patients in at most eleven times the time.

python benchmarks/synth.py [--patients N] [--images]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from palpate.synthetic import Plants, write_hospital
from palpate.synthetic.calibrate import calibrate

MOST_SECONDS = 60.0
MOST_RATIO = 11.0


def seconds(n_patients: int, *, images: bool, workers: int) -> float:
    """Wall time of one hospital."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        write_hospital(Path(folder), n_patients=n_patients, images=images, workers=workers)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=5000)
    parser.add_argument("--images", action="store_true")
    options = parser.parse_args()
    calibrate(Plants(), "a")
    few = seconds(options.patients // 10, images=options.images, workers=1)
    many = seconds(options.patients, images=options.images, workers=1)
    both = seconds(options.patients, images=options.images, workers=2)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"{options.patients // 10} patients, one process: {few:.1f} s")
    print(f"{options.patients} patients, one process: {many:.1f} s, {many / few:.1f} times that (at most {MOST_RATIO})")
    print(f"{options.patients} patients, two processes: {both:.1f} s (at most {MOST_SECONDS} without images)")
    print(f"peak memory {memory:.0f} MB")


if __name__ == "__main__":
    main()
