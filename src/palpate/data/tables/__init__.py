"""Cohorts in table files: which column has which role (`TableSpec`), how they are read, and how they are written.

Rows in messages are the file's records, counted from 1 without the header; a note that spans several lines is one row.
Columns without a role are not read. palpate's own convention, which `write_cohort` follows and `read_cohort` falls back
to when a role is not given: `case_id`, `patient_id`, `split`, `time`, `stay_id` (where there is a time), `text`,
`image`, `prior` and `sampling_weight` under their own names, 0/1 labels as `label:NAME`, attributes as
`attribute:NAME`, many labels as one list column `labels`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import polars as pl
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from scipy import sparse

from palpate.cases.cohort import READ, STAY, WEIGHT, Cohort, arrange
from palpate.cases.columns import ColumnCheck, attribute, missing_column, with_points
from palpate.cases.labels import Positive, label_matrix
from palpate.data.tables.formats import format_of
from palpate.data.tables.labels import code_lists, encode
from palpate.delimited import FileLayout, check_delimiter, check_encoding
from palpate.errors import CohortError, ConfigError, parse_json
from palpate.files import replacing

LABEL, ATTRIBUTE, LABEL_LIST = "label:", "attribute:", "labels"
MOST_LABEL_COLUMNS = 200
_FIELDS = {STAY: "stay", WEIGHT: "weight"}
"""Roles that a user calls by another name."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _as_word(value: object) -> object:
    """YAML reads `yes` and `no` as truth values, and 1 as a number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int | float) else value


Word = Annotated[str, BeforeValidator(_as_word)]
Words = Word | Annotated[tuple[Word, ...], Field(min_length=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Labels = Annotated[tuple[str, ...] | dict[str, str], BeforeValidator(_as_tuple)]


class LabelList(BaseModel):
    """A column that holds the codes of each case, as a list or as a string with a delimiter.

    The labels are all codes, sorted; `only` restricts and orders them. With `min_count` above 1, labels with fewer
    cases are left out, including those in `only`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str
    delimiter: str = Field(default=";", min_length=1)
    only: Names | None = None
    min_count: int = Field(default=1, ge=1)


class TableSpec(BaseModel):
    """The `cohort:` entry of audit.yaml: a file and the roles of its columns.

    A role that is not given goes to the column with palpate's own name for it, if there is one. Without a patient
    column each case counts as its own patient, and the cohort's `facts` say so. `labels` names 0/1 columns; a mapping
    gives labels names that differ from their columns, so that two cohorts can share labels.

    >>> TableSpec(file="notes.csv", labels="readmitted", text="note").labels
    ('readmitted',)
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    file: Path
    """The table: .csv, .tsv, .jsonl (each also with .gz), .parquet or .xlsx."""
    name: str | None = None
    """What the cohort is called in results; default: the file's name."""
    case: str | None = None
    """The column with an id for the row; default: `case_id`, or row numbers."""
    patient: str | None = None
    """The column with the patient's id, the unit of splitting and resampling; default: `patient_id`."""
    text: str | None = None
    """The column with what the models read."""
    labels: Labels | None = None
    """The columns with 0 and 1; default: those named `label:NAME`."""
    positive: Words | dict[str, Words] | None = None
    """The value that means 1 in columns such as Yes and No; a list, if all other values mean 0; a mapping by label."""
    label_list: LabelList | None = None
    """The column with the codes of each case, in place of `labels`."""
    time: str | None = None
    """The column that says when the case was seen or the note written."""
    stay: str | None = None
    """Several cases of one stay, each a prediction at its time."""
    split: str | None = None
    """The column with train, validation and test."""
    image: str | None = None
    """The column with paths of images, relative to the table's folder."""
    prior: str | None = None
    """The column with the patient's earlier notes."""
    weight: str | None = None
    """How many cases of the population a case stands for, where the cases were not drawn with equal chances."""
    attributes: Names = ()
    """Columns that describe the patient: age, gender, site."""
    encoding: Annotated[str, AfterValidator(check_encoding)] | None = None
    """The encoding of the text, such as latin-1 or utf-16; default: UTF-8."""
    delimiter: Annotated[str, AfterValidator(check_delimiter)] | None = None
    """What separates the cells of a CSV file; default: found from the first rows."""
    sheet: Annotated[int, Field(ge=1)] | str | None = None
    """The sheet of an Excel workbook, by name or number; default: the first one."""
    decimal: Literal[".", ","] | None = None
    """Whether a comma in numbers is a decimal comma; default: found where it is clear."""

    @property
    def layout(self) -> FileLayout:
        """What the entry says about the file itself."""
        return FileLayout(self.encoding, self.delimiter, self.sheet, named=True)

    @model_validator(mode="after")
    def _one_kind_of_labels(self) -> TableSpec:
        if self.labels is not None and self.label_list is not None:
            raise ValueError("give `labels` or `label_list`, not both")
        return self


