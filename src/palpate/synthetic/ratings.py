"""What three clinicians say about the hospital's words: the true effects, seen with some noise."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

from palpate.synthetic.dice import Dice, stream
from palpate.synthetic.patients.conditions import by_name, conditions, read_yaml
from palpate.synthetic.plants import SITES, SPURIOUS_WORD, Site

RATERS = ("rater_1", "rater_2", "rater_3")


@lru_cache(maxsize=1)
def _table() -> Any:
    return read_yaml("words.yaml")


def word_effects() -> dict[str, float]:
    """Log-odds of readmission that stand behind each rated word; 0 for plain words and the spurious one."""
    effects = {word: by_name()[condition].readmission for word, condition in _table()["effects"].items()}
    return effects | dict.fromkeys(_table()["plain"], 0.0)


def expected_ratings() -> dict[str, float]:
    """The rating before any noise."""
    largest = max(condition.readmission for condition in conditions())
    rated = {word: 1.3 + 3.6 * by_name()[name].readmission / largest for word, name in _table()["effects"].items()}
    plain: dict[str, float] = _table()["plain"]
    return rated | plain


def write_ratings(path: Path, *, seed: int, site: Site) -> None:
    """One row a word, one column a rater, scores 1 to 5."""
    dice = Dice(stream(seed, SITES[site], 4))
    noise = _table()["raters"]["noise"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["word", *RATERS])
        for word, mean in sorted(expected_ratings().items()):
            spread = noise / 2 if word == SPURIOUS_WORD else noise
            scores = [round(mean + spread * dice.normal()) for _ in RATERS]
            writer.writerow([word, *(min(5, max(1, score)) for score in scores)])
