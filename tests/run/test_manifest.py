"""The manifest says what was run and holds no secret; its fingerprints change with what they stand for."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort, stack
from palpate.cases.edits import Variants
from palpate.models import Model, ModelSpec
from palpate.results import AuditResult, Plan, Predictions
from palpate.run.manifest import build_manifest, describe_cohorts, unreliable_cache
from palpate.testing import KeywordModel

FRAME = pl.DataFrame(
    {
        "patient_id": ["p1", "p1", "p2", "p3"],
        "split": ["test", "test", "test", "train"],
        "text": ["fever", "fever fever", "well", "pain"],
        "ill": [1, 1, 0, 0],
    }
)
COHORT = Cohort.from_frame(FRAME, labels=["ill"], name="home")
SPEC = ModelSpec("m", "http://127.0.0.1/predict?key=hunter2")


@dataclass(frozen=True)
class Option:
    """An option with a text of its own."""

    word: str

    def __str__(self) -> str:
        return f"the word {self.word}"


@dataclass(frozen=True)
class Keyed:
    """An audit with options of several kinds, one of them a secret."""

    name: ClassVar[str] = "keyed"
    api_key: str = "swordfish"
    word: Option = Option("fever")
    level: float = 0.95

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[None]:
        raise NotImplementedError

    def analyse(self, plan: Plan[None], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        raise NotImplementedError


def built(**changes: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"cohort": COHORT, "audit": Keyed(), "model": KeywordModel({"fever": 1.0}), "seed": 0}
    given |= changes
    models = [(given.get("spec", SPEC), given["model"], None)]
    return build_manifest(given["cohort"], {"keyed": given["audit"]}, models, given["seed"], {"title": "T"})


def test_what_was_run_is_written_down_without_secrets() -> None:
    manifest = built()
    text = json.dumps(manifest)
    assert "hunter2" not in text
    assert "swordfish" not in text
    assert manifest["title"] == "T"
    assert manifest["audits"]["keyed"] == {"api_key": "(hidden)", "word": "the word fever", "level": 0.95}
    (model,) = manifest["models"]
    assert model["source"].startswith("http://127.0.0.1/predict")
    assert (model["labels"], model["n_labels"], model["ensemble"]) == (["positive"], 1, None)
    assert manifest["packages"]["numpy"] == np.__version__


def test_many_labels_are_counted_and_not_all_listed() -> None:
    (model,) = built(model=KeywordModel({}, labels=[f"c{k}" for k in range(80)]))["models"]
    assert (len(model["labels"]), model["n_labels"]) == (50, 80)


@pytest.mark.parametrize(
    ("changes", "which"),
    [
        ({"seed": 1}, {"seed"}),
        ({"audit": Keyed(level=0.9)}, {"audits"}),
        ({"model": KeywordModel({"fever": 2.0})}, {"models"}),
        ({"cohort": Cohort.from_frame(FRAME.head(3), labels=["ill"], name="home")}, {"cohort"}),
    ],
)
def test_each_fingerprint_changes_with_what_it_stands_for(changes: dict[str, Any], which: set[str]) -> None:
    before, after = built()["fingerprints"], built(**changes)["fingerprints"]
    assert {name for name in before if before[name] != after[name]} == which


def test_a_run_has_a_name_of_its_own_that_is_no_part_of_what_was_run() -> None:
    one, two = built(), built()
    assert one["id"] != two["id"]
    assert one["fingerprints"] == two["fingerprints"]


def changeable(why: str | None, *, cached: bool = True) -> Model:
    made = KeywordModel({})
    vars(made).update(may_change=why, cached=cached)
    return made


def test_scores_that_are_not_reused_are_mentioned_with_what_to_do() -> None:
    assert unreliable_cache("m", changeable(None)) is None
    assert unreliable_cache("m", changeable("it rains", cached=False)) is None, "nothing of it is reused anyway"
    said = unreliable_cache("m", changeable("it rains"))
    assert said is not None
    assert said.startswith("The scores of m are not reused by later runs: it rains.")
    assert "`fingerprint:`" in said


def test_cohorts_are_described_by_the_cases_that_were_audited() -> None:
    away = Cohort.from_frame(FRAME.head(2), labels=["ill"], name="away")
    both = stack([COHORT, away])
    plan: Plan[Any] = Plan(both, Variants.of_cases(np.arange(3)), ("ill",))
    home, other = describe_cohorts(both, {"one": plan})
    assert (home["n"], home["n_patients"], home["n_table"]) == (3, 2, 4)
    assert home["labels"] == [{"name": "ill", "n_positive": 2}]
    assert home["splits"] == {"test": 3, "train": 1}
    assert (other["n"], other["n_table"]) == (0, 2)
    narrowed = replace(plan, cases=np.array([0]))
    assert describe_cohorts(both, {"one": narrowed})[0]["n"] == 1
