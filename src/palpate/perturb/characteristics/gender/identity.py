"""What a note says of its patient's identity: "transgender", "non-binary", and in other words.

The word before a noun is taken out or kept ("transgender woman"); a note that tells it in its own words ("assigned
female at birth", "FTM") can't be reworded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.gender.places import ROLE_WORDS, TRADE
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import belongs_to_patient

_TRANSITION = ("afab", "amab", "assigned", "dysphoria", "affirming", "reassignment", "top", "bottom")
_NONBINARY = ("nonbinary", "binary", "enby", "genderqueer")
_CLOSED_WORDS = ("transman", "transwoman", "transmale", "transfemale")
TRIGGERS = (
    *("transgender", "transgendered", "trans", "transsexual", "mtf", "ftm"),
    *(*_CLOSED_WORDS, *_TRANSITION, *_NONBINARY),
)
"""The words to scan for."""
_ADJECTIVE = re.compile(
    r"(?P<span>\w+\s+)(?:(?:(?!with|who|is|was|and)[A-Za-z-]+\s+){0,2}?(?:man|woman|male|female|gentleman|lady|girl|boy|person|patient|pt|"
    r"(?:AA|[WBCH])?/?[MF]|" + "|".join(sorted(ROLE_WORDS)) + "|" + TRADE + r")\b|\d|_{3}|\[\*\*Age)",
    re.IGNORECASE,
)
_AFTER_NAME = re.compile(r" \(transgender (?P<noun>woman|man)\)")
_SENTENCE = re.compile(r"(?P<subject>he|she) is transgender\. (?=(?:he|she)\b)", re.IGNORECASE)
""" "She is transgender. She has three children": palpate's own sentence, where the note had no other place."""
_TOLD_SO = re.compile(
    r"\b(?:AFAB|AMAB|(?:top|bottom)\s+surgery|assigned\s+(?:sex\s+)?(?:as\s+)?(?:at\s+birth\s*:?\s*)?(?:fe)?male|(?:gender|sex)[\s-]+(?:dysphoria|affirming|reassignment))\b",
    re.IGNORECASE,
)
"""What shows that a patient is transgender without the word."""
_SEX = r"(?:male|female|(?-i:[MF]))"
_CHANGED = re.compile(rf"\b(?P<was>{_SEX})(?:[\s-]*to[\s-]*|\s*(?:[-=]*>|→)\s*|2)(?P<to>{_SEX})\b", re.IGNORECASE)
""" "Male to female", "M->F", "F2M"; without "transgender" beside it, only what can't be a ratio."""
_ARROW = re.compile(rf"(?P<was>{_SEX})(?:\s*(?:[-=]+>|→)\s*|2)(?P<to>{_SEX})\b", re.IGNORECASE)
_CLOSED = re.compile(r"trans-?(?=(?:(?:wo)?man|(?:fe)?male)\b)", re.IGNORECASE)
_CIS = re.compile(r"\bcis(?:gender(?:ed)?)?\s+$", re.IGNORECASE)
_NON = re.compile(r"\bnon[\s-]?$", re.IGNORECASE)


