"""Which notes are perturbed, that groups stay paired, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from palpate.audits.robustness import Robustness
from palpate.cases.edits import splice
from palpate.errors import ConfigError
from palpate.perturb.robustness import BUILT_IN
from palpate.perturb.robustness.own import from_function

from .written_notes import cohort

NOTES = cohort(60)


def plan(audit: Robustness, seed: int = 0):  # type: ignore[no-untyped-def]
    return audit.plan(NOTES, np.random.default_rng(seed))


def texts_of(made, group: str) -> list[str]:  # type: ignore[no-untyped-def]
    rows = made.variants.rows_of(group)
    return [splice(NOTES.texts[int(made.variants.parent[row])], made.variants.edits(int(row))) for row in rows]


def test_every_group_of_a_perturbation_holds_the_same_notes_and_all_others_have_a_reason() -> None:
    made = plan(Robustness())
    names = {arm.name for arm in made.memory.arms}
    assert names == set(BUILT_IN)
    for arm in made.memory.arms:
        assert arm.variants.shape == (len(arm.rows), len(arm.groups))
        for g, group in enumerate(arm.group_names if len(arm.rows) else ()):
            assert made.variants.rows_of(group).tolist() == arm.variants[:, g].tolist()
            assert (made.variants.parent[arm.variants[:, g]] == arm.rows).all()
            assert (made.variants.n_edits[arm.variants[:, g]] > 0).all()
        skipped = [skip for skip in made.skips if skip.reason.startswith(f"{arm.name}: ")]
        assert sorted([*arm.rows.tolist(), *(skip.case for skip in skipped)]) == list(range(60))
        assert sum(arm.reasons.values()) == len(skipped)
    by_name = {arm.name: arm for arm in made.memory.arms}
    assert by_name["no_contractions"].reasons == {"no contraction": 60}
    assert len(by_name["brands"].rows) == sum(
        "furosemide" in t or "sertraline" in t or "metformin" in t for t in NOTES.texts
    )


def test_doses_are_nested_and_the_seed_decides() -> None:
    made = plan(Robustness(perturb=("typos",)))
    arm = made.memory.arms[0]
    for one, two, five in arm.variants:
        edits = [set(made.variants.edits(int(v))) for v in (one, two, five)]
        assert edits[0] <= edits[1] <= edits[2]
        assert len(edits[0]) < len(edits[2])
    again, other = plan(Robustness(perturb=("typos",))), plan(Robustness(perturb=("typos",)), seed=1)
    assert texts_of(again, "typos=5%") == texts_of(made, "typos=5%")
    assert texts_of(other, "typos=5%") != texts_of(made, "typos=5%")
    with_others = plan(Robustness(perturb=("ocr", "typos")))
    assert texts_of(with_others, "typos=5%") == texts_of(made, "typos=5%")


def test_own_perturbations_join_palpates() -> None:
    own = from_function(lambda text: text.replace("Rest", "Repose") if "weak" in text else None, name="repose")
    made = plan(Robustness(perturb=("case",), perturbations=(own,)))
    assert [arm.name for arm in made.memory.arms] == ["case", "repose"]
    assert made.memory.arms[1].asked
    assert all("Repose" in text for text in texts_of(made, "repose=changed"))


@pytest.mark.parametrize(
    ("audit", "says"),
    [
        (Robustness(perturb=("typo",)), "unknown perturbation 'typo'"),
        (Robustness(perturb=("typos", "typos")), "'typos' is given twice"),
        (Robustness(perturb=()), "names no perturbation"),
        (Robustness(expects={"typo": "same"}), "option 'expects': 'typo' is no perturbation of it"),
        (Robustness(perturb=("ocr",), tolerance={"typos": 0.1}), "option 'tolerance': 'typos'"),
        (Robustness(doses=(0.05, 0.01)), "option 'doses'"),
        (Robustness(doses=()), "option 'doses'"),
    ],
)
def test_what_is_refused(audit: Robustness, says: str) -> None:
    with pytest.raises(ConfigError, match=f"audit 'robustness'.*{says}"):
        plan(audit)
