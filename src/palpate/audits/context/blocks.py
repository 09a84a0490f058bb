"""What the context audit shows: tables, and the charts of `context_charts`."""

from __future__ import annotations

from palpate.audits.context.charts import (
    calibration_by_stratum,
    decision_chart,
    pretest_calibration,
    score_distributions,
    settings_forest,
    strata_forest,
)
from palpate.audits.context.findings import NAMES, WARNINGS, Story
from palpate.audits.context.groups import MATCHED, REWEIGHTED, WHOLE
from palpate.audits.context.measures import METRICS, PRETEST
from palpate.results import Cell, Chart, Column, Estimate, Table

_GAINS = (
    ("auroc_with_context", None, "Both"),
    ("auroc_gain_over_context", PRETEST, "Gain over history"),
    ("auroc_model_over_context", PRETEST, "Model less history"),
)


def blocks_of(story: Story) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [settings_forest(story), _differences_table(story, controlled=True)]
    blocks += [strata_forest(story), *_mention_forest(story), _differences_table(story, controlled=False)]
    blocks += [_gain_table(story), *decision_chart(story)]
    blocks += score_distributions(story)
    blocks += [*calibration_by_stratum(story), _pretest_table(story), pretest_calibration(story), _balance_table(story)]
    return (*blocks, _all_metrics_table(story))


def _mention_forest(story: Story) -> list[Chart]:
    names = story.names("mention")
    return [strata_forest(story, mention=True)] if names else []


