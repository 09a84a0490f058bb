"""What the commands about words, alterations and suites do; Python users may call it too."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.data.psytar import Extraction, extract_effects, write_effects
from palpate.data.words import read_words, write_rating_sheet
from palpate.edits import splice
from palpate.errors import ConfigError, InputError
from palpate.jobs import read_training_cohort
from palpate.perturb.characteristics import Alteration, Alterer, Contradictory, load_definition
from palpate.perturb.suites import Cases, Suite, import_csv, import_jsonl, load_suite, write_cases
from palpate.perturb.words import Choice, check_words, choose_words


def write_word_sheet(
    out: Path, *, words: Path | None, cohort: Path | None, how: Choice, n: int, raters: int
) -> tuple[str, ...]:
    """Write the sheet for clinicians' ratings; the words come from a file or from a cohort's training notes."""
    if words is not None and cohort is None:
        listed = check_words(read_words(words))
    elif cohort is not None and words is None:
        cases = read_training_cohort(cohort)
        rows = cases.rows(split="train")
        texts = [cases.texts[row] for row in rows.tolist()]
        listed = choose_words(texts, cases.y_true(rows), how=how, n=n, min_texts=min(20, len(texts))).words
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
        note = sys.stdin.read() if str(file) == "-" else file.read_bytes().decode("utf-8")
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


def open_suite(name: str) -> Suite:
    """A suite by its name, or from a YAML file, a CSV file of templates or a JSONL file of cases."""
    suffix = Path(name).suffix
    if suffix == ".csv":
        return import_csv(Path(name))
    return import_jsonl(Path(name)) if suffix == ".jsonl" else load_suite(name)


def expand_suite(
    name: str,
    out: Path,
    *,
    n: int | None = None,
    seed: int = 0,
    further: bool = False,
    slots: Mapping[str, Sequence[str]] | None = None,
) -> int:
    """Write cases for a model that lives elsewhere: the default run, or a sample of `n` from the full expansion."""
    suite = open_suite(name)
    if slots:
        suite = suite.with_slots(slots)
    if suite.choose:
        slot = suite.choose[0]
        raise ConfigError(f"suite '{suite.name}' needs a choice for slot '{slot}'", hint=f"add --set '{slot}=[...]'")
    rng = np.random.default_rng(seed)
    cases: Cases | Iterable[Cases]
    cases = suite.default_cases(rng, further=further) if n is None else suite.sample_batches(n, rng, further=further)
    return write_cases(cases, out)


def make_psytar_lexicon(workbook: Path, out: Path) -> Extraction:
    """Effect phrases from the PsyTAR workbook, as a lexicon."""
    extraction = extract_effects(workbook)
    write_effects(extraction, out)
    return extraction
