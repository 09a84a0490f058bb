"""The run directory: the only reader and writer of it.

    RUN/
      manifest.json                 what was run: configuration, seeds, versions, fingerprints
      variants/<audit>.parquet      what was asked: offsets and replacements, no note text
      pending/<model>.npy           what the model had to score when the run started; removed when the run has ended
      predictions/<model>.parquet   what the models predicted; the members of an ensemble are <model>@1, <model>@2, ...
      attributions/<audit>/<model>/ what a model says it looked at, one file per call (offsets and scores)
      results/<audit>.parquet       estimates
      results/<audit>.json          blocks, findings and answers for the report
      scorecard.json                questions x models: verdict, number, interval, margin
      results/<audit>.replicates.parquet   bootstrap replicates, to compare with a later run
      gate.json, junit.xml          the gate's verdicts, where there is a gate
      report.html

Every file is written under another name and then renamed: a reader never sees half a file. File names have none of the
characters that shells and table readers take for patterns.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel, TypeAdapter, ValidationError

from palpate.cases.keys import KeyArray
from palpate.cases.panics import panics_are_errors
from palpate.errors import RunError, parse_json
from palpate.files import make_folder, remove_scratch, replacing, write_atomically
from palpate.results import ESTIMATE_SCHEMA, AnyBlock, Attributions, AuditResult, Finding, ModelPredictions, Plan
from palpate.results.verdicts import Answer
from palpate.run.tables import prediction_tables, variant_tables, write_parts

SCHEMA = 1
_AGAIN = "run the audit again with --resume"
_FOLDERS = ("variants", "predictions", "results", "pending")
_SUFFIXES = (".json", ".parquet", ".npy", ".html", ".xml")
_BLOCKS: TypeAdapter[tuple[Any, ...]] = TypeAdapter(tuple[AnyBlock, ...])
_ANSWERS: TypeAdapter[tuple[Answer, ...]] = TypeAdapter(tuple[Answer, ...])
_FINDINGS: TypeAdapter[tuple[Finding, ...]] = TypeAdapter(tuple[Finding, ...])
_PROVENANCE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_GATE: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(list[dict[str, Any]])
_NUMBERS = ("value", "low", "high", "n")
"""Of a point of a chart."""
_NEEDED = set(ESTIMATE_SCHEMA) - {"n_family", "pointwise_low", "pointwise_high"}
"""Columns that the estimates of every version have."""
_Options = dict[str, Any]


class _Listed(BaseModel):
    name: str


class _ListedModel(_Listed):
    source: str = ""
    labels: list[str] = []
    n_labels: int = 0


class _ListedCohort(_Listed):
    n: float | None = None
    n_patients: float | None = None
    n_labels: int = 0
    n_table: float | None = None
    labels: list[_Listed] = []
    splits: dict[str, Any] = {}


class _ManifestShape(BaseModel):
    """What whoever reads a manifest relies on; a run of another day may lack any of it."""

    title: str = ""
    config: _Options = {}
    include_text: bool = False
    palpate: str = ""
    id: str = ""
    created: str = ""
    audits: dict[str, _Options] = {}
    facts: list[str] = []
    models: list[_ListedModel] = []
    packages: dict[str, str | None] = {}
    scoring: dict[str, _Options] = {}
    fingerprints: _Options = {}
    cohorts: list[_ListedCohort] = []


def _is_manifest(found: object) -> bool:
    try:
        _ManifestShape.model_validate(found, strict=True)
    except ValidationError:
        return False
    return True


def _not_finite(estimates: pl.DataFrame) -> list[str]:
    """The columns with a NaN or an infinity: what can't be computed is null."""
    numbers = estimates.select(pl.col(pl.Float64, pl.Float32).is_finite().all())
    return [column.name for column in numbers if column.item() is False]


