"""Evidence scores the slow, obvious way: sets of tuples, one note after the other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise

Mark = tuple[int, int, int, int]
"""Note, begin, end, code."""
Element = tuple[int, int, Hashable]
"""Chart, code, and what tells elements of a chart and code apart."""


def words_of(text: str, largest: int | None = 10) -> list[tuple[int, int]]:
    """Character by character."""
    inside = [c.isalnum() or c == "_" or unicodedata.category(c)[0] == "M" for c in text]
    runs = re.finditer("1+", "".join("1" if yes else "0" for yes in inside))
    found = []
    for run in runs:
        word = text[run.start() : run.end()]
        too_large = largest is not None and word.isdecimal() and int(word) > largest
        if any(c.isalnum() for c in word) and not too_large:
            found.append(run.span())
    return found


def pieces(text: str, begin: int, end: int, largest: int | None = 10) -> list[tuple[int, int]]:
    cut = [(max(b, begin), min(e, end)) for b, e in words_of(text, largest)]
    return [(b, e) for b, e in cut if b < e]


def say(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def elements(
    match: str, texts: Sequence[str], chart: Sequence[int], marks: Iterable[Mark], largest: int | None = 10
) -> set[Element]:
    out: set[Element] = set()
    for note, begin, end, code in marks:
        covered = pieces(texts[note], begin, end, largest)
        if not covered:
            continue
        said = [say(texts[note][b:e]) for b, e in covered]
        what: list[Hashable] = {
            "token": [(note, *piece) for piece in covered],
            "span": [(note, covered[0][0], covered[-1][1])],
            "token_anywhere": said,
            "span_anywhere": [tuple(said)],
        }[match]
        out |= {(chart[note], code, one) for one in what}
    return out


def matched(
    texts: Sequence[str],
    chart: Sequence[int],
    gold: Iterable[Mark],
    predicted: Iterable[Mark],
    *,
    least: float | None,
    largest: int | None = 10,
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[tuple[int, int]]]:
    """(chart, code) of found, false and missed spans when the number of pairs is as large as can be."""

    def distinct(marks: Iterable[Mark]) -> list[tuple[int, int, frozenset[tuple[int, int]]]]:
        spans = {(note, code, tuple(pieces(texts[note], b, e, largest))) for note, b, e, code in marks}
        return sorted(((n, c, frozenset(p)) for n, c, p in spans if p), key=lambda s: (s[0], s[1], sorted(s[2])))

    ours, theirs = distinct(gold), distinct(predicted)

    def fits(a: tuple[int, int, frozenset[tuple[int, int]]], b: tuple[int, int, frozenset[tuple[int, int]]]) -> bool:
        shared = len(a[2] & b[2])
        return a[:2] == b[:2] and shared > 0 and (least is None or shared >= least * len(a[2] | b[2]))

    partner: dict[int, int] = {}

    def place(k: int, tried: set[int]) -> bool:
        for j in range(len(theirs)):
            if j not in tried and fits(ours[k], theirs[j]):
                tried.add(j)
                if j not in partner or place(partner[j], tried):
                    partner[j] = k
                    return True
        return False

    for k in range(len(ours)):
        place(k, set())
    taken = set(partner.values())

    def cell(span: tuple[int, int, frozenset[tuple[int, int]]]) -> tuple[int, int]:
        return chart[span[0]], span[1]

    return (
        [cell(span) for k, span in enumerate(ours) if k in taken],
        [cell(span) for j, span in enumerate(theirs) if j not in partner],
        [cell(span) for k, span in enumerate(ours) if k not in taken],
    )


def cells(
    match: str,
    texts: Sequence[str],
    chart: Sequence[int],
    gold: Iterable[Mark],
    predicted: Iterable[Mark],
    largest: int | None = 10,
) -> dict[tuple[int, int], tuple[int, int, int]]:
    """Found, false and missed by chart and code."""
    if match in ("overlap", "iou"):
        least = 0.5 if match == "iou" else None
        parts = matched(texts, chart, gold, predicted, least=least, largest=largest)
    else:
        ours = elements(match, texts, chart, gold, largest)
        theirs = elements(match, texts, chart, predicted, largest)
        parts = tuple([e[:2] for e in part] for part in (ours & theirs, theirs - ours, ours - theirs))
    everywhere = sorted({cell for part in parts for cell in part})
    return {cell: tuple(part.count(cell) for part in parts) for cell in everywhere}


def quotient(above: int, below: int) -> float:
    return above / below if below else float("nan")


def measures(tp: int, fp: int, fn: int) -> tuple[float, float, float]:
    return quotient(tp, tp + fp), quotient(tp, tp + fn), quotient(2 * tp, 2 * tp + fp + fn)


def scores(
    counted: dict[tuple[int, int], tuple[int, int, int]], drawn: Sequence[int]
) -> list[tuple[float, float, float]]:
    """Micro and macro; chart c is there drawn[c] times."""
    by_code: dict[int, list[int]] = {}
    for (chart, code), counts in counted.items():
        row = by_code.setdefault(code, [0, 0, 0])
        for k in range(3):
            row[k] += drawn[chart] * counts[k]
    micro = measures(*(sum(row[k] for row in by_code.values()) for k in range(3)))
    each = [measures(*by_code[code]) for code in sorted(by_code)]
    macro = []
    for k in range(3):
        defined = [row[k] for row in each if row[k] == row[k]]
        macro.append(quotient(sum(defined), len(defined)) if defined else float("nan"))
    return [micro, tuple(macro)]


def runs_of(marked: Iterable[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(code, first word, last word) of consecutive words with one code, for one note."""
    out: list[tuple[int, int, int]] = []
    for code in sorted({c for _, c in marked}):
        numbers = sorted({w for w, c in marked if c == code})
        breaks = [0, *(k + 1 for k, (a, b) in enumerate(pairwise(numbers)) if b != a + 1), len(numbers)]
        out += [(code, numbers[low], numbers[high - 1]) for low, high in pairwise(breaks)]
    return out
