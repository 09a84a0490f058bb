"""The words that show the patient's gender, each with its form for female and male.

Headers, nouns, letters, titles and roles; pronouns by the rules of `owners`; spouses with their pronouns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from palpate.perturb.characteristics.gender import firstnames, letters, partners, reciprocal, titles
from palpate.perturb.characteristics.gender.newborns import has_newborn_alike, is_newborn
from palpate.perturb.characteristics.gender.owners import Pronoun, PronounOwners, declared, pronouns
from palpate.perturb.characteristics.gender.pronouns import his_stands_alone, read_her
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import GENDER_OF_KIN, NOUNS, OF_SOME, belongs_to_patient

TO_FEMALE = {
    "man": "woman", "male": "female", "gentleman": "lady", "boy": "girl", "m": "f", "he": "she", "him": "her",
    "himself": "herself", "mr": "ms", "widower": "widow", "waiter": "waitress", "policeman": "policewoman",
    "businessman": "businesswoman", "salesman": "saleswoman", "househusband": "housewife",
    "master": "miss",
    "husband": "wife", "boyfriend": "girlfriend", "fiance": "fiancee", "father": "mother", "grandfather": "grandmother",
    "latino": "latina", "filipino": "filipina", "fatherhood": "motherhood", "bf": "gf",
    "serviceman": "servicewoman", "actor": "actress", "chairman": "chairwoman",
    **{male: female for female, male in reciprocal.COUNTERPARTS.items()},
}  # fmt: skip
TO_MALE = {female: male for male, female in TO_FEMALE.items() if female != "her"} | {
    "mrs": "mr",
    "miss": "mr",
    "fe male": "male",
    "fe-male": "male",
    "hers": "his",
    "w": "m",  # RHW
}
ROLES = (
    "widow widower waiter waitress policeman policewoman businessman businesswoman salesman saleswoman housewife "
    "househusband latino latina filipino filipina fatherhood motherhood serviceman servicewoman "
    "chairman chairwoman actor actress"
)
PARENTS = frozenset(["father", "mother", "grandfather", "grandmother"])
_HEADER = re.compile(
    r"(?:sex|gender)(?:[ \t]?/[ \t]?age)?(?:[ \t]*(?::|=)|[ \t]+[–-](?=[ \t])|(?-i:(?<=SEX))[ \t]+(?=[MF]\b))[ \t]*"
    r"(?P<value>male|female|[MF])\b(?!\s?/\s?[A-Za-z])",
    re.IGNORECASE,
)
_SPOUSE_BEFORE = re.compile(r"\b(?:husband|wife)[\s,(]+$", re.IGNORECASE)
_PARENT_BEFORE = re.compile(
    r"\b(?:is|was|as|become|becoming|being)\s+(?:an?|the)\s+(?:(?!he|she)[\w-]+\s+){0,2}$", re.IGNORECASE
)


_OF_DOCTOR = re.compile(
    r"\bDrs?\b\.?\s+[A-Z_\[][\w'’-]*(?:(?!\b(?:patient|pt|he|she|who|for|about|regarding)\b)[^;])*?"
    r"(?:\b(?:in|at|from|to|call|contact|see|with|page|called|contacted)\s+)$"
)
_DESCRIBED = re.compile(
    r"(?:\s*[,.;:)\n]|\s*$|\s+(?:with|w/|who|presents?|presenting|presented|in|here|complaining|seen|is|was|has|had|s/p|status|h/o|that|and|on|from|"
    r"admitted|referred|patient|pt)\b)",
    re.IGNORECASE,
)
_HE_IS = re.compile(
    r"\b(?P<who>he|she|patient|pt)\s+(?:(?:has|lives|works)\s[^.;,]{1,30}\sand\s+)?(?:is|was|ha[sd]\s+been|work(?:s|ed)\s+as)\s+(?:currently\s+|now\s+|also\s+)?(?:(?:an?|the)\s+)?(?:(?!who|with|of)[\w-]+,?\s+){0,3}$",
    re.IGNORECASE,
)
_UNCLEAR = "a word for a gender that may be somebody else's"
_THEY = re.compile(r"they\s?/\s?them\b", re.IGNORECASE)
_OWN_PRONOUNS = "the patient goes by pronouns of their own"
OF_OTHERS = frozenset([partners.NAMED, partners.SEX_WITH, firstnames.BOTH, firstnames.LOOSE])
"""Doubts about people and names that stay as they are in the note of a non-binary patient."""


class Swap(NamedTuple):
    """A gendered word with its form for either gender; `weight` is how strongly it shows the patient's gender."""

    start: int
    end: int
    gender: str
    female: str
    male: str
    weight: int = 0
    ambiguous: bool = False


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "noun": tuple(NOUNS),
        "role": (*ROLES.split(), *sorted(PARENTS)),
        "spouse": partners.SPOUSE_WORDS,
        "letter": letters.TRIGGERS,
        "title": titles.TRIGGERS,
        "pronoun": ("he", "him", "his", "himself", "she", "her", "hers", "herself"),
        "sex": ("sex", "sexually", "gender"),
        "they": ("they",),
        "misspelt": ("shes", "hes"),
        **firstnames.triggers(),
    }


