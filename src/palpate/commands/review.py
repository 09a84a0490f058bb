"""What `palpate alter --sample` does: a page of randomly drawn altered notes that a clinician marks right or wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from palpate import __version__
from palpate.cases.edits import Edit, splice
from palpate.cases.hashing import key_of
from palpate.config import load_config
from palpate.data.annotations.reviews import FORMAT, NoteTable, read_notes
from palpate.data.tables import read_cohort
from palpate.errors import CohortError, ConfigError, InputError
from palpate.files import write_atomically
from palpate.perturb.characteristics import Alterer, Contradictory, Definition, Sure, load_definition
from palpate.perturb.characteristics.review import ReviewSample, sample_alterations
from palpate.privacy import hides
from palpate.report.review import ReviewPage, note_parts, render_review

_MOST_REASONS = 8


@hides("notes")
class DrawnReview(NamedTuple):
    """Altered notes that were drawn at random for a review."""

    title: str
    notes: NoteTable
    sample: ReviewSample
    facts: Sequence[str]
    """How the notes were drawn, in sentences."""
    saved: Mapping[str, Any]
    """The file of a review in which nothing is marked yet, as the audit `characteristics` reads it."""


def draw_review(
    cohort: Path,
    to: Sequence[str],
    *,
    n: int,
    seed: int = 0,
    split: str | None = None,
    text: str = "text",
    definitions: Sequence[Definition] = (),
    contradictory: Contradictory = "skip",
    sure: Sure = "strict",
) -> DrawnReview:
    """Alter `n` notes of a cohort, drawn at random, at most one per patient."""
    groups = read_groups(to)
    own = {definition.name: definition for definition in definitions}
    alterer = Alterer([own.get(name, name) for name in groups], contradictory=contradictory, sure=sure)
    for name, group in groups.items():
        alterer.check(name, group)
    notes = read_note_table(cohort, text=text, split=split)
    sample = sample_alterations(notes.texts, notes.patients, alterer, groups, n=n, rng=np.random.default_rng(seed))
    if not sample.notes:
        most = next(iter(sample.reasons), "all notes say it already")
        raise InputError(f"none of {sample.n_read} notes could be altered", file=cohort, hint=f"mostly: {most}")
    keys = [altered_key(notes.texts[row], edits) for row, edits in sample.notes]
    saved = {
        FORMAT: 1,
        "to": groups,
        "cohort": cohort.name,
        "seed": seed,
        "palpate": __version__,
        "sample": key_of("".join(keys)).hex()[:16],
        "reviewer": "",
        "marks": [{"note": k, "altered": key, "mark": ""} for k, key in enumerate(keys, start=1)],
    }
    named = ", ".join(f"{name}={group}" for name, group in groups.items())
    facts = _facts(sample, n, cohort.name, seed, notes)
    return DrawnReview(f"Notes altered to {named}", notes, sample, facts, saved)


def altered_key(note: str, edits: Sequence[Edit]) -> str:
    """Names an altered note without telling anything of it."""
    return key_of(splice(note, edits)).hex()[:16]


def write_review(
    out: Path,
    cohort: Path,
    to: Sequence[str],
    *,
    n: int,
    seed: int = 0,
    split: str | None = None,
    text: str = "text",
    definitions: Sequence[Path] = (),
    contradictory: Contradictory = "skip",
    sure: Sure = "strict",
) -> DrawnReview:
    """Write the page for `n` altered notes, drawn at random; only the owner of the file can read it."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"--out {out}: the page is a .html file")
    drawn = draw_review(
        cohort,
        to,
        n=n,
        seed=seed,
        split=split,
        text=text,
        definitions=[load_definition(path) for path in definitions],
        contradictory=contradictory,
        sure=sure,
    )
    page = ReviewPage(
        title=drawn.title,
        notes=[note_parts(drawn.notes.texts[row], edits) for row, edits in drawn.sample.notes],
        facts=drawn.facts,
        saved=drawn.saved,
        file=f"{out.stem}.json",
    )
    write_atomically(out, render_review(page))
    return drawn


def read_groups(to: Sequence[str]) -> dict[str, str]:
    """`gender=female` as a characteristic and its group."""
    groups: dict[str, str] = {}
    for each in to:
        name, equals, group = (part.strip() for part in each.partition("="))
        if not equals or not name or not group:
            raise ConfigError(f"--to {each}: expected CHARACTERISTIC=GROUP", hint="for example --to gender=female")
        if name in groups:
            raise ConfigError(f"--to {each}: {name} is given twice")
        groups[name] = group
    if not groups:
        raise ConfigError("--to is missing", hint="for example --to gender=female")
    return groups


def read_note_table(path: Path, *, text: str = "text", split: str | None = None) -> NoteTable:
    """The notes of a table, or of the first cohort in an `audit.yaml`, which gives the roles of its columns."""
    if path.suffix not in (".yaml", ".yml"):
        return read_notes(path, text=text, split=split)
    name, spec = next(iter(load_config(path).tables().items()))
    cohort = read_cohort(spec, name=name, folder=path.parent)
    rows = cohort.rows(split=split or "test")
    if not cohort.has_text or not len(rows):
        raise CohortError(f"cohort '{name}' has no notes in split '{split or 'test'}'", file=path)
    texts = cohort.texts
    cases = cohort.cases["case_id"].cast(pl.String).gather(rows).to_list()
    patients = cohort.patients[rows].tolist()
    return NoteTable([texts[row] for row in rows.tolist()], patients, cases=cases, split=split or "test")


def _facts(sample: ReviewSample, n: int, cohort: str, seed: int, notes: NoteTable) -> list[str]:
    """How the notes were drawn, and what became of the others."""
    few = "" if len(sample.notes) == n else f" {n} were asked for, but there are no more."
    where = cohort if notes.split is None else f"{cohort}, split {notes.split}"
    each = (
        "at most one per patient"
        if notes.names_patients
        else "of patients who are not named, so one may be there twice"
    )
    facts = [
        f"{len(sample.notes)} altered notes of {where}, drawn at random (seed {seed}), {each}.{few}",
        f"{sample.n_read:,} notes were read for them: {sample.n_kept:,} say it already, and "
        f"{sum(sample.reasons.values()):,} were skipped, which the audit does too.",
    ]
    facts += [f"Skipped: {reason} ({count:,})" for reason, count in list(sample.reasons.items())[:_MOST_REASONS]]
    return facts
