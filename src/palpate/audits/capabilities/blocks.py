"""What the capabilities audit shows: the paper's Figures 3 to 6, tables of all numbers, and failing sentences.

The further capabilities of a suite are shown apart, behind the main ones. The sentences are made from templates and are
nobody's, so they may be shown.
"""

from __future__ import annotations

import numpy as np

from palpate.audits.capabilities.estimates import value_group
from palpate.audits.capabilities.findings import Story, histogram
from palpate.audits.capabilities.plan import Cell
from palpate.audits.capabilities.tables import (
    capability_table,
    differences_table,
    interval,
    pairs_table,
    tests_table,
    titled,
    values_table,
)
from palpate.audits.capabilities.values import most_told
from palpate.results import Axis, Chart, Examples, Table

MOST_HISTOGRAMS = 8
HELD_OUT = "Held-out cases"
AnyBlock = Table | Chart | Examples


def blocks_of(story: Story) -> tuple[AnyBlock, ...]:
    """The section's charts and tables."""
    blocks: list[AnyBlock] = []
    for part in story.parts:
        if story.cells(part, pairs=False):
            blocks += [_against_baseline(story, part), tests_table(story, part)]
        blocks.append(capability_table(story, part))
        if story.pairs:
            blocks.append(differences_table(story, part))
        if story.cells(part, pairs=True):
            blocks += [_pairs_chart(story, part), pairs_table(story, part)]
        blocks += _values(story, part)
        if story.cells(part, pairs=False):
            blocks += [_by_template(story, part, model) for model in story.models[:MOST_HISTOGRAMS]]
        blocks += _examples(story, part)
    return tuple(blocks)


def _panels(cells: list[Cell]) -> list[bool]:
    """The labels that the cells have, the negative one first, as in the paper's figure."""
    return sorted({bool(cell.positive) for cell in cells})


def _against_baseline(story: Story, part: str) -> Chart:
    """Figure 3."""
    cells = story.cells(part, pairs=False)
    data = []
    for positive in _panels(cells):
        baseline = story.baselines[positive]
        panel = f"Expected: {baseline.label}"
        for name, metric, group in (
            (HELD_OUT, "recall", baseline.group),
            *((cell.test_said, "pass_rate", cell.group) for cell in cells if bool(cell.positive) is positive),
        ):
            for model in story.models:
                row = story.find(metric, model=model, group=group)
                value, low, high = interval(row)
                shown = {"test": name, "model": model, "label": panel, "value": value, "low": low, "high": high}
                data.append({**shown, "n": row.n if row else 0})
    return Chart(
        kind="bar",
        title=titled("Sentences against held-out cases", part),
        caption="Share of the sentences of each test to which the model gives the right answer, by the answer that is "
        "right; the first bar is the share of held-out cases with that label (recall). A model that gives one answer "
        f"to everything is perfect in one panel and has nothing in the other. {story.level:.0%} intervals, by base "
        "template for sentences and by patient for held-out cases.",
        description="Bars of pass rates by test and label, beside the recall on held-out cases.",
        x=Axis(field="value", title="Right answers", low=0.0, high=1.0, percent=True),
        y=Axis(field="test", title="Test"),
        series="model",
        facet="label",
        data=tuple(data),
    )


def _pairs_chart(story: Story, part: str) -> Chart:
    data = []
    for cell in story.cells(part, pairs=True):
        for model in story.models:
            row = story.find("pass_rate", model=model, group=cell.group)
            value, low, high = interval(row)
            shown = {"test": cell.said, "model": model, "value": value, "low": low, "high": high}
            data.append({**shown, "n": row.n if row else 0})
    return Chart(
        kind="forest",
        title=titled("Pairs of sentences", part),
        caption="Share of pairs in which the prediction stays where it was (a change that means nothing), or goes "
        f"where it should (a change that decides). {story.level:.0%} intervals by base template.",
        description="Pass rates of the tests that compare two sentences.",
        x=Axis(field="value", title="Pairs that pass", low=0.0, high=1.0, percent=True),
        y=Axis(field="test", title="Test"),
        series="model",
        data=tuple(data),
    )


def _values(story: Story, part: str) -> list[AnyBlock]:
    """Figure 4, for the slot that most sentences have, and a table for all slots."""
    found = [each for each in story.values if each.scope.part == part]
    slot = most_told(found)
    if slot is None:
        return []
    use = story.examined.slots[slot]
    data = []
    for each in found:
        for v in each.values.tolist() if each.slot == slot else ():
            for model in story.models:
                row = story.find(
                    "value_pass_rate", model=model, group=value_group(each.scope.group, slot, use.values[v])
                )
                value, low, high = interval(row)
                shown = {"value_of_slot": use.values[v], "model": model, "capability": each.scope.said}
                data.append({**shown, "value": value, "low": low, "high": high, "n": row.n if row else 0})
    word = slot.replace("_", " ")
    chart = Chart(
        kind="forest",
        title=titled(f"By {word}", part),
        caption=f"Right answers when nothing but the {word} differs: each stands in the same templates, which count "
        f"alike; n counts templates. {story.level:.0%} intervals by base template; whether the differences are more "
        "than chance is in the table below.",
        description=f"Pass rates by what fills the slot {word}, for each capability and label.",
        x=Axis(field="value", title="Right answers", low=0.0, high=1.0, percent=True),
        y=Axis(field="value_of_slot", title=word.capitalize()),
        series="capability",
        facet="model" if len(story.models) > 1 else None,
        data=tuple(data),
    )
    return [chart, values_table(story, part, titled(f"Does the {word} matter? And other slots", part))]


def _by_template(story: Story, part: str, model: str) -> Chart:
    """Figures 5 and 6."""
    examined = story.examined
    n = np.bincount(examined.template, minlength=len(examined.templates))
    sums = np.bincount(examined.template, weights=story.passed[story.models.index(model)], minlength=len(n))
    rates = sums / np.maximum(n, 1)
    data = []
    for k, cell in enumerate(examined.cells):
        if cell.part != part or cell.test.type != "MFT":
            continue
        mine = rates[(examined.cell_of_template == k) & (n > 0)]
        data += [
            {"start": start, "end": end, "count": count, "test": cell.said} for start, end, count in histogram(mine)
        ]
    return Chart(
        kind="histogram",
        title=titled(f"By template: {model}", part),
        caption="How many base templates have which share of right answers. Two heaps at the ends mean that the "
        "wording decides; the words in the slots hardly matter.",
        description=f"Histograms of the pass rates of base templates for {model}, a panel a test and label.",
        x=Axis(field="start", title="Right answers of a template", low=0.0, high=1.0, percent=True),
        y=Axis(field="count", title="Templates"),
        facet="test",
        data=tuple(data),
    )


def _examples(story: Story, part: str) -> list[AnyBlock]:
    found = [each for each in story.failures if story.examined.cells[each.cell].part == part]
    rows = []
    for each in found:
        cell = story.examined.cells[each.cell]
        if cell.test.type == "MFT":
            expected, given = cell.label, f"{each.p:.0%}"
            text = each.text
        else:
            sign = {"up": "goes up", "down": "goes down"}.get(cell.test.direction or "", "stays")
            change = f" ({each.change})" if each.change else ""
            expected, given = f"{sign}{change}", f"{each.p:.0%} → {each.p_changed or 0:.0%}"
            text = f"{each.text} → {each.changed}"
        rows.append((each.model, cell.said, text, expected, given))
    if not rows:
        return []
    return [
        Examples(
            title=titled("Sentences that fail", part),
            caption="The surest mistakes of each model, test and label, each from another template. They are made from "
            "templates; no patient wrote them.",
            columns=("Model", "Test", "Sentence", "Expected", "Predicted risk"),
            rows=tuple(rows),
        )
    ]
