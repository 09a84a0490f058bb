"""Own code mapping against MDACE's ICD-9 side, span by span (evidence paper, Table 6 and Appendix B).

MDACE has each span twice, with an ICD-10 and an ICD-9 code, and says how it got from one to the other. Mapping the
ICD-10 side again shows whether `gems` does what the paper did, and each difference gets an explanation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from palpate.data.annotations.mdace import Annotation, Chart
from palpate.data.codes.gem_tables import Gem, plain_code
from palpate.data.codes.gems import TARGETS, CodeMap, Mapped, dotted
from palpate.errors import CohortError


class Miss(NamedTuple):
    """Spans whose mapping is not MDACE's: both codes, MDACE's type, ours, and why they differ."""

    code: str
    system: str
    theirs: str
    their_type: str
    ours: str | None
    our_type: str
    n: int
    explanation: str


class Agreement(NamedTuple):
    """By MDACE's mapping type and code system: spans, and how many of them got the same code here."""

    counts: dict[tuple[str, str], tuple[int, int]]
    misses: list[Miss]
    unpaired: list[tuple[int, int, str]]
    """Admission, note and ICD-10 code of spans that MDACE could not map."""

    def share(self, kind: str, system: str = "ICD-10-CM") -> float | None:
        """The share of spans of a type that got the same code; None if there are none."""
        n, same = self.counts.get((kind, system), (0, 0))
        return same / n if n else None


def compare_mapping(
    tens: Iterable[Chart],
    nines: Iterable[Chart],
    code_map: CodeMap,
    *,
    prefer: Mapping[int, Collection[str]] | None = None,
) -> Agreement:
    """Map the ICD-10 side and compare with the ICD-9 side; `prefer` has the billed codes of each admission."""
    other = {(chart.setting, chart.hadm_id): chart for chart in nines}
    tally: Counter[tuple[str, str, str, str, str]] = Counter()
    mapped: dict[tuple[str, str, str, str, str], Mapped | None] = {}
    unpaired: list[tuple[int, int, str]] = []
    for chart in tens:
        nine = other.get((chart.setting, chart.hadm_id))
        if nine is None:
            problem = f"admission {chart.hadm_id} has no ICD-9 side"
            raise CohortError(problem, file=chart.file, hint="give both code systems of the same charts")
        given = (prefer or {}).get(chart.hadm_id, ())
        for note_id, ten, theirs in _pairs(chart, nine):
            if theirs is None:
                unpaired.append((chart.hadm_id, note_id, ten.code))
                continue
            known = ten.code_system in TARGETS
            ours = (
                code_map.map(ten.code, system=ten.code_system, prefer=given, description=ten.description)
                if known
                else None
            )
            # CPT codes are the same on both sides and no subject of a mapping.
            if known or plain_code(ten.code) != plain_code(theirs.code):
                key = (ten.code, ten.code_system, theirs.code, theirs.type, (ours.code or "") if ours else "")
                tally[key] += 1
                mapped[key] = ours
    return _agreement(tally, mapped, unpaired, code_map)


def _agreement(
    tally: Mapping[tuple[str, str, str, str, str], int],
    mapped: Mapping[tuple[str, str, str, str, str], Mapped | None],
    unpaired: list[tuple[int, int, str]],
    code_map: CodeMap,
) -> Agreement:
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    misses: list[Miss] = []
    for key, n in sorted(tally.items()):
        code, system, theirs, kind, ours = key
        same = bool(ours) and plain_code(ours) == plain_code(theirs)
        total, agreed = counts.get((kind, system), (0, 0))
        counts[kind, system] = (total + n, agreed + n * same)
        if not same:
            result = mapped[key]
            gem = code_map.procedures if system == "ICD-10-PCS" else code_map.diagnoses
            why = _explain(theirs, kind, result, gem, system)
            misses.append(Miss(code, system, theirs, kind, ours or None, result.type if result else "", n, why))
    return Agreement(counts, sorted(misses, key=lambda miss: (miss.their_type, -miss.n, miss.code)), unpaired)


def _explain(theirs: str, kind: str, ours: Mapped | None, gem: Gem | None, system: str) -> str:
    if ours is None:
        return f"the ICD-10 side says {system}, which is not mapped; the code is probably written without its dot"
    if ours.code is None:
        return ours.reason or ours.type
    entries = (gem or {}).get(plain_code(ours.via or ours.source), ())
    candidates = sorted({dotted(entry.target, TARGETS[system]) for entry in entries})
    through = f" through its parent {ours.via}" if ours.via else ""
    if plain_code(theirs) in {plain_code(code) for code in candidates}:
        return f"both are in the table{through}, among {', '.join(candidates)}; the choice differs"
    if kind == "Human":
        return f"a coder chose a code that the table does not have{through}; it has {', '.join(candidates)}"
    return f"this table has {', '.join(candidates)}{through}; MDACE used another year's"


def _pairs(ten: Chart, nine: Chart) -> Iterator[tuple[int, Annotation, Annotation | None]]:
    """Each ICD-10 annotation with the ICD-9 annotation of the same span; those of one span come in the same order."""
    notes = {note.note_id: note for note in nine.notes}
    for note in ten.notes:
        there: defaultdict[tuple[int, int], list[Annotation]] = defaultdict(list)
        if note.note_id in notes:
            for annotation in notes[note.note_id].annotations:
                there[annotation.begin, annotation.end].append(annotation)
        for annotation in note.annotations:
            span = there[annotation.begin, annotation.end]
            yield note.note_id, annotation, span.pop(0) if span else None
