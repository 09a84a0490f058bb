"""Altering notes: one scan per note, then a few comparisons per group (section 3 of the paper, "Sample alterations").

alterer = Alterer(["gender", "age", "ethnicity"])
found = alterer.plan(text)                                  # the scan, once
edits, action, reason = alterer.edits(found, {"gender": "female", "age": "63"})

Every alteration is checked: the altered note is read again, and must say the new group (`checks`). If it does not, the
note is skipped with the reason.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from palpate.cases.edits import Edit
from palpate.errors import ConfigError
from palpate.perturb.characteristics.age import AgeCharacteristic
from palpate.perturb.characteristics.checks import AlterationCheck, kind_of
from palpate.perturb.characteristics.definitions import BUILT_IN, Definition, built_in
from palpate.perturb.characteristics.doubts import NoteDoubts, SecondReader, Sure
from palpate.perturb.characteristics.doubts import triggers as words_of_doubt
from palpate.perturb.characteristics.doubts.places import AlteredTo
from palpate.perturb.characteristics.gender import GenderCharacteristic
from palpate.perturb.characteristics.grammar import with_articles
from palpate.perturb.characteristics.outcomes import KEPT, Action, Contradictory, Detection, EditOutcome, skipped
from palpate.perturb.characteristics.reading import TriggerWords, lazy, people
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.wording import WordedCharacteristic
from palpate.privacy import hides

Characteristic = GenderCharacteristic | AgeCharacteristic | WordedCharacteristic
NAMES = ("gender", "age", *BUILT_IN)
"""The characteristics that come with palpate."""
_ADULTS = {"boy": "man", "girl": "woman"}
_YOUTH = "youth"
_LAST = 1000
"""The order of gender and age among adjectives: "transgender" comes right before the noun."""
_RANK: dict[Action, int] = {"kept": 0, "added": 1, "changed": 2, "skipped": 3}


@hides("text")
class FoundCharacteristics(NamedTuple):
    """What one scan found in a note, by characteristic."""

    text: str
    by_name: Mapping[str, Any]
    patient: DescribedPatient
    checked: dict[tuple[str, str], str | None]
    """For each characteristic and kind of group that was checked, what is wrong with the altered note."""
    doubts: NoteDoubts


class Alterer:
    """Alters notes in some characteristics: names of built-in ones, or definitions loaded from YAML."""

    def __init__(
        self,
        characteristics: Iterable[str | Definition] = NAMES,
        *,
        contradictory: Contradictory = "skip",
        sure: Sure = "strict",
    ) -> None:
        self._second = SecondReader(contradictory == "skip") if sure == "strict" else None
        self._by_name = {c.name: c for c in (_make(item, contradictory) for item in characteristics)}
        self._lexicon = _lexicon(self._by_name.values(), words_of_doubt(self._by_name if self._second else ()))
        self._checks = {name: AlterationCheck(one, _lexicon([one], {})) for name, one in self._by_name.items()}
        self._plain = {
            form[0].upper() + form[1:]: form
            for one in self._by_name.values()
            if isinstance(one, WordedCharacteristic)
            for group in one.definition.groups
            for form in group.forms.get("adjective", ())[:1]
            if form[0].islower()
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """A process that gets the same alterer again and again, with some of the notes each time, keeps the first."""
        return _restored, (self._state,)

    @lazy
    def _state(self) -> bytes:
        return pickle.dumps(self.__dict__, protocol=pickle.HIGHEST_PROTOCOL)

    @property
    def characteristics(self) -> tuple[str, ...]:
        """The names of the characteristics, in order."""
        return tuple(self._by_name)

    def groups(self, characteristic: str) -> tuple[str, ...]:
        """The default groups of a characteristic."""
        return self._one(characteristic).groups

    def check(self, characteristic: str, group: str) -> None:
        """Raise `ConfigError` for a group that the characteristic does not have."""
        one = self._one(characteristic)
        known = group in one.groups if isinstance(one, WordedCharacteristic) else one.knows(group)
        if not known:
            hint = "whole years from 18 to 89, or 90+" if isinstance(one, AgeCharacteristic) else ", ".join(one.groups)
            raise ConfigError(f"'{characteristic}' has no group '{group}'", hint=f"the groups are: {hint}")

    def plan(self, text: str) -> FoundCharacteristics:
        """Scan a note, once for all groups."""
        patient = DescribedPatient(self._lexicon.scan(text))
        by_name = {name: one.find(patient) for name, one in self._by_name.items()}
        return FoundCharacteristics(text, by_name, patient, {}, NoteDoubts())

    def detection(self, found: FoundCharacteristics) -> Detection:
        """What the note says about its patient."""
        present = {name: one.present(found.by_name[name]) for name, one in self._by_name.items()}
        mentions = {name: tuple(one.mentions(found.by_name[name])) for name, one in self._by_name.items()}
        return Detection(present, mentions)

    def edits(self, found: FoundCharacteristics, group: Mapping[str, str] | tuple[str, str]) -> EditOutcome:
        """The edits that alter the note to a group: `(characteristic, group)`, or several as a mapping.

        A combination is skipped if one of its parts is; it is kept if all are. A note that does not say the group when
        it is read again is skipped.
        """
        pairs = (group,) if isinstance(group, tuple) else tuple(group.items())
        alone = len(pairs) == 1
        outcome = self._unchecked(found, pairs)
        if not outcome.edits:
            return outcome
        for name, wanted in pairs:
            wrong = self._in_doubt(found, name, wanted, outcome, alone=alone)
            wrong = wrong or self._read_again(found, name, wanted, outcome, alone=alone)
            if wrong:
                return skipped(wrong if alone else f"{name}: {wrong}")
        return outcome

    def _in_doubt(
        self, found: FoundCharacteristics, name: str, wanted: str, outcome: EditOutcome, *, alone: bool
    ) -> str | None:
        """What the second reader is not sure of; of several characteristics, each is asked for its own edits."""
        own = outcome if alone else self._one(name).outcome(found.by_name[name], wanted)
        if self._second is None or not own.edits:
            return None
        altered = AlteredTo(name, wanted, found.by_name[name], own.edits)
        return self._second.doubt(found.patient, altered, found.doubts)

    def _read_again(
        self, found: FoundCharacteristics, name: str, wanted: str, outcome: EditOutcome, *, alone: bool
    ) -> str | None:
        """What is wrong with the altered note, if something is; groups that are written alike are checked once."""
        key = (name, kind_of(name, wanted))
        if alone and key in found.checked:
            return found.checked[key]
        worded = {"trans woman": "female", "trans man": "male"}.get(wanted)
        if name == "gender" and alone and worded and worded != found.by_name[name].base:
            as_worded = self.edits(found, (name, worded))
            if as_worded.reason and as_worded.reason.startswith("check"):
                return as_worded.reason
        wrong = self._checks[name].wrong(found.patient, outcome.edits, wanted)
        if alone:
            found.checked[key] = wrong
        return wrong

    def _unchecked(self, found: FoundCharacteristics, pairs: Sequence[tuple[str, str]]) -> EditOutcome:
        """The edits, before the altered note is read again."""
        if len(pairs) == 1:
            name, wanted = pairs[0]
            return self._one(name).outcome(found.by_name[name], wanted)
        outcomes: list[tuple[int, EditOutcome]] = []
        for name, wanted in pairs:
            one = self._one(name)
            outcome = one.outcome(found.by_name[name], wanted)
            if outcome.action == "skipped":
                return outcome._replace(reason=f"{name}: {outcome.reason}")
            outcomes.append((one.definition.order if isinstance(one, WordedCharacteristic) else _LAST, outcome))
        return merge(found.text, outcomes, self._plain)

    def _one(self, name: str) -> Characteristic:
        one = self._by_name.get(name)
        if one is None:
            raise ConfigError(
                f"unknown characteristic '{name}'", hint=f"the characteristics are: {', '.join(self._by_name)}"
            )
        return one


@lru_cache(maxsize=2)
def _restored(state: bytes) -> Alterer:
    one = Alterer.__new__(Alterer)
    one.__dict__.update(pickle.loads(state))
    return one


def merge(text: str, outcomes: Sequence[tuple[int, EditOutcome]], plain: Mapping[str, str]) -> EditOutcome:
    """The edits of several characteristics of one note as one list; skipped if they overlap.

    Each outcome has an order: of two insertions at one position the lower comes first, of two changes to one word the
    lower wins. If several adjectives would open the sentence, only the first keeps its capital; `plain` maps the others
    to lower case.
    """
    changes: dict[tuple[int, int], tuple[int, Edit]] = {}
    inserts: list[tuple[int, Edit]] = []
    for order, outcome in outcomes:
        for edit in outcome.edits:
            if text[edit.start : edit.end].lower() in ("a", "an") and edit.text.lower() in ("a", "an"):
                continue  # corrected at the end, when it is known what follows
            if edit.start == edit.end:
                inserts.append((order, edit))
                continue
            span = (edit.start, edit.end)
            before = changes.get(span)
            changes[span] = _both(before, (order, edit)) if before else (order, edit)
    ordered = sorted([*inserts, *changes.values()], key=lambda row: (row[1].start, row[1].end, row[0]))
    edits = _small_after_first([edit for _, edit in ordered], plain)
    if any(second.start < first.end for first, second in pairwise(edits)):
        return EditOutcome((), "skipped", "ambiguous: the mentions of two characteristics overlap")
    actions: list[Action] = [outcome.action for _, outcome in outcomes]
    action: Action = max(actions, key=_RANK.__getitem__, default="kept")
    return EditOutcome(with_articles(text, edits), action) if edits else KEPT


def _small_after_first(edits: list[Edit], plain: Mapping[str, str]) -> list[Edit]:
    """Write "Homeless uninsured 63F", not "Homeless Uninsured 63F"."""
    out = edits[:1]
    for before, edit in pairwise(edits):
        word = edit.text.rstrip()
        follows = edit.start == edit.end == before.end
        out.append(edit._replace(text=plain[word] + edit.text[len(word) :]) if follows and word in plain else edit)
    return out


def _both(first: tuple[int, Edit], second: tuple[int, Edit]) -> tuple[int, Edit]:
    """One word that two characteristics change: a boy who becomes a woman; a Latina who becomes an Asian man."""
    for (order, one), (_, other) in ((first, second), (second, first)):
        if one.text in _ADULTS and other.text in _ADULTS.values():
            return order, one._replace(text=_ADULTS[one.text])
        if one.text.endswith(_YOUTH) and other.text in _ADULTS.values():
            return order, one._replace(text=one.text.removesuffix(_YOUTH) + "person")
    return min(first, second)


def _lexicon(parts: Iterable[Characteristic], doubts: Mapping[str, tuple[str, ...]]) -> TriggerWords:
    """The words to scan for: of some characteristics, and of those who are spoken of."""
    words: dict[str, list[str]] = {
        "people": sorted(people.OTHERS),
        "patient": list(people.PATIENT),
        "family": ["family", "fh", "fhx", "famhx", "fam"],
    }
    # Ages and nouns identify the patient, whatever is altered.
    triggers = [part.triggers() for part in (GenderCharacteristic(), AgeCharacteristic(), *parts)]
    for tags in (*triggers, doubts):
        for tag, some in tags.items():
            words.setdefault(tag, []).extend(some)
    return TriggerWords(words)


def _make(item: str | Definition, contradictory: Contradictory) -> Characteristic:
    if isinstance(item, Definition):
        return WordedCharacteristic(item, contradictory)
    if item == "gender":
        return GenderCharacteristic(contradictory)
    if item == "age":
        return AgeCharacteristic(contradictory)
    if item in BUILT_IN:
        return WordedCharacteristic(_definition(item), contradictory)
    raise ConfigError(f"unknown characteristic '{item}'", hint=f"the characteristics are: {', '.join(NAMES)}")


@lru_cache
def _definition(name: str) -> Definition:
    return built_in(name)
