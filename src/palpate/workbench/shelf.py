"""The runs that the workbench was started with, or made itself; found by a short name, never by a path from outside."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palpate.errors import InputError, RunError
from palpate.report.html import render
from palpate.report.scorecard import ScorecardView, view_scorecard
from palpate.results import AuditResult
from palpate.run.directory import RunDirectory
from palpate.workbench.options import BenchOptions
from palpate.workbench.pages import BenchProblem

_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")


class ShelvedRun(NamedTuple):
    """A run as the pages show it."""

    name: str
    path: Path
    manifest: Mapping[str, Any]
    results: Sequence[AuditResult]

    @property
    def title(self) -> str:
        """What the run is called in its report."""
        return str(self.manifest.get("title") or self.name)

    @property
    def models(self) -> list[str]:
        """The models, an ensemble as one."""
        entries = self.manifest.get("models") or []
        return list(dict.fromkeys(str(entry.get("ensemble") or entry.get("name")) for entry in entries))

    @property
    def has_text(self) -> bool:
        """Whether its results hold text of notes."""
        return bool(self.manifest.get("include_text"))

    def check(self) -> None:
        """Fail where something is not as a list of runs shows it."""
        listed = (self.manifest["created"], *self.manifest["audits"], *self.models)
        if not all(isinstance(each, str) for each in listed):
            raise TypeError
        self.scorecard()

    def scorecard(self) -> ScorecardView | None:
        """Questions x models."""
        return view_scorecard(self.results, self.manifest)


class DamagedRun(NamedTuple):
    """A run that can't be read, and why."""

    name: str
    error: Exception


class RunShelf:
    """All runs by name; one is read when it is first looked at, and again when it has changed."""

    def __init__(self, options: BenchOptions) -> None:
        self._show_notes = options.show_notes
        self._paths: dict[str, Path] = {}
        self._read: dict[str, tuple[float, ShelvedRun]] = {}
        self._reports: dict[str, tuple[float, str]] = {}
        self._lock = threading.Lock()
        for path in options.runs:
            self.add(path)
        for path in sorted((options.home / "runs").glob("*/manifest.json")):
            self._keep(path.parent)  # one that is damaged is listed as such

    def add(self, path: Path) -> str:
        """Put a run on the shelf; returns its name here."""
        if not path.is_dir():
            raise RunError("this is not a run directory", file=path)
        RunDirectory(path).read_manifest()
        return self._keep(path)

    def _keep(self, path: Path) -> str:
        whole = path.absolute()
        stem = _NOT_IN_A_NAME.sub("-", whole.name if whole.name != "run" else f"{whole.parent.name}-run").strip(".-")
        with self._lock:
            known = next((name for name, other in self._paths.items() if other == whole), None)
            if known is not None:
                return known
            names = (f"{stem or 'run'}{'' if k == 1 else f'-{k}'}" for k in range(1, len(self._paths) + 2))
            name = next(each for each in names if each not in self._paths)
            self._paths[name] = whole
            return name

    @property
    def paths(self) -> Mapping[str, Path]:
        """Where the runs are, by name."""
        return dict(self._paths)

    def get(self, name: str) -> ShelvedRun | None:
        """A run, or None where there is none of this name; one that is damaged raises a `RunError` without its path."""
        path = self._paths.get(name)
        if path is None:
            return None
        changed = (path / "manifest.json").stat().st_mtime
        with self._lock:
            if name not in self._read or self._read[name][0] != changed:
                self._read[name] = (changed, _read_run(name, path))
            return self._read[name][1]

    def readable(self) -> list[Path]:
        """Where the runs are that can be read."""
        return [run.path for run in self.all()[0]]

    def all(self) -> tuple[list[ShelvedRun], list[DamagedRun]]:
        """The runs that can be read, newest first, and those that can't."""
        found, problems = [], list[DamagedRun]()
        for name in self.paths:  # a copy: the thread of an audit may add a run meanwhile
            try:
                run = self.get(name)
            except (InputError, OSError) as error:
                problems.append(DamagedRun(name, error))
            else:
                found += [run] if run is not None else []
        return sorted(found, key=lambda run: str(run.manifest.get("created") or ""), reverse=True), problems

    def report(self, run: ShelvedRun) -> str:
        """The report; without text of notes unless notes may be shown."""
        file = run.path / "report.html"
        if file.is_file() and (self._show_notes or not run.has_text):
            return file.read_text(encoding="utf-8")
        changed = (run.path / "manifest.json").stat().st_mtime
        if run.name not in self._reports or self._reports[run.name][0] != changed:
            manifest = {**run.manifest, "include_text": run.has_text and self._show_notes}
            html = render(manifest, run.results, gate=RunDirectory(run.path).read_gate())
            self._reports[run.name] = (changed, html)
        return self._reports[run.name][1]

    def files(self, run: ShelvedRun) -> list[str]:
        """What may be downloaded: scorecard, gate, and results, which hold text of notes only if notes may be shown."""
        return sorted(self._files(run))

    def _files(self, run: ShelvedRun) -> Iterator[str]:
        shown = self._show_notes or not run.has_text
        for name in ("manifest.json", "scorecard.json", "gate.json", "junit.xml"):
            if (run.path / name).is_file():
                yield name
        if not shown:  # any table of an audit may quote notes
            return
        if (run.path / "report.html").is_file():
            yield "report.html"
        for file in (run.path / "results").glob("*.*"):
            if file.is_file() and not file.name.startswith("."):
                yield f"results/{file.name}"


def _read_run(name: str, path: Path) -> ShelvedRun:
    """A run, with everything that a list shows of it."""
    directory = RunDirectory(path)
    try:
        run = ShelvedRun(name, path, directory.read_manifest(), directory.read_results())
        run.check()
    except InputError as error:
        raise BenchProblem("run_unreadable", said=error.problem) from None
    except OSError:
        raise
    except Exception:
        # A damaged file may break anything that reads it, and the other runs are to be served all the same.
        raise BenchProblem("run_damaged") from None
    return run


def find_config(options: BenchOptions) -> Path | None:
    """The configuration that was named, or the one beside the first run: `NAME.yaml` of `NAME-run`, or `audit.yaml`."""
    if options.config is not None:
        return options.config
    first = options.runs[0].absolute()
    names = [first.name.removesuffix("-run"), "audit"] if first.name.endswith("-run") else ["audit"]
    return next((file for name in names if (file := first.parent / f"{name}.yaml").is_file()), None)
