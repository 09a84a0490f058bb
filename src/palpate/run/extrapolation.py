"""What a run would do, and how that follows from what it would do on samples of its cases.

An audit's plan grows with the cases (an alteration of each), or not at all (templates, `max_notes`). Two samples of
whole patients, one twice as large, tell which: numbers are drawn out along the line through both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from palpate.cases.cohort import Cohort
from palpate.models import Model
from palpate.models.ledger import AsksForAnswers, Forecast

CHARACTERS_PER_TOKEN = 4
FEW_CASES = 20_000
"""So many are planned as a whole."""
SAMPLES = (4_000, 8_000)


class ModelPreview(NamedTuple):
    """What one model would be asked, and how long it would take."""

    name: str
    asked: int
    outside_window: int
    distinct: int
    cached: int
    n_characters: int
    """Of the texts that are to be scored."""
    n_labels: int
    remote: bool
    seconds: float
    """To score what is not cached."""
    measured: int
    """Inputs that the estimate of the time rests on."""
    explained: int
    """Predictions that it is asked to explain, which the time does not include."""
    forecast: Forecast | None = None
    """Requests, tokens and cost, of a model that is paid by the answer."""

    @property
    def to_score(self) -> int:
        """Inputs that are not in the cache."""
        return self.distinct - self.cached

    @property
    def tokens(self) -> int:
        """About so many, at four characters per token."""
        return math.ceil(self.n_characters / CHARACTERS_PER_TOKEN)


@dataclass
class RunPreview:
    """What a run would do."""

    n_cases: int
    n_patients: int
    variants: dict[str, int] = field(default_factory=dict)
    """By audit: how many inputs it wants scored."""
    models: list[ModelPreview] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds of the parts of the run other than scoring."""
    notes: list[str] = field(default_factory=list)
    """What the estimate leaves out."""
    disk: int = 0
    memory: int = 0
    sampled: int | None = None
    """Cases of the largest sample that was planned, where not all were."""

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(self.stages.values()) + sum(model.seconds for model in self.models)


def forecast(model: Model, n_texts: int, n_characters: int) -> Forecast | None:
    """What asking about so many texts costs, judged by the few that were asked about."""
    return model.forecast(n_texts, n_characters) if isinstance(model, AsksForAnswers) else None


def samples_of(cohort: Cohort) -> Iterator[Cohort]:
    """Two samples of whole patients, the smaller one part of the larger; none if there are few cases.

    One alone, where a patient has so many cases that both would be the same.
    """
    if len(cohort) <= FEW_CASES:
        return
    patients = cohort.patients
    rank = np.random.default_rng(0).permutation(int(patients.max()) + 1)[patients]
    order = np.argsort(rank, kind="stable")
    csr = cohort.y.tocsr()
    before = 0
    for n in SAMPLES:
        rows = np.sort(order[rank[order] <= rank[order[n - 1]]])
        if len(rows) <= before:
            continue
        before = len(rows)
        yield replace(cohort, cases=cohort.cases[rows], y=csr[rows].tocsc())


def drawn_out(seen: Sequence[tuple[int, RunPreview]], n: int, models: Mapping[str, Model]) -> RunPreview:
    """What `n` cases would take, from previews of fewer, each with its number of cases."""
    sizes, previews = [size for size, _ in seen], [each for _, each in seen]
    last = previews[-1]

    def whole(number: Callable[[RunPreview], float]) -> float:
        return _line(sizes, [number(each) for each in previews], n)

    found = RunPreview(n, 0, disk=round(whole(lambda each: each.disk)), memory=round(whole(lambda each: each.memory)))
    found.variants = {name: round(whole(lambda each, name=name: each.variants[name])) for name in last.variants}  # type: ignore[misc]
    found.stages = {
        name: whole(lambda each, name=name: each.stages.get(name, last.stages[name]))  # type: ignore[misc]
        for name in last.stages
    }
    for k in range(len(last.models)):
        parts = [each.models[k] for each in previews]
        found.models.append(_model(parts, sizes, n, models[parts[-1].name]))
    told = " and ".join(f"{size:,}" for size in sizes)
    found.notes = [
        *last.notes,
        f"numbers and times are estimated from samples of {told} of the {n:,} cases; --whole plans all of them",
    ]
    found.sampled = sizes[-1]
    return found


def _line(sizes: Sequence[int], values: Sequence[float], n: int) -> float:
    """Where the line through the last two values is at `n`; it neither falls, nor begins below 0."""
    steepest = values[-1] / sizes[-1]
    slope = steepest
    if len(sizes) > 1 and sizes[-1] > sizes[-2]:
        slope = min(max((values[-1] - values[-2]) / (sizes[-1] - sizes[-2]), 0.0), steepest)
    return values[-1] + slope * (n - sizes[-1])


def _model(parts: Sequence[ModelPreview], sizes: Sequence[int], n: int, model: Model) -> ModelPreview:
    last = parts[-1]

    def whole(name: str) -> int:
        return round(_line(sizes, [getattr(part, name) for part in parts], n))

    distinct, n_characters = whole("distinct"), whole("n_characters")
    cached = round(distinct * last.cached / max(last.distinct, 1))
    return last._replace(
        asked=whole("asked"),
        outside_window=whole("outside_window"),
        distinct=distinct,
        cached=cached,
        n_characters=n_characters,
        seconds=_line(sizes, [part.seconds for part in parts], n),
        measured=sum(part.measured for part in parts),
        explained=whole("explained"),
        forecast=forecast(model, distinct - cached, n_characters),
    )
