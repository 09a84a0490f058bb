"""Tables of evidence and of notes: what is refused, and codes that nobody gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from palpate.audits.evidence import Evidence
from palpate.cases.evidence import EvidenceTable
from palpate.errors import CohortError, ConfigError
from tests.audits.evidence.evidence_charts import audit, charts, knower, quick, table, value

PLAIN: dict[str, Any] = {"faithfulness": False, "explain": "none"}
RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("change", "column", "says"),
    [
        ({"case_id": "nobody"}, "case_id", "no case 'nobody'"),
        ({"label": "Z99"}, "label", "no label 'Z99'"),
        ({"end": 100_000}, "end", "ends at 100000"),
    ],
)
def test_tables_are_refused_by_row_and_column(change: dict[str, object], column: str, says: str) -> None:
    cohort, gold = charts(20)
    rows = gold.to_dicts()
    rows[2] |= change
    spoilt = pl.DataFrame(rows, schema=gold.schema)
    sides: list[dict[str, Any]] = [{"gold": table(spoilt)}]
    if column != "label":  # a code that only a model gives is false, and no error
        sides.append({"gold": table(gold), "predicted": {"toy": table(spoilt)}})
    for options in sides:
        with pytest.raises(CohortError, match=f"row 3, column '{column}'.*{says}"):
            Evidence(**options).plan(cohort, RNG(0))


def test_a_code_that_nobody_gave_counts_as_false(tmp_path: Path) -> None:
    cohort, gold = charts()
    extra = gold.with_columns(label=pl.lit("Z99"))
    given = {"toy": table(pl.concat([gold, extra])), "pure": table(gold)}
    evidence = quick(gold, predicted=given, codes="all", **PLAIN)
    result = audit(evidence, cohort, tmp_path, toy=knower(), pure=knower())
    assert value(result, "token_recall") == 1.0
    assert value(result, "token_precision") < 1.0
    assert value(result, "codes_false") > 0.0
    assert value(result, "codes_false", model="pure") == 0.0
    assert value(result, "token_precision", model="pure") == 1.0
    assert "1 label that is not among the cohort's" in " ".join(finding.sentence for finding in result.findings)


def test_a_models_predictions_are_no_gold_evidence() -> None:
    cohort, gold = charts(20)
    predictions = EvidenceTable(gold, file=Path("MDACE/predictions/one"), by_model=True)
    with pytest.raises(ConfigError, match="a folder of a model's predictions, not what coders marked"):
        Evidence(gold=predictions).plan(cohort, np.random.default_rng(0))
    Evidence(gold=table(gold), predicted={"toy": predictions}).plan(cohort, np.random.default_rng(0))
