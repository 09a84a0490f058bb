"""Which column of a table may have which role, guessed from its name and from the cells of the first rows.

A guess comes with its reason, so that whoever knows the table can correct it. Reasons count and measure; they quote no
cell but the two values of a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.cases.columns import NUMBER, SPLIT_NAMES, ColumnCheck, with_points
from palpate.cases.labels import AFFIRMED, CODES, FLAGS
from palpate.data.tables.formats import format_of
from palpate.delimited import FileLayout, find_delimiter, looks_like
from palpate.errors import CohortError

SAMPLE = 2_000
_IMAGE = r"(?i)\.(png|jpe?g|tiff?|bmp|dcm|gif|webp)$"
_TIME = r"^\s*\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?)?\s*$"
_OWN = {"case_id": "case", "patient_id": "patient", "stay_id": "stay", "sampling_weight": "weight"}
_OWN |= {name: name for name in ("text", "split", "time", "image", "prior")}
_WORDS = {
    "patient": "patient subject person pat mrn pid member client patientenid pseudonym",
    "case": "case note stay visit encounter hadm admission row report study document doc record episode exam fall",
    "id": "id ids key number nr no num uid uuid identifier code",
    "text": "text note notes report summary discharge letter narrative impression findings message sentence comment "
    "befund bericht arztbrief",
    "prior": "prior previous history past earlier anamnese",
    "time": "time date day datetime timestamp charttime admittime dischtime datum zeit",
    "birth": "birth dob born geburt",
    "outcome": "label labels outcome target y readmit readmitted readmission died dead death mortality expired event "
    "positive diagnosis adverse ade ill disease class relapse recurrence sepsis transfer complication krank",
    "attribute": "sex gender male female age race ethnicity ethnic insurance insured language marital married smoker "
    "smoking site hospital ward unit department region bmi religion country year geschlecht alter emergency",
}
_FEW = 5
"""Values of an outcome that is not yes or no."""
WORDS = {role: frozenset(words.split()) for role, words in _WORDS.items()}


class Guess(NamedTuple):
    """What a column seems to be, and why; without a role it is not used. `value` is the positive value or delimiter."""

    column: str
    role: str | None
    why: str
    value: str | None = None


class GuessedTable(NamedTuple):
    """The guesses for a file, one per column, and how the file is laid out."""

    guesses: tuple[Guess, ...]
    layout: FileLayout
    n_rows: int

    def of(self, role: str) -> list[Guess]:
        """The columns with a role, in the order of the table."""
        return [guess for guess in self.guesses if guess.role == role]


class _Column(NamedTuple):
    """A column of the sample: its cells without the empty ones, and the words of its name."""

    name: str
    cells: pl.Series
    n: int
    words: frozenset[str]

    def share(self, pattern: str) -> float:
        """Of the cells that are not empty, those that match."""
        return float(self.cells.str.contains(pattern).mean() or 0) if len(self.cells) else 0.0  # type: ignore[arg-type]

    def named(self, role: str) -> bool:
        """Whether a word of the name speaks for a role."""
        long = tuple(word for word in WORDS[role] if len(word) > 4)
        return bool(self.words & WORDS[role]) or any(word.startswith(long) for word in self.words)

    @property
    def values(self) -> list[str]:
        """The distinct values, at most three."""
        return self.cells.str.strip_chars().unique(maintain_order=True).head(3).to_list()

    @property
    def length(self) -> float:
        """Characters per cell."""
        return float(self.cells.str.len_chars().mean() or 0)  # type: ignore[arg-type]


def guess_table(path: Path, *, layout: FileLayout | None = None) -> GuessedTable:
    """Guess the roles of a table's columns, and its encoding and delimiter where the file does not say them."""
    layout = layout or _layout(path)
    form = format_of(path, layout)
    names = form.columns(path)
    frame = form.frame(path, names, {}, n_rows=SAMPLE)
    if not frame.height:
        raise CohortError("the table has no rows", file=path, hint="give one row per case")
    columns = [_column(frame[name]) for name in names if not frame[name].dtype.is_nested()]
    found = {guess.column: guess for guess in _guess(columns)}
    lists = [name for name in names if frame[name].dtype.is_nested()]
    found |= {name: Guess(name, "label_list", "its cells are lists") for name in lists[:1]}
    found |= {name: Guess(name, None, "its cells are lists") for name in lists[1:]}
    return GuessedTable(tuple(found[name] for name in names), layout, frame.height)


def sampled(path: Path, layout: FileLayout | None = None) -> dict[str, list[str]]:
    """The first cells of each column, as text."""
    layout = layout or _layout(path)
    form = format_of(path, layout)
    names = form.columns(path)
    frame = form.frame(path, names, {}, n_rows=SAMPLE)
    plain = [name for name in names if not frame[name].dtype.is_nested()]
    return {name: frame[name].cast(pl.String).drop_nulls().str.strip_chars().to_list() for name in plain}


