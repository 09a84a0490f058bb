"""Whether rank is only frequency: rank against occurrences both ways of swapping (paper, Figures 1 and 2)."""

from __future__ import annotations

import math

import numpy as np

from palpate.audits.vocabulary.findings import Story
from palpate.results import Axis, Cell, Chart, Column, Estimate, Table


def frequency_blocks(story: Story) -> list[Table | Chart]:
    """The scatter plots and the correlations; nothing where too few words have a score."""
    return [_scatter(story), _correlations(story)] if story.n_ranked > 1 else []


def _scatter(story: Story) -> Chart:
    data = [
        {
            "text": story.words[w],
            "frequency": math.log10(int(story.n_occurrences[w])),
            "rank": float(ranks[w]),
            "panel": f"{model} · {scheme}",
            "model": model,
        }
        for (model, scheme), ranks in story.scheme_rank.items()
        for w in map(int, np.flatnonzero(~np.isnan(ranks)))
        if story.n_occurrences[w] > 0
    ]
    schemes = list(dict.fromkeys(scheme for _, scheme in story.scheme_rank))
    return Chart(
        kind="scatter",
        title="Rank and frequency",
        caption=f"Each word's rank against how often it occurs, when the {' or the '.join(schemes)} of it in a note is "
        "swapped. Points that fall to the right say that frequent words rank higher, perhaps only for being frequent.",
        description="Sensitivity rank of each word against the logarithm of its number of occurrences.",
        x=Axis(field="frequency", title="Occurrences (log10)"),
        y=Axis(field="rank", title="Rank (1 = moves the model most)"),
        series="model",
        facet="panel" if len(story.scheme_rank) > 1 else None,
        data=tuple(data),
    )


def _correlations(story: Story) -> Table:
    rows: list[tuple[Cell, ...]] = []
    own, other = story.settings.schemes
    for model in story.models:
        for metric, name in (("frequency_pearson", "Pearson"), ("frequency_spearman", "Spearman")):
            for group, reference, what in ((own, None, own), (other, None, other), (other, own, f"{other} − {own}")):
                row = story.find(metric, model=model, group=group, reference=reference)
                if row is not None:
                    rows.append((model, what, name, *_cells(row)))
    return Table(
        title="Correlation of rank and frequency",
        caption="Negative: frequent words rank higher. Intervals resample words.",
        columns=(
            Column(name="Model"),
            Column(name="What is swapped"),
            Column(name="Correlation"),
            Column(name="Value", kind="interval"),
            Column(name="Words", kind="integer"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
    )


def _cells(row: Estimate) -> tuple[Cell, ...]:
    return (row.value, row.low, row.high), row.n, row.reason or ""
