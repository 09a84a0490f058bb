"""The cohort of adverse drug events: one row per text, positive if it reports one (ADE template paper, section 4.1.1).

There are two sources. `smm4h`: the TSV files of SMM4H 2017 and 2021 and of NADE, merged; a text that occurs several
times is kept once, and the split is 70/10/20, stratified by label. `ade-corpus`: the ADE corpus v2, one row per
distinct sentence.

The paper splits posts; here all posts of a user, and all sentences of an abstract, are in the same split. The paper
does not say what happens to copies with different labels; here they are left out, because it is not known which label
is right, and the flow table counts them.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict

from palpate.cases.cohort import Cohort
from palpate.data.cohorts import BuiltCohort, FlowStep, flow_steps, refuse_empty, split_cases
from palpate.data.cohorts.ade_corpus import NEGATIVES, RELATIONS, is_ade_corpus, read_ade_corpus
from palpate.data.cohorts.smm4h import MARKS, find_files, read_posts
from palpate.data.cohorts.splits import BEHAVIOUR_RATIOS, Ratios
from palpate.data.hospitals import Announce
from palpate.errors import CohortError

LABEL = "ADE"
SourceName = Literal["auto", "smm4h", "ade-corpus"]


class AdeOptions(BaseModel):
    """Where the texts come from, and what counts as the same text."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SourceName = "auto"
    """`auto` reads the ADE corpus if its two files are in the folder, and posts otherwise."""
    files: str = "**/*.tsv"
    """Which files in the folder hold posts."""
    duplicates: Literal["loose", "exact"] = "loose"
    """What copies may differ in: case, blanks, user names and links (`loose`), or only blanks (`exact`)."""
    contradictions: Literal["drop", "positive", "first"] = "drop"
    """Copies of a text with both labels: drop all, keep a positive one, or keep the first."""
    ratios: Ratios = BEHAVIOUR_RATIOS
    seed: int = 0
    splits: Path | None = None
    """A saved split (`patient_id`, `split`) to use instead of drawing one."""


def build_ade(
    source: Path, *, options: AdeOptions | None = None, name: str = "ade", progress: Announce | None = None
) -> BuiltCohort:
    """Build the cohort of adverse drug events from a folder with posts or with the ADE corpus."""
    chosen = options or AdeOptions()
    say = progress or (lambda _: None)
    if not source.is_dir():
        raise CohortError("folder not found", file=source, hint="check the path")
    say("reading texts")
    if chosen.source == "ade-corpus" or (chosen.source == "auto" and is_ade_corpus(source)):
        told, rows = _read_corpus(source)
        attributes = ["drug_spans", "effect_spans"]
    else:
        told, rows = _read_posts(source, chosen)
        attributes = ["source"]
    say("looking for copies")
    marked = mark_copies(rows, duplicates=chosen.duplicates, contradictions=chosen.contradictions)
    flow = [FlowStep(told, marked.height, marked["subject_id"].n_unique()), *flow_steps(marked, _steps(chosen))]
    refuse_empty(flow, source)
    frame = _with_ids(marked.filter(pl.col("dropped").is_null()))
    frame, step = split_cases(frame, frame[LABEL] == 1, ratios=chosen.ratios, seed=chosen.seed, file=chosen.splits)
    positive = int(frame[LABEL].sum())
    last = FlowStep(f"positive: {positive:,} ({positive / frame.height:.1%})", step.n_cases, step.n_patients)
    roles = ["case_id", "patient_id", "split", "text", LABEL]
    cohort = Cohort.from_frame(frame.select(*roles, *attributes), labels=[LABEL], name=name, attributes=attributes)
    return BuiltCohort(cohort, (*flow, step, last))


def text_key(text: str, *, loose: bool) -> str:
    """A text in the form that all its copies share."""
    if not loose:
        return " ".join(text.split())
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"https?://\S+", "http", plain)
    return " ".join(re.sub(r"@\w+", "@", plain).split())


