"""The audits of two readmission models; made-up numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palpate.results import AuditResult, Axis, Chart, Column, Estimate, Examples, Finding, Table, estimates_frame
from palpate.results.verdicts import Answer, Verdict


def estimate(audit: str, model: str, metric: str, label: str, value: float | None, **rest: Any) -> Estimate:
    """One row, with an interval around it."""
    half = rest.pop("half", 0.02)
    ends = {} if value is None else {"low": value - half, "high": value + half, "level": 0.95}
    return Estimate(
        audit, model, metric, label, rest.pop("group", "internal"), value, rest.pop("n", 1200), **ends, **rest
    )


def answer(model: str, question: str, asks: str, verdict: Verdict, value: float) -> Answer:
    ends = {"value": value, "low": value - 0.01, "high": value + 0.01, "margin": 0.05}
    return Answer(question=question, asks=asks, model=model, verdict=verdict, metric="auroc", **ends)


def performance(models: Sequence[str]) -> AuditResult:
    level = dict(zip(models, ((0.743, 0.281, 0.094), (0.712, 0.249, 0.112)), strict=True))
    rows: list[Estimate] = []
    for model, values in level.items():
        for metric, value in zip(("auroc", "auprc", "brier"), values, strict=True):
            rows.append(estimate("performance", model, metric, "readmitted", value, n_positive=74))
    rows.append(
        estimate(
            "performance",
            models[1],
            "auroc",
            "readmitted",
            -0.031,
            reference=models[0],
            p_value=0.0004,
            significant=True,
            half=0.017,
        )
    )
    return AuditResult(
        "performance",
        estimates_frame(rows),
        blocks=(
            _metrics_table(level),
            _roc(models),
            _calibration(models),
            _risk_histogram(models),
        ),
        findings=(
            Finding(
                sentence="bert-discharge tells readmitted from other patients better than tfidf-xgb does "
                "(AUROC 0.743 against 0.712, p < 0.001).",
                kind="acceptable",
                question="comparison",
            ),
            Finding(
                sentence="tfidf-xgb overestimates high risks: of patients given 60%, 41% were readmitted.",
                kind="concern",
                question="calibration",
            ),
        ),
        answers=(
            answer(models[0], "calibration", "Are its risks right?", "acceptable", 0.02),
            answer(models[-1], "calibration", "Are its risks right?", "concern", 0.09),
            answer(models[0], "comparison", "Is it as good as the other models?", "acceptable", 0.03),
        ),
        provenance={"replicates": 10_000, "unit": "patient", "level": 0.95, "split": "test"},
    )


def _metrics_table(level: Mapping[str, tuple[float, ...]]) -> Table:
    columns = (
        Column(name="Model"),
        Column(name="AUROC", kind="interval"),
        Column(name="AUPRC", kind="interval"),
        Column(name="Brier score", kind="interval", hint="lower is better"),
        Column(name="Cases", kind="integer"),
        Column(name="With the outcome", kind="integer"),
        Column(name="Reason"),
    )
    table_rows = [(m, *((v, v - 0.02, v + 0.02) for v in values), 1200, 74, None) for m, values in level.items()]
    table_rows.append(("majority vote", None, None, (0.06, 0.05, 0.07), 1200, 74, "all its scores are equal"))
    return Table(
        title="Discrimination and error",
        caption="On the held-out test split, one row a model.",
        columns=columns,
        rows=tuple(table_rows),
    )


def _roc(models: Sequence[str]) -> Chart:
    x = np.linspace(0, 1, 120)
    data = [{"fpr": float(a), "tpr": float(a ** (0.33 + 0.1 * i)), "model": m} for i, m in enumerate(models) for a in x]
    return Chart(
        title="ROC curve",
        caption="Towards the top left is better.",
        kind="line",
        description="Both curves lie well above the diagonal; bert-discharge lies above tfidf-xgb throughout.",
        x=Axis(field="fpr", title="False positive rate (1 − specificity)", low=0, high=1, percent=True),
        y=Axis(field="tpr", title="Sensitivity", low=0, high=1, percent=True),
        data=tuple(data),
        series="model",
        diagonal=True,
    )


def _calibration(models: Sequence[str]) -> Chart:
    data = []
    for i, model in enumerate(models):
        for k in range(8):
            p = 0.05 + 0.1 * k
            seen = p if i == 0 else p * (1 - 0.35 * p / 0.75)
            data.append(
                {"p": p, "seen": seen, "low": max(0, seen - 0.03 - p / 10), "high": seen + 0.03 + p / 10}
                | {"model": model, "n": 420 - 48 * k}
            )
    return Chart(
        title="Calibration",
        caption="Each point is a group of cases with similar predictions; on the diagonal, risks come true.",
        kind="line",
        description="bert-discharge follows the diagonal; tfidf-xgb falls below it from 30% on.",
        x=Axis(field="p", title="Predicted risk", low=0, high=1, percent=True),
        y=Axis(field="seen", title="Share with the outcome", low=0, high=1, percent=True),
        data=tuple(data),
        series="model",
        facet="model",
        diagonal=True,
    )


def _risk_histogram(models: Sequence[str]) -> Chart:
    rng = np.random.default_rng(1)
    data = []
    for i, model in enumerate(models):
        counts, edges = np.histogram(rng.beta(1.4, 6 - i, 1200), bins=25, range=(0, 1))
        for count, start, end in zip(counts.tolist(), edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            data.append({"start": start, "end": end, "count": count, "model": model})
    return Chart(
        title="How predictions are spread",
        kind="histogram",
        description="Most predictions are below 30%; tfidf-xgb spreads wider.",
        x=Axis(field="start", title="Predicted risk", low=0, high=1, percent=True),
        y=Axis(field="count", title="Cases"),
        data=tuple(data),
        series="model",
    )


Rows = Sequence[dict[str, Any]]


def _word_charts(data: Rows, heat: Rows, dots: Rows) -> tuple[Chart, ...]:
    return (
        Chart(
            title="Words that move the prediction",
            caption="Change of the predicted risk when the word is put into a note; right of zero raises it.",
            kind="forest",
            description="Eight words with their mean change of risk for both models.",
            x=Axis(field="value", title="Change of predicted risk (percentage points)", percent=True),
            y=Axis(field="word", title="Word"),
            data=tuple(data),
            series="model",
            reference=0,
        ),
        Chart(
            title="Models and clinicians side by side",
            caption="From −1 (lowers risk) to 1 (raises risk).",
            kind="heatmap",
            description="Ratings of eight words by three clinicians and two models.",
            x=Axis(field="rater", title="Rater"),
            y=Axis(field="word", title="Word"),
            data=tuple(heat),
            reference=0,
        ),
        Chart(
            title="Agreement on all words",
            kind="scatter",
            description="Clinicians' mean rating against the model's change; they rise together.",
            x=Axis(field="a", title="Clinicians' mean rating (standardised)"),
            y=Axis(field="b", title="Model's change (standardised)"),
            data=tuple(dots),
        ),
    )


def vocabulary(models: Sequence[str]) -> AuditResult:
    words = ("homeless", "noncompliant", "pleasant", "hospice", "dialysis", "insulin", "lives alone", "alcohol")
    rng = np.random.default_rng(2)
    data, heat, dots = [], [], []
    for word in words:
        for model in models:
            value = float(rng.normal(0.01, 0.03))
            data.append(
                {"word": word, "model": model, "value": value, "low": value - 0.012, "high": value + 0.012}
                | {"n": 300, "significant": abs(value) > 0.012}
            )
        for rater in ("Clinician A", "Clinician B", "Clinician C", "bert-discharge", "tfidf-xgb"):
            heat.append({"word": word, "rater": rater, "value": round(float(rng.uniform(-1, 1)), 2)})
    for i in range(220):
        a = float(rng.normal())
        dots.append({"a": a, "b": a * 0.6 + float(rng.normal(0, 0.6)), "text": f"word {i}"})
    blocks = _word_charts(data, heat, dots)
    findings = (
        Finding(
            sentence="“homeless” raises bert-discharge's risk by 4.1 percentage points; two of three "
            "clinicians say that it should not.",
            kind="concern",
            question="spurious",
        ),
        Finding(sentence="Clinicians agree among themselves only moderately (kappa 0.48)."),
    )
    rows = [
        estimate("vocabulary", d["model"], "change", "readmitted", d["value"], group=d["word"], n=300) for d in data
    ]
    asks = "Does it hang on a word that no clinician would use?"
    answers = (answer(models[0], "spurious", asks, "concern", 0.041),)
    provenance = {"words": 220, "raters": 3}
    return AuditResult("vocabulary", estimates_frame(rows), blocks, findings, provenance, answers=answers)


def with_examples(result: AuditResult) -> AuditResult:
    examples = Examples(
        title="Notes whose risk moved most",
        columns=("Case", "Before", "After", "Text"),
        rows=(
            ("c-0012", "18%", "31%", "Patient is a 64 year old man, [homeless], admitted with chest pain."),
            ("c-0931", "22%", "34%", "Pt discharged in stable condition.\nFollow-up with PCP in 2 weeks."),
        ),
        has_note_text=True,
    )
    return replace(result, blocks=(*result.blocks, examples))


def _patient_charts(data: Rows, bars: Rows) -> tuple[Chart, ...]:
    return (
        Chart(
            title="Same note, another patient",
            caption="Difference of predicted risk to the unaltered note.",
            kind="forest",
            description="Differences lie near zero for most groups.",
            x=Axis(field="value", title="Difference of predicted risk"),
            y=Axis(field="group", title="Group"),
            data=tuple(data),
            series="model",
            reference=0,
        ),
        Chart(
            title="What could be altered",
            kind="bar",
            description="Most notes could be altered.",
            x=Axis(field="share", title="Share of notes", percent=True),
            y=Axis(field="step", title="Outcome"),
            data=tuple(bars),
            series="model",
        ),
    )


def characteristics(models: Sequence[str]) -> AuditResult:
    groups = (
        "female",
        "male",
        "transgender",
        "18–40",
        "41–65",
        "66–80",
        "over 80",
        "Black",
        "White",
        "Hispanic",
        "Asian",
    )
    rng = np.random.default_rng(3)
    data = []
    for i, group in enumerate(groups):
        for model in models:
            value = float(rng.normal(0, 0.012))
            half = 0.008 + 0.001 * i
            data.append(
                {"group": group, "model": model, "value": value, "low": value - half, "high": value + half}
                | {"n": 900 - 60 * i, "significant": abs(value) > half}
            )
    data.append(
        {"group": "Native American", "model": models[0], "value": None, "n": 0, "reason": "no case could be altered"}
    )
    bars = tuple(
        {"step": step, "model": model, "share": share - 0.05 * i, "n": 1200}
        for step, share in (("altered", 0.82), ("no mention to alter", 0.12), ("ambiguous", 0.06))
        for i, model in enumerate(models)
    )
    blocks = _patient_charts(data, bars)
    findings = (
        Finding(
            sentence="bert-discharge gives transgender patients 3.1 percentage points less risk with all else "
            "in the note the same.",
            kind="concern",
            question="gender",
        ),
        Finding(sentence="Age and ethnicity move neither model by more than 2 percentage points.", kind="acceptable"),
    )
    rows = [
        estimate("characteristics", d["model"], "difference", "readmitted", d["value"], group=d["group"]) for d in data
    ]
    answers = (answer(models[0], "gender", "Does the patient's gender change the answer?", "concern", 0.031),)
    return AuditResult("characteristics", estimates_frame(rows), blocks, findings, {"skipped": 218}, answers=answers)


def capabilities(models: Sequence[str]) -> AuditResult:
    tests = ("negation", "temporal order", "positive sentiment", "beneficial effect")
    rows = tuple(
        (test, model, 0.95 - 0.11 * i - 0.2 * k, 640, (i + k) < 2)
        for i, test in enumerate(tests)
        for k, model in enumerate(models)
    )
    table = Table(
        title="Share of tests passed",
        columns=(
            Column(name="Capability"),
            Column(name="Model"),
            Column(name="Passed", kind="percent"),
            Column(name="Tests", kind="integer"),
            Column(name="Acceptable", kind="flag"),
        ),
        rows=rows,
    )
    finding = Finding(sentence="Neither model understands that an effect can be beneficial.", kind="caution")
    return AuditResult("capabilities", estimates_frame([]), (table,), (finding,))
