"""Topics: words of ethnicity, weight, a home, an insurance or a language that the first reader did not take up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from palpate.cases.edits import Edit
from palpate.files import read_resource
from palpate.perturb.characteristics.definitions import built_in
from palpate.perturb.characteristics.doubts.places import AlteredTo
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import OTHERS, has_other_subject

_GENERAL_WORDS = (
    "american or and of non white black mixed race other unknown not specified declined refused patient "
    "to answer unable obtain african european cape south east west north new strait first nations pacific "
    "native middle eastern sri costa rica el san saint ivory coast republic kong hong puerto saudi lao "
    "sierra leone soviet union czech english latin torres jordan georgian israel"
)
_GENERAL = frozenset(_GENERAL_WORDS.split())
_CAPITAL_ONLY_WORDS = (
    "polish turkey chile china japan jordan georgia lebanon creole guinea panama peru wales danish swiss "
    "dutch thai twi canton"
)
_CAPITAL_ONLY = frozenset(_CAPITAL_ONLY_WORDS.split())
_TRAVEL = re.compile(
    r"\b(?:travel\w*|trip|vacation\w*|holiday\w*|visit(?:ed|ing)\s|return\w*|cruise|tour|flew|flight)\b", re.IGNORECASE
)
_FAMILY_THERE = re.compile(r"\b(?:family|relatives|parents|home|hometown|mother|father|born)\b", re.IGNORECASE)
""" "Visiting family in Nigeria" tells where the patient comes from."""
_DISEASE = re.compile(
    r"[\s-]+(?:measles|encephalitis|flu|hemorrhagic|catheters?|dilators?|sheath|foley|stent|drain|cannula|chest|cook|double|single|red|JP|pigtail|introducer|balloon|guide|gauge|tube|size|sizing|doctor|hospital|scale|knot|cuff|stain|shepherd|(?:in\s+)?(?:full|complete|short)|clearly|comfortably|normally|fluently|with\b|to\b|w/)\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"\d[\s-]$")
""" "A 6-French arterial sheath"."""
_PROVIDER = re.compile(
    r"\b(?:Drs?|Prof|RN|NP|PA|MD|by|per|with|attending|surgeon|wife|husband|daughter|son|CNA|LPN|MW)\b\.?[\s:,]*(?:[A-Z][\w.'’-]*[\s,]+){0,2}$"
)
_PROVIDER_NEXT = re.compile(
    r"\s*,?\s*(?:[A-Z]\w*\s*,?\s*)?(?:RN|NP|PA|MD|DO|LPN|CNA|PhD)\b|['’]s\s+(?:sign|disease)|\s+(?:sign|clamp|forceps|Hospital|Clinic|Street|St|Ave)\b"
)
_WEIGHT = re.compile(
    r"(?<![\d/.])(?P<value>\d{2,3}(?:\.\d+)?)\s?(?P<unit>kgs?|kilos?|kilograms?|lbs?|pounds?|#)(?![/\w])", re.IGNORECASE
)
_OF_CHANGE = re.compile(
    r"\b(?:lost|lose|losing|loss|gained|gain|down|up|birth|ideal|target|goal|dry|lifts?|lifting|carry\w*|push\w*|pull\w*|over|under|another|"
    r"wife|husband|baby)\b[^.;]{0,20}$",
    re.IGNORECASE,
)
_BMI_SAID = re.compile(r"\s*(?:of|is|was|:|=|~|>|<)?\s*\d", re.IGNORECASE)
_WEIGHT_SAID = re.compile(r"\s*(?:is|was|:|=|~|of)?\s*\d{2,3}(?![\d/])", re.IGNORECASE)
_SPEAKS = re.compile(r"\s+(?:only\s+|fluent\s+|mainly\s+|mostly\s+)?(?P<language>[A-Z][a-z]+)(?![\w'’])")
_BORN_IN = re.compile(r"\s+(?:and\s+raised\s+)?(?:in|of)\s+(?P<place>[A-Z][a-z]+)")
_PERSONS = OTHERS - {"family", "relative", "relatives"}
_LOW, _HIGH = 1.52, 1.83
"""The height in metres of most adults."""
_KG = 0.45359


class TopicWord(NamedTuple):
    """The groups that a word fits, and what must be near."""

    fits: frozenset[str]
    near: re.Pattern[str] | None = None
    capital: bool = False


@cache
def _crude() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")
    return table


@cache
def _words(name: str) -> dict[str, TopicWord]:
    """The words of a topic."""
    rows = _crude().get(name)
    if rows is None:
        return {}
    if name == "housing":
        homeless, housed = (dict.fromkeys(rows[key].split()) for key in ("homeless", "housed"))
        return {
            **dict.fromkeys(housed, TopicWord(frozenset(["housed"]))),
            **dict.fromkeys(homeless, TopicWord(frozenset(["homeless"]))),
        }
    if isinstance(rows, list):
        return {
            word: TopicWord(frozenset(row["fits"]), re.compile(row["near"], re.IGNORECASE) if "near" in row else None)
            for row in rows
            for word in row["words"].lower().split()
            if word.isalpha()
        }
    plain = dict.fromkeys((word for word in rows["words"].lower().split() if word.isalpha()), TopicWord(frozenset()))
    if name == "language":
        spoken = {word: one._replace(fits=frozenset([word.capitalize()])) for word, one in _of_origin().items()}
        return {**spoken, **plain}
    return {**_of_origin(), **plain}


@cache
def _of_origin() -> dict[str, TopicWord]:
    """Every nationality, country and language of definitions/ethnicity.yaml, one word at a time."""
    definition = built_in("ethnicity")
    found: dict[str, set[str]] = {}
    for group in (*definition.groups, *([definition.other] if definition.other else [])):
        fits = {group.name} if group is not definition.other else set()
        for form in group.forms.get("adjective", ()):
            for word in re.findall(r"[a-z]+", form.lower()):
                found.setdefault(word, set()).update(fits)
    for origin in definition.origins:
        for form in (*origin.places, *origin.languages):
            for word in re.findall(r"[a-z]+", form.lower()):
                found.setdefault(word, set()).update(origin.fits)
    return {
        word: TopicWord(frozenset(fits), capital=word in _CAPITAL_ONLY)
        for word, fits in found.items()
        if word not in _GENERAL and len(word) > 2
    }


@cache
def _names() -> dict[str, str]:
    return {name: group for group, names in _crude()["ethnicity"]["names"].items() for name in names.split()}


def triggers(name: str) -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    found = {f"sure:{name}": tuple(_words(name))}
    if name == "ethnicity":
        found["sure:surname"] = tuple(_names())
        found["sure:born"] = ("born", "raised", "native")
        found["sure:speaks"] = ("speaks",)
    if name == "weight":
        found["sure:measure"] = ("bmi", "weight", "wt", "weighs", "weighing")
    return found


def topic_doubt(patient: DescribedPatient, altered: AlteredTo) -> str | None:
    """A word of the topic that was neither changed nor understood."""
    name, group, found, edits = altered
    note, words = patient.note, _words(name)
    spans = [(edit.start, max(edit.end, edit.start + 1)) for edit in edits]
    fitting = [(one.start, one.end) for one in (*found.places, *found.signs) if one.group == group]
    for hit in note.hits(f"sure:{name}"):
        word = words[hit.word]
        if (
            _is_in(hit, spans)
            or _is_headed(note.text, hit, edits)
            or _is_in(hit, fitting)
            or _says_nothing(note, name, hit, word)
        ):
            continue
        if group not in word.fits and not _fits_anyway(name, group, word, edits):
            return f"'{note.text[hit.start : hit.end]}'"
    if name == "ethnicity":
        return _surname(note, group) or ((_birthplace(note) or _tongue(note, group)) if group != "none" else None)
    return _measured(patient, found, group) if name == "weight" else None


def _is_headed(text: str, hit: Hit, edits: Sequence[Edit]) -> bool:
    """Whether an edit follows right away: "lives [in a shelter] with", "Insurance: [private]"."""
    return any(0 <= edit.start - hit.end <= 3 and not text[hit.end : edit.start].strip(" :=") for edit in edits)


def _is_in(hit: Hit, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= hit.start < end or hit.start <= start < hit.end for start, end in spans)


def _fits_anyway(name: str, group: str, word: TopicWord, edits: Sequence[Edit]) -> bool:
    """A home does not contradict "no mention", unless it is what remains of one."""
    if name == "housing":
        return group == "none" and word.fits == {"housed"} and not any(edit.end > edit.start for edit in edits)
    return False


def _says_nothing(note: ScannedNote, name: str, hit: Hit, word: TopicWord) -> bool:
    text = note.text
    if word.capital and not text[hit.start].isupper():
        return True
    if word.near is not None:
        first, last = note.sentence(hit.start)
        return word.near.search(text, max(first, hit.start - 40), min(last, hit.end + 40)) is None
    if name == "housing":
        pattern = _not_housing().get(hit.word)
        return pattern is not None and pattern.match(text, hit.end) is not None
    if (name != "language" or hit.word in _of_origin()) and has_other_subject(note, hit.start, people=_PERSONS):
        return True  # "his mother is obese"
    if name in ("ethnicity", "language"):
        first, last = note.sentence(hit.start)
        travels = _TRAVEL.search(text, first, last) and not _FAMILY_THERE.search(text, first, last)
        sized = hit.word == "french" and _SIZE.search(text, max(0, hit.start - 3), hit.start)
        return bool(travels or sized or _DISEASE.match(text, hit.end))
    return False


@cache
def _not_housing() -> dict[str, re.Pattern[str]]:
    return {word: re.compile(pattern, re.IGNORECASE) for word, pattern in _crude()["housing_not"].items()}


def _birthplace(note: ScannedNote) -> str | None:
    """A place of birth that no list has: who was born in Munich may be anybody, and most readers think otherwise."""
    for hit in note.hits("sure:born"):
        match = _BORN_IN.match(note.text, hit.end)
        known = match and (match["place"].lower() in _at_home() or match["place"].lower() in _of_origin())
        if match and not known and not has_other_subject(note, hit.start, people=_PERSONS):
            return "a place of birth"
    return None


def _tongue(note: ScannedNote, group: str) -> str | None:
    """A language that does not fit, or that no list has: who speaks Warlpiri is not Asian."""
    for hit in note.hits("sure:speaks"):
        match = _SPEAKS.match(note.text, hit.end)
        word = match["language"].lower() if match else "english"
        known = _of_origin().get(word)
        fits = word == "english" or (known is not None and group in known.fits)
        if not fits and not has_other_subject(note, hit.start, people=_PERSONS):
            return "a language"
    return None


@cache
def _at_home() -> frozenset[str]:
    """States and the like, of which nobody thinks an origin."""
    return frozenset(_crude()["ethnicity"]["places"].split())


def _surname(note: ScannedNote, group: str) -> str | None:
    """A patient's name that most readers would place: Mr Nguyen is not White."""
    names = _names()
    for hit in note.hits("sure:surname"):
        if names[hit.word] != group and note.text[hit.start].isupper() and group != "none":
            before, after = note.text[max(0, hit.start - 32) : hit.start], note.text[hit.end : hit.end + 16]
            if not _PROVIDER.search(before) and not _PROVIDER_NEXT.match(after):
                return "a name"
    return None