def mark_copies(rows: pl.DataFrame, *, duplicates: str, contradictions: str) -> pl.DataFrame:
    """Add `subject_id`, whose text it is, and `dropped`, why it is left out (or null).

    `rows` has `source`, `label` and `text`, and either `patient_id` or `post` and `user`; the first copy is the first
    row.
    """
    keys = [None if text is None else text_key(text, loose=duplicates == "loose") for text in rows["text"]]
    frame = rows.with_columns(pl.Series("key", keys, dtype=pl.String)).with_row_index("row")
    frame = _with_subjects(frame)
    usable = pl.col("key").is_not_null() & pl.col("label").is_not_null()
    # The rank decides which copy is kept.
    rank = [pl.col("label") * -1, pl.col("row")] if contradictions == "positive" else [pl.col("row")]
    known = frame.filter(usable).sort(rank)
    copies = known.select(
        "row",
        first=pl.col("key").is_first_distinct(),
        both=pl.col("label").n_unique().over("key") > 1,
    )
    frame = frame.join(copies, on="row", how="left", maintain_order="left")
    in_doubt = pl.col("both") if contradictions == "drop" else pl.lit(value=False)
    dropped = (
        pl.when(pl.col("text").is_null())
        .then(pl.lit("no text"))
        .when(pl.col("label").is_null())
        .then(pl.lit("no class"))
        .when(in_doubt)
        .then(pl.lit("contradiction"))
        .when(~pl.col("first"))
        .then(pl.lit("copy"))
    )
    return frame.with_columns(dropped.alias("dropped")).drop("key", "first", "both", "row")


def _with_subjects(frame: pl.DataFrame) -> pl.DataFrame:
    """Whose text it is: the abstract, or the user who wrote the post, who may be known from another copy of it."""
    if "patient_id" in frame.columns:
        return frame.with_columns(subject_id="patient_id")
    alone = pl.concat_str(pl.col("source"), pl.lit("-"), pl.col("row"))
    frame = frame.with_columns(pl.coalesce("post", alone).alias("post"), pl.coalesce("key", alone).alias("group"))
    user = pl.coalesce(
        "user",
        pl.col("user").drop_nulls().first().over("post"),
        pl.col("user").drop_nulls().first().over("group"),
    )
    return frame.with_columns(pl.coalesce(pl.lit("user ") + user, "post").alias("subject_id")).drop("group")


def _with_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Ids of cases: the post's own, or abstract and number; a further text with the same id gets a number appended."""
    number = pl.int_range(1, pl.len() + 1)
    if "patient_id" in frame.columns:
        ids = pl.concat_str(pl.col("patient_id"), pl.lit("-"), number.over("patient_id"))
    else:
        again = number.over("post")
        ids = pl.when(again == 1).then("post").otherwise(pl.concat_str(pl.col("post"), pl.lit("#"), again))
    return frame.with_columns(ids.alias("case_id"), pl.col("subject_id").alias("patient_id")).rename({"label": LABEL})


def _read_corpus(folder: Path) -> tuple[str, pl.DataFrame]:
    for name in (RELATIONS, NEGATIVES):
        if not (folder / name).is_file():
            raise CohortError(
                f"{name} not found in the folder", file=folder, hint="give the folder of the ADE corpus v2"
            )
    rows = read_ade_corpus(folder)
    n_positive = int(rows["label"].sum())
    return f"sentences: {n_positive:,} with a relation, {rows.height - n_positive:,} without", rows


def _read_posts(folder: Path, options: AdeOptions) -> tuple[str, pl.DataFrame]:
    files = find_files(folder, options.files)
    if not files:
        raise CohortError(
            f"no file that matches {options.files} belongs to a known source",
            file=folder,
            hint=f"the name of the file or its folder must contain one of {', '.join(MARKS.values())}, or the folder "
            f"must contain {RELATIONS} and {NEGATIVES}",
        )
    rows = read_posts(files)
    counts = rows.group_by("source", maintain_order=True).len().iter_rows()
    told = "posts: " + ", ".join(f"{source} {n:,} ({len(files[source])} files)" for source, n in counts)
    posts = [path for path in folder.glob(options.files) if path.is_file() and not path.name.startswith("spans")]
    unmarked = len(posts) - sum(map(len, files.values()))
    return told + (f"; not read: {unmarked} files of unknown source" if unmarked else ""), rows


def _steps(options: AdeOptions) -> dict[str, tuple[str, str]]:
    what = "case, blanks, user names and links" if options.duplicates == "loose" else "blanks"
    return {
        "no text": ("with a text", "the text is empty or was not available"),
        "no class": ("with a class", "no file has a class for the post"),
        "contradiction": (
            f"one label per text (contradictions: {options.contradictions})",
            "copies of the text have both labels",
        ),
        "copy": (f"each text once (duplicates: {options.duplicates})", f"the same text, apart from {what}"),
    }
