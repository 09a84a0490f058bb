"""Where "transgender" or "non-binary" goes: at the nouns that introduce the patient, or where else it can.

"63 year old transgender woman", "63F (transgender)", "Sex: F (transgender)", "The transgender patient", and
"Ms. Smith (transgender woman)" if the note has nothing but a title.
"""

from __future__ import annotations

import re

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender.words import PARENTS, ROLES, Swap
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import NOUNS, belongs_to_patient

ROLE_WORDS = frozenset((*ROLES.split(), *PARENTS))
TRADE = (
    r"(?:[a-z]+(?:ologist|ician|keeper)|(?:account|attend|immigr)ant|workers?|inmate|prisoner|student|teacher|driver|engineer|manager|builder|"
    r"carpenter|mechanic|plumber|electrician|farmer|nurse|lawyer|attorney|professor|veteran|smoker|athlete|runner|player|refugee|"
    r"resident|clerk|cook|chef|secretary|programmer|executive|pilot|miner|welder|painter|principal|trader|barista|bartender|waiter|firefighter|paramedic|physicist|scientist|musician|artist|writer|owner|retiree)"
)
"""What a patient may be called in place of "man" and "woman"."""
IN_A_ROLE = re.compile(
    r"\s+(?:(?!(?:who|with|on|in|at|and|is|was|has|had|for|to|of|by|from|an?|the|became|develop\w+|present\w+|receiv\w+|taking)\b)[\w-]+\s+){0,2}"
    r"(?:\w+(?:ologist|ician|iatrist|keeper)|(?:account|assist|consult|attend|serv|immigr)ant|soph\w*|freshm[ae]n|senior|junior|worker|adult|student|smoker|drinker|driver|teacher|nurse|vet|veteran|truckie|tradie|labou?rer|farmer|engineer|manager|"
    r"builder|carpenter|mechanic|plumber|electrician|chef|cook|waiter|officer|soldier|athlete|runner|player|professor|accountant|lawyer|"
    r"attorney|physician|doctor|resident|inmate|prisoner|refugee|immigrant|retiree|pensioner|diabetic|alcoholic|user|abuser|victim|"
    r"passenger|pedestrian|cyclist|rider|biker|jockey|farmhand|clerk|cashier|secretary|receptionist|executive|salesperson|scientist|"
    r"pilot|sailor|miner|welder|painter|roofer|musician|artist|writer|owner|operator|technician|caregiver|carer|volunteer)\b"
)
"""What a word for the patient would be an adjective of: "male construction worker"."""
_TRADE = re.compile(rf"\s+(?:(?!(?:with|who|and|for|on|in|at|by|seen|known)\b)[A-Za-z-]+\s+){{0,2}}?{TRADE}(?![\w'’-])")
_NAME = re.compile(
    r"\.?\s+(?:\[\*\*[^\]]*\]|_{2,}|[A-Z][\w'’-]*"
    r"(?:[ \t]+(?!(?:IS|WAS|HAS|HAD|AN?|PRESENTS|REPORTS|DENIES|CAME|WITH|WHO)\b)[A-Z][\w-]+)?)(?!['’\w])"
)
_LOWER = re.compile(r"\s+[a-z]")
_AFTER_LETTER = re.compile(r"\)|\.(?=\s+[a-z])|\s?/\s?\d{1,3}(?:\s?(?:y/?o|y)\b)?")
_PHRASE_ENDS = re.compile(
    r"\s*(?:[,.;)\n]|$)|\s+(?:with|w/?|who|here|s/p|c/o|p/w|presents?|presenting|presented|seen|admitted|in|on|is|was|has)\b",
    re.IGNORECASE,
)
"""What may follow "84yo transgender woman"."""
_LOOKS_AFTER = re.compile(r"\bthe\s+(?:mother|father|mom|dad|parents?)$|\b(?:mom|mommy|daddy)$", re.IGNORECASE)
"""In "I told the mother that he has a cold", he may be an infant."""
_ANY = re.compile(r"\b(?:any|every|each|no|another|other|per)\s+$", re.IGNORECASE)
"""Patients in general: "not every patient", "in any patient"."""


def places(
    patient: DescribedPatient,
    swaps: list[Swap],
    letters: list[tuple[int, int]],
    word: str,
    *,
    after_name: str,
    after_age: str,
) -> list[Edit]:
    """The edits that put `word` into the note; `after_name` and `after_age` are written where only that is there."""
    text = patient.note.text
    told = {s.start for s in swaps if s.weight}
    nouns = {d.noun: d.place for d in patient.descriptions if d.noun and d.noun[0] in told}
    raced = set(patient.race_letters)
    edits = [
        Edit(place, place, word + " ")
        if (place, noun[0]) in raced
        else _at_noun(patient, *noun, word, spaced=place == noun[0])
        for noun, place in nouns.items()
    ]
    edits += [_at_letter(text, *span, word) for span in letters if span not in nouns and span[0] in told]
    if edits:
        return edits
    for swap in sorted(swaps, key=lambda s: (-s.weight, s.start)):
        if swap.weight == 3:
            return [_after(text, swap.end, word)]
        if swap.weight and text[swap.start : swap.end].lower() in NOUNS:
            return [_at_noun(patient, swap.start, swap.end, word, spaced=True)]
    return (
        _at_patient(patient, word)
        or _at_title_or_role(patient, swaps, word, after_name)
        or _at_age(patient, after_age)
        or _at_trade(patient, word)
    )


def before_pronoun(patient: DescribedPatient, swaps: list[Swap], subject: str, told: str) -> list[Edit]:
    """ "She is transgender. She has three children.", in a note that calls the patient by nothing but pronouns."""
    note = patient.note
    if patient.is_child or any(
        _LOOKS_AFTER.search(note.text, max(0, hit.start - 5), hit.end) for hit in note.hits("people")
    ):
        return []
    for swap in swaps:
        written = note.text[swap.start : swap.end]
        if written.lower() not in ("he", "she") or swap.start != note.opening(swap.start) or note.in_family(swap.start):
            continue
        if belongs_to_patient(note, swap.start, swap.end):
            sentence = f"{subject} {told}. "
            cased = sentence.upper() if written.isupper() else sentence if written[0].isupper() else sentence.lower()
            return [Edit(swap.start, swap.start, cased)]
    return []


def _at_trade(patient: DescribedPatient, word: str) -> list[Edit]:
    """ "47 y/o transgender inmate", in a note that tells the gender by pronouns only."""
    bare = (one.age.tail for one in patient.places if one.age and not one.noun)
    return [Edit(tail, tail, f" {word}") for tail in bare if _TRADE.match(patient.note.text, tail)][:1]


def _at_age(patient: DescribedPatient, phrase: str) -> list[Edit]:
    """ "84yo transgender woman, hard of hearing", in a note that tells the gender by pronouns only."""
    bare = (one.age.tail for one in patient.places if one.age and not one.noun)
    return [Edit(tail, tail, f" {phrase}") for tail in bare if _PHRASE_ENDS.match(patient.note.text, tail)][:1]


def _at_patient(patient: DescribedPatient, word: str) -> list[Edit]:
    text = patient.note.text
    for hit in patient.note.hits("patient"):
        owns = text[hit.end : hit.end + 2] in ("'s", "’s") or _ANY.search(text, max(0, hit.start - 12), hit.start)
        if hit.word in ("patient", "pt") and not owns and belongs_to_patient(patient.note, hit.start, hit.end):
            dotted = text[hit.end : hit.end + 1] == "." and _LOWER.match(text, hit.end + 1)
            return [_at_noun(patient, hit.start, hit.end + bool(dotted), word, spaced=True)]
    return []


def _at_title_or_role(patient: DescribedPatient, swaps: list[Swap], word: str, after_name: str) -> list[Edit]:
    """ "Ms. Smith (transgender woman)", "a transgender widow"."""
    text = patient.note.text
    for swap in swaps:
        written = text[swap.start : swap.end].lower()
        name = _NAME.match(text, swap.end) if swap.weight and written in ("mr", "mrs", "ms", "miss") else None
        if name:
            capitals = text[swap.start : swap.end].isupper()
            return [Edit(name.end(), name.end(), f" ({after_name.upper() if capitals else after_name})")]
        if swap.weight and written in ROLE_WORDS:
            return [_at_noun(patient, swap.start, swap.end, word, spaced=True)]
    return []


def _at_letter(text: str, start: int, end: int, word: str) -> Edit:
    """ "63 yo transgender wf", "63yof (transgender)", "63 (F) (transgender)", "F/63 (transgender)"."""
    first = start
    while first > 0 and (text[first - 1].isalpha() or text[first - 1] == "/"):
        first -= 1
    before = text[:first].rstrip()
    if first and text[first - 1].isspace() and before[-1:].isalpha() and text[end : end + 1] != "/":
        return Edit(first, first, word + " ")
    return _after(text, end, word)


def _after(text: str, end: int, word: str) -> Edit:
    closing = _AFTER_LETTER.match(text, end)
    place = closing.end() if closing else end
    return Edit(place, place, f" ({word})")


def _at_noun(patient: DescribedPatient, start: int, end: int, word: str, *, spaced: bool) -> Edit:
    """Before a noun, in its capitals; after one that opens a sentence or has no space before it."""
    text = patient.note.text
    noun = text[start:end]
    capital = noun[0].isupper() and len(noun) > 1 and not noun.isupper()
    opens = start == patient.note.opening(start) or not text[text.rfind("\n", 0, start) + 1 : start].strip()
    if not spaced or (capital and opens):
        return _after(text, end, word) if text[end : end + 1] == ")" else Edit(end, end, f" ({word})")
    return Edit(start, start, (word.upper() if noun.isupper() and len(noun) > 1 else word) + " ")
