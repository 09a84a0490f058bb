"""What only people know about a model: the keys of a facts file, who writes each, and how the file is checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from palpate.files import read_resource, read_yaml

KINDS = ("internal", "external", "local")
EVALUATION_KIND = "evaluation_kind"
LISTS = ("keywords", "ehr")
"""Facts of several parts: the entries of a list, in which commas stay, or a text whose parts commas separate."""


class Known(NamedTuple):
    """One thing that a person knows: who that is, and what to write."""

    section: str
    who: str
    asks: str


@cache
def known_facts() -> Mapping[str, Known]:
    """Every key of a facts file, in order."""
    sections: dict[str, dict[str, dict[str, str]]] = read_resource(__package__, "facts.yaml")
    return {
        key: Known(section, entry["who"], entry["asks"])
        for section, entries in sections.items()
        for key, entry in entries.items()
    }


def facts_template() -> str:
    """A facts file to fill in: every key with who writes it and what."""
    lines = [
        "# What only people know about the model. Fill in what you can; for the rest, a card says who must write it.",
    ]
    section = ""
    for key, known in known_facts().items():
        if known.section != section:
            section = known.section
            lines += ["", f"# --- {section}"]
        lines.append(f"{key}:  # {known.who}: {known.asks}")
    return "\n".join(lines) + "\n"


def read_facts(file: Path) -> dict[str, Any]:
    """The facts that were written, as texts, those of `LISTS` as their parts; empty ones are left out.

    `evaluation_kind` may be a mapping of cohorts.
    """
    given = read_yaml(file, needs="one `key: text` per line; `palpate card RUN --write-facts FILE` writes the keys")
    facts: dict[str, Any] = {}
    for key, node in given.mapping("the facts file", known=known_facts()).items():
        if node.scalar is None or node.content == "":
            continue
        if key == EVALUATION_KIND and isinstance(node.content, dict):
            facts[key] = {name: each.choice(key, KINDS) for name, each in node.content.items()}
        elif key == EVALUATION_KIND:
            facts[key] = node.choice(key, KINDS)
        else:
            texts = [text.strip() for text in node.texts(f"the fact `{key}`")]
            facts[key] = _parts(node.content, texts) if key in LISTS else ", ".join(texts)
    return facts


def _parts(written: object, texts: list[str]) -> tuple[str, ...]:
    found = texts if isinstance(written, list) else [part.strip() for part in texts[0].split(",")]
    return tuple(part for part in found if part)
