"""The last sections: how the run was made (versions, seeds, fingerprints, configuration), and the glossary.

The glossary has only terms that the report uses; its sentences are in `glossary.yaml` beside this file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import yaml

from palpate.files import read_resource
from palpate.privacy import without_secrets
from palpate.report import typeset
from palpate.report.blocks import TableView, view_table
from palpate.results import AuditResult, Column, Table

MAX_CONFIG = 60_000


class Provenance(NamedTuple):
    """The section "How this was made"."""

    facts: tuple[tuple[str, str], ...]
    models: TableView
    scoring: TableView | None
    unseen: tuple[str, ...]
    packages: str
    config: str


def view_provenance(manifest: Mapping[str, Any]) -> Provenance:
    """What a reader needs to repeat the run."""
    files = [f"{c.get('name', '')}: {c['file']}" for c in manifest.get("cohorts") or [] if c.get("file")]
    facts = [
        ("palpate", manifest.get("palpate")),
        ("Made on", typeset.date(manifest.get("created")) or None),
        ("Seed", manifest.get("seed")),
        ("Cohorts", "; ".join(files[:10]) or None),
        ("Cohort fingerprint", (manifest.get("fingerprints") or {}).get("cohort")),
        ("Note text in this report", bool(manifest.get("include_text"))),
    ]
    packages = manifest.get("packages") or {}
    return Provenance(
        facts=tuple((name, typeset.shorten(typeset.plain(value), 500)) for name, value in facts if value is not None),
        models=_models(manifest),
        scoring=_scoring(manifest),
        unseen=tuple(_unseen(manifest)),
        packages=typeset.shorten(", ".join(f"{name} {version}" for name, version in packages.items()), 5_000),
        config=_config(manifest.get("config")),
    )


def _models(manifest: Mapping[str, Any]) -> TableView:
    names = ("Model", "Source", "Labels", "Reads", "Threshold", "Fingerprint")
    rows = []
    for model in manifest.get("models") or []:
        labels = [str(label) for label in model.get("labels") or []]
        count = max(typeset.as_count(model.get("n_labels")) or 0, len(labels))
        shown = ", ".join(labels) if count <= 3 else typeset.count_of(count, "label")
        threshold = model.get("threshold")
        fingerprint = str(model.get("fingerprint") or "")
        rows.append(
            (
                str(model.get("name", "")),
                model.get("source"),
                shown,
                model.get("window"),
                None if threshold is None else typeset.plain(threshold),
                fingerprint[:24],
            )
        )
    columns = tuple(Column(name=name) for name in names)
    return view_table(Table(title="Models", columns=columns, rows=tuple(rows)))


def _scoring(manifest: Mapping[str, Any]) -> TableView | None:
    scoring = manifest.get("scoring") or {}
    if not scoring:
        return None
    columns = (
        Column(name="Model"),
        Column(name="Predictions asked for", kind="integer"),
        Column(name="Distinct inputs", kind="integer"),
        Column(name="Edits the model never saw", kind="integer"),
    )
    rows = tuple((name, c.get("asked"), c.get("distinct"), c.get("outside_window")) for name, c in scoring.items())
    return view_table(Table(title="What was scored", columns=columns, rows=rows))


def _unseen(manifest: Mapping[str, Any]) -> list[str]:
    """One sentence for each model that was given edits in text that it does not read."""
    windows = {model.get("name"): model.get("window") for model in manifest.get("models") or []}
    sentences = []
    for name, counts in list((manifest.get("scoring") or {}).items())[:20]:
        asked = typeset.as_number(counts.get("edited", counts.get("asked"))) or 0
        outside = typeset.as_number(counts.get("outside_window")) or 0
        if asked and outside:
            reads = f" It reads {windows[name]}." if windows.get(name) else ""
            sentences.append(f"{name} never saw {100 * outside / asked:.0f}% of the edits.{reads}")
    return sentences


def _config(config: Any) -> str:
    if not config:
        return ""
    text: str = yaml.safe_dump(without_secrets(config), sort_keys=False, allow_unicode=True, width=100)
    return typeset.shorten(text.rstrip(), MAX_CONFIG)


def view_audit(result: AuditResult) -> tuple[tuple[str, str], ...]:
    """An audit's own provenance, as names and values."""
    kept = [(name, value) for name, value in result.provenance.items() if value is not None]
    return tuple(
        (name.replace("_", " "), typeset.shorten(typeset.plain(without_secrets(value, name)), 400))
        for name, value in kept
    )[:40]


class Term(NamedTuple):
    """A word, how it is found in a report's text, and what it means."""

    name: str
    pattern: str
    meaning: str


@cache
def terms() -> tuple[Term, ...]:
    """All terms, in alphabetical order."""
    return tuple(Term(**entry) for entry in read_resource("palpate.report", "glossary.yaml"))


def used_in(text: str) -> list[Term]:
    """The terms that a report's text uses."""
    lowered = text.lower()
    return [term for term in terms() if re.search(term.pattern, lowered)]
