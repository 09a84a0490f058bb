"""The evidence audit on simulated charts: charts differ in size and in how well a model finds what coders marked.

Intervals are made by the audit's own functions from the counts of simulated charts; verdicts by whole audits of charts
in which some words are marked by coders and some by a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betaincinv

from palpate import Cohort
from palpate.audits.evidence import Evidence
from palpate.audits.evidence.measures import match_ratios
from palpate.cases.edits import Inputs
from palpate.cases.evidence import EvidenceTable
from palpate.models import Model, Probabilities
from palpate.results import AuditResult, ModelPredictions, Predictions
from palpate.stats.clustered_rates import Rates, clustered_ratios, paired_difference
from palpate.stats.evidence.faithfulness import mean_drops
from palpate.testing import run_audit
from validity import COVERAGE, FALSE_ALARMS, WRONG_VERDICTS, Cell

Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]
Rng = np.random.Generator
Draw = Callable[[Rng, int], Floats]
MANY = 400_000
"""Charts from which the truth is computed."""


def cells(n_samples: int, seed: int, *, thin: bool = False) -> Iterator[Cell]:
    """Coverage of every interval, then the audit as a whole."""
    rng = np.random.default_rng(seed)
    sizes = (10, 60) if thin else (10, 30, 60, 200)
    yield from _scores(n_samples, rng, sizes)
    yield from _differences(n_samples, rng, sizes)
    yield from _drops(n_samples, rng, sizes)
    yield from _whole_audits(min(n_samples, 40 if thin else 200), rng, (30,) if thin else (10, 30, 60))
    yield from weighted_cells(n_samples, np.random.default_rng([seed, 16]), (60,) if thin else (30, 60, 200))


def _covers(rates: Rates, truth: Floats | float) -> NDArray[np.bool_]:
    return np.asarray((rates.low <= truth) & (truth <= rates.high))


# --- intervals ----------------------------------------------------------------------------------------------------


def beta(mean: float, alike: float) -> Draw:
    """Rates of charts around a mean; `alike` is the correlation of two words of one chart."""
    size = 1 / alike - 1
    return lambda rng, k: rng.beta(mean * size, (1 - mean) * size, k)


def missed(share: float, draw: Draw) -> Draw:
    """A share of the charts is missed whole."""
    return lambda rng, k: np.where(rng.random(k) < share, 0.0, draw(rng, k))


class Reader(NamedTuple):
    """How a model finds gold words, chart by chart, and how many others it marks for each of them."""

    name: str
    recall: Draw
    false: float


READERS = (
    Reader("finds 43%, as supervised attention in the paper", beta(0.43, 0.2), 0.6),
    Reader("finds 97%", beta(0.97, 0.2), 0.02),
    Reader("finds 3%", beta(0.03, 0.2), 0.5),
    Reader("finds 95%, and nothing in one chart of twenty", missed(0.05, beta(0.95, 0.1)), 0.05),
)


def counts(rng: Rng, size: NDArray[np.int64], recall: Floats, false: float) -> tuple[Floats, Floats, Floats]:
    """Found, false and missed words of charts with so many gold words."""
    tp = rng.binomial(size, recall)
    fp = rng.poisson(size * false)
    return tuple(each[:, None].astype(np.float64) for each in (tp, fp, size - tp))  # type: ignore[return-value]


def _sizes(rng: Rng, k: int) -> NDArray[np.int64]:
    return np.maximum(rng.lognormal(2.5, 0.5, k).astype(np.int64), 1)


def _truth(rng: Rng, reader: Reader) -> Floats:
    tp, fp, fn = (each.sum() for each in counts(rng, _sizes(rng, MANY), reader.recall(rng, MANY), reader.false))
    return np.array([tp / (tp + fp), tp / (tp + fn), 2 * tp / (2 * tp + fp + fn)])


def _scores(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    for reader in READERS:
        truth = _truth(rng, reader)
        for k in sizes:
            found, shares = [], []
            for _ in range(n_samples):
                tp, fp, fn = counts(rng, _sizes(rng, k), reader.recall(rng, k), reader.false)
                found.append(_covers(match_ratios(tp, fp, fn).rates, truth))
                shares.append(clustered_ratios((rng.random((k, 1)) < 0.05).astype(np.float64), np.ones((k, 1))).rates)
            for name, rate in zip(("precision", "recall", "F1"), np.mean(found, axis=0).tolist(), strict=True):
                yield Cell(f"coverage of {name}", f"{k} charts, {reader.name}", rate, n_samples, COVERAGE)
            if reader is READERS[0]:
                rate = float(np.mean([_covers(each, 0.05) for each in shares]))
                yield Cell("coverage of a share of charts", f"{k} charts, 5% are missed", rate, n_samples, COVERAGE)


def weighted_cells(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Sampling weights: at random, with a long tail, or because charts in which little is found are drawn more."""
    for reader in READERS[:1] + READERS[3:]:
        truth = _truth(rng, reader)
        for k in sizes:
            for sampling in ("one in ten stands for eight", "a long tail", "by what is found"):
                found = []
                for _ in range(n_samples):
                    recall, weight = _drawn_charts(sampling, reader, k, rng)
                    parts = counts(rng, _sizes(rng, len(recall)), recall, reader.false)
                    weighed = match_ratios(*(each * weight[:, None] for each in parts), weighted=True)
                    found.append(_covers(weighed.rates, truth))
                setting = f"{k} charts, {reader.name}, sampling weights: {sampling}"
                for name, rate in zip(("precision", "recall", "F1"), np.mean(found, axis=0).tolist(), strict=True):
                    yield Cell(f"coverage of {name}, weighted", setting, rate, n_samples, COVERAGE)


