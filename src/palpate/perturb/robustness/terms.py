"""The same facts in other words: abbreviations, brand names, spellings and contractions, in both directions.

Each pair stands in a lexicon, with one meaning only. Names that stand beside their counterpart ("furosemide (Lasix)")
are left alone, articles agree with what follows them ("a UTI", "an upper respiratory infection"), and capitals follow
the place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import NamedTuple

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.grammar import article_before, with_articles
from palpate.perturb.robustness.reading import Rng, WrittenNote, lexicon, like, without_overlaps


class TermSwap(NamedTuple):
    """What a form is found by after its first word, and what it becomes."""

    rest: re.Pattern[str]
    form: str
    into: str
    exact: bool
    """Whether capitals count."""


Swaps = Mapping[str, tuple[TermSwap, ...]]
"""By the first word in small letters, the longest form first."""


def swaps(pairs: Iterable[tuple[str, str]], *, exact: bool) -> Swaps:
    """(form, what it becomes) by first word."""
    found: dict[str, list[TermSwap]] = {}
    for form, into in pairs:
        first = re.match(r"[A-Za-z]+(?:[/.'’][A-Za-z0-9]+)*", form)
        if first is None:
            raise ValueError(f"'{form}' does not begin with a letter")
        words = re.split(r"\s+", form[first.end() :])
        rest = re.compile(r"\s+".join(re.escape(word) for word in words), 0 if exact else re.IGNORECASE)
        found.setdefault(first.group().lower(), []).append(TermSwap(rest, form, into, exact))
    return {key: tuple(sorted(each, key=lambda swap: -len(swap.form))) for key, each in found.items()}


Write = Callable[[WrittenNote, int, int, TermSwap], str | None]


def swapped(note: WrittenNote, table: Swaps, write: Write) -> list[Edit]:
    """All forms of the table that stand as whole words, as `write` puts them; where it says None they stay."""
    if note.known.isdisjoint(table):
        return []
    text, edits, position = note.text, [], 0
    for start, end, word in note.words:
        for swap in table.get(word.lower(), ()) if start >= position else ():
            match = swap.rest.match(text, end)
            if match is None or (swap.exact and not swap.form.startswith(word)):
                continue
            stop = match.end()
            if not _alone(text, start, stop) or note.touches(start, stop) or _beside(text, start, stop, swap.into):
                continue
            new = write(note, start, stop, swap)
            if new is not None and new != text[start:stop]:
                edits.append(Edit(start, stop, new))
                position = stop
                break
    return without_overlaps(with_articles(text, edits))


def _alone(text: str, start: int, end: int) -> bool:
    """Whether nothing is joined to a form by a letter, a hyphen or a slash."""
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    return not any(each and (each.isalnum() or each in "-/_&+'’") for each in (before, after))


def _beside(text: str, start: int, end: int, other: str) -> bool:
    """Whether the other form stands beside this one, in brackets, after a comma or a slash."""
    around = text[max(0, start - len(other) - 4) : start] + " | " + text[end : end + len(other) + 4]
    return other.lower() in around.lower()


# --- abbreviations --------------------------------------------------------------------------------------------------


_SENTENCE_ENDS = re.compile(r"\s*\n|\s*\Z|\s+[A-Z]")
"""After the last full stop of "b.i.d.", which is then the sentence's too."""


@cache
def _short_forms() -> Swaps:
    own = lexicon("abbreviations")
    return swaps([*own["pairs"].items(), *own["further"].items()], exact=True)


@cache
def _full_forms() -> Swaps:
    own = lexicon("abbreviations")
    one_way = set(own["one way"])
    return swaps([(full, short) for short, full in own["pairs"].items() if short not in one_way], exact=False)