def _measured(patient: DescribedPatient, found: Any, group: str) -> str | None:
    """A weight that most adults of the group do not have, or one that was not understood."""
    bmi = next((one.bmi for one in built_in("weight").groups if one.name == group), None)
    note = patient.note
    if patient.is_child and any(_is_said(note, hit) for hit in note.hits("sure:measure")):
        return "a child's weight"
    if bmi is None or group == "none":
        return None
    for low, high in _masses(note):
        if high < bmi[0] or low > bmi[1]:
            return "a weight"
    if found.mass is None and any(_is_said(note, hit) for hit in note.hits("sure:measure")):
        return "a weight that can't be read"
    return None


def _masses(note: ScannedNote) -> Iterator[tuple[float, float]]:
    """The body mass index that each weight of the note would be, for most heights."""
    if not note.hits("kg") and not note.hits("sure:measure") and "lb" not in note.text:
        return
    for match in _WEIGHT.finditer(note.text):
        first, _ = note.sentence(match.start())
        if _OF_CHANGE.search(note.text, max(first, match.start() - 32), match.start()):
            continue
        mass = float(match.group("value")) * (1 if match.group("unit").lower().startswith("k") else _KG)
        if mass > 28:
            yield mass / _HIGH**2, mass / _LOW**2


def _is_said(note: ScannedNote, hit: Hit) -> bool:
    said = _BMI_SAID if hit.word == "bmi" else _WEIGHT_SAID
    return said.match(note.text, hit.end) is not None
