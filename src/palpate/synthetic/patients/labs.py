"""Laboratory values and vital signs that follow from the conditions and the severity."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from palpate.files import read_resource
from palpate.synthetic.dice import Dice
from palpate.synthetic.patients import Stay


class Lab(NamedTuple):
    """How one value is drawn."""

    name: str
    mean: float
    sd: float
    digits: int
    severity: float
    shifts: tuple[tuple[str, float], ...]


@lru_cache(maxsize=1)
def panels() -> dict[str, tuple[Lab, ...]]:
    """The laboratory values of labs.yaml, by panel."""
    return {
        panel: tuple(Lab(name, row[0], row[1], row[2], row[3], tuple(row[4].items())) for name, row in rows.items())
        for panel, rows in read_resource("palpate.synthetic.patients", "labs.yaml").items()
    }


def panel_line(panel: str, stay: Stay, dice: Dice, *, progress: float) -> str:
    """WBC-8.4 RBC-4.21* ...; abnormal shifts fade as `progress` goes from 0 to 1, stars mark abnormal values."""
    has = {condition.name for condition in stay.conditions}
    left = 1.0 - 0.5 * progress
    words = []
    for lab in panels()[panel]:
        shift = lab.severity * stay.severity + sum(amount for name, amount in lab.shifts if name in has)
        noise = dice.uniform() + dice.uniform() + dice.uniform() - 1.5
        value = max(lab.mean * 0.15, lab.mean + left * shift + 2.0 * lab.sd * noise)
        star = "*" if abs(value - lab.mean) > 2.0 * lab.sd else ""
        words.append(f"{lab.name}-{value:.{lab.digits}f}{star}")
    return " ".join(words)


def vitals(stay: Stay, dice: Dice, *, progress: float) -> str:
    """One line of vital signs, in one of several styles."""
    ill = stay.severity * (1.0 - 0.7 * progress)
    temperature = 98.1 + 0.5 * max(0.0, ill) + dice.between(-0.6, 1.4)
    pulse = int(82 + 9 * ill + dice.between(-16, 18))
    systolic = int(132 - 9 * ill + dice.between(-22, 24))
    diastolic = int(systolic * dice.between(0.5, 0.63))
    rate = int(17 + 2.2 * max(-1.0, ill) + dice.between(-2, 4))
    saturation = int(min(100, 97 - 1.6 * ill + dice.between(-3, 3)))
    air = dice.pick(("RA", "2L NC", "room air", "3L", "4L NC", "NRB")) if ill > 0 else "RA"
    style = dice.integer(0, 3)
    if style == 0:
        return f"T {temperature:.1f} HR {pulse} BP {systolic}/{diastolic} RR {rate} O2 {saturation}% {air}"
    if style == 1:
        return f"{temperature:.1f}, {pulse}, {systolic}/{diastolic}, {rate}, {saturation}% on {air}"
    if style == 2:
        return f"Temp {temperature:.1f} F, P {pulse}, BP {systolic}/{diastolic}, R {rate}, SaO2 {saturation}% {air}"
    return f"Tm {temperature + 0.4:.1f} Tc {temperature:.1f} {systolic}/{diastolic} {pulse} {rate} {saturation}%{air}"
