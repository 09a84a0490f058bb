"""The evidence audit's tables and charts: the paper's Table 9 with intervals, strata, faithfulness, examples."""

from __future__ import annotations

from itertools import product
from typing import Any

from palpate.audits.evidence.asking import PROTOCOLS
from palpate.audits.evidence.estimates import AREA, fraction_name, metric_name
from palpate.audits.evidence.faithfulness import ARMS, MARKED, Faithfulness
from palpate.audits.evidence.findings import HEADLINE, EvidenceAnalysis, way_in_words
from palpate.audits.evidence.marking import MarkedEvidence
from palpate.audits.evidence.measures import ALL, RANDOM, SHARES
from palpate.audits.evidence.ranking import ranking_by_group, ranking_table
from palpate.audits.evidence.sensitivity import SENSITIVITY
from palpate.audits.evidence.spans import evidence_examples
from palpate.audits.kit.tables import (
    DIFFERENCE,
    NO_INTERVAL,
    columns,
    difference_cells,
    forest,
    interval_cell,
    point,
    table,
)
from palpate.audits.kit.wording import number
from palpate.results import Axis, Chart, Column, Examples, Table
from palpate.results.blocks import Cell
from palpate.stats.evidence import MATCHES, MEASURES

MATCH_NAMES = {
    "token": "Token",
    "span": "Exact span",
    "token_anywhere": "Token, position independent",
    "span_anywhere": "Exact span, position independent",
    "overlap": "Overlap, one-to-one",
    "iou": "IoU, one-to-one",
}
_SHARE_NAMES = {
    "charts_missed": "Charts with evidence in which it points at nothing for any of their codes",
    "codes_missed": "Codes of a chart for which it points at nothing",
    "codes_false": "Codes of a chart that it points at without gold evidence",
    "evidence_beyond_window": "Gold evidence beyond its window",
    "spans_touched": "Gold spans of which it marks at least a word",
}
_DRAWN = ("category", "code system", "frequency", "annotation")
_BY = ("category", "categories", "code system", "chapter", "frequency", "length", "annotation", "window")
_POINTS = 24
"""How many points of a curve are drawn: few enough for each to have a mark."""


def evidence_blocks(analysis: EvidenceAnalysis, *, n_examples: int) -> tuple[Table | Chart | Examples, ...]:
    """The section's tables and charts; examples hold note text."""
    blocks: list[Table | Chart | Examples] = [_f1_chart(analysis), _main_table(analysis), *_curves(analysis)]
    blocks.append(ranking_table(analysis.estimates, analysis.models, _protocol(analysis).strip()))
    blocks += [*_lengths(analysis), *_groups(analysis), *_by_group(analysis)]
    blocks += [*_plane(analysis), *_drops_chart(analysis), *_drops_table(analysis)]
    blocks += [_losses(analysis), _sources(analysis)]
    blocks += [_differences(analysis)] if analysis.pairs else []
    return (*blocks, *evidence_examples(analysis, n_examples))


def _intervals(analysis: EvidenceAnalysis) -> str:
    return f"{analysis.charts.resampling.level:.0%} intervals by {analysis.charts.unit}"


def _seeds(analysis: EvidenceAnalysis) -> str:
    """What a number of several seeds is."""
    return " A model of several seeds has the mean of their scores." if analysis.predictions.ensembles else ""


def _protocol(analysis: EvidenceAnalysis) -> str:
    """Whose evidence is compared: beside every figure that may be compared with the paper's Table 9."""
    return f"Evidence for {PROTOCOLS[analysis.codes]} (`codes: {analysis.codes}`). "


def _bound(analysis: EvidenceAnalysis) -> str:
    sufficient = analysis.charts.sufficient
    return " Precision and F1 are lower bounds, because the coders marked what suffices." if sufficient else ""


def _f1_chart(analysis: EvidenceAnalysis) -> Chart:
    data = [
        each
        for match in MATCHES
        for model in analysis.models
        for each in point(analysis.estimates.find(metric_name(match, "f1"), model), match=MATCH_NAMES[match])
    ]
    return forest(
        "Agreement with the coders' evidence",
        _protocol(analysis)
        + f"F1 over all labels; bars are {_intervals(analysis)}. 1 is exactly the evidence that coders marked. "
        "Position independent: the same words anywhere in the chart." + _bound(analysis) + _seeds(analysis),
        f"F1 for {len(MATCHES)} ways to match evidence, with intervals, for {len(analysis.models)} models.",
        x=Axis(field="value", title="F1 (1 = as the coders)", low=0.0, high=1.0),
        y=Axis(field="match", title="Match"),
        data=data,
    )


