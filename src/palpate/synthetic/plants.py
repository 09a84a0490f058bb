"""The effects that are planted in the synthetic hospital, and the truth about them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

from palpate.errors import InputError

Site = Literal["a", "b"]
SITES: Mapping[str, int] = MappingProxyType({"a": 0, "b": 1})

SPURIOUS_WORD = "larkspur"
SPURIOUS_RATE = 0.18
STRONGEST = 20.0


@dataclass(frozen=True, kw_only=True)
class Plants:
    """Every planted effect and its strength; 0 switches it off."""

    spurious_word: float = 2.4
    """Log-odds of readmission that go with the ward's name at site a, and only there."""
    age_effect: float = 0.15
    """Log-odds of readmission and of death per decade of age: a real effect."""
    gender_effect: float = 0.4
    """Log-odds of recorded readmission and death of women, without a clinical reason."""
    ethnicity_effect: float = 0.6
    """The same for African American patients, half of it for Hispanic ones, without a clinical reason."""
    history_effect: float = 1.0
    """Factor on the log-odds that earlier conditions give to the chest X-ray labels."""
    visual_shortcut: float = 1.0
    """How strongly the sticker in the corner of an X-ray shows the history, and the shortcut model relies on it."""

    ETHNICITY_SHARE = MappingProxyType({"African American": 1.0, "Hispanic": 0.5})

    def check(self) -> None:
        """Refuse a strength that is not a number, or is absurdly large."""
        for name, strength in asdict(self).items():
            number = isinstance(strength, int | float) and math.isfinite(strength)
            if not number or abs(strength) > STRONGEST:
                hint = f"use a number from {-STRONGEST:g} to {STRONGEST:g}"
                raise InputError(f"the plant '{name}' can't have the strength {strength}", hint=hint)

    def demographic(self, *, age: float, gender: str, ethnicity: str) -> tuple[float, float, float]:
        """Log-odds for age, gender and ethnicity."""
        return (
            self.age_effect * (age - 65.0) / 10.0,
            self.gender_effect * (gender == "F"),
            self.ethnicity_effect * self.ETHNICITY_SHARE.get(ethnicity, 0.0),
        )


@dataclass(frozen=True)
class Truth:
    """The contents of truth.json."""

    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]
