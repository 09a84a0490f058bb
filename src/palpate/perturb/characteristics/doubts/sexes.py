"""Sexes: words that only one sex allows, and words of a transition, whoever's they are."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from palpate.files import read_resource
from palpate.perturb.characteristics.doubts.kin import OWN_SEX
from palpate.perturb.characteristics.doubts.places import AlteredTo
from palpate.perturb.characteristics.gender.anatomy import BORN_BY, OF_KIN, sex_of_words
from palpate.perturb.characteristics.reading import Hit, ScannedNote
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import OTHERS

WORDING = {"female": "female", "male": "male", "trans woman": "female", "trans man": "male"}
"""What each group is worded as."""
OPPOSITE = {"female": "male", "male": "female"}
_PLACE = re.compile(
    r"['’]?s?\s+(?:shelter|health|clinic|hospital|cent(?:er|re)|unit|prison|refuge|shed)\b", re.IGNORECASE
)
""" "A women's shelter"."""
_WORN = re.compile(r"\b(?:her|his|their|an?|wedding|the)\s+$", re.IGNORECASE)
""" "Her dress", unlike "can dress"."""
_TO_SOMETHING = re.compile(
    r"(?:\s+(?:back|over))?\s+(?:to(?!\s+(?:an?\s+)?(?:fe)?male\b)|of|off|from|into|home|zone|point|clinic|care|plan|period)\b",
    re.IGNORECASE,
)
_CANCER = re.compile(r"\b(?:cancer|carcinoma|ca|dcis|malignancy|seminoma|tumor|tumour)\b", re.IGNORECASE)
_MONTHLY = re.compile(
    r"\b(?:her|his|their|heavy|heavier|light|irregular|regular|monthly|missed|painful|last|normal\s+menstrual|late)\s+$",
    re.IGNORECASE,
)
""" "Her periods", unlike "short periods"."""
_NURSES = re.compile(r"\b(?:while|still|is|was|currently|when|been|stopped|not)\s+$", re.IGNORECASE)
""" "Stopped the drug while nursing", unlike a nursing home."""
_CHILDS = re.compile(
    r"\b(?P<whose>his|her)\s+(?:[a-z]+\s+)?(?:children|kids|child|sons?|daughters?|baby|babies)(?:['’]s?)\s+$",
    re.IGNORECASE,
)
_OF_CHILD = re.compile(
    r"\s+of\s+(?P<whose>his|her)\s+(?:[a-z]+\s+)?(?:children|kids|child|sons?|daughters?|baby|babies|pregnancy)\b",
    re.IGNORECASE,
)
_FAMILY = frozenset(["family", "relative", "relatives"])
_OF_FORTY = re.compile(r"/\s?40\b")
_WEEKS = re.compile(r"(?<![\d/.])(?:[4-9]|[1-3]\d|4[0-2])(?:\s?\+\s?\d)?\s?$")
""" "28+3 /40": weeks of a pregnancy."""
_SIGHT = re.compile(r"\b(?:VA|vision|acuity|visus|O[DSU]|20/\d\d)\b[^.;\n]{0,30}$")
""" "VA 20/25, 20/40"."""
_FLUID = (
    re.compile(
        r"\b(?:FEN|fluids?|given|got|gave|bolus\w*|hydrat\w+|resuscitat\w+|maintenance|gentle|aggressive|lasix)\b"
        r"\W{0,4}(?:\w+\W+){0,2}$",
        re.IGNORECASE,
    ),
    re.compile(
        r"\W{1,3}(?:replete|lytes|electrolytes|bolus\w*|hydrat\w+|resuscitat\w+|fluids?|prn|overnight|kvo|@|(?:at\s+)?\d+\s?(?:L|cc|ml)\b"
        r"|in\s+the\s+ED|(?:and|&|/)\s+(?:abx|antibiotics|zofran|pressors))",
        re.IGNORECASE,
    ),
)
""" "FEN: IVF, replete lytes": before and after intravenous fluid, which has the letters of a fertility treatment."""
_GRAVIDA = re.compile(r"[Gg]\s?\d{1,2}\s?[Pp]\s?\d")
_NOT_TIED = re.compile(r"(?<![\w.])")


@cache
def _crude() -> dict[str, Any]:
    table: dict[str, Any] = read_resource("palpate.perturb.characteristics.doubts", "crude.yaml")
    return table


@cache
def _sexed() -> dict[str, str]:
    crude = {word: sex for sex, words in _crude()["sexed"].items() for word in words.lower().split() if word.isalpha()}
    return {**sex_of_words(), **crude}


_FEMALE_ROLES = (
    "housewife",
    "actress",
    "waitress",
    "hostess",
    "mistress",
    "heroine",
    "seamstress",
    "bridesmaid",
    "maiden",
)
_MALE_ROLES = ("salesman", "chairman", "handyman", "draftsman", "tradesman", "workman", "groomsman", "bloke", "fella")
_ROLES = frozenset((*_FEMALE_ROLES, *_MALE_ROLES))
"""Words of a gender that do not contradict one who is transgender: a transgender woman may be a housewife."""


_OESTROGENS = "estradiol oestradiol estrogen oestrogen prempro premphase premarin activella climara vivelle hrt"
_ANDROGENS = "testosterone androgel testim androderm axiron"
_HORMONES = {"female": frozenset(_OESTROGENS.split()), "male": frozenset(_ANDROGENS.split())}
"""What replaces the hormones of a sex: of the patient's own, it says nothing against a non-binary patient."""