def _named_like(written: str, name: str) -> str:
    """A name in the letters of another: small ones in a note without capitals."""
    return name.lower() if written.islower() else like(written, name)


def like(written: str, word: str) -> str:
    """A word in the capitals of another: SHE, She, she."""
    if written.isupper() and (len(written) > 1 or len(word) == 1):
        return word.upper()
    return word[0].upper() + word[1:] if written[:1].isupper() else word


def swap(note: ScannedNote, start: int, end: int, *, weight: int = 0) -> Swap:
    """A gendered word with its counterpart."""
    written = note.text[start:end]
    word = written.lower()
    if word in TO_FEMALE:
        return Swap(start, end, "male", like(written, TO_FEMALE[word]), written, weight)
    return Swap(start, end, "female", written, like(written, TO_MALE[word]), weight)


def find_strong(
    patient: DescribedPatient, lettered: list[tuple[int, int]], changes: Sequence[re.Match[str]] = ()
) -> list[Swap]:
    """Headers, nouns, letters (`lettered`, from `letters`), titles and roles; of `changes` ("M->F"), only the last."""
    note = patient.note
    own = [swap(note, hit.start, hit.end, weight=1) for hit in titles.find_titles(note).own]
    found = [*_headers(note), *_nouns(patient, lettered), *own, *_roles(note)]
    plain = [s for s in found if not any(change.start() <= s.start < change.end() for change in changes)]
    return sorted({*plain, *(swap(note, *change.span("to"), weight=3) for change in changes)})


def _headers(note: ScannedNote) -> list[Swap]:
    matches = [_HEADER.match(note.text, hit.start) for hit in note.hits("sex")]
    return [
        swap(note, *match.span("value"), weight=3)
        for match in matches
        if match and belongs_to_patient(note, match.start(), match.end())
    ]


def _nouns(patient: DescribedPatient, lettered: list[tuple[int, int]]) -> list[Swap]:
    note = patient.note
    spans = [description.noun for description in patient.descriptions if description.noun]
    introduced = [span for span in spans if note.text[span[0] : span[1]].lower() in (*TO_FEMALE, *TO_MALE)]
    found = [swap(note, *span, weight=3) for span in dict.fromkeys([*introduced, *lettered])]
    newborn = [hit for hit in note.hits("noun") if is_newborn(patient, hit)]
    return found + [swap(note, hit.start, hit.end, weight=1) for hit in {*patient.plain_nouns, *newborn}]


def _roles(note: ScannedNote) -> list[Swap]:
    """A widow, a waitress, a mother of three."""
    found = []
    for hit in note.hits("role"):
        if note.in_family(hit.start) or note.text[max(0, hit.start - 6) : hit.start].lower() == "black ":
            continue  # a black widow is a spider
        if hit.word in PARENTS:
            told = _PARENT_BEFORE.search(note.text, max(0, hit.start - 40), hit.start) or OF_SOME.match(
                note.text, hit.end
            )
            if not told or not belongs_to_patient(note, hit.start, hit.end):
                continue
        elif not belongs_to_patient(note, hit.start, hit.end):
            continue
        found.append(swap(note, hit.start, hit.end, weight=1))
    return found


def decide(strong: list[Swap], note: ScannedNote) -> tuple[str | None, bool]:
    """The patient's gender, and whether the note says both."""
    firm = {gender: sum(s.weight == 3 for s in strong if s.gender == gender) for gender in ("female", "male")}
    low, high = sorted(firm.values())
    if high:
        return max(firm, key=lambda gender: firm[gender]), 2 * low >= high
    weak = {gender: 2 * sum(s.gender == gender for s in strong) for gender in ("female", "male")}
    opens = {(hit.start, GENDER_OF_KIN.get(hit.word)) for hit in partners.spouses(note)}
    for hit, gender in pronouns(note):
        others = note.in_family(hit.start) or _is_providers(note, hit)
        if opens and hit.word in ("he", "she"):
            others = others or _is_spouses(note, hit, opens, gender)
        weak[gender] += not others
    for _, gender in declared(note):
        weak[gender] += 2
    low, high = sorted(weak.values())
    if high and 2 * low < high:
        return max(weak, key=lambda gender: weak[gender]), False
    spouses = {GENDER_OF_KIN.get(hit.word) for hit in partners.spouses(note) if not note.in_family(hit.start)} - {None}
    if not high and len(spouses) == 1:
        return ("female" if spouses == {"male"} else "male"), False
    base = _without_relatives(strong, note) if high else _by_owners(note)
    return base, bool(high) and base is None


