"""Evidence scores with 10,000 chart-bootstrap replicates: under 10 s, and at least 50 times sets of tuples.

    python benchmarks/evidence_bootstrap.py [--replicates 10000] [--checked 4]

The size is that of MDACE's inpatient part: 302 charts of 19,000 words in two notes each, 1,000 codes, 13 gold spans per
chart, and as many predictions as a supervised model makes, some right, some beside, some elsewhere. `palpate` is timed
from the texts to the last replicate of six matches, micro and macro, on two threads; compilation is not counted (a
warm-up on a few charts comes first). What is timed is processor time, of both threads together, so that other work on
the machine does not matter: on two free cores the wall clock shows less. The obvious way gets the words of each span
for free, then rebuilds sets of tuples for each replicate; it is timed on a few replicates and scaled. Exits with 1
if a value that both computed is not equal to the last bit, if the ratio is below 50, or if palpate takes 10 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from palpate.stats import resample_counts
from palpate.stats.evidence import (
    MATCHES,
    Spans,
    SpanScores,
    count_matches,
    cover,
    span_scores,
    spans,
    strata_by_group,
    strata_by_length,
    tokenise,
)

N_CHARTS, N_WORDS, N_CODES, N_GOLD = 302, 19_000, 1_000, 13
SEED, LEAST_RATIO, MOST_SECONDS = 302, 50.0, 10.0
Phrase = tuple[int, int, tuple[tuple[int, int], ...], tuple[str, ...]]
"""A span of a chart: code, note, its words and what they say."""
Charts = dict[int, list[Phrase]]


def make_texts(rng: np.random.Generator) -> list[str]:
    """Two notes per chart, of words with the frequencies of a language, some numbers and punctuation."""
    share = 1 / np.arange(1, 20_001)
    vocabulary = np.array([f"word{k}" if k % 7 else str(k) for k in range(20_000)])
    half = N_WORDS // 2
    texts = []
    for _ in range(2 * N_CHARTS):
        drawn = vocabulary[rng.choice(share.size, size=half, p=share / share.sum())]
        ends = np.array([" ", " ", " ", ", ", ".\n"])[rng.integers(0, 5, size=half)]
        texts.append("".join(np.char.add(drawn, ends)))
    return texts


def make_spans(texts: list[str], rng: np.random.Generator) -> tuple[Spans, Spans]:
    """Gold spans of one to four words, and predictions: the same, some shifted, some wrong codes, some elsewhere."""
    gold: list[tuple[int, int, int, int]] = []
    predicted: list[tuple[int, int, int, int]] = []
    by_code = rng.zipf(1.4, size=100_000)
    codes = by_code[by_code <= N_CODES] - 1
    for note, text in enumerate(texts):
        begins = np.flatnonzero(np.frombuffer(text.encode(), np.uint8) == ord(" "))[:-6] + 1
        for _ in range(N_GOLD // 2 + note % 2):
            k, n, code = int(rng.integers(begins.size - 5)), int(rng.integers(1, 5)), int(rng.choice(codes))
            mark = (note, int(begins[k]), int(begins[k + n]) - 1, code)
            gold.append(mark)
            if rng.random() < 0.5:
                predicted.append(mark)
            if rng.random() < 0.5:
                predicted.append((note, int(begins[k + 1]), int(begins[k + n + 1]) - 1, code))
            if rng.random() < 0.7:
                j = int(rng.integers(begins.size - 5))
                predicted.append((note, int(begins[j]), int(begins[j + 1]) - 1, int(rng.choice(codes))))
    return tuple(spans(*np.array(marks).T) for marks in (gold, predicted))  # type: ignore[return-value]


def ours(texts: list[str], gold: Spans, predicted: Spans, n_replicates: int, *, strata: bool = False) -> SpanScores:
    words = tokenise(texts)
    parts = []
    if strata:
        category = [("Discharge summary", "Physician", "Radiology")[k % 3] for k in range(len(texts))]
        system = [("ICD-10-CM", "ICD-10-PCS")[k % 2] for k in range(N_CODES)]
        parts = [
            *strata_by_group("category", *([category[k] for k in side.note] for side in (gold, predicted))),
            *strata_by_group("code system", *([system[k] for k in side.code] for side in (gold, predicted))),
            *strata_by_length(words, gold),
        ]
    chart = np.arange(len(texts)) // 2
    counts = count_matches(words, gold, predicted, chart=chart, n_codes=N_CODES, strata=parts)
    return span_scores(counts, rng=SEED, n_replicates=n_replicates)


# --- the obvious way --------------------------------------------------------------------------------------------


def phrases(texts: list[str], marks: Spans) -> Charts:
    """By chart, the spans with their words; not timed."""
    covered = cover(tokenise(texts), marks)
    out: Charts = defaultdict(list)
    for k in range(marks.note.size):
        part = slice(covered.first[k], covered.first[k + 1])
        places = tuple(zip(covered.piece_begin[part].tolist(), covered.piece_end[part].tolist(), strict=True))
        note = int(marks.note[k])
        if places:
            said = tuple(texts[note][b:e].casefold() for b, e in places)
            out[note // 2].append((int(marks.code[k]), note, places, said))
    return out


def quotient(above: float, below: float) -> float:
    return above / below if below else float("nan")


def measures(tp: int, fp: int, fn: int) -> list[float]:
    return [quotient(tp, tp + fp), quotient(tp, tp + fn), quotient(2 * tp, 2 * tp + fp + fn)]


def averages(counts: dict[int, list[int]]) -> list[list[float]]:
    micro = measures(*(sum(row[k] for row in counts.values()) for k in range(3)))
    each = [measures(*counts[code]) for code in sorted(counts)]
    macro = []
    for k in range(3):
        defined = [row[k] for row in each if row[k] == row[k]]
        macro.append(quotient(sum(defined), len(defined)))
    return [micro, macro]


def elements(match: str, drawn: list[int], charts: Charts) -> set[tuple[object, ...]]:
    """Chart as often as it was drawn, code, and the thing itself."""
    out: set[tuple[object, ...]] = set()
    for copy, chart in enumerate(drawn):
        for code, note, places, said in charts.get(chart, []):
            if match == "token":
                out.update((code, copy, note, place) for place in places)
            elif match == "span":
                out.add((code, copy, note, places[0][0], places[-1][1]))
            elif match == "token_anywhere":
                out.update((code, copy, word) for word in said)
            else:
                out.add((code, copy, said))
    return out


def paired(match: str, drawn: list[int], gold: Charts, predicted: Charts) -> dict[int, list[int]]:
    """One-to-one matches of each drawn chart, by augmenting paths."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    for chart in drawn:
        mine = list({(code, note, places) for code, note, places, _ in gold.get(chart, [])})
        other = list({(code, note, places) for code, note, places, _ in predicted.get(chart, [])})
        fits: dict[int, list[int]] = defaultdict(list)
        for i, a in enumerate(mine):
            for j, b in enumerate(other):
                if a[:2] == b[:2]:
                    shared = len(set(a[2]) & set(b[2]))
                    if shared and (match == "overlap" or 2 * shared >= len(set(a[2]) | set(b[2]))):
                        fits[i].append(j)
        partner: dict[int, int] = {}
        for i in range(len(mine)):
            place(i, fits, partner, set())
        taken = set(partner.values())
        for i, a in enumerate(mine):
            counts[a[0]][0 if i in taken else 2] += 1
        for j, b in enumerate(other):
            if j not in partner:
                counts[b[0]][1] += 1
    return counts


