"""Small suites, cohorts and planted models for the tests of the capabilities audit, and how to run it."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from palpate import Cohort
from palpate.audits.capabilities import Capabilities
from palpate.audits.capabilities.plan import PlannedSuite
from palpate.cases.edits import Inputs
from palpate.data.suites import read_suite_file
from palpate.models import Model, Probabilities
from palpate.perturb.suites import load_suite
from palpate.results import AuditResult, ModelPredictions, Plan, Predictions
from tests.perturb.suites.rule_reader import effect_is_negated

RNG = np.random.default_rng


MIRRORED = """
suite: mirrored
labels: {positive: ADE, negative: no ADE}
lexicons:
  drug: [Zoloft, Prozac, aspirin]
  effect: [nausea, headaches]
capabilities:
  - id: order
    title: Order
    tests:
      - id: order
        type: MFT
        templates:
          - {id: b1, label: no ADE, text: "I had {effect} before I took {drug}."}
          - {id: a1, label: ADE, text: "I took {drug} before I had {effect}."}
          - {id: b2, label: no ADE, text: "I took {drug} after I had {effect}."}
          - {id: a2, label: ADE, text: "I had {effect} after I took {drug}."}
          - {id: b3, label: no ADE, text: "First came {effect}, then {drug}."}
          - {id: a3, label: ADE, text: "First came {drug}, then {effect}."}
"""


PAIRS = """
suite: pairs
labels: {positive: ill, negative: well}
lexicons:
  where: [back, knee]
capabilities:
  - id: shorthand
    tests:
      - id: polite
        type: INV
        tolerance: 0.1
        changes:
          - {name: please in front, prepend: "Please note: "}
          - {name: urgent behind, append: " Urgent!"}
        templates:
          - {id: i1, label: ill, text: "Pain in the {where}."}
          - {id: i2, label: ill, text: "Severe pain in the {where}."}
  - id: denial
    tests:
      - id: denied
        type: DIR
        direction: down
        margin: 0.25
        templates:
          - {id: d1, text: "Pain in the {where}.", to: "Denies pain in the {where}."}
          - {id: d2, text: "Severe pain in the {where}.", to: "Denies severe pain in the {where}."}
      - id: any
        type: DIR
        direction: up
        templates:
          - {id: u1, text: "Seen for the {where}.", to: "Seen for pain of the {where}."}
          - {id: u2, text: "Visit for the {where}.", to: "A visit for the {where}."}
"""


def cohort_of(texts: Sequence[str], y: Sequence[int], split: Sequence[str] | None = None, label: str = "ADE") -> Cohort:
    """One note per patient."""
    frame = pl.DataFrame(
        {
            "case_id": [str(k) for k in range(len(texts))],
            "text": list(texts),
            "split": list(split or ["test"] * len(texts)),
            label: list(y),
        }
    )
    return Cohort.from_frame(frame, labels=[label])


def tweets(n: int = 120) -> Cohort:
    """Notes of which half are positive; "nausea" tells, nearly always."""
    rng = RNG(0)
    y = np.arange(n) % 2
    seen = np.where(rng.random(n) < 0.9, y, 1 - y)
    texts = [f"Took Zoloft {k}, {'nausea' if s else 'fine'}." for k, s in enumerate(seen.tolist())]
    split = np.array(["train", "validation", "test", "test"])[np.arange(n) // 2 % 4]
    return cohort_of(texts, y.tolist(), split.tolist())


def quick(**options: Any) -> Capabilities:
    """The audit with few replicates; a suite's path is read as the configuration does it."""
    if isinstance(options.get("suite"), Path):
        given = {name: options[name] for name in ("positive", "slots") if name in options}
        options["suite"] = read_suite_file(options["suite"], **given)
    return Capabilities(**{"n_replicates": 200, "threshold": 0.5, **options})


def ask(plan: Plan[PlannedSuite], models: Mapping[str, Model], **ensembles: str) -> Predictions:
    """What the runner would hand to the audit; `ensembles` names the one that a model is a member of."""
    n = len(plan.cohort)
    parents = plan.variants.parent.tolist()
    texts = [plan.cohort.texts[p] if p < n else plan.variants.made[p - n] for p in parents]
    return Predictions(
        {
            name: ModelPredictions(
                plan.labels,
                model.predict(Inputs.from_texts(texts)),
                np.ones(len(texts), dtype=bool),
                threshold=model.threshold,
                ensemble=ensembles.get(name),
            )
            for name, model in models.items()
        }
    )


def audit(capabilities: Capabilities, cohort: Cohort, **models: Model) -> AuditResult:
    plan = capabilities.plan(cohort, RNG(0))
    return capabilities.analyse(plan, ask(plan, models), RNG(1))


def rows(result: AuditResult, metric: str, *, reference: str | None = None, model: str | None = None) -> pl.DataFrame:
    found = result.estimates.filter(pl.col("metric") == metric)
    found = found.filter(pl.col("reference").is_null() if reference is None else pl.col("reference") == reference)
    return found if model is None else found.filter(pl.col("model") == model)


def values(result: AuditResult, metric: str, **which: str) -> dict[str, float]:
    found = rows(result, metric, **which)
    return dict(zip(found["group"].to_list(), found["value"].to_list(), strict=True))


def warnings(result: AuditResult) -> str:
    return "\n".join(
        finding.sentence for finding in result.findings if finding.kind in ("caveat", "concern", "caution")
    )


class RuleModel(Model):
    """Says ADE unless a rule says no."""

    labels = ("ADE",)
    fingerprint = "rule"

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.array([[0.1 if self.says_no(text) else 0.9] for text in inputs.texts])

    @abstractmethod
    def says_no(self, text: str) -> bool: ...


class NegationRule(RuleModel):
    """Knows the effects' names and what a negation is, and nothing of time."""

    def __init__(self) -> None:
        effects = sorted(load_suite("ade").lexicons["effect"].values, key=len, reverse=True)
        self.effect = re.compile(r"\b(?:" + "|".join(map(re.escape, effects)) + r")\b")

    def says_no(self, text: str) -> bool:
        masked, n = self.effect.subn("EFFECT", text, count=1)
        # The reader looks before the effect; this one is denied behind it.
        return n > 0 and (effect_is_negated(masked) or "but that never" in masked)


class Fitted(Model):
    """A scikit-learn pipeline."""

    labels, fingerprint = ("ADE",), "fitted"

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def predict(self, inputs: Inputs) -> Probabilities:
        return np.asarray(self.pipeline.predict_proba(inputs.texts)[:, 1:])


def sigmoid(x: float) -> float:
    return float(1 / (1 + np.exp(-x)))
