"""Small charts whose evidence is known: each code has its words, and coders mark them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palpate import Cohort, RunDirectory
from palpate.audits.evidence import Evidence
from palpate.audits.evidence.plan import EvidenceMemory
from palpate.cases.edits import Inputs
from palpate.cases.evidence import EvidenceTable, NotesTable
from palpate.models import Model, ModelSpec
from palpate.results import Asked, Attributions, AuditResult, Plan, Predictions
from palpate.run.execute.cache import ScoreCache
from palpate.run.runner import Job, ModelEntry, run
from palpate.testing import KeywordModel

PHRASES = {"J18": "pneumonia", "A41": "severe sepsis", "I50": "acute heart failure", "E11": "diabetes"}
CODES = tuple(PHRASES)
SAYS = {code: {PHRASES[code]: 0.8, "tablet": 0.1} for code in CODES}
"""What an `ExplainingModel` points at."""
FILLER = (
    *("the", "patient", "was", "seen", "today", "and", "felt", "well", "on", "a", "tablet"),
    *("daily", "while", "walking", "home", "slowly", "again"),
)


def charts(n: int = 60, *, seed: int = 0, n_words: int = 40) -> tuple[Cohort, pl.DataFrame]:
    """A cohort of charts and the table of gold evidence; two charts per patient."""
    rng = np.random.default_rng(seed)
    rows, spans = [], []
    for k in range(n):
        codes = [code for code in CODES if rng.random() < 0.4]
        words = list(rng.choice(FILLER, size=n_words))
        for code in codes:
            words.insert(int(rng.integers(len(words))), PHRASES[code])
        # A phrase may have been put inside another one's place, never inside the phrase itself.
        text = " ".join(words) + "."
        for code in codes:
            start = text.index(PHRASES[code])
            spans.append((f"c{k}", code, start, start + len(PHRASES[code])))
        split = ("train", "validation", "test", "test")[(k // 2) % 4]
        rows.append((f"c{k}", f"p{k // 2}", split, text, *(int(code in codes) for code in CODES)))
    frame = pl.DataFrame(rows, schema=["case_id", "patient_id", "split", "text", *CODES], orient="row")
    gold = pl.DataFrame(spans, schema=["case_id", "label", "start", "end"], orient="row")
    return Cohort.from_frame(frame, labels=list(CODES)), gold


def table(frame: pl.DataFrame) -> EvidenceTable:
    return EvidenceTable(frame)


def notes_table(frame: pl.DataFrame) -> NotesTable:
    return NotesTable(frame)


def quick(gold: pl.DataFrame, **options: Any) -> Evidence:
    return Evidence(**{"gold": table(gold), **options})


def audit(
    evidence: Evidence, cohort: Cohort, folder: Path, *, resume: bool = False, **models: Model | Sequence[Model]
) -> AuditResult:
    """Run the audit; a sequence of models is an ensemble, `toy[1]`, `toy[2]` and so on."""
    folder.mkdir(exist_ok=True)
    cache = ScoreCache(folder / "scores.sqlite")
    job = Job(cohort, [entry(name, model) for name, model in models.items()], {"evidence": evidence}, resume=resume)
    try:
        (result,) = run(job, RunDirectory(folder / "run"), cache)
    finally:
        cache.close()
    return result


def entry(name: str, model: Model | Sequence[Model]) -> ModelEntry:
    """A model of a run, or an ensemble."""
    if isinstance(model, Model):
        return ModelEntry(name, [ModelSpec(name, "")], loaded=[model])
    return ModelEntry(name, [ModelSpec(f"{name}[{k + 1}]", "") for k in range(len(model))], loaded=model)


def knower(**options: Any) -> KeywordModel:
    """A model that knows the codes by one word each."""
    weights = {PHRASES[code].split()[-1]: {code: 4.0} for code in CODES}
    return KeywordModel(weights, bias=-2.0, labels=CODES, **options)


def value(
    result: AuditResult, metric: str, *, group: str = "all", model: str = "toy", reference: str | None = None
) -> Any:
    return row(result, metric, group=group, model=model, reference=reference)["value"]


def row(
    result: AuditResult, metric: str, *, group: str = "all", model: str = "toy", reference: str | None = None
) -> dict[str, Any]:
    rows = result.estimates.filter(
        pl.col("metric") == metric,
        pl.col("group") == group,
        pl.col("model") == model,
        pl.col("reference").is_null() if reference is None else pl.col("reference") == reference,
    )
    return rows.row(0, named=True)


class Watched(Evidence):
    """Keeps what it was given to analyse."""

    seen: list[tuple[Plan[EvidenceMemory], Predictions]] = []  # noqa: RUF012  (shared on purpose)

    def analyse(self, plan: Plan[EvidenceMemory], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        self.seen[:] = [(plan, predictions)]
        return super().analyse(plan, predictions, rng)


class ExplainingModel(KeywordModel):
    """Says, in one way, that it looked at some words; its predictions are the keyword model's."""

    explains = ("pointing",)

    def __init__(self, says: Mapping[str, Mapping[str, float]], **options: Any) -> None:
        weights = {PHRASES[code].split()[-1]: {code: 4.0} for code in CODES}
        super().__init__(weights, bias=-2.0, labels=CODES, **options)
        self.says, self.calls, self.rows = says, 0, 0
        self.fails_on: set[str] = set()

    def explain(self, inputs: Inputs, asked: Asked, way: str) -> Attributions:
        assert way in self.explains
        self.calls += 1
        self.rows += len(inputs)
        found: list[tuple[int, int, int, int, float]] = []
        for r, j in zip(asked.row.tolist(), asked.label.tolist(), strict=True):
            if inputs.case_ids[r] in self.fails_on:
                raise RuntimeError("no luck")
            found += self._pieces(r, j, inputs.texts[r])
        columns = [np.asarray(column) for column in zip(*found, strict=True)] or [np.zeros(0, np.int64)] * 5
        return Attributions(*columns)

    def _pieces(self, r: int, j: int, text: str) -> list[tuple[int, int, int, int, float]]:
        pieces = []
        for word, score in self.says.get(self.labels[j], {}).items():
            at = text.find(word)
            if at >= 0:
                pieces.append((r, j, at, at + len(word), score))
        return pieces


