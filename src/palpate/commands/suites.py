"""What `palpate suite` and `palpate lexicon` do, for the command line and for Python users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from palpate.data.lexicons.psytar import Extraction, extract_effects, write_effects
from palpate.data.suites import import_templates, read_suite, write_cases, write_templates
from palpate.errors import ConfigError
from palpate.perturb.suites import Suite, list_suites, load_suite
from palpate.perturb.suites.lexicons import VALUE_FILES, Attribute, slot_values


class SuiteSummary(NamedTuple):
    """A suite that comes with palpate; `n_cases` of a default run is None if the user must fill a slot first."""

    name: str
    about: str
    n_templates: int
    n_variations: int
    n_cases: int | None


class ImportedSuite(NamedTuple):
    """A suite of another group; for templates in CSV with the number of rows and how base templates were found."""

    suite: Suite
    n_rows: int | None
    grouped_by: str | None
    source: str
    """The name or file that an audit takes."""


def describe_suites() -> list[SuiteSummary]:
    """The suites that come with palpate."""
    described = []
    for suite in map(load_suite, list_suites()):
        counts = suite.describe()
        n_templates, n_variations = (int(counts[column].sum()) for column in ("templates", "variations"))
        n_cases = None if suite.choose else suite.size(full=False)
        described.append(SuiteSummary(suite.name, suite.about, n_templates, n_variations, n_cases))
    return described


def open_suite(name: str, *, positive: str | None = None, slots: Mapping[str, object] | None = None) -> Suite:
    """A suite by name or from a file; a slot's values are a word, a list of words or the name of a lexicon's file."""
    return read_suite(name, positive=positive, slots={slot: _values(given) for slot, given in (slots or {}).items()})


def import_suite(
    name: str,
    *,
    positive: str | None = None,
    slots: Mapping[str, object] | None = None,
    base: Path | None = None,
    out: Path | None = None,
) -> ImportedSuite:
    """The suite of another group's file; `out` writes its templates with their base template, to check and correct.

    `base` is a file of base templates: each row of a CSV file belongs to the one that is nearest to it. A folder is
    taken for its one table, and for its base templates if another table's name says that it has them.
    """
    if Path(name).is_dir():
        name, base = _tables_of(Path(name), base)
    given = {slot: _values(values) for slot, values in (slots or {}).items()}
    if Path(name).suffix != ".csv":
        if base is not None or out is not None:
            raise ConfigError("base templates are for templates in a CSV file", file=Path(name))
        return ImportedSuite(read_suite(name, positive=positive, slots=given), None, None, name)
    if not Path(name).is_file():
        raise ConfigError("suite not found", file=Path(name), hint="give a CSV file of templates")
    found = import_templates(name, lexicons=given, positive=positive, base=base)
    suite = found.suite.with_slots(given) if given else found.suite
    if out is not None:
        if out.suffix != ".csv":
            raise ConfigError(f"templates can't be written as '{out.suffix}'", file=out, hint="end the name in .csv")
        write_templates(suite, out)
    return ImportedSuite(suite, found.n_rows, found.grouped_by, str(out or name))


def _tables_of(folder: Path, base: Path | None) -> tuple[str, Path | None]:
    """The table of templates in a folder as published, and that of its base templates."""
    files = sorted(file for file in folder.iterdir() if file.suffix in (".csv", ".jsonl"))
    bases = [file for file in files if "base" in file.stem.lower()]
    others = [file for file in files if file not in bases] or bases
    if len(others) != 1:
        named = ", ".join(file.name for file in others) or "no CSV or JSONL file"
        raise ConfigError(f"the folder has {named}", file=folder, hint="name the one file to import")
    found = bases[0] if len(bases) == 1 and others != bases else None
    return str(others[0]), base or (found if others[0].suffix == ".csv" else None)


def _values(given: object) -> Sequence[str | dict[str, Attribute]]:
    if isinstance(given, str):
        return slot_values(Path(given)) if Path(given).suffix in VALUE_FILES else [given]
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
    """Write cases for a model that runs elsewhere: the default run, or a sample of `n` from the full expansion."""
    if suite.choose:
        slot = suite.choose[0]
        raise ConfigError(f"suite '{suite.name}' needs values for slot '{slot}'", hint=f"add --set '{slot}=[...]'")
    rng = np.random.default_rng(seed)
    if n is None:
        return write_cases(suite.default_cases(rng, further=further), out)
    return write_cases(suite.sample_batches(n, rng, further=further, balance=balance), out)


def make_psytar_lexicon(workbook: Path, out: Path) -> Extraction:
    """Write a lexicon of effect phrases from the PsyTAR workbook."""
    extraction = extract_effects(workbook)
    write_effects(extraction, out)
    return extraction
