"""A random sample of altered notes, and the error rate that a clinician finds in it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from palpate.audits.characteristics.review import error_rate
from palpate.perturb.characteristics import Alterer
from palpate.perturb.characteristics.review import AlterationReview, sample_alterations

TO = {"gender": "female"}
MEN = [f"{40 + k} y/o M with asthma. He is well." for k in range(30)]
WOMEN = [f"{40 + k} y/o F with asthma. She is well." for k in range(10)]
SILENT = ["Asthma, stable."] * 5


def draw(texts: list[str], patients: list[int], n: int, seed: int = 0):  # type: ignore[no-untyped-def]
    alterer = Alterer(["gender"])
    return sample_alterations(texts, patients, alterer, TO, n=n, rng=np.random.default_rng(seed))


def test_notes_are_drawn_at_random_and_counted() -> None:
    texts = [*MEN, *WOMEN, *SILENT]
    one, same, other = (draw(texts, list(range(45)), 12, seed) for seed in (1, 1, 2))
    assert one == same
    assert len(one.notes) == 12
    assert {note.row for note in one.notes} != {note.row for note in other.notes}
    assert one.n_read == 12 + one.n_kept + sum(one.reasons.values())
    everything = draw(texts, list(range(45)), 100)
    assert sorted(note.row for note in everything.notes) == list(range(30))
    assert (everything.n_read, everything.n_kept, sum(everything.reasons.values())) == (45, 10, 5)
    assert all(reason.startswith("no mention") for reason in everything.reasons)


def test_each_note_is_as_likely_as_any_other() -> None:
    drawn = np.zeros(30)
    for seed in range(300):
        drawn[[note.row for note in draw(MEN, list(range(30)), 3, seed).notes]] += 1
    assert binomtest(int(drawn[:15].sum()), 900, 0.5).pvalue > 1e-4
    assert drawn.min() > 5


def test_a_patient_gives_one_note_at_most() -> None:
    found = draw(MEN, [k % 4 for k in range(30)], 20)
    assert len(found.notes) == 4
    assert len({note.row % 4 for note in found.notes}) == 4


@pytest.mark.parametrize(("right", "wrong"), [(40, 0), (39, 1), (5, 5), (0, 3)])
def test_the_error_rate_has_wilsons_interval(right: int, wrong: int) -> None:
    review = AlterationReview({"gender": "female", "age": "60"}, right, wrong, unsure=7, unmarked=2)
    expected = binomtest(wrong, right + wrong).proportion_ci(0.95, method="wilson")
    assert error_rate(review) == pytest.approx((wrong / (right + wrong), expected.low, expected.high))
    assert (review.characteristic, review.group) == ("gender+age", "gender=female, age=60")
