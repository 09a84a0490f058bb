"""Alterations of the patient's characteristics in a note (van Aken et al., behavioral testing; sections 3 and 4.2).

    from palpate.perturb.characteristics import Alterer, alter, detect

    detect("63 y/o F with asthma").present["gender"]            # "female"
    alter("63 y/o F with asthma", "gender", "male").text        # "63 y/o M with asthma"

A clinician who reads the altered note must not see that it was altered, and nothing but the characteristic may change.
`gender`, `age` and `definitions` say how each is worded and what is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from palpate.cases.edits import splice
from palpate.perturb.characteristics.alterer import NAMES, Alterer, FoundCharacteristics
from palpate.perturb.characteristics.definitions import Definition, load_definition
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
    "alter",
    "detect",
    "load_definition",
]


def detect(text: str) -> Detection:
    """What a note says of its patient, for all built-in characteristics."""
    alterer = _alterer(NAMES, "skip")
    return alterer.detection(alterer.plan(text))


def alter(
    text: str,
    characteristic: str | Definition | Mapping[str, str],
    group: str | None = None,
    *,
    contradictory: Contradictory = "skip",
) -> Alteration:
    """Alter a note to a group of one characteristic, or to `{characteristic: group, ...}` at once."""
    if isinstance(characteristic, Mapping):
        wanted: dict[str, str] = dict(characteristic)
        alterer = _alterer(tuple(wanted), contradictory)
    elif isinstance(characteristic, Definition):
        alterer, wanted = Alterer([characteristic], contradictory=contradictory), {characteristic.name: str(group)}
    else:
        alterer, wanted = _alterer((characteristic,), contradictory), {characteristic: str(group)}
    for name, one in wanted.items():
        alterer.check(name, one)
    edits, action, reason = alterer.edits(alterer.plan(text), wanted)
    return Alteration(splice(text, edits), edits, action, reason)


@lru_cache(maxsize=32)
def _alterer(names: tuple[str, ...], contradictory: Contradictory) -> Alterer:
    return Alterer(names, contradictory=contradictory)
