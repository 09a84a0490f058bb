"""What coders and models point at, as text: only where the audit is allowed to show pieces of charts."""

from __future__ import annotations

import numpy as np

from palpate.audits.evidence.findings import EvidenceAnalysis
from palpate.results import Examples
from palpate.stats.evidence import Spans

_MOST_SPANS, _LONGEST = 4, 80
"""How many spans of an example are shown, and how many characters of each."""


def evidence_examples(analysis: EvidenceAnalysis, n: int) -> list[Examples]:
    """For each model, codes of charts with gold evidence: those where it points elsewhere first."""
    memory, labels = analysis.plan.memory, analysis.plan.labels
    case_ids = analysis.plan.cohort.cases["case_id"]
    rows = []
    for model, found in analysis.marked.items():
        if isinstance(found, str):
            continue
        gold, theirs = _places(found.gold), _places(found.spans)
        order = sorted(gold, key=lambda pair: (_agree(gold[pair], theirs.get(pair, [])), pair))
        for chart, label in order[:n]:
            case, text = str(case_ids[int(memory.charts.rows[chart])]), memory.charts.words.texts[chart]
            shown = (_shown(text, places.get((chart, label), [])) for places in (gold, theirs))
            rows.append((model, case, labels[label], *shown))
    if not rows:
        return []
    return [
        Examples(
            title="What coders and models point at",
            caption="Codes of charts with gold evidence, first those where the model points elsewhere.",
            columns=("Model", "Case", "Code", "Coders", "Model's evidence"),
            rows=tuple(rows),
            has_note_text=True,
        )
    ]


def _places(side: Spans) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """The spans of each chart and label."""
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for k in np.lexsort((side.begin, side.note)).tolist():
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
