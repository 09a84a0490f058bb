"""The vocabulary audit's tables and charts, made from its estimates.

Scores are set in percentage points of risk. Each model has its own plot with its own axis, because the scores of two
models can't be compared; their ranks can.
"""

from __future__ import annotations

import math

import numpy as np

from palpate.audits.kit.rows import pairs_of
from palpate.audits.kit.tables import TESTED, columns, forest, interval_cell, point, reason_of, table, tested_cells
from palpate.audits.vocabulary.answers import VocabularyAnalysis
from palpate.audits.vocabulary.clinicians import CLINICIANS, ClinicianPanel
from palpate.audits.vocabulary.estimates import REMOVAL
from palpate.audits.vocabulary.findings import clinicians_place
from palpate.audits.vocabulary.intervals import FEWEST_PATIENTS
from palpate.audits.vocabulary.measures import MEASURES
from palpate.cases.edits import Ints
from palpate.results import Axis, Cell, Chart, Estimate, Table

MOST_PLOTS = 8
DISAGREEMENTS = 6
"""In each direction, for each model."""
_STRONGEST = 5
_POINTS = 100
"""From probabilities to percentage points."""


def vocabulary_blocks(analysis: VocabularyAnalysis) -> tuple[Table | Chart, ...]:
    """The section's tables and charts."""
    models, panel = analysis.models, analysis.rated_panel
    blocks: list[Table | Chart] = [_ranked_words(analysis, model) for model in models[:MOST_PLOTS]]
    blocks += [] if panel is None else [_rank_against_rank(analysis, panel), _disagreements(analysis, panel)]
    blocks += [_unwanted_words(analysis)] if len(analysis.unwanted) else []
    blocks += [_agreement(analysis)] if analysis.panel is not None or len(models) > 1 else []
    blocks += [_rank_differences(analysis)] if len(models) > 1 else []
    if (analysis.n_notes > 0).sum() > 1:
        blocks += [_rank_and_frequency(analysis), _frequency_correlations(analysis)]
    blocks += [_label_table(analysis)] if len(analysis.labels) > 1 else []
    return (*blocks, *(_every_word(analysis, model) for model in models))


def rank_text(row: Estimate | None) -> str:
    """A rank, or a difference of ranks, with its interval: "3 (1 to 5.5)"; whole numbers without decimals."""
    if row is None or row.value is None:
        return "–"
    ends = "" if row.low is None or row.high is None else f" ({row.low:.4g} to {row.high:.4g})"
    return f"{row.value:g}{ends}".replace("-", "−")


def _by_rank(analysis: VocabularyAnalysis, model: str) -> Ints:
    """The words that have a rank, the strongest first."""
    rank = analysis.rank[model]
    known = np.flatnonzero(~np.isnan(rank))
    return known[np.argsort(rank[known], kind="stable")]


def _sensitivity(analysis: VocabularyAnalysis, model: str, w: int) -> Estimate | None:
    return analysis.estimates.find("sensitivity", model, group=analysis.words[w])


def _ranked_words(analysis: VocabularyAnalysis, model: str) -> Chart:
    ordered = _by_rank(analysis, model).tolist()
    chosen = ordered[: analysis.top]
    rest = f" {len(ordered) - len(chosen)} weaker words are in the table below." if len(ordered) > len(chosen) else ""
    first = f" It reacts most to '{analysis.words[chosen[0]]}'." if chosen else ""
    return forest(
        f"Words that move {model}",
        "Mean absolute change of the predicted risk when the word is swapped for another, over the notes that "
        f"contain it (n), with {analysis.level:.0%} intervals by patient; none for words of fewer than "
        f"{FEWEST_PATIENTS} patients. Compare words within a model, not scores between models.{rest}",
        f"Sensitivity of {model} to {len(chosen)} words, strongest first, with intervals.{first}",
        x=Axis(field="value", title="Change of risk (percentage points)", low=0.0),
        y=Axis(field="word", title="Word"),
        data=[
            each for w in chosen for each in point(_sensitivity(analysis, model, w), _POINTS, word=analysis.words[w])
        ],
    )