def _refuse_misfits(blocks: Sequence[Any], estimates: pl.DataFrame, file: Path) -> None:
    """Refuse tables with rows of another length, charts without numbers, and estimates without their columns."""
    tables, charts = ([block for block in blocks if (block.type == "chart") is drawn] for drawn in (False, True))
    ragged = any(len(row) != len(table.columns) for table in tables for row in table.rows)
    points = [point for chart in charts for point in chart.data]
    ragged = ragged or any(not isinstance(point.get(name), int | float | None) for point in points for name in _NUMBERS)
    ragged = ragged or any(isinstance(value, list | dict) for point in points for value in point.values())
    wrong = [name for name, kind in ESTIMATE_SCHEMA.items() if estimates.schema.get(name, kind) != kind]
    if estimates.width and not set(estimates.columns) >= _NEEDED:
        problem = "its results were written by another version of palpate, or are damaged"
        raise RunError(problem, file=file.with_suffix(".parquet"), hint=_AGAIN)
    wrong += _not_finite(estimates)
    if ragged or wrong:
        raise RunError("the file is damaged", file=file if ragged else file.with_suffix(".parquet"), hint=_AGAIN)


def _write_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def _lock(handle: int) -> bool:
    """Whether nobody else holds the lock; a system or a file system without locks has none."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return True
    return True


def file_name(model: str) -> str:
    """A model's name as a file name: a member of an ensemble, `bert[2]`, is `bert@2`."""
    return re.sub(r"\[(\d+)\]$", r"@\1", model)


