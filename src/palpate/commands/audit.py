"""From a configuration file to a finished run: what the command line and Python users both call."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort, stack
from palpate.cases.edits import splice
from palpate.cases.keys import distinct
from palpate.config import DATA, Config, audit_name, load_config, make_audit
from palpate.data.tables import read_cohort
from palpate.errors import ConfigError
from palpate.files import replacing
from palpate.models import check_model, load_model, with_labels
from palpate.privacy import without_secrets
from palpate.results import AdaptiveAudit, Audit, AuditResult
from palpate.run.checks import check_directory, check_groups, check_scope
from palpate.run.conditions import Condition, RunNames, check_labels, parse
from palpate.run.directory import RunDirectory
from palpate.run.execute import Execution
from palpate.run.execute.cache import ScoreCache, default_path
from palpate.run.execute.cluster import check_target
from palpate.run.execute.wanted import gather
from palpate.run.gate import Judgement, judge, junit
from palpate.run.runner import Job, LoadedModels, ModelEntry, NullProgress, RunProgress, make_plans, run


class Outcome(NamedTuple):
    """The outcome of a run."""

    run: RunDirectory
    results: list[AuditResult]
    judgements: list[Judgement]
    """The conditions of the gate, judged."""
    report: Path

    @property
    def passed(self) -> bool:
        """Whether every condition of the gate holds."""
        return all(judgement.passed for judgement in self.judgements)


def audit(
    config: Path | str,
    *,
    out: Path | str | None = None,
    only: Sequence[str] = (),
    resume: bool = False,
    workers: int | None = None,
    ray: str | None = None,
    overrides: Sequence[str] = (),
    progress: RunProgress | None = None,
) -> Outcome:
    """Run a configuration: cohort, models, audits, report, gate. `out` is `NAME-run` beside it by default.

    `ray` is the address of a Ray cluster to score on, in place of what the configuration says.
    """
    progress = progress or NullProgress()
    ready = prepare(
        Path(config),
        out=out,
        only=only,
        resume=resume,
        workers=workers,
        ray=ray,
        overrides=overrides,
        progress=progress,
    )
    return execute(ready.job, ready.directory, ready.conditions, cache=ready.cache, progress=progress)


class ReadyRun(NamedTuple):
    """A configuration that was read and checked, with its cohort; its models are not loaded yet."""

    job: Job
    directory: RunDirectory
    conditions: list[Condition]
    cache: Path | None


def prepare(
    config: Path,
    *,
    out: Path | str | None = None,
    only: Sequence[str] = (),
    resume: bool = False,
    workers: int | None = None,
    ray: str | None = None,
    overrides: Sequence[str] = (),
    progress: RunProgress,
) -> ReadyRun:
    """Read a configuration and its cohort, and check all that can be checked without a model."""
    folder = config.parent
    settings = load_config(config, overrides=tuple(overrides))
    settings.check_models(folder)
    audits = _audits(settings, only, folder)
    conditions = _conditions(settings, audits, folder)
    directory = RunDirectory(Path(out) if out else folder / f"{config.stem}-run")
    check_directory(directory, resume=resume)
    progress.stage("reading the cohort")
    cohort = _cohort(settings, folder)
    for written, name in _called(settings, folder).items():
        if name in audits:
            with settings.locating("audits", written):
                check_scope(cohort, name, settings.audits[written])
                check_groups(cohort, audits[name])
    for k, condition in enumerate(conditions):
        with settings.locating("gate", k):
            check_labels(condition, cohort.labels, audits)
    job = Job(
        cohort=cohort,
        models=_models(settings, folder, _asked_about(cohort, audits.values())),
        audits=audits,
        seed=settings.seed,
        execution=_execution(settings, workers, ray),
        resume=resume,
        about={
            "title": settings.title or f"Audit of {', '.join(settings.models)}",
            "config": without_secrets(settings.model_dump(mode="json", exclude_defaults=True)),
            "include_text": settings.include_text,
        },
    )
    return ReadyRun(job, directory, conditions, folder / settings.cache if settings.cache else None)


def _execution(settings: Config, workers: int | None, ray: str | None) -> Execution:
    """Where the models run, as the configuration or the command line says; refused if notes may not be sent there."""
    options = settings.ray if ray is None else settings.ray.model_copy(update={"address": ray})
    execution = Execution("ray" if ray else settings.executor, workers or settings.workers, options)
    if execution.executor == "ray":
        with settings.locating("ray"):
            check_target(options)
    return execution


def execute(
    job: Job, directory: RunDirectory, conditions: Sequence[Condition], *, cache: Path | None, progress: RunProgress
) -> Outcome:
    """Run a job, judge the gate and write the report: where the command line and Python meet."""
    with directory.locked():
        scores = ScoreCache(cache or default_path())
        try:
            results = run(job, directory, scores, progress)
        finally:
            scores.close()
        judgements = _gate(conditions, results, directory)
        progress.stage("writing the report")
        return Outcome(directory, results, judgements, report(directory.path))


def summarise(outcome: Outcome) -> dict[str, Any]:
    """A run in a few values, for pipelines: where it is, the gate, the scorecard, how many findings of each verdict."""
    scorecard = outcome.run.path / "scorecard.json"
    kinds = Counter(finding.kind for result in outcome.results for finding in result.findings)
    return {
        "run": str(outcome.run.path),
        "report": str(outcome.report),
        "passed": outcome.passed,
        "gate": [judgement._asdict() for judgement in outcome.judgements],
        "findings": dict(sorted(kinds.items())),
        "scorecard": json.loads(scorecard.read_text(encoding="utf-8")) if scorecard.exists() else None,
    }


def report(path: Path | str) -> Path:
    """Rebuild `report.html` from a run directory alone; returns where it is."""
    from palpate.report.html import render  # the charts' library takes a second to import

    directory = RunDirectory(Path(path))
    html = render(directory.read_manifest(), directory.read_results(), gate=directory.read_gate())
    return directory.write_report(html)


def write_inputs(config: Path, *, out: Path, only: Sequence[str] = ()) -> tuple[Path, int, bool]:
    """Write what must be scored, with its text, for a model that lives elsewhere.

    Returns the file, its number of rows, and whether it holds text. The answers come back as `predictions:FILE`, with
    `input_id` (without text: `cohort` and `case_id`) beside the probabilities.
    """
    settings, folder = load_config(config), config.parent
    settings.check_models(folder, leaving_out=["predictions"])
    audits = {
        name: audit.without_turns() if isinstance(audit, AdaptiveAudit) else audit
        for name, audit in _audits(settings, only, folder).items()
        if name != DATA  # which asks for nothing
    }
    cohort = _cohort(settings, folder)
    plans = make_plans(audits, cohort, settings.seed, _knowledge(settings, folder))
    asked = gather(cohort, plans)
    # Without text, a case is known by its name alone.
    inputs, keys = asked.inputs, asked.text_keys
    rows = (distinct(keys).rows if cohort.has_text else np.arange(len(inputs))).tolist()
    frame = pl.DataFrame(
        {
            "input_id": [keys[row].tobytes().hex() if cohort.has_text else None for row in rows],
            "cohort": [inputs.cohorts[row] for row in rows],
            "case_id": [inputs.case_ids[row] for row in rows],
            "edited": inputs.n_edits[rows] > 0,
            "text": [splice(inputs.parents[int(inputs.parent[row])], inputs.edits(row)) for row in rows],
            **({"image": [inputs.images[row] for row in rows]} if inputs.images else {}),
        }
    )
    target = out / "inputs.parquet"
    with replacing(target) as scratch:
        frame.write_parquet(scratch)
    return target, frame.height, cohort.has_text


def _cohort(settings: Config, folder: Path) -> Cohort:
    return stack([read_cohort(spec, name=name, folder=folder) for name, spec in settings.tables().items()])


def _audits(settings: Config, only: Sequence[str], folder: Path) -> dict[str, Audit]:
    """The audits by what their results are called; an own one has another name in the configuration."""
    called = _called(settings, folder)
    unknown = [name for name in only if name not in called and name not in called.values()]
    if unknown:
        raise ConfigError(
            f"--only {unknown[0]}: the configuration does not have this audit",
            hint=f"it has: {', '.join(called.values())}",
        )

    def make(name: str, options: dict[str, Any]) -> Audit:
        with settings.locating("audits", name):
            made: Audit = make_audit(
                name, options, folder=folder, include_text=settings.include_text, margins=settings.margins
            )
        return made

    chosen = [name for name in settings.audits if name != DATA and (not only or {name, called[name]} & set(only))]
    audits = {called[name]: make(name, settings.audits[name]) for name in chosen}
    if DATA not in settings.audits:
        return audits
    return {DATA: make(DATA, {**in_common(audits.values()), **settings.audits[DATA]}), **audits}


def _called(settings: Config, folder: Path) -> dict[str, str]:
    """What the results of each entry of `audits:` are called."""
    called: dict[str, str] = {}
    for name in settings.audits:
        with settings.locating("audits", name):
            own = audit_name(name, folder)
            if own in called.values():
                raise ConfigError(f"two audits are named '{own}'", hint="give one of them another name")
        called[name] = own
    return called


def in_common(audits: Collection[Audit]) -> dict[str, Any]:
    """The split and the labels that all audits are about, which the data are checked for."""
    common = {}
    for option, kinds in {"split": str, "labels": tuple}.items():
        values = [getattr(audit, option) for audit in audits if isinstance(getattr(audit, option, None), kinds)]
        asked = [audit for audit in audits if hasattr(audit, option)]
        if values and len(values) == len(asked) and all(value == values[0] for value in values):
            common[option] = values[0]
    return common


def _conditions(settings: Config, audits: Mapping[str, Audit], folder: Path) -> list[Condition]:
    """The gate, read and checked by the names that are known before anything is read."""
    members = {
        name: [spec.name for spec in specs if spec.name != name] for name, specs in settings.model_specs(folder).items()
    }
    conditions = []
    for k, text in enumerate(settings.gate):
        with settings.locating("gate", k):
            conditions.append(parse(text, folder=folder, names=RunNames(audits, members, tuple(settings.tables()))))
    return conditions


def _models(settings: Config, folder: Path, labels: Sequence[str]) -> list[ModelEntry]:
    """The models; a language model that names no labels is asked about those of the audits."""
    entries = []
    for name, written in settings.model_specs(folder).items():
        specs = [with_labels(spec, labels) for spec in written]
        with settings.locating("models", name):
            for spec, before in zip(specs, written, strict=True):
                if spec is not before:
                    check_model(spec)
        entries.append(ModelEntry(name, specs, call_timeout=settings.models[name].call_timeout))
    return entries


def _asked_about(cohort: Cohort, audits: Collection[Audit]) -> list[str]:
    """The labels of the cohort that some audit is about, in the cohort's order."""
    written = [getattr(audit, "labels", None) for audit in audits]
    named = {label for labels in written if isinstance(labels, tuple) for label in labels}
    everything = any(not labels for labels in written)
    return [label for label in cohort.labels if everything or label in named]


def _knowledge(settings: Config, folder: Path) -> LoadedModels:
    """What the models on this machine know; models whose predictions are still to come know no words."""
    specs = [spec for specs in settings.model_specs(folder).values() for spec in specs]
    here = [spec for spec in specs if not spec.source.startswith("predictions:")]
    return LoadedModels({spec.name: load_model(spec) for spec in here}, folder)


def _gate(conditions: Sequence[Condition], results: Sequence[AuditResult], directory: RunDirectory) -> list[Judgement]:
    if not conditions:
        directory.remove_gate()
        return []
    judgements = judge(conditions, results, directory.read_manifest())
    directory.write_gate([judgement._asdict() for judgement in judgements], junit(judgements))
    return judgements
