"""Twelve words, clinicians' ratings of them, a sound model and a model that reacts to a spurious word."""

from __future__ import annotations

import numpy as np
import polars as pl

from palpate.audits.vocabulary import Vocabulary
from palpate.audits.vocabulary.clinicians import as_sheet
from palpate.models.protocol import Model
from palpate.perturb.words import Ratings
from palpate.results import AuditResult, Chart, Table
from palpate.testing import KeywordModel
from tests.audits.vocabulary.vocabulary_cases import Case

IMPORTANT = ("sepsis", "stroke", "tumour", "fall", "delirium", "dementia")
PLAIN = ("larkspur", "table", "window", "pencil", "carpet", "corridor")
WORDS = (*IMPORTANT, *PLAIN)
SOUND = {word: 2.4 - 0.4 * k for k, word in enumerate(IMPORTANT)}
SPURIOUS = {"larkspur": 2.0, "table": 0.9, "sepsis": 0.3, "stroke": 0.1, "pencil": 0.2}


def rated(*, words: tuple[str, ...] = WORDS, raters: int = 3) -> Ratings:
    base = np.array([5 - 0.5 * WORDS.index(w) if w in IMPORTANT else 1.0 for w in words])
    noise = np.random.default_rng(2).choice([-0.5, 0.0, 0.5], size=(len(words), raters))
    return Ratings(words, tuple(f"r{k}" for k in range(raters)), np.clip(base[:, None] + noise, 1, 5))


def run(
    case: Case,
    models: dict[str, Model],
    ratings: Ratings | None = None,
    ensembles: dict[str, str] | None = None,
    **options: object,
) -> AuditResult:
    audit = Vocabulary(**{"n_replicates": 300, "raters": as_sheet(ratings), **options})  # type: ignore[arg-type]
    return audit.analyse(case.plan, case.ask(models, ensembles=ensembles), np.random.default_rng(3))


MODELS: dict[str, Model] = {"logistic": KeywordModel(SOUND, bias=-4.0), "xgboost": KeywordModel(SPURIOUS, bias=-1.0)}


def value(result: AuditResult, metric: str, **where: str | None) -> dict[str, object]:
    rows = result.estimates.filter(pl.col("metric") == metric)
    for column, wanted in {"reference": None, **where}.items():
        rows = rows.filter(pl.col(column).is_null() if wanted is None else pl.col(column) == wanted)
    assert rows.height == 1, rows
    return rows.row(0, named=True)


def sentences(result: AuditResult, tone: str | None = None) -> str:
    return "\n".join(finding.sentence for finding in result.findings if tone in (None, finding.tone))


def block(result: AuditResult, title: str) -> Table | Chart:
    return next(each for each in result.blocks if each.title == title)  # type: ignore[return-value]
