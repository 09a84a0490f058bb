"""A non-binary patient: "63 year old non-binary person", "they", and the verbs that agree with it.

Nouns become "person", titles "Mx", pronouns they, them, their; what others call the patient becomes "parent", "child"
and so on (neutral.yaml). The patient's spouse and first name stay as they are. "They" is followed by a plural verb
("she denies fever and has chills", "they deny fever and have chills").
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from palpate.cases.edits import Edit
from palpate.files import read_resource
from palpate.perturb.characteristics.gender.partners import SPOUSE_WORDS
from palpate.perturb.characteristics.gender.places import IN_A_ROLE, before_pronoun, places
from palpate.perturb.characteristics.gender.words import Swap, like
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import NOUNS, RELATIVES

WORD = "non-binary"
NO_WORDING = "a word for the gender that has no non-binary form"
_NEXT = re.compile(r"\s+[“\"]?(?P<word>[A-Za-z]+(?:n['’]t)?)(?![\w'’])")
_SHORT_IS = re.compile(
    r"(?P<is>['’]s)\s+[\"“‘]?(?:(?:always|never|just|only|also|not|now|still)\s+)?(?P<word>[A-Za-z]+)", re.IGNORECASE
)
_PARTICIPLE = re.compile(
    r"(?!(?:worri|tir|concern|interest|retir|marri|stress|scar|excit|disappoint|confus|bor|schedul|suppos)ed\b)"
    r"(?:been|had|got|gotten|\w+(?:ed|en))",
    re.IGNORECASE,
)
"""What makes 's a "has": "she's gained weight", unlike "she's worried"."""
_STATE_ENDS = re.compile(
    r"\s*(?:[,.;\n]|$)|\s+(?:and|but|about|by|at|that|to|because|when|for|w/|with)\b", re.IGNORECASE
)
"""What follows a state ("she's agitated, pulling at clothes") and hardly an object ("she's gained weight")."""
BETWEEN = re.compile(
    r"(?:\s+(?:himself|herself|most|no\s+longer|at\s+(?:times|first|present|baseline|rest|night|that\s+time|this\s+(?:time|point))|"
    r"in\s+(?:fact|general|turn|the\s+past)|for\s+(?:the\s+most\s+part|now)|of\s+course|as\s+well|on\s+occasion)\b|"
    r"\s*,[^,.;:\n]{1,24},|\s*\([^).;\n]{1,24}\))+",
    re.IGNORECASE,
)
"""What may stand between "she" and its verb: "she no longer takes", "she, however, is"."""
_INVERTED = re.compile(
    r"(?:(?:^|[.?!:;,(\n])\s*|\b(?:how|why|when|where|what|who|whom|nor|neither|so|as|than|only|rarely|never|seldom|now|then|and|but|or)\s+)"
    r"(?P<verb>is|was|has|does)\s+(?:not\s+)?$",
    re.IGNORECASE,
)
""" "Nor does she smoke", unlike "the trouble is she smokes" and "of all that he has he feels"."""
_SUBORDINATE = re.compile(
    r"\b(?:when|whenever|if|while|because|after|before|until|since|as|where|that|which|why|how|what|whether)\s+$",
    re.IGNORECASE,
)
_IT_DOES = (
    r"(?<!had\s)(?<!has\s)(?<!have\s)(?<!got\s)(?<!get\s)it(?=['’]s|\s+(?:had|did|will|would|can|could|may|might|"
    r"(?!as\b|this\b|his\b|across\b|unless\b|besides\b|always\b)\w+(?:s|ed)\b))"
)
""" "It hurts", unlike "takes it off"."""
_PREPOSITIONS = "like with of for to by during in on from about at"
_NO_OBJECT = "".join(rf"(?<!{word}\s)" for word in _PREPOSITIONS.split())
""" "With this, but is well", "for these headaches and has relief": no subject."""
_SINCE = r"since(?!\s+(?:and|but|then)\b|\s*[,.]|\s+(?:[\w-]+\s+){1,3}(?:and|but)\b)"
OTHER_SUBJECT = re.compile(
    rf"\b(?:which|that(?!\s+(?:time|day|night|morning|point|week)\b)|who|whom|there|{_IT_DOES}|{_NO_OBJECT}this(?!\s+(?:time|morning|week|month|year|(?:in(?!\s+turn)|at|before|for|up|as|once|twice|daily|off)\b)|\s*[,.;)])|{_NO_OBJECT}these|he|she|we|i|you|patient|pt|when|if|because|{_SINCE}|while|where|what|whether)\b",
    re.IGNORECASE,
)
_TELLS_AGAIN = re.compile(
    r",\s*(?:and|but)\s+(?:also\s+|now\s+|still\s+)?(?:denies|reports|notes|states|endorses|wants|takes|thinks|believes|describes|admits)\b"
)
"""What only a person does: "he says that he is well, but notes a cough"."""
_SHE_SAYS = re.compile(r"\b(?:he|she)\s+(?:also\s+|\w+ly\s+)?\w+\s+that\s+$", re.IGNORECASE)
_SO_DOES = re.compile(
    r"\band\s+(?:so|thus|therefore|hence|consequently)\s+(?P<verb>is|was|has)\s+(?:(?:now|also|not|just|\w+ly)\s+)?"
    r"(?:(?<=is )here|(?:looking|taking|trying|asking|using|avoiding|seeking|considering|planning|hoping|requesting|"
    r"wearing|eating|drinking|sleeping|seeing|thinking|skipping)|"
    r"(?:been\s+)?(?:admitted|hospitali[sz]ed|discharged|advised|instructed)|"
    r"(?<=has )(?:stopped|tried|taken|decided|asked|used|avoided|skipped|requested|sought|bought|quit)\s+"
    r"(?:them|it|his|her|the|these|those|all|an?|to|taking|using|smoking|drinking|eating|going|seeing))\b"
)
""" "She knows that the pills do not help and so has stopped them": hers again, unlike "and so is the hip" and what is
done to a thing ("that the drain was clogged and so was changed")."""
KIN_OR_OTHER = re.compile(rf"\b(?:{'|'.join(sorted(RELATIVES))}|he|she|they|who|doctor|Dr|nurse)\b", re.IGNORECASE)
_SUBJECT_NEXT = re.compile(r"\s+(?:any|the|an?|his|her|their|there|it|this|that|anyone|anybody|one)\b", re.IGNORECASE)
_THAT = re.compile(r"\bthat\s+$", re.IGNORECASE)
_OPENS = re.compile(r"(?:he|she)\b", re.IGNORECASE)
_PATIENT_NEXT = re.compile(r"\s+(?:patient|pt)\b", re.IGNORECASE)
_PARTNER_NEXT = re.compile(r"[\s-]+(?:sexual\s+)?partner", re.IGNORECASE)
_SLASHED = re.compile(r"\s?/|[\w]")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.gender", "neutral.yaml")
    return table


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(str(_table()[name]).split())


def neutral_edits(
    patient: DescribedPatient, swaps: list[Swap], letters: list[tuple[int, int]], base: str
) -> list[Edit] | str:
    """The edits that make the patient non-binary, or why there are none."""
    own = [s for s in swaps if s.gender == base and _is_own(patient, s)]
    at_letters = {start for start, _ in letters} | {d.noun[0] for d in patient.descriptions if d.noun}
    edits: list[Edit] = []
    said = False
    for swap in own:
        edit = _noun(patient, swap, at_letters) if swap.weight == 3 else _word(patient, swap)
        if edit is None:
            return NO_WORDING
        said |= WORD in edit.text.lower()
        edits.append(edit)
        if patient.note.text[swap.start : swap.end].lower() in ("he", "she"):
            edits += _verbs(patient.note.text, swap.start, swap.end, _clause_end(patient, swap.start))
    if not said:
        where = places(patient, own, letters, WORD, after_name=WORD, after_age=f"{WORD} person")
        edits += where or before_pronoun(patient, own, "They", f"are {WORD}")
    return sorted(dict.fromkeys(edits))


def _is_own(patient: DescribedPatient, swap: Swap) -> bool:
    """Whether a word is about the patient, unlike one for the spouse or a first name."""
    written = patient.note.text[swap.start : swap.end].lower()
    known = written in _table()["words"] or written in ("her", "his", "m", "f") or swap.weight > 0
    return (
        known
        and written not in SPOUSE_WORDS
        and not (written in NOUNS and _PARTNER_NEXT.match(patient.note.text, swap.end))
    )


def _word(patient: DescribedPatient, swap: Swap) -> Edit | None:
    written = patient.note.text[swap.start : swap.end]
    word = written.lower()
    if word == "her":
        return Edit(swap.start, swap.end, like(written, "them" if swap.male.lower() == "him" else "their"))
    if word == "his":
        return Edit(swap.start, swap.end, like(written, "theirs" if swap.female.lower() == "hers" else "their"))
    if word in ("m", "f"):
        return None
    if word in NOUNS and swap.weight:
        return _noun(patient, swap, set())
    new = _table()["words"].get(word)
    return None if new is None else Edit(swap.start, swap.end, like(written, new))


def _noun(patient: DescribedPatient, swap: Swap, at_letters: set[int]) -> Edit | None:
    """ "63 year old non-binary person", "63 non-binary person" for 63F, "non-binary patient", "Sex: non-binary".

    An adjective stays one: "47 yo male construction worker" becomes a "non-binary construction worker".
    """
    text = patient.note.text
    written = text[swap.start : swap.end]
    if len(written) == 1:
        if swap.start not in at_letters:
            return Edit(swap.start, swap.end, "X")
        if _SLASHED.match(text, swap.end) or text[swap.start - 1 : swap.start] == "/":
            return None
        bracketed = text[swap.start - 1 : swap.start] == "("
        glued = "" if text[swap.start - 1 : swap.start].isspace() or bracketed or swap.start == 0 else " "
        worker = IN_A_ROLE.match(text, swap.end)
        return Edit(swap.start, swap.end, WORD if bracketed else f"{glued}{WORD}" + ("" if worker else " person"))
    if swap.start not in at_letters and not swap.weight:
        return None
    headed = swap.weight == 3 and swap.start not in at_letters
    adjective = written.lower() in ("male", "female") and IN_A_ROLE.match(text, swap.end) is not None
    if headed or adjective or _PATIENT_NEXT.match(text, swap.end):
        return Edit(swap.start, swap.end, like(written, WORD))
    noun = _table()["words"].get(written.lower())
    return None if noun is None else Edit(swap.start, swap.end, like(written, f"{WORD} {noun}"))


def _verbs(text: str, start: int, end: int, last: int) -> list[Edit]:
    """The verbs of "she", in the form that follows "they"."""
    inverted = _INVERTED.search(text, max(0, start - 20), start)
    if inverted:
        verb = inverted.group("verb")
        return [Edit(*inverted.span("verb"), like(verb, _table()["verbs"][verb.lower()]))]
    short = _SHORT_IS.match(text, end, last)
    if short:
        have = _PARTICIPLE.fullmatch(short.group("word")) is not None and not _STATE_ENDS.match(text, short.end())
        mark = short.group("is")[0]
        return [Edit(*short.span("is"), mark + ("ve" if have else "re")), *_others(text, short.end(), last)]
    position = end
    for _ in range(4):
        between = BETWEEN.match(text, position, last)
        position = between.end() if between else position
        match = _NEXT.match(text, position, last)
        if match is None:
            return []
        word = match.group("word")
        if word.lower() in _listed("adverbs") or (
            word.lower().endswith("ly") and word.lower() not in ("relies", "fly")
        ):
            position = match.end()
            continue
        plural = plural_verb(word)
        own = [Edit(*match.span("word"), like(word, plural))] if plural != word.lower() else []
        return own + _others(text, match.end(), last)
    return []


def _clause_end(patient: DescribedPatient, start: int) -> int:
    """Where the verbs of a subject may end: in "it eases when she sits, but does not go", at the comma."""
    text, (first, last) = patient.note.text, patient.note.sentence(start)
    if not _SUBORDINATE.search(text, max(first, start - 12), start):
        return last
    if _THAT.search(text, max(first, start - 12), start) and _OPENS.match(text, patient.note.opening(start)):
        return last  # "she reports that she has pain, but is well": both are hers
    comma = text.find(",", start, last)
    again = comma >= 0 and _TELLS_AGAIN.match(text, comma, last) and _SHE_SAYS.search(text, first, start)
    return last if comma < 0 or again else comma


@cache
def _and() -> re.Pattern[str]:
    """ "And", "but" or a comma, and the word after it that is no adverb."""
    adverbs = "|".join(sorted(_listed("adverbs")))
    joint = r"(?:,\s*(?:and|but|or|then|however,?)?|&|\b(?:and|but|or|nor|then))\s+(?:not\s+)?"
    joint += r"(?:(?:at\s+times|no\s+longer|most\s+likely|in\s+fact)\s+)?"
    return re.compile(joint + rf"(?:(?:{adverbs})\s+)*(?P<verb>[a-z]+?(?:n['’]t)?)(?![\w'’])", re.IGNORECASE)


def _others(text: str, start: int, last: int) -> list[Edit]:
    """The verbs after "and" that have the same subject: "denies fever and has chills"."""
    edits = []
    stop = OTHER_SUBJECT.search(text, start, last)
    for match in _and().finditer(text, start, stop.start() if stop else last):
        verb = match.group("verb")
        known = verb.lower() in _table()["verbs"] or verb.lower() in _listed("also")
        if match.group().lower().startswith("nor") and _SUBJECT_NEXT.match(text, match.end()):
            continue  # "nor has any relative had it"
        if known and plural_verb(verb) != verb.lower():
            edits.append(Edit(*match.span("verb"), like(verb, plural_verb(verb))))
    concluded = _SO_DOES.search(text, stop.start(), last) if stop else None
    if concluded and not KIN_OR_OTHER.search(text, start, concluded.start()):
        edits.append(Edit(*concluded.span("verb"), plural_verb(concluded["verb"])))
    return edits


@cache
def known_verbs() -> frozenset[str]:
    """The verbs of one person that are found after "and" and commas."""
    return frozenset((*_table()["verbs"], *_listed("also")))


def plural_verb(word: str) -> str:
    """The form of a verb that follows "they": denies is deny, goes is go, was is were; other forms stay."""
    lower = word.lower()
    irregular: dict[str, str] = _table()["verbs"]
    if lower in irregular:
        return irregular[lower]
    if len(lower) < 3 or not lower.endswith("s") or lower.endswith(("ss", "us")):
        return lower
    if lower.endswith("ies"):
        return lower[:-3] + "y" if len(lower) > 4 else lower[:-1]
    if lower.endswith(("shes", "ches", "xes", "zzes", "sses", "oes")):
        return lower[:-2]
    return lower[:-1]
