"""A user's own template suites: in YAML, as templates in CSV, or as finished cases in JSON Lines; and writing cases.

A label is compared as a whole word, never guessed from part of its name: 1/0, true/false, yes/no, positive/negative, or
the word given as `positive` and one other word.
"""

from __future__ import annotations

from pathlib import Path

from palpate.data.suites.finished import import_jsonl
from palpate.data.suites.templates import ImportedTemplates, Slots, import_csv, import_templates, write_templates
from palpate.data.suites.writing import write_cases
from palpate.errors import ConfigError
from palpate.perturb.suites import list_suites, load_suite, read_suite_yaml
from palpate.perturb.suites.suite import Suite

__all__ = [
    "ImportedTemplates",
    "import_csv",
    "import_jsonl",
    "import_templates",
    "read_suite",
    "read_suite_file",
    "write_cases",
    "write_templates",
]


def read_suite(name: str, *, positive: str | None = None, slots: Slots | None = None) -> Suite:
    """One of palpate's own suites by its name, or a suite from a file; `slots` gives some slots other values."""
    own = name in list_suites() or not Path(name).suffix
    suite = load_suite(name) if own else read_suite_file(Path(name), positive=positive, slots=slots)
    return suite.with_slots(slots) if slots else suite


def read_suite_file(file: Path, *, positive: str | None = None, slots: Slots | None = None) -> Suite:
    """A suite from a YAML file, a CSV file of templates or a JSONL file of cases.

    `positive` is the word for the positive label in CSV and JSONL files. Slots of a CSV file that no lexicon of palpate
    fills get their values from `slots`; apart from that, the suite is as the file has it.
    """
    if not file.is_file():
        hint = f"give a YAML, CSV or JSONL file, or one of palpate's own suites: {', '.join(list_suites())}"
        raise ConfigError("suite not found", file=file, hint=hint)
    if file.suffix == ".csv":
        return import_csv(file, lexicons=slots, positive=positive)
    return import_jsonl(file, positive=positive) if file.suffix == ".jsonl" else read_suite_yaml(file)
