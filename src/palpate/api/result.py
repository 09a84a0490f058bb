"""What `palpate.audit` returns: the run's scorecard, findings, numbers, charts, report and gate, as one object."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from palpate.api.shown import ShownChart, ShownTable, plain_table
from palpate.commands.audit import Outcome
from palpate.errors import ConfigError, closest
from palpate.files import replacing
from palpate.results import AuditResult, Chart, Finding, Table
from palpate.results.verdicts import VERDICTS, scorecard_rows
from palpate.run.conditions import RunNames, parse
from palpate.run.directory import RunDirectory
from palpate.run.gate import Judgement, judge

_MOST_CHARTS = 3
_ORDER = (*VERDICTS, "caveat", "fact")


class AuditSection(ShownTable):
    """What one audit found: its estimates as a table, with `findings`, `tables`, `charts` and `chart(title)`."""

    def __init__(self, result: AuditResult, models: Sequence[str] = ()) -> None:
        super().__init__(result.estimates)
        self.result, self._models = result, tuple(models)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The sentences, the worst first."""
        return tuple(sorted(self.result.findings, key=lambda finding: _ORDER.index(finding.kind)))

    @property
    def charts(self) -> dict[str, ShownChart]:
        """The charts by their titles."""
        blocks = [block for block in self.result.blocks if isinstance(block, Chart)]
        return {block.title: ShownChart(block, self._models) for block in blocks}

    @property
    def tables(self) -> dict[str, ShownTable]:
        """The tables of the report by their titles; an interval is three columns."""
        return {block.title: ShownTable(_frame(block)) for block in self.result.blocks if isinstance(block, Table)}

    def estimates(self, **chosen: Any) -> ShownTable:
        """The numbers that match, as `estimates(metric="auroc", model="lr")`; None matches what is empty."""
        return ShownTable(_matching(self.result.estimates, chosen))

    def chart(self, title: str) -> ShownChart:
        """The chart whose title has these words."""
        return _chart(title, [self])

    def __repr__(self) -> str:
        said = [f"{finding.kind}: {finding.sentence}" for finding in self.findings]
        return "\n".join([f"{self.result.audit}: {self.result.estimates.height:,} estimates", *said])

    def _repr_html_(self) -> str:
        from palpate.report.inline import findings_html

        drawn = [chart._repr_html_() for chart in list(self.charts.values())[:_MOST_CHARTS]]
        return f"<h4>{self.result.audit}</h4>{findings_html(self.findings)}{''.join(drawn)}"


class JudgedGate:
    """Conditions, judged: true where all hold."""

    def __init__(self, judgements: Sequence[Judgement]) -> None:
        self.judgements = tuple(judgements)

    def __bool__(self) -> bool:
        return all(each.passed for each in self.judgements)

    def __repr__(self) -> str:
        rows = [["passed" if each.passed else "failed", each.condition, each.detail] for each in self.judgements]
        return plain_table(["", "condition", "why"], rows)


