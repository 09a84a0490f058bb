"""Several runs side by side: one number of each, in the order in which they were made, and what changed in between."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from palpate.errors import ConfigError, InputError, RunError, closest
from palpate.files import write_atomically
from palpate.privacy import as_cell
from palpate.report.history import HistoryLine, HistoryPage, render_history
from palpate.results import ESTIMATE_SCHEMA, METRIC_NAMES, AuditResult, headline_label
from palpate.run.directory import RunDirectory

FORMATS = (".html", ".csv")
_WHOLE = "all"
_OTHER_VERSION = "its results were written by another version of palpate"


class ReadRun(NamedTuple):
    """A run that could be read."""

    name: str
    manifest: Mapping[str, Any]
    results: Sequence[AuditResult]

    @property
    def created(self) -> str:
        """When it was made; the empty string where that is not known."""
        return str(self.manifest.get("created") or "")

    @property
    def models(self) -> list[str]:
        """The models, an ensemble as one."""
        entries = self.manifest.get("models") or []
        return list(dict.fromkeys(str(entry.get("ensemble") or entry.get("name")) for entry in entries))

    @property
    def cohorts(self) -> list[str]:
        """The cohorts' names."""
        return [str(cohort.get("name")) for cohort in self.manifest.get("cohorts") or []]


class History(NamedTuple):
    """What was found."""

    metric: str
    """What the number is called."""
    lines: Sequence[HistoryLine]
    skipped: Sequence[str]
    """One sentence for each run that could not be read, or that does not have the number."""


class Choice(NamedTuple):
    """Which rows of the results are wanted."""

    metric: str = "auroc"
    """`auroc`, or with its audit `drift.auroc`."""
    model: str | None = None
    label: str | None = None
    group: str | None = None


AUROC = Choice()


def history(runs: Sequence[Path], choice: Choice = AUROC) -> History:
    """One number of several runs. What cannot be read is named and skipped; an error if that is all of them."""
    read, skipped = _read_all(runs)
    if not read:
        told = " ".join(skipped)
        raise RunError(f"{told} None of the {len(runs)} given can be read" if len(runs) > 1 else told.rstrip("."))
    audit, _, metric = choice.metric.rpartition(".")
    lines: list[HistoryLine] = []
    before: ReadRun | None = None
    for run in read:
        result = _result(run, audit, metric)
        rows = [] if result is None else _rows(run, result, metric, choice)
        if not rows or result is None:
            skipped.append(f"{run.name} has no number '{choice.metric}'{_of(choice)}.")
            continue
        changed = "" if before is None else _changed(before, run, result.audit)
        lines += [_line(run, row, changed) for row in rows]
        before = run
    if not lines:
        raise _nothing(read, audit, metric, choice)
    return History(METRIC_NAMES.get(metric, metric.replace("_", " ")), lines, skipped)


def _read_all(runs: Sequence[Path]) -> tuple[list[ReadRun], list[str]]:
    read: list[tuple[Path, ReadRun]] = []
    skipped = []
    for path in dict.fromkeys(Path(run) for run in runs):
        try:
            read.append((path, _read(path)))
        except (InputError, OSError) as error:
            said = str(error) if isinstance(error, InputError) else f"{path}: {error.strerror or 'cannot be read'}."
            skipped.append(f"Skipped: {said}")
    names = _names([path for path, _ in read])
    named = [run._replace(name=name) for name, (_, run) in zip(names, read, strict=True)]
    return sorted(named, key=lambda run: run.created), skipped


def _read(path: Path) -> ReadRun:
    directory = RunDirectory(path)
    if not path.is_dir():
        raise RunError("this is not a run directory", file=path)
    manifest = directory.read_manifest()
    results = directory.read_results()
    for result in results:
        missing = [name for name in ("metric", "model", "label", "group", "value") if name not in result.estimates]
        if missing:
            raise RunError(_OTHER_VERSION, file=path, hint="run the audit again")
    return ReadRun(str(path), manifest, results)