def _layout(path: Path) -> FileLayout:
    """An encoding other than UTF-8, where the file looks like one."""
    layout = FileLayout(named=True)
    if not path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz", ".jsonl", ".jsonl.gz")):
        return layout
    form = format_of(path, layout)
    try:
        form.frame(path, form.columns(path)[:1], {})
    except CohortError as error:
        name = looks_like(path) if "UTF" in error.problem else None
        named = re.search(r"`encoding: ([\w-]+)`", error.hint or "")
        if not named or name == "utf-8":
            raise
        layout = layout._replace(encoding=named[1])
    return layout


def delimiter_of(path: Path, layout: FileLayout) -> str | None:
    """The delimiter of a CSV file, for whoever wants to read about it."""
    if path.name.lower().endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        return find_delimiter(path, layout)
    return None


def _column(values: pl.Series) -> _Column:
    text = values.cast(pl.String)
    spelled = re.sub(r"([a-z])([A-Z])", r"\1 \2", values.name)
    words = frozenset(re.split(r"[\W_]+", spelled.lower()))
    return _Column(values.name, text.filter(text.str.contains(r"\S").fill_null(False)), len(text), words)


# --- the roles, the clearest first --------------------------------------------------------------------------


def _guess(columns: Sequence[_Column]) -> list[Guess]:
    """A guess per column; each rule takes columns that no earlier one took."""
    taken: dict[str, Guess] = {}
    rules: tuple[Callable[[Sequence[_Column]], list[Guess]], ...] = (
        _own_names, _empty, _images, _splits, _texts, _patients, _cases, _labels, _codes, _times, _attributes, _rest,
    )  # fmt: skip
    for rule in rules:
        left = [column for column in columns if column.name not in taken]
        roles = {guess.role for guess in taken.values()}
        for guess in rule(left):
            # A second column for a role that has one is not used, unless there may be several.
            once = guess.role not in ("label", "attribute", None) and guess.role in roles
            taken[guess.column] = Guess(guess.column, None, f"like the column for {guess.role}") if once else guess
            roles.add(guess.role)
    return list(taken.values())


def _own_names(columns: Sequence[_Column]) -> list[Guess]:
    found = []
    for column in columns:
        prefix, colon, _ = column.name.partition(":")
        if column.name in _OWN:
            found.append(Guess(column.name, _OWN[column.name], "palpate's own name for it"))
        elif colon and prefix in ("label", "attribute"):
            found.append(Guess(column.name, prefix, "palpate's own name for it", _positive(column)))
    return found


def _empty(columns: Sequence[_Column]) -> list[Guess]:
    return [Guess(column.name, None, "its cells are empty") for column in columns if not len(column.cells)]


def _images(columns: Sequence[_Column]) -> list[Guess]:
    return [
        Guess(column.name, "image", "its cells are names of image files")
        for column in columns
        if column.share(_IMAGE) > 0.95
    ]


def _splits(columns: Sequence[_Column]) -> list[Guess]:
    return [
        Guess(column.name, "split", f"its values are {_listed(sorted(values))}")
        for column in columns
        if (values := set(column.cells.str.strip_chars().unique().head(9))) and len(values) > 1
        if all(value.lower() in SPLIT_NAMES for value in values)
    ]


def _texts(columns: Sequence[_Column]) -> list[Guess]:
    """Long cells with blanks; of several the one that is called like a note, or has the longest cells."""
    shortest = {True: 10, False: 25}  # characters
    long = [c for c in columns if c.length >= shortest[c.named("text")] and c.share(r"\S\s+\S") > 0.8]
    prior = [column for column in long if column.named("prior") and len(long) > 1]
    others = sorted((c for c in long if c not in prior), key=lambda c: (c.named("text"), c.length), reverse=True)
    found = [Guess(c.name, "text", f"its cells are texts of {c.length:,.0f} characters on average") for c in others[:1]]
    found += [Guess(column.name, "prior", "texts, and its name speaks of the past") for column in prior[:1]]
    return found + [Guess(column.name, None, "another column of texts") for column in [*others[1:], *prior[1:]]]


def _patients(columns: Sequence[_Column]) -> list[Guess]:
    named = [column for column in columns if column.named("patient") and column.share(r"^\s*\S{1,40}\s*$") > 0.95]
    return [
        Guess(column.name, "patient", f"named so; {column.cells.n_unique():,} in {column.n:,} rows")
        for column in sorted(named, key=lambda column: not column.named("id"))
        if column.cells.n_unique() > 2 or column.n <= 4
    ]


