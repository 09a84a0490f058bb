"""`palpate check`: everything that a run checks, and what it would score and cost, without running it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palpate.commands.audit import prepare
from palpate.models import memory_of
from palpate.models.devices import Device
from palpate.models.text.sizes import MemoryNeed
from palpate.run.execute.cache import default_path
from palpate.run.extrapolation import RunPreview
from palpate.run.preview import open_existing, preview
from palpate.run.runner import Job, NullProgress, RunProgress

_PER_AUDIT = 0.5
"""Seconds to lay out the section of an audit in the report, once its charts can be drawn."""


class CheckedConfig(NamedTuple):
    """What a run of a configuration would do, and whether there is room for it."""

    preview: RunPreview
    cache: Path
    free_disk: int
    needs: Mapping[str, MemoryNeed]
    """By name, the memory of the torch models, which is that of their devices."""

    def money(self, price: float) -> dict[str, float]:
        """What the endpoints would cost, at a price per million tokens of the texts."""
        return {each.name: each.tokens * price / 1e6 for each in self.preview.models if each.remote}


def check(
    config: Path | str,
    *,
    only: Sequence[str] = (),
    workers: int | None = None,
    overrides: Sequence[str] = (),
    progress: RunProgress | None = None,
    free: Callable[[Device], int | None] = Device.free,
    whole: bool = False,
) -> CheckedConfig:
    """Check a configuration as a run does, load its models, plan its audits, and measure samples of the work.

    Of more than 20,000 cases, samples are planned, unless `whole`; the preview says so.
    Models that may not fit into the memory of their device (`free` says how much is left there) are warned about first.

    >>> from palpate.commands.check import check  # doctest: +SKIP
    >>> check("audit.yaml").preview.seconds  # doctest: +SKIP
    """
    progress = progress or NullProgress()
    began = time.perf_counter()
    ready = prepare(Path(config), only=only, resume=True, workers=workers, overrides=overrides, progress=progress)
    reading = time.perf_counter() - began
    needs = _needs(ready.job)
    for warning in _too_large(needs, ready.job.execution.n_workers, free):
        progress.note(warning)
    path = ready.cache or default_path()
    cache = open_existing(path)
    try:
        found = preview(ready.job, cache, progress, whole=whole)
    finally:
        if cache is not None:
            cache.close()
    found.stages = {"reading the cohort": reading, **found.stages}
    found.stages["writing the report"] = _report_seconds(len(ready.job.audits))
    return CheckedConfig(found, path, shutil.disk_usage(_existing(ready.directory.path)).free, needs)


def _needs(job: Job) -> dict[str, MemoryNeed]:
    specs = [spec for entry in job.models if not entry.loaded for spec in entry.specs]
    found = {spec.name: memory_of(spec) for spec in specs}
    return {name: need for name, need in found.items() if need is not None}


def _too_large(needs: Mapping[str, MemoryNeed], n_workers: int, free: Callable[[Device], int | None]) -> list[str]:
    """A sentence for each device whose models need more than is free; a worker holds one model at a time."""
    found = []
    for device in {need.device.name: need.device for need in needs.values()}.values():
        own = {name: need for name, need in needs.items() if need.device.name == device.name}
        largest = max(own.values(), key=lambda need: need.total)
        asked = sum(need.weights for need in own.values())
        asked += largest.total * n_workers if n_workers > 1 else max(need.passes for need in own.values())
        left = free(device)
        if left is not None and asked > left:
            in_all = f" in {n_workers} workers and this process" if n_workers > 1 else ""
            found.append(
                f"{' and '.join(own)} may not fit into the memory of {device.name}: about {size(asked)}{in_all}, and "
                f"{size(left)} are free; `dtype: bfloat16` takes about half, fewer workers or another `device` help too"
            )
    return found


def _report_seconds(n_audits: int) -> float:
    """The charts' library takes a while to import, which is measured."""
    began = time.perf_counter()
    import palpate.report.html  # noqa: F401  (timed)

    return time.perf_counter() - began + _PER_AUDIT * n_audits


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    folder = folder.absolute()
    return folder if folder.exists() else _existing(folder.parent)


def summarise(found: CheckedConfig, price: float | None = None) -> dict[str, Any]:
    """The check in a few values, for pipelines."""
    seen = found.preview
    money = found.money(price) if price is not None else {}
    return {
        "n_cases": seen.n_cases,
        "n_patients": seen.n_patients,
        "sampled": seen.sampled,
        "audits": seen.variants,
        "models": [
            {
                "name": each.name,
                "inputs": each.asked,
                "outside_window": each.outside_window,
                "distinct": each.distinct,
                "cached": each.cached,
                "to_score": each.to_score,
                "tokens": each.tokens if each.remote else None,
                "money": money.get(each.name),
                "forecast": None if each.forecast is None else each.forecast._asdict(),
                "estimated_seconds": round(each.seconds, 2),
                "measured_on": each.measured,
                "memory": None if (need := found.needs.get(each.name)) is None else need.total,
            }
            for each in seen.models
        ],
        "estimated_seconds": round(seen.seconds, 1),
        "stages": {name: round(seconds, 2) for name, seconds in seen.stages.items()},
        "notes": seen.notes,
        "disk": seen.disk,
        "free_disk": found.free_disk,
        "memory": seen.memory,
    }


def duration(seconds: float) -> str:
    """A time that is only estimated."""
    if seconds < 1:
        return "under 1 s"
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"


def size(n_bytes: int) -> str:
    """A number of bytes as people say it."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= length:
            return f"{n_bytes / length:.3g} {unit}"
    return f"{n_bytes} bytes"
