"""From a configuration file to a finished run: what the command line and Python users both call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.cohort import Cohort, stack
from palpate.config import Config, load_config, make_audit
from palpate.data.tables import read_cohort
from palpate.edits import splice
from palpate.errors import ConfigError
from palpate.execute.cache import ScoreCache, default_path
from palpate.execute.scoring import Execution
from palpate.execute.wanted import gather
from palpate.gate import Condition, Verdict, judge, junit, parse
from palpate.results import Audit, AuditResult
from palpate.rundir import RunDirectory
from palpate.runner import Contender, Job, Silence, Watcher, run, stream


class Outcome(NamedTuple):
    """What came of a run."""

    run: RunDirectory
    results: list[AuditResult]
    verdicts: list[Verdict]
    report: Path

    @property
    def passed(self) -> bool:
        """Whether every condition of the gate holds."""
        return all(verdict.passed for verdict in self.verdicts)


def audit(
    config: Path | str,
    *,
    out: Path | str | None = None,
    only: Sequence[str] = (),
    resume: bool = False,
    workers: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Outcome:
    """Run a configuration: cohort, models, audits, report, gate. `out` is `NAME-run` beside it by default."""
    config = Path(config)
    folder = config.parent
    settings = load_config(config, overrides=tuple(overrides))
    conditions = [parse(text, folder=folder) for text in settings.gate]
    audits = _audits(settings, only)
    directory = RunDirectory(Path(out) if out else folder / f"{config.stem}-run")
    watcher = watcher or Silence()
    watcher.stage("reading the cohort")
    job = Job(
        cohort=_cohort(settings, folder),
        contenders=_contenders(settings, folder),
        audits=audits,
        seed=settings.seed,
        execution=Execution(settings.executor, workers or settings.workers),
        resume=resume,
        about={
            "title": settings.title or f"Audit of {', '.join(settings.models)}",
            "config": settings.model_dump(mode="json", exclude_defaults=True),
            "include_text": settings.include_text,
        },
    )
    cache = ScoreCache(folder / settings.cache if settings.cache else default_path())
    try:
        results = run(job, directory, cache, watcher)
    finally:
        cache.close()
    verdicts = _gate(conditions, results, directory)
    watcher.stage("writing the report")
    return Outcome(directory, results, verdicts, report(directory.path))


def report(path: Path | str) -> Path:
    """Rebuild `report.html` from a run directory alone; returns where it is."""
    from palpate.report.html import render  # the charts' library takes a second to import

    directory = RunDirectory(Path(path))
    html = render(directory.read_manifest(), directory.read_results(), gate=directory.read_gate())
    return directory.write_report(html)


def write_inputs(config: Path, *, out: Path, only: Sequence[str] = ()) -> tuple[Path, int]:
    """Write what must be scored, with its text, for a model that lives elsewhere.

    Returns the file and its number of rows. Its answers come back as `predictions:FILE`, with `input_id` beside the
    probabilities.
    """
    settings = load_config(config)
    cohort = _cohort(settings, config.parent)
    audits = _audits(settings, only)
    plans = {name: audit.plan(cohort, stream(settings.seed, name, "plan")) for name, audit in audits.items()}
    asked = gather(cohort, plans)
    inputs, first = asked.inputs, dict[bytes, int]()
    for row, key in enumerate(asked.text_keys):
        # Without text, a case is known by its name alone.
        first.setdefault(key if cohort.has_text else str(row).encode(), row)
    rows = list(first.values())
    frame = pl.DataFrame(
        {
            "input_id": [key.hex() if cohort.has_text else None for key in first],
            "cohort": [inputs.cohorts[row] for row in rows],
            "case_id": [inputs.case_ids[row] for row in rows],
            "edited": [bool(inputs.n_edits[row]) for row in rows],
            "text": [splice(inputs.parents[int(inputs.parent[row])], inputs.edits(row)) for row in rows],
        }
    )
    out.mkdir(parents=True, exist_ok=True)
    target = out / "inputs.parquet"
    frame.write_parquet(target)
    return target, frame.height


def _cohort(settings: Config, folder: Path) -> Cohort:
    return stack([read_cohort(spec, name=name, folder=folder) for name, spec in settings.tables().items()])


def _audits(settings: Config, only: Sequence[str]) -> dict[str, Audit]:
    unknown = [name for name in only if name not in settings.audits]
    if unknown:
        raise ConfigError(
            f"--only {unknown[0]}: the configuration has no such audit",
            hint=f"it has: {', '.join(settings.audits)}",
        )
    return {name: make_audit(name, options) for name, options in settings.audits.items() if not only or name in only}


def _contenders(settings: Config, folder: Path) -> list[Contender]:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
    return [
        Contender(name, specs, call_timeout=settings.models[name].call_timeout)
        for name, specs in settings.model_specs(folder).items()
    ]


def _gate(conditions: Sequence[Condition], results: Sequence[AuditResult], directory: RunDirectory) -> list[Verdict]:
    if not conditions:
        return []
    verdicts = judge(conditions, results, directory.read_manifest())
    directory.write_gate([verdict._asdict() for verdict in verdicts], junit(verdicts))
    return verdicts
