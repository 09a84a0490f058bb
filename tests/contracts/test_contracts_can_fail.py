"""Each check of `palpate.testing` fails for what breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from palpate import kit
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.errors import CohortError
from palpate.models import Model
from palpate.testing import KeywordModel
from palpate.testing.audit_contract import check_audit_contract
from palpate.testing.model_contract import BrokenContract, check_model_contract
from palpate.testing.reader_contract import check_reader_contract


class Broken(KeywordModel):
    def __init__(self, breaks: str) -> None:
        super().__init__({"fever": 1.0})
        self.breaks, self.reading = breaks, False
        self.rounding = 1.0 if breaks == "rounding" else 1e-6

    def predict(self, inputs: Inputs) -> Any:
        self.reading = True
        p = super().predict(inputs)
        self.reading = False
        if self.breaks == "nan":
            p[:1] = np.nan
        elif self.breaks == "rows" and len(p):
            p = p[:-1]
        elif self.breaks == "batch":
            p = p * (1 - 1e-3 * len(p))
        elif self.breaks == "edits" and inputs.n_edits.any():
            p = p + 1e-3
        elif self.breaks == "odd" and "" in inputs.texts:
            p = p + 1
        return p.astype(np.float32) if self.breaks == "float" else p

    def visible_ends(self, texts: Any) -> Any:
        """Too little, where that is what is broken; what it really reads stays as it is."""
        short = self.breaks == "window" and not self.reading
        return np.zeros(len(texts), dtype=np.int64) if short else super().visible_ends(texts)


@pytest.mark.parametrize(
    ("breaks", "promise"),
    [
        ("nan", "are probabilities"),
        ("rows", "one row per input"),
        ("batch", "alone has the prediction"),
        ("edits", "spliced text"),
        ("odd", "are probabilities"),
        ("float", "float64"),
        ("window", "behind visible_ends"),
        ("rounding", "no shift could be seen"),
    ],
)
def test_models(breaks: str, promise: str) -> None:
    check_model_contract(Broken("nothing"))
    with pytest.raises(BrokenContract, match=promise):
        check_model_contract(Broken(breaks))


COHORT = Cohort.from_frame(
    pl.DataFrame(
        {
            "text": [f"the patient has fever and was seen on ward number {k} of the hospital" for k in range(12)],
            "patient_id": [f"p{k // 2}" for k in range(12)],
            "ill": [0, 1] * 6,
        }
    ),
    labels=["ill"],
)


@dataclass(frozen=True)
class Lengths:
    """Counts notes."""

    name: ClassVar[str] = "lengths"
    breaks: str = "nothing"

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Any:
        builder = kit.VariantsBuilder(n_cases=len(cohort))
        rows = rng.permutation(len(cohort)) if self.breaks != "seed" else np.random.default_rng().permutation(12)
        for row in rows.tolist():
            builder.add(row, "original")
        return kit.Plan(cohort, builder.build(), cohort.labels)

    def analyse(self, plan: Any, predictions: Any, rng: np.random.Generator) -> kit.AuditResult:
        value = float(rng.random()) if self.breaks != "noise" else float(np.random.default_rng().random())
        rows = [
            kit.Estimate(self.name, "nobody" if self.breaks == "model" else model, "mean", "ill", "all", value, 12)
            for model in predictions
        ]
        changes: dict[str, dict[str, Any]] = {
            "silent": {"value": None},
            "interval": {"low": 1.0, "high": 0.0},
            "audit": {"audit": "other"},
            "text": {"group": COHORT.texts[0]},
        }
        rows = [replace(row, **changes.get(self.breaks, {})) for row in rows]
        return kit.AuditResult(self.name, kit.estimates_frame(rows))


@pytest.mark.parametrize(
    ("breaks", "promise"),
    [
        ("seed", "same seed gives the same plan"),
        ("noise", "same estimates"),
        ("model", "models of the run"),
        ("silent", "null with a reason"),
        ("interval", "lower end"),
        ("audit", "names its audit"),
        ("text", "no text of a note"),
    ],
)
def test_audits(breaks: str, promise: str) -> None:
    models = {"toy": KeywordModel({"fever": 1.0}, labels=["ill"])}
    check_audit_contract(Lengths(), COHORT, models)
    with pytest.raises(BrokenContract, match=promise):
        check_audit_contract(Lengths(breaks), COHORT, models)


def reader(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], Cohort]:
    def read(path: Path) -> Cohort:
        if not path.exists():
            raise CohortError("file not found", file=path)
        return Cohort(change(COHORT.cases), COHORT.labels, COHORT.y)

    return read


def test_readers(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    check_reader_contract(reader(lambda cases: cases), tmp_path / "source")
    breaks: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
        "id of its own": lambda cases: cases.with_columns(case_id=pl.lit("1")),
        "no note is empty": lambda cases: cases.with_columns(text=pl.lit(" ")),
        "splits are": lambda cases: cases.with_columns(split=pl.lit("dev")),
        "in one split": lambda cases: cases.with_columns(split=pl.Series(["train", "test"] * 6)),
    }
    for promise, change in breaks.items():
        with pytest.raises(BrokenContract, match=promise):
            check_reader_contract(reader(change), tmp_path / "source")
    with pytest.raises(BrokenContract, match="missing file is an InputError"):
        check_reader_contract(lambda _: COHORT, tmp_path / "source")


def test_a_model_is_what_the_contract_is_about() -> None:
    assert issubclass(Broken, Model)