def triggers() -> dict[str, tuple[str, ...]]:
    """The words to scan for, by tag."""
    return {
        "sure:periods": ("periods", "period"),
        "sure:bears": ("conceive", "conceiving", "preconception", "nursing"),
        "sure:ward": ("women", "womens", "men", "mens"),
        "sure:dress": ("dress", "skirt"),
        "sure:enlarged": ("augmentation", "implant", "implants"),
        "sure:sexed": tuple(_sexed()),
        "sure:transition": tuple(word for word in _crude()["transition"].split() if word.isalpha()),
    }


def contradiction(patient: DescribedPatient, altered: AlteredTo) -> str | None:
    """A word that may contradict the group: of a sex, or of a transition."""
    group, told = altered.group, altered.found.identity.is_told
    fits = _HORMONES.get(altered.found.base or "", frozenset()) if group == "non-binary" and not told else frozenset()
    if (group not in ("female", "male") or told) and any(
        hit.word not in fits and _is_of_transition(patient.note, hit, told=told)
        for hit in patient.note.hits("sure:transition")
    ):
        return "a word of a transition"
    if group == "trans man" and any(_is_of_breasts(patient.note, hit) for hit in patient.note.hits("sure:enlarged")):
        return "a breast augmentation shows a sex"
    parent = _other_parent(patient.note, altered) if group in ("female", "male") else None
    if parent:
        return parent
    changed = {edit.start for edit in altered.edits if edit.end > edit.start}
    sexed = _sexed_word(patient, group, altered.found.base, changed)
    return f"'{sexed}' shows a sex" if sexed else None


def _other_parent(note: ScannedNote, altered: AlteredTo) -> str | None:
    """ "His children's mothers", "the father of her baby": the patient is the other parent."""
    base, own = altered.found.base, {edit.start for edit in altered.edits if edit.end > edit.start}
    words = ("mother", "mothers") if base == "male" else ("father", "fathers")
    for hit in note.hits("people"):
        if base is None or hit.word not in words:
            continue
        match = _CHILDS.search(note.text, max(0, hit.start - 32), hit.start) or _OF_CHILD.match(note.text, hit.end)
        if match and match.start("whose") in own:
            return f"the {hit.word} of the patient's child shows a sex"
    return None


def _is_of_breasts(note: ScannedNote, hit: Hit) -> bool:
    """Whether what was put in or enlarged are breasts, unlike a cochlear implant or a chin."""
    near = note.text[max(0, hit.start - 24) : hit.end + 24].lower()
    return "breast" in near or "mammoplast" in near or "mammaplast" in near


def _is_of_transition(note: ScannedNote, hit: Hit, *, told: bool) -> bool:
    """Whether a word tells of a gender: patients are transitioned to tablets, and hearts need spironolactone."""
    if hit.word.startswith("spiro"):
        return told
    if hit.word in ("mastectomy", "orchiectomy") and _CANCER.search(note.text, *note.sentence(hit.start)):
        return False
    return not hit.word.startswith("transition") or _TO_SOMETHING.match(note.text, hit.end) is None


