"""Slips of the finger and of a scanner: a letter or two of a word, never a number, never a word that turns the meaning.

Only words of at least four letters are misspelt, a finger slips inside of them only, and what comes out is no word:
neither one of the lexicons nor one that the notes themselves use. Negations, directions and the like ("denies", "left",
"increased") are left alone, as are short words in capitals, which are mostly abbreviations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cache, lru_cache

from palpate.cases.edits import Edit
from palpate.perturb.robustness.reading import Rng, WrittenNote, lexicon

TOO_FEW = "too few words that may be misspelt"
_SHORT = 5
"""Words of so few letters are too often another word if one is left out or mistaken: they are doubled or swapped."""
Slip = tuple[int, int, str]
"""Which letters of a word are replaced, and by what."""
Slipping = Callable[[str, list[float]], Slip | None]
_DRAWS, _ROWS = 5, 4
"""How often a slip is drawn for a word before another word is taken, and for how many words per slip that is wanted."""


@cache
def real_words() -> frozenset[str]:
    """All words of the lexicons, in small letters: what no slip may make."""
    words, drugs = lexicon("words"), lexicon("drugs")["brands"]
    found = {*words["turning"], *words["near"], *drugs, *(brand.lower() for brand in drugs.values())}
    for name in ("abbreviations", "contractions"):
        for short, full in lexicon(name)["pairs"].items():
            found |= {short.lower(), *full.lower().split()}
    return frozenset(found)


@cache
def _turning() -> frozenset[str]:
    return frozenset(lexicon("words")["turning"])


def keyboard_slips(note: WrittenNote, rng: Rng, n: int, *, known: Collection[str] = ()) -> list[Edit] | str:
    """`n` words with one slip each, in random order (the first are those of a lower dose), or why there are not."""
    return _slips(note, rng, n, known, _by_finger)


def scanner_slips(note: WrittenNote, rng: Rng, n: int, *, known: Collection[str] = ()) -> list[Edit] | str:
    """The same with letters that a scanner takes for others."""
    return _slips(note, rng, n, known, _by_scanner)


def _slips(note: WrittenNote, rng: Rng, n: int, known: Collection[str], slip: Slipping) -> list[Edit] | str:
    words = note.long_words
    if len(words) < n:
        return TOO_FEW
    order = rng.permutation(len(words)).tolist()
    draws = rng.random((min(len(words), _ROWS * n + _ROWS), _DRAWS, 3)).tolist()
    edits: list[Edit] = []
    for k, own in zip(order, draws, strict=False):
        start, end = words[k]
        word = note.text[start:end]
        edit = next(_allowed(note, start, word, slip, own, known), None) if _may_be_misspelt(word) else None
        if edit is not None:
            edits.append(edit)
            if len(edits) == n:
                return edits
    return TOO_FEW


def _may_be_misspelt(word: str) -> bool:
    return word.lower() not in _turning() and not (word.isupper() and len(word) <= _SHORT)


def _allowed(
    note: WrittenNote, start: int, word: str, slip: Slipping, draws: list[list[float]], known: Collection[str]
) -> Iterator[Edit]:
    """Slips of one word that make no word."""
    for draw in draws:
        made = slip(word, draw)
        if made is None:
            continue
        low, high, letters = made
        after = (word[:low] + letters + word[high:]).lower()
        if after != word.lower() and not (after in real_words() or after in note.known or after in known):
            yield Edit(start + low, start + high, letters)


def _by_finger(word: str, draw: list[float]) -> Slip | None:
    """A neighbouring key, a letter left out, one doubled, or two swapped; the first and the last letter stay."""
    at = 1 + int(draw[1] * (len(word) - 2))
    letter = word[at]
    kind = 0.6 + 0.4 * draw[0] if len(word) <= _SHORT else draw[0]
    if kind < 0.4:
        keys = lexicon("typing")["neighbours"].get(letter.lower(), "")
        key = keys[int(draw[2] * len(keys))]
        return at, at + 1, key.upper() if letter.isupper() else key
    if kind < 0.6:
        return at, at + 1, ""
    if kind < 0.8:
        return at, at, letter
    if at + 2 >= len(word) or word[at] == word[at + 1]:
        return None
    return at, at + 2, word[at + 1] + letter


@lru_cache(maxsize=50_000)
def _misread(word: str) -> list[tuple[int, str]]:
    """Where a word, after its first letter, has what a scanner takes for something else."""
    return [
        (at, part)
        for part in lexicon("typing")["confusions"]
        for at in range(1, len(word))
        if word.startswith(part, at)
    ]


def _by_scanner(word: str, draw: list[float]) -> Slip | None:
    places = _misread(word)
    if not places:
        return None
    at, part = places[int(draw[1] * len(places))]
    choices = lexicon("typing")["confusions"][part]
    return at, at + len(part), choices[int(draw[2] * len(choices))]
