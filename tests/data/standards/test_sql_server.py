"""What palpate asks of SQL Server: no server can be had here, so that the queries themselves are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from palpate.data.hospitals import databases
from palpate.data.hospitals.databases import DatabaseTable, ServerReader


class Recorded(ServerReader):
    """Writes down what it would ask, and answers from a list."""

    def __init__(self, answers: Iterator[pl.DataFrame]) -> None:
        super().__init__("mssql://me@host/omop")
        self.asked: list[str] = []
        self._answers = answers

    def ask(self, query: str, table: str | None = None) -> pl.DataFrame:
        self.asked.append(query)
        return next(self._answers)


KINDS = {"note_id": "numeric", "note_date": "date", "Note_DateTime": "datetime2", "note]text": "nvarchar"}


def test_cells_are_asked_for_in_notations_that_lose_nothing() -> None:
    """Large numbers would become floating-point ones, and dates after 2262 don't fit into ConnectorX's moments."""
    reader = Recorded(iter([pl.DataFrame({"note_id": ["1"]})]))
    assert len(list(reader.parts(DatabaseTable("dbo", "No]te", KINDS), list(KINDS), "note_id"))) == 1
    assert reader.asked == [
        "SELECT CAST(t.[note_id] AS NVARCHAR(60)) AS [note_id], "
        "CONVERT(NVARCHAR(60), t.[note_date], 126) AS [note_date], "
        "CONVERT(NVARCHAR(60), t.[Note_DateTime], 126) AS [Note_DateTime], t.[note]]text] AS [note]]text] "
        "FROM [dbo].[No]]te] AS t ORDER BY t.[note_id] OFFSET 0 ROWS FETCH NEXT 200000 ROWS ONLY"
    ]


def test_a_table_with_a_key_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "ROWS", 2)
    reader = Recorded(iter(pl.DataFrame({"a": ["x"] * n}) for n in (2, 2, 0)))
    parts = list(reader.parts(DatabaseTable("dbo", "note", {"a": "int"}), ["a"], "a"))
    assert [part.height for part in parts] == [2, 2, 0]
    assert [query.partition(" OFFSET ")[2].split()[0] for query in reader.asked] == ["0", "2", "4"]
    whole = Recorded(iter([pl.DataFrame({"a": ["x"] * 5})]))
    assert len(list(whole.parts(DatabaseTable("dbo", "death", {"a": "int"}), ["a"], None))) == 1
    assert "ORDER" not in whole.asked[0]


def test_the_catalogue_is_asked_for_in_capitals() -> None:
    """In a database whose collation minds case, INFORMATION_SCHEMA has no other name."""
    columns = pl.DataFrame({"place": ["dbo"], "named": ["Note"], "col": ["note_id"], "kind": ["bigint"]})
    reader = Recorded(iter([columns]))
    assert reader.columns("d'bo").rows() == [("dbo", "Note", "note_id", "bigint")]
    assert "FROM INFORMATION_SCHEMA.COLUMNS" in reader.asked[0]
    assert "LOWER(N'd''bo')" in reader.asked[0]


def test_connectorx_gives_frames_of_polars(tmp_path: Path) -> None:
    """Through the same door, with a database that is a file."""
    import sqlite3

    with sqlite3.connect(tmp_path / "base.db") as base:
        base.execute("CREATE TABLE note (note_id INTEGER, note_text TEXT)")
        base.execute("INSERT INTO note VALUES (1, 'a'), (NULL, NULL)")
    reader = ServerReader(f"sqlite://{tmp_path}/base.db")
    assert reader.ask("SELECT note_id, note_text FROM note").rows() == [(1, "a"), (None, None)]
    assert reader.ask("SELECT note_text FROM note WHERE note_id = 9").height == 0
