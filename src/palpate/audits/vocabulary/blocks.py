"""What the vocabulary audit shows: tables and charts, made from its estimates.

Scores are set in percentage points of risk. Each model has its own plot with its own axis, because the scores of two
models can't be compared; their ranks can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palpate.audits.vocabulary.clinicians import CLINICIANS, Panel
from palpate.audits.vocabulary.findings import Story, clinicians_place
from palpate.audits.vocabulary.frequency import frequency_blocks
from palpate.audits.vocabulary.measures import MEASURES
from palpate.cases.edits import Ints
from palpate.results import Axis, Cell, Chart, Column, Estimate, Table

MOST_PLOTS = 8
DISAGREEMENTS = 6
"""In each direction, for each model."""
Interval = tuple[float | None, float | None, float | None]


def blocks_of(story: Story) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    blocks: list[Table | Chart] = [_ranked_words(story, model) for model in story.models[:MOST_PLOTS]]
    if story.panel is not None and story.has_panel:
        blocks += [_rank_against_rank(story, story.panel), _disagreements(story, story.panel)]
    if story.panel is not None or story.pairs:
        blocks.append(_agreement(story))
    if story.pairs:
        blocks.append(_rank_differences(story))
    blocks += frequency_blocks(story)
    if len(story.labels) > 1:
        blocks.append(_label_table(story))
    blocks += [_every_word(story, model) for model in story.models]
    return tuple(blocks)


def cell(row: Estimate | None, scale: float = 1.0) -> Interval:
    """An estimate for an interval column."""
    if row is None:
        return (None, None, None)
    value, low, high = (None if part is None else scale * part for part in (row.value, row.low, row.high))
    return value, low, high


def rank_text(row: Estimate | None) -> str:
    """A rank, or a difference of ranks, with its interval: "3 (1 to 5.5)"; whole numbers without decimals."""
    if row is None or row.value is None:
        return "–"
    ends = "" if row.low is None or row.high is None else f" ({row.low:.4g} to {row.high:.4g})"
    return f"{row.value:g}{ends}".replace("-", "−")


def _by_rank(story: Story, model: str) -> Ints:
    """The words that have a rank, the strongest first."""
    rank = story.rank[model]
    known = np.flatnonzero(~np.isnan(rank))
    return known[np.argsort(rank[known], kind="stable")]


def _ranked_words(story: Story, model: str) -> Chart:
    ordered = _by_rank(story, model)
    chosen = list(ordered[: story.settings.top])
    data = []
    for w in chosen:
        value, low, high = cell(story.find("sensitivity", model=model, group=story.words[w]), 100)
        shown = {"word": story.words[w], "model": model, "value": value, "low": low, "high": high}
        data.append({**shown, "n": int(story.n_notes[w])})
    rest = f" {len(ordered) - len(chosen)} weaker words are in the table below." if len(ordered) > len(chosen) else ""
    first = f" It reacts most to '{story.words[chosen[0]]}'." if chosen else ""
    return Chart(
        kind="forest",
        title=f"Words that move {model}",
        caption="Mean absolute change of the predicted risk when the word is swapped for another, over the notes that "
        f"contain it (n), with {story.settings.level:.0%} bootstrap intervals by patient. Compare words within a "
        f"model, not scores between models.{rest}",
        description=f"Sensitivity of {model} to {len(chosen)} words, strongest first, with intervals.{first}",
        x=Axis(field="value", title="Change of risk (percentage points)", low=0.0),
        y=Axis(field="word", title="Word"),
        series="model",
        data=tuple(data),
    )


def _rank_against_rank(story: Story, panel: Panel) -> Chart:
    data = []
    for model in story.models:
        ranks = story.panel_rank(model)
        for w in map(int, np.flatnonzero(~np.isnan(ranks))):
            place = {"clinicians": float(panel.rank[w]), "rank": float(ranks[w])}
            data.append({"text": story.words[w], "model": model, **place})
    n = int(panel.rated.sum())
    return Chart(
        kind="scatter",
        title="Model against clinicians",
        caption=f"Ranks among the {n} words that were both rated and scored; 1 is the most important. A word below the "
        "diagonal moves the model more than clinicians think it should; a word above it, less.",
        description="Each word's rank by the model's sensitivity against its rank by the clinicians' mean rating.",
        x=Axis(field="clinicians", title="Clinicians' rank (1 = most important)"),
        y=Axis(field="rank", title="Model's rank (1 = moves it most)"),
        series="model",
        facet="model" if len(story.models) > 1 else None,
        diagonal=True,
        data=tuple(data),
    )


def _disagreements(story: Story, panel: Panel) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in story.models:
        ranks = story.panel_rank(model)
        gap = ranks - panel.rank
        known = np.flatnonzero(~np.isnan(gap))
        order = known[np.argsort(gap[known], kind="stable")]
        # A word that does nothing at all shares the last rank, and is given no weight by anybody.
        more = [w for w in order if gap[w] < 0 and story.sensitivity[model][w] > 0][:DISAGREEMENTS]
        less = [w for w in order[::-1] if gap[w] > 0][:DISAGREEMENTS]
        rows += [_disagreement(story, panel, model, int(w), "model more than clinicians") for w in more]
        rows += [_disagreement(story, panel, model, int(w), "clinicians more than model") for w in less]
    return Table(
        title="Largest disagreements with the clinicians",
        caption="Words that move the model and that clinicians think unimportant may be spurious; words that "
        "clinicians think important and that do not move the model may be overlooked. Ranks are among the words that "
        "both have.",
        columns=(
            Column(name="Model"),
            Column(name="Who gives it more weight"),
            Column(name="Word"),
            Column(name="Model's rank"),
            Column(name="Clinicians' rank"),
            Column(name="Difference", hint="model's rank less the clinicians'"),
            Column(name="Clinicians' place"),
            Column(name="Mean rating", kind="number"),
            Column(name="Change of risk (points)", kind="interval"),
            Column(name="Notes", kind="integer"),
        ),
        rows=tuple(rows),
    )


def _disagreement(story: Story, panel: Panel, model: str, w: int, who: str) -> tuple[Cell, ...]:
    ranks = story.panel_rank(model)
    return (
        model,
        who,
        story.words[w],
        f"{ranks[w]:g}",
        f"{panel.rank[w]:g}",
        f"{ranks[w] - panel.rank[w]:+g}".replace("-", "−"),
        clinicians_place(panel, w),
        float(panel.mean[w]),
        cell(story.find("sensitivity", model=model, group=story.words[w]), 100),
        int(story.n_notes[w]),
    )


def _agreement(story: Story) -> Table:
    found: list[tuple[str, str, str, Estimate | None]] = []
    with_clinicians = "Spearman's rank correlation"
    if story.panel is not None:
        about = {"group": CLINICIANS}
        for model in story.models:
            row = story.find("clinician_agreement", model=model, **about)
            found.append((model, "the clinicians' mean", with_clinicians, row))
        for model, reference in story.pairs:
            row = story.find("clinician_agreement", model=model, reference=reference, **about)
            found.append((f"{model} − {reference}", "the clinicians' mean", "Difference of rank correlations", row))
        for metric, name in (("krippendorff_alpha", "Krippendorff's alpha"), ("kendall_w", "Kendall's W")):
            found.append(("clinicians", "each other", name, story.find(metric, model=CLINICIANS, **about)))
        mean = story.find("rater_agreement", model=CLINICIANS, **about)
        found.append(("one clinician", "the mean of the others", "Spearman, mean over raters", mean))
        for rater in story.panel.raters:
            row = story.find("rater_agreement", model=CLINICIANS, group=rater)
            found.append((rater, "the mean of the others", with_clinicians, row))
    for model, other in story.pairs:
        found.append((model, other, with_clinicians, story.find("model_agreement", model=model, group=other)))
    rows = [
        (who, whom, what, cell(row), row.n, row.p_value, row.significant, row.reason or "")
        for who, whom, what, row in found
        if row is not None
    ]
    return Table(
        title="Who agrees with whom",
        caption="1 is the same order of words, 0 is none in common. The clinicians' agreement with each other is the "
        f"most that can be asked of a model. Intervals resample words; p is corrected ({story.settings.correction}).",
        columns=(
            Column(name="Who"),
            Column(name="With whom"),
            Column(name="Measure"),
            Column(name="Value", kind="interval"),
            Column(name="Words", kind="integer"),
            Column(name="p, corrected", kind="p_value"),
            Column(name="Significant", kind="flag"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
    )


def _rank_differences(story: Story) -> Table:
    found = [
        row
        for row in story.rows
        if row.metric == "rank"
        and row.label == story.overall
        and row.reference in story.models
        and row.value is not None
    ]
    found.sort(key=lambda row: (row.significant is not True, -abs(row.value or 0)))
    rows = []
    for row in found:
        ranks = [story.find("rank", model=name, group=row.group) for name in (row.model, row.reference or "")]
        levels = (rank_text(rank) for rank in ranks)
        verdict = (rank_text(row), row.p_value, row.significant, row.reason or "")
        rows.append((row.group, row.model, row.reference, *levels, *verdict))
    return Table(
        title="Words that two models treat differently",
        caption="Difference of ranks, paired on the same resampled patients; negative: the word moves the first model "
        f"more. p-values are corrected ({story.settings.correction}) over the words and pairs of models.",
        columns=(
            Column(name="Word"),
            Column(name="Model"),
            Column(name="Against"),
            Column(name="Rank"),
            Column(name="Rank of the other"),
            Column(name="Difference"),
            Column(name="p, corrected", kind="p_value"),
            Column(name="Significant", kind="flag"),
            Column(name="Why not computed"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )


def _label_table(story: Story) -> Table:
    rows = []
    for label in (story.overall, *story.labels):
        for model in story.models:
            found = [story.find("rank", model=model, group=word, label=label) for word in story.words]
            ranked = sorted((row for row in found if row is not None and row.value is not None), key=_value)
            agreed = story.find("clinician_agreement", model=model, group=CLINICIANS, label=label)
            rows.append((label, model, ", ".join(row.group for row in ranked[:5]), cell(agreed)))
    return Table(
        title="Every label",
        caption=f"The five words that move each model most, and its rank correlation with the clinicians. "
        f"'{story.overall}' is the mean over {story.n_labels} labels.",
        columns=(
            Column(name="Label"),
            Column(name="Model"),
            Column(name="Strongest words"),
            Column(name="Agreement with clinicians", kind="interval"),
        ),
        rows=tuple(rows),
        collapsed=True,
    )


def _value(row: Estimate) -> float:
    return row.value or 0.0


_WORD_COLUMNS = (
    Column(name="Word"),
    Column(name="Rank"),
    Column(name="Change of risk (points)", kind="interval"),
    Column(name="Signed change (points)", kind="interval", hint="positive: the risk rises once the word is replaced"),
    Column(name="Decisions flipped", kind="interval", hint="percent of swaps, averaged over notes"),
    Column(name="Notes with a flip", kind="interval", hint="percent of notes in which some swap turns the decision"),
)
_COUNT_COLUMNS = (
    Column(name="Notes scored", kind="integer"),
    Column(name="Notes with the word", kind="integer"),
    Column(name="Patients", kind="integer"),
    Column(name="Occurrences", kind="integer"),
    Column(name="Outside the window", kind="percent"),
    Column(name="Why not computed"),
)


def _every_word(story: Story, model: str) -> Table:
    ordered = [int(w) for w in _by_rank(story, model)]
    rest = sorted({*range(len(story.words))} - {*ordered})
    families = tuple(Column(name=f"{name} (points)", kind="interval") for name in story.families)
    origin = story.threshold_origin.get(model)
    flips = f" The threshold for decisions: {origin}." if origin else ""
    return Table(
        title=f"Every word: {model}",
        caption="Changes of risk in percentage points, flips in percent, overall and with the substitutes of one "
        f"filter only. What lies outside the window counts as no change.{flips}",
        columns=(*_WORD_COLUMNS, *families, *_COUNT_COLUMNS),
        rows=tuple(_word_row(story, model, w) for w in (*ordered, *rest)),
        collapsed=True,
    )


def _word_row(story: Story, model: str, w: int) -> tuple[Cell, ...]:
    word = story.words[w]
    names: Sequence[str] = (*MEASURES, *(f"{MEASURES[0]}_{family}" for family in story.families))
    found = [story.find(name, model=model, group=word) for name in names]
    outside = story.find("outside_window", model=model, group=word)
    reasons = (row.reason for row in found if row is not None and row.reason)
    return (
        word,
        rank_text(story.find("rank", model=model, group=word)),
        *(cell(row, 100) for row in found),
        int(story.n_notes[w]),
        int(story.n_available[w]),
        int(story.n_patients[w]),
        int(story.n_occurrences[w]),
        outside.value if outside else None,
        next(reasons, ""),
    )
