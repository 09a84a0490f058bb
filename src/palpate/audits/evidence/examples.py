"""Pieces of charts with what coders and models point at; made only with `include_text`, because they hold note text."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from palpate.audits.evidence.asking import Memory
from palpate.audits.evidence.marking import Found
from palpate.audits.evidence.measures import audited_gold
from palpate.results import Examples, Plan
from palpate.stats.evidence import Spans

_MOST_SPANS = 4
_LONGEST = 80


def examples_of(plan: Plan, memory: Memory, found: Mapping[str, Found | str], n: int) -> Examples | None:
    """For each model, codes of charts with gold evidence: those where it points elsewhere first."""
    gold = _by_pair(audited_gold(memory))
    case_ids = plan.cohort.cases["case_id"]
    rows = []
    for model, each in found.items():
        if isinstance(each, str):
            continue
        theirs = _by_pair(each.spans)
        order = sorted(gold, key=lambda pair: (_agree(gold[pair], theirs.get(pair, [])), pair))
        for chart, label in order[:n]:
            text = memory.charts.words.texts[chart]
            case = str(case_ids[int(memory.charts.rows[chart])])
            marked = _shown(text, gold[chart, label])
            predicted = _shown(text, theirs.get((chart, label), []))
            rows.append((model, case, plan.labels[label], marked, predicted))
    if not rows:
        return None
    return Examples(
        title="What coders and models point at",
        caption="Codes of charts with gold evidence, first those where the model points elsewhere.",
        columns=("Model", "Case", "Code", "Coders", "Model's evidence"),
        rows=tuple(rows),
        has_note_text=True,
    )


def _by_pair(side: Spans) -> dict[tuple[int, int], list[tuple[int, int]]]:
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    order = np.lexsort((side.begin, side.note))
    for k in order.tolist():
        pairs.setdefault((int(side.note[k]), int(side.code[k])), []).append((int(side.begin[k]), int(side.end[k])))
    return pairs


def _agree(gold: list[tuple[int, int]], predicted: list[tuple[int, int]]) -> bool:
    """Whether any characters are shared."""
    return any(low < end and begin < high for low, high in gold for begin, end in predicted)


def _shown(text: str, places: list[tuple[int, int]]) -> str:
    pieces = [" ".join(text[low:high].split()) for low, high in places[:_MOST_SPANS]]
    shown = " · ".join(piece if len(piece) <= _LONGEST else f"{piece[:_LONGEST]}…" for piece in pieces)
    more = len(places) - _MOST_SPANS
    return (shown or "(nothing)") + (f" · and {more} more" if more > 0 else "")
