"""What `palpate suite suggest` does: words for a slot, proposed by a masked language model (CheckList, section 3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from palpate.commands.suites import open_suite
from palpate.data.suites.templates import SLOTS
from palpate.errors import ConfigError
from palpate.files import write_atomically
from palpate.models.devices import DeviceOptions
from palpate.models.text.masked import load_masked
from palpate.perturb.suites import Suite
from palpate.perturb.words import Hits
from palpate.perturb.words.tokens import normalise_word

PER_SENTENCE = 10
"""How many words the model may propose for one sentence."""


_BLANK = "___"
"""Stands for the words of a slot that has none yet."""


class Suggestion(NamedTuple):
    """A word for a slot: the share of the sentences for which it was proposed, its mean rank there, and one of them."""

    word: str
    share: float
    mean_rank: float
    example: str


def open_for_suggestions(
    name: str, slot: str, *, positive: str | None = None, slots: Mapping[str, object] | None = None
) -> Suite:
    """A suite whose slot may have no words yet: a table of templates is read before anybody has any for it."""
    given = dict(slots or {})
    if Path(name).suffix == ".csv" and slot not in given and slot.lower() not in SLOTS:
        given[slot] = [_BLANK]
    return open_suite(name, positive=positive, slots=given)


def suggest_values(
    suite: Suite,
    slot: str,
    checkpoint: Path,
    *,
    n: int = 30,
    sentences: int = 200,
    seed: int = 0,
    trust: bool = False,
    options: DeviceOptions | None = None,
) -> list[Suggestion]:
    """The words that fit a slot in most of `sentences` sentences, best first; none that the lexicon has already.

    A value is replaced by one mask, so only single words are proposed. A person must read them: a word that fits the
    grammar may not fit the label.
    """
    if slot not in suite.lexicons:
        raise ConfigError(
            f"suite '{suite.name}' has no slot '{slot}'", hint=f"its slots are: {', '.join(suite.lexicons)}"
        )
    texts, hits = _masked(suite, slot, sentences, seed)
    model = load_masked(checkpoint, trust=trust, options=options)
    known = {normalise_word(name) for entry in suite.lexicons[slot].entries for name in entry.names()}
    barred = np.array([k for k, word in enumerate(model.words) if normalise_word(word) in known], dtype=np.int64)
    found = model.likeliest(texts, hits, PER_SENTENCE, exclude=[barred])
    ranks: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row, words in enumerate(found.tolist()):
        for rank, word in enumerate(words, start=1):
            if word >= 0:
                ranks[word].append((rank, row))
    suggestions = []
    for word, places in ranks.items():
        rank, row = min(places)
        text, start, end = texts[row], int(hits.start[row]), int(hits.end[row])
        example = text[:start] + model.words[word] + text[end:]
        mean = float(np.mean([place[0] for place in places]))
        suggestions.append(Suggestion(model.words[word], len(places) / len(texts), mean, example))
    return sorted(suggestions, key=lambda each: (-each.share, each.mean_rank, each.word))[:n]


def write_suggestions(suggestions: list[Suggestion], slot: str, path: Path) -> None:
    """One word per line, as `--set SLOT=FILE` reads them."""
    head = f"# Words for the slot '{slot}', proposed by a masked language model: delete those that do not fit.\n"
    write_atomically(path, head + "".join(f"{each.word}\n" for each in suggestions))


def _masked(suite: Suite, slot: str, n: int, seed: int) -> tuple[list[str], Hits]:
    """Sentences with the slot, as many from every template, and where it stands in each."""
    with_slot = sorted({unit.capability.id for unit in suite.units if any(slot in f.slots for f in unit.factors)})
    texts: list[str] = []
    places: list[tuple[int, int]] = []
    if with_slot:
        # More than asked for: sentences without the slot, or with another form of its value, are left out.
        cases = suite.sample(4 * n, np.random.default_rng(seed), capabilities=with_slot, balance="template")
        for case in cases:
            filled = next((each for each in case.slots if each.slot == slot), None)
            if filled is not None and case.text[filled.start : filled.end] == filled.value and len(texts) < n:
                texts.append(case.text)
                places.append((filled.start, filled.end))
    if not texts:
        raise ConfigError(f"no sentence of suite '{suite.name}' has the slot '{slot}'")
    start, end = np.array(places, dtype=np.int64).T
    rows = np.arange(len(texts), dtype=np.int64)
    return texts, Hits(rows, np.zeros_like(rows), start, end)
