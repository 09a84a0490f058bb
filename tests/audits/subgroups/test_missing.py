"""Missing scores in the subgroups audit: counted by group, and left out for all models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from palpate.audits.subgroups import Subgroups
from palpate.testing import check_declared
from tests.audits.subgroups.planted import find, planted, run


def test_missing_scores_by_group() -> None:
    cohort, p = planted()
    race = cohort.cases["race"].fill_null("").to_numpy()
    gone = np.random.default_rng(1).random(len(p)) < np.where(race == "b", 0.3, 0.02)
    audit = Subgroups(by=("race",), n_replicates=200, threshold=0.4)
    result = run(audit, cohort, {"m": np.where(gone, np.nan, p), "whole": p})
    check_declared(audit, result)
    for group, rows in {"all": race == race, "race=b": race == "b", "race=a": race == "a"}.items():
        share = find(result, "missing_share", group, model="m")
        assert share["value"] == pytest.approx(gone[rows].mean(), abs=1e-12)
        assert share["low"] <= share["value"] <= share["high"]
        kept = rows & ~gone
        level = find(result, "auroc", group, model="whole")
        assert level["n"] == kept.sum()
        assert level["value"] == pytest.approx(sk.roc_auc_score(cohort.y.toarray()[kept, 0], p[kept]), abs=1e-12)
    assert (
        find(result, "missing_share", "race=b", model="m")["low"]
        > find(result, "missing_share", "all", model="m")["high"]
    )
    assert any("m has no score" in finding.sentence for finding in result.findings)
