"""What denies a finding, or only asks for it, in its sentence.

A cue ("no", "rule out") reaches the findings after it up to the next word that ends the clause, over lists ("no A, B or
C"). Words that only look like a cue ("no change in", "not excluded") are read first and passed over. A finding that the
sentence takes for granted ("did not respond to treatment for his pneumonia") is not denied. The words are in
`cues.yaml`.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import Any, NamedTuple

from palpate.files import read_resource
from palpate.perturb.mentions.devices import is_device, is_intended
from palpate.perturb.mentions.patterns import GIVEN, either, whole_words
from palpate.perturb.mentions.people import is_of_other, is_of_patient
from palpate.perturb.mentions.sentences import NO, Sentence

_ANSWERED = re.compile(r"[^,]{0,60}" + re.escape(NO))
_QUESTION = re.compile(r"[^,;]{0,40}\?\Z")
_REACH = 400
"""A cue reaches at most this many characters."""
_NEAR = 160
"""What follows a finding says something about it within this many characters."""
_FOR = re.compile(r"([\w-]+)\s+for\s")
_MAY_BE_FOR = frozenset(
    [
        "evidence",
        "sign",
        "signs",
        "suspicion",
        "concern",
        "indication",
        "negative",
        "neg",
        "positive",
        "basis",
        "hospitalized",
        "hospitalizations",
        "criteria",
        "workup",
        "work-up",
        "out",
        "concerning",
        "suspicious",
        "worrisome",
        "treat",
        "treated",
        "admitted",
        "admissions",
        "hospitalization",
    ]
)
"""A denial goes on over "for" after these: "no evidence for pneumonia", but "no antibiotics for pneumonia"."""
_KNOWN_BEFORE = re.compile(
    r"\b(?:previous|previously|prior|known|old|earlier|existing|residual)\s+(?:[\w-]+\s+){0,3}\Z"
)


_GONE_SINCE = re.compile(
    r"[^.;]{0,24}\b(?:on (?:the )?(?:film|scan|study|ct|x-ray|cxr) (?:of|from|on)|on admission|previously|yesterday|"
    r"(?:on|in) (?:the |an? |his |her )?(?:outside|prior|previous|old|earlier|last|initial|first)|"
    r"on (?:mon|tues|wednes|thurs|fri|satur|sun)day|initially|last \w+)\b[^.;]{0,24}"
    r"(?:not|cannot|can't|no longer|none)(?: \w+){0,2}(?: on| in)? "
    r"(?:today|now|current|this|any ?more|any longer)\b"
)
""" "Consolidation on the film of the 14th, not seen on today's": the patient had it."""
_OTHER_THAN = re.compile(
    r"\s*(?:other than|except(?: for)?|besides|apart from|aside from|beyond) (?:the|that|those|what|his|her|an?)\b"
)
""" "No opacity other than the one at the right base"."""
_TREATED = re.compile(r"[^.;]{0,24},? (?:will |to )?(?:start|begin|treat|cover|rx|empiric)\w*\b")
""" "? early pneumonia, start azithromycin"."""
_VERSUS = re.compile(r"\b(?:versus|vs)\b")
""" "Question heart failure versus pneumonia": the patient may have either."""
_LOOKS_LIKE = re.compile(r"\bwhat (?:looks?|looked|appears?|appeared|seems?|seemed) (?:like|to be) (?:[\w-]+ ){0,3}\Z")
_IS_ANOTHER = re.compile(
    r"[^.;,]{0,30} (?:is|was|are|were) (?!seen|present|noted|also|again|still|now|at\b|in\b|on\b|unchanged|stable)"
)
""" "What looks like cardiomegaly is a fat pad"."""
_WITHOUT = ("without", "w/o")
"""They deny one thing, not what a verb says next: "CT without contrast showed an effusion"."""
_SAID_NEXT = re.compile(r",\s+(?:this|it|that|these|there)\s+(?:may|might|could|would)\b")
""" "Without old films, this may be pneumonia"."""
_HEDGED = re.compile(r" (?:but |and |or )?(?:probably|possibly|likely|perhaps|maybe|mildly|slightly|borderline)\b")
""" "Heart size at the upper limit, probably enlarged"."""
_TOPIC = re.compile(
    r"\b(?:with (?:regards?|respect) to|regarding|as for|as regards|in terms of)\s+(?:[\w-]+\s+){0,3}\Z"
)


class Cue(NamedTuple):
    """A word that denies or asks for what follows."""

    start: int
    end: int
    kind: str
    """`deny`, `not` (before a verb), `bare` (a "not" without such a verb), `ask`, `query` ("?") or `family`."""
    word: str


class Patterns(NamedTuple):
    """The words of `cues.yaml`, compiled."""

    cues: re.Pattern[str]
    ends: re.Pattern[str]
    new_clause: re.Pattern[str]
    after: re.Pattern[str]
    own_verb: re.Pattern[str]
    answered: re.Pattern[str]
    told: re.Pattern[str]
    no_finding: re.Pattern[str]
    dismissed: re.Pattern[str]
    """Denies what a sentence is said to be about."""
    verbs: re.Pattern[str]
    conditions: frozenset[str]
    may_end: frozenset[str]
    places: frozenset[str]
    """Phrases that name a place of the body, not a finding."""
    given_up: re.Pattern[str]
    """What says after a finding that it only seemed to be one, or was thought of and given up."""
    abnormal: re.Pattern[str]
    """Turns a place into a finding."""
    not_abnormal: re.Pattern[str]


class ReadSentence:
    """A sentence whose mentions are judged; nothing is read before it is needed."""

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.text = sentence.lower

    def affirms(self, start: int, end: int, phrase: str) -> bool:
        """Whether the mention at this place says that the patient has, had or may have the finding."""
        if self.sentence.of_family and not is_of_patient(self.sentence.text):
            return False
        if self._is_denied(start, end):
            return False
        if phrase in _patterns().places and not self._is_abnormal(start, end):
            return False
        if is_device(phrase) and is_intended(self.text, start, end):
            return False
        return not is_of_other(self.sentence.text, start, end)

    @cached_property
    def _cues(self) -> list[Cue]:
        found = []
        for match in _patterns().cues.finditer(self.text):
            kind = str(match.lastgroup)
            if kind != "skip":
                found.append(Cue(match.start(), match.end(), kind, match.group()))
        return found

    @cached_property
    def _ends(self) -> list[tuple[int, int]]:
        """Where clauses end. What has a cue in it is no end ("not due to", ", if he has")."""
        both = (*_patterns().ends.finditer(self.text), *_patterns().new_clause.finditer(self.text))
        spans = sorted((match.start(), match.end()) for match in both)
        return [(low, high) for low, high in spans if not any(c.start < high and low < c.end for c in self._cues)]

    def _is_denied(self, start: int, end: int) -> bool:
        while end < len(self.text) and (self.text[end].isalnum() or self.text[end] == "-"):
            end += 1  # the rest of the word
        after = self.text[end : end + _NEAR]
        if _patterns().no_finding.match(after) or _ANSWERED.match(after):
            return True
        if _QUESTION.match(after) and not GIVEN.search(self.text, max(0, start - 60), start):
            return True
        if self._denied_after(start, after):
            return True
        if _LOOKS_LIKE.search(self.text, max(0, start - 60), start) and _IS_ANOTHER.match(after):
            return True
        if _TOPIC.search(self.text, max(0, start - 60), start) and _patterns().dismissed.search(after):
            return True
        return self._denied_before(start, after)

    def _denied_after(self, start: int, after: str) -> bool:
        if _patterns().given_up.match(after):
            return True
        if _GONE_SINCE.match(after):
            return False
        found = _patterns().after.match(after)
        if found is None or _KNOWN_BEFORE.search(self.text, max(0, start - 60), start):
            return False
        gap = found["gap"]
        return "," not in gap or re.search(r"\b(?:or|nor|and)\b", gap) is not None

    def _denied_before(self, start: int, after: str) -> bool:
        cue = self._cue_before(start)
        if cue is None:
            return False
        gap = self.text[cue.end : start]
        if cue.kind == "family":
            return True
        if _OTHER_THAN.match(after):
            return False
        if cue.kind == "query" and _TREATED.match(after):
            return False
        if cue.word == "question" and _VERSUS.search(f"{gap} {after.partition('.')[0]}"):
            return False
        if cue.kind in ("ask", "query"):
            found = cue.word not in _patterns().conditions and _patterns().answered.match(after)
            return not (GIVEN.search(gap) or found)
        return not self._is_outside(cue, gap, start, after)

    def _cue_before(self, start: int) -> Cue | None:
        """The last cue before a place, in its clause."""
        last = max((stop for _, stop in self._ends if stop <= start), default=0)
        low = max(last, start - _REACH)
        for cue in reversed(self._cues):
            if cue.end <= start:
                if cue.start < low:
                    return None
                if cue.kind != "bare" or len(self.text[cue.end : start].split()) <= 2:
                    return cue
        return None

    def _is_outside(self, cue: Cue, gap: str, start: int, after: str) -> bool:
        """Whether a finding after a denial is not what is denied."""
        words = _patterns()
        if cue.word in words.may_end and re.match(r"\s*,|\s+(?:and|by|on|with)\b", gap):
            return True
        if GIVEN.search(gap) and cue.word not in words.may_end:
            return True
        if cue.word in _WITHOUT and _SAID_NEXT.search(gap):
            return True
        if cue.word in _WITHOUT and words.verbs.search(gap) and " that " not in gap:
            return True
        treated = _FOR.search(gap)
        if treated is not None and treated[1] not in _MAY_BE_FOR:
            return True
        item = gap.rpartition(",")[2]
        joined = re.search(r"\b(?:or|nor)\b", item) is not None
        if cue.kind == "bare":
            return re.search(r",|\b(?:with|for|from|of|on|in|at|to|by)\b", gap) is not None
        if "," not in gap:
            return bool(re.search(r"\band\b", gap)) and words.own_verb.match(after) is not None
        if joined:
            return False
        if words.own_verb.match(after):
            return True
        rest = self.text[cue.end : start + _NEAR]
        told = words.told.search(f"{item} {after.partition(',')[0]}")
        return told is not None and re.search(r"\b(?:or|nor)\b", rest) is None

    def _is_abnormal(self, start: int, end: int) -> bool:
        """Whether a place is called abnormal, between the commas or ends of the clause around it."""
        low = max((stop for _, stop in self._ends if stop <= start), default=0)
        high = min((first for first, _ in self._ends if first >= end), default=len(self.text))
        own, _, more = self.text[end:high].partition(",")
        own = f"{own} {more.partition(',')[0]}" if _HEDGED.match(more) else own
        said = f"{self.text[low:start].rpartition(',')[2]} {own}"
        return _patterns().abnormal.search(_patterns().not_abnormal.sub(" ", said)) is not None


@cache
def _patterns() -> Patterns:
    data = read_resource("palpate.perturb.mentions", "cues.yaml")
    places = read_resource("palpate.perturb.mentions", "phrases.yaml")
    adverbs = rf"(?: (?:{either(data['modifiers'])}|[a-z]+ly))"
    verbs = either(data["verbs"])
    skip = either(data["not_denials"], star=f"{adverbs}{{0,3}} ")
    negations = either(data["negations"])
    verbal = rf"{negations}{adverbs}{{0,2}} {either(data['not_followed_by'])}"
    abnormal = either(places["abnormal"])
    return Patterns(
        cues=whole_words(
            rf"(?P<skip>{skip})|(?P<ask>{either(data['asked_after'])})|(?P<not>{verbal})"
            rf"|(?P<deny>{either(data['denied_after'])})|(?P<family>{either(data['family_after'])})"
            rf"|(?P<bare>{negations}|{either(data['refusals'])}|negative|neg)",
            r"(?P<query>\?)(?= ?\w)",
        ),
        ends=whole_words(
            rf"(?!but (?:are |is |were |was )?not (?:necessarily )?limited){either(data['ends'])}"
            rf"|(?:and|,(?: and)?) {either(data['ends_after_comma'])}"
        ),
        new_clause=whole_words(
            rf"(?:and|,(?: and)?) (?:(?!or |nor |and )[\w'/-]+ ){{1,4}}?{verbs}"
            rf"|(?:is|was|are|were|been) (?:\w+ ){{0,2}}?{either(data['not_before'])}(?: [\w'/-]+){{0,4}},"
        ),
        after=_after(data),
        own_verb=re.compile(rf"(?: [\w'/-]+){{0,3}}? {verbs}(?![\w-])"),
        answered=re.compile(
            r"[^,;]{0,40}?(?:, which )?\b(?:was|were|is|came back|returned|and) (?:\w+ly )?"
            rf"{either(data['asked_and_found'])}(?![\w-])"
        ),
        told=whole_words(either(data["told"]) + r"|in (?:19|20)\d\d|x ?\d+"),
        no_finding=re.compile(rf"(?:(?:,| and| or|/)\s*[\w-]+){{0,3}}[ /-]{either(data['not_findings'])}(?![\w-])"),
        dismissed=whole_words(
            r"no (?:(?!change|changes|increase|worsening|improvement|recurrence)[\w/-]+ ){0,4}?"
            r"(?:evidence|signs?|indications?|suggestion)"
            rf"|none|(?:is|was|were|are|been) (?:\w+ )?{either(data['may_end'])}"
        ),
        verbs=whole_words(verbs),
        conditions=frozenset(data["conditions"]),
        may_end=frozenset(data["may_end"]),
        places=frozenset(places["places"]),
        given_up=_given_up(data),
        abnormal=whole_words(abnormal),
        not_abnormal=whole_words(rf"(?:no|not|nor|without)(?: \w+){{0,3}} {abnormal}"),
    )


def _given_up(data: Any) -> re.Pattern[str]:
    """Words after a finding that take it back: "turned out to be the nipple", "was considered and dropped"."""
    is_ = r"(?:turned out|proved|is|are|was|were|represents?|represented|due|from|corresponds?)"
    seemed = rf"[^.;,]{{0,60}}\b{is_}\b(?: to| be)*(?: [\w-]+){{0,3}}? {either(data['seeming'])}"
    dropped = (
        rf"[^.;,]{{0,20}} (?:was|were|is|had been)(?: \w+)? {either(data['thought_of'])}\b"
        rf"[^.;]{{0,30}}\b{either(data['given_up'])}"
    )
    not_found = (
        r"[^.;]{0,20}, but [^.;]{0,60}\b(?:neither|nobody|no one|none|not|cannot|can't|unable|never)\b[^.;]{0,50}\b"
        r"(?:find|see|identify|confirm|reproduce|locate|appreciate|found|seen|confirmed) (?:one|it|this|any|them|that)"
    )
    failed = r"[^.;,]{0,20} attempt\w*[^.;]{0,30} (?:without success|unsuccessful\w*|failed|aborted)"
    not_begun = r" (?:pathway|protocol|bundle)\b[^.;,]{0,12} not (?:started|begun|initiated|needed|indicated)"
    mistaken = (
        r"[^.;]{0,60}\b(?:listed|entered|charted|coded|documented|recorded|copied|carried forward)\b[^.;]{0,20}"
        r"\b(?:in error|by mistake|erroneously|mistakenly|from another)"
    )
    taken_back = (
        r"[^.;,]{0,30},? (?:which|that) (?:was|were|is|turned out)(?: (?:later|then|subsequently|now))?"
        rf"(?: (?:felt|thought|found|shown|believed))? "
        rf"(?:{either(data['given_up'])}|not (?:to be|to have been) {either(data['not_so'])})"
    )
    return re.compile(rf"(?:{seemed}|{dropped}|{not_found}|{failed}|{not_begun}|{mistaken}|{taken_back})(?![\w-])")


def _after(data: Any) -> re.Pattern[str]:
    """Words after a finding that deny it, behind the rest of its phrase and list and the auxiliary verbs."""
    stop = either([*data["verbs"], *data["negations"], *data["ends"], *data["not_between"]])
    aside = r"(?:, (?:al)?though [\w -]{1,40},)?"  # "pneumonia, though considered, was unlikely"
    gap = rf"(?P<gap>(?:,? (?!{stop}\b)[\w'()/-]+){{0,8}}?){aside}"
    but = r"but(?: (?:was|were|then|later|subsequently))?(?= (?:not|ruled|excluded|absent|negative))"
    aux = rf"(?:,? (?:{either(data['auxiliaries'])}|{but}|[a-z]+ly)){{0,7}}?"
    verb = rf"(?:,? (?:{either(data['auxiliaries'])}|{but}|[a-z]+ly)){{1,7}}?"
    opinion = r"(?:appear|seem|thought|felt|believed|considered|deemed|judged|suspected) to be"
    between = rf"(?: (?:been|be|{opinion}|to be|clearly|definitely|[a-z]+ly|yet|to have)){{0,2}}"
    negated = (
        rf"(?:{either(data['negations'])}{between} "
        rf"(?<!previously )(?<!before ){either(data['not_before'])})"
    )
    undone = rf"(?! {either(data['undone'])})"
    none = r"(?:there (?:is|was) )?(?:no evidence|none)(?! (?:of|for|that|on)\b)"
    # "pneumonia, unlikely PE": before a noun these words are about the noun, unless a verb stands before them.
    alone = rf"{either(data['may_end'])}(?=[^\w ]|$| {either(data['after_may_end'])}\b)"
    plain = rf"(?:{either([word for word in data['denied_before'] if word not in data['may_end']])}|{negated})"
    after_verb = rf"{verb},? {either(data['may_end'])}(?![\w-]){undone}"
    return re.compile(rf"{gap}(?:{aux},? (?:{plain}(?![\w-]){undone}|{none}(?![\w-]))|,? {alone}|{after_verb})")
