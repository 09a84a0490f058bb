"""Notes that can be written differently in many ways, and models with a planted reaction to one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.models import Model, Probabilities

COMPLAINTS = ("a swollen ankle", "weakness", "a painful shoulder", "trouble sleeping", "poor appetite")
MEDICINES = ("furosemide", "sertraline", "metformin", "Tylenol", "aspirin")


def frame(n: int = 160, *, notes: int = 1, seed: int = 0) -> pl.DataFrame:
    """`n` patients with so many notes each; the risk follows from the complaint."""
    rng = np.random.default_rng(seed)
    texts, ill = [], []
    for k in range(n * notes):
        complaint, medicine = COMPLAINTS[rng.integers(5)], MEDICINES[rng.integers(5)]
        texts.append(
            f"HPI:\nPatient number {k} presents with {complaint} since {2 + k % 7} days. Denies tremor. "
            f"She takes {medicine} 20 mg daily and was seen on 0{1 + k % 9}/{13 + k % 15}/2021.\n\n"
            f"ALLERGIES\nPenicillin.\n\nSOCIAL HISTORY\nDoes not smoke.\n\nPLAN\nRest.\n"
        )
        ill.append(int(rng.random() < 0.2 + 0.4 * ("weak" in complaint)))
    return pl.DataFrame(
        {
            "case_id": [f"c{k}" for k in range(n * notes)],
            "patient_id": [f"p{k // notes}" for k in range(n * notes)],
            "text": texts,
            "ill": ill,
        }
    )


def cohort(n: int = 160, **more: int) -> Cohort:
    return Cohort.from_frame(frame(n, **more), labels=["ill"], name="home")


class RuleModel(Model):
    """A probability for each text."""

    def __init__(self, rule: Callable[[str], float], name: str = "rule", labels: tuple[str, ...] = ("ill",)) -> None:
        self.labels, self.fingerprint, self.rule = labels, name, rule

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.asarray([[self.rule(text)] * len(self.labels) for text in inputs.texts])