class _Roles(NamedTuple):
    """The columns of one file by their role: palpate's name to the user's name."""

    roles: dict[str, str]
    attributes: dict[str, str]
    labels: dict[str, str]
    label_list: LabelList | None
    delimiter: str | None

    @property
    def columns(self) -> list[str]:
        """The columns that must be read, each once."""
        listed = [] if self.label_list is None else [self.label_list.column]
        return list(dict.fromkeys([*self.roles.values(), *self.attributes.values(), *self.labels.values(), *listed]))


def read_cohort(spec: TableSpec, *, name: str = "cohort", folder: Path = Path()) -> Cohort:
    """Read a cohort from a CSV, TSV, JSON Lines (each also as .gz), Parquet or Excel file.

    A relative path is relative to `folder`. `spec.name`, if given, takes precedence over `name`. Anything wrong in the
    file raises a `CohortError` that names the file, row and column; rows are counted as the module's docstring says.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "cases.csv").write_text("sick,age\\n0,70\\n1,80\\n")
    ...     read_cohort(TableSpec(file="cases.csv", labels="sick", attributes="age"), folder=Path(folder))
    <cohort cohort: 2 cases, 2 patients; with sick 1; attributes: age>
    """
    file = folder / spec.file
    form = format_of(file, spec.layout)
    columns = form.columns(file)
    chosen = _choose(spec, columns, file, lists=form.lists)
    lists = {} if chosen.label_list is None else {chosen.label_list.column: chosen.delimiter}
    frame = form.frame(file, chosen.columns, lists)
    if frame.height == 0:
        raise CohortError("the table has no rows", file=file, hint="give one row per case")
    frame, commas = _with_points(frame, chosen, spec.decimal, file)
    table = arrange(
        frame,
        name=spec.name or name,
        roles=chosen.roles,
        attributes=chosen.attributes,
        file=file,
        parse=not form.typed,
    )
    labels, y, facts = _labels(frame, chosen, _positive(spec, chosen, file), file)
    folders = {spec.name or name: file.parent}
    return Cohort(table.cases, labels, y, tuple(chosen.attributes), (*table.facts, *commas, *facts), folders)


def read_table(spec: TableSpec) -> pl.DataFrame:
    """All columns of a cohort's file, in the order of its rows, with numbers as numbers; for models that read some."""
    form = format_of(spec.file, spec.layout)
    frame = form.frame(spec.file, form.columns(spec.file), {})
    if form.typed:
        return frame
    return pl.DataFrame([_read_column(ColumnCheck(frame[name], file=spec.file), spec) for name in frame.columns])


def _read_column(column: ColumnCheck, spec: TableSpec) -> pl.Series:
    """A column without a role: as numbers if that is what it holds, as it stands if not."""
    try:
        pointed = ColumnCheck(with_points(column, decimal=spec.decimal), file=spec.file, name=column.name)
        return attribute(pointed, parse=True).alias(column.name)
    except CohortError:
        return column.values


