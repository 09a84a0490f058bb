"""Whom the sentence before a pronoun is about: a relative, a donor or a provider of the patient's own gender.

"Daughter is HCP. She would like to be called." Grammar does not show that she is not the patient, so such a pronoun is
unsure, unless what follows is clearly about the patient ("She denies chest pain") or the sentence before reported on
the patient ("Daughter states she fell. She has pain.").
"""

from __future__ import annotations

import re

from palpate.perturb.characteristics.gender.pronouns import read_her
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, OF_SOME, OTHERS, RELATIVES

_NOT_ONE = (
    "family parents children kids siblings cousins relatives grandchildren grandparents twins twin friends "
    "neighbors donors babies infants newborns neonates baby infant newborn neonate fetus fetal foetus child "
    "kid fathers brothers sons uncles nephews sisters daughters aunts nieces mothers grandmothers grandfathers "
    "assailant chaperone relative"
)
_SINGLE = OTHERS - frozenset(_NOT_ONE.split())
_LEADS = re.compile(
    r"[\s\-*•]*(?:(?:his|her|the|a|both|and|pt['’]?s|(?:the\s+)?patient['’]s|living|related|unrelated|deceased|maternal|paternal|"
    r"older|elder|younger|oldest|youngest|eldest|adult|elderly|only|ex|step|half|\d+[\s-]*(?:yo|y/o|years?[\s-]old))[\s-]+)*",
    re.IGNORECASE,
)
_REPORTS = re.compile(
    r"(?:-in-law)?(?:\s*\([^)]*\)|,[^,.;]{1,20},)?\s+(?:also\s+|who\s+|then\s+)*(?:reports?|reported|states?|stated|says?|said|notes?|"
    r"noted|noticed|found|brought|called|thinks?|thought|feels?|felt|(?:is|was)\s+concerned|believes?|describes?|described|"
    r"mentions?|mentioned|told|tells|confirms?|confirmed|saw|drove|took|denies|denied)\b",
    re.IGNORECASE,
)
_IS_THERE = re.compile(
    r"(?:-in-law)?(?:\s*\([^)]*\)|,[^,.;]{1,20},)?\s+(?:(?:is|was|remained|also)\s+){0,2}(?:at\s+(?:the\s+)?bedside|present|here|"
    r"in\s+the\s+room|updated|informed|notified|aware)\b",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r"\s+(?:\w+ly\s+|also\s+|then\s+)?(?:ask|would|wants|wish|agree|state|say|said|report|will|works|lives|can|understand|drove|came|"
    r"brought|visit|is\s+(?:aware|HCP|the|a|an|his|her)|was\s+(?:aware|told|updated|informed|present|able|very|concerned))",
    re.IGNORECASE,
)
PLAINLY = re.compile(
    r"(?:['’]s)?\s+(?:\w+ly\s+|also\s+|otherwise\s+|now\s+|then\s+)?(?:presents?|presented|den(?:y|ies|ied)|endorse[sd]?|complain(?:s|ed)|"
    r"c/o|tolerat|underwent|remain(?:s|ed)|follows|appears|ambulat|(?:was|is|has\s+been|had\s+been|will\s+be)\s+(?:also\s+|then\s+|"
    r"initially\s+|subsequently\s+)?(?:admitted|transferred|discharged|intubated|extubated|hospitalized|evaluated|started|given|"
    r"referred|afebrile|alert|oriented|placed|noted|tolerating|scheduled|accompanied|here\s+(?:for|today)|followed|in\s+no|"
    r"presenting|monitored|consented))",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"\s+(?:last\s+|first\s+|former\s+|current\s+|previous\s+)?(?:name|number|phone|cell|car|house|home|job|work|husband|boyfriend|wife|girlfriend|children|kids|mother|father|address|"
    r"email|own)\b",
    re.IGNORECASE,
)
_REACHES = re.compile(
    r"\b(?:call|contact|notify|update|updated|reach|phone|page|paged|called|contacted|notified|informed|reached|"
    r"(?:spoke|discussed|speak|discuss)(?:\s+\w+)?\s+(?:with|to))\s+$",
    re.IGNORECASE,
)
_REACHES_KIN = re.compile(
    r"(?:"
    + _REACHES.pattern.removesuffix("$")
    + r"|\b(?:(?:history|information|story)\b[^.;]{0,30}|obtained|provided|given|supplied|gathered|"
    r"taken)\s+(?:from|by|through|per)\s+|\bper\s+"
    r")(?:(?:his|her|the|pt['’]?s|patient['’]s|adult|eldest|oldest|youngest)\s+){0,3}$",
    re.IGNORECASE,
)
_PROVIDER = re.compile(
    r"\b(?:Dr\b|Drs\b|MD\b|NP\b|PA\b|RN\b|PCP\b|(?i:doctor|nurse|surgeon|[a-z]+ologist|attending|therapist|physician|midwife)\b)"
)
_OPENS_WITH_PROVIDER = re.compile(
    r"\W*(?:(?:His|Her|The|Their|My|Our)\s+)?(?:(?!(?:patient|pt|he|she|they)\b)[\w-]+\s+){0,2}?" + _PROVIDER.pattern
)
"""The subject of a sentence is a provider: "Her PCP Dr. Lee started her on prednisone"."""
_WITH_PROVIDER = re.compile(
    _PROVIDER.pattern + r"(?:\.?[ \t]+(?:\[\*\*[^\]]*\]|_{2,}|[A-Z][\w'’-]+)){0,2}[ \t]+and[ \t]+$"
)
_ASKED = re.compile(
    r"\b(?:asked|consulted|called|requested)\s+(?:that\s+)?(?:[\w']+\s+){0,2}?(?:"
    + _PROVIDER.pattern
    + r")[^;]{0,40}\bpatient\s+and\s+$"
)
_AIDES = frozenset(
    ["aide", "hha", "pca", "vna", "nurse", "rn", "landlord", "landlady", "supervisor", "coworker", "teacher"]
)
_REPORTER = re.compile(
    r"\b(?P<who>[A-Za-z]+)(?:,\s+(?:and\s+)?|(?P<says>\s+(?:reports?|reported|states?|stated|says?|said|notes?|noted)(?:\s+that)?\s+))$",
    re.IGNORECASE,
)
_WITNESSES = re.compile(
    r"\s+(?:then\s+|last\s+)?(?:heard|saw|found|noticed|called|checked|arrived|walked\s+in|came\s+(?:home|in)|went\s+(?:to|in)|"
    r"tried\s+to\s+wake|spoke|gave|witnessed)\b",
    re.IGNORECASE,
)
_IS_CONCERNED = re.compile(
    r"\s+(?:is|was|has\s+been)\s+(?:very\s+|quite\s+)?(?:concerned|worried)\b|\s+(?:states|says|reports|said|stated|would\s+like)\b",
    re.IGNORECASE,
)
_CALLS_HELP = re.compile(
    r"\s+(?:then\s+|immediately\s+)?called\s+(?:911|EMS|an?\s+ambulance|the\s+police)\b", re.IGNORECASE
)
_COUPLE = re.compile(r"\b(?:Mr|Mrs|Ms)\.?\s+(?:and|&)\s+(?:Mr|Mrs|Ms)\b")
_KIN_OF_ONES_OWN = (
    r"(?:has(?:\s+had)?|does\s+not\s+have|doesn't\s+have)\s+(?:an?|any|no|one|two|three|four|five|six|seven|\d+|several|many|another|other|both)\s+"
    r"(?:[\w-]+\s+){0,3}?(?:siblings?|brothers?|sisters?|aunts?|uncles?|cousins?|grandparents?"
)
_HAS_KIN = re.compile(rf"\s+(?:also\s+)?(?:{_KIN_OF_ONES_OWN})|is\s+(?:unaware|not\s+aware)\s+of)\b", re.IGNORECASE)
OWN_STORY = re.compile(
    r"\s+(?:also\s+)?(?:denies|reports|endorses|states|notes|believes|(?:is|was)\s+(?:adopted|unaware|unsure|not\s+(?:aware|sure)|"
    r"the\s+(?:only|oldest|youngest)|one\s+of)|does\s+not\s+know|doesn't\s+know|"
    rf"{_KIN_OF_ONES_OWN}|child(?:ren)?|sons?|daughters?|known|relatives?|family|kids))\b",
    re.IGNORECASE,
)
"""What only the patient says, even after a sentence about a relative: "He has two sisters"."""
_KIN_NEXT = re.compile(r"\s+(?:[a-z-]+\s+)?(?:" + "|".join(sorted(RELATIVES)) + r")\b", re.IGNORECASE)
_TREATS = re.compile(
    r"\s+(?:then\s+|also\s+|has\s+|had\s+|\w+ly\s+)?(?:order|recommend|prescrib|advis|suggest|refer|perform|evaluat|examin|explain|"
    r"increas|decreas|adjust|wrote|remov|inject|repair|saw\s+(?:her|him|the)|wants\s+(?:her|him|the)|"
    r"(?:felt|feels|thought|thinks)\s+(?:that|it|the|this|there|her|his|he|she)\b|will\s+(?:order|arrange|discuss)\b|"
    r"review|assess(?:ed|es)\b|sign(?:ed|s)\b|consult(?:ed|s)\b|decid|diagnosed\b|called\s+back|came\s+to\s+(?:see|evaluate))",
    re.IGNORECASE,
)
_GIVES_CARE = re.compile(
    r"\s+(?:then\s+|also\s+)?(?:gave|administered|performed|measured|checked|took\s+(?:a|the|an)\b|called|drove|brought|reported\s+the|noticed|"
    r"tried\s+to\s+(?:feed|give|wake))\b",
    re.IGNORECASE,
)
"""What a parent does: "Her mother thought she felt hot. She gave a dose"."""
_DONATES = re.compile(r"\bdonat(?:ed|es|ing)\b|\bdonor\b", re.IGNORECASE)
_CLAUSE_BEFORE = re.compile(r"(?:^|[,:])\s*(?P<clause>[^,:]+),\s*(?:and\s+|but\s+)?$", re.IGNORECASE)
_OBJECT_SOON = re.compile(r"\s+(?:\w+\s+){1,3}?(?P<object>her|him)\b", re.IGNORECASE)
_BLANK_LINE = re.compile(r"\n[ \t]*\n")


