"""A cohort from a folder of DICOM films and a table of labels, one case per study or per film.

The table needs one column that names the study, the film, the accession number, the file or the patient; it is found by
its values. Labels are 0 and 1, empty (not mentioned: 0) and, as labelers of reports write it, -1 for uncertain, which
a policy decides (Irvin and colleagues, CheXpert, 2019). The films of a study are one case: a model reads each and
combines them (`combine: mean | max`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict

from palpate.cases.cohort import Cohort
from palpate.cases.columns import FILMS, ColumnCheck, missing_column
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, normal_gender, refuse_empty, split_cases
from palpate.data.cohorts.splits import Ratios
from palpate.data.hospitals import Announce
from palpate.data.hospitals.films import Film, read_films
from palpate.data.tables.formats import format_of
from palpate.errors import CohortError

KEYS = ("study", "film", "accession", "file", "stem", "patient_id")
ATTRIBUTES = ("age", "gender", "view", "portable", "scanner", "modality", "n_films")
MODALITIES = ("CR", "DX", "DR", "XR", "RG", "MG", "PX", "IO")
"""Radiographs: computed, digital and scanned ones, of the breast, panoramic and inside the mouth."""
_MEANS = {"": 0, "0": 0, "0.0": 0, "1": 1, "1.0": 1, "-1": -1, "-1.0": -1, "false": 0, "true": 1}
_ENDING = r"(?i)\.(?:dcm|dicom|dic|ima)$"
_DICOM_RATIOS = (0.0, 0.0, 1.0)
_FILES = {
    "not dicom": ("DICOM files", "not a DICOM file"),
    "damaged": ("DICOM files with a readable header", "the header is damaged"),
    "no pixels": ("films with pixels", "the file has no pixels"),
    "cut short": ("films with all of their pixels", "the file has fewer pixels than its header says"),
    "frames": ("films of one frame", "the file has several frames"),
    "colour": ("films in grey", "the picture is in colour"),
    "burned in": ("films without burned-in annotations", "annotations in the picture may name the patient"),
    "compression": ("films whose compression can be decoded", "no installed decoder reads it"),
    "no patient": ("films with a patient", "PatientID is empty"),
    "copy": ("each film once", "another file has the same SOPInstanceUID"),
    "modality": ("modality: {modalities}", "another kind of picture (`modalities`)"),
    "view": ("views: {views}", "not a frontal view"),
    "no labels": ("films with labels", "not in the table of labels"),
    "uncertain": ("uncertain labels: {uncertain}", "a label is uncertain"),
}
_OF_LABELS = ("no labels", "uncertain")
_NO_LABELS = "the cohort has no labels, because no table of labels was named; labels=FILE names one"


def _listed(value: object) -> object:
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


class DicomOptions(BaseModel):
    """Where the labels are, and what is a case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    labels: Path | None = None
    """The table of labels: CSV, Parquet or another table that palpate reads."""
    columns: Annotated[tuple[str, ...] | None, BeforeValidator(_listed)] = None
    """The labels, as columns of that table; default: every column of 0, 1, -1 and empty cells."""
    key: str | None = None
    """The column of the table that names the film or its study; default: found by its values."""
    per: Literal["study", "film"] = "study"
    """What a case is: a study with all of its films, or each film."""
    views: Literal["all", "frontal"] = "all"
    """`frontal`: only films with view position PA or AP."""
    modalities: Annotated[tuple[str, ...], BeforeValidator(_listed)] = MODALITIES
    """Which kinds of pictures are films, by DICOM's codes; one without a code is kept. `all`: every kind."""
    uncertain: Literal["zeros", "ones", "ignore"] = "zeros"
    """What -1 means: 0, 1, or that the case is left out."""
    ratios: Ratios = _DICOM_RATIOS
    """Shares of patients in train, validation and test; default: all are in the test split."""
    seed: int = 0
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""