def _rank_against_rank(analysis: VocabularyAnalysis, panel: ClinicianPanel) -> Chart:
    data = [
        {"text": analysis.words[w], "model": model, "clinicians": float(panel.rank[w]), "rank": float(ranks[w])}
        for model in analysis.models
        for ranks in (analysis.panel_rank(model),)
        for w in np.flatnonzero(~np.isnan(ranks)).tolist()
    ]
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
        facet="model" if len(analysis.models) > 1 else None,
        diagonal=True,
        data=tuple(data),
    )


def _disagreements(analysis: VocabularyAnalysis, panel: ClinicianPanel) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in analysis.models:
        ranks = analysis.panel_rank(model)
        gap = ranks - panel.rank
        known = np.flatnonzero(~np.isnan(gap))
        order = known[np.argsort(gap[known], kind="stable")].tolist()
        # A word that does nothing at all shares the last rank, and is given no weight by anybody.
        more = [w for w in order if gap[w] < 0 and analysis.sensitivity[model][w] > 0][:DISAGREEMENTS]
        less = [w for w in order[::-1] if gap[w] > 0][:DISAGREEMENTS]
        weights = (
            (w, "model more than clinicians" if w in more else "clinicians more than model") for w in more + less
        )
        for w, who in weights:
            places = (
                f"{ranks[w]:g}",
                f"{panel.rank[w]:g}",
                f"{gap[w]:+g}".replace("-", "−"),
                clinicians_place(panel, w),
            )
            change = interval_cell(_sensitivity(analysis, model, w), _POINTS)
            rows.append(
                (model, who, analysis.words[w], *places, float(panel.mean[w]), change, int(analysis.n_notes[w]))
            )
    return table(
        "Largest disagreements with the clinicians",
        "Words that move the model and that clinicians think unimportant may be spurious; words that "
        "clinicians think important and that do not move the model may be overlooked. Ranks are among the words that "
        "were both rated and scored.",
        columns(
            "Model",
            "Who gives it more weight",
            "Word",
            "Model's rank",
            "Clinicians' rank",
            ("Difference", "text", "model's rank less the clinicians'"),
            "Clinicians' place",
            ("Mean rating", "number"),
            ("Change of risk (points)", "interval"),
            ("Notes", "integer"),
        ),
        rows,
        collapsed=False,
    )


def _unwanted_words(analysis: VocabularyAnalysis) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for model in analysis.models:
        found = [(analysis.estimates.find(REMOVAL, model, group=analysis.words[w]), w) for w in analysis.unwanted]
        found.sort(key=lambda each: -((each[0] and each[0].value) or 0.0))
        for row, w in found:
            swapped = interval_cell(_sensitivity(analysis, model, int(w)), _POINTS)
            n, why = (0, "") if row is None else (row.n, reason_of(row))
            rows.append((model, analysis.words[w], interval_cell(row, _POINTS), swapped, n, why))
    return table(
        "Words that no clinician would use",
        "The verdict rests on what happens when the word is taken out of the notes that contain it, wherever it "
        "stands. A swap puts another word in its place, which may move the risk by itself: a word that changes little "
        "when it is taken out and much when it is swapped is not what the model reads. Mean absolute changes of risk, "
        f"with {analysis.level:.0%} intervals by patient for each word; the verdict's hold for all words at once.",
        columns(
            "Model",
            "Word",
            ("Taken out (points)", "interval"),
            ("Swapped (points)", "interval"),
            ("Notes", "integer"),
            "Why not computed",
        ),
        rows,
        collapsed=True,
    )


def _agreement(analysis: VocabularyAnalysis) -> Table:
    find, models = analysis.estimates.find, analysis.models
    spearman, mean, others = "Spearman's rank correlation", "the clinicians' mean", "the mean of the others"
    found: list[tuple[str, str, str, Estimate | None]] = []
    if analysis.panel is not None:
        found += [(model, mean, spearman, find("clinician_agreement", model)) for model in models]
        for model, reference in pairs_of(models):
            row = find("clinician_agreement", model, reference=reference)
            found.append((f"{model} − {reference}", mean, "Difference of rank correlations", row))
        for metric, name in (("krippendorff_alpha", "Krippendorff's alpha"), ("kendall_w", "Kendall's W")):
            found.append((CLINICIANS, "each other", name, find(metric, CLINICIANS)))
        found.append(("one clinician", others, "Spearman, mean over raters", find("rater_agreement", CLINICIANS)))
        for model in models:
            found.append((model, others, "Spearman, in the place of each rater", find("rater_agreement", model)))
            gap = find("rater_agreement", model, reference=CLINICIANS)
            found.append((f"{model} − one clinician", others, "Difference of rank correlations", gap))
        for rater in analysis.panel.raters:
            found.append((rater, others, spearman, find("rater_agreement", CLINICIANS, group=rater)))
    for model, other in pairs_of(models):
        found.append((model, other, spearman, find("model_agreement", model, group=other)))
    return table(
        "Who agrees with whom",
        "1 is the same order of words, 0 is no relation. The clinicians' agreement with each other is the "
        "most that can be asked of a model, so each model takes the place of each clinician in turn and is compared "
        f"with the others, on the words of at least {FEWEST_PATIENTS} patients. Intervals resample words; differences "
        f"are corrected ({analysis.correction}).",
        columns("Who", "With whom", "Measure", ("Value", "interval"), ("Words", "integer"), *TESTED),
        [(*about, interval_cell(row), row.n, *tested_cells(row)) for *about, row in found if row is not None],
        collapsed=False,
    )


def _rank_differences(analysis: VocabularyAnalysis) -> Table:
    found = [
        row
        for model, reference in pairs_of(analysis.models)
        for word in analysis.words
        if (row := analysis.estimates.find("rank", model, group=word, reference=reference)) and row.value is not None
    ]
    found.sort(key=lambda row: -abs(row.value or 0))
    rows = []
    for row in found:
        names = (row.model, row.reference or "")
        levels = (rank_text(analysis.estimates.find("rank", name, group=row.group)) for name in names)
        rows.append((row.group, *names, *levels, rank_text(row), *tested_cells(row)))
    return table(
        "Words that two models treat differently",
        "Difference of ranks, the largest first; negative: the word moves the first model more. Intervals and "
        f"p-values are corrected ({analysis.correction}) over the words and pairs of models.",
        columns("Word", "Model", "Against", "Rank", "Rank of the other", "Difference", *TESTED),
        rows,
        collapsed=True,
    )


def _rank_and_frequency(analysis: VocabularyAnalysis) -> Chart:
    n_occurrences, ranked = analysis.swaps.n_occurrences, analysis.schemes.rank
    data = [
        {
            "text": analysis.words[w],
            "frequency": math.log10(int(n_occurrences[w])),
            "rank": float(ranks[w]),
            "panel": f"{model} · {scheme}",
            "model": model,
        }
        for (model, scheme), ranks in ranked.items()
        for w in np.flatnonzero(~np.isnan(ranks) & (n_occurrences > 0)).tolist()
    ]
    return Chart(
        kind="scatter",
        title="Rank and frequency",
        caption=f"Each word's rank against how often it occurs, when the {' or the '.join(analysis.schemes.names)} of "
        "it in a note is swapped. Points that fall to the right say that frequent words rank higher, perhaps only "
        "because they are frequent.",
        description="Sensitivity rank of each word against the logarithm of its number of occurrences.",
        x=Axis(field="frequency", title="Occurrences (log10)"),
        y=Axis(field="rank", title="Rank (1 = moves the model most)"),
        series="model",
        facet="panel" if len(ranked) > 1 else None,
        data=tuple(data),
    )


def _frequency_correlations(analysis: VocabularyAnalysis) -> Table:
    kinds = {"frequency_pearson": "Pearson", "frequency_spearman": "Spearman"}
    rows = []
    for row in analysis.estimates:
        if row.metric in kinds:
            swapped = row.group if row.reference is None else f"{row.group} − {row.reference}"
            rows.append((row.model, swapped, kinds[row.metric], interval_cell(row), row.n, reason_of(row)))
    return table(
        "Correlation of rank and frequency",
        "Negative: frequent words rank higher. Intervals resample words.",
        columns(
            "Model", "What is swapped", "Correlation", ("Value", "interval"), ("Words", "integer"), "Why not computed"
        ),
        rows,
        collapsed=False,
    )


def _label_table(analysis: VocabularyAnalysis) -> Table:
    value, find = analysis.estimates.value, analysis.estimates.find
    rows = []
    for label in (analysis.estimates.label, *analysis.labels):
        for model in analysis.models:
            ranks = ((word, value("rank", model, group=word, label=label)) for word in analysis.words)
            known = {word: rank for word, rank in ranks if rank is not None}
            strongest = sorted(known, key=known.__getitem__)[:_STRONGEST]
            agreement = find("clinician_agreement", model, label=label)
            rows.append((label, model, ", ".join(strongest), interval_cell(agreement)))
    return table(
        "Every label",
        "The five words that move each model most, and its rank correlation with the clinicians. "
        f"'{analysis.estimates.label}' is the mean over {len(analysis.effects.labels)} labels.",
        columns("Label", "Model", "Strongest words", ("Agreement with clinicians", "interval")),
        rows,
        collapsed=True,
    )


def _every_word(analysis: VocabularyAnalysis, model: str) -> Table:
    ordered = _by_rank(analysis, model).tolist()
    rest = sorted({*range(len(analysis.words))} - {*ordered})
    origin = analysis.effects.thresholds.origin.get(model)
    flips = f" The threshold for decisions: {origin}." if origin else ""
    return table(
        f"Every word: {model}",
        "Changes of risk in percentage points, flips in percent, overall and with the substitutes of one "
        f"filter only. Swaps outside the window count as no change.{flips}",
        columns(
            "Word",
            "Rank",
            ("Change of risk (points)", "interval"),
            ("Signed change (points)", "interval", "positive: the risk rises once the word is replaced"),
            ("Decisions flipped", "interval", "percent of swaps, averaged over notes"),
            ("Notes with a flip", "interval", "percent of notes in which some swap flips the decision"),
            *((f"{name} (points)", "interval") for name in analysis.swaps.filters),
            ("Notes scored", "integer"),
            ("Notes with the word", "integer"),
            ("Patients", "integer"),
            ("Occurrences", "integer"),
            ("Outside the window", "percent"),
            "Why not computed",
        ),
        [_word_row(analysis, model, w) for w in (*ordered, *rest)],
        collapsed=True,
    )


def _word_row(analysis: VocabularyAnalysis, model: str, w: int) -> tuple[Cell, ...]:
    find, word = analysis.estimates.find, analysis.words[w]
    measures = (*MEASURES, *(f"{MEASURES[0]}_{name}" for name in analysis.swaps.filters))
    found = [find(measure, model, group=word) for measure in measures]
    return (
        word,
        rank_text(find("rank", model, group=word)),
        *(interval_cell(row, _POINTS) for row in found),
        int(analysis.n_notes[w]),
        int(analysis.swaps.n_notes[w]),
        int(analysis.effects.layout.n_patients_of[w]),
        int(analysis.swaps.n_occurrences[w]),
        analysis.estimates.value("outside_window", model, group=word),
        next(filter(None, map(reason_of, found)), ""),
    )
