"""The other notes of a stay: physician, nursing and radiology notes, addenda, and the summaries of newborns."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from palpate.synthetic.dice import Dice
from palpate.synthetic.notes import ConditionSpan, Draft, grammar
from palpate.synthetic.notes.voice import BLANK, Style, Voice
from palpate.synthetic.patients import Stay, SyntheticPatient
from palpate.synthetic.patients.labs import panel_line, vitals

_PHYSICIAN = ("Physician Resident Progress Note", "Physician Resident Admission Note", "Intensivist Note",
              "Physician Attending Progress Note")  # fmt: skip
_RADIOLOGY = ("CHEST (PORTABLE AP)", "CHEST (PA & LAT)", "CT HEAD W/O CONTRAST", "CT ABD W&W/O C", "RENAL U.S.",
              "UNILAT LOWER EXT VEINS")  # fmt: skip


class WardNote(NamedTuple):
    """A note and when it was written; `time` is None if MIMIC-III has only the day."""

    category: str
    description: str
    day: datetime
    time: datetime | None
    text: str
    spans: list[ConditionSpan]
    error: bool = False


def ward_notes(voice: Voice, dice: Dice) -> list[WardNote]:
    """Notes during the stay, in order of time."""
    stay = voice.stay
    notes = []
    if dice.chance(0.75):
        notes.append(_note(_physician(voice, dice), "Physician ", dice.pick(_PHYSICIAN), stay, dice))
    for _ in range(dice.integer(1, 2)):
        notes.append(_note(_nursing(voice, dice), "Nursing", "Nursing Progress Note", stay, dice))
    notes.append(_note(radiology(voice, dice), "Radiology", dice.pick(_RADIOLOGY), stay, dice))
    return sorted(notes, key=lambda note: note.day)


def _note(draft: Draft, category: str, description: str, stay: Stay, dice: Dice) -> WardNote:
    when = stay.admit + (stay.discharge - stay.admit) * dice.uniform()
    when = when.replace(second=0, microsecond=0)
    return WardNote(category, description, when, when, draft.text(), draft.spans, dice.chance(0.003))


def _physician(voice: Voice, dice: Dice) -> Draft:
    draft, stay, context = Draft(dice), voice.stay, voice.context
    draft.add(f"Chief Complaint: {context['complaint']}\n")
    for sentence in grammar().some("physician", 4, dice, context):
        draft.say(sentence)
    draft.add(
        f"\nVital signs: {vitals(stay, dice, progress=0.4)}\nLabs: {panel_line('CHEM', stay, dice, progress=0.4)}\n"
    )
    draft.add("Assessment and Plan\n")
    draft.say(f"{grammar().fill('{who}', dice, context)} in hospital for {context['complaint']}.")
    for condition in stay.conditions[:6]:
        name = grammar().fill(dice.pick(condition.names), dice, context)
        plan = f"continue {dice.pick(condition.drugs)}" if condition.drugs else "supportive care"
        draft.add(f"\n# [[{name}]]: ", condition=condition.name)
        draft.say(f"{plan}, {grammar().fill('{adverb} {verbimprove}', dice, context)}.")
    return draft


def _nursing(voice: Voice, dice: Dice) -> Draft:
    draft = Draft(dice)
    draft.add("NPN " + dice.pick(("7a-7p", "7p-7a", "1900-0700", "0700-1900")) + "\n")
    for sentence in grammar().some("nursing", dice.integer(4, 7), dice, voice.context):
        draft.say(sentence)
        draft.add("\n")
    return draft


def radiology(voice: Voice, dice: Dice) -> Draft:
    """A report whose impression sometimes names a condition."""
    draft, stay = Draft(dice), voice.stay
    draft.add("FINAL REPORT\n")
    draft.say(grammar().one("radiology_open", dice, voice.context))
    draft.add("\n")
    for sentence in grammar().some("radiology", dice.integer(1, 3), dice, voice.context):
        draft.say(sentence)
    draft.add("\nIMPRESSION: ")
    seen = [c for c in stay.conditions if c.name in _SEEN]
    if seen and dice.chance(0.8):
        condition = dice.pick(seen)
        name = grammar().fill(dice.pick(condition.names), dice, voice.context)
        draft.say(f"Findings consistent with [[{name}]].", condition=condition.name)
    draft.say(grammar().fill("{Imagingfind}.", dice, voice.context))
    return draft


_SEEN = frozenset({"pneumonia", "pleural_effusion", "atelectasis", "pneumothorax", "lung_nodule", "rib_fracture",
                   "cardiomegaly", "heart_failure", "stroke", "cancer", "metastatic", "thrombosis"})  # fmt: skip


def addendum(voice: Voice, dice: Dice) -> Draft:
    """What was added after the summary was signed."""
    draft = Draft(dice)
    if voice.style == "iii":
        draft.add(grammar().one("addendum_header", dice, voice.context))
    for sentence in grammar().some("addendum", dice.integer(1, 2), dice, voice.context):
        draft.say(sentence)
    draft.lines(grammar().some("followup", 1, dice, voice.context))
    return draft


def newborn_summary(patient: SyntheticPatient, stay: Stay, dice: Dice, *, style: Style) -> Draft:
    """The summary of a newborn's first stay."""
    voice, draft = Voice(patient, stay, dice, style=style), Draft(dice)
    voice.context["mother_age"] = str(dice.integer(19, 43))
    born = voice.date(patient.birth) if style == "iii" else BLANK
    draft.add(f"Admission Date:  {voice.date(stay.admit)}       Discharge Date:  {voice.date(stay.discharge)}\n\n")
    draft.add(f"Date of Birth:  {born}       Sex:  {patient.gender}\n\nService: NEONATOLOGY\n")
    draft.heading("HISTORY OF PRESENT ILLNESS:")
    draft.say(grammar().one("newborn_hpi", dice, voice.context))
    draft.heading("HOSPITAL COURSE:")
    for sentence in grammar().some("newborn_course", dice.integer(5, 8), dice, voice.context):
        draft.say(sentence)
        draft.add("\n")
    draft.heading("FAMILY HISTORY:")
    for sentence in grammar().some("newborn_family", 2, dice, voice.context):
        draft.say(sentence)
    draft.heading("DISCHARGE DISPOSITION:")
    draft.add("Home with parents\n")
    draft.lines(grammar().some("followup", 2, dice, voice.context))
    return draft
