"""Several answers about one text as one probability, and an answer as bytes.

The probability is the mean over the samples that say something; a refusal that counts as negative says 0. Where fewer
than half of the samples say anything, there is no probability, and the outcome is that of most samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palpate.models.adapters.chat.options import ChatOptions
from palpate.models.adapters.chat.reading import AnswerReading
from palpate.results.plan import AnswerKind

_ENOUGH = 0.5


class Combined(NamedTuple):
    """One row per text, one column per label."""

    p: NDArray[np.float64]
    kind: NDArray[np.int8]
    mass: NDArray[np.float64]
    noise: NDArray[np.float64]
    """The standard error of the mean over samples."""


def packed(found: Sequence[AnswerReading]) -> bytes:
    """An answer as numbers."""
    return np.asarray([[each.p, float(each.outcome), each.mass] for each in found], "<f8").tobytes()


def unpacked(answer: bytes) -> list[AnswerReading]:
    """What `packed` made bytes of."""
    rows = np.frombuffer(answer, "<f8").reshape(-1, 3).tolist()
    return [AnswerReading(p, AnswerKind(int(kind)), mass) for p, kind, mass in rows]


def combined(
    read: Sequence[Sequence[AnswerReading]], n: int, groups: Sequence[Sequence[int]], own: ChatOptions
) -> Combined:
    """Answers, by text, then by group of labels, then by sample."""
    n_labels, k = sum(map(len, groups)), own.samples
    p = np.full((n, k, n_labels), np.nan)
    kind = np.zeros((n, k, n_labels), np.int8)
    mass = np.full((n, k, n_labels), np.nan)
    answers = iter(read)
    for row in range(n):
        for columns in groups:
            for sample in range(k):
                for column, each in zip(columns, next(answers), strict=True):
                    p[row, sample, column], mass[row, sample, column] = each.p, each.mass
                    kind[row, sample, column] = each.outcome
    for refused in (True, False):
        if own.policy(refused=refused) == "negative":
            silent = (kind == AnswerKind.REFUSED) if refused else (kind > AnswerKind.REFUSED)
            p[silent] = 0.0
    said = ~np.isnan(p)
    enough = said.mean(axis=1) >= _ENOUGH if k else np.zeros((n, n_labels), bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(said, p, 0.0).sum(axis=1) / said.sum(axis=1)
        known = ~np.isnan(mass)
        mean_mass = np.where(known, mass, 0.0).sum(axis=1) / known.sum(axis=1)
        around = np.where(said, p - mean[:, None], 0.0)
        n_said = said.sum(axis=1)
        noise = np.sqrt((around**2).sum(axis=1) / ((n_said - 1) * n_said))
    noise = np.where(enough & (n_said > 1), noise, np.nan)
    return Combined(np.where(enough, mean, np.nan), _most(kind), mean_mass, noise)


def _most(kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """The outcome of a text: answered where at least half of the samples are, else the most frequent other one."""
    counts = np.stack([(kind == outcome).mean(axis=1) for outcome in AnswerKind], axis=-1)
    other = 1 + counts[..., 1:].argmax(axis=-1)
    return np.where(counts[..., 0] >= _ENOUGH, 0, other).astype(np.int8)
