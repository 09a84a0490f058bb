"""What each group of gender is compared with: contrasts that differ in one thing, and captions that say in what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from palpate.audits.characteristics import Characteristics
from palpate.audits.characteristics.arms import AS_IS, ArmSpec
from palpate.audits.characteristics.contrasts import contrasts
from palpate.audits.characteristics.plan import AlteredNotes
from palpate.cases.cohort import Cohort
from palpate.cases.edits import splice
from palpate.results import AuditResult, Chart, Plan, Predictions, Table
from palpate.testing import KeywordModel
from tests.audits.characteristics.altered_notes import answer, frame, notes

QUICK = Characteristics(alter=("gender",), n_replicates=200, threshold=0.4, observed="none")


def run(audit: Characteristics, model: KeywordModel) -> tuple[Plan[AlteredNotes], AuditResult]:
    plan = audit.plan(notes(), np.random.default_rng(0))
    return plan, audit.analyse(plan, Predictions({"m": answer(plan, model)}), np.random.default_rng(1))


def compared(result: AuditResult, metric: str = "difference") -> dict[tuple[str, str], float]:
    rows = result.estimates.filter(pl.col("metric") == metric, pl.col("reference").is_not_null())
    return {(row["group"], row["reference"]): row["value"] for row in rows.iter_rows(named=True)}


def test_a_transgender_woman_is_compared_with_a_woman() -> None:
    names = ("female", "male", "trans woman", "trans man", "non-binary", "transgender")
    spec = ArmSpec(("gender",), tuple((name,) for name in names))
    assert contrasts(spec, 1) == (1, 1, 0, 1, 1, AS_IS)
    assert contrasts(spec, 0) == (0, 0, 0, 1, 0, AS_IS)
    both = ArmSpec(("gender", "ethnicity"), (("trans woman", "none"), ("female", "none")))
    assert contrasts(both, 1) == (1, 1)


def test_a_model_that_reads_pronouns_shows_no_effect_of_transgender() -> None:
    """Compared with male, all of this model's effect of "she" would count as one of "transgender"."""
    _, result = run(QUICK, KeywordModel({"she": 0.9, "woman": 0.4, "fever": 1.0}, bias=-1.0))
    found = compared(result)
    assert found["gender=trans woman", "gender=female"] == 0.0
    assert found["gender=trans man", "gender=male"] == 0.0
    assert found["gender=female", "gender=male"] > 0.1
    assert ("gender=trans woman", "gender=male") not in found


def test_a_model_that_reads_transgender_shows_it_alone() -> None:
    plan, result = run(QUICK, KeywordModel({"she": 0.9, "transgender": 0.5, "fever": 1.0}, bias=-1.0))
    found = compared(result)
    texts = [plan.cohort.texts[int(row)] for row in plan.memory.arms[0].rows]
    base = -1.0 + np.asarray(["fever" in text for text in texts])

    def mean(logit: np.ndarray) -> float:
        return float((1 / (1 + np.exp(-logit))).mean())

    wanted = mean(base + 0.9 + 0.5) - mean(base + 0.9)
    assert found["gender=trans woman", "gender=female"] == pytest.approx(wanted, abs=1e-12)
    assert found["gender=trans man", "gender=male"] == pytest.approx(mean(base + 0.5) - mean(base), abs=1e-12)
    flips = compared(result, "flip_rate")
    assert flips["gender=trans man", "gender=male"] != flips["gender=trans man", "gender=as written"]


def test_the_mention_alone_is_compared_with_the_note_as_written() -> None:
    audit = replace(QUICK, transgender="mention")
    plan, result = run(audit, KeywordModel({"she": 0.9, "transgender": 0.5, "fever": 1.0}, bias=-1.0))
    arm = plan.memory.arms[0]
    assert arm.groups == ("female", "male", "transgender")
    for k, row in enumerate(arm.rows.tolist()):
        edits = plan.variants.edits(arm.first + k * 3 + 2)
        text = plan.cohort.texts[row]
        assert splice(text, edits).replace("transgender ", "") == text
    rows = result.estimates.filter(metric="difference", group="gender=transgender")
    assert rows["reference"].to_list() == ["gender=as written"]
    flips = result.estimates.filter(metric="flip_rate", group="gender=transgender")
    assert flips["reference"].to_list() == ["gender=as written"], "said once"
    written = result.estimates.filter(metric="mean_probability", group="gender=as written")["value"][0]
    moved = result.estimates.filter(metric="mean_probability", group="gender=transgender")["value"][0]
    assert rows["value"][0] == pytest.approx(moved - written, abs=1e-12)


def test_captions_and_findings_say_what_differs() -> None:
    _, result = run(QUICK, KeywordModel({"transgender": 2.5, "fever": 1.0}, bias=-1.0))
    captions = [
        block.caption for block in result.blocks if isinstance(block, Table | Chart) and "Gender" in block.title
    ]
    assert len(captions) > 1
    for caption in captions:
        assert "'trans woman' is compared with 'female' and differs in the one word 'transgender' (" in caption
        assert "the sentence 'She is transgender.' where the note has pronouns only" in caption
        assert "('they', with its verbs); the words for a spouse and the first name are as written." in caption
    assert any("a transgender" in finding.sentence for finding in result.findings)
    _, mention = run(replace(QUICK, transgender="mention"), KeywordModel({"transgender": 2.5}, bias=-1.0))
    assert "adding the word 'transgender', and nothing else," in mention.findings[0].sentence


def test_the_coverage_is_told_with_reasons_by_count() -> None:
    table = frame(240)
    texts = table["text"].to_list()
    for k in range(0, len(texts), 5):
        texts[k] = "IMPRESSION: No acute process."
    for k in range(1, len(texts), 5):
        texts[k] = "Patient is a 40 year old woman with a uterine fibroid. She takes aspirin."
    cohort = Cohort.from_frame(
        table.with_columns(text=pl.Series(texts)).drop("frail"), labels=["ill"], attributes=("age", "gender")
    )
    audit = replace(QUICK, transgender="mention")
    plan = audit.plan(cohort, np.random.default_rng(0))
    model = KeywordModel({"fever": 1.0})
    result = audit.analyse(plan, Predictions({"m": answer(plan, model)}), np.random.default_rng(1))
    block = next(b for b in result.blocks if isinstance(b, Table) and b.title == "How many notes could be altered")
    name, n, said, altered, share = block.rows[0]
    test = cohort.rows(split="test").tolist()
    silent, fibroid = sum(row % 5 == 0 for row in test), sum(row % 5 == 1 for row in test)
    assert (name, n, said, altered) == ("gender", len(test), len(test) - silent, len(test) - silent - fibroid)
    assert share == pytest.approx(altered / said)
    reasons = next(b for b in result.blocks if isinstance(b, Table) and b.title == "Why notes could not be altered")
    counts = {row[2]: row[3] for row in reasons.rows}
    assert counts.pop("contradictory: female anatomy or obstetrics") == fibroid
    assert list(counts.values()) == [silent]