def _names(paths: Sequence[Path]) -> list[str]:
    """The folders' names, or as much of their paths as tells them apart."""
    for depth in (1, 2, 3):
        names = ["/".join(path.absolute().parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]


def _result(run: ReadRun, audit: str, metric: str) -> AuditResult | None:
    """The audit that is named, or the first that has the metric."""
    for result in run.results:
        if (not audit or result.audit == audit) and metric in result.estimates["metric"].unique().to_list():
            return result
    return None


def _rows(run: ReadRun, result: AuditResult, metric: str, choice: Choice) -> list[dict[str, Any]]:
    """Levels of the models and the headline label; of groups, the cohorts or all cases, unless one is chosen."""
    rows = result.estimates
    for name in ESTIMATE_SCHEMA:
        if name not in rows.columns:
            rows = rows.with_columns(pl.lit(None, dtype=ESTIMATE_SCHEMA[name]).alias(name))
    rows = rows.filter(pl.col("metric") == metric, pl.col("reference").is_null())
    rows = rows.filter(pl.col("model").is_in([choice.model] if choice.model else run.models))
    if choice.label is None:
        headline = headline_label(rows["label"].unique().to_list())
        rows = rows if headline is None else rows.filter(pl.col("label") == headline)
    elif choice.label != "*":
        rows = rows.filter(pl.col("label") == choice.label)
    if choice.group is None:
        usual = rows.filter(pl.col("group").is_in([*run.cohorts, _WHOLE]))
        rows = rows if usual.is_empty() else usual
    elif choice.group != "*":
        rows = rows.filter(pl.col("group") == choice.group)
    return rows.to_dicts()


def _line(run: ReadRun, row: Mapping[str, Any], changed: str) -> HistoryLine:
    model, label, group, reason = (str(row[name] or "") for name in ("model", "label", "group", "reason"))
    value, low, high, n = (row[name] for name in ("value", "low", "high", "n"))
    return HistoryLine(run.name, run.created, model, label, group, value, low, high, n, reason, changed)


def _changed(before: ReadRun, now: ReadRun, audit: str) -> str:
    """What is different, in words; `nothing` where the two are of the same cohort, models, options and version."""
    told = []
    for key, word in (("cohort", "the cohort"), ("seed", "the seed")):
        earlier, later = ((run.manifest.get("fingerprints") or {}).get(key) for run in (before, now))
        if earlier != later:
            told.append(word)
    told += _models_changed(before, now)
    options = [(run.manifest.get("audits") or {}).get(audit) for run in (before, now)]
    if options[0] != options[1]:
        told.append(f"options of {audit}")
    versions = [str(run.manifest.get("palpate") or "") for run in (before, now)]
    if versions[0] != versions[1]:
        told.append(f"palpate {versions[0] or '?'} to {versions[1] or '?'}")
    return ", ".join(told) or "nothing"


def _models_changed(before: ReadRun, now: ReadRun) -> list[str]:
    entries = [
        {str(entry.get("name")): entry.get("fingerprint") for entry in run.manifest.get("models") or []}
        for run in (before, now)
    ]
    told = [f"model {name}" for name in entries[1] if name in entries[0] and entries[0][name] != entries[1][name]]
    told += [f"model {name} is new" for name in entries[1] if name not in entries[0]]
    return told + [f"model {name} is gone" for name in entries[0] if name not in entries[1]]


def _of(choice: Choice) -> str:
    chosen = {"model": choice.model, "label": choice.label, "group": choice.group}
    told = [f"{name} '{value}'" for name, value in chosen.items() if value is not None]
    return f" of {', '.join(told)}" if told else ""


def _nothing(read: Sequence[ReadRun], audit: str, metric: str, choice: Choice) -> ConfigError:
    """No run has the number: which word is wrong, and what there is instead."""
    results = [result for run in read for result in run.results]
    if audit and audit not in {result.audit for result in results}:
        hint = closest(audit, {result.audit for result in results}, all_are="the audits are")
        return ConfigError(f"no run has an audit '{audit}'", hint=hint)
    frames = [result.estimates for result in results if not audit or result.audit == audit]
    for name, word in (("metric", metric), ("model", choice.model), ("label", choice.label), ("group", choice.group)):
        known = {str(value) for frame in frames for value in frame[name].drop_nulls().unique()}
        if word is not None and word != "*" and word not in known:
            return ConfigError(f"no run has a {name} '{word}'", hint=closest(word, known, all_are="there are"))
    return ConfigError(f"no run has a number '{choice.metric}'{_of(choice)}")


def check_format(path: Path) -> None:
    """Refuse a file that is neither a page nor a table, before anything is read."""
    if path.suffix.lower() not in FORMATS:
        raise ConfigError("a history is written as .html or .csv", file=path, hint="give --out such a name")


def write_history(found: History, path: Path) -> None:
    """The history as a page or as a table, by the file's name."""
    check_format(path)
    if path.suffix.lower() == ".csv":
        write_atomically(path, as_csv(found))
        return
    page = HistoryPage(f"History of {found.metric}", found.metric, found.lines, found.skipped)
    write_atomically(path, render_history(page))


def as_csv(found: History) -> str:
    """One row per run, model, label and group."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HistoryLine._fields)
    writer.writerows(["" if value is None else as_cell(value) for value in line] for line in found.lines)
    return out.getvalue()
