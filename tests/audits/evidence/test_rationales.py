"""Published rationales of trials' articles: every measure of the audit equals a slow count, word by word."""

from __future__ import annotations

from math import ceil

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score

from palpate import Cohort
from palpate.cases.edits import Inputs
from palpate.results import AuditResult
from palpate.stats.evidence import MATCHES
from palpate.testing import KeywordModel
from tests.audits.evidence.evidence_charts import audit, quick, table, value
from tests.data.published import SHARED
from tests.stats.evidence.evidence_by_sets import cells, pieces, runs_of, scores, words_of

PUBLISHED = SHARED / "rationales" / "evidence_inference"
LABELS = ("effect", "none")
THRESHOLD, FRACTIONS = 0.7, (0.05, 0.2)
Spans = list[tuple[int, int, int, int]]
"""Article, begin, end and label."""


def articles(n: int = 24, most: int = 2500) -> tuple[list[str], Spans]:
    """Texts from a window around their first evidence, and what annotators marked there."""
    marked = pl.read_csv(PUBLISHED / "annotations.csv", infer_schema_length=None)
    marked = marked.filter((pl.col("Evidence Start") >= 0) & pl.col("Label Code").is_in([-1, 0, 1]))
    texts: list[str] = []
    gold: Spans = []
    for file in sorted((PUBLISHED / "txt_files").glob("*.txt")):
        own = marked.filter(pl.col("PMCID") == int(file.stem.removeprefix("PMC")))
        if len(texts) == n or not own.height:
            continue
        first = max(own["Evidence Start"].min() - 300, 0)  # type: ignore[operator]
        text = file.read_text(encoding="utf-8")[first : first + most]
        for start, end, code in own.select("Evidence Start", "Evidence End", "Label Code").iter_rows():
            if start < end and first <= start and end - first <= len(text):
                gold.append((len(texts), start - first, end - first, int(code == 0)))
        texts.append(text)
    return texts, gold


def merged(texts: list[str], spans: Spans) -> Spans:
    """Spans as runs of whole words; those of the samples cut no word."""
    out: Spans = []
    for note, text in enumerate(texts):
        words = words_of(text, None)
        own = [span for span in spans if span[0] == note]
        marks = [(k, code) for k, (a, b) in enumerate(words) for _, begin, end, code in own if begin <= a and b <= end]
        out += [(note, words[low][0], words[high][1], code) for code, low, high in runs_of(marks)]
    return out


class Slow:
    """The articles with a score for every word and label, and a model that counts words."""

    def __init__(self) -> None:
        self.texts, raw = articles()
        whole = [
            (n, b, e, c)
            for n, b, e, c in raw
            if set(pieces(self.texts[n], b, e, None)) <= set(words_of(self.texts[n], None))
        ]
        self.gold = merged(self.texts, whole)
        rng = np.random.default_rng(7)
        self.rows: list[tuple[int, int, int, int, float]] = []
        for note, text in enumerate(self.texts):
            for label in range(2):
                for a, b in words_of(text, None):
                    right = any(n == note and c == label and s <= a and b <= e for n, s, e, c in whole)
                    self.rows.append((note, a, b, label, float(rng.beta(4, 2) if right else rng.beta(2, 4))))
        weights = {"significant": {"effect": 1.0, "none": 0.6}, "no": {"none": 1.0}, "p": {"effect": 0.5}}
        self.model = KeywordModel(weights, bias=-0.5, labels=LABELS)

    def marked(self) -> Spans:
        return merged(self.texts, [(n, a, b, c) for n, a, b, c, score in self.rows if score > THRESHOLD])

    def cohort(self) -> tuple[Cohort, pl.DataFrame]:
        has = {(n, c) for n, _, _, c in self.gold}
        frame = pl.DataFrame(
            {
                "case_id": [f"a{k}" for k in range(len(self.texts))],
                "split": ["test"] * len(self.texts),
                "text": self.texts,
                **{label: [int((k, c) in has) for k in range(len(self.texts))] for c, label in enumerate(LABELS)},
            }
        )
        gold = [(f"a{n}", LABELS[c], b, e) for n, b, e, c in self.gold]
        schema = ["case_id", "label", "start", "end"]
        return Cohort.from_frame(frame, labels=list(LABELS)), pl.DataFrame(gold, schema=schema, orient="row")

    def drops(self, arm: str, fraction: float) -> list[float]:
        """How far each predicted probability falls without the strongest words, or with nothing else."""
        found, before = [], self.model.predict(Inputs.from_texts(self.texts))
        for note, code in sorted({(n, c) for n, _, _, c in self.gold}):
            if before[note, code] < 0.5:
                continue
            own = sorted((row for row in self.rows if (row[0], row[3]) == (note, code)), key=lambda row: -row[4])
            strongest = {row[1:3] for row in own[: max(1, ceil(fraction * len(own)))]}
            kept = [
                self.texts[note][a:b]
                for a, b in words_of(self.texts[note], None)
                if ((a, b) in strongest) == (arm == "sufficiency")
            ]
            after = self.model.predict(Inputs.from_texts([" ".join(kept)]))[0, code]
            found.append(float(before[note, code] - after))
        return found


