"""Strangers: pronouns of people who are neither the patient nor a relative, and of relatives a clause before.

"Supervisor notified, she has signed the form": whoever has a role in the note may be meant by the next pronoun, and
nothing shows their gender. Nor does grammar tell whom "she" means in "lives with her sister, who is 74; she does the
shopping", or "he" in "his father had a polyp at 55 so he is due for a scope".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container
from functools import cache

from palpate.files import read_resource
from palpate.perturb.characteristics.gender.firstnames import names
from palpate.perturb.characteristics.gender.subjects import PLAINLY
from palpate.perturb.characteristics.reading import Hit, ScannedNote

_NEXT_CLAUSE = re.compile(r"(?:[,;]|\s[-–—]|->)\s*(?:and\s+|but\s+|who\s+says\s+)?$")
_GOES_ON = re.compile(r"(?:&|\band|\bbut|\bso)\s+$", re.IGNORECASE)
_OPENS = re.compile(
    r"[\s\-*•]*(?:(?:an?|the|his|her|their|our|my|male|female|covering)\s+)*(?:[\w-]+\s+)?", re.IGNORECASE
)
_ANOTHER = re.compile(r"\banother\s+(?:[\w-]+\s+){1,2}who\b", re.IGNORECASE)
""" "Punched by another student who accused him of taking his phone"."""
_REACHED = re.compile(
    r"\b(?P<how>paged|notified|consulted|contacted|alerted|emailed|texted|messaged)\s*[,;–—-]\s*(?:and\s+)?$",
    re.IGNORECASE,
)
""" "Urology paged, she is coming in"."""
_SOURCE = re.compile(
    r"\b(?:per|according\s+to|by|sees|saw|with|from|to|for|of|as|is|was|via)\s+(?:(?:an?|the|his|her|their|our|my)\s+)?(?:[a-z]+\s+)?$",
    re.IGNORECASE,
)
""" "Per EMS, he was found down"; "works as a teacher, he has no exposures"."""
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Miss|Mx)\.?\s+$")
_PATIENT = {
    "he": re.compile(r"\b(?:patient|pt|he|she|him|they)\b", re.IGNORECASE),
    "she": re.compile(r"\b(?:patient|pt|he|she|her|they)\b", re.IGNORECASE),
}
"""Who else the pronoun may be: "educator met with him, she taught injections" leaves the educator only."""
_SUBJECT = re.compile(r"\b(?:he|she|patient|pt)\b(?!['’]s\s)", re.IGNORECASE)
""" "He no longer sees the therapist, however, he exercises"."""
_WHO = re.compile(r",?\s*(?:who|whom)\b|\s*[,(]\s*(?:an?\b|aged?\b|\d)|\s*$", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|and\s+now|but\s+now|which\s+is\s+why|and\s+so)\s+$", re.IGNORECASE
)
_OWN_WORRY = re.compile(
    r"\s+(?:is|was|has\s+been)\s+(?:also\s+|very\s+|now\s+|quite\s+)?(?:due|overdue|worried|concerned|anxious|scared|afraid|nervous|"
    r"wondering|interested|asking|unsure|here|keen|requesting)\b|\s+(?:now\s+|also\s+)?(?:wonders|wants|asks|fears|requests|wishes|worries|"
    r"would\s+like)\b",
    re.IGNORECASE,
)
"""What a patient says after telling of a relative: "Father had it at 43 and he is worried"."""
_FOR_PATIENT = re.compile(
    r"(?:\s+(?!(?:and|but|so|because|that|when|if|as|who|which|he|she|we|I)\b)[\w-]+){1,7}?\s+(?:for|of|on|to|with|see|sees|saw)\s+"
    r"(?:the|this|our)\s+(?:patient|(?-i:[Pp]t))"
    r"(?=\s*(?:[.,;:)]|$)|\s+(?:and|but|at|in|on|to|today|tomorrow|after|before|as)\b)",
    re.IGNORECASE,
)
_CONSENTS = re.compile(
    r"\s+(?:then\s+|also\s+|initially\s+)?(?:agree|accept|declin|refus|understood|understands|consent|verbali[sz]|prefer|opted|asked\s+to)",
    re.IGNORECASE,
)
""" "The nurse recommended a walker; she agreed"."""
SITE = re.compile(r"\s+(?:sites?|skin|graft|area|nephrectomy)\b", re.IGNORECASE)
""" "His donor sites have healed"."""
_WHEN = re.compile(r"\b(?:when|as|after|once|while)\s+$", re.IGNORECASE)
_ARRIVES = re.compile(
    r"\s+(?:(?:came|went|walked|got|stopped|checked)\s+(?:in|into|by|to|over|on|there|back)\b|arrived|entered|returned|visited|opened)",
    re.IGNORECASE,
)
""" "A nurse found him on the floor when she came in"."""
_SINGLE = ("he", "she")
_JOINTS = (",", ";", "-", "–", "—", ">", "&", "and", "but", "so", "says")
"""How all that may go before such a pronoun ends: a look at it tells that most pronouns open a sentence."""


@cache
def _roles() -> tuple[str, ...]:
    table = read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")
    return tuple(table["roles"].split())


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {"sure:role": _roles(), "sure:another": ("another",)}


def is_strangers(note: ScannedNote, hit: Hit, changed: Container[int]) -> str | None:
    """Whose a pronoun may be, of those that were `changed`: of somebody with a role, in the clause before it."""
    text = note.text
    if hit.word in _SINGLE and _ARRIVES.match(text, hit.end):
        opens = note.opening(hit.start)
        role = next((one for one in note.hits("sure:role") if opens <= one.start < hit.start), None)
        when = _WHEN.search(text, max(opens, hit.start - 8), hit.start)
        if role and when and _OPENS.fullmatch(text, opens, role.start):
            return role.word
    if note.hits("sure:another") and _ANOTHER.search(text, _clause_start(note, hit), hit.start):
        return "another"
    if hit.word not in _SINGLE or not text[max(0, hit.start - 12) : hit.start].rstrip().lower().endswith(_JOINTS):
        return None
    first = _clause_start(note, hit)
    reached = _REACHED.search(text, max(first, hit.start - 24), hit.start)
    if reached:
        return reached["how"].lower()
    if PLAINLY.match(text, hit.end) or _CONSENTS.match(text, hit.end):
        return None
    clause = _NEXT_CLAUSE.search(text, max(first, hit.start - 12), hit.start)
    if not clause and not _GOES_ON.search(text, max(first, hit.start - 6), hit.start):
        return None
    role = _nearest(note.hits("sure:role"), first, hit)
    if role and not (
        SITE.match(text, role.end)
        or _PATIENT[hit.word].search(text, role.end, hit.start)
        or _SOURCE.search(text, max(first, role.start - 32), role.start)
        or _SUBJECT.search(text, first, role.start)
        or not (clause or _OPENS.fullmatch(text, first, role.start))
    ):
        return role.word
    return _named(note, first, hit, changed) if clause else None


def _nearest(hits: list[Hit], first: int, pronoun: Hit) -> Hit | None:
    """The last of some words before a pronoun, from a position on."""
    k = bisect_left(hits, (pronoun.start,)) - 1
    return hits[k] if k >= 0 and hits[k].start >= first else None


def _named(note: ScannedNote, first: int, pronoun: Hit, changed: Container[int]) -> str | None:
    """A first name right before a pronoun that it fits, and not the patient's: "lactation: Joan, she will call"."""
    name = _nearest(note.hits("first_name"), max(first, pronoun.start - 24), pronoun)
    if (
        name is None
        or name.start in changed
        or not note.text[name.start].isupper()
        or _PATIENT[pronoun.word].search(note.text, name.end, pronoun.start)
    ):
        return None
    fits = names()[name.word][0] == ("male" if pronoun.word == "he" else "female")
    titled = _TITLE.search(note.text, max(0, name.start - 8), name.start)
    return "a name" if fits and not titled else None


