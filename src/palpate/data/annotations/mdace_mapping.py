"""palpate's code mapping compared with MDACE's, span by span (evidence paper, Table 6 and Appendix B).

MDACE has each span twice, with an ICD-10 and an ICD-9 code, and says how one was derived from the other. Mapping the
ICD-10 codes again shows whether `data.codes` does what the paper did; each difference gets an explanation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from palpate.data.annotations import AnnotatedChart, Annotation
from palpate.data.codes import CodeMap, MappedCode
from palpate.data.codes.gem_tables import plain_code
from palpate.errors import CohortError


class MappingMiss(NamedTuple):
    """Spans whose mapping differs from MDACE's: both codes and types, how many spans, and why they differ."""

    code: str
    system: str
    theirs: str
    their_type: str
    ours: str | None
    our_type: str
    n: int
    explanation: str


class MappingAgreement(NamedTuple):
    """By MDACE's mapping type and code system: the number of spans, and how many of them have the same code here."""

    counts: dict[tuple[str, str], tuple[int, int]]
    misses: list[MappingMiss]
    unpaired: list[tuple[int, int, str]]
    """Admission, note and ICD-10 code of spans without an ICD-9 code in MDACE."""

    def share(self, kind: str, system: str = "ICD-10-CM") -> float | None:
        """The share of spans of a type with the same code; None if there are none."""
        n, same = self.counts.get((kind, system), (0, 0))
        return same / n if n else None


def compare_mapping(
    tens: Iterable[AnnotatedChart],
    nines: Iterable[AnnotatedChart],
    code_map: CodeMap,
    *,
    prefer: Mapping[int, Collection[str]] | None = None,
) -> MappingAgreement:
    """Map the ICD-10 charts and compare them with the ICD-9 charts; `prefer` has each admission's billed codes."""
    other = {(chart.setting, chart.hadm_id): chart for chart in nines}
    tally: Counter[tuple[str, str, str, str, str]] = Counter()
    mapped: dict[tuple[str, str, str, str, str], MappedCode | None] = {}
    unpaired: list[tuple[int, int, str]] = []
    for chart in tens:
        nine = other.get((chart.setting, chart.hadm_id))
        if nine is None:
            problem = f"admission {chart.hadm_id} has no ICD-9 chart"
            raise CohortError(problem, file=chart.file, hint="give the same charts in both code systems")
        given = (prefer or {}).get(chart.hadm_id, ())
        for note_id, ten, theirs in _pairs(chart, nine):
            if theirs is None:
                unpaired.append((chart.hadm_id, note_id, ten.code))
                continue
            system = _icd10_system(ten, code_map)
            known = code_map.maps(system)
            said = ten.description if system == ten.code_system else None
            ours = code_map.map(ten.code, system=system, prefer=given, description=said) if known else None
            # CPT codes are the same in both charts and are not mapped.
            if known or plain_code(ten.code) != plain_code(theirs.code):
                key = (ten.code, system, theirs.code, theirs.type, (ours.code or "") if ours else "")
                tally[key] += 1
                mapped[key] = ours
    return _agreement(tally, mapped, unpaired, code_map)


def _icd10_system(ten: Annotation, code_map: CodeMap) -> str:
    """The system of a code in an ICD-10 chart.

    E86.0 without its dot passes for an ICD-9 code, and MDACE says that it is one; in such a chart it is not.
    """
    slipped = ten.code_system == "ICD-9-CM" and code_map.knows(plain_code(ten.code), "ICD-10-CM")
    return "ICD-10-CM" if slipped else ten.code_system


def _agreement(
    tally: Mapping[tuple[str, str, str, str, str], int],
    mapped: Mapping[tuple[str, str, str, str, str], MappedCode | None],
    unpaired: list[tuple[int, int, str]],
    code_map: CodeMap,
) -> MappingAgreement:
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    misses: list[MappingMiss] = []
    for key, n in sorted(tally.items()):
        code, system, theirs, kind, ours = key
        same = bool(ours) and plain_code(ours) == plain_code(theirs)
        total, agreed = counts.get((kind, system), (0, 0))
        counts[kind, system] = (total + n, agreed + n * same)
        if not same:
            result = mapped[key]
            why = _explain(theirs, kind, result, code_map, system)
            misses.append(MappingMiss(code, system, theirs, kind, ours or None, result.type if result else "", n, why))
    return MappingAgreement(counts, sorted(misses, key=lambda miss: (miss.their_type, -miss.n, miss.code)), unpaired)


def _explain(theirs: str, kind: str, ours: MappedCode | None, code_map: CodeMap, system: str) -> str:
    if ours is None:
        return f"the ICD-10 chart says {system}, which is not mapped; the code is probably written without its dot"
    if ours.code is None:
        return ours.reason or ours.type
    candidates = code_map.equivalents(ours.source, system)
    through = f" through its parent {ours.via}" if ours.via else ""
    if plain_code(theirs) in {plain_code(code) for code in candidates}:
        return f"both codes are in the table{through}, among {', '.join(candidates)}; the choice differs"
    if kind == "Human":
        return f"a coder chose a code that is not in the table{through}, which has {', '.join(candidates)}"
    if kind == "MapType.NO_ENTRY":
        return f"the code is newer than the table, which has {', '.join(candidates)}{through}; MDACE chose another code"
    return f"this table has {', '.join(candidates)}{through}; MDACE used the table of another year"


def _pairs(ten: AnnotatedChart, nine: AnnotatedChart) -> Iterator[tuple[int, Annotation, Annotation | None]]:
    """Each ICD-10 annotation with the ICD-9 annotation of the same span; several of one span are in the same order."""
    notes = {note.note_id: note for note in nine.notes}
    for note in ten.notes:
        there: defaultdict[tuple[int, int], list[Annotation]] = defaultdict(list)
        if note.note_id in notes:
            for annotation in notes[note.note_id].annotations:
                there[annotation.begin, annotation.end].append(annotation)
        for annotation in note.annotations:
            span = there[annotation.begin, annotation.end]
            yield note.note_id, annotation, span.pop(0) if span else None
