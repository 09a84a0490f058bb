"""Numba code of the statistics: draws, walks down the ranks, matching; imported on first use, because numba is slow."""
