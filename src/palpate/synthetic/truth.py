"""truth.json: what is planted, how strongly, and what follows from it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from palpate.synthetic.calibrate import calibrate
from palpate.synthetic.layouts.ade import PREVALENCE
from palpate.synthetic.notes.discharge import TITLES_B
from palpate.synthetic.notes.voice import ETHNICITY_MENTION_RATE
from palpate.synthetic.patients.conditions import conditions
from palpate.synthetic.patients.findings import cxr_table, findings, names_of
from palpate.synthetic.patients.patients import SEVERITY_MORTALITY, SEVERITY_READMISSION, population
from palpate.synthetic.plants import SPURIOUS_RATE, SPURIOUS_WORD, Plants, Site
from palpate.synthetic.ratings import expected_ratings, word_effects


def describe(plants: Plants, *, site: Site, seed: int, n_patients: int) -> dict[str, Any]:
    """Everything that a test may want to recover."""
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