def _is_spouses(note: ScannedNote, hit: Hit, opens: set[tuple[int, str | None]], gender: str) -> bool:
    """The he of "husband's tests are normal; he has a child": the spouse's, who opens the clause or the one before."""
    first, _ = note.sentence(hit.start)
    return (note.opening(hit.start), gender) in opens or (first > 0 and (note.opening(first - 1), gender) in opens)


def _is_providers(note: ScannedNote, hit: Hit) -> bool:
    """The his of "will see Dr. Lee in his office": nobody else is named in between."""
    if hit.word in ("he", "she"):
        return False
    first, _ = note.sentence(hit.start)
    before = note.text[first : hit.start]
    return _OF_DOCTOR.search(before) is not None


def _without_relatives(strong: list[Swap], note: ScannedNote) -> str | None:
    """The gender by words that can't mean a relative nearby: "his wife came. She says he fell" is about a man."""
    kin = [(note.sentence_number(hit.start), GENDER_OF_KIN.get(hit.word)) for hit in note.hits("people")]
    spoken_of = set(kin)
    told = {s.gender for s in strong}
    for hit, gender in pronouns(note):
        number = note.sentence_number(hit.start)
        if (number, gender) in spoken_of or (number - 1, gender) in spoken_of:
            spoken_of.add((number, gender))  # who is spoken of may be so in the next sentence, too
        elif not note.in_family(hit.start):
            told.add(gender)
    if not told:
        told = {gender for gender in ("female", "male") if reciprocal.find_reciprocal(note, gender)[0]}
    return told.pop() if len(told) == 1 else None


def _by_owners(note: ScannedNote) -> str | None:
    """The gender by pronouns in a family history that are the patient's own: "He has no family history of gout"."""
    told = {
        gender
        for gender in ("female", "male")
        if any(each.owner == "patient" and each.gender == gender for each in PronounOwners(note, gender).all())
    }
    return told.pop() if len(told) == 1 else None


class People(NamedTuple):
    """Names, pronouns and spouses: those to swap, those to leave, and why the note can't be swapped, if so."""

    swaps: list[Swap]
    left: list[Swap]
    doubts: list[str]


def find_people(patient: DescribedPatient, base: str) -> People:
    """All people in a note whose patient has a known gender."""
    note = patient.note
    people = People([], [], [])
    theirs = set()
    for pronoun in PronounOwners(note, base).all():
        place = _pronoun(note, pronoun)
        if pronoun.owner in ("patient", "spouse"):
            people.swaps.append(_of_partner(place, base) if pronoun.owner == "spouse" else place)
            if place.ambiguous:
                people.doubts.append('whether "her" means him or his')
            if pronoun.owner == "spouse" and partners.names_spouse(note, place.start):
                people.doubts.append(partners.NAMED)
            continue
        theirs.add(place.start)
        people.left.append(place)
        if pronoun.owner == "unsure":
            people.doubts.append("a pronoun may mean somebody else of the patient's gender")
    _add_declared(note, base, people)
    _add_spouses(note, base, theirs, people)
    _add_names(patient, base, people)
    called, doubt = reciprocal.find_reciprocal(note, base, child=patient.is_child)
    people.swaps.extend(swap(note, hit.start, hit.end) for hit in called)
    if doubt:
        people.doubts.append(reciprocal.DOUBT)
    if any(hit.word == ("shes" if base == "female" else "hes") for hit in note.hits("misspelt")):
        people.doubts.append("a pronoun that is misspelt")
    if has_newborn_alike(patient, base):
        people.doubts.append("a newborn of the patient's gender")
    if partners.tells_sex_with(note):
        people.doubts.append(partners.SEX_WITH)
    _add_titles(patient, base, people)
    _add_told_in_family(note, base, people)
    _add_unclear(patient, base, people)
    return people


def _add_told_in_family(note: ScannedNote, base: str, people: People) -> None:
    """ "He is a single male" and "she is a widow" in a family and social history."""
    own = {place.start for place in people.swaps if place.gender == base}
    for hit in (*note.hits("noun"), *note.hits("role")):
        match = _HE_IS.search(note.text, max(0, hit.start - 60), hit.start) if note.in_family(hit.start) else None
        if match is None or (place := swap(note, hit.start, hit.end)).gender != base:
            continue
        if match.start() in own or match.group("who").lower() in ("patient", "pt"):
            people.swaps.append(place)


