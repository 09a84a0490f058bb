"""The real run of docs/nih-chest-xray.md: CheXNet on NIH ChestX-ray14, audited against what earlier films showed.

    python benchmarks/nih_context.py --data DIR --out DIR [--replicates 10000] [--caliper 0.01]

`--data` holds `Data_Entry_2017_v2020.csv.gz` (labels, age, sex, follow-up number) and `chexnet_predictions.csv`. For
each film, context is what the patient's earlier films showed, age, sex and follow-up number. The pre-test model learns
from the patients for whom there are no predictions. Writes cohort, estimates and report, and prints the page's tables,
in which * is significant, corrected over the labels of a comparison, and ° is not tested.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import polars as pl

from palpate.audits.context.groups import PRETEST
from palpate.commands.audit import audit
from palpate.results.verdicts import MARGINS, judge

LABELS = (
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
    "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening", "Hernia",
)  # fmt: skip
MODEL = "chexnet"
CONFIG = """\
title: CheXNet on NIH ChestX-ray14, and what earlier films showed
cohort:
  file: films.parquet
  case: image
  patient: patient
  split: split
  time: time
  labels: [{labels}]
  attributes: [age, sex, follow_up]
models:
  {model}: predictions:chexnet.csv
audits:
  context:
    attributes: [age, sex, follow_up]
    n_replicates: {replicates}
    {caliper}
"""
LOCAL, GLOBAL = "sensitivity_at_local_specificity", "sensitivity_at_global_specificity"
SPECIFICITY = "specificity_at_global_threshold"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--replicates", type=int, default=10_000)
    parser.add_argument("--caliper", type=float)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    write_inputs(args.data, args.out)
    caliper = "" if args.caliper is None else f"caliper: {args.caliper}"
    config = args.out / "audit.yaml"
    config.write_text(
        CONFIG.format(labels=", ".join(LABELS), model=MODEL, replicates=args.replicates, caliper=caliper),
        encoding="utf-8",
    )
    start, processor = time.perf_counter(), time.process_time()
    outcome = audit(config, out=args.out / f"run{time.time_ns()}", workers=1)
    spent = time.process_time() - processor
    print(f"{time.perf_counter() - start:.0f} s, {spent:.0f} processor seconds")
    result = next(each for each in outcome.results if each.audit == "context")  # beside the checks of the data
    for finding in result.findings:
        print(f"- {finding.kind} ({finding.question or 'in general'}): {finding.sentence}")
    for answer in result.answers:
        print(f"{answer.question}: {answer.verdict}, {answer.label} {answer.value:+.3f}, margin {answer.margin:+.2f}")
    tell(result.estimates)
    print(outcome.report)


def write_inputs(data: Path, out: Path) -> None:
    """The films as a cohort: those with predictions are the test split, all other patients' are for training."""
    predictions = pl.read_csv(data / "chexnet_predictions.csv")
    predictions.rename({"Image Index": "case_id", **{f"prob_{label}": label for label in LABELS}}).write_csv(
        out / "chexnet.csv"
    )
    entries = pl.read_csv(data / "Data_Entry_2017_v2020.csv.gz", truncate_ragged_lines=True)
    found = pl.col("Finding Labels").str.split("|")
    predicted = pl.col("Image Index").is_in(predictions["Image Index"].implode())
    entries.select(
        image="Image Index",
        patient="Patient ID",
        split=pl.when(predicted).then(pl.lit("test")).otherwise(pl.lit("train")),
        # The set has no dates, only an order: a day for each follow-up.
        time=pl.date(2000, 1, 1) + pl.duration(days=pl.col("Follow-up #")),
        age=pl.col("Patient Age").clip(0, 100),  # a few films of babies say 400 years
        sex="Patient Gender",
        follow_up="Follow-up #",
        **{label: found.list.contains(label).cast(pl.UInt8) for label in LABELS},
    ).write_parquet(out / "films.parquet")


def tell(estimates: pl.DataFrame) -> None:
    """The tables of the page, as Markdown."""
    rows = {(r["metric"], r["model"], r["label"], r["group"], r["reference"]): r for r in estimates.to_dicts()}

    def level(label: str, group: str, metric: str = "auroc", model: str = MODEL) -> str:
        return number(rows[metric, model, label, group, None]["value"])

    def change(label: str, group: str, reference: str, metric: str = "auroc") -> str:
        row = rows[metric, MODEL, label, group, reference]
        if row["value"] is None:
            return f"({row['reason']})"
        star = "*" if row["significant"] else "°" if row["significant"] is None else ""
        return f"{row['value']:+.3f}{star} ({number(row['low'], '+')} to {number(row['high'], '+')})".replace("-", "−")

    def verdict(label: str, group: str, reference: str) -> str:
        row = rows["auroc", MODEL, label, group, reference]
        return "unsettled" if row["significant"] is None else judge(-row["high"], -row["low"], MARGINS["auroc"].value)

    print("\n| label | positive | history alone | CheXNet | re-weighted | matched | change, matched | verdict |")
    print("|---|---|---|---|---|---|---|---|")
    for label in (*LABELS, "macro"):
        n = rows["auroc", MODEL, label, "all", None]["n_positive"]
        cells = [level(label, "all", model=PRETEST), *(level(label, g) for g in ("all", "re-weighted", "matched"))]
        change_of, judged = change(label, "matched", "all"), verdict(label, "matched", "all")
        print(f"| {label} | {n:,} | {' | '.join(cells)} | {change_of} | {judged} |")
    print("\n| label | bottom 25% | middle 50% | top 25% | top less bottom | verdict |\n|---|---|---|---|---|---|")
    for label in LABELS:
        cells = [level(label, g) for g in ("bottom 25%", "middle 50%", "top 25%")]
        groups = ("top 25%", "bottom 25%")
        print(f"| {label} | {' | '.join(cells)} | {change(label, *groups)} | {verdict(label, *groups)} |")
    for metric in (LOCAL, GLOBAL, SPECIFICITY):
        print(
            f"\n{metric}\n| label | bottom 25% | top 25% | top less bottom | matched less all |\n|---|---|---|---|---|"
        )
        for label in LABELS:
            cells = [level(label, g, metric) for g in ("bottom 25%", "top 25%")]
            changes = change(label, "top 25%", "bottom 25%", metric), change(label, "matched", "all", metric)
            print(f"| {label} | {' | '.join(cells)} | {' | '.join(changes)} |")
    print("\n| label | found before | not found before | difference | gain over history |\n|---|---|---|---|---|")
    for label in LABELS:
        cells = [level(label, g) for g in ("found before", "not found before")]
        gain = rows["auroc_gain_over_context", MODEL, label, "all", PRETEST]
        more = f"{number(gain['value'])}{'*' if gain['significant'] else ''}"
        print(f"| {label} | {' | '.join(cells)} | {change(label, 'found before', 'not found before')} | {more} |")
    print("\n| label | history matched | history re-weighted | effective positives |\n|---|---|---|---|")
    for label in LABELS:
        cells = [level(label, group, model=PRETEST) for group in ("matched", "re-weighted")]
        size = rows["effective_positives", PRETEST, label, "re-weighted", None]["value"]
        print(f"| {label} | {' | '.join(cells)} | {number(size, digits=0)} |")


def number(value: Any, sign: str = "", digits: int = 3) -> str:
    return "–" if value is None else f"{value:{sign}.{digits}f}".replace("-", "−")


if __name__ == "__main__":
    main()