def _drawn_charts(sampling: str, reader: Reader, k: int, rng: Rng) -> tuple[Floats, Floats]:
    """What the model finds in each sampled chart, and how many charts it stands for."""
    if sampling == "by what is found":
        recall = reader.recall(rng, 3 * k)
        chance = (5.0 - 4.0 * np.argsort(np.argsort(recall)) / len(recall)) / 9.0
        taken = rng.random(len(recall)) < chance
        return recall[taken], 1.0 / chance[taken]
    weight = rng.gamma(0.7, size=k) if sampling == "a long tail" else np.where(rng.random(k) < 0.1, 8.0, 1.0)
    return reader.recall(rng, k), np.asarray(weight)


def _differences(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Two models that find the same charts hard, and two whose hard charts are their own."""
    first, second = READERS[0], Reader("finds 36%", beta(0.36, 0.2), 0.7)
    truth = _truth(rng, first) - _truth(rng, second)
    for k in sizes:
        for alike in (True, False):
            found = []
            for _ in range(n_samples):
                size, ease = _sizes(rng, k), rng.random((2, k))
                recalls = (betaincinv(4 * m, 4 * (1 - m), ease[0 if alike else i]) for i, m in enumerate((0.43, 0.36)))
                ours, theirs = (
                    match_ratios(*counts(rng, size, recall, each.false))
                    for recall, each in zip(recalls, (first, second), strict=True)
                )
                found.append(_covers(paired_difference(ours, theirs), truth))
            setting = f"{k} charts, 43% and 36% found, {'the same charts are hard' if alike else 'each its own'}"
            for name, rate in zip(("precision", "recall", "F1"), np.mean(found, axis=0).tolist(), strict=True):
                yield Cell(f"coverage of a difference in {name}", setting, rate, n_samples, COVERAGE)


def _drops(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    """Drops of the probability beyond random words; one to six labels per chart."""
    populations: dict[str, tuple[Draw, float]] = {
        "0.10, charts vary by 0.10": (lambda rng, k: rng.normal(0.1, 0.1, k), 0.1),
        "none, charts vary by 0.03": (lambda rng, k: rng.normal(0.0, 0.03, k), 0.0),
        "0.60 in one chart of ten": (lambda rng, k: np.where(rng.random(k) < 0.1, 0.6, 0.0), 0.06),
        "0.80 in all but one of ten": (lambda rng, k: np.where(rng.random(k) < 0.9, 0.8, 0.0), 0.72),
        "0.90, skewed": (lambda rng, k: rng.beta(2.7, 0.3, k), 0.9),
    }
    for name, (draw, truth) in populations.items():
        for k in sizes:
            found = []
            for _ in range(n_samples):
                chart = np.repeat(np.arange(k), rng.integers(1, 7, k))
                drops = np.clip(draw(rng, k)[chart] + rng.normal(0, 0.01, len(chart)), -1, 1)
                found.append(_covers(mean_drops(drops[:, None], chart).rates, truth))
            yield Cell("coverage of a drop", f"{k} charts, {name}", float(np.mean(found)), n_samples, COVERAGE)


# --- the audit as a whole -----------------------------------------------------------------------------------------

N_WORDS, N_GOLD = 60, 6


def _cohort(k: int) -> Cohort:
    text = " ".join(["word"] * N_WORDS)
    columns = {"case_id": [f"{i}" for i in range(k)], "text": [f"{text} {i}x" for i in range(k)]}
    return Cohort.from_frame(pl.DataFrame({**columns, "split": ["test"] * k, "A": [1] * k}), labels=["A"])


def _table(marks: Marks) -> EvidenceTable:
    """[chart, word] as evidence: words are four letters and a blank."""
    chart, word = np.nonzero(marks)
    columns = {"case_id": chart.astype(str), "label": ["A"] * len(chart), "start": 5 * word, "end": 5 * word + 4}
    return EvidenceTable(pl.DataFrame(columns))


def _gold(rng: Rng, k: int) -> Marks:
    return np.asarray(np.argsort(rng.random((k, N_WORDS)), axis=1) < N_GOLD)


def _read(rng: Rng, gold: Marks, found: float, false: float, alike: float = 0.2) -> Marks:
    """What a model marks: gold words at a rate of each chart's own, and others."""
    rate = beta(found, alike)(rng, len(gold))[:, None]
    return np.where(gold, rng.random(gold.shape) < rate, rng.random(gold.shape) < false)


def _audit(rng: Rng, gold: Marks, models: dict[str, Marks]) -> AuditResult:
    k = len(gold)
    audit = Evidence(
        gold=_table(gold),
        predicted={name: _table(marks) for name, marks in models.items()},
        explain="none",
        faithfulness=False,
        examples=0,
    )
    plan = audit.plan(_cohort(k), rng)
    answers = ModelPredictions(plan.labels, np.full((len(plan.variants), 1), 0.9), np.ones(len(plan.variants), bool))
    return audit.analyse(plan, Predictions(dict.fromkeys(models, answers)), rng)


def gain(found: float, false: float) -> float:
    """The token F1 beyond that of as many random words."""
    tp, marked = N_GOLD * found, N_GOLD * found + (N_WORDS - N_GOLD) * false
    return 2 * (tp - marked * N_GOLD / N_WORDS) / (marked + N_GOLD)


def _rate_for(wanted: float, false: float) -> float:
    """The rate of found gold words at which the gain is as wanted."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if gain(middle, false) < wanted else (low, middle)
    return low


def _whole_audits(n_samples: int, rng: Rng, sizes: Sequence[int]) -> Iterator[Cell]:
    at_margin, false = _rate_for(0.05, 0.05), 0.05
    for k in sizes:
        setting, alarms, against, verdicts = f"{k} charts", [], [], []
        for _ in range(n_samples):
            gold = _gold(rng, k)
            same = {name: _read(rng, gold, 0.4, false) for name in ("a", "b", "c")}
            alarms.append(_significant(_audit(rng, gold, same), random=False))
            guess = {"a": rng.random(gold.shape) < 0.1}
            against.append(_significant(_audit(rng, gold, guess), random=True))
            marks = {"a": _read(rng, gold, at_margin, false)}
            verdicts.append(_audit(rng, gold, marks).answers[0].verdict)
        what = "family-wise false alarms, three models alike"
        yield Cell(what, setting, float(np.mean(alarms)), n_samples, at_most=FALSE_ALARMS)
        what = "false alarms, random words better than chance"
        yield Cell(what, setting, float(np.mean(against)), n_samples, at_most=FALSE_ALARMS)
        for verdict in ("concern", "acceptable"):
            rate = float(np.mean([each == verdict for each in verdicts]))
            what = f'pointing: wrong "{verdict}" at the margin'
            yield Cell(what, setting, rate, n_samples, at_most=WRONG_VERDICTS)
        yield from _power(n_samples, rng, k)
        yield from _faithfulness(n_samples, rng, k)


def _significant(result: AuditResult, *, random: bool) -> bool:
    tested = result.estimates.filter(pl.col("metric") == "token_f1", pl.col("reference").is_not_null())
    chosen = tested.filter((pl.col("reference") == "random evidence") == random)
    return bool(chosen["significant"].any())


def _power(n_samples: int, rng: Rng, k: int) -> Iterator[Cell]:
    """The paper's Table 9: token F1 0.36 without training on evidence, 0.43 with supervised attention."""
    shown, better = [], []
    for _ in range(n_samples):
        gold = _gold(rng, k)
        result = _audit(rng, gold, {"none": _read(rng, gold, 0.40, 0.09), "attention": _read(rng, gold, 0.46, 0.075)})
        shown.append(result.answers[0].verdict == "acceptable")
        better.append(_significant(result, random=False))
    yield Cell('pointing, power: "acceptable" at token F1 0.36', f"{k} charts", float(np.mean(shown)), n_samples)
    yield Cell("power: 0.43 against 0.36 is significant", f"{k} charts", float(np.mean(better)), n_samples)


class Leaning(Model):
    """Its probability falls by a number of each chart's own without the chart's evidence, the capitals."""

    labels = ("A",)

    def __init__(self, falls: Floats) -> None:
        self.falls, self.fingerprint = falls, f"leaning-{falls.sum()}"

    def predict(self, inputs: Inputs) -> Probabilities:
        out = []
        for case, text in zip(inputs.case_ids, inputs.texts, strict=True):
            out.append([0.9 - self.falls[int(case)] * ("EVID" not in text)])
        return np.clip(np.array(out), 0, 1)


def _faithfulness(n_samples: int, rng: Rng, k: int) -> Iterator[Cell]:
    """One word is the evidence; random words hit it in one chart of 61, so the fall beyond them is 60/61 of it."""
    words = [["word"] * (N_WORDS - 1) for _ in range(k)]
    texts = [" ".join([*line[: 3 + i % 50], "EVID", *line[3 + i % 50 :], f"{i}x"]) for i, line in enumerate(words)]
    columns = {"case_id": [f"{i}" for i in range(k)], "text": texts, "split": ["test"] * k, "A": [1] * k}
    cohort = Cohort.from_frame(pl.DataFrame(columns), labels=["A"])
    start = [text.index("EVID") for text in texts]
    spans = {"case_id": columns["case_id"], "label": ["A"] * k, "start": start, "end": [at + 4 for at in start]}
    table = EvidenceTable(pl.DataFrame(spans))
    audit = Evidence(gold=table, predicted={"toy": table}, explain="none", code_threshold=0.3, examples=0)
    for true, asked in ((0.02 * 61 / 60, ("concern", "acceptable")), (0.3, ())):
        verdicts = []
        for _ in range(n_samples):
            falls = rng.normal(true, 0.05 if true < 0.1 else 0.2, k)
            result = run_audit(audit, cohort, {"toy": Leaning(falls)}, seed=int(rng.integers(2**31)))
            (answer,) = (each for each in result.answers if each.question == "faithfulness")
            verdicts.append(answer.verdict)
        for verdict in asked:
            rate = float(np.mean([each == verdict for each in verdicts]))
            what = f'faithfulness: wrong "{verdict}" at the margin'
            yield Cell(what, f"{k} charts", rate, n_samples, at_most=WRONG_VERDICTS)
        if not asked:
            rate = float(np.mean([each == "acceptable" for each in verdicts]))
            yield Cell('faithfulness, power: "acceptable" at a fall of 0.30', f"{k} charts", rate, n_samples)
