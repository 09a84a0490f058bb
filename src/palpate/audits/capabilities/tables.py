"""The capabilities audit's tables: tests, capabilities, models against each other, pairs, values of slots."""

from __future__ import annotations

import numpy as np

from palpate.audits.capabilities.estimates import value_group
from palpate.audits.capabilities.findings import Story
from palpate.results import Cell, Column, Estimate, Table

Interval = tuple[float | None, float | None, float | None]
_TESTED = (
    Column(name="p, corrected", kind="p_value"),
    Column(name="Significant", kind="flag"),
    Column(name="Why not computed"),
)


def interval(row: Estimate | None, scale: float = 1.0) -> Interval:
    """An estimate for an interval column."""
    if row is None:
        return (None, None, None)
    value, low, high = (None if part is None else scale * part for part in (row.value, row.low, row.high))
    return value, low, high


def _verdict(row: Estimate | None) -> tuple[Cell, ...]:
    return (None, None, "") if row is None else (row.p_value, row.significant, row.reason or "")


def _n(row: Estimate | None) -> int | None:
    return None if row is None else row.n


def _why(row: Estimate | None) -> str:
    return "" if row is None else row.reason or ""


def titled(text: str, part: str) -> str:
    """A block's title; of the further capabilities it says so."""
    return f"Further capabilities: {text[0].lower()}{text[1:]}" if part == "further" else text


def tests_table(story: Story, part: str) -> Table:
    """Every test and label with its baseline."""
    examined = story.examined
    rows: list[tuple[Cell, ...]] = []
    for cell in story.cells(part, pairs=False):
        baseline = story.baselines[bool(cell.positive)]
        n_templates = int((examined.cell_of_template == examined.cells.index(cell)).sum())
        for model in story.models:
            level = story.find("pass_rate", model=model, group=cell.group)
            recall = story.find("recall", model=model, group=baseline.group)
            gap = story.find("pass_rate", model=model, group=cell.group, reference=baseline.group)
            why = next((row.reason for row in (level, gap) if row is not None and row.reason), "")
            tested = _verdict(gap)[:2]
            numbers = (interval(level, 100), interval(recall, 100), interval(gap, 100))
            rows.append((cell.test_said, cell.label, model, *numbers, *tested, n_templates, _n(level), why))
    origins = "; ".join(f"{name}: {origin}" for name, origin in story.threshold_origin.items())
    return Table(
        title=titled("Every test and label", part),
        caption="Percent of right answers, with the held-out recall of the same label and the difference in points. "
        "Intervals of sentences resample base templates and are widened where these are few; tests with fewer than ten "
        f"have no p. p is corrected ({story.correction}). Thresholds: {origins}.",
        columns=(
            Column(name="Test"),
            Column(name="Expected"),
            Column(name="Model"),
            Column(name="Sentences (%)", kind="interval"),
            Column(name="Held-out cases (%)", kind="interval"),
            Column(name="Difference (points)", kind="interval"),
            *_TESTED[:2],
            Column(name="Templates", kind="integer"),
            Column(name="Sentences", kind="integer"),
            _TESTED[2],
        ),
        rows=tuple(rows),
    )


