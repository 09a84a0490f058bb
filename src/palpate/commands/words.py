"""What `palpate words` and `palpate alter` do, for the command line and for Python users."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from palpate.audits.vocabulary import Vocabulary
from palpate.audits.vocabulary.words import PatientCounts, choose_common_words
from palpate.cases.edits import splice
from palpate.commands.build import read_training_cohort
from palpate.data.lexicons import SheetTerms, read_words, write_rating_sheet
from palpate.errors import ConfigError, InputError
from palpate.perturb.characteristics import Alteration, Alterer, Contradictory, Sure, load_definition
from palpate.perturb.words import Choice, check_words, read_scale
from palpate.privacy import hides


def write_word_sheet(
    out: Path,
    *,
    words: Path | None,
    cohort: Path | None,
    how: Choice,
    n: int,
    raters: int,
    scale: str | None = None,
    instruction: str | None = None,
) -> tuple[str, ...]:
    """Write the sheet for clinicians' ratings; the words come from a file or from a cohort's training notes.

    `scale` ("0 to 10") and `instruction` are written into the sheet, where the audit and the workbench read them.
    """
    asked = None if scale is None else read_scale(scale)
    if scale is not None and asked is None:
        raise ConfigError(f"--scale {scale}: not a scale", hint='give the lowest and the highest score, "1 to 7"')
    if words is not None and cohort is None:
        listed = check_words(read_words(words))
    elif cohort is not None and words is None:
        cases = read_training_cohort(cohort)
        rows = cases.rows(split="train")
        counts = PatientCounts.of(cases, rows)
        listed = choose_common_words(cases, rows, cases.labels, counts, how=how, n=n, min_notes=Vocabulary.min_notes)
    else:
        raise ConfigError("give either --words FILE or --cohort FILE")
    terms = SheetTerms(asked, " ".join((instruction or "").split()) or None)
    write_rating_sheet(out, listed, [f"rater_{k}" for k in range(1, raters + 1)], terms=terms)
    return listed


@hides("note")
class AlteredNote(NamedTuple):
    """A note before and after an alteration."""

    note: str
    result: Alteration


def alter_note(
    file: Path,
    characteristics: Sequence[str],
    groups: Sequence[str],
    *,
    definitions: Sequence[Path] = (),
    contradictory: Contradictory = "skip",
    sure: Sure = "strict",
) -> AlteredNote:
    """Alter the note in a file to one group, or to one group for each of several characteristics."""
    if len(characteristics) != len(groups):
        raise ConfigError(
            f"{len(characteristics)} characteristics and {len(groups)} groups were given",
            hint="give one --to for each --characteristic",
        )
    twice = next((name for name in characteristics if characteristics.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--characteristic {twice} is given twice")
    try:
        # Bytes, so that the note's line ends are kept.
        note = (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode("utf-8")
    except FileNotFoundError:
        raise InputError("file not found", file=file) from None
    except UnicodeDecodeError:
        raise InputError("the file is not UTF-8 text", file=file) from None
    own = {definition.name: definition for definition in map(load_definition, definitions)}
    alterer = Alterer([own.get(name, name) for name in characteristics], contradictory=contradictory, sure=sure)
    for name, group in zip(characteristics, groups, strict=True):
        alterer.check(name, group)
    outcome = alterer.edits(alterer.plan(note), dict(zip(characteristics, groups, strict=True)))
    return AlteredNote(note, Alteration(splice(note, outcome.edits), outcome.edits, outcome.action, outcome.reason))
