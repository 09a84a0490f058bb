"""The MIMIC-CXR-JPG layout (2.0.0 and 2.1.0, whose tables have the same names), beside MIMIC-IV.

Its files are named `mimic-cxr-2.0.0-metadata` and the like, and its columns have spaces, so neither can be names in
SQL: a table has a short name here, and a column that of its file with `_` for spaces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from palpate.cases.columns import missing_column, quote
from palpate.data.hospitals.mimic_iv import MIMIC_IV
from palpate.data.hospitals.sources import SUFFIXES, Hospital, Table, find_table, has_table
from palpate.data.hospitals.truncation import check_whole
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

LABELS = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Enlarged Cardiomediastinum",
    "Fracture",
    "Lung Lesion",
    "Lung Opacity",
    "Pleural Effusion",
    "Pleural Other",
    "Pneumonia",
    "Pneumothorax",
    "Support Devices",
)
"""The 13 labels of the paper: the labeler's 14 without `No Finding`; always read by name, never by place."""


def plain(name: str) -> str:
    """A label's or a column's name in SQL."""
    return name.lower().replace(" ", "_")


METADATA = Table(
    "cxr_metadata",
    ("dicom_id", "subject_id", "study_id", "viewposition", "studydate", "studytime"),
    key="dicom_id",
)
CHEXPERT = Table("cxr_chexpert", ("subject_id", "study_id", *(plain(label) for label in LABELS)), key="study_id")
FILES = {METADATA.name: "mimic-cxr-2.0.0-metadata", CHEXPERT.name: "mimic-cxr-2.0.0-chexpert"}

_DEPTH = 2
"""How deep below the source a table may be: PhysioNet's own arrangement is NAME/VERSION/table."""
_NOT_TABLES = "files"


class XrayHospital(Hospital):
    """A hospital with MIMIC-IV and MIMIC-CXR-JPG, each somewhere below one folder."""

    def __init__(self, opened: Hospital) -> None:
        # Adopts an open hospital: its macros are made already.
        self.connection, self.folder, self.progress = opened.connection, opened.folder, opened.progress
        self._files: dict[str, Path] = {}
        self._columns: dict[str, dict[str, str]] = {}
        self._tables: dict[str, Table] = {}

    def attach_all(self) -> None:
        """Find, check and open the tables of both layouts."""
        for table in (*MIMIC_IV.stays, MIMIC_IV.notes):
            self._open(table, find_mimic_iv(self.folder, table))
        for table in (METADATA, CHEXPERT):
            self._open(table, find_cxr(self.folder, table))

    @property
    def cxr_folder(self) -> Path:
        """Where the tables of MIMIC-CXR-JPG are; its images are in `files/` beside them."""
        return self.file(METADATA.name).parent

    def refuse_cells(self, table: str, conditions: Mapping[str, str], what: str, hint: str) -> None:
        """Stop at the first row with a cell for which the condition on its column holds."""
        bad = " OR ".join(f"({condition})" for condition in conditions.values())
        listed = ", ".join(conditions)
        with self._errors():
            found = self.connection.execute(
                f"SELECT file_row, {listed} FROM ({self._cells(table, numbered=True)}) WHERE {bad} "
                "ORDER BY file_row LIMIT 1"
            ).fetchone()
            if found is None:
                return
            marks = self.connection.execute(
                f"SELECT {', '.join(f'coalesce({condition}, false)' for condition in conditions.values())} "
                f"FROM (SELECT {', '.join(f'${k + 1}::VARCHAR AS {name}' for k, name in enumerate(conditions))})",
                list(found[1:]),
            ).fetchone()
        column, cell = next(
            (name, cell) for name, cell, mark in zip(conditions, found[1:], marks or (), strict=True) if mark
        )
        said = "the cell is empty" if cell is None else f"the cell is {quote(cell)}, {what}"
        raise CohortError(said, file=self._files[table], row=found[0], column=self._columns[table][column], hint=hint)

    def _open(self, table: Table, file: Path) -> None:
        form = format_of(file)
        self._files[table.name], self._tables[table.name] = file, table
        self._columns[table.name] = _columns(table, form.columns(file), file)
        if not form.typed:
            self.progress(f"checking {file.name}")
            check_whole(file)
        self.connection.execute(f"CREATE VIEW {table.name} AS {self._cells(table.name)}")
        if table.key is not None:
            self._refuse_twice(table.name, table.key)


def find_mimic_iv(folder: Path, table: Table) -> Path:
    """A table of MIMIC-IV: in `hosp` or `note` somewhere below the folder, or in the folder itself."""

    def there(place: Path) -> Path | None:
        # A table without its layout's folder may be another hospital's: MIMIC-III has an ADMISSIONS too.
        own = any(child.is_dir() and child.name.lower() == table.folder for child in _inside(place))
        return find_table(place, table) if own and has_table(place, table) else None

    return _nearest(folder, table.name, there) or find_table(folder, table)


def find_cxr(folder: Path, table: Table) -> Path:
    """A table of MIMIC-CXR-JPG, somewhere below the folder."""
    stem = FILES[table.name]

    def there(place: Path) -> Path | None:
        files = {file.name.lower(): file for file in reversed(_inside(place)) if file.is_file()}
        return next((files[stem + suffix] for suffix in SUFFIXES if stem + suffix in files), None)

    found = _nearest(folder, stem, there)
    if found is None:
        hint = f"palpate looked for {stem}{SUFFIXES[1]} (or .parquet, .csv.gz) in it and {_DEPTH} folders deep"
        raise CohortError(f"the table {stem} of MIMIC-CXR-JPG is missing", file=folder, hint=hint)
    return found


def _nearest(folder: Path, table: str, there: Callable[[Path], Path | None]) -> Path | None:
    """What is there in the folder or else below it, level by level; refused where two of a level have it."""
    for level in _levels(folder):
        found = {place: file for place in level if (file := there(place)) is not None}
        if len(found) > 1:
            named = ", ".join(str(place.relative_to(folder)) for place in found)
            hint = "give the folder of one hospital, with one version of each table"
            raise CohortError(f"several folders have the table {table}: {named}", file=folder, hint=hint)
        if found:
            return next(iter(found.values()))
    return None


def _levels(folder: Path) -> Iterator[list[Path]]:
    """The folder, then those in it, then those in these; not the images."""
    level = [folder]
    yield level
    for _ in range(_DEPTH):
        level = [
            child
            for place in level
            for child in _inside(place)
            if child.is_dir() and child.name != _NOT_TABLES and not child.name.startswith(".")
        ]
        yield level


def _inside(place: Path) -> list[Path]:
    """What is in a folder, by name; nothing if it may not be looked into, as the lost+found of a disk."""
    try:
        return sorted(place.iterdir())
    except PermissionError:
        return []


def _columns(table: Table, columns: tuple[str, ...], file: Path) -> dict[str, str]:
    """The file's own spelling of each column that is needed."""
    spelled = {plain(column): column for column in reversed(columns)}
    for name in table.columns:
        if name not in spelled:
            raise missing_column(name, columns, file=file)
    return {name: spelled[name] for name in table.columns}