class RunDirectory:
    """Reads and writes one run.

    >>> RunDirectory(Path("no-such-folder")).exists
    False
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    # -- the manifest ---------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return os.path.isfile(self.path / "manifest.json")  # noqa: PTH113  (False also for a name that no file can have)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write down what is run here."""
        _write_json(self.path / "manifest.json", {**manifest, "schema": SCHEMA})

    def read_manifest(self) -> dict[str, Any]:
        """What was run here."""
        manifest = self._read_json("manifest.json")
        file = self.path / "manifest.json"
        if not isinstance(manifest, dict) or manifest.get("schema") != SCHEMA:
            problem, hint = (
                "this run was written by another version of palpate",
                "run the audit again with another --out",
            )
            raise RunError(problem, file=file, hint=hint)
        if not _is_manifest(manifest):
            raise RunError("the file is damaged", file=file, hint=_AGAIN)
        return manifest

    def _read_json(self, name: str) -> Any:
        path = self.path / name
        try:
            return parse_json(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"this directory holds no run ({name} is missing)", file=self.path) from None
        except ValueError:
            raise RunError("the file is damaged", file=path, hint=_AGAIN) from None

    def set_aside_damage(self) -> None:
        """Rename a manifest that can't be read, so that the run is started anew; scores are in the cache."""
        try:
            found = parse_json((self.path / "manifest.json").read_text(encoding="utf-8"))
            damaged = not isinstance(found, dict) or (found.get("schema") == SCHEMA and not _is_manifest(found))
        except OSError:
            return
        except ValueError:
            damaged = True
        if damaged:
            (self.path / "manifest.json").replace(self.path / "manifest.damaged.json")

    def set_aside_misfits(self) -> None:
        """Rename folders where a run writes files, and files where it has folders: they would stop every run."""
        folders = [self.path / name for name in _FOLDERS]
        misfits = [each for each in folders if each.exists() and not each.is_dir()]
        for folder in (self.path, *folders):
            misfits += [each for each in folder.glob("*") if each.suffix in _SUFFIXES and each.is_dir()]
        for each in misfits:
            number = next(k for k in count(1) if not each.with_name(f"{each.name}.damaged{k}").exists())
            each.rename(each.with_name(f"{each.name}.damaged{number}"))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """While a run is written here: a second one is refused. The lock is the process's and goes with it.

        What a run that was killed left half written is removed.
        """
        made = not self.path.exists()
        make_folder(self.path)
        handle = os.open(self.path, os.O_RDONLY)
        try:
            if not _lock(handle):
                hint = "wait for it to end, or choose another --out"
                raise RunError("another palpate is writing to this directory", file=self.path, hint=hint)
            for folder in (self.path, *(each for each in self.path.rglob("*") if each.is_dir())):
                remove_scratch(folder)
            yield
        finally:
            os.close(handle)
            if made:
                with suppress(OSError):  # it holds something
                    self.path.rmdir()

    # -- what was scored ------------------------------------------------------------------

    def write_variants(self, audit: str, plan: Plan[Any]) -> None:
        """Offsets and replacements, one row per edit; an unedited case is a row without offsets.

        Replacements that hold text of the notes (`plan.private`) are left out.
        """
        self._write_parts(f"variants/{audit}.parquet", variant_tables(plan))

    def write_predictions(self, model: str, parts: Mapping[str, ModelPredictions]) -> None:
        """One model's predictions for all audits that asked for any, in the order of their variants."""
        self._write_parts(f"predictions/{file_name(model)}.parquet", prediction_tables(parts))

    def read_scores(self, model: str, label: str) -> pl.DataFrame | None:
        """A model's probabilities of a label for cases as they are, `cohort`, `case_id`, `p`; None without a file."""
        found: pl.DataFrame | None = self._read_frame(f"predictions/{file_name(model)}.parquet", optional=True)
        if found is None:
            return None
        parts = [pl.DataFrame(schema={"cohort": pl.String, "case_id": pl.String, "p": pl.Float64})]
        for (audit, named), scored in found.group_by("audit", "labels", maintain_order=True):
            labels = json.loads(str(named))
            if label not in labels:
                continue
            asked: pl.DataFrame | None = self._read_frame(f"variants/{audit}.parquet", optional=True)
            if asked is not None:
                whole = asked.filter(pl.col("start").is_null() & pl.col("case_id").is_not_null())
                own = pl.col("p").list.get(labels.index(label))
                parts.append(scored.join(whole, on="variant").select("cohort", "case_id", own))
        return pl.concat(parts).unique(["cohort", "case_id"], maintain_order=True)

    def write_attributions(self, audit: str, model: str, call: str, found: Attributions) -> None:
        """What a model said in one call."""
        self._write_frame(f"attributions/{audit}/{file_name(model)}/{call}.parquet", pl.DataFrame(found._asdict()))

    def read_attributions(self, audit: str, model: str, call: str) -> Attributions | None:
        """What `write_attributions` wrote, or None."""
        frame = self._read_frame(f"attributions/{audit}/{file_name(model)}/{call}.parquet", optional=True)
        return None if frame is None else Attributions(*(frame[name].to_numpy() for name in Attributions._fields))

    def write_pending(self, model: str, keys: KeyArray) -> None:
        """The inputs that the model had not scored when the run started, in the order of scoring."""
        content = io.BytesIO()  # np.save to a file itself overlooks a disk that is full when C closes the file
        np.save(content, np.ascontiguousarray(keys, dtype="<u8"))
        write_atomically(self.path / "pending" / f"{file_name(model)}.npy", content.getvalue())

    def read_pending(self, model: str) -> KeyArray | None:
        """What `write_pending` wrote, or None."""
        path = self.path / "pending" / f"{file_name(model)}.npy"
        if not path.is_file():
            return None
        try:
            stored = np.load(path, allow_pickle=False)
            return np.ascontiguousarray(stored).view("<u8").reshape(-1, 2)  # bytes, if palpate 0.1 wrote them
        except (ValueError, EOFError, OSError, MemoryError):
            # Cut off by a full disk or a crash, or its first line asks for terabytes: what is unscored is listed anew.
            return None

    def remove_pending(self) -> None:
        """Forget what was pending: the run has ended."""
        shutil.rmtree(self.path / "pending", ignore_errors=True)

    # -- results --------------------------------------------------------------------------------------

    def write_result(self, result: AuditResult) -> None:
        """Estimates, blocks and findings of one audit."""
        if wrong := _not_finite(result.estimates):
            problem = f"audit '{result.audit}' gave an estimate whose `{wrong[0]}` is not a finite number"
            raise RunError(problem, file=self.path, hint="give null, with a `reason`, where there is no number")
        self._write_frame(f"results/{result.audit}.parquet", result.estimates)
        if result.replicates is not None:
            self._write_frame(f"results/{result.audit}.replicates.parquet", result.replicates)
        for name, table in result.tables.items():
            self._write_frame(f"results/{result.audit}.{name}.parquet", table)
        content = {
            "blocks": _BLOCKS.dump_python(result.blocks, mode="json"),
            "findings": _FINDINGS.dump_python(result.findings, mode="json"),
            "answers": _ANSWERS.dump_python(result.answers, mode="json"),
            "provenance": result.provenance,
        }
        _write_json(self.path / "results" / f"{result.audit}.json", content)

    def read_result(self, audit: str) -> AuditResult:
        """One audit's result as it was written."""
        content = self._read_json(f"results/{audit}.json")
        try:
            blocks = _BLOCKS.validate_python(content["blocks"])
            findings = _FINDINGS.validate_python(content["findings"])
            answers = _ANSWERS.validate_python(content.get("answers", ()))
            provenance = _PROVENANCE.validate_python(content.get("provenance", {}))
        except (KeyError, TypeError, ValidationError):
            raise RunError("the file is damaged", file=self.path / "results" / f"{audit}.json", hint=_AGAIN) from None
        estimates = self._read_frame(f"results/{audit}.parquet")
        _refuse_misfits(blocks, estimates, self.path / "results" / f"{audit}.json")
        return AuditResult(
            audit=audit,
            estimates=estimates,
            blocks=blocks,
            findings=findings,
            answers=answers,
            provenance=provenance,
            replicates=self._read_frame(f"results/{audit}.replicates.parquet", optional=True),
        )

    def read_table(self, audit: str, name: str) -> pl.DataFrame | None:
        """A table that an audit kept with the run (`AuditResult.tables`), or None."""
        frame: pl.DataFrame | None = self._read_frame(f"results/{audit}.{name}.parquet", optional=True)
        return frame

    def read_results(self) -> list[AuditResult]:
        """All results, in the order in which the audits were configured."""
        audits = list(self.read_manifest().get("audits", {}))
        there = [audit for audit in audits if (self.path / "results" / f"{audit}.json").is_file()]
        if not there:
            raise RunError("this run has no results yet", file=self.path, hint="finish it with palpate audit --resume")
        return [self.read_result(audit) for audit in there]

    def write_scorecard(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Questions x models, for a pipeline."""
        _write_json(self.path / "scorecard.json", list(rows))

    def write_gate(self, verdicts: Sequence[Mapping[str, Any]], junit: str) -> None:
        """The gate's verdict, for the report and for a pipeline."""
        _write_json(self.path / "gate.json", list(verdicts))
        self._write_text("junit.xml", junit)

    def remove_gate(self) -> None:
        """Forget an earlier verdict: this run has no gate."""
        for name in ("gate.json", "junit.xml"):
            (self.path / name).unlink(missing_ok=True)

    def read_gate(self) -> list[dict[str, Any]] | None:
        """The gate's verdict, or None where there is no gate."""
        if not (self.path / "gate.json").is_file():
            return None
        try:
            return _GATE.validate_python(self._read_json("gate.json"))
        except ValidationError:
            raise RunError("the file is damaged", file=self.path / "gate.json", hint=_AGAIN) from None

    def write_report(self, html: str) -> Path:
        """The report; returns where it is."""
        return self._write_text("report.html", html)

    # -- files ----------------------------------------------------------------------------------------

    def _write_text(self, name: str, text: str) -> Path:
        write_atomically(self.path / name, text)
        return self.path / name

    def _write_frame(self, name: str, frame: pl.DataFrame) -> None:
        with replacing(self.path / name) as scratch:
            frame.write_parquet(scratch)

    def _write_parts(self, name: str, parts: Iterator[pl.DataFrame]) -> None:
        with replacing(self.path / name) as scratch:
            write_parts(scratch, parts)

    def _read_frame(self, name: str, *, optional: bool = False) -> Any:
        path = self.path / name
        if optional and not path.is_file():
            return None
        try:
            with panics_are_errors(path):
                return pl.read_parquet(path, glob=False, hive_partitioning=False)
        except (OSError, pl.exceptions.PolarsError):
            raise RunError("the file is missing or damaged", file=path, hint=_AGAIN) from None
