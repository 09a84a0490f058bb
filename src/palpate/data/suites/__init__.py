"""A user's own template suites: in YAML, as templates in CSV, or as finished cases in JSON Lines; and writing cases.

What a file may say is right, beyond two labels: `answers`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TextIO

from palpate.data.suites.finished import import_jsonl
from palpate.data.suites.templates import ImportedTemplates, Slots, import_csv, import_templates, write_templates
from palpate.errors import ConfigError
from palpate.files import replacing
from palpate.perturb.suites import list_suites, load_suite, read_suite_yaml
from palpate.perturb.suites.cases import Case, SuiteCases
from palpate.perturb.suites.schema import Template
from palpate.perturb.suites.suite import Suite
from palpate.privacy import as_cell

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

FIELDS = (
    *("number", "capability", "test", "type", "label", "template", "variation", "change", "text", "changed"),
    *("slots", "tags"),
)


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


def write_cases(cases: SuiteCases | Iterable[SuiteCases], path: str | Path) -> int:
    """Write cases to a .csv or .jsonl file, for a model that runs elsewhere; returns how many.

    `label` is 1, 0 or empty, or the answer in words where there are several labels. A stream of `SuiteCases`
    (`Suite.sample_batches`) is written batch by batch.
    """
    file = Path(path)
    if file.suffix not in (".csv", ".jsonl"):
        raise ConfigError(
            f"cases can't be written as '{file.suffix}'", file=file, hint="give a file name that ends in .csv or .jsonl"
        )
    batches = [cases] if isinstance(cases, SuiteCases) else cases
    with replacing(file) as scratch, scratch.open("w", encoding="utf-8", newline="") as stream:
        return _write_csv(batches, stream) if file.suffix == ".csv" else _write_jsonl(batches, stream)


def _write_csv(batches: Iterable[SuiteCases], stream: TextIO) -> int:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(FIELDS)
    n = 0
    for record in _records(batches):
        flat = {**record, "slots": json.dumps(record["slots"], ensure_ascii=False), "tags": " ".join(record["tags"])}
        writer.writerow(["" if flat[name] is None else as_cell(flat[name]) for name in FIELDS])
        n += 1
    return n


def _write_jsonl(batches: Iterable[SuiteCases], stream: TextIO) -> int:
    n = 0
    for record in _records(batches):
        stream.write(json.dumps(record, ensure_ascii=False) + "\n")
        n += 1
    return n


def _records(batches: Iterable[SuiteCases]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for row in range(len(batch)):
            case, unit = batch[row], batch.units[int(batch.unit[row])]
            record = _record(case)
            rule = {"tolerance": unit.test.tolerance, "direction": unit.test.direction, "margin": unit.test.margin}
            yield {**record, **_several(unit.template), **{k: value for k, value in rule.items() if value is not None}}


def _several(template: Template) -> dict[str, Any]:
    """What is right about several labels, as `import_jsonl` reads it."""
    wanted = template.wanted
    if wanted is None:
        return {}
    if wanted.highest is not None:
        return {"class": wanted.highest}
    return {"labels": {**dict.fromkeys(wanted.present, 1), **dict.fromkeys(wanted.absent, 0)}}


def _record(case: Case) -> dict[str, Any]:
    slots = [
        {"slot": filled.slot, "value": filled.value, "start": filled.start, "end": filled.end} for filled in case.slots
    ]
    label = (case.wanted or None) if case.label is None else int(case.label)
    record = {**case._asdict(), "label": label, "slots": slots}
    record["tags"] = list(case.tags)
    return {name: record[name] for name in FIELDS}
