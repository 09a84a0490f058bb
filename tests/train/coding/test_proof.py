"""On the synthetic hospital, whose evidence is known: supervised attention points better, and codes do not suffer.

Evidence paper, Section 6.3 and Appendix D, on a hospital of 550 charts with a small EffectiveCAN that reads the first
500 words; three seeds with and three without evidence. Both intervals are over test charts and seeds: each replicate
draws charts, the same for both ways of training, and for each way three of its seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.commands.build import make_hospital
from palpate.data.cohorts.mdace import MdaceOptions, build_mdace
from palpate.results import Asked
from palpate.stats import percentile_interval
from palpate.stats.bootstrap import resample_counts
from palpate.stats.evidence import MATCHES, Spans, count_matches, evidence_threshold, span_scores, spans, tokenise
from palpate.train import train
from tests.train.training import read_back

pytest.importorskip("torch")
SEEDS = (1, 2, 3)
N_REPLICATES = 2000
SMALL = {
    "embedding": 32,
    "channels": [24, 24],
    "attention": 32,
    "kernel": 5,
    "max_tokens": 500,
    "min_patients": 3,
    "dropout": 0,
    "batch_size": 4,
    "learning_rate": 5e-3,
    "epochs": 12,
    "patience": 12,
    "n_replicates": 0,
    "threads": 1,
    "seeds": list(SEEDS),
}


class Gold(NamedTuple):
    texts: list[str]
    spans: Spans


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Cohort, pl.DataFrame, Path]:
    home = tmp_path_factory.mktemp("hospital")
    make_hospital(home / "hospital", n_patients=400, seed=3, site="a", images=False)
    built = build_mdace(home / "hospital", options=MdaceOptions(charts="code-ev"))
    built.tables["evidence"].write_parquet(home / "evidence.parquet")
    return built.cohort, built.tables["evidence"], home / "evidence.parquet"


def gold_of(cohort: Cohort, evidence: pl.DataFrame, split: str) -> Gold:
    ids = cohort.cases.filter(pl.col("split") == split)["case_id"].to_list()
    note = {case: k for k, case in enumerate(case for case in ids if case in set(evidence["case_id"]))}
    text_of = dict(zip(cohort.cases["case_id"], cohort.texts, strict=True))
    code = {label: k for k, label in enumerate(cohort.labels)}
    rows = [
        (note[c], i, j, code[label])
        for c, label, i, j in evidence.select("case_id", "label", "start", "end").iter_rows()
        if c in note
    ]
    return Gold([text_of[case] for case in note], spans(*(np.array(column) for column in zip(*rows, strict=True))))


def pointed_at(model: Any, gold: Gold) -> tuple[Spans, NDArray[np.float64]]:
    pairs = np.unique(np.stack([gold.spans.note, gold.spans.code]), axis=1)
    found = model.explain(Inputs.from_texts(gold.texts), Asked(pairs[0], pairs[1]), "attention")
    return Spans(found.row, found.start, found.end, found.label), found.score


def token_f1(model: Any, validation: Gold, test: Gold, n_codes: int) -> NDArray[np.float64]:
    """The point and the replicates, at the threshold of the validation split."""
    chosen = evidence_threshold(tokenise(validation.texts), validation.spans, *pointed_at(model, validation)).chosen
    if chosen is None:
        return np.zeros(1 + N_REPLICATES)
    pieces, score = pointed_at(model, test)
    kept = Spans(*(column[score > chosen] for column in pieces))
    chart = np.arange(len(test.texts))
    counts = count_matches(tokenise(test.texts), test.spans, kept, chart=chart, n_codes=n_codes)
    scores = span_scores(counts, rng=7, n_replicates=N_REPLICATES)
    place = (0, MATCHES.index("token"), 0, 2)
    return np.append(scores.point[place], scores.values[place])


def code_f1(model: Any, cohort: Cohort) -> NDArray[np.float64]:
    """The same for codes, on all test charts."""
    rows = cohort.rows(split="test")
    called = model.predict(Inputs.from_texts([cohort.texts[row] for row in rows])) >= model.threshold
    y = cohort.y_true(rows) == 1
    drawn = resample_counts(rng=7, n_replicates=N_REPLICATES, patient=cohort.patients[rows])
    weight = np.vstack([np.ones(len(rows)), drawn])
    found, all_called, all_true = (weight @ each.sum(axis=1) for each in (called & y, called, y))
    return np.asarray(2 * found / (all_called + all_true))


def difference(
    with_evidence: list[NDArray[np.float64]], without: list[NDArray[np.float64]]
) -> tuple[float, float, float]:
    """Of the means over seeds, with its interval over charts and seeds."""
    rng = np.random.default_rng(11)
    means = []
    for each in (with_evidence, without):
        values = np.array(each)
        drawn = rng.integers(0, len(SEEDS), (N_REPLICATES, len(SEEDS)))
        replicates = values[drawn.T, np.arange(1, 1 + N_REPLICATES)].mean(axis=0)
        means.append(np.append(values[:, 0].mean(), replicates))
    change = means[0] - means[1]
    low, high = percentile_interval(change[1:])
    return float(change[0]), float(low), float(high)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_supervised_attention_points_better_and_codes_do_not_suffer(
    charts: tuple[Cohort, pl.DataFrame, Path], tmp_path: Path
) -> None:
    cohort, evidence, file = charts
    validation, test = (gold_of(cohort, evidence, split) for split in ("validation", "test"))
    tokens: dict[str, list[NDArray[np.float64]]] = {}
    codes: dict[str, list[NDArray[np.float64]]] = {}
    for name, more in (("none", {}), ("attention", {"evidence_table": file})):
        trained = train("effective-can", cohort, tmp_path / name, {**SMALL, "evidence": name, **more})
        models = [read_back(folder) for folder in trained.folders]
        tokens[name] = [token_f1(model, validation, test, len(cohort.labels)) for model in models]
        codes[name] = [code_f1(model, cohort) for model in models]
    told = {name: [round(float(values[0]), 3) for values in tokens[name] + codes[name]] for name in tokens}
    change, low, high = difference(tokens["attention"], tokens["none"])
    told["token F1"] = [change, low, high]
    assert low > 0, told
    change, low, high = difference(codes["attention"], codes["none"])
    told["code F1"] = [change, low, high]
    assert low > -0.02, told
    assert min(values[0] for values in codes["attention"]) > 0.5, told
