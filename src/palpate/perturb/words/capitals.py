"""Words that notes write with a capital nearly everywhere, as English writes names: names that no list holds.

Medicine writes other words so too: brands of medicines, eponyms, months, places, organisms. Those are known by a list
(`capitals.yaml`), by their endings ("-mycin", "-itis"), or by how the notes use them: with a dose, as a disease of
somebody, as the name of a ward. A place counts within a sentence only, not in headings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.perturb.words.tokens import normalise_word

_LETTERS = [chr(code) for code in range(0x530) if chr(code).isalpha()]
UPPER = "".join(letter for letter in _LETTERS if letter.isupper())
LOWER = "".join(letter for letter in _LETTERS if letter.islower())
_PLACE = re.compile(rf"(?<=[{LOWER},;][ -])[{UPPER}](?:[{LOWER}]|['\u2019](?=[{UPPER}]))[^\W\d_]*\b(?<=[{LOWER}])")
_HEADING = re.compile(r"(?:[ /&-]{1,3}(?:and|or|of|the|[A-Z][\w']{0,30})){0,6} ?:")
_SENTENCE = re.compile(r"\b(?!(?:an?|and|at|by|for|in|of|on|or|the|to|with)\b)[a-z]")
_TAKEN = re.compile(
    r"\b(?:taking|takes?|took|on|start(?:ed)?|prescribed|us(?:es|ed|ing)|doses? of|mg of|refills? (?:of|for)|"
    r"allerg(?:ic|y|ies) to|tablets? of|course of|tried|stopp?(?:ed)?|resumed?|continued?|"
    r"increased?|decreased?|held) (?:h(?:is|er) |the )?$"
)
_DOSED = re.compile(
    r"(?: [A-Z]{2,3})?(?: \d[\d.,]* ?(?:m?c?g|units?|m[lL]|tab|puff|%)| (?:tablet|cream|inhaler|drip|patch|injection|"
    r"ointment|lotion|eye|nasal|therapy|dose|level|shot|pill|spray|p\.?o\.?|daily|b\.?i\.?d|q\.?))"
)
_OF_SOMEBODY = re.compile(
    r"(?:['\u2019]s?)? (?:disease|syndrome|sign|catheter|palsy|tests?|drain|o?esophagus|criteria|score|reflex|fracture|"
    r"dementia|contracture|lymphoma|tumou?r|procedure|classification|scale|thyroiditis|cell|staging|tendon|splint|boot|brace|tube|"
    r"maneuver|manoeuvre|ulcer|cyst|point|line|phenomenon|stain|virus|vaccine|position|repair|nodes?|bodies|body|"
    r"stitch|clamp|needle|wires?|joint|ligament|canal|ring|gland|pouch|operation|angle|law|index|type)\b"
)
_OF_A_WARD = re.compile(
    r" (?:ward|unit|floor|wing|clinic|hospital|service|team|medical|pavilion|building|[Cc]ent(?:er|re)|"
    r"Hospital|Clinic|Ward|Unit|University|School|Street|County|Correctional)\b"
)
_LONGEST_HEADING = 120
_FEWEST, _NEARLY_ALL, _SOME, _MOST = 3, 0.95, 0.2, 0.5


class Capitals(NamedTuple):
    """How often each word has a capital within a sentence, and how often the place shows what it is."""

    within: Counter[str]
    medicines: Counter[str]
    others: Counter[str]
    """Diseases, signs and devices called after somebody; wards and hospitals."""

    def candidates(self) -> list[str]:
        """Words that may be names, if they are hardly ever written without a capital."""
        return [word for word, n in self.within.items() if n >= _FEWEST and self._is_nothing_else(word, n)]

    def _is_nothing_else(self, word: str, n: int) -> bool:
        return self.medicines[word] < _SOME * n and self.others[word] <= _MOST * n

    def names(self, small: Mapping[str, int]) -> set[str]:
        """The candidates, given how often each word has no capital."""
        n = self.within
        return {word for word in self.candidates() if n[word] >= _NEARLY_ALL * (n[word] + small.get(word, 0))}


@cache
def capitalised_words() -> frozenset[str]:
    """Words that have a capital and are no names: the list that comes with palpate, and its medicines."""
    listed: Mapping[str, Any] = read_resource("palpate.perturb.words", "capitals.yaml")
    brands = read_resource("palpate.perturb.robustness", "lexicons/drugs.yaml")["brands"]
    kinds = " ".join(each for kind, each in listed.items() if kind != "endings")
    return frozenset([*kinds.split(), *(name.lower() for pair in brands.items() for name in pair)])


@cache
def _endings() -> tuple[str, ...]:
    """How medicines and findings end."""
    return tuple(read_resource("palpate.perturb.words", "capitals.yaml")["endings"].split())


def count_capitals(texts: Iterable[str], words: Collection[str]) -> Capitals:
    """Count the places of those of some words (in normal form) that are not known."""
    normal = lru_cache(maxsize=1 << 16)(normalise_word)
    unknown = {word for word in words if word not in capitalised_words() and not word.endswith(_endings())}
    found = Capitals(Counter(), Counter(), Counter())
    for text in texts:
        for match in _PLACE.finditer(text):
            word = normal(match[0])
            if word in unknown and not _is_heading(text, match.end()):
                found.within[word] += 1
                found.medicines[word] += bool(_DOSED.match(text, match.end()) or _is_taken(text, match.start()))
                found.others[word] += bool(_OF_SOMEBODY.match(text, match.end()) or _OF_A_WARD.match(text, match.end()))
    return found


def _is_taken(text: str, at: int) -> bool:
    return bool(_TAKEN.search(text[max(0, at - 24) : at]))


def _is_heading(text: str, at: int) -> bool:
    """Whether a place is in a line of which every word has a capital, or in what precedes a colon."""
    if _HEADING.match(text, at):
        return True
    before, after = text[max(0, at - _LONGEST_HEADING) : at], text[at : at + _LONGEST_HEADING]
    return not _SENTENCE.search(before[before.rfind("\n") + 1 :] + after.partition("\n")[0])
