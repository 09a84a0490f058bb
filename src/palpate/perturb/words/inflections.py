"""Is one word only another form of the other? Replacing "smokes" with "smoked" would say nothing about the word.

A small set of English rules, with the Latin and Greek plurals of medicine and a table of irregular words. Each word
has a set of possible base forms; two words that share one count as forms of each other. If in doubt ("number"
might be "numb" with -er) the rules say yes: of thousands of candidates, one too many is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from palpate.cases.edits import Ints
from palpate.perturb.words.tokens import normalise_word

_SHORTEST_BASE = 3
_PARTS = re.compile(r"[^\w']+|_+|'(?!\w)|(?<!\w)'")

_IRREGULAR = """
be am is are was were been being
have has had having 've
do does did done doing
go goes went gone going
get gets got gotten
give gives gave given
take takes took taken
come comes came
become becomes became
see sees saw seen
say says said
make makes made
know knows knew known
think thinks thought
find finds found
feel feels felt
leave leaves left
keep keeps kept
begin begins began begun
run runs ran
eat eats ate eaten
drink drinks drank drunk
sleep sleeps slept
speak speaks spoke spoken
break breaks broke broken
fall falls fell fallen
grow grows grew grown
rise rises rose risen
lie lies lay lain lying
lay lays laid
die dies died dying
tie ties tied tying
hold holds held
lose loses lost
bleed bleeds bled
feed feeds fed
bring brings brought
send sends sent
spend spends spent
show shows showed shown
write writes wrote written
wake wakes woke woken
wear wears wore worn
swell swells swelled swollen
shake shakes shook shaken
bear bears bore borne born
stand stands stood
understand understands understood
sit sits sat
meet meets met
tell tells told
mean means meant
teach teaches taught
lead leads led
draw draws drew drawn
drive drives drove driven
bite bites bit bitten
stick sticks stuck
man men
woman women
child children
person people persons
foot feet
tooth teeth
life lives
wife wives
half halves
calf calves
good better best
bad worse worst
far farther further farthest furthest
much many more most
little less least
"""


@lru_cache(maxsize=1)
def _irregular_bases() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for line in _IRREGULAR.strip().splitlines():
        base, *forms = line.split()
        for form in (base, *forms):
            table[form] = table.get(form, frozenset()) | {base}
    return table


@lru_cache(maxsize=200_000)
def base_forms(word: str) -> frozenset[str]:
    """The possible base forms of a normalised word, including the word itself."""
    plain = word.removesuffix("'s").removesuffix("'")
    found = {word, plain, *_irregular_bases().get(plain, ())}
    found.update(base for base in _plural_bases(plain) if len(base) >= 2)
    found.update(base for base in _verb_bases(plain) if len(base) >= _SHORTEST_BASE)
    return frozenset(found)


def _plural_bases(word: str) -> Iterator[str]:
    """Base forms of plurals, and of verbs with -s."""
    if word.endswith("s") and not word.endswith("ss"):
        yield word[:-1]
    if word.endswith("es"):
        yield word[:-2]
    if word.endswith("ies"):
        yield word[:-3] + "y"
    if word.endswith("ves"):
        yield word[:-3] + "f"
        yield word[:-3] + "fe"
    if len(word) > 4:
        for ending, bases in _CLASSICAL.items():
            if word.endswith(ending):
                yield from (word.removesuffix(ending) + base for base in bases)


_CLASSICAL = {
    "ses": ("sis",),
    "xes": ("xis",),
    "ae": ("a",),
    "i": ("us", "is"),
    "ora": ("us",),
    "era": ("us",),
    "a": ("um", "on"),
    "ata": ("a",),
    "ices": ("ix", "ex"),
    "yces": ("yx",),
    "nges": ("nx",),
    "ides": ("is",),
}


def _verb_bases(word: str) -> Iterator[str]:
    """Base forms of past tenses and participles, and of adjectives with -er and -est."""
    for ending in ("ed", "ing", "er", "est"):
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            yield stem
            yield stem + "e"
            if stem.endswith("i"):
                yield stem[:-1] + "y"
            if stem.endswith("ck"):
                yield stem[:-1]
            if len(stem) > 2 and stem[-1] == stem[-2]:
                yield stem[:-1]


def gives_away(replacement: str, word: str) -> bool:
    """Whether a replacement contains the word or a form of it: "non-smokers" for "smoker".

    Hyphens and other signs separate words here, because they do so for most models. A word of a phrase gives the phrase
    away too: replacing "heart failure" with "failure" only removes a word.
    """
    own, target = _parts(replacement), _parts(word)
    if " " in word.strip() and all(any(_same(part, each) for each in target) for part in own):
        return True
    last = len(own) - len(target)
    return any(all(map(_same, own[k : k + len(target)], target)) for k in range(last + 1))


def _same(one: str, other: str) -> bool:
    return not base_forms(one).isdisjoint(base_forms(other))


@lru_cache(maxsize=200_000)
def _parts(word: str) -> tuple[str, ...]:
    return tuple(part for part in _PARTS.split(normalise_word(word)) if part)


class Forms:
    """Finds the words of a vocabulary that give a target away, without comparing all of them."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._vocabulary = vocabulary
        self._by_base: dict[str, list[int]] = {}
        for code, word in enumerate(vocabulary):
            for base in {base for part in _parts(word) for base in base_forms(part)}:
                self._by_base.setdefault(base, []).append(code)

    def of(self, word: str) -> Ints:
        """The codes of all words that give the word away, sorted."""
        first = _parts(word)[: None if " " in word.strip() else 1]
        near = {code for part in first for base in base_forms(part) for code in self._by_base.get(base, ())}
        return np.asarray(sorted(c for c in near if gives_away(self._vocabulary[c], word)), dtype=np.int64)