def _main_table(analysis: EvidenceAnalysis) -> Table:
    find, seeds = analysis.estimates.find, bool(analysis.predictions.ensembles)
    rows: list[tuple[Cell, ...]] = []
    measures = [*((name, "micro") for name in MEASURES), ("f1", "macro")]
    for model in analysis.models:
        for match in MATCHES:
            cells = (interval_cell(find(metric_name(match, *measure), model)) for measure in measures)
            spread = analysis.estimates.value(f"{metric_name(match, 'f1')}_sd", model)
            rows.append((model, MATCH_NAMES[match], *cells, *([spread] if seeds else [])))
        random = [interval_cell(find(metric_name("token", *each), model, group=RANDOM)) for each in measures]
        if random[0][0] is not None:
            rows.append((f"{model}: {RANDOM}", MATCH_NAMES["token"], *random, *([None] if seeds else [])))
    names = [Column(name=name, kind="interval") for name in ("Precision", "Recall", "F1", "F1 by code")]
    spreads = [Column(name="F1: SD over seeds", kind="number")] if seeds else []
    return table(
        "Precision, recall and F1 of evidence",
        _protocol(analysis) + f"Summed over codes, and F1 averaged over codes; with {_intervals(analysis)} "
        f"({analysis.charts.n:,} charts). Averages over codes have none: rare codes do not show how much they vary. "
        f"{RANDOM.capitalize()}: as many words, drawn at random." + _bound(analysis) + _seeds(analysis),
        columns("Model", "Match", *names, *spreads),
        rows,
        collapsed=False,
    )


