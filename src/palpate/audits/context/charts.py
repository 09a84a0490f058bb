"""The context audit's charts: forests (paper, Figures 4 and 5), scores (A.3), calibration (A.2), decision curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from palpate.audits.context.findings import Story, number
from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE
from palpate.results import Axis, Chart, Estimate
from palpate.stats import calibration_curve, threshold_at_specificity

_LABELS_DRAWN = 4
_MODELS_DRAWN = 3
_BINS = 30
_THIN = 0.006
HOLLOW = " A hollow mark does not differ significantly from '{reference}', or was not tested."


def settings_forest(story: Story) -> Chart:
    """All cases, re-weighted and matched (Figure 5); filled where they differ significantly from all cases."""
    groups = (WHOLE, REWEIGHTED, MATCHED)
    against = {REWEIGHTED: WHOLE, MATCHED: WHOLE}
    return _forest(
        story,
        groups,
        against,
        title="AUROC with the history held equal",
        caption="All cases; re-weighted, as if the history said nothing about the label; and matched, each positive "
        "case beside a negative one of the same pre-test probability. "
        f"Bars are {story.level:.0%} bootstrap intervals, one by one.{HOLLOW.format(reference=WHOLE)}",
    )


def strata_forest(story: Story, *, mention: bool = False) -> Chart:
    """Strata of the pre-test probability (Figure 4), or by prior mention; filled where the ends differ."""
    groups = story.names("mention" if mention else "stratum")
    group, reference = (groups[0], groups[1]) if mention else (groups[-1], groups[0])
    what = "by prior mention" if mention else "by pre-test probability"
    return _forest(
        story,
        groups,
        # Those between are not tested, so their marks are hollow too.
        {name: reference for name in groups if name != reference},
        title=f"AUROC {what}",
        caption="The same model where the history makes the finding likely and where it does not. "
        f"'{group}' is tested against '{reference}'.{HOLLOW.format(reference=reference)}",
    )


def _forest(story: Story, groups: Sequence[str], against: Mapping[str, str], *, title: str, caption: str) -> Chart:
    data = [
        _point(row, story.find("auroc", model, label, group, against[group]) if group in against else None, group)
        for model in story.models
        for label in story.labels
        for group in groups
        if (row := story.find("auroc", model, label, group)) is not None and row.value is not None
    ]
    lowest = min((point["low"] if point["low"] is not None else point["value"] for point in data), default=0.5)
    return Chart(
        kind="forest",
        title=title,
        caption=caption,
        description=_described(story, groups),
        x=Axis(field="value", title="AUROC (0.5 = chance, 1 = perfect)", low=min(0.45, lowest), high=1.0),
        y=Axis(field="label", title="Label"),
        series="group",
        facet="model" if len(story.models) > 1 else None,
        reference=0.5,
        data=tuple(data),
    )


def _point(row: Estimate, test: Estimate | None, group: str) -> dict[str, Any]:
    tested = {} if test is None else {"significant": bool(test.significant)}
    return {
        "label": row.label,
        "model": row.model,
        "group": group,
        "value": row.value,
        "low": row.low,
        "high": row.high,
        "n": row.n,
        "n_positive": row.n_positive,
        **tested,
    }


def _described(story: Story, groups: Sequence[str]) -> str:
    first = [story.find("auroc", story.models[0], story.labels[0], group) for group in groups]
    values = ", ".join(f"{row.group} {number(row.value)}" for row in first if row is not None)
    return f"AUROC of each label by group; {story.models[0]}, '{story.labels[0]}': {values}."


def drawn_labels(story: Story, n: int) -> list[int]:
    """The labels with most positive cases, among those that have a pre-test probability."""
    counts = story.beyond.n_positive
    order = np.argsort(-counts, kind="stable")[:n]
    return sorted(int(j) for j in order if counts[j] > 0)


def score_distributions(story: Story) -> list[Chart]:
    """Scores of positives and negatives in each stratum, with local and global thresholds (Figure A.3)."""
    return [
        chart
        for model in story.models[:_MODELS_DRAWN]
        for j in drawn_labels(story, 2)
        if (chart := _distribution(story, model, j)) is not None
    ]


def _distribution(story: Story, model: str, j: int) -> Chart | None:
    m = story.cases.models.index(story.families.get(model, [model])[0])
    score, positive = story.cases.y_score[m, :, j], story.cases.y_true[:, j] > 0
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    data: list[dict[str, Any]] = []
    for group in story.groups:
        if group.kind != "stratum" or not group.rows[:, j].any():
            continue
        local = threshold_at_specificity(
            positive[group.rows[:, j]], score[group.rows[:, j]], specificity=story.specificity
        )
        title = f"{group.name}: local threshold {number(local) if np.isfinite(local) else 'none'}"
        shares = []
        for name, side in (("positive", positive), ("negative", ~positive)):
            inside = group.rows[:, j] & side
            share = np.histogram(score[inside], bins=edges)[0] * 1000 / max(1, int(inside.sum()))
            data += [
                {"start": float(a), "end": float(b), "count": float(c), "cases": name, "stratum": title}
                for a, b, c in zip(edges[:-1], edges[1:], share, strict=True)
                if c > 0
            ]
            shares.append(float(share.max()))
        if np.isfinite(local):
            data.append(_marker(float(local), max(shares), title))
    if not data:
        return None
    threshold = float(story.cases.threshold[m, j])
    shown = threshold if np.isfinite(threshold) else None
    return Chart(
        kind="histogram",
        title=f"Scores by pre-test probability: {model}, {story.labels[j]}",
        caption=f"The dashed line is the global threshold ({number(shown)}: {story.specificity:.0%} specificity on "
        "all cases), the thin bar the local one, within the stratum. Where scores shift upwards with the history, one "
        "global threshold finds fewer cases at low risk and raises more false alarms at high risk.",
        description=f"Scores of positive and negative cases in each stratum, for '{story.labels[j]}'.",
        x=Axis(field="start", title="Score of the model", low=0.0, high=1.0),
        y=Axis(field="count", title="Cases per 1,000"),
        series="cases",
        facet="stratum",
        reference=shown,
        data=tuple(data),
    )


def _marker(at: float, height: float, title: str) -> dict[str, Any]:
    """The local threshold as a thin bar: a chart has one line, and that is the global threshold's."""
    start = min(at, 1.0 - _THIN)
    return {"start": start, "end": start + _THIN, "count": height, "cases": "local threshold", "stratum": title}


def _calibration_rows(story: Story, score: Any, j: int, rows: Any) -> list[dict[str, Any]]:
    curve = calibration_curve(
        story.cases.y_true[rows, j],
        score[rows, j],
        n_bins=min(story.n_bins, max(1, int(rows.sum()) // 20)),
    )
    return [
        {
            "x": float(x),
            "y": float(y),
            "low": float(low),
            "high": float(high),
            "n": round(float(n)),
            "label": story.labels[j],
        }
        for x, y, low, high, n in zip(
            curve.mean_score, curve.observed, curve.low, curve.high, curve.weight, strict=True
        )
        if x == x and y == y
    ]


def calibration_by_stratum(story: Story) -> list[Chart]:
    """Whether a model's probabilities hold in each stratum."""
    charts = []
    for model in story.models[:_MODELS_DRAWN]:
        m = story.cases.models.index(story.families.get(model, [model])[0])
        data = [
            {**row, "stratum": group.name}
            for j in drawn_labels(story, _LABELS_DRAWN)
            for group in story.groups
            if group.kind == "stratum" and group.rows[:, j].any()
            for row in _calibration_rows(story, story.cases.y_score[m], j, group.rows[:, j])
        ]
        if data:
            charts.append(_calibration(f"Calibration by pre-test probability: {model}", data, "stratum"))
    return charts


def pretest_calibration(story: Story) -> Chart:
    """Whether the pre-test probabilities hold (Figure A.2): re-weighting relies on it."""
    data = [
        {**row, "source": "history"}
        for j in drawn_labels(story, 2 * _LABELS_DRAWN)
        for row in _calibration_rows(story, story.cases.p, j, story.cases.known[:, j])
    ]
    return _calibration("Calibration of the pre-test probability", data, "source")


def _calibration(title: str, data: Sequence[dict[str, Any]], series: str) -> Chart:
    return Chart(
        kind="line",
        title=title,
        caption="Bins hold equal numbers of cases; bands are Wilson intervals. "
        "On the diagonal, 20% predicted is 20% observed.",
        description="Observed share of positive cases against the mean predicted probability.",
        x=Axis(field="x", title="Mean predicted probability", percent=True),
        y=Axis(field="y", title="Observed share of positive cases", percent=True),
        series=series,
        facet="label",
        diagonal=True,
        data=tuple(data),
    )


def decision_chart(story: Story) -> list[Chart]:
    """Net benefit with the pre-test probability as the alternative to the model."""
    shown = set(drawn_labels(story, _LABELS_DRAWN))
    data = [
        {"x": float(t), "y": float(curve.point[k, i]), "label": story.labels[curve.label], "by": name}
        for curve in story.beyond.curves
        if curve.label in shown
        for k, name in enumerate(curve.names)
        for i, t in enumerate(curve.thresholds)
        if curve.point[k, i] == curve.point[k, i] and curve.point[k, i] > -0.05
    ]
    if not data:
        return []
    chart = Chart(
        kind="line",
        title="Is it worth acting on the model?",
        caption="Net benefit per case of acting when the probability reaches a threshold: found cases less false "
        "alarms, at the rate of exchange that the threshold implies. Acting on nobody is 0. A model is worth having "
        "where its curve, or that of model and history, lies above that of the history alone. "
        "Benefits below −0.05 are not drawn.",
        description="Decision curves of the history, the model, both, and acting on everybody.",
        x=Axis(field="x", title="Probability at which one acts", percent=True),
        y=Axis(field="y", title="Net benefit per case"),
        series="by",
        facet="label",
        reference=0.0,
        data=tuple(data),
    )
    return [chart]