def _with_points(
    frame: pl.DataFrame, chosen: _Roles, decimal: str | None, file: Path
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The frame with decimal points in place of commas, and facts about where."""
    facts = []
    for name in dict.fromkeys([*chosen.attributes.values(), *chosen.roles.values()]):
        if name in chosen.attributes.values() or chosen.roles.get(WEIGHT) == name:
            read = with_points(ColumnCheck(frame[name], file=file), decimal=decimal)
            if read is not frame[name] and not read.equals(frame[name]):
                facts.append(f"decimal commas are read as such in column '{name}'")
                frame = frame.with_columns(read.alias(name))
    return frame, tuple(facts)


def _positive(spec: TableSpec, chosen: _Roles, file: Path) -> dict[str, Positive]:
    """The values that mean 1, by column."""
    if spec.positive is None:
        return {}
    if chosen.label_list is not None:
        raise CohortError("`positive` does not go with `label_list`", file=file, hint="remove `positive:`")
    if not isinstance(spec.positive, dict):
        return dict.fromkeys(chosen.labels.values(), spec.positive)
    for name in spec.positive:
        if name not in chosen.labels:
            hint = f"the labels are: {', '.join(chosen.labels)}"
            raise CohortError(f"`positive` names '{name}', which is not a label", file=file, hint=hint)
    return {chosen.labels[name]: value for name, value in spec.positive.items()}


def _labels(
    frame: pl.DataFrame, chosen: _Roles, positive: Mapping[str, Positive], file: Path
) -> tuple[tuple[str, ...], sparse.csc_array, tuple[str, ...]]:
    """Label names, their matrix, and facts about them for the report."""
    if chosen.label_list is None:
        sources = (ColumnCheck(frame[source], file=file) for source in chosen.labels.values())
        return tuple(chosen.labels), label_matrix(sources, n=frame.height, positive=positive), ()
    listed = chosen.label_list
    column = ColumnCheck(frame[listed.column], file=file)
    coded = encode(code_lists(column, chosen.delimiter), only=listed.only, min_count=listed.min_count)
    if not coded.labels:
        rare = f" with at least {listed.min_count} cases" if coded.n_rare else ""
        raise column.error(f"no labels{rare}", hint="check `label_list`")
    facts = []
    if coded.n_rare:
        facts.append(f"{coded.n_rare} labels with fewer than {listed.min_count} cases are left out")
    absent = int((np.diff(coded.y.indptr) == 0).sum())
    if absent:
        facts.append(f"{absent} of {len(coded.labels)} labels have no cases")
    return coded.labels, coded.y, tuple(facts)


# --- which column has which role -----------------------------------------------------------------------------------


def _choose(spec: TableSpec, columns: Sequence[str], file: Path, *, lists: bool) -> _Roles:
    """Which column has which role; every column that is named must exist."""
    if not columns:
        raise CohortError("the table has no columns", file=file, hint="give one column per role")
    named = {"case_id": spec.case, "patient_id": spec.patient}
    named |= {role: getattr(spec, _FIELDS.get(role, role)) for role in READ}
    roles = {}
    for role, column in named.items():
        if column is not None or role in columns:
            roles[role] = _present(column or role, columns, file)
    if STAY in roles and "time" not in roles:
        if spec.stay is not None:
            problem = "`stay` needs `time`, when each prediction was made"
            raise CohortError(problem, file=file, column=spec.stay, hint="set `time:` of the cohort")
        del roles[STAY]
    attributes = {
        column.removeprefix(ATTRIBUTE): _present(column, columns, file, ATTRIBUTE)
        for column in spec.attributes or [column for column in columns if column.startswith(ATTRIBUTE)]
    }
    if spec.label_list is not None:
        _present(spec.label_list.column, columns, file)
        _refuse_twice(spec.label_list.only or (), file)
        return _Roles(roles, attributes, {}, spec.label_list, spec.label_list.delimiter)
    labels = _label_columns(spec.labels, columns, file)
    if labels:
        return _Roles(roles, attributes, labels, None, None)
    if spec.labels is None and LABEL_LIST in columns and lists:
        return _Roles(roles, attributes, {}, LabelList(column=LABEL_LIST), None)
    hint = f"name the 0/1 columns in `labels`, a column of codes in `label_list`, or rename them to {LABEL}NAME"
    raise CohortError("no label columns", file=file, hint=hint)


def _label_columns(
    given: tuple[str, ...] | Mapping[str, str] | None, columns: Sequence[str], file: Path
) -> dict[str, str]:
    """The column of each label, by the label's name."""
    if isinstance(given, Mapping):
        pairs = list(given.items())
    else:
        found = [column for column in columns if column.startswith(LABEL)] if given is None else given
        pairs = [(column.removeprefix(LABEL), column) for column in found]
    pairs = [(name, _present(column, columns, file, LABEL)) for name, column in pairs]
    for name, column in pairs:
        if not name:
            raise CohortError("the label has no name", file=file, column=column, hint=f"write {LABEL}NAME")
    _refuse_twice([column for _, column in pairs], file)
    _refuse_twice([name for name, _ in pairs], file)
    return dict(pairs)


def _refuse_twice(names: Sequence[str], file: Path) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise CohortError("the label is given twice", file=file, column=name, hint="give each label once")
        seen.add(name)


def _present(name: str, columns: Sequence[str], file: Path, prefix: str = "") -> str:
    """The column with this name, or with this name and palpate's prefix."""
    for column in (name, prefix + name):
        if column in columns:
            return column
    raise missing_column(name, columns, file=file)


# --- writing -----------------------------------------------------------------------------------------------


def write_cohort(cohort: Cohort, path: Path) -> None:
    """Write one cohort as Parquet, so that `read_cohort` with the same name returns it unchanged.

    One without labels is written too, for those who have them elsewhere; it is read when it has columns of labels.
    """
    if not path.name.lower().endswith(".parquet"):
        raise CohortError("a cohort is written as Parquet", file=path, hint="give a file name that ends in .parquet")
    if len(cohort.names) != 1:
        raise CohortError("a file holds one cohort", file=path, hint="write each cohort to a file of its own")
    known = {"cohort", "case_id", "patient_id", *READ, *cohort.attributes}
    stray = [column for column in cohort.cases.columns if column not in known]
    if stray:
        raise CohortError(
            "the column has no role", file=path, column=stray[0], hint="name it in `attributes` or drop it"
        )
    frame = cohort.cases.drop("cohort")
    if cohort.has_images and any(folder.absolute() != path.parent.absolute() for folder in cohort.folders.values()):
        frame = frame.with_columns(pl.Series("image", cohort.images))  # paths relative to another folder would be lost
    # An attribute that is also a role ("split") is in the file under both names.
    twins = [pl.col(name).alias(ATTRIBUTE + name) for name in cohort.attributes]
    plain = [name for name in frame.columns if name in ("case_id", "patient_id", *READ)]
    with replacing(path) as scratch:
        frame.select(*plain, *twins).hstack(_label_frame(cohort)).write_parquet(scratch)


def _label_frame(cohort: Cohort) -> pl.DataFrame:
    """Labels as 0/1 columns, or as lists whose type holds all names in order, even those without cases."""
    if len(cohort.labels) <= MOST_LABEL_COLUMNS:
        dense = {LABEL + name: cohort.y[:, [k]].toarray().ravel() for k, name in enumerate(cohort.labels)}
        return pl.DataFrame({name: pl.Series(name, values, dtype=pl.UInt8) for name, values in dense.items()})
    by_row = cohort.y.tocsr()
    row = np.repeat(np.arange(len(cohort)), np.diff(by_row.indptr))
    names = pl.Series("code", cohort.labels, dtype=pl.Enum(cohort.labels)).gather(by_row.indices)
    pairs = pl.DataFrame({"row": row, LABEL_LIST: names})
    lists = pairs.group_by("row", maintain_order=True).agg(LABEL_LIST)
    every = pl.DataFrame({"row": np.arange(len(cohort))}).join(lists, on="row", how="left", maintain_order="left")
    empty = pl.lit([], dtype=every[LABEL_LIST].dtype)
    return every.select(pl.col(LABEL_LIST).fill_null(empty))


# --- the card of pre-test columns ---------------------------------------------------------------------------


def read_pretest_card(path: Path) -> dict[str, dict[str, Any]]:
    """Read the card that `palpate train pretest` writes beside its cohort, for the context audit.

    By label: the model's name, out-of-fold AUROC and heaviest words, whether it reads notes, its training job.
    """
    hint = "give the pretest.json of `palpate train pretest`"
    try:
        card = parse_json(path.read_text(encoding="utf-8"))
    except OSError:
        raise ConfigError("file not found", file=path, hint=hint) from None
    except ValueError:
        raise ConfigError("the file is not JSON", file=path, hint=hint) from None
    if not isinstance(card, dict) or card.get("kind") != "pretest":
        raise ConfigError("the file is not a card of pre-test models", file=path, hint=hint)
    try:
        job = str(card.get("job", ""))
        return {entry["label"]: _pretest_model(entry, job) for entry in card["labels"] if entry["chosen"] is not None}
    except (KeyError, TypeError, ValueError):
        raise ConfigError("the card lacks a field of a label", file=path, hint=hint) from None


def _pretest_model(entry: dict[str, Any], job: str) -> dict[str, Any]:
    chosen = entry["chosen"]
    return {
        "name": f"{chosen['classifier']} on {chosen['features']}",
        "training_auroc": entry["performance"]["out_of_fold"]["auroc"],
        "heaviest": [f"{'+' if weight > 0 else '−'} {word}" for word, weight in entry["words"]],
        "reads_notes": chosen["family"] != "tables",
        "job": job,
    }
