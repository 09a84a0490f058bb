"""The operating audit through the command line: report, gate, scorecard, and bad input in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.audits.operating.planted import stays
from tests.e2e.command_line import CommandLine

CONFIG = """\
cohort: {file: hours.csv, labels: [ill], stay: encounter, time: charted, attributes: [event]}
models: {vendor: "predictions:risks.csv"}
audits:
  operating:
    thresholds: {vendor: 0.5}
    capacity: {flag: 0.1, per_day: 20}
    event_time: event
    required: {sensitivity: 0.3}
    n_replicates: 200
gate:
  - operating.alerts_per_100[group=vendor] < 90
  - operating.sensitivity.low[group=flag 10%] >= 0.01
"""


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    _, _, frame = stays(300)
    table = frame.rename({"stay_id": "encounter", "time": "charted"})
    table.drop("risk").write_csv(tmp_path / "hours.csv", datetime_format="%Y-%m-%d %H:%M")
    table.select("case_id", pl.col("risk").alias("ill")).write_csv(tmp_path / "risks.csv")
    (tmp_path / "audit.yaml").write_text(CONFIG)
    return tmp_path


def test_report_gate_and_scorecard(ward: Path, palpate: CommandLine) -> None:
    ran = palpate("audit", ward / "audit.yaml", "--out", ward / "run")
    assert ran.code == 0, ran.err
    card = json.loads((ward / "run/scorecard.json").read_text())
    asked = {row["question"]: row for row in card if row["audit"] == "operating"}
    assert list(asked) == ["sensitivity"]
    assert asked["sensitivity"]["models"]["vendor"]["margin"] == 0.3
    page = (ward / "run/report.html").read_text()
    for words in ("Operating points", "Alerts over time", "What flagging more finds", "flag 10%", "20 a day"):
        assert words in page
    rows = pl.read_parquet(ward / "run/results/operating.parquet")
    assert rows.filter(metric="lead_time_hours", group="vendor")["value"].is_not_null().all()


@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        (
            "{vendor: 0.5}",
            "{vendor: 5}",
            ["option 'thresholds'", "'vendor' is 5, and a threshold lies between 0 and 1"],
        ),
        ("{vendor: 0.5}", "{vendor: high}", ["option 'thresholds.vendor': must be a number"]),
        ("{flag: 0.1, per_day: 20}", "{flag: 10}", ["a share lies between 0 and 1", "write 0.05 for 5%"]),
        ("{flag: 0.1, per_day: 20}", "{weekly: 10}", ["option 'capacity'", "'flag' or 'per_day'"]),
        ("stay: encounter, time: charted", "stay: encounter", ["column 'encounter'", "`stay` needs `time`"]),
        ("event_time: event", "event_time: evnt", ["there is no attribute 'evnt'"]),
        ("[group=vendor] < 90", "[model=vendro] < 90", ["unknown model 'vendro'"]),
    ],
    ids=["outside", "word", "share", "capacity", "no time", "event", "gate"],
)
def test_bad_input_is_one_sentence(ward: Path, palpate: CommandLine, old: str, new: str, parts: list[str]) -> None:
    (ward / "audit.yaml").write_text(CONFIG.replace(old, new))
    ran = palpate("audit", ward / "audit.yaml", "--out", ward / "run")
    assert ran.code == 2, ran.err
    said = [line for line in ran.err.splitlines() if not line.endswith("…")]
    assert len(said) == 1, ran.err
    for part in parts:
        assert part in said[0], ran.err
    assert not (ward / "run").exists()
