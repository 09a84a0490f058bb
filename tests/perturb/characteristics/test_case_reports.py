"""Case reports that were read once give what was found right then; what was wrong is counted."""

from __future__ import annotations

import pytest

from palpate.perturb.characteristics import Alterer

from .case_reports import GROUPS, abstracts, is_here, outcome, read_expected

pytestmark = pytest.mark.skipif(not is_here(), reason="../shared/data is not here")
_MOST_WRONG = 0.02


def test_at_most_two_in_a_hundred_are_wrong() -> None:
    alterer, texts, expected = Alterer(("gender", "age"), sure="normal"), abstracts(), read_expected()
    altered = 0
    wrong = []
    for key, told in expected.items():
        found = alterer.plan(texts[key])
        for group in GROUPS:
            now = outcome(alterer, found, group)
            altered += now not in ("-", "kept")
            if now != told[group[1]] and now not in ("-", "kept"):
                wrong.append((key, group))
    assert len(expected) > 150
    assert altered > 800
    assert len(wrong) <= _MOST_WRONG * altered, wrong


def test_at_most_a_fifth_of_the_stated_genders_is_skipped() -> None:
    for group in ("female", "male", "trans woman", "trans man", "non-binary"):
        told = [row[group] for row in read_expected().values()]
        assert told.count("-") <= 0.2 * len(told), group
