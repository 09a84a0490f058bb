"""The audits of three chest radiograph models; made-up numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palpate.results import AuditResult, Axis, Chart, Column, Estimate, Finding, Table, estimates_frame

from .sample_notes import estimate

FINDINGS_13 = (
    "Atelectasis",
    "Cardiomegaly",
    "Consolidation",
    "Edema",
    "Enlarged cardiomediastinum",
    "Fracture",
    "Lung lesion",
    "Lung opacity",
    "Pleural effusion",
    "Pleural other",
    "Pneumonia",
    "Pneumothorax",
    "Support devices",
)


def many_labels(models: Sequence[str]) -> AuditResult:
    rng = np.random.default_rng(4)
    rows: list[Estimate] = []
    data = []
    for k, model in enumerate(models):
        for i, label in enumerate(FINDINGS_13):
            value = float(np.clip(0.86 - 0.03 * k + rng.normal(0, 0.035), 0, 0.99))
            half = 0.01 + 0.002 * i
            rows.append(estimate("performance", model, "auroc", label, value, half=half, n=1200))
            data.append(
                {
                    "label": label,
                    "model": model,
                    "value": value,
                    "low": value - half,
                    "high": value + half,
                    "n": 1200 - 7 * i,
                }
            )
        rows.append(estimate("performance", model, "auroc", "macro", 0.86 - 0.03 * k, half=0.012))
    for a, b, value, significant in ((1, 0, -0.03, True), (2, 0, -0.06, True), (2, 1, -0.03, False)):
        rows.append(
            estimate(
                "performance",
                models[a],
                "auroc",
                "macro",
                value,
                reference=models[b],
                p_value=0.002 if significant else 0.08,
                significant=significant,
                half=0.02 if significant else 0.035,
            )
        )
    chart = Chart(
        title="AUROC per finding",
        caption="Point and 95% interval.",
        kind="forest",
        description="densenet121 leads for most findings.",
        x=Axis(field="value", title="AUROC"),
        y=Axis(field="label", title="Finding"),
        data=tuple(data),
        series="model",
        reference=0.5,
    )
    columns = (
        Column(name="Finding"),
        Column(name="Model"),
        Column(name="AUROC", kind="interval"),
        Column(name="n", kind="integer"),
    )
    cells = tuple((d["label"], d["model"], (d["value"], d["low"], d["high"]), d["n"]) for d in data)
    table = Table(title="All AUROCs", columns=columns, rows=cells)
    finding = Finding(sentence="densenet121 has the highest AUROC for 9 of 13 findings.", kind="acceptable")
    return AuditResult("performance", estimates_frame(rows), (chart, table), (finding,))


def context(models: Sequence[str]) -> AuditResult:
    data = []
    for i, label in enumerate(FINDINGS_13[:6]):
        for j, how in enumerate(("all cases", "weighted", "matched")):
            for k, model in enumerate(models[:2]):
                value = 0.86 - 0.05 * j - 0.01 * (i % 4) - 0.02 * k
                row = {"label": label, "how": how, "model": model, "n": 1200}
                data.append(row | {"value": value, "low": value - 0.03, "high": value + 0.03})
    chart = Chart(
        title="AUROC once the history is taken away",
        caption="Matched and weighted cases have the same chance of the finding before the image is seen.",
        kind="forest",
        description="AUROC falls by about 0.1 once cases are matched.",
        x=Axis(field="value", title="AUROC"),
        y=Axis(field="label", title="Finding"),
        data=tuple(data),
        series="how",
        facet="model",
    )
    finding = Finding(
        sentence="A third of densenet121's advantage over chance is known before the image.", kind="caution"
    )
    return AuditResult("context", estimates_frame([]), (chart,), (finding,))
