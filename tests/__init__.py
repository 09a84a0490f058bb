"""The tests. Imported before any of them, so before OpenMP starts."""

import os

# OpenMP's threads spin while they wait. pytest-xdist runs one process per core, so a spinning thread takes the core
# from the one that it waits for. The number of threads stays as it is.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
