"""The phrases that introduce the patient: "63 year old African American man", "63M", "a pleasant woman with asthma".

A mention may be inserted into such a description: before its noun ("63 year old White man"), or before the age if there
is no noun ("White 63M", "White 63 year old with asthma").
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from palpate.perturb.characteristics.definitions import built_in
from palpate.perturb.characteristics.reading import Hit, ScannedNote, lazy
from palpate.perturb.characteristics.reading.ages import Age, find_ages
from palpate.perturb.characteristics.reading.past_ages import speaks_of_infant
from palpate.perturb.characteristics.reading.people import NOUNS, REMEMBERED, belongs_to_patient

_STOP = (
    r"(?!(?:with|who|whom|presents|presenting|presented|is|was|has|had|history|hx|status|and|or(?!\s+(?-i:[A-Z]))|admitted|transferred|found|here|"
    r"in|on|for|to|from|a|an|the|this|that|whose|which|complaining|came|by|at|of|brought|seen|being|recently|now|due|after|"
    r"his|her|he|she|reports|denies|states|lives|living|w|s|p|h|c)\b)"
)
_NAMES_DISEASE = (
    r"[\s–-]+(?:pattern(?:ed)?|androgen(?:et)?ic|(?:type|distribution)\s+(?:of\s+)?(?:hair|bald|alopecia)\w*|hypogonadism|"
    r"(?:factor\s+)?infertility|athlete\s+triad|circumcision|syndrome)\b"
)
"""What makes "male" or "female" part of a disease's name: "male-pattern alopecia" in a woman's note."""
_TO_NOUN = re.compile(
    rf"(?:[\s,]+(?:{_STOP}[A-Za-z][\w'’/-]*|\d+[\s-]?kg)){{0,6}}?[\s,]+(?P<noun>(?:fe[\s-]male|{'|'.join(NOUNS)}|transgender(?!\s+(?:{'|'.join(NOUNS)}|patient|pt|(?:AA|W|B)?[MF])\b)|trans-?(?:(?:wo)?man|(?:fe)?male)|pt|patient)\b"
    rf"(?![-’']\w)(?!{_NAMES_DISEASE})|(?-i:[RL]HD?(?P<woman>W)(?![\w'’/]|[ ][MF]\b)|"
    rf"(?:[RL]HD?[ ]?)?(?P<race>(?:AA|[WBHC])/|[WB][ ]|AA|[WB]|C(?=M)|"
    rf"(?<=H)[CH])?(?P<letter>[MF])"
    r"|(?:aa|w|b)/?(?P<small>[mf]))(?![\w'’/]))",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"[RL]HD?[ ]?|(?i:trans-?)(?=[a-z])")
"""What is before the noun or its letter in one word: right-handed or left-handed ("63 yo RHM"), "transman"."""
_CLOSED = re.compile(r"trans-?(?=[mwf])", re.IGNORECASE)
_HANDED_BEFORE = re.compile(r"\b[RL]HD?(?:AA|[WBHC])?$")
_HANDED_RACE = re.compile(r"[\s,]*[RL]HD?[ ]?(?:AA|[WBHC])/?[MF]\b")
_LETTERS_BEFORE = re.compile(r"\b(?:AA|[WBH])/?[MF][\s,]+$")
_NOUN_BEFORE = re.compile(rf"\b(?P<noun>{'|'.join(NOUNS)})[\s,(]+(?:aged?\s+)?$", re.IGNORECASE)
_LETTER_BEFORE = re.compile(r"(?<![\w/])[MF]\s+$")
_TITLED = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Miss)\.?\s+$")
_BEFORE_NAME = re.compile(r"\b(?!A\b|An\b|This\b)[A-Z][a-z]+[ \t]+$")
_INTRODUCES = re.compile(
    r"(?:\b(?:is|was|this|a|an|the|very|old|gen|general|pleasant|appearing|nourished|developed|dominant|handed)\b[\s:,]*|[:.]\s*|^\s*|"
    r"\n\s*|\b\d{0,3}(?:[A-Za-z-]+(?:ed|ing|ic|al|ly|ous|ent|ive|ful|ish|ile|sh|ed|ant|an|y)|(?:[A-Za-z]+-)?(?:weight|obese|frail|thin|homeless|overweight|underweight))[\s,]+)$",
    re.IGNORECASE,
)
_ADJECTIVES = re.compile(rf"(?:[\s,]+{_STOP}[A-Za-z][\w'’-]*){{0,3}}[\s,]+", re.IGNORECASE)
_MORE_ADJECTIVES = re.compile(
    r"(?:\s+(?:obese|overweight|underweight|uninsured|insured|homeless|housed|[A-Z][a-z]+-speaking|Asian|"
    r"Hispanic|White|African American)){1,3}\s+"
)
"""What we write ourselves between an adjective and an age: "Uninsured obese Asian 63F"."""
_SOMEBODY = re.compile(
    r"\b(?:by|from|with|another|other|for|against|between|to|two|three|some|several|unknown|many|younger|older|both|no|any|of|"
    r"involving|like|than|where|when)\s+(?:an?\s+|the\s+|another\s+|this\s+)?(?:[\w-]+\s+){0,3}$",
    re.IGNORECASE,
)
_CASE_OF = re.compile(
    r"\bcase(?:\s+reports?|\s+history|\s+study)?\s+of\s+(?:an?\s+|this\s+)(?:[\w-]+\s+){0,3}$", re.IGNORECASE
)
""" "We report on a case of a female patient"."""
_PROPER = re.compile(r"[A-Z][a-z]+\s+(?:of|for)\s+(?:the\s+)?[A-Z]")
"""A name: "Our Lady of Mercy"."""
POSSESSED = re.compile(
    r"\b(?:his|her|their|my|our)\s+(?:(?:oldest|eldest|youngest|older|younger|little|baby|middle|first|second|other|own|two|three|\d+)\s+)*$",
    re.IGNORECASE,
)
""" "Her oldest girl interprets"."""
_HEADED = re.compile(r"\b(?:sex|gender)[\s/:=]*$", re.IGNORECASE)
_TRANSGENDER = re.compile(r"\btrans(?:gender(?:ed)?)?\s+$", re.IGNORECASE)
_SAID = re.compile(r"\b(?:is|was|now|currently|turned|about|approximately)\s+$", re.IGNORECASE)
_THERE = re.compile(r"\bthere\s+(?:is|was)\s+(?:an?\s+|another\s+)?(?:[\w-]+\s+){0,2}$", re.IGNORECASE)
_OPENS = re.compile(r"[^A-Za-z]*(?:[A-Za-z-]+[\s,]+){0,3}")
_EXAM = re.compile(r"\b(?:exam|examination|general|gen|appearance|constitutional|const)\b[^.;]{0,45}$", re.IGNORECASE)
_THIS = re.compile(r"\b(?:this|is an?|was an?|I['’]m an?|I am an?)\s+(?:[\w,-]+\s+){0,5}$", re.IGNORECASE)
_INFANT_NEAR = re.compile(
    r"\b(?:infant|baby|newborn|neonate|(?<!year[\s-])(?<!yr[\s-])old)[\s,]+(?:[A-Za-z-]+\s+){0,2}$", re.IGNORECASE
)
_MOTHER = 12
_NEWBORN = frozenset(["boy", "girl", "male", "female"])
_WEIGHED = re.compile(
    r"[,:]?\s+(?:infant\s+|\(?(?:wt|weight|BW)\s*:?\s*)?(?:\d{3,4}\s?g(?:m|ms|rams)?\b|[1-5]\.\d+\s?kg\b|\d{1,2}\s?(?:lbs?|pounds)\b|apgars?\b)",
    re.IGNORECASE,
)
_INFANT_NEXT = re.compile(r"\s+(?:infant|baby|newborn|neonate|twin)\b", re.IGNORECASE)
NOT_A_PERSON = re.compile(
    _NAMES_DISEASE + r"|['’]s\s+voice\b"
    r"|[\s-]+(?:gen|genital|genitalia|external|partners?|condoms?|factor|hormones?|connector|adapter|luer|nurses?|"
    r"chaperones?|providers?|physicians?|doctors?|residents?|aides?|driver|officers?|roommates?|friends?|relatives?|visitors?|callers?|"
    r"bystanders?|catheter|infant|newborn|fetus|neonate|baby|donor|pseudohermaphroditism|sex|gender|staff|urethra|ducts?|"
    r"in\s+the\s+(?:next|other|adjacent)|next\s+(?:door|to)|(?:who|that)\s+(?:hit|assaulted|attacked|stabbed|shot|robbed|raped|"
    r"called|found)(?=\s+(?:him|her|the\s+patient|the\s+pt|pt|911|EMS)\b)|"
    r"students?|interpreters?|sitters?|paramedics?|EMTs?|guards?|strangers?|suspects?|offenders?|victims?|voices|companions?|colleagues?|"
    r"breasts?|predominan\w+|preponderance|predilection|population|ratio|incidence|subjects?|to[\s-](?:male|female)|escutcheon|voice|caretaker|caregiver|sexual|cousin|sibling|twin|children|child)\b",
    re.IGNORECASE,
)


@cache
def ethnic_words() -> re.Pattern[str]:
    """One or several adjectives of ethnicity.yaml right before a position: "white/Hispanic", "half-Asian"."""
    definition = built_in("ethnicity")
    groups = (*definition.groups, *([definition.other] if definition.other else []))
    forms = {form for group in groups for form in group.forms.get("adjective", ())}
    one = "(?:" + "|".join(sorted(forms, key=len, reverse=True)) + ")"
    joined = rf"\b(?:(?:half|part|partly|mixed|non)[\s-]+)?{one}(?:(?:\s?[/-]\s?|\s+(?:or|and)\s+){one})*\s+$"
    return re.compile(joined, re.IGNORECASE)


_ADULT = 18
_CLOSE = 1
"""By how many years the ages of one patient may differ within a note."""


class Description(NamedTuple):
    """A phrase about the patient; `place` is where an adjective is inserted."""

    place: int
    noun: tuple[int, int] | None
    age: Age | None


class DescribedPatient:
    """How a note describes its patient, found once and shared by all characteristics."""

    def __init__(self, note: ScannedNote) -> None:
        self.note = note

    @lazy
    def ages(self) -> list[Age]:
        """All ages of the note."""
        return find_ages(self.note)

    @lazy
    def descriptions(self) -> list[Description]:
        """The phrases with an age, in order."""
        return [self._with_age(age) for age in self.own_ages if age.style != "decade"]

    @lazy
    def _years(self) -> int | None:
        """The first age that is surely the patient's; a bare "(age 60)" counts if there is no other."""
        told = [
            a for a in self.ages if a.whose == "patient" and a.value is not None and a.style != "decade" and a.trust
        ]
        firm = next((a.value for a in told if a.trust > 1), None)
        return firm if firm is not None or not told else told[0].value

    def _is_own(self, age: Age) -> bool:
        if age.whose != "patient" or (self._years is None and age.trust == 0):
            return False
        if self._years is None or age.value is None or age.style == "decade":
            return True
        return abs(age.value - self._years) <= _CLOSE

    @lazy
    def own_ages(self) -> list[Age]:
        """The patient's present age, wherever it is stated."""
        return [age for age in self.ages if self._is_own(age)]

    @lazy
    def odd_ages(self) -> list[Age]:
        """Ages that look like the patient's but differ from the first of them."""
        return [age for age in self.ages if age.whose == "patient" and age.trust > 1 and not self._is_own(age)]

    @lazy
    def past_ages(self) -> list[int]:
        """The ages that the patient is said to have had."""
        loose = (age for age in self.ages if age.whose == "patient" and age.trust < 2 and not self._is_own(age))
        past = (age for age in self.ages if age.whose == "past")
        return [age.value for age in (*loose, *past) if age.value is not None]

    @property
    def has_two_ages(self) -> bool:
        """Whether an age with a noun ("man") differs from ages without one, so that the patient's is unclear."""
        if any(description.noun for description in self.descriptions):
            return False
        return any(self._with_age(age).noun for age in self.odd_ages)

    @lazy
    def plain_nouns(self) -> list[Hit]:
        """Nouns without an age that seem to be the patient's: "frail woman in NAD"."""
        return [hit for hit, whose in self._other_nouns if whose == "patient"]

    @lazy
    def unclear_nouns(self) -> list[Hit]:
        """Nouns of which nothing shows whether they are the patient's or somebody else's."""
        return [hit for hit, whose in self._other_nouns if whose == "unclear"]

    @lazy
    def _other_nouns(self) -> list[tuple[Hit, Literal["patient", "other", "unclear"]]]:
        taken = {description.noun[0] for description in self.descriptions if description.noun}
        mothers = self._years is not None and self._years >= _MOTHER
        found = [hit for hit in self.note.hits("noun") if hit.start not in taken]
        return [(hit, "other" if mothers and self._is_weighed(hit) else self._whose(hit)) for hit in found]

    def _is_weighed(self, hit: Hit) -> bool:
        """Whether a noun is a newborn's: "Boy, 3450 g, Apgars 9/9"."""
        return hit.word in _NEWBORN and _WEIGHED.match(self.note.text, hit.end) is not None

    @lazy
    def places(self) -> list[Description]:
        """Where a mention is inserted: at every phrase with an age that introduces the patient, or one plain noun."""
        told = {d.place: d for d in reversed(self.descriptions) if d.age and not d.age.labelled and self._is_phrase(d)}
        if told:
            return [told[place] for place in sorted(told)]
        return [Description(hit.start, (hit.start, hit.end), None) for hit in self.plain_nouns[:1]]

    def _is_phrase(self, description: Description) -> bool:
        """Whether an adjective fits into it, unlike "she is 63", "she is 63 years old" and "age 63 sex F"."""
        age = description.age
        if description.noun and _HEADED.search(self.note.text, max(0, description.place - 10), description.place):
            return False
        if description.noun is not None or age is None:
            return True
        return age.tail > age.end and not _SAID.search(self.note.text, max(0, age.start - 12), age.start)

    @lazy
    def race_letters(self) -> list[tuple[int, int]]:
        """The W of "63 yo WF", the AA of "AAM", and the "W/" of "W/F"."""
        return [(d.place, d.noun[0]) for d in self.descriptions if d.noun and self._has_race(d)]

    def _has_race(self, description: Description) -> bool:
        """Whether only letters (and a slash or space) are between the adjective's position and the noun's letter."""
        if description.noun is None:
            return False
        text = self.note.text
        between = text[description.place : description.noun[0]]
        return between.rstrip("/ ").isalpha() and not _PREFIX.match(text, description.place)

    @lazy
    def _noun_starts(self) -> frozenset[int]:
        described = {
            d.place if self._has_race(d) or _PREFIX.match(self.note.text, d.place) else d.noun[0]
            for d in self.descriptions
            if d.noun
        }
        return frozenset(described | {hit.start for hit in self.plain_nouns})

    def describes(self, start: int, end: int) -> bool:
        """Whether an adjective here describes the patient."""
        text = self.note.text
        if _TITLED.search(text, max(0, start - 6), start):
            return False
        opening = [min(d.place, d.age.start) for d in self.descriptions if d.age]
        if any(0 < at - end <= 2 and text[end:at].isspace() for at in opening):
            return not (text[start].isupper() and _BEFORE_NAME.search(text, max(0, start - 20), start))
        if any(0 < at - end <= 40 and _MORE_ADJECTIVES.fullmatch(text, end, at) for at in opening):
            return True
        noun = _TO_NOUN.match(text, end, min(len(text), end + 60))
        if noun is not None:
            at = noun.start("noun")
            listed = "," in text[end:at]
            if at in self._noun_starts and (not listed or self._after_age(start)):
                return True
            if not listed and noun.group("noun").lower() in ("patient", "pt"):
                return belongs_to_patient(self.note, start, end)
        # "31M Asian, hospital worker, new pt": the noun is another item of the list.
        return self._after_age(start) and (noun is None or "," in text[end : noun.start("noun")])

    def is_in_brackets(self, start: int, end: int) -> bool:
        """Whether an adjective is in brackets after the patient: "63F (Asian)"."""
        text = self.note.text
        if text[start - 1 : start] != "(" or text[end : end + 1] != ")":
            return False
        ends = {d.noun[1] for d in self.descriptions if d.noun} | {d.age.tail for d in self.descriptions if d.age}
        return start - 1 in ends or (text[start - 2] == " " and start - 2 in ends)

    @property
    def has_letters_before_age(self) -> bool:
        """Whether letters for race and sex can't be taken apart: "B/F 63 yo", "63 yo RHWM"."""
        text = self.note.text
        if any(_LETTERS_BEFORE.search(text, max(0, age.start - 8), age.start) for age in self.own_ages):
            return True
        return any(_HANDED_RACE.match(text, age.tail) for age in self.own_ages)

    def before_ethnicity(self, place: int) -> int:
        """The position before a word for the ethnicity, where other adjectives go: "obese White man"."""
        place = self.before_transgender(place)
        match = ethnic_words().search(self.note.text, max(0, place - 48), place)
        return match.start() if match else place

    def before_transgender(self, place: int) -> int:
        """The position before "transgender": "Asian transgender woman"."""
        match = _TRANSGENDER.search(self.note.text, max(0, place - 14), place)
        return match.start() if match else place

    def _after_age(self, start: int) -> bool:
        text = self.note.text
        return any(
            d.age and 0 < start - d.age.tail <= 30 and _ADJECTIVES.fullmatch(text, d.age.tail, start)
            for d in self.descriptions
        )

    @lazy
    def is_infant(self) -> bool:
        """Whether the note is about a newborn or an infant."""
        return not self.descriptions and speaks_of_infant(self.note)

    @lazy
    def is_child(self) -> bool:
        """Whether the note is about a child: by age, or by "boy" and "girl"."""
        years = self._years
        if years is not None:
            return years < _ADULT
        return self.is_infant or any(hit.word in ("boy", "girl") for hit in self.plain_nouns)

    def _is_newborn(self, hit: Hit) -> bool:
        """ "Male infant", "infant female", "baby girl" in a note about an infant."""
        text = self.note.text
        if hit.word not in _NEWBORN:
            return False
        return bool(_INFANT_NEAR.search(text, max(0, hit.start - 36), hit.start) or _INFANT_NEXT.match(text, hit.end))

    def _with_age(self, age: Age) -> Description:
        text = self.note.text
        if age.sex:
            start = age.sex[0]
            handed = _HANDED_BEFORE.search(text, max(0, start - 5), start)
            if handed:
                return Description(min(age.start, handed.start()), age.sex, age)
            if start < age.start:
                return Description(start, age.sex, age)
            spaced = text[start - 1].isspace() and start - age.end > 1
            return Description(start if spaced else age.start, age.sex, age)
        match = _TO_NOUN.match(text, age.tail, min(len(text), age.tail + 90))
        if match is None or self.note.sentence_number(match.end()) != self.note.sentence_number(age.start):
            before = _NOUN_BEFORE.search(text, max(0, age.start - 24), age.start)
            if before and belongs_to_patient(self.note, before.start("noun"), before.end("noun")):
                return Description(before.start("noun"), before.span("noun"), age)
            before = _LETTER_BEFORE.search(text, max(0, age.start - 6), age.start)
            return Description(before.start() if before else age.start, None, age)
        letter = next((name for name in ("letter", "small", "woman") if match.group(name)), None)
        if letter:
            return Description(match.start("noun"), match.span(letter), age)
        if text[match.start("noun") - 2 : match.start("noun") - 1] == "," and match.group("noun").lower() in (
            "patient",
            "pt",
        ):
            return Description(age.start, None, age)
        closed = _CLOSED.match(text, match.start("noun"))
        noun = (closed.end() if closed else match.start("noun"), match.end("noun"))
        return Description(match.start("noun"), noun, age)

    def _whose(self, hit: Hit) -> Literal["patient", "other", "unclear"]:
        note, text = self.note, self.note.text
        if self.is_infant and not note.in_family(hit.start) and self._is_newborn(hit):
            return "patient"
        if NOT_A_PERSON.match(text, hit.end) or not belongs_to_patient(note, hit.start, hit.end):
            return "other"
        if text[hit.end : hit.end + 1] in ("-", "/") or text[hit.start - 1 : hit.start] in ("-", "/"):
            return "other"
        first, _ = note.sentence(hit.start)
        before = text[max(first, hit.start - 60) : hit.start]
        told, introduced = _led_by(before)
        if told or _PROPER.match(text, hit.start):
            return told or "other"
        if introduced == "somebody":
            return "other"
        if introduced == "patient" or (first >= hit.start - 60 and _OPENS.fullmatch(before)):
            return "patient"
        return "unclear"


@lru_cache(maxsize=REMEMBERED)
def _led_by(before: str) -> tuple[Literal["patient", "other"] | None, Literal["patient", "somebody"] | None]:
    """Whose a noun is by the words before it; then, if it is no proper name, whom they introduce."""
    if _HEADED.search(before) or POSSESSED.search(before) or _THERE.search(before) or before.endswith("% "):
        return "other", None
    if _EXAM.search(before) or _THIS.search(before) or _CASE_OF.search(before):
        return "patient", None
    if _SOMEBODY.search(before):
        return None, "somebody"
    return None, "patient" if _INTRODUCES.search(before) else None