def slow_scores(
    texts: Sequence[str], gold: Sequence[tuple[int, str, int, int]], predicted: Sequence[tuple[int, str, int, int]]
) -> dict[str, float]:
    """Token and span scores by sets of tuples: words are runs of letters, and spans are runs of marked words."""
    import re

    def runs(spans: Sequence[tuple[int, str, int, int]]) -> set[tuple[int, str, int, int]]:
        found: list[tuple[int, str, int, int]] = []
        for chart, code, start, end in sorted(spans):
            if found and found[-1][:2] == (chart, code):
                low, high = found[-1][2:]
                if start <= high or not re.search(r"\w", texts[chart][high:start]):
                    found[-1] = (chart, code, low, max(high, end))
                    continue
            found.append((chart, code, start, end))
        return set(found)

    def tokens(spans: set[tuple[int, str, int, int]]) -> set[tuple[int, str, int, int]]:
        return {
            (chart, code, max(m.start(), start), min(m.end(), end))
            for chart, code, start, end in spans
            for m in re.finditer(r"\w+", texts[chart])
            if m.start() < end and start < m.end()
        }

    out = {}
    for name, ours, theirs in (
        ("token", tokens(runs(gold)), tokens(runs(predicted))),
        ("span", runs(gold), runs(predicted)),
    ):
        tp = len(ours & theirs)
        for measure, above, below in (
            ("precision", tp, len(theirs)),
            ("recall", tp, len(ours)),
            ("f1", 2 * tp, len(ours) + len(theirs)),
        ):
            if below:
                out[f"{name}_{measure}"] = above / below
    return out
