"""The notes that the workbench may show: of `--cohort`, or of the first one configured, and how they are altered.

They are read when a page first needs them, and stay in memory. Without `--show-notes` there are none. They are altered
as the audit of the configuration does it, so that what people review and try is what it does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.commands.review import read_note_table
from palpate.config import load_config
from palpate.config.audits import make_audit
from palpate.perturb.characteristics import NAMES, Alterer, Contradictory, Definition, Sure
from palpate.privacy import hides
from palpate.workbench.pages import PageTexts
from palpate.workbench.sections import Bench
from palpate.workbench.shelf import find_config

_AUDIT = "characteristics"
_AROUND = 90
"""Characters shown on each side of a word."""
_BLANKS = re.compile(r"\s+")
_MOST_SEARCHED = 5_000
"""Notes that are searched for a word's examples."""


@hides("before", "word", "after")
@dataclass(frozen=True)
class WordInContext:
    """A word with what stands around it in a note."""

    before: str
    word: str
    after: str


@hides("texts", "cases", "found")
@dataclass(frozen=True)
class BenchNotes:
    """Notes by number; `cases` are their names."""

    texts: tuple[str, ...]
    cases: tuple[str, ...]
    source: str
    found: dict[str, tuple[WordInContext, ...]] = field(default_factory=dict)

    def examples(self, word: str, n: int = 3) -> tuple[WordInContext, ...]:
        """A word in notes of different patients, always the same ones."""
        if word not in self.found:
            self.found[word] = tuple(self._search(word, n))
        return self.found[word]

    def _search(self, word: str, n: int) -> Iterator[WordInContext]:
        parts = r"\s+".join(re.escape(part) for part in word.split())
        pattern = re.compile(rf"(?<!\w){parts}(?!\w)", re.IGNORECASE)
        order = np.random.default_rng(0).permutation(len(self.texts))[:_MOST_SEARCHED]
        for row in order.tolist():
            text = self.texts[row]
            hit = pattern.search(text)
            if hit is None:
                continue
            before, after = text[max(hit.start() - _AROUND, 0) : hit.start()], text[hit.end() : hit.end() + _AROUND]
            yield WordInContext(_BLANKS.sub(" ", before), _BLANKS.sub(" ", hit[0]), _BLANKS.sub(" ", after))
            n -= 1
            if not n:
                return


def source_of(bench: Bench) -> Path | None:
    """Where notes would come from."""
    return bench.options.cohort or find_config(bench.options)


def notes_of(bench: Bench) -> BenchNotes | None:
    """The notes; None where they may not be shown, or where there are none."""
    if not bench.options.show_notes:
        return None
    return all_notes(bench)


def all_notes(bench: Bench) -> BenchNotes | None:
    """The notes, also for what shows no text of them; None where there are none."""
    source = source_of(bench)
    return None if source is None else bench.kept("notes", lambda: _read(source, bench.texts))


def _read(source: Path, texts: PageTexts) -> BenchNotes:
    table = read_note_table(source)
    cases = tuple(table.cases) or tuple(texts("notes.unnamed", n=k) for k in range(1, len(table.texts) + 1))
    return BenchNotes(tuple(table.texts), cases, source.name)


class AlteringOptions(NamedTuple):
    """Options of the characteristics audit."""

    definitions: tuple[Definition, ...] = ()
    contradictory: Contradictory = "skip"
    sure: Sure = "strict"

    def alterer(self, *names: str) -> Alterer:
        """For some characteristics of palpate or of the audit's own definitions; all, if none is named."""
        own = {one.name: one for one in self.definitions}
        asked = names or tuple(dict.fromkeys([*NAMES, *own]))
        return Alterer([own.get(name, name) for name in asked], contradictory=self.contradictory, sure=self.sure)


def audit_options(bench: Bench) -> AlteringOptions | None:
    """Those of the configuration; None where it has no such audit."""
    config = find_config(bench.options)
    loaded = None if config is None else load_config(config)
    if config is None or loaded is None or _AUDIT not in loaded.audits:
        return None
    given = {name: value for name, value in (loaded.audits[_AUDIT] or {}).items() if name != "review"}
    audit = make_audit(_AUDIT, given, folder=config.parent)
    return AlteringOptions(*(getattr(audit, name) for name in AlteringOptions._fields))
