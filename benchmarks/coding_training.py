"""EffectiveCAN with supervised attention on a synthetic hospital of 2,000 charts: how long, and how good.

Claim: under 15 minutes on 2 cores. Charts are those of MDACE's lists for codes, with discharge summaries of about 1,250
words; three in ten have evidence. On a busy machine the clock says little, and so does the time of the processors with
two threads, which then wait for each other: take `--set threads=1`, whose time of the processors, halved, is about what
2 idle cores need. Also printed: F1 of codes and of evidence words on the test split, thresholds from validation.

    python benchmarks/coding_training.py [--patients 1430 | --source HOSPITAL] [--kind caml] [--set NAME=VALUE]...
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from palpate.cases.cohort import Cohort
from palpate.cases.edits import Inputs
from palpate.commands.build import make_hospital
from palpate.data.cohorts.mdace import MdaceOptions, build_mdace
from palpate.models import Model, ModelSpec, load_model
from palpate.results import Asked
from palpate.stats.evidence import (
    MATCHES,
    Spans,
    count_matches,
    evidence_threshold,
    span_scores,
    spans,
    tokenise,
)
from palpate.train import TrainStep, train

LIMIT = 900.0


def gold_of(cohort: Cohort, evidence: pl.DataFrame, split: str) -> tuple[list[str], Spans]:
    """The texts of a split that have evidence, and the evidence."""
    annotated = cohort.cases["case_id"].is_in(evidence["case_id"].unique().to_list())
    rows = np.flatnonzero((annotated & (cohort.cases["split"] == split)).to_numpy())
    note = {cohort.cases["case_id"][int(row)]: k for k, row in enumerate(rows)}
    code = {label: k for k, label in enumerate(cohort.labels)}
    own = evidence.filter(pl.col("case_id").is_in(list(note)))
    columns = (
        [note[case] for case in own["case_id"]],
        own["start"].to_list(),
        own["end"].to_list(),
        [code[label] for label in own["label"]],
    )
    return [cohort.texts[row] for row in rows], spans(*(np.asarray(column, np.int64) for column in columns))


def token_f1(model: Model, cohort: Cohort, evidence: pl.DataFrame) -> tuple[float, float]:
    """The threshold of the validation split, and the F1 of evidence words on test, for all annotated codes."""
    way = model.explains[0]
    found: list[tuple[list[str], Spans, Spans, NDArray[np.float64]]] = []
    for split in ("validation", "test"):
        texts, gold = gold_of(cohort, evidence, split)
        pairs = np.unique(np.stack([gold.note, gold.code]), axis=1)
        looked = model.explain(Inputs.from_texts(texts), Asked(pairs[0], pairs[1]), way)
        pieces = Spans(looked.row, looked.start, looked.end, looked.label)
        found.append((texts, gold, pieces, looked.score))
    texts, gold, said, score = found[0]
    step = 0.05 if way == "tagging" else 0.02
    chosen = evidence_threshold(tokenise(texts), gold, said, score, step=step).chosen or 1.0
    texts, gold, said, score = found[1]
    kept = Spans(*(column[score > chosen] for column in said))
    counts = count_matches(tokenise(texts), gold, kept, chart=np.arange(len(texts)), n_codes=len(cohort.labels))
    return chosen, float(span_scores(counts, n_replicates=0).point[0, MATCHES.index("token"), 0, 2])


def code_f1(model: Model, cohort: Cohort) -> float:
    """Micro-F1 of the codes on the test split."""
    rows = cohort.rows(split="test")
    called = model.predict(Inputs.from_texts([cohort.texts[row] for row in rows])) >= (model.threshold or 0.5)
    y = cohort.y_true(rows) == 1
    return float(2 * (called & y).sum() / (called.sum() + y.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=1430)
    parser.add_argument("--source", type=Path, help="a hospital that `palpate synth` wrote")
    parser.add_argument("--kind", default="effective-can")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    asked = parser.parse_args()
    options: dict[str, Any] = {"evidence": "attention", **dict(one.split("=", 1) for one in asked.settings)}
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        source = asked.source or home / "hospital"
        if asked.source is None:
            make_hospital(source, n_patients=asked.patients, seed=0, site="a", images=False)
        built = build_mdace(source, options=MdaceOptions(charts="code-ev"))
        cohort, evidence = built.cohort, built.tables["evidence"]
        if options["evidence"] != "none":
            evidence.write_parquet(home / "evidence.parquet")
            options["evidence_table"] = home / "evidence.parquet"
        n = {name: len(cohort.rows(split=name)) for name in ("train", "validation", "test")}
        print(
            f"{len(cohort):,} charts {n}, {len(cohort.labels)} codes, {evidence.height:,} spans of evidence", flush=True
        )
        run(asked.kind, cohort, evidence, options, home / "model")


def run(kind: str, cohort: Cohort, evidence: pl.DataFrame, options: dict[str, Any], out: Path) -> None:
    clock, cpu = time.perf_counter(), time.process_time()
    last = ""

    def tell(step: TrainStep) -> None:
        nonlocal last
        if step.stage != last:
            last = step.stage
            spent = time.process_time() - cpu
            print(f"  {step.stage}: {time.perf_counter() - clock:.0f} s, processors {spent:.0f} s", flush=True)

    trained = train(kind, cohort, out, options, progress=tell)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    for folder in trained.folders:
        model = load_model(ModelSpec("m", f"palpate:{folder}"))
        threshold, f1 = token_f1(model, cohort, evidence)
        codes = code_f1(model, cohort)
        print(f"{folder.name}: codes micro-F1 {codes:.3f}; {model.explains[0]} at {threshold:g}: token F1 {f1:.3f}")
    print(f"clock {clock:.0f} s, processors {cpu:.0f} s; on 2 idle cores at most about {cpu / 2:.0f} s of {LIMIT:.0f}")


if __name__ == "__main__":
    main()
