"""What is refused before anything is scored: directories, models that do not fit the cohort or the audits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Edit, Variants, VariantsBuilder
from palpate.errors import ConfigError, RunError
from palpate.models import Model
from palpate.results import AuditResult, ModelRequests, Plan, Predictions
from palpate.run.checks import check_directory, check_fit, check_resumable, facts_of, label_columns
from palpate.run.directory import RunDirectory
from palpate.testing import KeywordModel

COHORT = Cohort.from_frame(pl.DataFrame({"text": ["fever", "well"], "ill": [1, 0]}), labels=["ill"])
PLAN: Plan[Any] = Plan(COHORT, Variants.of_cases(np.arange(2)), ("ill",))


@dataclass(frozen=True)
class Asks:
    """An audit that asks for no model in particular."""

    name: ClassVar[str] = "asks"

    def plan(self, cohort: Cohort, rng: np.random.Generator) -> Plan[None]:
        raise AssertionError("a check neither plans nor analyses")

    def analyse(self, plan: Plan[None], predictions: Predictions, rng: np.random.Generator) -> AuditResult:
        raise AssertionError("a check neither plans nor analyses")


@dataclass(frozen=True)
class AsksForThreshold(Asks):
    """An audit that looks at the models before they are asked."""

    seen: list[str] = field(default_factory=list)

    def check_models(self, plan: Plan[None], predictions: Predictions) -> None:
        for name, answers in predictions.scored.items():
            self.seen.append(name)
            if answers.threshold is None:
                raise ConfigError(f"model '{name}' has no threshold")


def model(**attributes: Any) -> Model:
    made = KeywordModel({"fever": 1.0}, labels=attributes.pop("labels", ("ill",)))
    vars(made).update(attributes)
    return made


def fit(made: Model, *, cohort: Cohort = COHORT, plan: Plan[Any] = PLAN, audit: Asks | None = None) -> None:
    check_fit(cohort, {"asks": audit or Asks()}, {"asks": plan}, {"m": (made, None)})


def test_a_directory_must_be_free_or_resumed(tmp_path: Path) -> None:
    check_directory(RunDirectory(tmp_path / "new"), resume=False)
    run = RunDirectory(tmp_path / "run")
    run.write_manifest({})
    with pytest.raises(RunError, match="already holds a run; add --resume"):
        check_directory(run, resume=False)
    check_directory(run, resume=True)
    (tmp_path / "file").write_text("")
    for resume in (False, True):
        with pytest.raises(RunError, match="file: this is a file, not a folder; choose another --out"):
            check_directory(RunDirectory(tmp_path / "file"), resume=resume)


def test_a_run_is_resumed_only_with_equal_fingerprints(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    now = {"fingerprints": {"models": "a", "seed": "b", "cohort": "c"}}
    check_resumable(now, now, run)
    with pytest.raises(RunError, match="started with different models and cohort; choose another --out"):
        check_resumable(now, {"fingerprints": {"models": "x", "seed": "b", "cohort": "y"}}, run)
    with pytest.raises(RunError, match="different models and seed and cohort"):
        check_resumable(now, {}, run)


def test_labels_are_found_by_name_unless_there_is_one_on_each_side() -> None:
    assert label_columns("m", ["positive"], ["ill"]).tolist() == [0]
    assert label_columns("m", ["a", "b", "c"], ["c", "a"]).tolist() == [2, 0]
    with pytest.raises(ConfigError, match=r"does not predict label 'death' \(1 of 2 labels.*'deaths' and 1 others"):
        label_columns("m", ["deaths", "icu"], ["death", "icu"])


def test_a_label_that_looks_like_a_note_is_not_quoted() -> None:
    note = "the patient was admitted with fever and chills"
    with pytest.raises(ConfigError) as caught:
        label_columns("m", ["a", "b"], [note])
    assert "patient" not in str(caught.value)
    assert f"(a text of {len(note)} characters)" in str(caught.value)


def test_two_classes_of_which_neither_is_the_label_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"model 'm' has the classes 'case' and 'control'.*`positive: case`"):
        fit(model(labels=("case", "control"), classes=("case", "control")))
    fit(model(labels=("ill", "well"), classes=("ill", "well")))


def test_a_model_must_find_what_it_reads() -> None:
    tabular = Cohort.from_frame(pl.DataFrame({"ill": [1, 0]}), labels=["ill"])
    with pytest.raises(ConfigError, match="model 'm' reads text, but the cohort has none"):
        fit(model(), cohort=tabular)
    with pytest.raises(ConfigError, match="model 'm' reads images, but the cohort has none"):
        fit(model(reads="image"))


def test_a_model_of_images_is_not_given_altered_texts() -> None:
    pictures = Cohort.from_frame(
        pl.DataFrame({"text": ["fever", "well"], "image": ["a.png", "b.png"], "ill": [1, 0]}), labels=["ill"]
    )
    builder = VariantsBuilder(n_cases=2)
    builder.add(0, "swapped", [Edit(0, 5, "cough")])
    plan = replace(PLAN, cohort=pictures, variants=builder.build())
    with pytest.raises(ConfigError, match="model 'm' reads images, but audit 'asks' alters texts"):
        fit(model(reads="image"), cohort=pictures, plan=plan)


def test_a_model_that_looks_cases_up_needs_to_tell_cohorts_apart() -> None:
    from palpate.cases.cohort import stack

    frame = pl.DataFrame({"case_id": ["1", "2"], "text": ["fever", "well"], "ill": [1, 0]})
    both = stack([Cohort.from_frame(frame, labels=["ill"], name=name) for name in ("home", "away")])
    lookup = model(reads="case", tells_cohorts_apart=False)
    with pytest.raises(ConfigError, match="two cohorts share case ids; add a column `cohort`"):
        fit(lookup, cohort=both)
    fit(model(reads="case"), cohort=both)


def test_an_audit_that_asks_for_an_unknown_model_is_refused() -> None:
    asking = replace(PLAN, requests=ModelRequests(names=("other",)))
    with pytest.raises(ConfigError, match="audit 'asks': unknown model 'other'; the models are: m"):
        fit(model(), plan=asking)


def test_an_audit_may_refuse_a_model_before_it_is_asked() -> None:
    audit = AsksForThreshold()
    with pytest.raises(ConfigError, match="model 'm' has no threshold"):
        fit(model(), audit=audit)
    fit(model(threshold=0.5), audit=audit)
    assert audit.seen == ["m", "m"]


def test_facts_are_what_the_model_declares() -> None:
    facts = facts_of(model(explains=("attention",), window="the first 5 words", uses_edits=True))
    assert (facts.explains, facts.reads, facts.uses_edits, facts.window) == (
        ("attention",),
        "text",
        True,
        "the first 5 words",
    )