_WHO_DIED = re.compile(
    r"[\s\-*•,]*(?:his|her|the\s+patient['’]s)\s+(?:[\w-]+\s+){0,2}?(?:died|passed\s+away|is\s+deceased)\b",
    re.IGNORECASE,
)
_ALIVE = re.compile(
    r"\s+(?:also\s+|currently\s+|now\s+|still\s+|otherwise\s+)?(?:is|has|does|denies|lives|works|smokes|takes|reports|drinks|feels|uses|wants)\b",
    re.IGNORECASE,
)


def goes_on_alive(text: str, before: int, first: int, end: int) -> bool:
    """ "Her sister died at 65. She has two aunts": the patient."""
    return _WHO_DIED.match(text, before, first) is not None and _ALIVE.match(text, end) is not None


class Subjects:
    """The subjects of a note whose patient has a known gender."""

    def __init__(self, note: ScannedNote, base: str) -> None:
        self._note, self._base = note, base
        self._people = [hit for hit in note.hits("people") if self._may_be_alike(hit)]

    def _may_be_alike(self, hit: Hit) -> bool:
        return hit.word in _SINGLE and GENDER_OF_KIN.get(hit.word, self._base) == self._base

    def is_subject(self, person: Hit) -> bool:
        """Whether a person opens the sentence, as in "her older sister", but not in "lives with her sister"."""
        note = self._note
        first, _ = note.sentence(person.start)
        if person.start - first > 60 or note.text[person.end : person.end + 2] in ("'s", "’s"):
            return False
        return _LEADS.fullmatch(note.text, first, person.start) is not None

    def may_mean_another(self, hit: Hit) -> bool:
        """Whether a pronoun of the patient's gender may refer to the subject of the sentence before."""
        text = self._note.text
        if self._is_in_providers_sentence(hit) or self._is_reporter(hit) or self._follows_clause(hit):
            return True
        before = self._sentence_before(hit)
        first, _ = self._note.sentence(hit.start)
        if hit.word in ("he", "she") and _CALLS_HELP.match(text, hit.end):
            low = first if before is None else before
            return any(low <= person.start < hit.start for person in self._people)
        if before is None:
            return False
        opens = not text[first : hit.start].strip(" \t\n-*•")
        if opens and hit.word in ("he", "she"):
            if _COUPLE.search(text, before, first):
                return True
            if _TREATS.match(text, hit.end) and _PROVIDER.search(text, before, first):
                return True
            if self.has_object_alike(hit) and (
                self._is_about_another(before, first, reports=True) or _PROVIDER.search(text, before, first)
            ):
                return True
            if _GIVES_CARE.match(text, hit.end) and self._opens_with_kin(before):
                return True
            if PLAINLY.match(text, hit.end) or _HAS_KIN.match(text, hit.end):
                return False
            if goes_on_alive(text, before, first, hit.end):
                return False
            speaks = _SPEAKS.match(text, hit.end) is not None
            return self._is_about_another(before, first, passing=not speaks) or (
                speaks and self._reached(before, first)
            )
        if opens and hit.word in ("his", "her"):
            if _PERSONAL.match(text, hit.end):
                return self._is_about_another(before, first)
            close = text[first - 1] == ";" or _DONATES.search(text, before, first)
            if not close or _KIN_NEXT.match(text, hit.end):
                return False
            return self._is_about_another(before, first, passing=True)
        reached = hit.word in ("him", "her") and _REACHES.search(text, max(first, hit.start - 30), hit.start)
        return bool(reached) and self._is_about_another(before, first)

    def _opens_with_kin(self, before: int) -> bool:
        """Whether a sentence is about a relative of the patient's gender: "Her mother thought she felt hot"."""
        return any(self._note.sentence(kin.start)[0] == before and self.is_subject(kin) for kin in self._people)

    def _is_in_providers_sentence(self, hit: Hit) -> bool:
        """ "Dr. Lee saw him and he recommended a CT", "seen with the RN and her interpreter"."""
        text = self._note.text
        first, _ = self._note.sentence(hit.start)
        if hit.word in ("his", "her"):
            with_provider = _WITH_PROVIDER.search(text, max(first, hit.start - 40), hit.start)
            return with_provider is not None and not _KIN_NEXT.match(text, hit.end)
        treats = hit.word in ("he", "she") and _TREATS.match(text, hit.end)
        return bool(treats) and _PROVIDER.search(text, first, hit.start) is not None

    def _is_reporter(self, hit: Hit) -> bool:
        """ "Aide states she heard a thud", "called by the daughter, she is concerned"."""
        text = self._note.text
        if hit.word not in ("he", "she"):
            return False
        witnesses, concerned = _WITNESSES.match(text, hit.end), _IS_CONCERNED.match(text, hit.end)
        if not (witnesses or concerned):
            return False
        first, _ = self._note.sentence(hit.start)
        before = _REPORTER.search(text, max(first, hit.start - 60), hit.start)
        if before is None:
            return False
        who = before.group("who").lower()
        if who not in _AIDES and GENDER_OF_KIN.get(who, self._base if who in OTHERS else "") != self._base:
            return False
        return bool(witnesses if before.group("says") else concerned)

    def _follows_clause(self, hit: Hit) -> bool:
        """ "Here with her mother, mother works nights, she has no concerns": the clause before is about another."""
        text = self._note.text
        if hit.word not in ("he", "she") or PLAINLY.match(text, hit.end) or _HAS_KIN.match(text, hit.end):
            return False
        first, _ = self._note.sentence(hit.start)
        before = _CLAUSE_BEFORE.search(text[first : hit.start])
        if before is None:
            return False
        start, end = (first + at for at in before.span("clause"))
        return any(
            start <= person.start
            and person.end < end
            and _LEADS.fullmatch(text, start, person.start)
            and text[person.end : person.end + 1].isspace()
            and not (_REPORTS.match(text, person.end) or _IS_THERE.match(text, person.end))
            for person in self._people
        )

    def is_providers(self, hit: Hit) -> bool:
        """ "Dr. Lee saw her. He ordered a CT": not the husband."""
        if hit.word in ("he", "she") and self._is_in_providers_sentence(hit):
            return True
        before = self._sentence_before(hit) if hit.word in ("he", "she") else None
        if before is None or not _TREATS.match(self._note.text, hit.end):
            return False
        return _PROVIDER.search(self._note.text, before, self._note.sentence(hit.start)[0]) is not None

    def is_asked(self, first: int, end: int) -> bool:
        """ "I have asked Dr. Lee to see the patient and he has done so": the doctor, and no slip of the pen."""
        return _ASKED.search(self._note.text, first, end) is not None

    def is_of_later_provider(self, person: Hit, hit: Hit) -> bool:
        """ "Lives with her husband. Her PCP started her on prednisone; he gave it for a week": not the husband."""
        first, _ = self._note.sentence(hit.start)
        if hit.word not in ("he", "she") or person.start >= first:
            return False
        start = self._note.sentence(person.start)[1]
        subject = self._sentence_before(hit)
        return (
            subject is not None
            and subject >= start
            and _OPENS_WITH_PROVIDER.match(self._note.text, subject) is not None
        )

    def _sentence_before(self, hit: Hit) -> int | None:
        note = self._note
        first, _ = note.sentence(hit.start)
        if first == 0:
            return None
        before, _ = note.sentence(first - 1)
        if note.in_family(before) or _BLANK_LINE.search(note.text[before : hit.start].lstrip()):
            return None
        return before

    def _reached(self, before: int, first: int) -> bool:
        """ "Called her daughter. She is aware." "History is obtained from her daughter. She states that ..." """
        text = self._note.text
        return any(
            before <= person.start < first and _REACHES_KIN.search(text, max(before, person.start - 40), person.start)
            for person in self._people
        )

    def has_object_alike(self, hit: Hit) -> bool:
        """ "She gave her tylenol": one of the two is not the patient."""
        text = self._note.text
        match = _OBJECT_SOON.match(text, hit.end) if hit.word in ("he", "she") else None
        if match is None:
            return False
        word = match.group("object").lower()
        if word == "him":
            return hit.word == "he"
        return hit.word == "she" and read_her(text, *match.span("object")) == "him"

    def _is_about_another(self, before: int, first: int, *, passing: bool = False, reports: bool = False) -> bool:
        """Whether somebody else is the subject.

        With `passing`, a person who is only present ("at the bedside") does not count; with `reports`, one who reports
        does.
        """
        text = self._note.text
        return any(
            before <= person.start < first
            and self.is_subject(person)
            and (reports or not _REPORTS.match(text, person.end))
            and not OF_SOME.match(text, person.end)
            and not (passing and _IS_THERE.match(text, person.end))
            for person in self._people
        )