def _cases(columns: Sequence[_Column]) -> list[Guess]:
    unique = [
        column
        for column in columns
        if column.cells.n_unique() == column.n
        and (column.named("id") or column.name.lower().endswith("id"))
        and column.share(r"^\s*\S{1,40}\s*$") == 1
    ]
    best = sorted(unique, key=lambda column: (not column.named("case"), columns.index(column)))
    return [Guess(column.name, "case", "named like an id, and different in every row") for column in best]


def _labels(columns: Sequence[_Column]) -> list[Guess]:
    """Columns of two values; those that are called like outcomes if there are any, else all but attributes.

    Where the only column that is called so has a few more values, nothing else is taken for it.
    """
    two = [column for column in columns if _is_flag(column) and not column.named("attribute")]
    named = [column for column in two if column.named("outcome")]
    found = [] if named else _outcomes(columns)
    if found:
        return found
    for column in named or two:
        values = _listed(sorted(column.values))
        why = f"its values are {values}" + (", and it is named like an outcome" if named else "")
        if len(column.cells) < column.n:
            why += f"; {column.n - len(column.cells):,} of {column.n:,} cells are empty, which a label can't be"
        found.append(Guess(column.name, "label", why, _positive(column)))
    return found


def _outcomes(columns: Sequence[_Column]) -> list[Guess]:
    """Columns that are called like outcomes and have a few values: only people know which of them mean 1."""
    found = []
    for column in columns:
        values = sorted(column.cells.str.strip_chars().unique().head(_FEW + 1))
        if column.named("outcome") and 2 < len(values) <= _FEW and column.share(r"^\s*\S{1,12}\s*$") == 1:
            why = f"named like an outcome, with the values {_listed(values)}"
            found.append(Guess(column.name, "outcome", why, values[0]))
    return found


def _is_flag(column: _Column) -> bool:
    values = {value.lower() for value in column.values}
    if values <= set(FLAGS) and column.cells.n_unique() <= 2:
        return True
    return len(column.values) == 2 and len(values & AFFIRMED) == 1 and all(len(value) <= 12 for value in values)


def _positive(column: _Column) -> str | None:
    """The value that means 1 where the cells are not 0 and 1."""
    if {value.lower() for value in column.values} <= set(FLAGS):
        return None
    return next((value for value in column.values if value.lower() in AFFIRMED), None)


def _codes(columns: Sequence[_Column]) -> list[Guess]:
    for column in columns:
        for mark in (";", "|", ","):
            cells = column.cells.filter(column.cells.str.contains(mark, literal=True))
            listed = len(cells) > 0.2 * len(column.cells) and column.share(CODES) > 0.2
            if listed and not _is_number(column):
                said = f"{len(cells):,} of {len(column.cells):,} cells list several codes"
                return [Guess(column.name, "label_list", said, mark)]
    return []


def _times(columns: Sequence[_Column]) -> list[Guess]:
    dates = [column for column in columns if column.share(_TIME) > 0.95]
    born = [column for column in dates if column.named("birth")]
    best = sorted((c for c in dates if c not in born), key=lambda column: not column.named("time"))
    found = [Guess(column.name, "time", "its cells are dates") for column in best]
    return [*found, *(Guess(column.name, None, "a date of birth") for column in born)]


def _attributes(columns: Sequence[_Column]) -> list[Guess]:
    found = []
    for column in columns:
        n_values, numbers = column.cells.n_unique(), _is_number(column)
        if numbers and column.named("attribute"):
            found.append(Guess(column.name, "attribute", "a number, and named like something about the patient"))
        elif not numbers and 1 < n_values <= min(30, max(2, column.n // 3)) and column.length <= 40:
            found.append(Guess(column.name, "attribute", f"{n_values} different values"))
        elif numbers and n_values == 2 and _is_flag(column):
            found.append(Guess(column.name, "attribute", "two values, and not named like an outcome"))
    return found


def _is_number(column: _Column) -> bool:
    read = with_points(ColumnCheck(column.cells.str.strip_chars()), decimal=",")
    return float(read.str.contains(NUMBER).mean() or 0) > 0.95  # type: ignore[arg-type]


def _rest(columns: Sequence[_Column]) -> list[Guess]:
    found = []
    for column in columns:
        n_values = column.cells.n_unique()
        if n_values == 1:
            why = "the same value in every row"
        elif _is_number(column):
            why = "a number; name it in `attributes` if it describes the patient"
        else:
            why = f"{n_values:,} different values"
        found.append(Guess(column.name, None, why))
    return found


def _listed(values: Collection[str]) -> str:
    return " and ".join(values) if len(values) < 3 else f"{', '.join([*values][:-1])} and {[*values][-1]}"
