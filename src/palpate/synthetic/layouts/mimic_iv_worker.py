"""The second process of `write_hospital`: writes the MIMIC-IV side, a dot to standard output for each patient."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from palpate.synthetic.hospital import step_of, write_iv
from palpate.synthetic.plants import Plants


def main(job: str) -> None:
    """Do what the JSON says."""
    options = json.loads(job)
    plants = Plants(**options.pop("plants"))
    out = Path(options.pop("out"))

    done, step = 0, step_of(options["n_patients"])

    def dot() -> None:
        nonlocal done
        done += 1
        if done % step == 0:
            sys.stdout.write(".")
            sys.stdout.flush()

    write_iv(out, plants=plants, progress=dot, **options)


if __name__ == "__main__":
    main(sys.argv[1])
