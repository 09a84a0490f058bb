"""What `palpate codes statistics` counts: Tables 3 to 6 of the evidence paper, and MDACE's published predictions.

MIMIC-III is needed for two of them: NOTEEVENTS for the length of spans, and the tables of billed codes for Table 5.
What the folder has is used, and what it does not have is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from palpate.data.annotations import SYSTEMS, AnnotatedChart, mdace
from palpate.data.annotations.mdace_notes import with_notes
from palpate.data.annotations.mdace_predictions import compare_published
from palpate.data.annotations.mdace_statistics import by_category, by_mapping, compare_codes, summarise
from palpate.data.cohorts.mdace_sources import missing_billed, read_billed
from palpate.data.hospitals import has_table
from palpate.data.hospitals.mimic import NOTEEVENTS
from palpate.errors import CohortError

PREDICTIONS = "predictions"
_SCHEMA = {
    **{"table": pl.String(), "setting": pl.String(), "name": pl.String()},
    **{"n": pl.Float64(), "percent": pl.Float64()},
}
_Row = tuple[object, ...]


class ChartTables(NamedTuple):
    """One row per number: `table`, `setting`, `name`, `n`, `percent`; and what could not be counted, as sentences."""

    rows: pl.DataFrame
    missing: tuple[str, ...]


def describe_charts(folder: Path, *, mimic: Path | None = None) -> ChartTables:
    """Tables 3, 4 and 6 for the charts in a folder; with MIMIC-III also Table 5 and the length of spans in words."""
    found = _by_setting(folder)
    missing = _check_mimic(mimic, list(found)) if mimic is not None else []
    notes = mimic if mimic is not None and has_table(mimic, NOTEEVENTS) else None
    rows: list[_Row] = []
    for setting, bare in found.items():
        charts = bare if notes is None else {system: with_notes(some, notes) for system, some in bare.items()}
        rows += [(*row[:1], setting, *row[1:]) for row in _table_3(charts)]
        nine = charts.get("ICD-9", [])
        rows += [("4", setting, *share) for share in by_category(nine or charts["ICD-10"])]
        if mimic is not None and nine and not missing_billed(mimic, setting):
            rows += [("5", setting, *row) for row in _table_5(setting, nine, mimic)]
        rows += [("6", setting, *share) for share in by_mapping(nine)]
    if (folder / mdace.PREDICTIONS).is_dir():
        rows += _published(folder)
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row", strict=False)
    return ChartTables(frame.sort("table", maintain_order=True), tuple(missing))


def _check_mimic(mimic: Path, settings: list[str]) -> list[str]:
    """What the folder lacks; a folder that has nothing of use is refused."""
    if not mimic.is_dir():
        raise CohortError("folder not found", file=mimic, hint="give the folder with MIMIC-III's tables")
    lacking = {setting: missing_billed(mimic, setting) for setting in settings}
    said = [
        f"Table 5 ({setting}) needs {' and '.join(names)} in {mimic}." for setting, names in lacking.items() if names
    ]
    if has_table(mimic, NOTEEVENTS):
        return said
    if len(said) == len(settings):
        hint = "give NOTEEVENTS for the length of spans, or DIAGNOSES_ICD and PROCEDURES_ICD for Table 5"
        raise CohortError("the folder has none of the tables that statistics need", file=mimic, hint=hint)
    return [f"The length of spans needs NOTEEVENTS in {mimic}.", *said]


def _by_setting(folder: Path) -> dict[str, dict[str, list[AnnotatedChart]]]:
    """The charts in a folder by setting and code system."""
    found: dict[str, dict[str, list[AnnotatedChart]]] = {}
    for chart in mdace.read(folder):
        if chart.setting is not None and chart.system is not None:
            found.setdefault(chart.setting, {}).setdefault(chart.system, []).append(chart)
    if not found:
        hint = "statistics are by setting and system, so paths look like Inpatient/ICD-9/1.0/NUMBER-ICD-9.json"
        raise CohortError("no chart is in the folder of a setting", file=folder, hint=hint)
    return found


def _table_3(charts: Mapping[str, list[AnnotatedChart]]) -> Iterator[_Row]:
    """Charts and notes once, codes and spans for each code system."""
    found = {system: summarise(charts[system]) for system in SYSTEMS if system in charts}
    first = next(iter(found.values()))
    yield from (("3", "charts", first.n_charts, None), ("3", "notes", first.n_notes, None))
    yield from (("3", f"{system} codes", one.n_codes, None) for system, one in found.items())
    yield from (("3", f"evidence for {system}", one.n_spans, None) for system, one in found.items())
    if first.mean_words is not None:
        yield "3", "words of evidence, mean", first.mean_words, None


def _table_5(setting: str, charts: list[AnnotatedChart], mimic: Path) -> Iterator[_Row]:
    billed = read_billed(mimic, setting=setting)
    flat = {stay: [code for some in codes.values() for code in some] for stay, codes in billed.items()}
    compared = compare_codes(charts, flat)
    names = ("billed codes", "annotated codes", "in both", "billed only", "added, mean per chart")
    shares = (None, None, *(_percent(n, compared.n_billed) for n in compared[2:4]), None)
    return zip(names, compared, shares, strict=True)


def _published(folder: Path) -> Iterator[_Row]:
    """Spans that a model predicted, those that coders marked exactly so (precision), and coders' own (recall)."""
    for one in compare_published(folder):
        spans, name = one.spans, f"{one.model}, {one.notes}"
        yield PREDICTIONS, one.setting, f"{name}: predicted spans", spans.n_predicted, None
        precision = _percent(spans.n_found, spans.n_predicted)
        yield PREDICTIONS, one.setting, f"{name}: exactly as coders marked", spans.n_found, precision
        recall = _percent(spans.n_found, spans.n_gold)
        yield PREDICTIONS, one.setting, f"{name}: coders' spans there, and the share found", spans.n_gold, recall
        there = f"{name}: those for whose code it points at something in the note"
        yield PREDICTIONS, one.setting, there, spans.n_answered, _percent(spans.n_found, spans.n_answered)


def _percent(n: float | None, of: int) -> float | None:
    return 100 * n / of if n is not None and of else None
