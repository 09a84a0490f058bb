"""What the evidence audit shows of faithfulness: the plane of both qualities, and what is left without the evidence."""

from __future__ import annotations

import itertools
from typing import Any

from palpate.audits.evidence.estimates import AREA, fraction_name
from palpate.audits.evidence.faithfulness import ARMS, MARKED, Faithful
from palpate.audits.evidence.findings import HEADLINE, Story, number
from palpate.audits.evidence.measures import RANDOM
from palpate.results import Axis, Chart, Column, Estimate, Table

Interval = tuple[float | None, float | None, float | None]


def faithful_blocks(story: Story) -> list[Table | Chart]:
    """The plane, the curves and their numbers; nothing where nothing was taken out."""
    return [*_plane(story), *_removal(story)]


def cell(row: Estimate | None) -> Interval:
    """An estimate as a cell of an interval column."""
    return (None, None, None) if row is None else (row.value, row.low, row.high)


def point_of(row: Estimate | None, **more: Any) -> list[dict[str, Any]]:
    """An estimate as chart data; what can't be computed stays in the table and is not drawn."""
    if row is None or row.value is None:
        return []
    return [{"model": row.model, "value": row.value, "low": row.low, "high": row.high, **more}]


def _plane(story: Story) -> list[Chart]:
    """Plausibility along x, faithfulness along y, each with its interval."""
    data = []
    for model in story.models:
        x = story.find(HEADLINE, model)
        y = story.find("comprehensiveness_aopc", model, AREA, RANDOM)
        if x is None or y is None or x.value is None or y.value is None:
            continue
        data.append(
            {
                "model": model,
                "plausible": x.value,
                "faithful": y.value,
                "x_low": x.low,
                "x_high": x.high,
                "low": y.low,
                "high": y.high,
                "text": f"{model}: token F1 {number(x.value)}, beyond random {number(y.value, signed=True)}",
            }
        )
    if not data:
        return []
    return [
        Chart(
            kind="scatter",
            title="Plausible and faithful",
            caption="To the right: it points at what coders point at. Above the line: its probability falls more "
            "without those words than without as many random ones, so its answers rest on them. At the right and on "
            "the line, a model gives good reasons that are not its own. Bars are intervals by chart.",
            description="Plausibility (token F1) and faithfulness (comprehensiveness beyond random) of each model.",
            x=Axis(field="plausible", title="Plausible: token F1 with the coders", low=0.0, high=1.0),
            y=Axis(field="faithful", title="Faithful: drop beyond random words"),
            series="model",
            reference=0.0,
            data=tuple(data),
        )
    ]


def _removal(story: Story) -> list[Table | Chart]:
    rows: list[tuple[Any, ...]] = []
    for model, found in story.faithful.items():
        if isinstance(found, str):
            rows.append((model, "–", "–", *[(None, None, None)] * 3, None, None, found))
            continue
        for arm in ARMS:
            rows += [_removal_row(story, model, arm, arm, fraction_name(name)) for name in found.fractions]
            rows.append(_removal_row(story, model, arm, f"{arm}_aopc", AREA))
    if not rows:
        return []
    table = Table(
        title="Faithfulness in numbers",
        caption=f"Mean drops of the probability, with intervals by chart; p corrected ({story.correction}).",
        columns=(
            Column(name="Model"),
            Column(name="What"),
            Column(name="Words"),
            Column(name="Evidence", kind="interval"),
            Column(name="Random words", kind="interval"),
            Column(name="Difference", kind="interval"),
            Column(name="p, corrected", kind="p_value"),
            Column(name="Significant", kind="flag"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )
    return [*_removal_chart(story), table]


def _removal_chart(story: Story) -> list[Chart]:
    data: list[dict[str, Any]] = []
    # The models' own lines come first, so that a model has the colour that it has in the other charts.
    for suffix, name in (("", ""), ("_random", ": random words")):
        for model in story.models:
            found = story.faithful.get(model)
            for arm, share in itertools.product(ARMS, found.fractions if isinstance(found, Faithful) else ()):
                if share != MARKED:
                    row = story.find(f"{arm}{suffix}", model, fraction_name(share))
                    points = point_of(row, fraction=float(share), arm=arm.capitalize())
                    data += [{**point, "model": f"{model}{name}"} for point in points]
    if not data:
        return []
    return [
        Chart(
            kind="line",
            title="What is left of the answer without the evidence, and with nothing else",
            caption="Comprehensiveness: how far the probability falls when the strongest words are taken out (high is "
            "faithful). Sufficiency: how far it falls when all others are (near 0 is faithful). Labels that the model "
            "predicts; random words are as many.",
            description="Mean drop of the probability over the share of words, for evidence and for random words.",
            x=Axis(field="fraction", title="Share of the chart's words", percent=True),
            y=Axis(field="value", title="Drop of the probability"),
            series="model",
            facet="arm",
            reference=0.0,
            data=tuple(data),
        )
    ]


def _removal_row(story: Story, model: str, arm: str, metric: str, group: str) -> tuple[Any, ...]:
    level, random = story.find(metric, model, group), story.find(f"{metric}_random", model, group)
    both = story.find(metric, model, group, RANDOM)
    tested = (both.p_value, both.significant, both.reason or "") if both is not None else (None, None, "")
    return (model, arm.capitalize(), group, cell(level), cell(random), cell(both), *tested)