def _curves(analysis: EvidenceAnalysis) -> list[Chart]:
    """Precision and recall over thresholds; the chosen threshold is a series of its own, so that it stands out."""
    data: list[dict[str, Any]] = []
    chosen: list[dict[str, Any]] = []
    notes = []
    for model, found in analysis.marked.items():
        if not isinstance(found, MarkedEvidence) or found.curve is None:
            continue
        curve = found.curve
        away = abs(curve.threshold - (found.threshold or 0.0))
        near = int(away.argmin())
        step = -(-len(curve.threshold) // _POINTS)
        drawn = {
            k: {"recall": float(curve.recall[k]), "precision": float(p) if p == p else None}
            for k in sorted({*range(0, len(curve.threshold), step), near})
            for p in [curve.precision[k]]
        }
        data += [{"model": model, **at, "text": f"threshold {curve.threshold[k]:g}"} for k, at in drawn.items()]
        # A threshold that was given may lie beyond the steps, which end at 1.
        if away[near] <= curve.threshold[0] and drawn[near]["precision"] is not None:
            where = f"{model}: threshold {found.threshold:g}"
            chosen.append({"model": where, **drawn[near], "text": where})
        notes.append(f"{model}: {found.threshold:g} ({found.threshold_origin}; the curve is for {found.curve_on})")
    if not data:
        return []
    return [
        Chart(
            kind="line",
            title="The score above which a word is evidence",
            caption=_protocol(analysis)
            + "Token precision and recall at each threshold, and the threshold that is used. "
            + "; ".join(notes)
            + ". Precision has no value where no word is above the threshold.",
            description="Precision-recall curves of evidence with the chosen threshold of each model.",
            x=Axis(field="recall", title="Token recall", low=0.0, high=1.0),
            y=Axis(field="precision", title="Token precision", low=0.0, high=1.0),
            series="model",
            data=(*data, *chosen),
        )
    ]


def _strata(analysis: EvidenceAnalysis, *kinds: str) -> list[str]:
    """The groups of estimates that are strata of these kinds, in the order of the rows."""
    groups = dict.fromkeys(row.group for row in analysis.estimates)
    return [group for kind in kinds for group in groups if group.startswith(f"{kind}=")]


def _lengths(analysis: EvidenceAnalysis) -> list[Chart]:
    data: list[dict[str, Any]] = []
    for match, group, model in product(("token", "span"), _strata(analysis, "length"), analysis.models):
        span = analysis.estimates.find("span_recall", model, group=group)
        row = analysis.estimates.find(metric_name(match, "recall"), model, group=group)
        n = None if span is None else span.n_positive
        data += point(row, n=n, length=group.partition("=")[2], match=MATCH_NAMES[match])
    if not data:
        return []
    return [
        forest(
            "By length of the evidence",
            "Recall of gold evidence of one word, two, and more (n: gold spans). Longer evidence is harder to find "
            "exactly. There is no precision by length: a false prediction has no gold length.",
            "Recall of evidence by its length, by token and by exact span, with intervals.",
            x=Axis(field="value", title="Recall", low=0.0, high=1.0),
            y=Axis(field="length", title="Gold evidence"),
            facet="match",
            data=data,
        )
    ]


def _groups(analysis: EvidenceAnalysis) -> list[Table | Chart]:
    data: list[dict[str, Any]] = []
    rows: list[tuple[Cell, ...]] = []
    metrics = [*(metric_name("token", measure) for measure in MEASURES), metric_name("span", "f1")]
    for group, model in product(_strata(analysis, *_DRAWN, "categories", "chapter"), analysis.measured):
        what, _, name = group.partition("=")
        row = analysis.estimates.find(HEADLINE, model, group=group)
        n = row.n_positive if row is not None else None
        if model in analysis.models and what in _DRAWN:
            data += point(row, group=f"{what.capitalize()}: {name}", n=n)
        cells = (interval_cell(analysis.estimates.find(metric, model, group=group)) for metric in metrics)
        rows.append((what.capitalize(), name, model, n, *cells))
    chart = forest(
        "By note category, code system, frequency and annotation",
        "Evidence in notes of a category, for codes of a system, for codes that so many training charts have, and in "
        "charts of a kind of annotation; by chapter of the code in the table below. Where coders "
        "marked all evidence (complete), precision is exact; where they marked what suffices, it is a lower bound.",
        "Token F1 of evidence by group, with intervals.",
        x=Axis(field="value", title="Token F1", low=0.0, high=1.0),
        y=Axis(field="group", title="Group"),
        data=data,
    )
    names = ("Token precision", "Token recall", "Token F1", "Exact span F1")
    numbers = table(
        "Numbers by group",
        "Gold words: words of gold evidence, each with a code.",
        columns("By", "Group", "Model", ("Gold words", "integer"), *((name, "interval") for name in names)),
        rows,
        collapsed=True,
    )
    return [*([chart] if data else []), *([numbers] if rows else [])]


def _by_group(analysis: EvidenceAnalysis) -> list[Table]:
    drops = {"Comprehensiveness": "comprehensiveness_aopc", "Sufficiency": "sufficiency_aopc"}
    more = {"Sensitivity-n": (SENSITIVITY, ALL), **{name: (metric, AREA) for name, metric in drops.items()}}
    groups = [ALL, *_strata(analysis, *_BY)]
    return ranking_by_group(analysis.estimates, analysis.models, groups, more, _protocol(analysis).strip())


def _plane(analysis: EvidenceAnalysis) -> list[Chart]:
    """Plausibility along x, faithfulness along y, each with its interval."""
    data = []
    for model in analysis.models:
        x = analysis.estimates.find(HEADLINE, model)
        y = analysis.estimates.find("comprehensiveness_aopc", model, group=AREA, reference=RANDOM)
        if x is None or y is None or x.value is None or y.value is None:
            continue
        text = f"{model}: token F1 {number(x.value)}, beyond random {number(y.value, signed=True)}"
        ends = {"x_low": x.low, "x_high": x.high, "low": y.low, "high": y.high}
        data.append({"model": model, "plausible": x.value, "faithful": y.value, **ends, "text": text})
    if not data:
        return []
    return [
        Chart(
            kind="scatter",
            title="Plausible and faithful",
            caption="Further right: the model points at what coders point at. Above the line: its probability falls "
            "more without those words than without as many random ones, so its predictions rest on them. Far right "
            "but on the line: it gives good reasons that are not its own. Bars are "
            f"{_intervals(analysis)}.",
            description="Plausibility (token F1) and faithfulness (comprehensiveness beyond random) of each model.",
            x=Axis(field="plausible", title="Plausible: token F1 with the coders", low=0.0, high=1.0),
            y=Axis(field="faithful", title="Faithful: drop beyond random words"),
            series="model",
            reference=0.0,
            data=tuple(data),
        )
    ]


def _drops_chart(analysis: EvidenceAnalysis) -> list[Chart]:
    data: list[dict[str, Any]] = []
    # The models' own lines come first, so that a model has the colour that it has in the other charts.
    for (suffix, name), model in product((("", ""), ("_random", ": random words")), analysis.models):
        found = analysis.faithfulness.get(model)
        for arm, share in product(ARMS, found.fractions if isinstance(found, Faithfulness) else ()):
            if share != MARKED:
                row = analysis.estimates.find(f"{arm}{suffix}", model, group=fraction_name(share))
                data += point(row, model=f"{model}{name}", fraction=float(share), arm=arm.capitalize())
    if not data:
        return []
    return [
        Chart(
            kind="line",
            title="What is left of the prediction without the evidence, and with nothing else",
            caption="Comprehensiveness: how far the probability falls when the strongest words are taken out (high is "
            "faithful). Sufficiency: how far it falls when all others are (near 0 is faithful). For labels that the "
            "model predicts; the random words are as many.",
            description="Mean drop of the probability by share of words, for evidence and for random words.",
            x=Axis(field="fraction", title="Share of the chart's words", percent=True),
            y=Axis(field="value", title="Drop of the probability"),
            series="model",
            facet="arm",
            reference=0.0,
            data=tuple(data),
        )
    ]


def _drops_table(analysis: EvidenceAnalysis) -> list[Table]:
    find = analysis.estimates.find
    rows: list[tuple[Cell, ...]] = []
    for model, found in analysis.faithfulness.items():
        if isinstance(found, str):
            rows.append((model, "–", "–", *[NO_INTERVAL] * 3, None, None, found))
            continue
        for arm in ARMS:
            for metric, group in [*((arm, fraction_name(name)) for name in found.fractions), (f"{arm}_aopc", AREA)]:
                levels = (interval_cell(find(name, model, group=group)) for name in (metric, f"{metric}_random"))
                difference = difference_cells(find(metric, model, group=group, reference=RANDOM))
                rows.append((model, arm.capitalize(), group, *levels, *difference))
    if not rows:
        return []
    return [
        table(
            "Faithfulness in numbers",
            f"Mean drops of the probability, with {_intervals(analysis)}; "
            f"p-values are corrected ({analysis.charts.resampling.correction}). {_who_is_faithful(analysis)}",
            columns("Model", "What", "Words", ("Evidence", "interval"), ("Random words", "interval"), *DIFFERENCE),
            rows,
            collapsed=True,
        )
    ]


def _who_is_faithful(analysis: EvidenceAnalysis) -> str:
    """Which codes words were taken out for, and why for no others."""
    known = {name: analysis.faithfulness.get(name) for name in analysis.models}
    counts = (
        f"{name} predicts {each.n_predicted:,} of {each.n_asked:,} codes in question"
        for name, each in known.items()
        if isinstance(each, Faithfulness)
    )
    said = "; ".join(counts)
    return (
        "Only codes that a model predicts are taken: where it gives a code little probability, little can be lost, and "
        f"its mean would tell how many codes it misses{f' ({said})' if said else ''}."
    )


def _losses(analysis: EvidenceAnalysis) -> Table:
    rows = []
    for model, name in product(analysis.measured, SHARES):
        row = analysis.estimates.find(name, model)
        rows.append((model, _SHARE_NAMES[name], None if row is None else row.n, interval_cell(row)))
    return table(
        "What is missed entirely, and what is entirely false",
        "In a chart without predictions all evidence is missed; for a code without gold evidence all predictions are "
        "false; evidence beyond the window counts as missed.",
        columns("Model", "What", ("Of", "integer"), ("Share", "interval")),
        rows,
        collapsed=False,
    )


def _sources(analysis: EvidenceAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model, found in analysis.marked.items():
        n = analysis.n_copies(model)
        if isinstance(found, str):
            rows.append((model, "none", None, "", n, found))
        else:
            scores = "no scores" if found.scored is None else found.scale
            rows.append((model, way_in_words(found.origin), found.threshold, scores, n, found.threshold_origin))
    return table(
        "Where the evidence comes from",
        "Relative scores are fractions of the strongest word's score for the chart and label. Models are asked about "
        f"{PROTOCOLS[analysis.codes]}. Occlusion takes out {analysis.budget.segments:,} pieces of a chart and then at "
        f"most {analysis.budget.words_per_label:,} single words for each label; a chart of no more words than both "
        "together is taken apart word by word.",
        columns(
            "Model",
            "Evidence",
            ("Threshold", "number"),
            "Scores",
            ("Texts scored", "integer", "copies of charts with words taken out, for occlusion and faithfulness"),
            "Why",
        ),
        rows,
        collapsed=False,
    )


def _differences(analysis: EvidenceAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (model, reference), match, measure in product(analysis.pairs, MATCHES, MEASURES):
        row = analysis.estimates.find(metric_name(match, measure), model, reference=reference)
        name = "F1" if measure == "f1" else measure.capitalize()
        rows.append((f"{model} − {reference}", MATCH_NAMES[match], name, *difference_cells(row)))
    return table(
        "Differences between models",
        f"Paired by {analysis.charts.unit}; intervals and p-values are corrected by metric "
        f"({analysis.charts.resampling.correction}).",
        columns("Models", "Match", "Measure", *DIFFERENCE),
        rows,
        collapsed=True,
    )