def _sexed_word(patient: DescribedPatient, group: str, base: str | None, changed: set[int]) -> str | None:
    """A word that shows a sex that does not fit the group, unless a relative is near."""
    note, target = patient.note, WORDING.get(group)
    if target is None or (base == target and group in ("female", "male")):
        return None
    trans = group in ("trans woman", "trans man")
    against = target if trans else OPPOSITE[target]
    words = _sexed()
    for hit in note.hits("sure:sexed"):
        if words.get(hit.word) == against and not _beside_kin(note, hit, child=patient.is_child):
            if trans and hit.word in _ROLES:
                continue
            if hit.start in changed or (hit.word == "ivf" and _is_fluid(note, hit)):
                continue  # a salesman who is a saleswoman now
            return hit.word
    of_place = "women" if against == "female" else "men"
    for hit in note.hits("sure:ward"):
        if hit.word.removesuffix("s") == of_place and _PLACE.match(note.text, hit.end):
            return f"{of_place}'s"
    if against == "female" and base == "female" and not patient.is_child and _bears(note):
        return "a wish or care for a child"
    if against == "female" and any(_is_menses(note, hit) for hit in note.hits("sure:periods")):
        return "periods"
    if against == "female" and any(_is_worn(note, hit) for hit in note.hits("sure:dress")):
        return "dress"
    return _expects(note.text) if against == "female" and not patient.is_child else None


def _is_fluid(note: ScannedNote, hit: Hit) -> bool:
    before, after = _FLUID
    return bool(before.search(note.text, max(0, hit.start - 32), hit.start) or after.match(note.text, hit.end))


def _bears(note: ScannedNote) -> bool:
    """Whether the patient nurses or wants to conceive, and no partner is in the sentence who may as well."""
    for hit in note.hits("sure:bears"):
        first, last = note.sentence(hit.start)
        nurses = hit.word == "nursing" and _NURSES.search(note.text, max(first, hit.start - 16), hit.start)
        if hit.word == "nursing" and not nurses:
            continue
        if not any(first <= one.start < last for one in note.hits("people")):
            return True
    return False


def _is_menses(note: ScannedNote, hit: Hit) -> bool:
    return _MONTHLY.search(note.text, max(0, hit.start - 24), hit.start) is not None


def _is_worn(note: ScannedNote, hit: Hit) -> bool:
    return _WORN.search(note.text, max(0, hit.start - 10), hit.start) is not None


def _expects(text: str) -> str | None:
    """What tells of a pregnancy in figures: 28/40, G2P1."""
    for match in _OF_FORTY.finditer(text):
        weeks = _WEEKS.search(text, max(0, match.start() - 8), match.start())
        if weeks and not _SIGHT.search(text, max(0, match.start() - 48), match.start()):
            return text[weeks.start() : match.end()]
    births = (match for match in _GRAVIDA.finditer(text) if _NOT_TIED.match(text, match.start()))
    return next((match.group() for match in births), None)


_BORNE_WORDS = "pregnancy pregnancies miscarriage miscarriages pregnant miscarried gravida"
_BORNE = frozenset(_BORNE_WORDS.split())
_OWN_CHILDREN = re.compile(
    r"\W*(?:she|he|the\s+patient|pt)\s+(?:(?:also|has|had|is|was|did|does|have|not|never|been)\s+)*(?!family\b)"
    r"(?:(?!\b(?:family|relatives?|mother|sisters?|aunts?|wife|wives|partners?|daughters?|grandmothers?)\b)[^.;])*$",
    re.IGNORECASE,
)
""" "She has had two children, the first pregnancy at 22", right after a sentence of a family history."""


def _beside_kin(note: ScannedNote, hit: Hit, *, child: bool) -> bool:
    """Whether a word may be a relative's: in a family history, after a relative; in a child's note, the mother's."""
    first, _ = note.sentence(hit.start)
    if hit.word in _BORNE and not child and _OWN_CHILDREN.match(note.text, first, hit.start):
        return False
    if note.in_family(hit.start) and hit.word not in OWN_SEX:
        return True
    if OF_KIN.search(note.text, max(first, hit.start - 40), hit.start):
        return True
    if hit.word not in OWN_SEX and BORN_BY.search(note.text, max(first, hit.start - 60), hit.start):
        return True
    if child:
        return hit.word not in OWN_SEX
    others = OTHERS - _FAMILY if hit.word in OWN_SEX else OTHERS  # a family history may go on with the patient's menses
    return any(first <= one.start < hit.start and one.word in others for one in note.hits("people"))