def written_out(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Abbreviations in full."""
    return swapped(note, _short_forms(), _in_full) or "no abbreviation of the lexicon"


def abbreviated(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Full forms as abbreviations."""
    return swapped(note, _full_forms(), _in_short) or "no term that has an abbreviation in the lexicon"


_WITH = re.compile(r"\s+(?:with\b|w/)", re.IGNORECASE)
_WORD_BEFORE = re.compile(r"([A-Za-z]+)\s+\Z")
_WORD_AFTER = re.compile(r"\s+([A-Za-z]+/?)")


def _as_verb(note: WrittenNote, start: int, end: int, form: str) -> str | None:
    """What the form is as a verb, if it is one here: "will f/u with PCP"."""
    own = lexicon("abbreviations")
    if form not in own["as verb"]:
        return None
    before = _WORD_BEFORE.search(note.text, max(0, start - 20), start)
    verbal = before is not None and before[1].lower() in own["verb after"]
    return str(own["as verb"][form]) if verbal or _WITH.match(note.text, end) else None


def _in_full(note: WrittenNote, start: int, end: int, swap: TermSwap) -> str | None:
    after = _WORD_AFTER.match(note.text, end)
    if after and after[1].lower() in lexicon("abbreviations")["not before"].get(swap.form, ()):
        return None
    verb = _as_verb(note, start, end, swap.form)
    if verb is not None:
        return verb
    if swap.form in lexicon("abbreviations")["uncounted"] and article_before(note.text, start) is not None:
        return None
    if re.match(rf"\s+{re.escape(swap.into.split()[-1])}\b", note.text[end : end + 40], re.IGNORECASE):
        return None  # "CSF fluid"
    stop = "." if swap.form.endswith(".") and _SENTENCE_ENDS.match(note.text, end) else ""
    if note.text[start:end].isupper() and note.shouts(start):
        return swap.into.upper() + stop
    return (like(swap.into, "X") if note.opens(start) and swap.into[0].islower() else swap.into) + stop


def _in_short(note: WrittenNote, start: int, end: int, swap: TermSwap) -> str | None:  # noqa: ARG001
    if note.shouts(start):
        return None  # a heading
    return like(swap.into, note.text[start]) if swap.into.islower() else swap.into


# --- medicines ------------------------------------------------------------------------------------------------------


@cache
def _to_brand() -> Swaps:
    return swaps(lexicon("drugs")["brands"].items(), exact=False)


@cache
def _to_generic() -> Swaps:
    return swaps([(brand, generic) for generic, brand in lexicon("drugs")["brands"].items()], exact=False)


@cache
def _another_medicine() -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in lexicon("drugs")["not before"])
    return re.compile(rf"[ \t-]*(?:{words})(?![A-Za-z])", re.IGNORECASE)


