"""What `palpate recalibration` does: the card of a recalibration, for whoever maintains the model.

It has the formula or the steps, who they were fitted on, the numbers before and after with intervals, and the limits.
Counts and estimates only: no case, no patient, no note.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from palpate import __version__
from palpate.errors import ConfigError, RunError, closest
from palpate.files import write_atomically
from palpate.report.cards.small import WITHHELD, SmallCounts
from palpate.results import METRIC_NAMES
from palpate.run.directory import RunDirectory

AUDIT, MAPS, BEFORE = "recalibration", "maps", "as it is"
_SHOWN = (
    "calibration_intercept",
    "calibration_slope",
    "oe_ratio",
    "ici",
    "brier",
    "auroc",
    "net_benefit",
    "mean_net_benefit",
)
LIMITS = (
    "The map was fitted on one validation split and tested on one held-out split: elsewhere or later it may not hold.",
    "Intervals allow for other patients to be tested on, not for other patients to be fitted on.",
    "A shift or a stretch keeps the order of patients; steps make ties, and can change AUROC.",
    "Thresholds that were set on the old risks mean something else on the new ones: set them again.",
    "It mends calibration only. It does not make a model separate patients better, nor treat groups alike.",
)


def write_card(run: Path, file: Path, *, models: Sequence[str] = ()) -> int:
    """Write the card as Markdown or JSON, by the file's ending; gives how many recalibrations it has."""
    if file.suffix not in (".md", ".json"):
        raise ConfigError(f"--out {file}: the card is a .md or a .json file")
    card = read_card(run, models=models)
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n" if file.suffix == ".json" else _markdown(card)
    write_atomically(file, text)
    return len(card["recalibrations"])


def read_card(run: Path, *, models: Sequence[str] = ()) -> dict[str, Any]:
    """What the card says, as data."""
    directory = RunDirectory(run)
    manifest = directory.read_manifest()
    maps = directory.read_table(AUDIT, MAPS)
    if maps is None:
        raise RunError(
            f"the run has no audit '{AUDIT}'", file=run, hint=f"add `{AUDIT}: {{}}` to the audits of audit.yaml"
        )
    known = maps["model"].unique(maintain_order=True).to_list()
    for model in models:
        if model not in known:
            raise ConfigError(
                f"--model {model}: there is no such model", hint=closest(model, known, all_are="they are")
            )
    result, small = directory.read_result(AUDIT), SmallCounts(manifest, directory.read_table("data", "table1"))
    shared = result.provenance["n_shared_patients"]
    chosen = maps.filter(pl.col("model").is_in(list(models))) if models else maps
    pairs = chosen.select("model", "label").unique(maintain_order=True).rows()
    return {
        "title": str(manifest.get("title") or "Recalibration"),
        "palpate": __version__,
        "cohort": result.provenance["cohort"],
        "tested_on": {
            "split": result.provenance["split"],
            "cases": result.provenance["n_test"],
            "patients": result.provenance["n_test_patients"],
        },
        "patients_in_both": None if small.few(shared) else shared,
        **({"withheld": ["patients_in_both"]} if small.few(shared) else {}),
        "level": result.provenance["level"],
        "net_benefit_range": result.provenance["net_benefit"],
        "recalibrations": [_entry(maps, result.estimates, model, label, small) for model, label in pairs],
        "limits": [*_shared_words(shared, small), *LIMITS],
    }


def _shared_words(n: int, small: SmallCounts) -> list[str]:
    """The limit that patients of both splits make; few are not counted."""
    who = f"Fewer than {small.smallest} patients are" if small.few(n) else f"{n:,} patients are"
    who = "1 patient is" if n == 1 and not small.few(n) else who
    return [f"{who} in both splits, so that the gain looks larger than it is."] if n else []


def _entry(maps: pl.DataFrame, estimates: pl.DataFrame, model: str, label: str, small: SmallCounts) -> dict[str, Any]:
    own = maps.filter((pl.col("model") == model) & (pl.col("label") == label))
    first = own.row(0, named=True)
    best = own.filter("chosen")
    numbers = estimates.filter((pl.col("model") == model) & (pl.col("label") == label))
    return {
        "model": model,
        "label": label,
        "best_in_validation": best["method"][0] if best.height else BEFORE,
        "fitted_on": {
            "split": "validation",
            "cases": first["n"],
            "patients": first["n_patients"],
            "events": small.positives(label, first["n_positive"], first["n"]) or first["n_positive"],
        },
        "tested_on": _tested_on(numbers, label, small),
        "as_it_is": _numbers(numbers, BEFORE),
        "methods": [_method(row, numbers) for row in own.iter_rows(named=True)],
    }


def _tested_on(numbers: pl.DataFrame, label: str, small: SmallCounts) -> dict[str, Any]:
    """The test cases that have the label's score: labels may differ in them. Few events are said in words."""
    row = numbers.filter((pl.col("group") == BEFORE) & pl.col("reference").is_null()).row(0, named=True)
    few = small.positives(label, row["n_positive"], row["n"])
    return {"cases": row["n"], "events": few or row["n_positive"]}


def _method(row: dict[str, Any], numbers: pl.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {"method": row["method"], "formula": row["formula"]}
    if row["reason"]:
        return {**found, "reason": row["reason"]}
    if row["method"] == "isotonic":
        steps = zip(row["risk"], row["recalibrated"], strict=True)
        found["steps"] = [{"risk": round(a, 6), "recalibrated": round(b, 6)} for a, b in steps]
    else:
        found |= {"intercept": row["intercept"], "slope": row["slope"]}
    return {**found, "after": _numbers(numbers, row["method"]), "change": _numbers(numbers, row["method"], BEFORE)}


def _numbers(rows: pl.DataFrame, group: str, reference: str | None = None) -> dict[str, dict[str, Any]]:
    """The estimates of a group, or of a change, by metric."""
    against = pl.col("reference").is_null() if reference is None else pl.col("reference") == reference
    found = rows.filter((pl.col("group") == group) & against)
    named = {row["metric"]: row for row in found.iter_rows(named=True)}
    kept = ("value", "low", "high", "reason")
    return {metric: {key: named[metric][key] for key in kept} for metric in _SHOWN if metric in named}


# --- Markdown -----------------------------------------------------------------------------------------------------


def _markdown(card: dict[str, Any]) -> str:
    tested = card["tested_on"]
    lines = [
        f"# Recalibration card: {card['title']}",
        "",
        f"Offered, not applied. Cohort {card['cohort']}; tested on the split {tested['split']} "
        f"({tested['cases']:,} cases of {tested['patients']:,} patients), with {card['level']:.0%} intervals by "
        f"patient. Written by palpate {card['palpate']}.",
    ]
    for entry in card["recalibrations"]:
        lines += ["", f"## {entry['model']}, {entry['label']}", "", *_entry_lines(entry, card["net_benefit_range"])]
    return "\n".join([*lines, "", "## Limits", "", *(f"- {limit}" for limit in card["limits"]), ""])


def _counted(events: int | str) -> str:
    """A number, or what is said instead of a small one."""
    if isinstance(events, int):
        return f"{events:,}"
    return "a number (withheld)" if events == WITHHELD else events


def _entry_lines(entry: dict[str, Any], benefit: Sequence[float]) -> list[str]:
    fitted, tested = entry["fitted_on"], entry["tested_on"]
    lines = [
        f"Fitted on {fitted['cases']:,} cases of {fitted['patients']:,} patients (split {fitted['split']}), "
        f"{_counted(fitted['events'])} with the outcome; tested on {tested['cases']:,} cases, "
        f"{_counted(tested['events'])} with it. "
        f"Best on patients of the {fitted['split']} split that it was not fitted on: "
        f"**{entry['best_in_validation']}**.",
        "",
        "| method | new risk from the model's risk p |",
        "|---|---|",
    ]
    lines += [f"| {each['method']} | {_map_words(each)} |" for each in entry["methods"]]
    fitted_methods = [each for each in entry["methods"] if "after" in each]
    names = [BEFORE, *(each["method"] for each in fitted_methods)]
    lines += ["", f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for metric in _SHOWN:
        if metric not in entry["as_it_is"]:
            continue
        cells = [_cell(entry["as_it_is"][metric])]
        cells += [f"{_cell(each['after'][metric])}; change {_cell(each['change'][metric])}" for each in fitted_methods]
        lines.append(f"| {_metric_words(metric, benefit)} | {' | '.join(cells)} |")
    for each in fitted_methods:
        if "steps" in each:
            lines += [
                "",
                f"Steps of {each['method']}; between two, the line that joins them:",
                "",
                "| p | new |",
                "|---|---|",
            ]
            lines += [f"| {step['risk']:.4f} | {step['recalibrated']:.4f} |" for step in each["steps"]]
    return lines


def _metric_words(metric: str, benefit: Sequence[float]) -> str:
    if metric == "mean_net_benefit":
        return f"{METRIC_NAMES[metric]}, {benefit[0]:.0%} to {benefit[1]:.0%}"
    return f"{METRIC_NAMES[metric]} at the threshold" if metric == "net_benefit" else METRIC_NAMES[metric]


def _map_words(found: dict[str, Any]) -> str:
    if "reason" in found:
        return str(found["reason"])
    if "steps" in found:
        return f"{len(found['steps'])} points, below"
    slope = "" if found["slope"] == 1.0 else f"{found['slope']:.6g} × "
    sign = "−" if found["intercept"] < 0 else "+"
    return f"1 / (1 + exp(−({slope}ln(p / (1 − p)) {sign} {abs(found['intercept']):.6g})))"


def _cell(number: dict[str, Any]) -> str:
    if number["value"] is None:
        return str(number["reason"] or "not computed")
    if number["low"] is None:
        return f"{number['value']:.4f} ({number['reason'] or 'no interval'})"
    return f"{number['value']:.4f} ({number['low']:.4f} to {number['high']:.4f})"