def build_dicom(
    source: Path, *, options: DicomOptions | None = None, name: str = "dicom", progress: Announce | None = None
) -> BuiltCohort:
    """Build a cohort from the DICOM files in a folder and below it."""
    options = options or DicomOptions()
    if options.labels is None and (options.columns or options.key):
        raise CohortError("`columns` and `key` are of a table", file=source, hint="name it with --set labels=FILE")
    say = progress or (lambda _: None)
    table = None if options.labels is None else _read_labels(options.labels, options)
    say(f"reading headers in {source.name}")
    films = _with_paths(pl.DataFrame(read_films(source), schema=_SCHEMA, orient="row"), source)
    films = _chosen(films, options)
    labels: tuple[str, ...] = ()
    if table is not None:
        films, labels = _labelled(films, table, options)
    flow = [FlowStep("files", films.height, films["subject_id"].drop_nulls().n_unique())]
    said = {**options.model_dump(), "modalities": ", ".join(options.modalities)}
    steps = {key: step for key, step in _FILES.items() if labels or key not in _OF_LABELS}
    flow += flow_steps(films, {key: (text.format(**said), why) for key, (text, why) in steps.items()})
    refuse_empty(flow, source)
    frame = _cases(films.filter(pl.col("dropped").is_null()), labels, options)
    if options.per == "study":
        flow.append(FlowStep("one case per study", frame.height, frame["patient_id"].n_unique()))
    any_positive = pl.Series([any(row) for row in frame.select(labels).iter_rows()], dtype=pl.Boolean)
    if not labels:
        any_positive = pl.repeat(False, frame.height, eager=True)
    frame, step = split_cases(frame, any_positive, ratios=options.ratios, seed=options.seed, file=options.splits)
    kept = [column for column in ATTRIBUTES if frame[column].null_count() < frame.height]
    frame = frame.drop([column for column in ATTRIBUTES if column not in kept])
    built = BuiltCohort(Cohort.from_frame(frame, labels=labels, name=name, attributes=kept), (*flow, step))
    return built if labels else built.assuming(_NO_LABELS)


_SCHEMA: Mapping[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(Film._fields, pl.String), "time": pl.Datetime("us"), "age": pl.Float64
}  # fmt: skip


def _with_paths(films: pl.DataFrame, source: Path) -> pl.DataFrame:
    """`path` is absolute, `file` starts at the source folder; of copies of a film, the first is used."""
    path = pl.Series("path", [str(Path(file).absolute()) for file in films["file"]])
    file = pl.Series("file", [Path(file).relative_to(source).as_posix() for file in films["file"]])
    copy = films["dropped"].is_null() & films["film"].is_duplicated() & ~films["film"].is_first_distinct()
    dropped = pl.when(copy).then(pl.lit("copy")).otherwise("dropped").alias("dropped")
    return films.with_columns(path, file, dropped, subject_id=pl.col("patient_id").replace("", None))


# --- labels ------------------------------------------------------------------------------------------------


def _read_labels(file: Path, options: DicomOptions) -> pl.DataFrame:
    """The table of labels as strings."""
    form = format_of(file)
    columns = form.columns(file)
    for column in (*(options.columns or ()), *([options.key] if options.key else [])):
        if column not in columns:
            raise missing_column(column, columns, file=file)
    table = form.frame(file, columns, {})
    if not table.height:
        raise CohortError("the table has no rows", file=file, hint="give one row per study or film")
    return table.select(pl.all().cast(pl.String).str.strip_chars().fill_null(""))


