"""What `palpate suite` and `palpate lexicon` do, for the command line and for Python users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from palpate.data.lexicons.psytar import Extraction, extract_effects, write_effects
from palpate.data.suites import read_suite, write_cases
from palpate.errors import ConfigError
from palpate.perturb.suites import Suite, list_suites, load_suite
from palpate.perturb.suites.lexicons import Attribute, slot_values


class SuiteSummary(NamedTuple):
    """A suite that comes with palpate; `n_cases` of a default run is None if the user must fill a slot first."""

    name: str
    about: str
    n_templates: int
    n_variations: int
    n_cases: int | None


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
