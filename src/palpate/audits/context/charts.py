"""The context audit's charts: forests (paper, Figures 4 and 5), scores (A.3), calibration (A.2), decision curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palpate.audits.context.findings import ContextAnalysis
from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE, CaseGroup
from palpate.audits.kit.tables import calibration_chart, calibration_points, forest, point
from palpate.audits.kit.wording import number
from palpate.results import Axis, Chart
from palpate.stats import calibration_curve, threshold_at_specificity

_LABELS_DRAWN = 4
_MODELS_DRAWN = 3
_BINS = 30
_THIN = 0.006
_LOWEST_BENEFIT = -0.05
_HOLLOW = " A hollow mark does not differ significantly from '{reference}', or was not tested."


def held_equal_forest(analysis: ContextAnalysis) -> Chart:
    """All cases, re-weighted and matched (Figure 5); filled where they differ significantly from all cases."""
    return _forest(
        analysis,
        (WHOLE, REWEIGHTED, MATCHED),
        {REWEIGHTED: WHOLE, MATCHED: WHOLE},
        "AUROC with the history held equal",
        "All cases; re-weighted, as if the history said nothing about the label; and matched, each positive case with "
        "a negative one of similar pre-test probability. "
        f"Bars are {analysis.measuring.resampling.level:.0%} bootstrap intervals, not corrected for multiplicity."
        + _HOLLOW.format(reference=WHOLE),
    )


def strata_forest(analysis: ContextAnalysis) -> Chart:
    """Strata of the pre-test probability (Figure 4); filled where the highest differs from the lowest."""
    names = analysis.names("stratum")
    return _groups_forest(analysis, names, names[-1], names[0], "AUROC by pre-test probability")


def mention_forest(analysis: ContextAnalysis) -> list[Chart]:
    """With and without a prior mention, where that is known; filled where they differ."""
    names = analysis.names("mention")
    return [_groups_forest(analysis, names, names[0], names[1], "AUROC by prior mention")] if names else []


def _groups_forest(analysis: ContextAnalysis, names: Sequence[str], group: str, reference: str, title: str) -> Chart:
    return _forest(
        analysis,
        names,
        # Those in between are not tested, so their marks are hollow too.
        {name: reference for name in names if name != reference},
        title,
        "The same model where the history makes the finding likely and where it does not. "
        f"'{group}' is tested against '{reference}'.{_HOLLOW.format(reference=reference)}",
    )


def _forest(
    analysis: ContextAnalysis, groups: Sequence[str], against: Mapping[str, str], title: str, caption: str
) -> Chart:
    find = analysis.estimates.find
    data: list[dict[str, Any]] = []
    for model in analysis.models:
        for label in analysis.labels:
            for group in groups:
                reference = against.get(group)
                test = find("auroc", model, label=label, group=group, reference=reference) if reference else None
                marked = None if test is None else bool(test.significant)
                data += point(find("auroc", model, label=label, group=group), significant=marked)
    lowest = min((row["low"] if row["low"] is not None else row["value"] for row in data), default=0.5)
    model, label = analysis.models[0], analysis.labels[0]
    values = ((group, analysis.estimates.value("auroc", model, label=label, group=group)) for group in groups)
    said = ", ".join(f"{group} {number(value)}" for group, value in values)
    return forest(
        title,
        caption,
        f"AUROC of each label by group; {model}, '{label}': {said}.",
        x=Axis(field="value", title="AUROC (0.5 = chance, 1 = perfect)", low=min(0.45, lowest), high=1.0),
        y=Axis(field="label", title="Label"),
        series="group",
        facet="model" if len(analysis.models) > 1 else None,
        reference=0.5,
        data=data,
    )


def _drawn_labels(analysis: ContextAnalysis, n: int) -> list[int]:
    """The labels with most positive cases, among those that have a pre-test probability."""
    counts = analysis.measures.incremental.n_positive
    order = np.argsort(-counts, kind="stable")[:n]
    return sorted(int(j) for j in order if counts[j] > 0)


def _drawn_models(analysis: ContextAnalysis) -> list[tuple[str, int]]:
    """The first models, and where their scores are: an ensemble is drawn by its first member."""
    places = analysis.cases.models.index
    return [(name, places(analysis.ensembles.get(name, [name])[0])) for name in analysis.models[:_MODELS_DRAWN]]


def _strata(analysis: ContextAnalysis, j: int) -> list[tuple[CaseGroup, NDArray[np.bool_]]]:
    """The strata that are not empty for a label, and their rows."""
    groups = (group for group in analysis.groups if group.kind == "stratum" and group.rows[:, j].any())
    return [(group, group.rows[:, j]) for group in groups]


def score_distributions(analysis: ContextAnalysis) -> list[Chart]:
    """Scores of positives and negatives in each stratum, with local and global thresholds (Figure A.3)."""
    return [
        _distribution(analysis, model, m, j)
        for model, m in _drawn_models(analysis)
        for j in _drawn_labels(analysis, 2)
        if _strata(analysis, j)
    ]


def _distribution(analysis: ContextAnalysis, model: str, m: int, j: int) -> Chart:
    data = [row for group, rows in _strata(analysis, j) for row in _stratum_scores(analysis, m, j, group.name, rows)]
    threshold = float(analysis.cases.threshold[m, j])
    shown = threshold if np.isfinite(threshold) else None
    label, specificity = analysis.labels[j], f"{analysis.measuring.specificity:.0%}"
    return Chart(
        kind="histogram",
        title=f"Scores by pre-test probability: {model}, {label}",
        caption=f"The dashed line is the global threshold ({number(shown)}: {specificity} specificity on all cases), "
        "the thin bar the local one, within the stratum. Where scores shift upwards with the history, one global "
        "threshold finds fewer cases at low risk and raises more false alarms at high risk.",
        description=f"Scores of positive and negative cases in each stratum, for '{label}'.",
        x=Axis(field="start", title="Score of the model", low=0.0, high=1.0),
        y=Axis(field="count", title="Cases per 1,000"),
        series="cases",
        facet="stratum",
        reference=shown,
        data=tuple(data),
    )


def _stratum_scores(
    analysis: ContextAnalysis, m: int, j: int, stratum: str, rows: NDArray[np.bool_]
) -> list[dict[str, Any]]:
    """Two histograms, and the local threshold as a thin bar: a chart has one line, which is the global threshold."""
    score, positive = analysis.cases.y_score[m, rows, j], analysis.cases.y_true[rows, j] > 0
    weight = np.ones(len(score)) if analysis.cases.weight is None else analysis.cases.weight[rows]
    own = None if analysis.cases.weight is None else weight
    local = float(threshold_at_specificity(positive, score, specificity=analysis.measuring.specificity, weight=own))
    title = f"{stratum}: local threshold {number(local) if np.isfinite(local) else 'none'}"
    edges = np.linspace(0.0, 1.0, _BINS + 1)
    data: list[dict[str, Any]] = []
    for name, side in (("positive", positive), ("negative", ~positive)):
        share = np.histogram(score[side], bins=edges, weights=weight[side])[0] * 1000 / max(1e-300, weight[side].sum())
        data += [
            {"start": float(a), "end": float(b), "count": float(c), "cases": name, "stratum": title}
            for a, b, c in zip(edges[:-1], edges[1:], share, strict=True)
            if c > 0
        ]
    if np.isfinite(local):
        start, height = min(local, 1.0 - _THIN), max(row["count"] for row in data)
        bar = {"start": start, "end": start + _THIN, "count": height, "cases": "local threshold", "stratum": title}
        data.append(bar)
    return data


def _calibration(
    analysis: ContextAnalysis, score: NDArray[np.float64], j: int, rows: NDArray[np.bool_], **fields: str
) -> list[dict[str, Any]]:
    n_bins = min(analysis.measuring.n_bins, max(1, int(rows.sum()) // 20))
    weight = None if analysis.cases.weight is None else analysis.cases.weight[rows]
    curve = calibration_curve(analysis.cases.y_true[rows, j], score[rows, j], n_bins=n_bins, weight=weight)
    return calibration_points(curve, label=analysis.labels[j], **fields)


def calibration_by_stratum(analysis: ContextAnalysis) -> list[Chart]:
    """Whether a model's probabilities hold in each stratum."""
    charts = []
    for model, m in _drawn_models(analysis):
        data = [
            row
            for j in _drawn_labels(analysis, _LABELS_DRAWN)
            for group, rows in _strata(analysis, j)
            for row in _calibration(analysis, analysis.cases.y_score[m], j, rows, stratum=group.name)
        ]
        if data:
            title = f"Calibration by pre-test probability: {model}"
            charts.append(calibration_chart(title, data, series="stratum", facet="label"))
    return charts