def _labelled(films: pl.DataFrame, table: pl.DataFrame, options: DicomOptions) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The films with a column per label, and why more of them are dropped."""
    column, field = _key(films, table, options)
    labels = _label_columns(table, column, options)
    twice = ColumnCheck(table[column], file=options.labels)
    filled = table[column] != ""
    twice.refuse(
        _names(table[column], field).is_duplicated() & filled,
        "this row names a case again",
        hint="give each case one row",
    )
    known = table.with_columns(key=_names(table[column], field)).filter(filled).select("key", *labels)
    uncertain = pl.any_horizontal(*(pl.col(label) == -1 for label in labels))
    reasons = (
        pl.when(pl.col("dropped").is_not_null()).then("dropped")
        .when(pl.col(labels[0]).is_null()).then(pl.lit("no labels"))
        .when(pl.lit(options.uncertain == "ignore") & uncertain).then(pl.lit("uncertain"))
    )  # fmt: skip
    joined = films.with_columns(key=_named(films, field)).join(known, on="key", how="left", maintain_order="left")
    means = pl.col(labels).replace(-1, 1 if options.uncertain == "ones" else 0)
    return joined.with_columns(dropped=reasons).with_columns(means), labels


def _chosen(films: pl.DataFrame, options: DicomOptions) -> pl.DataFrame:
    """The films, and why those of other kinds and views than wanted are dropped."""
    kinds = [kind.upper() for kind in options.modalities]
    film = pl.col("modality").str.to_uppercase().is_in(kinds) | pl.col("modality").is_null() | pl.lit("ALL" in kinds)
    frontal = pl.col("view").str.to_uppercase().is_in(["PA", "AP"]).fill_null(False)
    reasons = (
        pl.when(pl.col("dropped").is_not_null()).then("dropped")
        .when(~film).then(pl.lit("modality"))
        .when(pl.lit(options.views == "frontal") & ~frontal).then(pl.lit("view"))
    )  # fmt: skip
    return films.with_columns(dropped=reasons)


def _named(films: pl.DataFrame, field: str) -> pl.Series:
    """What the films are called in the table of labels."""
    return films[field] if field != "stem" else _stems(films["file"].str.split("/").list.last())


def _names(column: pl.Series, field: str) -> pl.Series:
    """What the table calls them, comparable with `_named`."""
    return column if field != "stem" else _stems(column)


def _stems(names: pl.Series) -> pl.Series:
    """Names of files with their ending or without, in capitals or not."""
    return names.str.replace(_ENDING, "").str.to_lowercase()


def _key(films: pl.DataFrame, table: pl.DataFrame, options: DicomOptions) -> tuple[str, str]:
    """The column of the table and the field of the films that share most values."""
    columns = [options.key] if options.key else table.columns
    best = max(
        ((len(set(_names(table[column], field)) & (set(_named(films, field)) - {""})), column, field)
         for field in KEYS for column in columns),
        key=lambda found: found[0],
    )  # fmt: skip
    if not best[0]:
        raise CohortError(
            f"no cell of the table names a film, its study, its accession number, its file or its patient "
            f"({films.height:,} files, {table.height:,} rows)",
            file=options.labels,
            column=options.key,
            hint="add a column of StudyInstanceUID, AccessionNumber, SOPInstanceUID, file names or PatientID",
        )
    return best[1], best[2]


def _label_columns(table: pl.DataFrame, key: str, options: DicomOptions) -> tuple[str, ...]:
    """The labels, whose cells become numbers."""
    if options.columns is None:
        found = [name for name in table.columns if name != key and table[name].str.to_lowercase().is_in(_MEANS).all()]
        found = [name for name in found if (table[name] != "").any()]
    else:
        found = list(options.columns)
    if not found:
        hint = "give columns of 0, 1, -1 (uncertain) and empty cells, or name them with --set columns=a,b"
        raise CohortError("the table has no column of labels", file=options.labels, hint=hint)
    for name in found:
        values = table[name].str.to_lowercase()
        hint = "labels are 1 (positive), 0 (negative), -1 (uncertain) or empty"
        ColumnCheck(table[name], file=options.labels).refuse_value(~values.is_in(_MEANS), "not a label", hint=hint)
        read = values.replace_strict(_MEANS, return_dtype=pl.Int8)
        table.replace_column(table.get_column_index(name), read.alias(name))
    return tuple(found)


# --- cases -------------------------------------------------------------------------------------------------


def _cases(films: pl.DataFrame, labels: tuple[str, ...], options: DicomOptions) -> pl.DataFrame:
    """A cohort's columns, sorted by patient and time; a study without a number is known by its accession number."""
    films = films.with_columns(
        study=pl.when(pl.col("study") != "").then("study").when(pl.col("accession") != "").then("accession")
        .otherwise("film")
    ).sort("patient_id", "time", "study", "view", "film", nulls_last=True)  # fmt: skip
    if options.per == "film":
        frame = films.with_columns(case_id="film", image="path", n_films=pl.lit(1))
    else:
        _refuse_shared(films)
        first = [
            pl.col(name).drop_nulls().first() for name in ("time", "age", "gender", "portable", "scanner", "modality")
        ]
        frame = films.group_by("patient_id", "study", maintain_order=True).agg(
            *first,
            pl.col("view").drop_nulls().str.to_uppercase().unique().sort().str.join("+").replace("", None),
            *(pl.col(label).max() for label in labels),
            image=pl.col("path").str.join(FILMS),
            n_films=pl.len(),
        ).with_columns(case_id="study")  # fmt: skip
    return frame.with_columns(normal_gender()).select("case_id", "patient_id", "time", "image", *ATTRIBUTES, *labels)


def _refuse_shared(films: pl.DataFrame) -> None:
    """Refuse a study whose films are of several patients; their ids are not quoted, since they may be names."""
    several = films.filter(pl.col("patient_id").n_unique().over("study") > 1)
    if not several.height:
        return
    study = several.filter(pl.col("study") == several["study"][0]).sort("file")
    one, other = study.unique("patient_id", keep="first", maintain_order=True)["file", "path"].rows()[:2]
    problem = (
        f"the film has the study of {one[0]}, but another PatientID ({several['study'].n_unique():,} such studies)"
    )
    hint = "correct PatientID or StudyInstanceUID, or take each film as a case with `--set per=film`"
    raise CohortError(problem, file=Path(other[1]), hint=hint)