def _clause_start(note: ScannedNote, hit: Hit) -> int:
    """Where the sentence of a pronoun starts, with the clause before a semicolon that it follows."""
    first, _ = note.sentence(hit.start)
    closed = first > 0 and note.text[first - 1] == ";" and not note.text[first : hit.start].strip()
    return note.sentence(first - 1)[0] if closed else first


def goes_on_about(note: ScannedNote, person: Hit, hit: Hit) -> bool:
    """Whether a pronoun that opens a clause may be a relative's, of whom the clause before tells.

    "Lives with her sister, who is 74; she does the shopping", "son's workup started, he is blood type O".
    """
    first, _ = note.sentence(hit.start)
    if note.text[person.end : person.end + 2] in ("'s", "’s"):
        begins = _clause_start(note, hit)
        opens = person.start >= begins and _OPENS.fullmatch(note.text, begins, person.start)
        clause = opens and hit.word in _SINGLE and _NEXT_CLAUSE.search(note.text, person.end, hit.start)
        return bool(clause) and not PLAINLY.match(note.text, hit.end)
    if hit.word not in _SINGLE or first == 0 or note.text[first - 1] != ";" or note.text[first : hit.start].strip():
        return False
    if PLAINLY.match(note.text, hit.end):
        return False
    return _WHO.match(note.text, person.end, first - 1) is not None


def is_for_patient(note: ScannedNote, hit: Hit) -> bool:
    """Whether "he" is another, who does something for the patient: "which dose he wants for the patient"."""
    if hit.word not in ("he", "she"):
        return False
    return _FOR_PATIENT.match(note.text, hit.end, note.sentence(hit.start)[1]) is not None


def may_be_own(note: ScannedNote, hit: Hit) -> bool:
    """Whether a pronoun that was left to a relative may be the patient's after all."""
    if hit.word not in _SINGLE:
        return False
    concludes = _CONCLUDES.search(note.text, max(0, hit.start - 20), hit.start)
    return concludes is not None or _OWN_WORRY.match(note.text, hit.end) is not None