def _cell(row: Estimate | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if row is None else (row.value, row.low, row.high)


def _differences_table(story: Story, *, controlled: bool) -> Table:
    groups = (MATCHED, REWEIGHTED)
    rows: list[tuple[Cell, ...]] = [
        (
            row.model,
            row.label,
            f"{row.group} − {row.reference}",
            NAMES[row.metric],
            _cell(row),
            row.p_value,
            row.significant,
            row.reason or "",
        )
        for row in story.rows
        if row.reference is not None and row.metric in NAMES and row.model in story.models
        if (row.group in groups) == controlled
    ]
    title = "What changes when the history is held equal" if controlled else "Differences between groups"
    return Table(
        title=title,
        caption=f"p-values are corrected ({story.correction}) over everything that this audit tests: all labels, "
        f"models, metrics and questions, {story.n_tested:,} tests. The {story.level:.0%} intervals hold for all "
        "tested differences at once, and likewise for all that are not tested. The remark says why one is not tested.",
        columns=(
            Column(name="Model"),
            Column(name="Label"),
            Column(name="Groups"),
            Column(name="Metric"),
            Column(name="Difference", kind="interval"),
            Column(name="p, corrected", kind="p_value"),
            Column(name="Significant", kind="flag"),
            Column(name="Remark"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )


def _gain_table(story: Story) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in story.models:
        for label in story.labels:
            gains = [story.find(metric, model, label, WHOLE, reference) for metric, reference, _ in _GAINS]
            history, alone = (story.find("auroc", name, label, WHOLE) for name in (PRETEST, model))
            tested = gains[1]
            rows.append(
                (
                    model,
                    label,
                    _cell(history),
                    _cell(alone),
                    *map(_cell, gains),
                    tested.significant if tested else None,
                    (tested.reason if tested else None) or "",
                )
            )
    return Table(
        title="What the model adds to the history",
        caption="AUROC of the pre-test probability (history), of the model, and of both joined by a logistic "
        "regression that never saw the patient it is judged on. The gain is what the model is worth to somebody who "
        "knows the history.",
        columns=(
            Column(name="Model"),
            Column(name="Label"),
            Column(name="History", kind="interval"),
            Column(name="Model alone", kind="interval"),
            *(Column(name=name, kind="interval") for _, _, name in _GAINS),
            Column(name="Gain significant", kind="flag"),
            Column(name="Remark"),
        ),
        rows=tuple(rows),
    )


def _pretest_table(story: Story) -> Table:
    metrics = ("auroc", "auprc", "adaptive_calibration_error", "brier_skill_score")
    # Single words of notes are note text too.
    may_show = story.include_text or "notes" not in story.pretest.origin
    rows: list[tuple[Cell, ...]] = []
    for j, label in enumerate(story.labels):
        found = [story.find(metric, PRETEST, label, WHOLE) for metric in metrics]
        trained = story.pretest.training_auroc[j]
        words = ", ".join(story.pretest.heaviest[j]) if may_show else ""
        first = found[0]
        rows.append(
            (
                label,
                story.pretest.model[j],
                first.n if first else 0,
                first.n_positive if first else 0,
                *map(_cell, found),
                None if trained != trained else float(trained),
                story.strata[j].n_values,
                words,
                story.pretest.reason[j] or (first.reason if first else None) or "",
            )
        )
    return Table(
        title="The pre-test probability",
        caption=f"How well the history predicts each label on the audited cases ({story.pretest.origin})."
        + (" In training: AUROC out of fold, by patient." if any(row[8] is not None for row in rows) else ""),
        columns=(
            Column(name="Label"),
            Column(name="Model"),
            Column(name="Cases", kind="integer"),
            Column(name="Positive", kind="integer"),
            *(Column(name=NAMES[metric], kind="interval") for metric in metrics),
            Column(name="AUROC in training", kind="number"),
            Column(name="Distinct values", kind="integer"),
            Column(name="Weighs most"),
            Column(name="Remark"),
        ),
        rows=tuple(rows),
    )


def _balance_table(story: Story) -> Table:
    names = {WHOLE: "before", MATCHED: MATCHED, REWEIGHTED: REWEIGHTED}
    rows: list[tuple[Cell, ...]] = []
    for row in story.beyond.balance:
        numbers = [None if value != value else float(value) for value in row.found]
        effective = [None if value != value else float(value) for value in row.effective]
        warned = "; ".join(WARNINGS[each.kind].format(value=each.value) for each in row.warnings)
        warned = "the pairs are not alike" if row.unlike else warned
        undefined = row.reason or "" if numbers[0] is None else ""
        rows.append((row.label, names[row.group], warned or undefined, row.n, *numbers, *effective))
    caliper = "no caliper" if story.caliper is None else f"caliper {story.caliper:g}"
    return Table(
        title="Balance before and after",
        caption="How the pre-test probability lies in positive and negative cases. After matching and re-weighting the "
        "standardised difference should be near 0 and the AUROC of the history near 0.5; if not, the number is still "
        f"partly history. Matching with {caliper}. The effective sample size says how many equally weighted cases tell "
        "as much.",
        columns=(
            Column(name="Label"),
            Column(name="Setting"),
            Column(name="Warning"),
            Column(name="Cases", kind="integer"),
            Column(name="Mean, positive", kind="number"),
            Column(name="Mean, negative", kind="number"),
            Column(name="Standardised difference", kind="number"),
            Column(name="KS distance", kind="number"),
            Column(name="AUROC of history", kind="number"),
            Column(name="Effective positives", kind="number"),
            Column(name="Effective negatives", kind="number"),
        ),
        rows=tuple(rows),
        collapsed=len(rows) > 20,
    )


def _all_metrics_table(story: Story) -> Table:
    rows: list[tuple[Cell, ...]] = []
    groups = [group.name for group in story.groups] + [MATCHED, REWEIGHTED]
    for model in story.models:
        for label in story.labels:
            for group in groups:
                found = [story.find(metric, model, label, group) for metric in METRICS]
                first = found[0]
                if first is not None:
                    remark = first.reason or ""
                    rows.append((model, label, group, first.n, first.n_positive, *map(_cell, found), remark))
    return Table(
        title="Every metric in every group",
        caption=f"{story.level:.0%} intervals, one by one. Local threshold: {story.specificity:.0%} specificity within "
        f"the group; global: {story.specificity:.0%} specificity on all cases.",
        columns=(
            Column(name="Model"),
            Column(name="Label"),
            Column(name="Group"),
            Column(name="Cases", kind="integer"),
            Column(name="Positive", kind="integer"),
            *(Column(name=NAMES[metric], kind="interval") for metric in METRICS),
            Column(name="Remark"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )
