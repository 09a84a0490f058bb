"""The context audit's tables, made from its estimates, with the charts of `charts`."""

from __future__ import annotations

from palpate.audits.context.charts import (
    calibration_by_stratum,
    decision_curve_charts,
    held_equal_forest,
    mention_forest,
    pretest_calibration,
    score_distributions,
    strata_forest,
)
from palpate.audits.context.findings import WARNINGS, ContextAnalysis
from palpate.audits.context.groups import MATCHED, PRETEST, REWEIGHTED, WHOLE
from palpate.audits.context.incremental import MODEL_OVER_CONTEXT, OVER_CONTEXT, WITH_CONTEXT
from palpate.audits.context.measures import METRICS
from palpate.audits.kit.tables import DIFFERENCE, columns, difference_cells, harm_first, interval_cell, reason_of, table
from palpate.results import METRIC_NAMES, Cell, Chart, Column, Table, finite

_FAMILIES = {
    "question": "all labels and models of a comparison in one metric",
    "run": "everything that this audit tests: all labels, models, metrics and comparisons",
}
_ABOUT_PRETEST = ("auroc", "auprc", "adaptive_calibration_error", "brier_skill_score")


def context_blocks(analysis: ContextAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    return (
        held_equal_forest(analysis),
        _differences_table(analysis, held_equal=True),
        strata_forest(analysis),
        *mention_forest(analysis),
        _differences_table(analysis, held_equal=False),
        _gain_table(analysis),
        *decision_curve_charts(analysis),
        *score_distributions(analysis),
        *calibration_by_stratum(analysis),
        _pretest_table(analysis),
        pretest_calibration(analysis),
        _balance_table(analysis),
        _all_metrics_table(analysis),
    )


def _intervals(metrics: tuple[str, ...]) -> tuple[Column, ...]:
    return columns(*((METRIC_NAMES[metric], "interval") for metric in metrics))


def _differences_table(analysis: ContextAnalysis, *, held_equal: bool) -> Table:
    found = (
        row
        for row in analysis.estimates
        if row.reference is not None and row.metric in METRICS
        if (row.group in (MATCHED, REWEIGHTED)) == held_equal
    )
    rows = [
        (row.model, row.label, f"{row.group} − {row.reference}", METRIC_NAMES[row.metric], *difference_cells(row))
        for row in harm_first(found, by_model=True)
    ]
    resampling = analysis.measuring.resampling
    return table(
        "What changes when the history is held equal" if held_equal else "Differences between groups",
        f"p-values and {resampling.level:.0%} intervals of tested differences are corrected ({resampling.correction}) "
        f"over {_FAMILIES[analysis.measuring.family]}. Intervals of the others hold for each alone; the last column "
        "says why one is not tested. By model and metric, the largest loss first.",
        columns("Model", "Label", "Groups", "Metric", *DIFFERENCE),
        rows,
        collapsed=True,
    )


def _gain_table(analysis: ContextAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    find = analysis.estimates.find
    for model in analysis.models:
        for label in analysis.labels:
            gain = find(OVER_CONTEXT, model, label=label, reference=PRETEST)
            found = (
                find("auroc", PRETEST, label=label),
                find("auroc", model, label=label),
                find(WITH_CONTEXT, model, label=label),
                gain,
                find(MODEL_OVER_CONTEXT, model, label=label, reference=PRETEST),
            )
            rows.append((model, label, *map(interval_cell, found), gain.significant if gain else None, reason_of(gain)))
    numbers = ("History", "Model alone", "Both", "Gain over history", "Model less history")
    return table(
        "What the model adds to the history",
        "AUROC of the pre-test probability (history), of the model, and of both combined by a logistic regression that "
        "never saw the patient it is judged on. The gain is what the model is worth to someone who knows the history.",
        columns("Model", "Label", *((name, "interval") for name in numbers), ("Gain significant", "flag"), "Remark"),
        rows,
        collapsed=False,
    )


def _pretest_table(analysis: ContextAnalysis) -> Table:
    pretest = analysis.pretest
    may_show = analysis.include_text or not pretest.reads_notes
    rows: list[tuple[Cell, ...]] = []
    for j, label in enumerate(analysis.labels):
        found = [analysis.estimates.find(metric, PRETEST, label=label) for metric in _ABOUT_PRETEST]
        first = found[0]
        rows.append(
            (
                label,
                pretest.model[j],
                first.n if first else 0,
                first.n_positive if first else 0,
                *map(interval_cell, found),
                finite(pretest.training_auroc[j]),
                analysis.strata[j].n_values,
                ", ".join(pretest.heaviest[j]) if may_show else "",
                pretest.reason[j] or reason_of(first),
            )
        )
    trained = any(row[8] is not None for row in rows)
    return table(
        "The pre-test probability",
        f"How well the history predicts each label on the audited cases ({pretest.origin})."
        + (" In training: AUROC out of fold, by patient." if trained else ""),
        columns(
            "Label",
            "Model",
            ("Cases", "integer"),
            ("Positive", "integer"),
            *_intervals(_ABOUT_PRETEST),
            ("AUROC in training", "number"),
            ("Distinct values", "integer"),
            "Largest weights",
            "Remark",
        ),
        rows,
        collapsed=False,
    )


def _balance_table(analysis: ContextAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for row in analysis.measures.balance:
        numbers, effective = map(finite, row.found), map(finite, row.effective)
        warned = "; ".join(WARNINGS[each.kind].format(value=each.value) for each in row.warnings)
        warned = "the pairs are not alike" if row.unlike else warned
        undefined = row.reason if finite(row.found[0]) is None else ""
        setting = "before" if row.group == WHOLE else row.group
        rows.append((row.label, setting, warned or undefined, row.n, *numbers, *effective))
    caliper = "no caliper" if analysis.measuring.caliper is None else f"caliper {analysis.measuring.caliper:g}"
    numeric = (
        "Mean, positive",
        "Mean, negative",
        "Standardised difference",
        "KS distance",
        "AUROC of history",
        "Effective positives",
        "Effective negatives",
    )
    return table(
        "Balance before and after",
        "How the pre-test probability is distributed in positive and negative cases. After matching and re-weighting, "
        "the standardised difference should be near 0 and the AUROC of the history near 0.5; if not, the number is "
        f"still partly history. Matching with {caliper}. The effective sample size is the number of equally weighted "
        "cases that would be as informative.",
        columns("Label", "Setting", "Warning", ("Cases", "integer"), *((name, "number") for name in numeric)),
        rows,
    )


def _all_metrics_table(analysis: ContextAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    groups = [group.name for group in analysis.groups] + [MATCHED, REWEIGHTED]
    for model in analysis.models:
        for label in analysis.labels:
            for group in groups:
                found = [analysis.estimates.find(metric, model, label=label, group=group) for metric in METRICS]
                first = found[0]
                if first is not None:
                    counts = (first.n, first.n_positive)
                    rows.append((model, label, group, *counts, *map(interval_cell, found), reason_of(first)))
    specificity = f"{analysis.measuring.specificity:.0%} specificity"
    return table(
        "Every metric in every group",
        f"{analysis.measuring.resampling.level:.0%} intervals, not corrected for multiplicity. "
        f"Local threshold: {specificity} within the group; global: {specificity} on all cases.",
        columns(
            "Model", "Label", "Group", ("Cases", "integer"), ("Positive", "integer"), *_intervals(METRICS), "Remark"
        ),
        rows,
        collapsed=True,
    )