def pretest_calibration(analysis: ContextAnalysis) -> Chart:
    """Whether the pre-test probabilities hold (Figure A.2): re-weighting relies on it."""
    data = [
        row
        for j in _drawn_labels(analysis, 2 * _LABELS_DRAWN)
        for row in _calibration(analysis, analysis.cases.p, j, analysis.cases.known[:, j], source="history")
    ]
    return calibration_chart("Calibration of the pre-test probability", data, series="source", facet="label")


def decision_curve_charts(analysis: ContextAnalysis) -> list[Chart]:
    """Net benefit with the pre-test probability as the alternative to the model; none without thresholds to draw."""
    shown = set(_drawn_labels(analysis, _LABELS_DRAWN))
    data = [
        {"x": float(t), "y": float(curve.point[k, i]), "label": analysis.labels[curve.label], "by": name}
        for curve in analysis.measures.incremental.curves
        if curve.label in shown
        for k, name in enumerate(curve.names)
        for i, t in enumerate(curve.thresholds)
        if curve.point[k, i] > _LOWEST_BENEFIT
    ]
    if not data:
        return []
    chart = Chart(
        kind="line",
        title="Is it worth acting on the model?",
        caption="Net benefit per case of acting when the probability reaches a threshold: cases found less false "
        "alarms, at the exchange rate that the threshold implies. Acting on nobody is 0. A model is worth having "
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
