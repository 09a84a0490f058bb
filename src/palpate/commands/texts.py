"""What the commands about words, alterations and suites do; Python users may call it too."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from palpate.audits.vocabulary import Vocabulary
from palpate.audits.vocabulary.words import PatientCounts, choose_common_words
from palpate.cases.edits import splice
from palpate.commands.audit import read_training_cohort
from palpate.data.lexicons.psytar import Extraction, extract_effects, write_effects
from palpate.data.lexicons.words import read_words, write_rating_sheet
from palpate.data.suites import read_suite, write_cases
from palpate.errors import ConfigError, InputError
from palpate.perturb.characteristics import Alteration, Alterer, Contradictory, load_definition
from palpate.perturb.suites import Suite
from palpate.perturb.suites.lexicons import Attribute, slot_values
from palpate.perturb.words import Choice, check_words

Slots = Mapping[str, object]
"""Values of slots as they are typed: a word, a list of words, or the name of a lexicon's file."""


def write_word_sheet(
    out: Path, *, words: Path | None, cohort: Path | None, how: Choice, n: int, raters: int
) -> tuple[str, ...]:
    """Write the sheet for clinicians' ratings; the words come from a file or from a cohort's training notes."""
    if words is not None and cohort is None:
        listed = check_words(read_words(words))
    elif cohort is not None and words is None:
        cases = read_training_cohort(cohort)
        rows = cases.rows(split="train")
        counts = PatientCounts.of(cases, rows)
        listed = choose_common_words(cases, rows, cases.labels, counts, how=how, n=n, min_notes=Vocabulary.min_notes)
    else:
        raise ConfigError("give either --words FILE or --cohort FILE")
    write_rating_sheet(out, listed, [f"rater_{k}" for k in range(1, raters + 1)])
    return listed


class AlteredNote(NamedTuple):
    """A note, and what it became."""

    note: str
    result: Alteration


def alter_note(
    file: Path,
    characteristics: Sequence[str],
    groups: Sequence[str],
    *,
    definitions: Sequence[Path] = (),
    contradictory: Contradictory = "skip",
) -> AlteredNote:
    """Alter the note in a file to one group, or to a group of each of several characteristics."""
    if len(characteristics) != len(groups):
        raise ConfigError(
            f"{len(characteristics)} characteristics and {len(groups)} groups were given",
            hint="give one --to for each --characteristic",
        )
    twice = next((name for name in characteristics if characteristics.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"--characteristic {twice} is given twice")
    try:
        # Bytes, so that the note's line ends stay as they are.
        note = (sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()).decode("utf-8")
    except FileNotFoundError:
        raise InputError("there is no such file", file=file) from None
    except UnicodeDecodeError:
        raise InputError("is not text in UTF-8", file=file) from None
    own = {definition.name: definition for definition in map(load_definition, definitions)}
    alterer = Alterer([own.get(name, name) for name in characteristics], contradictory=contradictory)
    for name, group in zip(characteristics, groups, strict=True):
        alterer.check(name, group)
    outcome = alterer.edits(alterer.plan(note), dict(zip(characteristics, groups, strict=True)))
    return AlteredNote(note, Alteration(splice(note, outcome.edits), outcome.edits, outcome.action, outcome.reason))


def open_suite(name: str, *, positive: str | None = None, slots: Slots | None = None) -> Suite:
    """As `read_suite`; a slot's values may be a lexicon's file."""
    return read_suite(name, positive=positive, slots={slot: _values(given) for slot, given in (slots or {}).items()})


def _values(given: object) -> Sequence[str | dict[str, Attribute]]:
    if isinstance(given, str):
        return slot_values(Path(given)) if Path(given).suffix in (".yaml", ".yml") else [given]
    return [str(value) for value in given] if isinstance(given, list) else [str(given)]


def expand_suite(
    suite: Suite,
    out: Path,
    *,
    n: int | None = None,
    seed: int = 0,
    further: bool = False,
    balance: Literal["template", "case"] = "template",
) -> int:
    """Write cases for a model that lives elsewhere: the default run, or a sample of `n` from the full expansion."""
    if suite.choose:
        slot = suite.choose[0]
        raise ConfigError(f"suite '{suite.name}' needs a choice for slot '{slot}'", hint=f"add --set '{slot}=[...]'")
    rng = np.random.default_rng(seed)
    if n is None:
        return write_cases(suite.default_cases(rng, further=further), out)
    return write_cases(suite.sample_batches(n, rng, further=further, balance=balance), out)


def make_psytar_lexicon(workbook: Path, out: Path) -> Extraction:
    """Effect phrases from the PsyTAR workbook, as a lexicon."""
    extraction = extract_effects(workbook)
    write_effects(extraction, out)
    return extraction
