"""Characteristics that a YAML file defines: finds their words, changes, adds and removes them.

An adjective is a mention only if it describes the patient: before the noun that introduces him or her ("63 year old
Hispanic man"), before or after the age ("Asian 63M", "63yo Caucasian with asthma"), or after "is". So "white count",
"black stools" and "Dr. White" are not mentions. See `definitions` for the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.definitions import CharacteristicGroup, Definition
from palpate.perturb.characteristics.gender.words import like
from palpate.perturb.characteristics.grammar import taken_out, with_articles
from palpate.perturb.characteristics.outcomes import KEPT, NO_MENTION, Contradictory, EditOutcome, Mention, skipped
from palpate.perturb.characteristics.reading import Hit, ScannedNote, section_end
from palpate.perturb.characteristics.reading.patient import DescribedPatient, Description
from palpate.perturb.characteristics.reading.people import belongs_to_patient, has_other_subject
from palpate.perturb.characteristics.wording import contexts

_LETTERS = {"AA": "African American", "W": "White", "C": "White", "B": "African American", "H": "Hispanic"}
_FIXED = "the mention can't be taken out of its sentence"
_MIXED = "ambiguous: the note puts the patient in more than one group"
_JOINT = re.compile(r"(?P<mixes>\s*/\s*|-|\s+(?:or|and|and/or)\s+)|\s+")


class WordedMention(NamedTuple):
    """A mention: its span, its group (None for a group that is never written) and its kind."""

    start: int
    end: int
    group: str | None
    kind: str


class Form(NamedTuple):
    """A form to look for; `row` is its row in a wording table."""

    pattern: re.Pattern[str]
    group: str | None
    kind: str
    row: int = -1


@dataclass
class FoundWords:
    """The mentions of one characteristic in a note."""

    patient: DescribedPatient
    places: list[WordedMention] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    signs: list[WordedMention] = field(default_factory=list)
    denied: set[str] = field(default_factory=set)
    """Groups that the note says the patient is not in."""
    against: dict[str, str] = field(default_factory=dict)
    """By group, a word that contradicts it."""
    mixed: bool = False
    present: str | None = None


def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(r"\b" + r"\s+".join(map(re.escape, form.split())) + r"(?![\w])", re.IGNORECASE)


@dataclass(frozen=True)
class WordedCharacteristic:
    """Finds and alters a characteristic that is defined in YAML."""

    definition: Definition
    contradictory: Contradictory = "skip"

    @property
    def name(self) -> str:
        """The name of the characteristic."""
        return self.definition.name

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of its groups."""
        return tuple(group.name for group in self.definition.groups)

    @cached_property
    def _by_name(self) -> dict[str, CharacteristicGroup]:
        return {group.name: group for group in self.definition.groups}

    @cached_property
    def _forms(self) -> dict[str, list[Form]]:
        """The forms to look for, by first word, longest first."""
        definition = self.definition
        rows: list[tuple[str, Form]] = []
        for group in (*definition.groups, *([definition.other] if definition.other else [])):
            name = None if group is definition.other else group.name
            worded = {**group.forms, "header": (), "signs": group.signs, "against": group.against}
            rows += [(form, Form(_pattern(form), name, kind)) for kind, forms in worded.items() for form in forms]
        for number, phrases in enumerate(definition.wording):
            rows += [
                (p, Form(_pattern(p), g.name, "wording", number))
                for p, g in zip(phrases, definition.groups, strict=True)
            ]
        rows += [(form, Form(_pattern(form), None, "exception")) for form in definition.exceptions]
        forms_of: dict[str, list[Form]] = {}
        for form, entry in sorted(rows, key=lambda row: (-len(row[0]), row[1].kind != "exception")):
            forms_of.setdefault(re.match(r"[A-Za-z]+", form).group().lower(), []).append(entry)  # type: ignore[union-attr]
        return forms_of

    @cached_property
    def _header(self) -> re.Pattern[str] | None:
        values = {form.lower(): None for g in self._all_groups() for form in g.forms.get("header", ())}
        if not self.definition.headers or not values:
            return None
        labels = "|".join(re.escape(label) for label in sorted(self.definition.headers, key=len, reverse=True))
        options = "|".join(re.escape(value) for value in sorted(values, key=len, reverse=True))
        return re.compile(
            rf"(?:{labels})[ \t]*:[ \t]*(?P<not>(?:not|non)[ \t-]+)?(?P<value>{options})(?![\w])"
            r"(?P<more>\s?/\s?\w|[ \t](?:and|plus|&|\+)[ \t])?",
            re.IGNORECASE,
        )

    @cached_property
    def _more(self) -> re.Pattern[str] | None:
        """Another group right after a phrase: "has Medicare and Medicaid"."""
        words = sorted({form for g in self._all_groups() for form in g.forms.get("header", ())}, key=len, reverse=True)
        options = "|".join(map(re.escape, words))
        return re.compile(rf"\s*(?:/|&|,?\s+(?:and|or|plus)\s)\s*(?:{options})\b", re.IGNORECASE) if words else None

    def _all_groups(self) -> tuple[CharacteristicGroup, ...]:
        return (*self.definition.groups, *([self.definition.other] if self.definition.other else []))

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        labels = tuple(re.findall(r"[A-Za-z]+", label)[0] for label in self.definition.headers)
        sections = tuple(re.findall(r"[A-Za-z]+", title)[0] for title in self.definition.sections)
        leads = {contexts.lead_word(pattern) for group in self.definition.groups for pattern in group.patterns}
        tagged = {"word": tuple(self._forms), "label": labels, "section": sections}
        tagged["pattern"] = tuple(sorted(word for word in leads if word))
        return {f"{self.name}:{tag}": words for tag, words in tagged.items()}

    def find(self, patient: DescribedPatient) -> FoundWords:
        """Everything that the note says about the characteristic."""
        found = FoundWords(patient)
        note = patient.note
        taken = self._find_headers(found)
        past = 0
        for hit in note.hits(f"{self.name}:word"):
            if hit.start >= past and not any(start <= hit.start < end for start, end in taken):
                past = max(past, self._find_at(found, hit))
        if self.name == "ethnicity":
            letters = ((s, e, note.text[s:e].rstrip("/ ").upper()) for s, e in patient.race_letters)
            found.places += [WordedMention(s, e, _LETTERS[word], "letters") for s, e, word in letters]
            found.mixed = patient.has_letters_before_age
        for group in self.definition.groups:
            self._find_patterns(found, group)
        if self.definition.wording:
            found.rows = [row for _, row in sorted(zip(found.places, found.rows, strict=True))]
        found.places.sort()
        found.signs.sort()
        if not self.definition.wording:
            self._join(found)
        told = [place.group for place in (*found.places, *found.signs)]
        silent = next((group.name for group in self.definition.groups if group.is_empty), None)
        found.present = told[0] if told else None if self.definition.wording else silent
        if found.mixed or (self.definition.wording and len(set(told)) > 1):
            found.present = None
        return found

    def _find_patterns(self, found: FoundWords, group: CharacteristicGroup) -> None:
        note = found.patient.note
        for pattern in group.patterns:
            for match in contexts.matches(pattern, note, f"{self.name}:pattern"):
                start, end = match.span()
                if belongs_to_patient(note, start, end) and not contexts.is_denied(note, start, end):
                    found.signs.append(WordedMention(start, end, group.name, "signs"))

    def _join(self, found: FoundWords) -> None:
        """Adjectives side by side are one mention ("White or Caucasian"), mixed if they differ ("white/Hispanic")."""
        text, joined = found.patient.note.text, list[WordedMention]()
        for place in found.places:
            last = joined[-1] if joined and joined[-1].kind == place.kind == "adjective" else None
            joint = _JOINT.fullmatch(text, last.end, place.start) if last else None
            if last is None or joint is None:
                joined.append(place)
                continue
            differ = last.group != place.group
            found.mixed |= differ and (joint.group("mixes") is not None or None not in (last.group, place.group))
            joined[-1] = last._replace(end=place.end, group=last.group or place.group)
        for start, end, _, kind in joined:
            if kind in ("phrase", "sentence") and self._more and self._more.match(text, end):
                found.mixed = True
            if kind == "adjective":
                before, after = text[max(0, start - 2) : start], text[end : end + 2]
                tied = (before[:1].isalpha() and before[1:] in ("/", "-")) or (
                    after[:1] in ("/", "-") and after[1:].isalpha()
                )
                found.mixed |= tied or contexts.is_partly(text, start)
        found.places = joined

    def _find_at(self, found: FoundWords, hit: Hit) -> int:
        """Look for the forms that start at a word; returns the end of what was found."""
        note = found.patient.note
        for form in self._forms[hit.word]:
            match = form.pattern.match(note.text, hit.start)
            if match is None:
                continue
            if form.kind == "exception":
                return match.end()
            kind = self._kind_at(found.patient, form, match)
            if kind is None:
                continue
            place = WordedMention(match.start(), match.end(), form.group, kind)
            noun = form.row >= 0 and self.definition.contexts[form.row] in ("", "noun")
            if contexts.is_denied(note, *match.span(), listed=noun):
                # A denied wording shows no group: "not a drug addict" does not describe the patient.
                found.denied |= {form.group} if form.group and kind not in ("against", "wording") else set()
            elif kind == "against":
                found.against.setdefault(str(form.group), match.group())
                continue  # it may contradict other groups too
            elif kind == "signs":
                found.signs.append(place)
            else:
                found.places.append(place)
                if form.row >= 0:
                    found.rows.append(form.row)
            return match.end()
        return hit.start

    def _kind_at(self, patient: DescribedPatient, form: Form, match: re.Match[str]) -> str | None:
        """The kind of mention at this position, or None."""
        start, end = match.span()
        note, kind = patient.note, form.kind
        if form.row >= 0 and not contexts.fits_context(note, start, end, self.definition.contexts[form.row]):
            return None
        if kind == "signs" and contexts.is_providers(note.text, end):
            return None
        if kind == "adjective":
            if contexts.is_language(note.text, end):
                return None
            if patient.describes(start, end):
                return "adjective"
            if patient.is_in_brackets(start, end):
                return "brackets"
            return "predicate" if contexts.is_said(note, start, end) and belongs_to_patient(note, start, end) else None
        if kind == "sentence":
            first, last = note.sentence(start)
            whole = contexts.is_lead(note.text[first:start]) and note.text[end:last].strip() in (".", "")
            return "sentence" if whole and not note.in_family(start) else None
        if match.group().lower().endswith((" with", " in", " at")):
            # What follows is not described: "lives with wife".
            return None if note.in_family(start) or has_other_subject(note, start) else kind
        return kind if belongs_to_patient(note, start, end) else None

    def _find_headers(self, found: FoundWords) -> list[tuple[int, int]]:
        """Find the values of headers; returns their spans."""
        header, note, taken = self._header, found.patient.note, list[tuple[int, int]]()
        if header is None:
            return taken
        groups = {form.lower(): group for group in self._all_groups() for form in group.forms.get("header", ())}
        for hit in note.hits(f"{self.name}:label"):
            match = header.match(note.text, hit.start)
            if match and match.span("value") not in taken and belongs_to_patient(note, match.start(), match.end()):
                group = groups[match.group("value").lower()]
                name = None if group is self.definition.other else group.name
                start, end = match.span("value")
                taken.append((start, end))
                found.mixed |= match.group("more") is not None
                if match.group("not"):
                    found.denied |= {name} if name else set()
                else:
                    found.places.append(WordedMention(start, end, name, "header"))
        return taken

    def present(self, found: FoundWords) -> str | None:
        """The group that the note is in."""
        return found.present

    def mentions(self, found: FoundWords) -> list[Mention]:
        """Where the note mentions the characteristic."""
        text = found.patient.note.text
        return [Mention(p.start, p.end, text[p.start : p.end], p.group) for p in sorted((*found.places, *found.signs))]

    def outcome(self, found: FoundWords, group: str) -> EditOutcome:
        """The edits that alter the note to a group."""
        if group == found.present:
            return KEPT
        if found.mixed:
            return skipped(_MIXED)
        against = self._against(found, group) if self.contradictory == "skip" else None
        if against:
            return skipped(f"contradictory: the note says '{against}' in words that can't be changed")
        if self.definition.wording:
            return self._reworded(found, group)
        if not found.places:
            return self._added(found, group)
        edits: list[Edit] = []
        for place in found.places:
            edit = self._changed(found.patient.note, place, group)
            if edit is None:
                return skipped(_FIXED)
            if found.patient.note.text[edit.start : edit.end] != edit.text:
                edits.append(edit)
        return EditOutcome(with_articles(found.patient.note.text, edits), "changed") if edits else KEPT

    def _against(self, found: FoundWords, group: str) -> str | None:
        """What in the note contradicts a group."""
        sign = next((sign for sign in found.signs if sign.group != group), None)
        if sign:
            return f"not {group}" if self._by_name[str(sign.group)].is_empty else sign.group
        return f"not {group}" if group in found.denied else found.against.get(group)

    def _changed(self, note: ScannedNote, place: WordedMention, group: str) -> Edit | None:
        """The edit of one mention; None if the group has no form for it."""
        start, end, _, kind = place
        text = note.text
        written = text[start:end]
        if place.group == group:
            return Edit(start, end, written)
        forms = self._by_name[group].forms
        form = forms.get("adjective" if kind in ("predicate", "letters", "brackets") else kind)
        if form is not None:
            word = form[0].upper() if written.isupper() and len(written) > 3 else form[0]
            if kind == "letters":
                return Edit(start, end, (word.lower() if written.islower() else word) + " ")
            if kind in ("sentence", "phrase"):
                word = like(written, word) if not word[0].isupper() else word
            elif written[0].isupper() and start == note.opening(start):
                word = word[0].upper() + word[1:]
            return Edit(start, end, word)
        if not self._by_name[group].is_empty or kind in ("predicate", "phrase", "header"):
            return None
        if kind == "letters":
            return Edit(start, end, "")
        if kind == "brackets":
            return Edit(start - 2 if text[start - 2] == " " else start - 1, end + 1, "")
        if kind == "sentence":
            lead = len(text[:start]) - len(text[:start].rstrip())
            return Edit(start - lead, end + (text[end : end + 1] == "."), "")
        return taken_out(note, start, end)

    def _reworded(self, found: FoundWords, group: str) -> EditOutcome:
        if not found.places:
            return skipped(NO_MENTION)
        column, text = self.groups.index(group), found.patient.note.text
        edits = []
        for place, row in zip(found.places, found.rows, strict=True):
            if place.group != group:
                old, new = text[place.start : place.end], self.definition.wording[row][column]
                if not old.split()[0].isupper() or place.start == found.patient.note.opening(place.start):
                    new = like(old, new)  # the capitals of IV do not mean that "injection" is written in capitals
                edits.append(Edit(place.start, place.end, new))
        return EditOutcome(with_articles(text, edits), "changed") if edits else KEPT

    def _added(self, found: FoundWords, group: str) -> EditOutcome:
        note, forms = found.patient.note, self._by_name[group].forms
        for place in self.definition.insert:
            if place == "noun" and "adjective" in forms and found.patient.places:
                edits = [self._put_in(found.patient, at, forms["adjective"][0]) for at in found.patient.places]
                return EditOutcome(with_articles(note.text, edits), "added")
            if place == "section" and "sentence" in forms:
                end = self._end_of_section(note)
                if end is not None:
                    lead = " " if note.text[end - 1] in ".!?" else "\n"
                    return EditOutcome((Edit(end, end, f"{lead}{forms['sentence'][0]}."),), "added")
        return skipped(NO_MENTION)

    def _put_in(self, patient: DescribedPatient, description: Description, word: str) -> Edit:
        """Insert an adjective into a phrase, in the phrase's capitals."""
        noun = patient.note.text[slice(*description.noun)] if description.noun else ""
        put = patient.before_transgender if self.name == "ethnicity" else patient.before_ethnicity
        at = put(description.place)
        if noun.isupper() and len(noun) > 1:
            word = word.upper()
        elif at == patient.note.opening(at):
            word = word[0].upper() + word[1:]
        return Edit(at, at, word + " ")

    def _end_of_section(self, note: ScannedNote) -> int | None:
        """The end of the last word of the section into which a sentence may be inserted."""
        for hit in note.hits(f"{self.name}:section"):
            for title in self.definition.sections:
                after = hit.start + len(title)
                if note.text[hit.start : after].lower() != title.lower() or note.text[after : after + 1] not in (
                    ":",
                    "\n",
                ):
                    continue
                end = section_end(note.text, after)
                body = note.text[after + 1 : end].rstrip()
                if body.strip(" \n_"):
                    return after + 1 + len(body)
        return None