@pytest.fixture(scope="module")
def slow() -> Slow:
    if not PUBLISHED.is_dir():
        pytest.skip("../shared/data is not here")
    return Slow()


@pytest.fixture(scope="module")
def result(slow: Slow, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    cohort, gold = slow.cohort()
    said = [(f"a{n}", LABELS[c], a, b, score) for n, a, b, c, score in slow.rows]
    predicted = table(pl.DataFrame(said, schema=["case_id", "label", "start", "end", "score"], orient="row"))
    options = {"predicted": {"toy": predicted}, "threshold": THRESHOLD, "fractions": FRACTIONS, "codes": "gold"}
    return audit(quick(gold, **options), cohort, tmp_path_factory.mktemp("run"), toy=slow.model)


@pytest.mark.parametrize("match", MATCHES)
def test_matches(slow: Slow, result: AuditResult, match: str) -> None:
    has = {(n, c) for n, _, _, c in slow.gold}
    predicted = [span for span in slow.marked() if (span[0], span[3]) in has]
    chart = list(range(len(slow.texts)))
    counted = cells(match, slow.texts, chart, slow.gold, predicted, None)
    for average, expected in zip(("", "_by_code"), scores(counted, [1] * len(slow.texts)), strict=True):
        for name, number in zip(("precision", "recall", "f1"), expected, strict=True):
            assert value(result, f"{match}_{name}{average}") == pytest.approx(number), name


def test_rankings_and_shares(slow: Slow, result: AuditResult) -> None:
    expected: dict[str, list[float]] = {}
    for note, code in sorted({(n, c) for n, _, _, c in slow.gold}):
        own = [row for row in slow.rows if (row[0], row[3]) == (note, code)]
        y = [any((n, c) == (note, code) and s <= a and b <= e for n, s, e, c in slow.gold) for _, a, b, _, _ in own]
        score = [row[4] for row in own]
        expected.setdefault("word_auprc", []).append(average_precision_score(y, score))
        order = sorted(range(len(own)), key=lambda k: -score[k])
        for k in (1, 5, 10):
            hits = sum(y[j] for j in order[:k])
            expected.setdefault(f"precision_at_{k}", []).append(hits / k)
            expected.setdefault(f"recall_at_{k}", []).append(hits / sum(y))
    for metric, numbers in expected.items():
        assert value(result, metric) == pytest.approx(np.mean(numbers)), metric
    marked = slow.marked()
    touched = [
        any((n, c) == (note, code) and s < e and b < end for n, b, e, c in marked) for note, s, end, code in slow.gold
    ]
    assert value(result, "spans_touched") == pytest.approx(np.mean(touched))


def test_chance_and_faithfulness(slow: Slow, result: AuditResult) -> None:
    hits = total = n_gold = 0.0
    marked = slow.marked()
    for note, code in sorted({(n, c) for n, _, _, c in slow.gold}):
        words = words_of(slow.texts[note], None)
        k, g = (
            sum(any((n, c) == (note, code) and s <= a and b <= e for n, s, e, c in side) for a, b in words)
            for side in (marked, slow.gold)
        )
        hits, total, n_gold = hits + k * g / len(words), total + k, n_gold + g
    assert value(result, "chance_token_f1") == pytest.approx(2 * hits / (total + n_gold))
    for arm in ("comprehensiveness", "sufficiency"):
        curves = [slow.drops(arm, fraction) for fraction in FRACTIONS]
        assert len(curves[0]) > 5
        for fraction, curve in zip(FRACTIONS, curves, strict=True):
            group = f"{100 * fraction:g}% of the words"
            assert value(result, arm, group=group) == pytest.approx(np.mean(curve)), (arm, fraction)
        area = np.mean([np.mean(pair) for pair in zip(*curves, strict=True)])
        assert value(result, f"{arm}_aopc", group="mean over fractions") == pytest.approx(area)