def _add_unclear(patient: DescribedPatient, base: str, people: People) -> None:
    """A noun that nothing ties to anybody is the patient's where a description goes on after it."""
    note = patient.note
    newborn = {swap.start for swap in _nouns(patient, [])}
    for hit in patient.unclear_nouns:
        place = swap(note, hit.start, hit.end)
        if place.gender != base or hit.start in newborn:
            continue
        if _DESCRIBED.match(note.text, hit.end):
            people.swaps.append(place)
        else:
            people.left.append(place._replace(ambiguous=True))
            people.doubts.append(_UNCLEAR)


def _add_titles(patient: DescribedPatient, base: str, people: People) -> None:
    """Titles of others, which stay; if it is unclear whose they are, the note can't be altered."""
    note = patient.note
    found = titles.find_titles(note)
    others = [swap(note, hit.start, hit.end)._replace(ambiguous=True) for hit in found.others]
    people.left.extend(others)
    if titles.has_couple(note) and not any(description.noun for description in patient.descriptions):
        people.doubts.append(titles.COUPLE)
    if found.unclear and any(place.gender == base for place in others):
        people.doubts.append(titles.TWO)


def _add_declared(note: ScannedNote, base: str, people: People) -> None:
    """ "(she/her)" becomes "(he/him)"; pronouns unlike those in the rest of the note, or "they/them", can't be."""
    for hit, gender in declared(note):
        place = swap(note, hit.start, hit.end) if hit.word not in ("her", "his") else _declared_word(note, hit)
        (people.swaps if gender == base else people.left).append(place)
        if gender != base:
            people.doubts.append(_OWN_PRONOUNS)
    if any(_THEY.match(note.text, hit.start) for hit in note.hits("they")):
        people.doubts.append(_OWN_PRONOUNS)


def _declared_word(note: ScannedNote, hit: Hit) -> Swap:
    written = note.text[hit.start : hit.end]
    if hit.word == "her":
        return Swap(hit.start, hit.end, "female", written, like(written, "him"))
    return Swap(hit.start, hit.end, "male", like(written, "hers"), written)


def _add_spouses(note: ScannedNote, base: str, theirs: set[int], people: People) -> None:
    for hit in partners.spouses(note):
        if partners.is_others_spouse(note, hit, theirs):
            if partners.may_be_either(note, hit, base, theirs):
                people.doubts.append(partners.WHOSE)
            continue
        spouse = swap(note, hit.start, hit.end)
        people.swaps.append(_of_partner(spouse, base))
        if partners.is_named(note, hit):
            people.doubts.append(partners.NAMED)
        noun = partners.called(note, hit)
        if noun and (called := swap(note, *noun)).gender == spouse.gender:
            people.swaps.append(_of_partner(called, base))
    for hit in note.hits("title"):
        if _SPOUSE_BEFORE.search(note.text, max(0, hit.start - 14), hit.start):
            people.swaps.append(_of_partner(swap(note, hit.start, hit.end), base))
    for hit in partners.partner_nouns(note):
        people.swaps.append(_of_partner(swap(note, hit.start, hit.end), base))


def _add_names(patient: DescribedPatient, base: str, people: People) -> None:
    names, doubt = firstnames.find_names(patient, base)
    text = patient.note.text
    for name in names:
        written = text[name.start : name.end]
        other = _named_like(written, name.counterpart) if name.gender == base else written
        words = (written, other) if base == "female" else (other, written)
        place = Swap(name.start, name.end, base, *words, ambiguous=name.gender != base)
        (people.swaps if name.gender == base else people.left).append(place)
    if doubt:
        people.doubts.append(doubt)


def _of_partner(place: Swap, base: str) -> Swap:
    """A word about the spouse is swapped the other way: as written, it fits the patient's own gender."""
    own, other = (place.female, place.male) if place.gender == "female" else (place.male, place.female)
    return place._replace(female=own if base == "female" else other, male=other if base == "female" else own)


def _pronoun(note: ScannedNote, pronoun: Pronoun) -> Swap:
    start, end, word = pronoun.hit
    written = note.text[start:end]
    ambiguous = pronoun.ambiguous
    if word == "her":
        male = read_her(note.text, start, end)
        return Swap(start, end, "female", written, like(written, male or "his"), 0, ambiguous or male is None)
    if word == "his":
        female = "hers" if his_stands_alone(note.text, start, end) else "her"
        return Swap(start, end, "male", like(written, female), written, 0, ambiguous)
    return swap(note, start, end)._replace(ambiguous=ambiguous)
