"""The front door from Python: a frame and models in memory go in, an object that shows itself comes out.

    result = palpate.audit(frame, labels=["readmitted"], text="note", patient="subject_id", models={"lr": pipeline})
    result                                   # in a notebook: scorecard, findings, charts
    result["performance"].to_pandas()

The engine is the command line's: the same job, the same run directory, the same numbers.
"""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palpate.api.frames import NamedColumns, audited
from palpate.api.models import entries
from palpate.api.result import Result
from palpate.api.shown import OneLineProgress
from palpate.commands import audit as commands
from palpate.config import DATA, make_audit
from palpate.errors import ConfigError, InputError, closest
from palpate.results import Audit
from palpate.results.verdicts import MARGINS
from palpate.run.checks import check_directory
from palpate.run.conditions import Condition, RunNames, parse
from palpate.run.directory import RunDirectory
from palpate.run.execute import Execution
from palpate.run.runner import Job, NullProgress, RunProgress


def audit(
    data: Any,
    *,
    models: Any = None,
    labels: Sequence[str] | str | None = None,
    text: str | None = None,
    patient: str | None = None,
    case: str | None = None,
    split: str | None = None,
    time: str | None = None,
    stay: str | None = None,
    weight: str | None = None,
    image: str | None = None,
    prior: str | None = None,
    attributes: Sequence[str] = (),
    positive: str | Sequence[str] | Mapping[str, str | Sequence[str]] | None = None,
    audits: Sequence[str | Audit] | Mapping[str, Mapping[str, Any]] | str | Audit = ("performance",),
    margins: Mapping[str, float] | None = None,
    gate: Sequence[str] | str = (),
    title: str | None = None,
    include_text: bool = False,
    seed: int = 0,
    workers: int = 1,
    out: Path | str | None = None,
    resume: bool = False,
    cache: Path | str | None = None,
    progress: bool | RunProgress | None = None,
    **reading: Any,
) -> Result:
    """Audit models on a table, or run a configuration file.

    `data` is a pandas or polars frame (a pandas index is kept as case ids), a `palpate.Cohort`, the path of a table, a
    mapping of several by name, or the path of an `audit.yaml`, which says all the rest itself. `labels` to `attributes`
    name columns. A model is a fitted estimator, a function of a list of texts or of a frame, scores, a transformers
    model with its tokenizer, a source such as `hf:models/bert`, a `palpate.Model`, or a list of them: several seeds.
    `audits` are names, options by name, or audits such as `palpate.Vocabulary(words=["sepsis"])`.

    `positive` is the value that means 1 where labels are words ("yes"), or a list of those where all others mean 0.
    The path of a table may come with how it is read (`encoding`, `delimiter`, `sheet`, `decimal`, `label_list`), that
    of an `audit.yaml` with `only`, `overrides`. Without `out` the run is in a temporary folder, which goes with the
    result.

    >>> import palpate, polars as pl
    >>> frame = pl.DataFrame({"sick": [0, 1] * 40, "risk": [0.2, 0.8, 0.6, 0.4] * 20})
    >>> result = palpate.audit(frame, labels="sick", models={"vendor": "risk"}, progress=False)
    >>> result.estimates(metric="auroc", reference=None).to_polars()["value"].to_list()
    [0.75]
    """
    shown, settings = _progress(progress), RunSettings(out, resume, workers, seed, cache, include_text)
    if isinstance(data, str | Path) and Path(data).suffix.lower() in (".yaml", ".yml"):
        given = {name: value for name, value in locals().items() if value is not _DEFAULTS.get(name, value)}
        return _from_file(Path(data), given | reading, settings, shown)
    unknown = next((name for name in reading if name not in _READING), None)
    if unknown is not None:
        raise TypeError(f"palpate.audit() got an unexpected argument '{unknown}'")
    if models is None:
        raise ConfigError("there is no model", hint='give some, as models={"lr": pipeline}')
    roles = {"text": text, "patient": patient, "case": case, "split": split, "time": time, "stay": stay}
    roles |= {"weight": weight, "image": image, "prior": prior}
    shown.stage("reading the cohort")
    try:
        table = audited(data, NamedColumns(labels, attributes, roles, positive, reading))
        made = entries(models, table)
    except InputError as error:
        raise error.as_argument() from error
    chosen = _audits(audits, margins or {}, include_text=include_text)
    names = RunNames(chosen, {entry.name: [] for entry in made}, table.cohort.names)
    conditions = [parse(each, folder=Path.cwd(), names=names) for each in ([gate] if isinstance(gate, str) else gate)]
    about = {"title": title or f"Audit of {', '.join(entry.name for entry in made)}", "include_text": include_text}
    execution = Execution("local", workers)
    return _run(Job(table.cohort, made, chosen, seed, execution, resume, about), conditions, settings, shown)


