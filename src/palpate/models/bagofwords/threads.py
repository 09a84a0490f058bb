"""How many threads the kernels of bag-of-words models take."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba

ROWS_WORTH_A_THREAD = 512
"""With fewer, waiting for a thread to wake up takes longer than the work does."""
_one_at_a_time = threading.RLock()


@contextmanager
def threads_for(n_rows: int) -> Iterator[None]:
    """One thread for little work; never more than a worker's share of the cores, which is in OMP_NUM_THREADS."""
    with _one_at_a_time:  # Numba's work queue cannot be entered twice
        before = int(numba.get_num_threads())
        share = os.environ.get("OMP_NUM_THREADS", "")
        allowed = min(before, int(share)) if share.isdecimal() else before
        numba.set_num_threads(max(1, min(allowed, n_rows // ROWS_WORTH_A_THREAD)))
        try:
            yield
        finally:
            numba.set_num_threads(before)