class Result(Mapping[str, AuditSection]):
    """A finished run: audits by name, and everything about them.

    `result["performance"]` is what one audit found; `result.estimates(metric="auroc")` are numbers of all of them;
    `result.chart("calibration")`, `result.report("report.html")`, `result.gate("no concern")`.

    >>> import palpate, polars as pl
    >>> frame = pl.DataFrame({"sick": [0, 1] * 40, "risk": [0.2, 0.8, 0.6, 0.4] * 20})
    >>> result = palpate.audit(frame, labels="sick", models={"m": "risk"}, progress=False)
    >>> bool(result.gate("performance.auroc >= 0.7"))
    True
    """

    def __init__(self, outcome: Outcome, *, temporary: Path | None = None) -> None:
        self.directory: RunDirectory = outcome.run
        """Where the run is; a temporary one goes with this object."""
        self.results = list(outcome.results)
        self.judgements = list(outcome.judgements)
        """The conditions that were given with the audit, judged."""
        self._report = outcome.report
        if temporary is not None:
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)

    @property
    def passed(self) -> bool:
        """Whether every condition that was given with the audit holds."""
        return all(judgement.passed for judgement in self.judgements)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What was run: cohort, models, versions, seeds."""
        return self.directory.read_manifest()

    @cached_property
    def models(self) -> tuple[str, ...]:
        """The models that are compared."""
        return tuple(dict.fromkeys(entry["ensemble"] or entry["name"] for entry in self.manifest["models"]))

    def __getitem__(self, audit: str) -> AuditSection:
        found = next((each for each in self.results if each.audit == audit), None)
        if found is None:
            hint = closest(audit, list(self), all_are="the audits are")
            raise KeyError(f"this run has no audit '{audit}'; {hint}")
        return AuditSection(found, self.models)

    def __iter__(self) -> Iterator[str]:
        return iter([each.audit for each in self.results])

    def __len__(self) -> int:
        return len(self.results)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The sentences of all audits, the worst first."""
        return tuple(sorted((f for each in self.results for f in each.findings), key=lambda f: _ORDER.index(f.kind)))

    def estimates(self, **chosen: Any) -> ShownTable:
        """Numbers of all audits that match, as `estimates(metric="auroc", model="lr")`; None matches what is empty."""
        return ShownTable(_matching(pl.concat([each.estimates for each in self.results]), chosen))

    @property
    def scorecard(self) -> ShownTable:
        """Questions and models: verdict, number, interval, margin; one row for each."""
        rows = [
            {"audit": row.audit, "question": row.question, "asks": row.asks, "model": model, "verdict": answer.verdict}
            | {name: getattr(answer, name) for name in ("value", "low", "high", "margin", "reason")}
            for row in scorecard_rows({each.audit: each.answers for each in self.results})
            for model, answer in row.answers.items()
        ]
        return ShownTable(pl.DataFrame(rows, infer_schema_length=None))

    def chart(self, title: str, *, audit: str | None = None) -> ShownChart:
        """The first chart whose title has these words, in the audit or in any."""
        return _chart(title, [self[audit]] if audit else [self[name] for name in self])

    def report(self, path: Path | str | None = None) -> Path:
        """The report as one HTML file: where it is, or a copy of it at `path`."""
        if path is None:
            return self._report
        target = Path(path)
        with replacing(target) as scratch:
            shutil.copyfile(self._report, scratch)
        return target

    def gate(self, *conditions: str) -> JudgedGate:
        """Judge conditions, written as in the `gate:` of a configuration."""
        names = RunNames(dict.fromkeys(self), {name: [] for name in self.models}, ())
        parsed = [parse(text, folder=Path.cwd(), names=names) for text in conditions]
        return JudgedGate(judge(parsed, self.results, self.manifest))

    def __repr__(self) -> str:
        lines = [str(self.manifest.get("title", "audit"))]
        for row in scorecard_rows({each.audit: each.answers for each in self.results}):
            told = [f"{model}: {answer.verdict}" for model, answer in row.answers.items()]
            lines.append(f"  {row.asks}  {'; '.join(told)}")
        for judgement in self.judgements:
            lines.append(f"  gate {'passed' if judgement.passed else 'failed'}: {judgement.condition}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from palpate.report.inline import findings_html, scorecard_html

        told = [finding for finding in self.findings if finding.kind not in ("fact", "acceptable")]
        charts = [chart for name in self for chart in self[name].charts.values()][:_MOST_CHARTS]
        parts = [scorecard_html(self.results, self.manifest), findings_html(told[:12])]
        return "".join([*map(str, parts), *(chart._repr_html_() for chart in charts)])


def _frame(block: Table) -> pl.DataFrame:
    """A table of the report as columns."""
    made: dict[str, list[Any]] = {}
    for k, column in enumerate(block.columns):
        cells = [row[k] for row in block.rows]
        if column.kind != "interval":
            made[column.name] = cells
            continue
        for j, end in enumerate(("", " low", " high")):
            made[f"{column.name}{end}"] = [cell[j] if isinstance(cell, tuple) else None for cell in cells]
    return pl.DataFrame(made, strict=False)


def _matching(frame: pl.DataFrame, chosen: Mapping[str, Any]) -> pl.DataFrame:
    for column, value in chosen.items():
        if column not in frame.columns:
            raise ConfigError(
                f"estimates have no column '{column}'", hint=closest(column, frame.columns, all_are="there are")
            )
        wanted = list(value) if isinstance(value, list | tuple | set) else [value]
        known = [each for each in wanted if each is not None]
        there = frame[column].drop_nulls().unique().sort().to_list() if frame[column].dtype == pl.String else known
        for each in known:
            if each not in there:
                hint = closest(str(each), there, all_are="there are")
                raise ConfigError(f"no estimate has {column} '{each}'", hint=hint)
        keep = frame[column].is_in(known) if known else pl.repeat(False, frame.height, dtype=pl.Boolean, eager=True)
        frame = frame.filter(keep.fill_null(False) | (frame[column].is_null() if None in wanted else False))
    return frame


def _chart(title: str, sections: Sequence[AuditSection]) -> ShownChart:
    titles = []
    for section in sections:
        for own, chart in section.charts.items():
            if title.casefold() in own.casefold():
                return chart
            titles.append(own)
    raise ConfigError(f"no chart is called '{title}'", hint=f"there are: {'; '.join(titles) or 'none'}")
