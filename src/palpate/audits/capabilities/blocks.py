"""What the capabilities audit shows: the paper's Figures 3 to 6, tables of all numbers, and failing sentences.

The further capabilities of a suite are shown apart, after the main ones. The sentences are made from templates and are
about no patient, so they may be shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from palpate.audits.capabilities.examples import failing_sentences
from palpate.audits.capabilities.findings import CapabilitiesAnalysis
from palpate.audits.capabilities.slot_values import ValueRates
from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.tables import (
    NO_INTERVAL,
    TESTED,
    columns,
    difference_cells,
    forest,
    interval_cell,
    point,
    reason_of,
    table,
    tested_cells,
)
from palpate.audits.kit.wording import percent
from palpate.results import Axis, Chart, Column, Examples, Table
from palpate.results.blocks import Cell

MOST_HISTOGRAMS = 8
_ANSWERS = Axis(field="value", title="Right answers", low=0.0, high=1.0, percent=True)
_DIFFERENCE = Column(name="Difference (points)", kind="interval")
_SPREAD = (Column(name="SD over seeds (points)", kind="number"),)


def capabilities_blocks(analysis: CapabilitiesAnalysis) -> tuple[Table | Chart | Examples, ...]:
    """The section's charts and tables; charts with nothing to draw are left out."""
    return tuple(
        _titled(block, part)
        for part in analysis.parts
        for block in _blocks_of_part(analysis, part)
        if not isinstance(block, Chart) or block.data
    )


def _titled(block: Table | Chart | Examples, part: str) -> Table | Chart | Examples:
    """The block; if it is about the further capabilities, its title says so."""
    title = f"Further capabilities: {block.title[0].lower()}{block.title[1:]}"
    return block.model_copy(update={"title": title}) if part == "further" else block


def _blocks_of_part(analysis: CapabilitiesAnalysis, part: str) -> list[Table | Chart | Examples]:
    decided = bool(analysis.examined.tests_of(part, decides=True))
    blocks: list[Table | Chart | Examples] = []
    if decided:
        blocks += [_against_baseline(analysis, part), _tests_table(analysis, part)]
    blocks.append(_capability_table(analysis, part))
    if len(analysis.models) > 1:
        blocks.append(_models_table(analysis, part))
    if analysis.examined.tests_of(part, decides=False):
        blocks += [_pairs_chart(analysis, part), _pairs_table(analysis, part)]
    blocks += _slot_blocks(analysis, analysis.values(part))
    if decided:
        known = [model for model in analysis.models if analysis.measured.answers.decides[model]]
        blocks += [_by_template(analysis, part, model) for model in known[:MOST_HISTOGRAMS]]
    return blocks + failing_sentences(analysis.failures, part)


def _against_baseline(analysis: CapabilitiesAnalysis, part: str) -> Chart:
    """Figure 3."""
    tests, data = analysis.examined.tests_of(part, decides=True), list[dict[str, Any]]()
    # The negative label comes first, as in the paper's figure.
    for label in dict.fromkeys(test.label for test in sorted(tests, key=lambda test: bool(test.positive))):
        baseline = analysis.measured.baselines[label]
        shown = [("Held-out cases", "recall", baseline.group)]
        shown += [(test.test_title, "pass_rate", test.group) for test in tests if test.label == label]
        for title, metric, group in shown:
            for model in analysis.models:
                row = analysis.estimates.find(metric, model, group=group)
                data += point(row, test=title, label=f"Expected: {baseline.label}")
    return Chart(
        kind="bar",
        title="Sentences against held-out cases",
        caption="Share of the sentences of each test to which the model gives the right answer, by the answer that is "
        "right; the first bar is the share of held-out cases with that label that it finds (recall). A model that "
        "gives one answer to everything has 100% in one panel and 0% in the other. "
        f"{analysis.how.level:.0%} intervals, by {analysis.examined.units} for sentences and by patient for "
        "held-out cases." + _seeds(analysis),
        description="Bars of pass rates by test and label, beside the recall on held-out cases.",
        x=_ANSWERS,
        y=Axis(field="test", title="Test"),
        series="model",
        facet="label",
        data=tuple(data),
    )


