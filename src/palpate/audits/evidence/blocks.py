"""What the evidence audit shows: the paper's Table 9 with intervals, curves, strata, the plane of both qualities."""

from __future__ import annotations

from typing import Any

from palpate.audits.evidence.estimates import metric_name
from palpate.audits.evidence.faithfulness_blocks import cell, faithful_blocks, point_of
from palpate.audits.evidence.findings import HEADLINE, MATCH_NAMES, Story, way_in_words
from palpate.audits.evidence.marking import Found
from palpate.audits.evidence.measures import ALL, RANDOM, SHARES
from palpate.results import Axis, Chart, Column, Examples, Table
from palpate.stats.evidence import MATCHES, MEASURES

_POINTS = 24
"""Of a curve: so many that each is drawn with a mark."""
_SHARE_NAMES = {
    "charts_missed": "Charts with evidence in which it points at nothing",
    "codes_missed": "Codes of a chart for which it points at nothing",
    "codes_false": "Codes of a chart that it points at without gold evidence",
    "evidence_beyond_window": "Gold evidence beyond its window",
}


def blocks_of(story: Story, examples: Examples | None) -> tuple[Table | Chart | Examples, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart | Examples] = [_f1_chart(story), _main_table(story), *_curves(story)]
    blocks += [*_lengths(story), *_groups(story), *faithful_blocks(story)]
    blocks += [_losses(story), _sources(story)]
    blocks += [_differences(story)] if story.pairs else []
    return (*blocks, *([examples] if examples is not None else []))


def _bound(story: Story) -> str:
    return " Precision and F1 are lower bounds, because the coders marked what suffices." if story.sufficient else ""


def _f1_chart(story: Story) -> Chart:
    data = [
        point
        for match in MATCHES
        for model in story.models
        for point in point_of(story.find(metric_name(match, "f1"), model), match=MATCH_NAMES[match])
    ]
    return Chart(
        kind="forest",
        title="Agreement with the coders' evidence",
        caption=f"F1 over all codes; bars are {story.level:.0%} intervals by chart. 1 is the very evidence that coders "
        "marked. Position independent: the same words anywhere in the chart." + _bound(story),
        description=f"F1 in {len(MATCHES)} ways to match evidence, with intervals, for {len(story.models)} models.",
        x=Axis(field="value", title="F1 (1 = as the coders)", low=0.0, high=1.0),
        y=Axis(field="match", title="Match"),
        series="model",
        data=tuple(data),
    )


def _main_table(story: Story) -> Table:
    rows: list[tuple[Any, ...]] = []
    for model in story.models:
        for match in MATCHES:
            cells = [cell(story.find(metric_name(match, name), model)) for name in MEASURES]
            by_code = cell(story.find(metric_name(match, "f1", "macro"), model))
            rows.append((model, MATCH_NAMES[match], *cells, by_code))
        random = [cell(story.find(metric_name("token", name), model, RANDOM)) for name in MEASURES]
        if random[0][0] is not None:
            macro = cell(story.find(metric_name("token", "f1", "macro"), model, RANDOM))
            rows.append((f"{model}: {RANDOM}", MATCH_NAMES["token"], *random, macro))
    return Table(
        title="Precision, recall and F1 of evidence",
        caption=f"Summed over codes, and F1 averaged over codes; with {story.level:.0%} intervals by chart "
        f"({story.n_charts:,} charts). {RANDOM.capitalize()}: as many words, drawn at random." + _bound(story),
        columns=(
            Column(name="Model"),
            Column(name="Match"),
            Column(name="Precision", kind="interval"),
            Column(name="Recall", kind="interval"),
            Column(name="F1", kind="interval"),
            Column(name="F1 by code", kind="interval"),
        ),
        rows=tuple(rows),
    )