def brand_names(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Medicines by their brand names."""
    return swapped(note, _to_brand(), _medicine) or "no medicine by its generic name"


def generic_names(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Medicines by their generic names."""
    return swapped(note, _to_generic(), _medicine) or "no medicine by its brand name"


def _medicine(note: WrittenNote, start: int, end: int, swap: TermSwap) -> str | None:
    """The other name; None where a note has both, or where the name is a part of another medicine's."""
    if swap.into.lower() in note.known or _another_medicine().match(note.text, end):
        return None
    written = note.text[start:end]
    if written in lexicon("drugs")["words"]:
        return None  # "well versed"
    if written.isupper():
        return swap.into.upper()
    if swap.into[0].isupper():
        return swap.into
    return like(swap.into, "X") if note.opens(start) and written[0].isupper() else swap.into


# --- spellings ------------------------------------------------------------------------------------------------------

_ENDINGS = ("e", "es", "ed", "ing", "ation", "ations", "er", "ers")


class _Spellings(NamedTuple):
    words: Mapping[str, str]
    parts: re.Pattern[str]
    into: Mapping[str, str]


@cache
def _spellings(*, british: bool) -> _Spellings:
    """Whole words, and parts of words, from one side to the other."""
    own = lexicon("spellings")
    words, parts = dict(own["words"]), dict(own["parts"])
    for stem, ending in ((stem, ending) for stem in own["verbs"] for ending in _ENDINGS):
        words[f"{stem}iz{ending}"] = f"{stem}is{ending}"
    for stem, ending in ((stem, ending) for stem in own["verbs in yze"] for ending in ("ed", "ing")):
        words[f"{stem}yz{ending}"] = f"{stem}ys{ending}"
    if not british:
        words, parts = ({new: old for old, new in pairs.items()} for pairs in (words, parts))
    longest = sorted(parts, key=len, reverse=True)
    return _Spellings(words, re.compile("|".join(map(re.escape, longest))), parts)


@lru_cache(maxsize=100_000)
def _respelt(word: str, *, british: bool) -> str | None:
    """A word in small letters as the other side spells it; None if there is no difference."""
    if word in lexicon("spellings")["except"]:
        return None
    table = _spellings(british=british)
    if word in table.words:
        return table.words[word]
    new = table.parts.sub(lambda match: table.into[match.group()], word)
    back = _spellings(british=not british)
    # A word that would not come back the same way has a part that is none; so has one that is on that side already.
    returned = back.parts.sub(lambda match: back.into[match.group()], new)
    found, there = table.parts.search(word), back.parts.search(word)
    already = there is not None and not (found and found.start() <= there.start() and there.end() <= found.end())
    return new if new != word and returned == word and not already else None


def british_spelling(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Words as they are spelt in Britain."""
    return _respell(note, british=True) or "no word that is spelt otherwise in Britain"


def american_spelling(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """Words as they are spelt in America."""
    return _respell(note, british=False) or "no word that is spelt otherwise in America"


def _respell(note: WrittenNote, *, british: bool) -> list[Edit]:
    new = {word: other for word in note.known if (other := _respelt(word, british=british)) is not None}
    if not new:
        return []
    edits = []
    for start, end, word in note.words:
        other = new.get(word.lower())
        if other is None or note.touches(start, end) or (word[1:] != word[1:].lower() and not word.isupper()):
            continue
        if word[0].isupper() and not word.isupper() and _in_name(note, start, end):
            continue
        edits.append(Edit(start, end, like(other, word)))
    return without_overlaps(with_articles(note.text, edits))


_CAPITALISED_BEFORE = re.compile(r"[A-Z][\w.'’-]*[ ]\Z")
_CAPITALISED_AFTER = re.compile(r"[ ][A-Z]")


def _in_name(note: WrittenNote, start: int, end: int) -> bool:
    """Whether a capitalised word stands inside a name: "Mercy Medical Center"."""
    before = _CAPITALISED_BEFORE.search(note.text, max(0, start - 30), start)
    return not note.opens(start) and bool(before or _CAPITALISED_AFTER.match(note.text, end))


# --- contractions ---------------------------------------------------------------------------------------------------


@cache
def _contracted() -> Swaps:
    pairs = lexicon("contractions")["pairs"].items()
    return swaps([*pairs, *((short.replace("'", "’"), full) for short, full in pairs)], exact=False)


@cache
def _uncontracted() -> Swaps:
    own = lexicon("contractions")
    return swaps([(full, short) for short, full in own["pairs"].items() if short not in own["one way"]], exact=False)


@cache
def _kept_after() -> re.Pattern[str]:
    words = "|".join(lexicon("contractions")["keep after"])
    return re.compile(rf"\s*(?:(?:{words})\b|[.,;:)\n]|\Z)", re.IGNORECASE)


def contractions(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """ "Do not" as "don't"."""
    return swapped(note, _uncontracted(), _contract) or "nothing that could be contracted"


def no_contractions(note: WrittenNote, rng: Rng) -> list[Edit] | str:  # noqa: ARG001
    """ "Don't" as "do not"."""
    return swapped(note, _contracted(), _expand) or "no contraction"


def _contract(note: WrittenNote, start: int, end: int, swap: TermSwap) -> str | None:
    written = note.text[start:end]
    if written.isupper() or _kept_after().match(note.text, end) or "\n" in written or not written[1:].islower():
        return None  # an order in capitals, or a "not" that belongs to what follows
    return like(swap.into, written[0]) if swap.into[0] != "I" else swap.into


def _expand(note: WrittenNote, start: int, end: int, swap: TermSwap) -> str | None:
    written = note.text[start:end]
    return swap.into if swap.into[0] == "I" else like(swap.into, written if written.isupper() else written[0])
