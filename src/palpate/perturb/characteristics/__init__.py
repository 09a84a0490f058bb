"""Alterations of the patient's characteristics in a note (van Aken et al., behavioral testing; sections 3 and 4.2).

    from palpate.perturb.characteristics import Alterer, alter, detect

    detect("63 y/o F with asthma").present["gender"]            # "female"
    alter("63 y/o F with asthma", "gender", "male").text        # "63 y/o M with asthma"

A clinician who reads the altered note should not notice that it was altered, and nothing but the characteristic may
change. `gender`, `age` and `definitions` say how each one is worded and which notes are skipped.

alterer      scans a note once and gives the edits for any group
reading      what a note says: sentences, people, ages, the phrases that introduce the patient
age          the patient's age
gender       the patient's gender: nouns, titles, letters, pronouns, spouses, first names
definitions  the characteristics that are defined in YAML: ethnicity, weight, insurance, housing, language, wording
wording      finds and rewrites the words of such a definition
grammar      articles, removed words and numbers in words
doubts       the second reader: skips what nobody is sure of
outcomes     what altering and detecting return
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from palpate.cases.edits import splice
from palpate.perturb.characteristics.alterer import NAMES, Alterer, FoundCharacteristics
from palpate.perturb.characteristics.definitions import Definition, load_definition
from palpate.perturb.characteristics.doubts import Sure
from palpate.perturb.characteristics.outcomes import Action, Alteration, Contradictory, Detection, EditOutcome, Mention

__all__ = [
    "NAMES",
    "Action",
    "Alteration",
    "Alterer",
    "Contradictory",
    "Definition",
    "Detection",
    "EditOutcome",
    "FoundCharacteristics",
    "Mention",
    "Sure",
    "alter",
    "detect",
    "load_definition",
]


def detect(text: str) -> Detection:
    """What a note says about its patient, for all built-in characteristics."""
    alterer = _alterer(NAMES, "skip", "normal")
    return alterer.detection(alterer.plan(text))


def alter(
    text: str,
    characteristic: str | Definition | Mapping[str, str],
    group: str | None = None,
    *,
    contradictory: Contradictory = "skip",
    sure: Sure = "strict",
) -> Alteration:
    """Alter a note to a group of one characteristic, or of several: `{characteristic: group, ...}`.

    With `sure="normal"` the second reader (`doubts`) is not asked.
    """
    if isinstance(characteristic, Mapping):
        wanted: dict[str, str] = dict(characteristic)
        alterer = _alterer(tuple(wanted), contradictory, sure)
    elif isinstance(characteristic, Definition):
        alterer = Alterer([characteristic], contradictory=contradictory, sure=sure)
        wanted = {characteristic.name: str(group)}
    else:
        alterer, wanted = _alterer((characteristic,), contradictory, sure), {characteristic: str(group)}
    for name, one in wanted.items():
        alterer.check(name, one)
    edits, action, reason = alterer.edits(alterer.plan(text), wanted)
    return Alteration(splice(text, edits), edits, action, reason)


@lru_cache(maxsize=32)
def _alterer(names: tuple[str, ...], contradictory: Contradictory, sure: Sure) -> Alterer:
    return Alterer(names, contradictory=contradictory, sure=sure)
