"""Characteristics that a YAML file defines: finds their words, changes, adds and removes them.

An adjective is a mention only if it describes the patient: before the noun that introduces him or her ("63 year old
Hispanic man"), before or after the age ("Asian 63M", "63yo Caucasian with asthma"), or after "is". So "white count",
"black stools" and "Dr. White" are not mentions. See `definitions` for the files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from palpate.cases.edits import Edit
from palpate.perturb.characteristics.definitions import CharacteristicGroup, Definition
from palpate.perturb.characteristics.grammar import with_articles
from palpate.perturb.characteristics.outcomes import KEPT, NO_MENTION, Contradictory, EditOutcome, Mention, skipped
from palpate.perturb.characteristics.reading import Hit, lazy
from palpate.perturb.characteristics.reading.patient import DescribedPatient
from palpate.perturb.characteristics.reading.people import belongs_to_patient, has_other_subject
from palpate.perturb.characteristics.wording import contexts
from palpate.perturb.characteristics.wording.dwellings import WORDS, dwellings, place_of
from palpate.perturb.characteristics.wording.found import Form, FoundWords, WordedMention, form_pattern
from palpate.perturb.characteristics.wording.headers import HeaderReader
from palpate.perturb.characteristics.wording.measures import measure_words
from palpate.perturb.characteristics.wording.origins import OriginReader
from palpate.perturb.characteristics.wording.removing import removed
from palpate.perturb.characteristics.wording.rewriting import changed, end_of_section, housed_in, put_in, reworded

_LETTERS = {"AA": "African American", "W": "White", "C": "White", "B": "African American", "H": "Hispanic"}
_INFANT = "infant: such words are not written of an infant"
_FIXED = "the mention can't be taken out of its sentence"
_MIXED = "ambiguous: the note puts the patient in more than one group"
_ORDER = {"exception": 0, "against": 2}
"""Of forms of one length, what is no mention comes first, and what can't be changed last."""
_STOUT = 25
"""The body mass index from which a denied group denies the heavier ones too."""
_JOINT = re.compile(r"(?P<mixes>\s*/\s*|-|\s+(?:or|and|and/or)\s+)|,?\s+")


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

    @lazy
    def _by_name(self) -> dict[str, CharacteristicGroup]:
        return {group.name: group for group in self.definition.groups}

    @lazy
    def _forms(self) -> dict[str, list[Form]]:
        """The forms to look for, by first word, longest first."""
        definition = self.definition
        rows: list[tuple[str, Form]] = []
        for group in (*definition.groups, *([definition.other] if definition.other else [])):
            name = None if group is definition.other else group.name
            worded = {**group.forms, "header": (), "dwelling": (), "signs": group.signs, "against": group.against}
            rows += [(form, Form(form_pattern(form), name, kind)) for kind, forms in worded.items() for form in forms]
        for number, phrases in enumerate(definition.wording):
            rows += [
                (p, Form(form_pattern(p), g.name, "wording", number))
                for p, g in zip(phrases, definition.groups, strict=True)
            ]
        rows += [(form, Form(form_pattern(form), None, "exception")) for form in definition.exceptions]
        forms_of: dict[str, list[Form]] = {}
        for form, entry in sorted(rows, key=lambda row: (-len(row[0]), _ORDER.get(row[1].kind, 1))):
            forms_of.setdefault(re.match(r"[A-Za-z]+", form).group().lower(), []).append(entry)  # type: ignore[union-attr]
        return forms_of

    @lazy
    def _origins(self) -> OriginReader:
        return OriginReader(self.definition.origins)

    @lazy
    def _headers(self) -> HeaderReader:
        return HeaderReader(self.definition)

    def triggers(self) -> dict[str, tuple[str, ...]]:
        """The words to scan for, by tag."""
        labels = tuple(re.findall(r"[A-Za-z]+", label)[0] for label in self.definition.headers)
        sections = tuple(re.findall(r"[A-Za-z]+", title)[0] for title in self.definition.sections)
        every = (p for group in self.definition.groups for p in (*group.patterns, *group.against_patterns))
        leads = {contexts.lead_word(pattern) for pattern in every}
        tagged = {"word": tuple(self._forms), "label": labels, "section": sections}
        tagged["pattern"] = tuple(sorted(word for word in leads if word))
        tagged["origin"] = self._origins.words
        tagged["lives"] = WORDS if self._dwellers else ()
        measured = measure_words() if any(group.bmi for group in self.definition.groups) else {}
        return {**{f"{self.name}:{tag}": words for tag, words in tagged.items()}, **measured}

    def find(self, patient: DescribedPatient) -> FoundWords:
        """Everything that the note says about the characteristic."""
        found = FoundWords(patient)
        self._find_words(found)
        self._find_signs(found)
        self._settle(found)
        return found

    def reread(self, patient: DescribedPatient) -> FoundWords:
        """What the note says, without what only shows a group if no word does."""
        found = FoundWords(patient)
        self._find_words(found)
        if self.definition.wording or not found.places:
            self._find_signs(found)
        self._settle(found)
        return found

    def _find_words(self, found: FoundWords) -> None:
        """The headers, places of living, forms and letters."""
        patient, note = found.patient, found.patient.note
        taken = [*self._find_headers(found), *self._find_dwellings(found)]
        past = 0
        for hit in note.hits(f"{self.name}:word"):
            if hit.start >= past and not any(start <= hit.start < end for start, end in taken):
                past = max(past, self._find_at(found, hit))
        if self.name == "ethnicity":
            letters = ((s, e, note.text[s:e].rstrip("/ ").upper()) for s, e in patient.race_letters)
            found.places += [WordedMention(s, e, _LETTERS[word], "letters") for s, e, word in letters]
            found.mixed = patient.has_letters_before_age

    def _find_signs(self, found: FoundWords) -> None:
        """The patterns and origins."""
        note = found.patient.note
        for group in self.definition.groups:
            self._find_patterns(found, group)
        for origin in self._origins.find(note, f"{self.name}:origin"):
            if origin.origin.shows and origin.what == "a country of origin":
                found.signs.append(WordedMention(origin.start, origin.end, origin.origin.shows, "signs"))
            for name in set(self.groups) - set(origin.origin.fits):
                if not self._by_name[name].is_empty:
                    found.origins.setdefault(name, origin.what)

    def _settle(self, found: FoundWords) -> None:
        """Sort what was found, and say which group it shows."""
        if self.definition.wording:
            found.rows = [row for _, row in sorted(zip(found.places, found.rows, strict=True))]
        found.places.sort()
        found.signs.sort()
        if not self.definition.wording:
            self._join(found)
        told = [place.group for place in (*found.places, *found.signs)]
        found.present = told[0] if told else None if self.definition.wording else self._silent
        if found.mixed or (self.definition.wording and len(set(told)) > 1):
            found.present = None

    @lazy
    def _silent(self) -> str | None:
        """The group of a note that says nothing."""
        return next((group.name for group in self.definition.groups if group.is_empty), None)

    @lazy
    def _dwellers(self) -> dict[str, str]:
        """The groups by the kind of place where they live."""
        told = ((group.name, group.forms.get("dwelling")) for group in self.definition.groups)
        return {place_of(forms[0]): name for name, forms in told if forms}

    def _find_dwellings(self, found: FoundWords) -> list[tuple[int, int]]:
        """Find where the patient lives; returns the spans of the places."""
        if not self._dwellers:
            return []
        found.dwellings = list(dwellings(found.patient.note, f"{self.name}:lives"))
        for one in found.dwellings:
            group = self._dwellers.get(one.place)
            if group:
                found.places.append(WordedMention(one.start, one.end, group, "dwelling"))
            elif one.place != "open":
                found.signs.append(WordedMention(one.start, one.end, self._dwellers.get("home"), "signs"))
        return [(one.start, one.end) for one in found.dwellings]

    def _find_patterns(self, found: FoundWords, group: CharacteristicGroup) -> None:
        note = found.patient.note
        for pattern in group.patterns:
            for match in contexts.matches(pattern, note, f"{self.name}:pattern"):
                start, end = match.span()
                if belongs_to_patient(note, start, end) and not contexts.is_denied(note, start, end):
                    found.signs.append(WordedMention(start, end, group.name, "signs"))
        for pattern in group.against_patterns:
            for match in contexts.matches(pattern, note, f"{self.name}:pattern"):
                start, end = match.span()
                if any(start <= place.start < end and place.group is None for place in found.places):
                    continue  # it is changed: "a thin man"
                if belongs_to_patient(note, start, end) and not contexts.is_denied(note, start, end):
                    found.against.setdefault(group.name, f"not {group.name}")

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
            if kind in ("phrase", "sentence") and self._headers.goes_on(text, end):
                found.mixed = True
            if kind == "adjective":
                before, after = text[max(0, start - 2) : start], text[end : end + 2]
                tied = (before[:1].isalpha() and before[1:] in ("/", "-")) or (
                    after[:1] in ("/", "-") and after[1:].isalpha()
                )
                found.mixed |= tied or contexts.is_partly(text, start, end)
            found.mixed |= kind == "predicate" and contexts.is_partly(text, start, end)
        found.places = joined

    def _find_at(self, found: FoundWords, hit: Hit) -> int:
        """Look for the forms that start at a word; returns the end of what was found."""
        note = found.patient.note
        for form in self._forms[hit.word]:
            match = form.pattern.match(note.text, hit.start)
            if match is None:
                continue
            if form.kind == "exception":
                self._find_against(found, hit)
                return match.end()
            kind = self._kind_at(found.patient, form, match)
            if kind is None:
                continue
            place = contexts.within_descent(WordedMention(match.start(), match.end(), form.group, kind), note.text)
            noun = form.row >= 0 and self.definition.contexts[form.row] in ("", "noun", "closed")
            if form.row >= 0 and contexts.is_heading(note, *match.span()):
                return match.end()
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

    def _find_against(self, found: FoundWords, hit: Hit) -> None:
        """What is no mention may contradict a group all the same: "central obesity" does not fit "underweight"."""
        note = found.patient.note
        for form in self._forms[hit.word]:
            match = form.pattern.match(note.text, hit.start) if form.kind == "against" else None
            if match and self._kind_at(found.patient, form, match) and not contexts.is_denied(note, *match.span()):
                found.against.setdefault(str(form.group), match.group())

    def _kind_at(self, patient: DescribedPatient, form: Form, match: re.Match[str]) -> str | None:
        """The kind of mention at this position, or None."""
        start, end = match.span()
        note, kind = patient.note, form.kind
        if form.row >= 0 and not contexts.fits_context(note, start, end, self.definition.contexts[form.row]):
            return None
        if kind == "signs" and contexts.is_providers(note.text, end):
            return None
        if kind == "adjective":
            if contexts.is_language(note.text, start, end) or contexts.is_colour(note.text, start, end):
                return None
            if contexts.is_descent(note.text, start, end):
                return "descent" if belongs_to_patient(note, start, end) else None
            if patient.describes(start, end):
                return "adjective"
            if patient.is_in_brackets(start, end):
                return "brackets"
            if self.name == "ethnicity" and contexts.opens_story(note, start, end):
                return "adjective"
            if self.name == "ethnicity" and form.group and contexts.is_alone(note, start, end):
                return "alone"
            return "predicate" if contexts.is_said(note, start, end) and belongs_to_patient(note, start, end) else None
        if kind == "diagnosis" and contexts.is_measured(note, start):
            kind = "signs"
        elif kind == "diagnosis" and contexts.is_graded(note, start):
            kind = "predicate"
        if kind == "sentence":
            first, last = note.sentence(start)
            whole = contexts.is_lead(note.text[first:start]) and note.text[end:last].strip() in (".", "")
            return "sentence" if whole and not note.in_family(start) else None
        if match.group().lower().endswith((" with", " in", " at")):
            # What follows is not described: "lives with wife".
            return None if note.in_family(start) or has_other_subject(note, start) else kind
        if kind == "against" and self.definition.insert and self._dwellers:
            # "His wife says he copes at home": the home is the patient's, whoever tells of it.
            return None if note.in_family(start) or contexts.is_others_home(note, start) else kind
        return kind if belongs_to_patient(note, start, end) else None

    def _find_headers(self, found: FoundWords) -> list[tuple[int, int]]:
        """Find the values of headers; returns their spans."""
        taken: list[tuple[int, int]] = []
        for match, name in self._headers.find(found.patient.note, f"{self.name}:label"):
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
            return skipped(f"contradictory: {against}")
        if self.definition.wording:
            return self._reworded(found, group)
        if not found.places:
            return self._added(found, group)
        return self._changed(found, group)

    def _changed(self, found: FoundWords, group: str) -> EditOutcome:
        """A diagnosis that can be taken out is, and what the group is called is said of the patient instead."""
        text, forms = found.patient.note.text, self._by_name[group].forms
        told = [place for place in found.places if place.kind == "diagnosis" and place.group != group]
        outs = [removed(found, place) for place in told] if found.open_places else [None]
        edits: list[Edit] = [out for out in outs if out]
        moved = told if len(edits) == len(told) else []
        edits = edits if moved else []
        rest = [place for place in found.places if place not in moved]
        for place in rest:
            own = changed(found, place, self._by_name[group])
            if own is None:
                return skipped(_FIXED)
            edits += [edit for edit in own if text[edit.start : edit.end] != edit.text]
        if any(place.kind == "dwelling" for place in rest):
            edits += housed_in(found, self._by_name[group])
        if not rest and "adjective" in forms:
            added = self._added(found, group)
            if not added.edits:
                return skipped(added.reason or NO_MENTION)
            edits += added.edits
        return EditOutcome(with_articles(text, edits), "changed") if edits else KEPT

    def _against(self, found: FoundWords, group: str) -> str | None:
        """What in the note contradicts a group."""
        sign = next((sign for sign in found.signs if sign.group != group), None)
        said: str | None = None
        if sign:
            said = f"not {group}" if self._by_name[str(sign.group)].is_empty else sign.group
        elif self._is_denied(found, group):
            said = f"not {group}"
        said = said or found.against.get(group)
        if said:
            return f"the note says '{said}' in words that can't be changed"
        bmi = self._by_name[group].bmi
        if bmi and found.mass and not (bmi[0] <= found.mass.high and found.mass.low <= bmi[1]):
            return "the note tells of a weight"
        told = found.origins.get(group) if found.present not in found.origins else None
        return f"the note tells of {told}" if told else None

    def _is_denied(self, found: FoundWords, group: str) -> bool:
        """Whether the note denies a group; who is not obese is not morbidly obese either."""
        bmi = self._by_name[group].bmi
        lower = (self._by_name[name].bmi for name in found.denied)
        return group in found.denied or (bmi is not None and any(low and _STOUT <= low[0] <= bmi[0] for low in lower))

    def _reworded(self, found: FoundWords, group: str) -> EditOutcome:
        if not found.places:
            return skipped(NO_MENTION)
        column, note = self.groups.index(group), found.patient.note
        edits = []
        for place, row in zip(found.places, found.rows, strict=True):
            if place.group != group:
                old, opens = note.text[place.start : place.end], place.start == note.opening(place.start)
                new = reworded(old, self.definition.wording[row][column], opens=opens)
                edits.append(Edit(place.start, place.end, new))
        return EditOutcome(with_articles(note.text, edits), "changed") if edits else KEPT

    def _added(self, found: FoundWords, group: str) -> EditOutcome:
        note, forms = found.patient.note, self._by_name[group].forms
        housed = housed_in(found, self._by_name[group])
        if housed:
            return EditOutcome(tuple(housed), "added")
        if self.definition.skips_infants and found.patient.is_infant:
            return skipped(_INFANT)
        for where in self.definition.insert:
            if where == "noun" and "adjective" in forms and found.open_places:
                word, last = forms["adjective"][0], self.name == "ethnicity"
                edits = [edit for at in found.open_places for edit in put_in(found.patient, at, word, last=last)]
                return EditOutcome(with_articles(note.text, edits), "added")
            if where == "section" and "sentence" in forms:
                end = end_of_section(note, f"{self.name}:section", self.definition.sections)
                if end is not None:
                    lead = " " if note.text[end - 1] in ".!?" else "\n"
                    return EditOutcome((Edit(end, end, f"{lead}{forms['sentence'][0]}."),), "added")
        return skipped(NO_MENTION)