class RunSettings(NamedTuple):
    """Where a run goes and how it is made."""

    out: Path | str | None
    resume: bool
    workers: int
    seed: int
    cache: Path | str | None
    include_text: bool


def _run(job: Job, conditions: Sequence[Condition], settings: RunSettings, progress: RunProgress) -> Result:
    """The job in its folder; a temporary one goes with the result, or at once where there is none."""
    temporary = Path(tempfile.mkdtemp(prefix="palpate-")) if settings.out is None else None
    directory = RunDirectory(temporary or Path(str(settings.out)))
    cache = Path(settings.cache) if settings.cache else None
    try:
        check_directory(directory, resume=settings.resume)
        outcome = commands.execute(job, directory, conditions, cache=cache, progress=progress)
    except BaseException:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
        raise
    return Result(outcome, temporary=temporary)


_READING = ("encoding", "delimiter", "sheet", "decimal", "label_list")
_OF_A_RUN = ("data", "out", "resume", "workers", "progress", "reading")
_DEFAULTS = {name: each.default for name, each in inspect.signature(audit).parameters.items() if name not in _OF_A_RUN}
"""Of the arguments that a configuration says itself."""


def _from_file(config: Path, given: Mapping[str, Any], settings: RunSettings, progress: RunProgress) -> Result:
    """Run a configuration, which says all but where the run goes itself."""
    wrong = next((name for name in given if name not in ("only", "overrides")), None)
    if wrong is not None:
        raise ConfigError(
            f"`{wrong}` cannot be given with {config.name}, which says it itself",
            hint='change the file, or use overrides=["performance.threshold=0.3"]',
        )
    workers = settings.workers if settings.workers > 1 else None
    where: dict[str, Any] = {"out": settings.out, "resume": settings.resume, "workers": workers}
    return Result(commands.audit(config, progress=progress, **where, **given))


def _progress(given: bool | RunProgress | None) -> RunProgress:
    """A line that is written over, unless it is not wanted or another one is given."""
    if given is None or given is True:
        return OneLineProgress()
    return NullProgress() if given is False else given


def _audits(given: Any, margins: Mapping[str, float], *, include_text: bool) -> dict[str, Audit]:
    """The audits by name, the checks of the data first."""
    unknown = next((name for name in margins if name not in MARGINS), None)
    if unknown is not None:
        raise ConfigError(f"unknown margin '{unknown}'", hint=closest(unknown, MARGINS, all_are="the margins are"))
    if isinstance(given, Mapping):
        wanted: list[Any] = [(name, dict(options or {})) for name, options in given.items()]
    else:
        wanted = [given] if isinstance(given, str) or not isinstance(given, Sequence) else list(given)
    made: dict[str, Audit] = {}
    for each in wanted:
        if isinstance(each, type) or (not isinstance(each, str | tuple) and not hasattr(each, "analyse")):
            shown = getattr(each, "__name__", type(each).__name__)
            raise ConfigError(f"{shown} is no audit", hint="give a name, or an object such as palpate.Performance()")
        name, options = each if isinstance(each, tuple) else (each, {}) if isinstance(each, str) else (each.name, None)
        if name in made:
            raise ConfigError(f"audit '{name}' is given twice", hint="give it once, with all its options")
        made[name] = (
            _with_margins(each, margins)
            if options is None
            else make_audit(name, options, folder=Path.cwd(), include_text=include_text, margins=margins)
        )
    if DATA not in made:
        made = {DATA: make_audit(DATA, commands.in_common(made.values()), margins=margins), **made}
    if len(made) == 1 and DATA in made and not wanted:
        raise ConfigError("there is no audit", hint='name some, as audits=["performance", "subgroups"]')
    return made


def _with_margins(audit: Audit, margins: Mapping[str, float]) -> Audit:
    """An audit that was given as an object, with the run's margins unless it has its own."""
    if not margins or not hasattr(audit, "margins") or audit.margins:
        return audit
    changed: Audit = dataclasses.replace(audit, margins=dict(margins))  # type: ignore[type-var]
    return changed
