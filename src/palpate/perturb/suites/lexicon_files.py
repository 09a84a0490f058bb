"""A lexicon's file as values for a slot: what `slots: {effect: mine.yaml}` of an audit means."""

from __future__ import annotations

from pathlib import Path

from palpate.errors import ConfigError
from palpate.perturb.suites.lexicons import Attribute, read_lexicon
from palpate.perturb.suites.nodes import read_yaml


def read_lexicon_file(file: Path) -> tuple[dict[str, Attribute], ...]:
    """The entries of a lexicon's file, as a slot takes them."""
    if not file.is_file():
        raise ConfigError("there is no such lexicon", file=file)
    entries = read_lexicon(read_yaml(file), file.stem, file.parent).entries
    return tuple({"value": entry.value, "article": entry.article or "none", **entry.attributes} for entry in entries)