def place(i: int, fits: dict[int, list[int]], partner: dict[int, int], tried: set[int]) -> bool:
    for j in fits[i]:
        if j not in tried:
            tried.add(j)
            if j not in partner or place(partner[j], fits, partner, tried):
                partner[j] = i
                return True
    return False


def obvious(counts: NDArray[np.int32], gold: Charts, predicted: Charts) -> list[list[list[float]]]:
    """[match, average, measure] of one replicate."""
    drawn = np.repeat(np.arange(N_CHARTS), counts).tolist()
    out = []
    for match in MATCHES:
        if match in ("overlap", "iou"):
            out.append(averages(paired(match, drawn, gold, predicted)))
            continue
        mine, other = elements(match, drawn, gold), elements(match, drawn, predicted)
        by_code: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for k, part in enumerate((mine & other, other - mine, mine - other)):
            for element in part:
                by_code[element[0]][k] += 1  # type: ignore[index]
        out.append(averages(by_code))
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--checked", type=int, default=4, help="replicates that the obvious way computes too")
    chosen = parser.parse_args()
    rng = np.random.default_rng(SEED)
    texts = make_texts(rng)
    gold, predicted = make_spans(texts, rng)
    few = texts[:4]
    warm = [Spans(*(column[side.note < 4] for column in side)) for side in (gold, predicted)]
    ours(few, warm[0], warm[1], 8, strata=True)

    start = time.process_time()
    result = ours(texts, gold, predicted, chosen.replicates)
    seconds = time.process_time() - start
    start = time.process_time()
    ours(texts, gold, predicted, chosen.replicates, strata=True)
    with_strata = time.process_time() - start

    by_chart = phrases(texts, gold), phrases(texts, predicted)
    drawn = resample_counts(rng=SEED, n_replicates=chosen.checked, patient=np.arange(N_CHARTS))
    start = time.process_time()
    expected = [obvious(row, *by_chart) for row in drawn]
    theirs = (time.process_time() - start) / chosen.checked * chosen.replicates
    equal = np.array_equal(
        np.moveaxis(np.array(expected), 0, -1), result.values[0, ..., : chosen.checked], equal_nan=True
    )

    ratio = theirs / seconds
    print(f"{gold.note.size} gold and {predicted.note.size} predicted spans in {N_CHARTS} charts of {N_WORDS} words")
    print(f"palpate: {seconds:.2f} s for {chosen.replicates} replicates, {with_strata:.2f} s with seven strata")
    print(f"obvious: {theirs:.0f} s, scaled from {chosen.checked} replicates; ratio {ratio:.0f}; equal: {equal}")
    return 0 if equal and ratio >= LEAST_RATIO and with_strata < MOST_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