@dataclass
class ToldIdentity:
    """Where the note says that its patient is transgender or non-binary."""

    removals: list[tuple[int, int]] = field(default_factory=list)
    """Spans that can be taken out: "transgender " before a noun, "(transgender)"."""
    nouns: list[tuple[int, int]] = field(default_factory=list)
    """ "A 63 year old transgender with asthma"."""
    after_names: list[tuple[int, int]] = field(default_factory=list)
    """The noun of "Ms. Smith (transgender woman)"."""
    subjects: list[tuple[int, int]] = field(default_factory=list)
    """The pronoun of "She is transgender."."""
    changes: list[re.Match[str]] = field(default_factory=list)
    """ "M->F", with the gender that the patient has now as `to`."""
    told_otherwise: bool = False
    nonbinary: bool = False

    @property
    def is_told(self) -> bool:
        """Whether the note says that the patient is transgender."""
        return bool(self.removals or self.nouns or self.told_otherwise)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The words in the note."""
        return [*self.removals, *self.nouns]

    def removes(self, position: int) -> bool:
        """Whether a position is inside of what can be taken out."""
        return bool(self.removals) and any(start <= position < end for start, end in self.removals)


def find_identity(patient: DescribedPatient) -> ToldIdentity:
    """Read what the note says."""
    told = ToldIdentity()
    note, text = patient.note, patient.note.text
    after_age = {d.noun[0] for d in patient.descriptions if d.noun}
    for hit in note.hits("trans"):
        if not belongs_to_patient(note, hit.start, hit.end):
            continue
        adjective, closed = _ADJECTIVE.match(text, hit.start), _CLOSED.match(text, hit.start)
        changed = _CHANGED.search(text, max(0, hit.start - 18), hit.end + 20)
        named = _AFTER_NAME.match(text, max(0, hit.start - 2))
        sentence = _own_sentence(text, hit.start)
        if hit.word in _NONBINARY:
            told.nonbinary |= hit.word != "binary" or _NON.search(text, max(0, hit.start - 5), hit.start) is not None
        elif hit.word in _TRANSITION:
            told.told_otherwise |= _TOLD_SO.search(text, max(0, hit.start - 8), hit.end + 20) is not None
        elif changed:
            told.changes.append(changed)
        elif hit.word in ("mtf", "ftm"):
            told.told_otherwise = True
        elif closed and closed.end() in after_age:
            told.removals.append(closed.span())
        elif named:
            told.removals.append(named.span())
            told.after_names.append(named.span("noun"))
        elif sentence:
            told.removals.append(sentence.span())
            told.subjects.append(sentence.span("subject"))
        elif adjective:
            told.removals.append(adjective.span("span"))
        elif text[hit.start - 2 : hit.start] == " (" and text[hit.end : hit.end + 1] == ")":
            told.removals.append((hit.start - 2, hit.end + 1))
        elif hit.word == "trans" and not closed:
            continue
        elif hit.start in after_age:
            told.nouns.append((hit.start, hit.end))
        else:
            told.told_otherwise = True
    arrows = (_ARROW.match(text, hit.start) for hit in (*note.hits("noun"), *note.hits("letter")))
    told.changes += [match for match in arrows if match and belongs_to_patient(note, *match.span())]
    # F2F is a visit face to face.
    told.changes = [match for match in told.changes if match["was"][0].lower() != match["to"][0].lower()]
    told.told_otherwise |= bool(told.changes)
    return told


def _own_sentence(text: str, start: int) -> re.Match[str] | None:
    """The sentence that says nothing but that the patient is transgender, around the word."""
    before = max(0, start - len("she is "))
    match = _SENTENCE.search(text, before, start + len("transgender. she"))
    return (
        match
        if match and (match.start() == 0 or text[match.start() - 1].isspace() or text[match.start() - 1] in ",.:")
        else None
    )


def renamed(patient: DescribedPatient, told: ToldIdentity, edits: list[Edit], target: str | None) -> list[Edit]:
    """The edits and, where "(transgender woman)" or "She is transgender." stays, its noun or pronoun for the target."""
    noun = {"female": "woman", "male": "man"}.get(target or "")
    taken = [(edit.start, edit.end) for edit in edits]
    stays = [span for span in told.after_names if not any(a <= span[0] < b for a, b in taken)]
    text = patient.note.text
    nouns = [Edit(start, end, noun) for start, end in stays if noun and text[start:end] != noun]
    pronoun = {"female": "She", "male": "He"}.get(target or "")
    stays = [span for span in told.subjects if not any(a <= span[0] < b for a, b in taken)]
    cased = [(span, _like(text[span[0] : span[1]], pronoun)) for span in stays if pronoun]
    return edits + nouns + [Edit(*span, word) for span, word in cased if text[span[0] : span[1]] != word]


def _like(written: str, word: str) -> str:
    """A pronoun in the capitals of another."""
    return word.upper() if written.isupper() else word if written[0].isupper() else word.lower()


def capitalized(patient: DescribedPatient, told: ToldIdentity, edits: list[Edit]) -> list[Edit]:
    """What follows "Transgender" at the start of a sentence gets its capital."""
    note = patient.note
    ends = {b for a, b in told.removals if note.text[a].isupper() and a == note.opening(a)}
    ends = {end for end in ends if note.text[end : end + 1].islower()}
    taken = {edit.start for edit in edits}
    changed = [
        edit._replace(text=edit.text[0].upper() + edit.text[1:]) if edit.start in ends else edit for edit in edits
    ]
    return changed + [Edit(end, end + 1, note.text[end].upper()) for end in sorted(ends - taken)]


def without_cis(patient: DescribedPatient, places: list[Edit]) -> list[Edit]:
    """A "cisgender woman" becomes a "transgender woman"."""
    matches = [_CIS.search(patient.note.text, max(0, edit.start - 14), edit.start) for edit in places]
    return [Edit(match.start(), match.end(), "") for match in matches if match]
