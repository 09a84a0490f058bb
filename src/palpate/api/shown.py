"""Tables, charts and progress that show themselves: in a notebook as HTML, in a terminal as text."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from palpate.errors import ConfigError
from palpate.results import Chart, Column, Table

_MOST_ROWS = 60
_SECONDS = 0.2
"""Between two updates of a line."""
_KINDS = {"value": "number", "low": "number", "high": "number", "p_value": "p_value", "level": "percent"}
_EMPTY_IS_NOTHING = ("reference", "significant", "p_value", "reason", "n_positive")
_NOT_SHOWN = ("level", "pointwise_low", "pointwise_high", "n_family")
"""NamedColumns of estimates that few need to look at; `to_polars` and `to_pandas` have them."""


class ShownTable:
    """A table of results: `to_polars()`, `to_pandas()`, `to_dict()`; it shows itself in a notebook.

    >>> import polars as pl
    >>> ShownTable(pl.DataFrame({"metric": ["auroc"], "value": [0.8125]}))
    metric  value
    ------  -----
    auroc   0.812
    """

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def __len__(self) -> int:
        return self._frame.height

    def to_polars(self) -> pl.DataFrame:
        """The table as a polars frame."""
        return self._frame

    def to_pandas(self) -> Any:
        """The table as a pandas frame; pandas must be installed."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ConfigError("pandas is not installed", hint="pip install pandas, or use to_polars()") from None
        return pd.DataFrame({name: self._frame[name].to_list() for name in self._frame.columns})

    def to_dict(self) -> list[dict[str, Any]]:
        """The table as a list of rows."""
        return self._frame.to_dicts()

    def __repr__(self) -> str:
        from palpate.report.blocks import set_cell

        table = self._table()
        heads = [column.name for column in table.columns]
        cells = [[set_cell(cell, column.kind) for cell, column in zip(row, table.columns, strict=True)]
                 for row in table.rows[:_MOST_ROWS]]  # fmt: skip
        return plain_table(heads, cells, left_out=self._frame.height - len(cells))

    def _repr_html_(self) -> str:
        from palpate.report.inline import table_html

        return str(table_html(self._table(), total=self._frame.height))

    def _table(self) -> Table:
        """The rows that are shown; columns that say nothing are left out."""
        shown = self._frame.head(_MOST_ROWS)
        named = [
            column for column in shown.columns
            if column not in _NOT_SHOWN
            if column not in _EMPTY_IS_NOTHING or shown[column].null_count() < shown.height
        ]  # fmt: skip
        return Table(
            title="",
            columns=tuple(Column(name=name, kind=_kind(name, shown[name].dtype)) for name in named),
            rows=tuple(shown.select(named).iter_rows()),
        )


def _kind(name: str, dtype: pl.DataType) -> Any:
    if name in _KINDS:
        return _KINDS[name]
    if dtype == pl.Boolean:
        return "flag"
    return "integer" if dtype.is_integer() else "number" if dtype.is_float() else "text"


def plain_table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, left_out: int = 0) -> str:
    """A table for a terminal."""
    widths = [max([len(head), *(len(row[k]) for row in rows)]) for k, head in enumerate(heads)]
    lines = [heads, ["-" * width for width in widths], *rows]
    text = "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                     for row in lines)  # fmt: skip
    return text + (f"\n({left_out:,} more rows; to_polars() has all)" if left_out > 0 else "")


class ShownChart:
    """A chart of results: its drawing in a notebook, its numbers with `to_polars()`, a file with `save(path)`."""

    def __init__(self, chart: Chart, order: Sequence[str] = ()) -> None:
        self.chart, self._order = chart, tuple(order)

    def to_polars(self) -> pl.DataFrame:
        """The numbers that are drawn."""
        return pl.DataFrame(list(self.chart.data), infer_schema_length=None)

    def save(self, path: Path | str) -> Path:
        """Write the drawing as .svg, or its specification as .json (Vega-Lite)."""
        from palpate.files import write_atomically
        from palpate.report.charts import to_spec

        target = Path(path)
        if target.suffix == ".json":
            write_atomically(target, json.dumps(to_spec(self.chart)))
        elif target.suffix == ".svg":
            write_atomically(target, self._svg())
        else:
            raise ConfigError(f"a chart cannot be saved as '{target.suffix}'", hint="use .svg or .json")
        return target

    def _svg(self) -> str:
        from palpate.report.inline import chart_svgs

        drawn = [svg for _, svg in chart_svgs(self.chart, order=self._order)]
        if len(drawn) == 1:
            return drawn[0]
        raise ConfigError(f"this chart has {len(drawn)} panels", hint="save it as .json, or use the report")

    def __repr__(self) -> str:
        return f"{self.chart.title}: {self.chart.description}"

    def _repr_html_(self) -> str:
        from palpate.report.inline import chart_html

        return str(chart_html(self.chart, order=self._order))


class OneLineProgress:
    """`scoring bert: 1,200 of 4,000, 310/s`, on one line that is written over; see `RunProgress`."""

    def __init__(self) -> None:
        self._model, self._total, self._done = "", 0, 0
        self._began = self._said = 0.0
        self._width = 0

    def stage(self, text: str) -> None:
        """What the run does now."""
        self._say(f"{text} …")
        if text.startswith("writing the report"):
            self._say("")

    def note(self, text: str) -> None:
        """What the user should know."""
        self._say("")
        sys.stderr.write(text + "\n")

    def begin(self, model: str, total: int) -> None:
        """A model has `total` inputs to score."""
        self._model, self._total, self._done, self._began = model, total, 0, time.monotonic()

    def advance(self, n: int) -> None:
        """`n` more inputs are scored."""
        self._done += n
        now = time.monotonic()
        if self._done >= self._total or now - self._said >= _SECONDS:
            self._said = now
            rate = self._done / max(now - self._began, 1e-9)
            self._say(f"scoring {self._model}: {self._done:,} of {self._total:,}, {rate:,.0f}/s")

    def _say(self, text: str) -> None:
        if _watched():
            sys.stderr.write("\r" + text.ljust(self._width) + ("" if text else "\r"))
            sys.stderr.flush()
            self._width = len(text)


def _watched() -> bool:
    """Whether somebody looks: a terminal or a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules
