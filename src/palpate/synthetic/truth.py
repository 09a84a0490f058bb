"""What is known about the hospital: truth.json, and the ratings of three clinicians, who see the truth with some noise.

truth.json says what is planted, how strongly, and what follows from it.
"""

from __future__ import annotations

import csv
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from palpate.files import open_named_text, read_resource
from palpate.synthetic.calibrate import calibrate
from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.layouts.ade import PREVALENCE
from palpate.synthetic.notes.discharge import TITLES_B
from palpate.synthetic.notes.voice import ETHNICITY_MENTION_RATE
from palpate.synthetic.patients import SEVERITY_MORTALITY, SEVERITY_READMISSION, population
from palpate.synthetic.patients.conditions import by_name, conditions
from palpate.synthetic.patients.findings import cxr_table, findings, names_of
from palpate.synthetic.plants import SITES, SPURIOUS_RATE, SPURIOUS_WORD, Plants, Site

RATERS = ("rater_1", "rater_2", "rater_3")


def describe(plants: Plants, *, site: Site, seed: int, n_patients: int) -> dict[str, Any]:
    """Everything that a test may want to recover from the files."""
    calibrated = calibrate(plants, site)
    return {
        "schema": 1,
        "site": site,
        "seed": seed,
        "n_patients": n_patients,
        "plants": asdict(plants),
        "spurious_word": {
            "word": SPURIOUS_WORD,
            "rate": SPURIOUS_RATE,
            "log_odds": plants.spurious_word if site == "a" else 0.0,
            "applies_at_this_site": site == "a",
        },
        "readmission": {
            "prevalence": population()["readmission"][site],
            "intercept": round(calibrated.intercepts.readmission, 6),
            "severity": SEVERITY_READMISSION,
            "conditions": {c.name: c.readmission for c in conditions()},
            "auroc": round(calibrated.auroc_readmission, 4),
        },
        "mortality": {
            "prevalence": population()["mortality"][site],
            "intercept": round(calibrated.intercepts.mortality, 6),
            "severity": SEVERITY_MORTALITY,
            "conditions": {c.name: c.mortality for c in conditions()},
            "auroc": round(calibrated.auroc_mortality, 4),
        },
        "demographics": {
            "age_per_decade_from_65": plants.age_effect,
            "gender": {"F": plants.gender_effect, "M": 0.0},
            "ethnicity": {group: share * plants.ethnicity_effect for group, share in plants.ETHNICITY_SHARE.items()},
            "ethnicity_mention_rate": ETHNICITY_MENTION_RATE,
        },
        "words": {
            "effects": word_effects(),
            "ratings": {word: round(mean, 3) for word, mean in expected_ratings().items()},
        },
        "cxr": _cxr(plants, site),
        "ade": {"prevalence": PREVALENCE},
        "site_shift": _site_shift(plants),
    }


def _site_shift(plants: Plants) -> dict[str, Any]:
    """Everything that is meant to differ between the sites."""
    people = population()
    return {
        "readmission_prevalence": people["readmission"],
        "mortality_prevalence": people["mortality"],
        "age_mean_and_sd": people["age"],
        "ethnicity_weights": people["ethnicity"],
        "condition_log_odds": people["mix"],
        "newborn_rate": people["newborns"],
        "spurious_word_log_odds": {"a": plants.spurious_word, "b": 0.0},
        "section_titles": {"a": {}, "b": TITLES_B},
    }


def _cxr(plants: Plants, site: Site) -> dict[str, Any]:
    made = findings(plants, site)
    return {
        "prevalence": names_of(made.prevalence),
        "intercept": names_of(made.intercept),
        "signal": names_of(made.signal),
        "shortcut_signal": names_of(made.shortcut_signal),
        "shortcut_weight": made.shortcut,
        "pretest_mean": names_of(made.mean),
        "pretest_sd": names_of(made.sd),
        "history": {
            label: {name: plants.history_effect * weight for name, weight in row["history"].items()}
            for label, row in cxr_table()["labels"].items()
        },
        "auroc": {name: names_of(values) for name, values in made.auroc.items()},
    }


@lru_cache(maxsize=1)
def _table() -> Any:
    return read_resource("palpate.synthetic", "words.yaml")


def word_effects() -> dict[str, float]:
    """The true log-odds of readmission of each rated word; 0 for plain words and the spurious one."""
    effects = {word: by_name()[condition].readmission for word, condition in _table()["effects"].items()}
    return effects | dict.fromkeys(_table()["plain"], 0.0)


def expected_ratings() -> dict[str, float]:
    """The ratings without noise."""
    largest = max(condition.readmission for condition in conditions())
    rated = {word: 1.3 + 3.6 * by_name()[name].readmission / largest for word, name in _table()["effects"].items()}
    plain: dict[str, float] = _table()["plain"]
    return rated | plain


def write_ratings(path: Path, *, seed: int, site: Site) -> None:
    """One row per word, one column per rater, scores from 1 to 5."""
    dice = Dice(stream(seed, SITES[site], 4))
    noise = _table()["raters"]["noise"]
    with open_named_text(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["word", *RATERS])
        for word, mean in sorted(expected_ratings().items()):
            spread = noise / 2 if word == SPURIOUS_WORD else noise
            scores = [round(mean + spread * dice.normal()) for _ in RATERS]
            writer.writerow([word, *(min(5, max(1, score)) for score in scores)])