def _seeds(analysis: CapabilitiesAnalysis) -> str:
    """What a number of several seeds is."""
    return " A model of several seeds has the mean of their rates." if analysis.ensembles else ""


def _tests_table(analysis: CapabilitiesAnalysis, part: str) -> Table:
    """Every test and label with its baseline."""
    find, rows = analysis.estimates.find, list[tuple[Cell, ...]]()
    for test in analysis.examined.tests_of(part, decides=True):
        baseline = analysis.baseline(test)
        n_templates = len(np.unique(analysis.examined.template[test.cases]))
        for model in analysis.models:
            level = find("pass_rate", model, group=test.group)
            recall = find("recall", model, group=baseline)
            gap = find("pass_rate", model, group=test.group, reference=baseline)
            spread = analysis.estimates.value("pass_rate_sd", model, group=test.group)
            seeds = [None if spread is None else 100 * spread][: bool(analysis.ensembles)]
            numbers = (interval_cell(level, 100), *seeds, interval_cell(recall, 100), interval_cell(gap, 100))
            counts, why = (n_templates, level.n if level else None), reason_of(level) or reason_of(gap)
            rows.append((test.test_title, test.label, model, *numbers, *tested_cells(gap)[:2], *counts, why))
    origins = "; ".join(f"{name}: {origin}" for name, origin in analysis.measured.thresholds.origin.items())
    return table(
        "Every test and label",
        "Percent of right answers, with the held-out recall of the same label and the difference in percentage points. "
        f"Intervals for sentences are by {analysis.examined.units}, and wide where there are few. Differences have "
        "intervals "
        f"that hold for all tests of a capability at once, and corrected p ({analysis.how.correction}). "
        f"Thresholds: {origins}.{_seeds(analysis)}",
        columns("Test", "Expected", "Model", ("Sentences (%)", "interval"), *_SPREAD[: bool(analysis.ensembles)])
        + columns(
            ("Held-out cases (%)", "interval"),
            _DIFFERENCE,
            *TESTED[:2],
            ("Templates", "integer"),
            ("Sentences", "integer"),
            TESTED[2],
        ),
        rows,
        collapsed=False,
    )


def _capability_table(analysis: CapabilitiesAnalysis, part: str) -> Table:
    """Every capability, and tests with both labels."""
    groups = []
    for name, tests in analysis.examined.capabilities(part).items():
        title = tests[0].capability_title
        groups.append((title, "all its tests", "capability_pass_rate", name))
        # A capability of one test with two labels is that test.
        if len(tests) > 2:
            groups += [
                (title, f"both labels of {test.test_title}", "balanced_pass_rate", test.test_group)
                for test, _ in analysis.examined.both_labels(part)
                if test.capability == name
            ]
    rows: list[tuple[Cell, ...]] = []
    for title, over, metric, group in groups:
        for model in analysis.models:
            row = analysis.estimates.find(metric, model, group=group)
            rows.append((title, over, model, interval_cell(row, 100), row.n if row else None, reason_of(row)))
    return table(
        "Capabilities",
        "Percent of right answers; tests and labels count alike, whatever their number of sentences. Where both labels "
        "are asked for, one answer to everything gets 50.",
        columns("Capability", "Over", "Model", ("Right answers (%)", "interval"), ("Sentences", "integer"), TESTED[2]),
        rows,
        collapsed=False,
    )


def _models_table(analysis: CapabilitiesAnalysis, part: str) -> Table:
    """Each pair of models, on the same templates."""
    rows: list[tuple[Cell, ...]] = []
    capabilities = analysis.examined.capabilities(part)
    groups = [(tests[0].capability_title, "capability_pass_rate", name) for name, tests in capabilities.items()]
    groups += [(test.title, "pass_rate", test.group) for test in analysis.examined.tests_of(part)]
    for model, reference in pairs_of(analysis.models):
        for title, metric, group in groups:
            levels = (analysis.estimates.value(metric, name, group=group) for name in (model, reference))
            row = analysis.estimates.find(metric, model, group=group, reference=reference)
            percents = (None if level is None else 100 * level for level in levels)
            rows.append((title, model, reference, *percents, *difference_cells(row, 100)))
    return table(
        "Model against model",
        "Percent of right answers on the same sentences; differences in percentage points, paired by "
        f"{analysis.examined.units}; p is corrected ({analysis.how.correction}).",
        columns("Capability or test", "Model", "Against", ("Model (%)", "number"), ("Other (%)", "number"))
        + columns(_DIFFERENCE, *TESTED),
        rows,
        collapsed=False,
    )


def _pairs_chart(analysis: CapabilitiesAnalysis, part: str) -> Chart:
    data = [
        each
        for test in analysis.examined.tests_of(part, decides=False)
        for model in analysis.models
        for each in point(analysis.estimates.find("pass_rate", model, group=test.group), test=test.title)
    ]
    return forest(
        "Pairs of sentences",
        "Share of pairs in which the prediction stays where it was (after a change that should not matter), or moves "
        f"as it should (after a change that matters). {analysis.how.level:.0%} intervals by {analysis.examined.units}.",
        "Pass rates of the tests that compare two sentences.",
        x=Axis(field="value", title="Pairs that pass", low=0.0, high=1.0, percent=True),
        y=Axis(field="test", title="Test"),
        data=data,
    )


def _pairs_table(analysis: CapabilitiesAnalysis, part: str) -> Table:
    """INV and DIR tests, and each of their changes."""
    find, rows = analysis.estimates.find, list[tuple[Cell, ...]]()
    for labelled in analysis.examined.tests_of(part, decides=False):
        test, group = labelled.test, labelled.group
        if test.expect is not None:
            asked = f"satisfies {test.expect.name}"
        elif test.type == "INV":
            asked = f"moves by at most {100 * (test.tolerance or 0):g} points"
        else:
            asked = f"goes {test.direction}" + (f" by {100 * test.margin:g} points or more" if test.margin else "")
        for model in analysis.models:
            found = [find(metric, model, group=group) for metric in ("pass_rate", "movement", "flip_rate")]
            whole = [interval_cell(row, 100) for row in found]
            n = found[0].n if found[0] else None
            rows.append((labelled.title, "all", asked, model, *whole, n, reason_of(found[0])))
            for change in analysis.examined.changes:
                row = find("change_pass_rate", model, group=f"{group} | {change}")
                if row is not None:
                    cells = (interval_cell(row, 100), NO_INTERVAL, NO_INTERVAL, row.n, reason_of(row))
                    rows.append((labelled.title, change, asked, model, *cells))
    return table(
        "Every pair test",
        "The movement is in percentage points of predicted risk: in the expected direction, or in either direction "
        "where none is expected. Its mean has no interval: a few other wordings may move the prediction much further.",
        columns("Test", "Change", "Passes if the risk", "Model", ("Pairs that pass (%)", "interval"))
        + columns(("Mean movement (points)", "interval"), ("Decisions flipped (%)", "interval"))
        + columns(("Pairs", "integer"), TESTED[2]),
        rows,
        collapsed=True,
    )


def _slot_blocks(analysis: CapabilitiesAnalysis, found: Sequence[ValueRates]) -> list[Table | Chart | Examples]:
    """Figure 4, for the slot that most sentences have, and a table for all slots."""
    n_cases: Counter[str] = Counter()
    for each in found:
        n_cases[each.slot] += each.n_cases
    if not n_cases:
        return []
    slot = n_cases.most_common(1)[0][0]
    word = slot.replace("_", " ")
    data = [
        drawn
        for each in found
        if each.slot == slot
        for name, group in zip(each.names, each.value_groups, strict=True)
        for model in analysis.models
        for drawn in point(
            analysis.estimates.find("value_pass_rate", model, group=group),
            value_of_slot=name,
            capability=each.scope.title,
        )
    ]
    chart = forest(
        f"By {word}",
        f"Right answers when nothing but the {word} differs: each stands in the same templates, which count alike; n "
        f"counts templates. {analysis.how.level:.0%} intervals by base template; the table below says whether the "
        "differences are more than chance.",
        f"Pass rates by what fills the slot {word}, for each capability and label.",
        x=_ANSWERS,
        y=Axis(field="value_of_slot", title=word.capitalize()),
        series="capability",
        facet="model" if len(analysis.models) > 1 else None,
        data=data,
    )
    return [chart, _values_table(analysis, found, f"Does the {word} matter? And other slots")]


def _values_table(analysis: CapabilitiesAnalysis, found: Sequence[ValueRates], title: str) -> Table:
    """Every slot in every capability and label: lowest and highest value, and the test that all are alike."""
    rows: list[tuple[Cell, ...]] = []
    for each in found:
        for model in analysis.models:
            row = analysis.estimates.find("value_spread", model, group=each.group)
            if row is None or row.value is None:
                continue
            rates = [analysis.estimates.value("value_pass_rate", model, group=group) for group in each.value_groups]
            values = np.array(rates, dtype=np.float64)
            ends = [cell for k in (values.argmin(), values.argmax()) for cell in _value(analysis, each, k, values[k])]
            place = (each.scope.title, each.slot.replace("_", " "), model, len(values), each.n_templates)
            rows.append((*place, *ends, 100 * row.value, *tested_cells(row)))
    return table(
        title,
        "Percent of right answers with the value that does worst and the one that does best, how often each is in the "
        "training notes in upper or lower case, and in brackets how often exactly as written. p: values are shuffled "
        f"within templates, corrected ({analysis.how.correction}).",
        columns("Capability and label", "Slot", "Model", ("Values", "integer"), ("Templates", "integer"))
        + columns("Worst", ("Worst, training mentions", "integer"), "Best", ("Best, training mentions", "integer"))
        + columns(("Apart (points)", "number"), *TESTED),
        rows,
        collapsed=True,
    )


def _value(analysis: CapabilitiesAnalysis, found: ValueRates, k: Any, rate: float) -> tuple[str, int | None]:
    """A value with its rate, and how often it is in the training notes."""
    if analysis.examined.n_training is None:
        return f"{found.names[k]} ({percent(rate)})", None
    use, v = analysis.examined.slots[found.slot], found.codes[k]
    return f"{found.names[k]} ({percent(rate)}, {int(use.exact[v]):,} exact)", int(use.mentions[v])


def _by_template(analysis: CapabilitiesAnalysis, part: str, model: str) -> Chart:
    """Figures 5 and 6."""
    examined, data = analysis.examined, list[dict[str, Any]]()
    for test in analysis.examined.tests_of(part, decides=True):
        groups = (examined.templates[k] for k in np.unique(examined.template[test.cases]).tolist())
        rates = (analysis.estimates.value("template_pass_rate", model, group=group) for group in groups)
        counts, edges = np.histogram([rate for rate in rates if rate is not None], bins=10, range=(0.0, 1.0))
        data += [
            {"start": start, "end": end, "count": count, "test": test.title}
            for start, end, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
        ]
    return Chart(
        kind="histogram",
        title=f"By template: {model}",
        caption="How many base templates have which share of right answers. Peaks at both ends mean that the wording "
        "decides, and the words in the slots hardly matter.",
        description=f"Histograms of the pass rates of base templates for {model}, one panel per test and label.",
        x=Axis(field="start", title="Right answers of a template", low=0.0, high=1.0, percent=True),
        y=Axis(field="count", title="Templates"),
        facet="test",
        data=tuple(data),
    )
