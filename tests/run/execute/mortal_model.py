"""A model whose process dies, or sleeps, when a file tells it to; for the tests of the executors."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def scores(texts: Sequence[str]) -> np.ndarray:
    """A number for each text; `PALPATE_MORTAL` names a folder with what is to happen: `dies` (how often), `seconds`."""
    folder = Path(os.environ.get("PALPATE_MORTAL", "/nowhere"))
    if (folder / "seconds").exists():
        time.sleep(float((folder / "seconds").read_text()))
    for k in range(100):
        try:
            (folder / f"dies-{k}").unlink()
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    return np.asarray(
        [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=2).digest()[0] / 256 for text in texts]
    )