def capability_table(story: Story, part: str) -> Table:
    """Every capability, and tests with both labels."""
    rows: list[tuple[Cell, ...]] = []
    for name, said in story.capabilities(part).items():
        for model in story.models:
            row = story.find("capability_pass_rate", model=model, group=name)
            rows.append((said, "all its tests", model, interval(row, 100), _n(row), _why(row)))
        n_cells = sum(cell.capability == name for cell in story.cells(part))
        for cell, _ in story.tests(part):
            # A capability of one test with two labels is that test.
            if cell.capability == name and n_cells > 2:
                for model in story.models:
                    row = story.find("balanced_pass_rate", model=model, group=cell.family)
                    told = interval(row, 100), _n(row), _why(row)
                    rows.append((said, f"both labels of {cell.test_said}", model, *told))
    return Table(
        title=titled("Capabilities", part),
        caption="Percent of right answers; tests and labels count alike, whatever their number of sentences. Where "
        "both labels are asked for, one answer to everything gets 50.",
        columns=(
            Column(name="Capability"),
            Column(name="Over"),
            Column(name="Model"),
            Column(name="Right answers (%)", kind="interval"),
            Column(name="Sentences", kind="integer"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
    )


def differences_table(story: Story, part: str) -> Table:
    """Each pair of models, on the same templates."""
    rows: list[tuple[Cell, ...]] = []
    groups = [(said, "capability_pass_rate", name) for name, said in story.capabilities(part).items()]
    groups += [(cell.said, "pass_rate", cell.group) for cell in story.cells(part)]
    for model, reference in story.pairs:
        for said, metric, group in groups:
            levels = [story.find(metric, model=name, group=group) for name in (model, reference)]
            row = story.find(metric, model=model, group=group, reference=reference)
            shown = (100 * level.value if level and level.value is not None else None for level in levels)
            rows.append((said, model, reference, *shown, interval(row, 100), *_verdict(row)))
    return Table(
        title=titled("Model against model", part),
        caption="Percent of right answers on the same sentences; differences in points, paired by base template; "
        f"p is corrected ({story.correction}).",
        columns=(
            Column(name="Capability or test"),
            Column(name="Model"),
            Column(name="Against"),
            Column(name="Model (%)", kind="number"),
            Column(name="Other (%)", kind="number"),
            Column(name="Difference (points)", kind="interval"),
            *_TESTED,
        ),
        rows=tuple(rows),
    )


def pairs_table(story: Story, part: str) -> Table:
    """INV and DIR tests, and each of their changes."""
    rows: list[tuple[Cell, ...]] = []
    for cell in story.cells(part, pairs=True):
        test = cell.test
        if test.type == "INV":
            asked = f"moves by at most {100 * (test.tolerance or 0):g} points"
        else:
            asked = f"goes {test.direction}" + (f" by {100 * test.margin:g} points or more" if test.margin else "")
        for model in story.models:
            parts = [story.find(name, model=model, group=cell.group) for name in ("movement", "flip_rate")]
            level = story.find("pass_rate", model=model, group=cell.group)
            numbers = [interval(row, 100) for row in (level, *parts)]
            rows.append((cell.said, "all", asked, model, *numbers, _n(level), _why(level)))
            for change in story.examined.changes:
                row = story.find("change_pass_rate", model=model, group=f"{cell.group} | {change}")
                if row is not None:
                    none = (None, None, None)
                    told = interval(row, 100), none, none, row.n, row.reason or ""
                    rows.append((cell.said, change, asked, model, *told))
    return Table(
        title=titled("Every pair test", part),
        caption="The movement is in points of predicted risk: in the direction that is expected, or in either "
        "direction where none is.",
        columns=(
            Column(name="Test"),
            Column(name="Change"),
            Column(name="Passes if the risk"),
            Column(name="Model"),
            Column(name="Pairs that pass (%)", kind="interval"),
            Column(name="Mean movement (points)", kind="interval"),
            Column(name="Decisions flipped (%)", kind="interval"),
            Column(name="Pairs", kind="integer"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )


def values_table(story: Story, part: str, title: str) -> Table:
    """Every slot in every capability and label: lowest and highest value, and the test that all are alike."""
    rows: list[tuple[Cell, ...]] = []
    for each in story.values:
        if each.scope.part != part:
            continue
        use = story.examined.slots[each.slot]
        for model in story.models:
            row = story.find("value_spread", model=model, group=f"{each.scope.group} | {each.slot}")
            rates = []
            for v in each.values.tolist():
                group = value_group(each.scope.group, each.slot, use.values[v])
                found = story.find("value_pass_rate", model=model, group=group)
                rates.append(np.nan if found is None or found.value is None else 100 * found.value)
            if np.isnan(rates).any():
                continue
            ends = [int(np.argmin(rates)), int(np.argmax(rates))]
            shown = [cell for k in ends for cell in _value(story, each.slot, int(each.values[k]), rates[k])]
            spread = None if row is None or row.value is None else 100 * row.value
            place = (each.scope.said, each.slot.replace("_", " "), model, len(rates), each.n_templates)
            rows.append((*place, *shown, spread, *_verdict(row)))
    return Table(
        title=title,
        caption="Percent of right answers with the value that does worst and the one that does best, how often each "
        "is in the training notes in any case, and in brackets how often written exactly so. p: values "
        f"shuffled within templates, corrected ({story.correction}).",
        columns=(
            Column(name="Capability and label"),
            Column(name="Slot"),
            Column(name="Model"),
            Column(name="Values", kind="integer"),
            Column(name="Templates", kind="integer"),
            Column(name="Worst"),
            Column(name="Worst, training mentions", kind="integer"),
            Column(name="Best"),
            Column(name="Best, training mentions", kind="integer"),
            Column(name="Apart (points)", kind="number"),
            *_TESTED,
        ),
        rows=tuple(rows),
        collapsed=True,
    )


def _value(story: Story, slot: str, value: int, rate: float) -> tuple[str, int | None]:
    """A value with its rate, and how often it is in the training notes."""
    use = story.examined.slots[slot]
    if story.examined.n_training is None:
        return f"{use.values[value]} ({rate:.0f}%)", None
    return f"{use.values[value]} ({rate:.0f}%, {int(use.exact[value]):,} exact)", int(use.mentions[value])
