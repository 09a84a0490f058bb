"""Notes that name their patient, a small alterer of them, and a model's predictions for a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from palpate.audits.characteristics.arms import ArmSpec
from palpate.audits.characteristics.observed import ObservedGroups
from palpate.audits.characteristics.plan import AlteredNotes, alter_notes
from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit
from palpate.models import Model
from palpate.results import ModelPredictions, Plan
from palpate.run.execute.wanted import gather, want
from palpate.run.runner import label_columns

GENDER = ArmSpec(("gender",), (("female",), ("male",), ("nonbinary",)))
ETHNICITIES = ("none", "White", "African American", "Hispanic", "Asian")
FINDINGS = ("fever", "cough", "falls", "chest pain", "stable vitals", "a rash")


def frame(n: int = 240, *, seed: int = 0) -> pl.DataFrame:
    """One-liners with age, some with ethnicity; two notes per patient; `ill` follows from fever, `frail` from falls."""
    rng = np.random.default_rng(seed)
    patient = np.arange(n) // 2
    female = (rng.random(n // 2 + 1) < 0.5)[patient]
    age = rng.integers(20, 89, n // 2 + 1)[patient]
    ethnicity = rng.choice(["", "White ", "African American ", "Hispanic ", "Asian "], n, p=[0.5, 0.2, 0.1, 0.1, 0.1])
    has = rng.random((n, len(FINDINGS))) < 0.4
    notes = []
    for row in range(n):
        found = " and ".join(word for word, there in zip(FINDINGS, has[row], strict=True) if there) or "weakness"
        noun, pronoun = ("woman", "She") if female[row] else ("man", "He")
        who = f"{age[row]} year old {ethnicity[row]}{noun}"
        notes.append(f"Patient is a {who} who presents with {found}. {pronoun} takes aspirin 81 mg daily.")
    chance = 1 / (1 + np.exp(-(-1.5 + 2.0 * has[:, 0] + 0.5 * female)))
    return pl.DataFrame(
        {
            "case_id": [f"c{row}" for row in range(n)],
            "patient_id": [f"p{p}" for p in patient],
            "split": np.asarray(["train", "train", "validation", "test", "test", "test"])[patient % 6],
            "text": notes,
            "age": age,
            "gender": np.where(female, "F", "M"),
            "ill": (rng.random(n) < chance).astype(int),
            "frail": (rng.random(n) < 0.2 + 0.5 * has[:, 2]).astype(int),
        }
    )


def notes(n: int = 240, *, labels: Sequence[str] = ("ill",), seed: int = 0) -> Cohort:
    """The same as a cohort."""
    table = frame(n, seed=seed)
    rest = [label for label in ("ill", "frail") if label not in labels]
    return Cohort.from_frame(table.drop(rest), labels=labels, name="home", attributes=("age", "gender"))


class GenderWords:
    """Alters "woman" and "man" and nothing else; a note about a uterus can't be made male."""

    _nouns: ClassVar = {"female": "woman", "male": "man", "nonbinary": "nonbinary person"}

    def plan(self, text: str) -> str:
        return text

    def present(self, found: str) -> Mapping[str, str | None]:
        match = re.search(r"\b(?:wo)?man\b", found)
        return {"gender": None if match is None else "female" if match[0] == "woman" else "male"}

    def edits(self, found: str, group: Mapping[str, str]) -> tuple[Sequence[Edit], str, str | None]:
        match = re.search(r"\b(?:wo)?man\b", found)
        if match is None:
            return (), "skipped", "no mention"
        if group["gender"] == "male" and "uterus" in found:
            return (), "skipped", "contradictory"
        noun = self._nouns[group["gender"]]
        if noun == match[0]:
            return (), "kept", None
        return (Edit(*match.span(), noun),), "changed", None


def gender_plan(cohort: Cohort, *, observed: ObservedGroups | None = None, reference: int = 1) -> Plan[AlteredNotes]:
    """A plan made by hand, with `GenderWords`."""
    return alter_notes(
        cohort,
        cohort.rows(split="test"),
        cohort.labels,
        specs=[GENDER],
        references=[reference],
        observed=[observed or ObservedGroups.none("not asked for")],
        alterer=GenderWords(),
    )


def answer(plan: Plan[AlteredNotes], model: Model, **more: object) -> ModelPredictions:
    """A model's predictions, made the way the runner makes them: distinct texts, nothing outside the window."""
    wanted = want(gather(plan.cohort, {"characteristics": plan}), model)
    p = model.predict(wanted.take(np.arange(len(wanted.keys))))[wanted.distinct]
    columns = label_columns("m", model.labels, plan.labels)
    return ModelPredictions(plan.labels, p[:, columns], wanted.seen, **more)  # type: ignore[arg-type]
