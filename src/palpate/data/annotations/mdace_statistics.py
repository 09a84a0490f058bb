"""Statistics of annotated charts: Tables 3 to 6 of the evidence paper.

Every function takes charts of one setting and one code system, as `mdace.read` returns them with both options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from palpate.data.annotations import AnnotatedChart
from palpate.stats.evidence import tokenise, words_in

MAPPINGS = {
    "Human": "coder verified",
    "MapType.EXACT": "identical match",
    "MapType.APPROX": "approximate match",
    "MapType.MULTI": "multiple match",
    "MapType.MULTI_DESC": "multiple match",
}
OTHER = "other"
_EVALUATION = range(99201, 99500)
"""CPT codes for evaluation and management, which are calculated and not found in the text."""


class ChartStatistics(NamedTuple):
    """Table 3. `mean_words` is the mean length of a span in words; None if the notes have no text."""

    n_charts: int
    n_notes: int
    n_codes: int
    n_spans: int
    mean_words: float | None


class SpanShare(NamedTuple):
    """A row of Table 4 or 6: the number of spans, and their percentage of all spans."""

    name: str
    n: int
    percent: float


class CodeComparison(NamedTuple):
    """Table 5: codes that were billed, annotated, both, billed only, and added by annotators (mean per chart)."""

    n_billed: int
    n_annotated: int
    n_agreed: int
    n_missed: int
    mean_added: float | None


def summarise(charts: Iterable[AnnotatedChart]) -> ChartStatistics:
    """Table 3: charts, notes, distinct codes and spans."""
    n_charts = n_notes = n_spans = 0
    codes: set[tuple[str, str]] = set()
    lengths: list[int] = []
    for chart in charts:
        n_charts += 1
        for note in chart.notes:
            n_notes += 1
            n_spans += len(note.annotations)
            codes.update((a.code_system, a.code) for a in note.annotations)
            if note.text is not None:
                words = tokenise([note.text], largest_number=None)
                spans = [(a.begin, a.end) for a in note.annotations]
                lengths += words_in(words, 0, spans)
    known = len(lengths) == n_spans and n_spans > 0
    return ChartStatistics(n_charts, n_notes, len(codes), n_spans, sum(lengths) / n_spans if known else None)


def by_category(charts: Iterable[AnnotatedChart]) -> list[SpanShare]:
    """Table 4: spans by category of note, the most frequent first; leading and trailing blanks are ignored."""
    return _shares(Counter(note.category.strip() for chart in charts for note in chart.notes for _ in note.annotations))


def by_mapping(charts: Iterable[AnnotatedChart]) -> list[SpanShare]:
    """Table 6: spans by how their code was mapped, with the paper's names; types without a name there are "other".

    The percentage of a row is the sum of its types' percentages, each rounded to one digit, as the paper prints it: 704
    multiple matches are 11.4% and 1.2% of 5,563, hence 12.6 and not 12.7.
    """
    types = Counter(a.type for chart in charts for note in chart.notes for a in note.annotations)
    counts: Counter[str] = Counter()
    percent: Counter[str] = Counter()
    for kind, n in types.items():
        name = MAPPINGS.get(kind, OTHER)
        counts[name] += n
        percent[name] += round(1000 * n / types.total())
    return [SpanShare(share.name, share.n, percent[share.name] / 10) for share in _shares(counts)]


def compare_codes(charts: Iterable[AnnotatedChart], billed: Mapping[int, Collection[str]]) -> CodeComparison:
    """Table 5: the billed codes of each admission (with or without dots) compared with those that have evidence.

    Billed CPT codes for evaluation and management (99201 to 99499) are left out, because the annotators were told to
    ignore them. The two that were annotated nevertheless are kept: without them the paper's 1,630 would be 1,628.
    """
    n_charts = n_billed = n_annotated = n_agreed = 0
    for chart in charts:
        n_charts += 1
        before = {code for code in _plain(billed.get(chart.hadm_id, ())) if not _is_evaluation(code)}
        now = _plain(a.code for note in chart.notes for a in note.annotations)
        n_billed, n_annotated, n_agreed = n_billed + len(before), n_annotated + len(now), n_agreed + len(before & now)
    added = (n_annotated - n_agreed) / n_charts if n_charts else None
    return CodeComparison(n_billed, n_annotated, n_agreed, n_billed - n_agreed, added)


def _plain(codes: Iterable[str]) -> set[str]:
    return {code.replace(".", "").strip().upper() for code in codes}


def _is_evaluation(code: str) -> bool:
    return code.isdecimal() and len(code) == 5 and int(code) in _EVALUATION


def _shares(counts: Counter[str]) -> list[SpanShare]:
    total = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [SpanShare(name, n, 100 * n / total) for name, n in ordered]