def _curves(story: Story) -> list[Chart]:
    """Precision and recall over thresholds; the chosen one is a series of its own, so that it is seen."""
    data: list[dict[str, Any]] = []
    chosen: list[dict[str, Any]] = []
    told = []
    for model, found in story.found.items():
        if not isinstance(found, Found) or found.curve is None:
            continue
        curve = found.curve
        away = abs(curve.threshold - (found.threshold or 0.0))
        near = int(away.argmin())
        step = -(-len(curve.threshold) // _POINTS)
        for k in sorted({*range(0, len(curve.threshold), step), near}):
            data.append(
                {
                    "model": model,
                    "recall": float(curve.recall[k]),
                    "precision": float(curve.precision[k]) if curve.precision[k] == curve.precision[k] else None,
                    "text": f"threshold {curve.threshold[k]:g}",
                }
            )
        # A threshold that was given may lie beyond the steps, which end at 1.
        if away[near] <= curve.threshold[0] and curve.precision[near] == curve.precision[near]:
            where = f"{model}: threshold {found.threshold:g}"
            chosen.append(
                {
                    "model": where,
                    "recall": float(curve.recall[near]),
                    "precision": float(curve.precision[near]),
                    "text": where,
                }
            )
        told.append(f"{model}: {found.threshold:g} ({found.threshold_origin}; the curve is that of {found.curve_on})")
    if not data:
        return []
    return [
        Chart(
            kind="line",
            title="From which score on a word is evidence",
            caption="Token precision and recall at each threshold, and where the threshold is. "
            + "; ".join(told)
            + ". Precision has no value where no word reaches the threshold.",
            description="Precision-recall curves of evidence with the chosen threshold of each model.",
            x=Axis(field="recall", title="Token recall", low=0.0, high=1.0),
            y=Axis(field="precision", title="Token precision", low=0.0, high=1.0),
            series="model",
            data=(*data, *chosen),
        )
    ]


def _lengths(story: Story) -> list[Chart]:
    data = []
    for match in ("token", "span"):
        for group in story.groups("length"):
            for model in story.models:
                whole = story.find("span_recall", model, group)
                more = {"length": group.partition("=")[2], "match": MATCH_NAMES[match]}
                n = None if whole is None else whole.n_positive
                data += point_of(story.find(metric_name(match, "recall"), model, group), n=n, **more)
    if not data:
        return []
    return [
        Chart(
            kind="forest",
            title="By length of the evidence",
            caption="Recall of gold evidence of one word, two, and more (n: gold spans). Longer evidence is harder to "
            "find whole. Precision can't be told by length: a false prediction has no gold length.",
            description="Recall of evidence by its length, by token and by exact span, with intervals.",
            x=Axis(field="value", title="Recall", low=0.0, high=1.0),
            y=Axis(field="length", title="Gold evidence"),
            series="model",
            facet="match",
            data=tuple(data),
        )
    ]


def _groups(story: Story) -> list[Table | Chart]:
    groups = [group for what in ("category", "code system", "annotation") for group in story.groups(what)]
    if not groups:
        return []
    data, rows = [], []
    for group in groups:
        what, _, name = group.partition("=")
        for model in story.measured:
            row = story.find(HEADLINE, model, group)
            n = row.n_positive if row is not None else None
            if model in story.models:
                data += point_of(row, group=f"{what.capitalize()}: {name}", n=n)
            cells = [cell(story.find(metric_name("token", measure), model, group)) for measure in MEASURES]
            span = cell(story.find(metric_name("span", "f1"), model, group))
            rows.append((what.capitalize(), name, model, n, *cells, span))
    caption = "Evidence in notes of a category, of codes of a system, in charts of a kind of annotation. "
    caption += "Where coders marked all evidence (complete), precision is what it says; where they marked what "
    caption += "suffices, it is a lower bound."
    chart = Chart(
        kind="forest",
        title="By note category, code system and annotation",
        caption=caption,
        description="Token F1 of evidence by group, with intervals.",
        x=Axis(field="value", title="Token F1", low=0.0, high=1.0),
        y=Axis(field="group", title="Group"),
        series="model",
        data=tuple(data),
    )
    table = Table(
        title="Numbers by group",
        caption="Gold words: words of gold evidence, with a code.",
        columns=(
            Column(name="By"),
            Column(name="Group"),
            Column(name="Model"),
            Column(name="Gold words", kind="integer"),
            Column(name="Token precision", kind="interval"),
            Column(name="Token recall", kind="interval"),
            Column(name="Token F1", kind="interval"),
            Column(name="Exact span F1", kind="interval"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )
    return [chart, table] if data else [table]


def _losses(story: Story) -> Table:
    rows = [
        (model, _SHARE_NAMES[name], row.n if row is not None else None, cell(row))
        for model in story.measured
        for name in SHARES
        for row in [story.find(name, model)]
    ]
    return Table(
        title="What is missed whole, and what is false whole",
        caption="A chart without predictions has all its evidence missed; a code without gold evidence has all its "
        "predictions false; evidence beyond the window counts as missed.",
        columns=(
            Column(name="Model"),
            Column(name="What"),
            Column(name="Of", kind="integer"),
            Column(name="Share", kind="interval"),
        ),
        rows=tuple(rows),
    )


def _sources(story: Story) -> Table:
    rows: list[tuple[Any, ...]] = []
    for model, found in story.found.items():
        if isinstance(found, str):
            rows.append((model, "none", None, "", story.cost.get(model, 0), found))
        else:
            scores = "no scores" if found.graded is None else found.scale
            cost = story.cost.get(model, 0)
            rows.append((model, way_in_words(found.origin), found.threshold, scores, cost, found.threshold_origin))
    return Table(
        title="Where the evidence comes from",
        caption="Relative scores are shares of the strongest word's in the chart and label. Models are asked about "
        "labels with gold evidence in the chart, and about those that they predict there. Texts asked: copies of "
        "charts with words taken out.",
        columns=(
            Column(name="Model"),
            Column(name="Evidence"),
            Column(name="Threshold", kind="number"),
            Column(name="Scores"),
            Column(name="Texts asked", kind="integer", hint="edited copies of charts, for occlusion and faithfulness"),
            Column(name="Why"),
        ),
        rows=tuple(rows),
    )


def _differences(story: Story) -> Table:
    rows = []
    for model, reference in story.pairs:
        for match in MATCHES:
            for measure in MEASURES:
                row = story.find(metric_name(match, measure), model, ALL, reference)
                if row is not None:
                    rows.append(
                        (
                            f"{model} − {reference}",
                            MATCH_NAMES[match],
                            {"f1": "F1"}.get(measure, measure.capitalize()),
                            cell(row),
                            row.p_value,
                            row.significant,
                            row.reason or "",
                        )
                    )
    return Table(
        title="Differences between models",
        caption=f"Paired on the same resampled charts; p corrected by metric ({story.correction}).",
        columns=(
            Column(name="Models"),
            Column(name="Match"),
            Column(name="Measure"),
            Column(name="Difference", kind="interval"),
            Column(name="p, corrected", kind="p_value"),
            Column(name="Significant", kind="flag"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )
