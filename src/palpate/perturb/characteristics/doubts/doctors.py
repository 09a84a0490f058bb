"""Doctors: a pronoun that may be that of the doctor of whom the clause or the sentence before tells.

"Dr. A was called at night. He then changed the antibiotics." Most pronouns after such a sentence are the patient's all
the same ("Dr. A saw the patient. He was discharged"): the verb tells.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from palpate.perturb.characteristics.gender.subjects import PLAINLY
from palpate.perturb.characteristics.reading import Hit, ScannedNote

_DOCTORS = frozenset(
    ["dr", "doctor", "physician", "surgeon", "attending", "pcp", "resident", "np", "cardiologist", "neurologist"]
)
_NAMED = re.compile(r"\.?[ \t]+[A-Z]")
_REACHED = (
    r"(?:I|we)\s+(?:\w+\s+){0,2}?(?:ask|asked|call|called|consult|consulted|contact|contacted|paged|"
    r"(?:spoke|talked|discuss|discussed|speak|talk)\b[^.;]{0,30}?\b(?:with|to))\s+"
)
_LEADS = re.compile(
    rf"[\W\d]*(?:(?:then|today|subsequently|however|also|both|later|[a-z]+(?:\s+[\w/]+){{0,4}},)\s+)?(?:{_REACHED})?"
    r"(?:(?:the|his|her|their|our|my|an?)\s+)?(?:(?!dear\b)[a-z]+\s+)?",
    re.IGNORECASE,
)
"""What goes before the doctor who is spoken of: "Subsequently, I asked our Dr. A"."""
_PATIENTS_SENTENCE = re.compile(r"\W*(?:the\s+)?(?:patient|pt|he|she)\b", re.IGNORECASE)
_JOINT = re.compile(r"(?:\b(?:so|and|but|then)|[,;])\s+$", re.IGNORECASE)
_SAYS = re.compile(
    r"\bDr\.?[ \t]+[A-Z]\w*(?:,[^.;,]{1,24},?)?[ \t]+(?:(?:has|had|then|also)[ \t]+)?"
    r"(?:(?:stated|states|said|says|told\s+(?:me|us)|agreed|indicated|replied|promised)(?:[ \t]+that)?|as)[ \t]+$"
)
""" "Dr. A stated that he would ring the ward"; what follows tells of whom."""
_ACTS = re.compile(
    r"\bDr\.?[ \t]+[A-Z]\w*(?:,[^.;,]{1,24},?)?[ \t]+"
    r"(?:(?:may|will|would|could|can|has|had|have|did|then|also|\w+ly)[ \t]+)*(?!(?:and|or|in|on|for|from)\b)[a-z]+\b"
    r"(?:(?!\b(?:he|she|they|we|patient|pt)\b|[.;]).){0,80}?"
    r"\b(?:since|because|as|when|if|after|before|until|once|though|although|while)[ \t]+$"
)
""" "Dr. A may repair it since he did the first operation"."""
_JOINED = re.compile(r"\b(?:since|because|as|when|if|after|before|until|once|though|although|while)\s+$")
_PRESCRIBES = re.compile(
    r"(?:['’]s|['’]ll|['’]d)?\s+(?:(?:also|then|now|still|only|\w+ly)\s+)?"
    r"(?:(?:does|did|do|will|would|can|could|may|might|has|had|is|was)(?:\s+not|n['’]t)?\s+|cannot\s+)?"
    r"(?:be\s+)?(?:(?:un)?(?:willing|comfortable|able)\s+(?:to\s+|with\s+)?)?"
    r"(?:prescrib(?:e|es|ing)|refill(?:s|ing)?|renew(?:s|ing)?|operat(?:e|es|ing)\s+on|writ(?:e|es|ing)\s+(?:for|the|a|any|more)|"
    r"refer(?:s|ring)?\s+(?:him|her|the)|mentioned\b|perform(?:s|ing)?\b|order(?:s|ing)\b|inject(?:s|ing)?\b|repair(?:s|ing)?\b|"
    r"remov(?:e|es|ing)\s+(?:the|his|her)\s+(?:stitches|sutures|staples|drain|cast|tube|catheter|pins?)|retired\b|left\s+(?:the\s+)?practice|"
    r"closed\s+(?:his|her)\s+(?:practice|office))",
    re.IGNORECASE,
)
""" "His PCP has told him that he does not prescribe it": no patient does."""
_AS_DOCTOR = re.compile(
    r"(?:['’]s|['’]ll)?\s+(?:\w+ly\s+|also\s+|then\s+|will\s+|would\s+|has\s+|is\s+|was\s+|had\s+|be\s+|have\s+)*(?:kindly|graciously|called|calls|"
    r"done\s+so|agreed\s+to\s+(?:see|operate|repair|remove|treat|prescribe|refill|write|call|take|accept|evaluate|perform|do|follow|assist)|planning\s+(?:for|on|to)|plans\s+to\s+(?:perform|do|see|take|"
    r"order|proceed)|see(?:ing)?\s+(?:the\s+(?:patient|pt)|him|her)\b|available|present\s+(?:for|during|throughout)|assist(?:ed|ing|s)|changed\s+(?:the|anti|his|her)|"
    r"recommend\w*|perform\w*|order(?:ed|ing)|suggest\w*|advis(?:ed|es|ing)\s+(?:me|us|that|the|him|her)|concur\w*|scrubbed|dictat\w+|supervis\w+|on\s+call)\b",
    re.IGNORECASE,
)
"""What a doctor does, also where the patient was the subject: "He was referred to Dr. A. He is planning an EMG"."""
_TREATS = re.compile(
    r"\s+(?:also\s+|then\s+|(?:has|had)\s+(?!prescribed\s+(?!an?\b|the\b|him\b|her\b))|\w+ly\s+)*(?:(?:recommend|order|prescrib|suggest)\w*\s+(?!by\b)|examined\s+(?:him|her|the\s+patient)\b|"
    r"(?:felt|thought|opined)\s+(?:that\s+)?(?:most\s+of\s+)?(?:his|her|the\s+patient)\b)",
    re.IGNORECASE,
)
_DOES = (
    r"has\b(?!\s+(?:\w+ly\s+)?(?:done|seen|recommended|ordered|asked|agreed|suggested|reviewed|evaluated|advised|planned))|had\b|"
    r"reports?\b|reported|states\b|feels\b|takes\b|lives\b|smokes\b|continue[sd]?\b|requir|receiv|develop|did\s+(?:well|not|have)|do(?:es)?\s+not|does\s+"
    r"(?:have|report|note)|underst|agree[sd]?\s+(?:and|with\s+(?:this|the)\s+plan)|may\b|can(?:not)?\b|could\b|should\b|needs?\b|needed|wish|want|prefer|declin|"
    r"refus|consent|verbali|would\s+(?:like|benefit|need|require)|will\s+(?:need|return|follow|continue|take|undergo|require|"
    r"(?:also\s+|then\s+)?be\s+(?!happy|available|out|on\s+call|assist)\w+)|"
    r"(?:is|was|has\s+been|had\s+been)\s+(?:(?:also|then|now|again|\w+ly)\s+)?(?:diagnosed|found|seen|told|advised|instructed|treated|prescribed|brought|"
    r"sent|taken|hospitalized|unable|stable|doing|having|feeling|recently|on\s+(?!call)|status|s/p|to\s|not\s|in\s+(?!agreement)|very|asymptomatic|"
    r"currently|still|without|with\s|aware|cleared|recommended|counseled|offered|scheduled|asked|ready|awake|sedated|maintained|kept|an?\s|\d|felt|seen|"
    r"switched|changed\s+to|put\s+on|able|unresponsive|hypotensive|supposed|due|made|deemed|fitted|followed|followed\s+by|positive|negative|informed|"
    r"pain|comfortable|well|better|improving|alive|married|single)|came\b|went\b|fell\b|felt\s+(?:better|well|weak|dizzy|pain)|lost\b|gained|"
    r"desir|elect(?:s|ed)\b|tolerat|ambulat|quit\b|stopped\s+(?:taking|smoking)|began\b|started\s+(?:having|to|taking)|noticed|woke|experienc|suffer|recover|improv"
)
_AS_PATIENT = re.compile(
    rf"(?:['’]s)?\s+(?:also\s+|then\s+|now\s+|still\s+|subsequently\s+|\w+ly\s+)?(?:{_DOES})", re.IGNORECASE
)
_ADDRESSED = re.compile(
    r"\b(?:let|letting|ask|asked|asking|tell|told|telling|inform(?:ed|ing)?|advis(?:e|ed|ing)|notif(?:y|ied)|updated?|call(?:ed)?|contact(?:ed)?|"
    r"paged?|thank(?:ed|ing)?|requested|(?:spoke|speak|discuss|discussed|talk|talked|reviewed|consulted)(?:\s+(?:this|it|the\s+\w+))?\s+(?:with|to)|"
    r"(?:sent|send|forward|forwarded)(?:\s+(?:a|the)\s+\w+)?\s+to)\s+$",
    re.IGNORECASE,
)
_I_REACHED = re.compile(
    r"\b(?:I|we)\b[^.;]{0,40}?\b(?:spoke|speak|discuss|discussed|talk|talked|touch|called|call|contact|contacted|paged|page|asked|ask|consulted|"
    r"emailed|wrote|write|told|thank)\b",
    re.IGNORECASE,
)
_SPOKEN_OF = re.compile(r"\b(?:patient|pt|he|she|him|family|wife|husband|son|daughter|mother|father)\b", re.IGNORECASE)
_OWNS = re.compile(
    r"\s+(?:office|clinic|practice|partners?\b(?=\s+(?:agreed|will|saw|has|Dr))|colleagues?|team|nurse|assistant|recommendations?|note|consult(?:ation)?|"
    r"opinion|report|staff|associates?|service|discretion|dictation|PA|NP)\b",
    re.IGNORECASE,
)


def has_doctor(note: ScannedNote) -> bool:
    """Whether the note speaks of a doctor at all."""
    return any(hit.word in _DOCTORS for hit in note.hits("sure:kin"))


def treats(note: ScannedNote, pronoun: Hit) -> bool:
    """Whether whoever a pronoun stands for does what a doctor does: "she ordered a scan", in a note with a doctor."""
    return _TREATS.match(note.text, pronoun.end) is not None and has_doctor(note)


def is_doctors(note: ScannedNote, pronoun: Hit) -> bool:
    """Whether a pronoun may be the doctor's."""
    first, _ = note.sentence(pronoun.start)
    if pronoun.word in ("his", "her"):
        near = _doctor(note, max(first, pronoun.start - 40), pronoun.start)
        if near is not None and _OWNS.match(note.text, pronoun.end):
            return True
        return pronoun.word == "her" and _is_addressed(note, pronoun, first)
    if pronoun.word not in ("he", "she"):
        return pronoun.word == "him" and _is_addressed(note, pronoun, first)
    told = _SAYS.search(note.text, max(first, pronoun.start - 60), pronoun.start) or (
        _JOINED.search(note.text, max(first, pronoun.start - 10), pronoun.start)
        and _ACTS.search(note.text, max(first, pronoun.start - 140), pronoun.start)
    )
    if told and not (_AS_PATIENT.match(note.text, pronoun.end) or PLAINLY.match(note.text, pronoun.end)):
        return True
    if _PRESCRIBES.match(note.text, pronoun.end) and _doctor(note, first, pronoun.start):
        return True
    opens = not note.text[first : pronoun.start].strip(" \t\n-*•,")
    if not opens and not _JOINT.search(note.text, max(first, pronoun.start - 6), pronoun.start):
        return False
    before = note.sentence(first - 1)[0] if opens and first else first
    doctor = _doctor(note, before, pronoun.start)
    if doctor is None:
        return False
    if _AS_DOCTOR.match(note.text, pronoun.end):
        return True
    if PLAINLY.match(note.text, pronoun.end) or _AS_PATIENT.match(note.text, pronoun.end):
        return False
    return (
        _PATIENTS_SENTENCE.match(note.text, before) is None
        and _LEADS.fullmatch(note.text, before, doctor.start) is not None
    )


def _is_addressed(note: ScannedNote, pronoun: Hit, first: int) -> bool:
    """Whether who dictates speaks to the doctor: "I called Dr. A and asked him to see the patient"."""
    text = note.text
    if not _ADDRESSED.search(text, max(first, pronoun.start - 40), pronoun.start):
        return False
    before = note.sentence(first - 1)[0] if first else first
    doctor = _doctor(note, before, pronoun.start)
    if doctor is None or _SPOKEN_OF.search(text, doctor.end, pronoun.start):
        return False
    return _I_REACHED.search(text, before, doctor.start) is not None


def _doctor(note: ScannedNote, start: int, end: int) -> Hit | None:
    """The first doctor within a stretch; "dr" is one before a name only."""
    hits = note.hits("sure:kin")
    for hit in hits[bisect_left(hits, (start,)) : bisect_left(hits, (end,))]:
        if hit.word in _DOCTORS and (hit.word != "dr" or _NAMED.match(note.text, hit.end)):
            return hit
    return None
