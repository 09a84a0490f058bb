"""The edits of a characteristic that YAML defines: a mention changed, taken out or put in."""

from __future__ import annotations

from collections.abc import Iterable

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.definitions import CharacteristicGroup
from palpate.perturb.characteristics.gender.words import like
from palpate.perturb.characteristics.reading import ScannedNote, section_end
from palpate.perturb.characteristics.reading.patient import DescribedPatient, Description
from palpate.perturb.characteristics.wording.found import FoundWords, WordedMention
from palpate.perturb.characteristics.wording.places import small_patient
from palpate.perturb.characteristics.wording.removing import removed

_SHORT = frozenset(["ATSI"])
"""Abbreviations, whose capitals are not those of the note."""


def changed(found: FoundWords, place: WordedMention, group: CharacteristicGroup) -> list[Edit] | None:
    """The edits of one mention; None if the group has no form for it."""
    note, (start, end, _, kind) = found.patient.note, place
    written = note.text[start:end]
    if place.group == group.name:
        return []
    form = group.forms.get("adjective" if kind in ("predicate", "letters", "brackets", "descent", "alone") else kind)
    if form is None:
        out = removed(found, place) if group.is_empty else None
        return None if out is None else [out]
    plain = next((each for each in form if each.startswith("of ")), form[0]) if kind == "predicate" else form[0]
    if kind == "phrase" and written.lower().startswith("on "):  # "66M on Medicare", where "has Medicaid" does not fit
        plain = next((each for each in form if each.startswith("on ")), "")
        if not plain:
            return None
    word = plain.upper() if written.isupper() and len(written) > 3 and written not in _SHORT else plain
    if kind == "letters":
        return [Edit(start, end, (word.lower() if written.islower() else word) + " ")]
    if kind == "dwelling":
        at = next(one.verb for one in found.dwellings if one.start == start)
        word = plain.upper() if note.text[at - 3 : at].isupper() else plain
        return [Edit(start, end, word)] if at == start - 1 else [Edit(at, at, f" {word}"), Edit(start - 1, end, "")]
    if kind in ("sentence", "phrase", "diagnosis"):
        word = like(written, word) if not word[0].isupper() else word
    elif written[0].isupper() and start == note.opening(start):
        word = word[0].upper() + word[1:]
    return [Edit(start, end, word)]


def housed_in(found: FoundWords, group: CharacteristicGroup) -> list[Edit]:
    """Put in a place wherever the note says that the patient lives, and not where: "lives with his wife"."""
    form = group.forms.get("dwelling")
    if form is None:
        return []
    text, edits = found.patient.note.text, list[Edit]()
    for one in (each for each in found.dwellings if each.place == "open"):
        word = form[0].upper() if text[one.verb - 3 : one.verb].isupper() else form[0]
        local = one.start > one.verb
        edits.append(Edit(one.start, one.end, word) if local else Edit(one.verb, one.verb, f" {word}"))
    return edits


def reworded(old: str, new: str, *, opens: bool) -> str:
    """A phrase in place of another: the words that they share stay as they are written, and so does a capital."""
    if not old.split()[0].isupper() or opens:
        new = like(old, new)  # the capitals of IV do not mean that "injection" is written in capitals
    shared = []
    for before, after in zip(old.split(), new.split(), strict=False):
        if before.lower() != after.lower():
            break
        shared.append(before)
    return " ".join([*shared, *new.split()[len(shared) :]])


def put_in(patient: DescribedPatient, description: Description, word: str, *, last: bool) -> list[Edit]:
    """Insert an adjective into a phrase, in the phrase's capitals; `last` comes after other adjectives."""
    text = patient.note.text
    noun = text[slice(*description.noun)] if description.noun else ""
    at = (patient.before_transgender if last else patient.before_ethnicity)(description.place)
    opens = at == patient.note.opening(at)
    if (noun.isupper() and len(noun) > 1) or patient.note.is_in_capitals(at):
        word = word.upper()
    elif opens:
        word = word[0].upper() + word[1:]
    return [Edit(at, at, word + " "), *small_patient(patient, description)]


def end_of_section(note: ScannedNote, tag: str, titles: Iterable[str]) -> int | None:
    """The end of the last word of the section into which a sentence may be inserted."""
    for hit in note.hits(tag):
        for title in titles:
            after = hit.start + len(title)
            written, text = note.text[hit.start : after], note.text
            if written.lower() != title.lower():
                continue
            end = section_end(text, after)
            headed = text[after : after + 1] in (":", "\n")
            if not headed and not (
                len(title) > 4 and written.isupper() and text[after : after + 1] in " ," and end < len(text)
            ):
                continue
            body = text[after + 1 : end].rstrip(" \t\n,")
            if body.strip(" \n_:,"):
                return after + 1 + len(body)
    return None
