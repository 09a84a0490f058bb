"""Numbers that describe annotated charts: Tables 3 to 6 of the evidence paper.

Every function takes charts of one setting and one code system, as `mdace.read` gives them with both options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from palpate.data.annotations.mdace import Chart
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
"""CPT codes for evaluation and management, which follow from a calculation and not from the text."""


class Summary(NamedTuple):
    """Table 3. `mean_words` is the mean length of a span in words; None without the notes' text."""

    n_charts: int
    n_notes: int
    n_codes: int
    n_spans: int
    mean_words: float | None


class Share(NamedTuple):
    """A row of Tables 4 and 6: how many spans, and their percentage of all."""

    name: str
    n: int
    percent: float


class Comparison(NamedTuple):
    """Table 5: codes of the charts as billed, as annotated, in both, billed only, and added for each chart."""

    n_billed: int
    n_annotated: int
    n_agreed: int
    n_missed: int
    mean_added: float | None


def summarise(charts: Iterable[Chart]) -> Summary:
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
    return Summary(n_charts, n_notes, len(codes), n_spans, sum(lengths) / n_spans if known else None)


def by_category(charts: Iterable[Chart]) -> list[Share]:
    """Table 4: spans by category of note, the most frequent first; categories are compared without outer blanks."""
    return _shares(Counter(note.category.strip() for chart in charts for note in chart.notes for _ in note.annotations))


def by_mapping(charts: Iterable[Chart]) -> list[Share]:
    """Table 6: spans by how their code was reached, under the paper's names; what has no name there is "other"."""
    names = (MAPPINGS.get(a.type, OTHER) for chart in charts for note in chart.notes for a in note.annotations)
    return _shares(Counter(names))


def compare_codes(charts: Iterable[Chart], billed: Mapping[int, Collection[str]]) -> Comparison:
    """Table 5: the codes of each admission as billed (with or without dots) against those with evidence.

    Billed CPT codes of evaluation and management (99201 to 99499) are left out, because the annotators were told to
    ignore them. The two that they annotated all the same stay: without them the paper's 1,630 would be 1,628.
    """
    n_charts = n_billed = n_annotated = n_agreed = 0
    for chart in charts:
        n_charts += 1
        before = {code for code in _plain(billed.get(chart.hadm_id, ())) if not _is_evaluation(code)}
        now = _plain(a.code for note in chart.notes for a in note.annotations)
        n_billed, n_annotated, n_agreed = n_billed + len(before), n_annotated + len(now), n_agreed + len(before & now)
    added = (n_annotated - n_agreed) / n_charts if n_charts else None
    return Comparison(n_billed, n_annotated, n_agreed, n_billed - n_agreed, added)


def _plain(codes: Iterable[str]) -> set[str]:
    return {code.replace(".", "").strip().upper() for code in codes}


def _is_evaluation(code: str) -> bool:
    return code.isdecimal() and len(code) == 5 and int(code) in _EVALUATION


def _shares(counts: Counter[str]) -> list[Share]:
    total = counts.total()
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Share(name, n, 100 * n / total) for name, n in ordered]
