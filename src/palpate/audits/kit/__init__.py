"""What two audits or more need, and what a plug-in's author imports (as `palpate.kit`).

scope       cohort, split, labels: options and their checks
thresholds  where a probability becomes a decision
resampling  settings of the bootstrap; the mean of a measure by patient
rows        estimate rows: written, looked up, corrected for multiple comparisons
metrics     metrics of models x labels with replicates, as rows
ensembles   models of several seeds
wording     numbers in sentences
tables      estimates as table cells, columns and chart points
"""

from palpate.audits.kit.ensembles import append_ensembles, ensemble_spread, member_places
from palpate.audits.kit.metrics import (
    MetricReplicates,
    class_units,
    level_rows,
    model_differences,
    population_differences,
    replicates_frame,
    spread_rows,
)
from palpate.audits.kit.resampling import (
    FEWEST_FOR_INTERVAL,
    FEWEST_FOR_TEST,
    Correction,
    MeanInterval,
    Resampling,
    mean_with_interval,
    no_interval,
    not_tested,
)
from palpate.audits.kit.rows import EstimateIndex, RowWriter, corrected, pairs_of
from palpate.audits.kit.scope import (
    Count,
    Recall,
    Replicates,
    Share,
    Threshold,
    Unit,
    audited_cohort,
    audited_labels,
    audited_rows,
    most_frequent_labels,
    require_text,
    training_rows,
    validation_rows,
)
from palpate.audits.kit.tables import (
    DIFFERENCE,
    NO_INTERVAL,
    TESTED,
    calibration_chart,
    calibration_points,
    columns,
    difference_cells,
    forest,
    interval_cell,
    point,
    reason_of,
    table,
    tested_cells,
)
from palpate.audits.kit.thresholds import ThresholdRule, Thresholds, check_rule, decide_thresholds
from palpate.audits.kit.wording import counted, interval, listed, number, ordinal, p_value, percent, quoted

__all__ = [
    "DIFFERENCE",
    "FEWEST_FOR_INTERVAL",
    "FEWEST_FOR_TEST",
    "NO_INTERVAL",
    "TESTED",
    "Correction",
    "Count",
    "EstimateIndex",
    "MeanInterval",
    "MetricReplicates",
    "Recall",
    "Replicates",
    "Resampling",
    "RowWriter",
    "Share",
    "Threshold",
    "ThresholdRule",
    "Thresholds",
    "Unit",
    "append_ensembles",
    "audited_cohort",
    "audited_labels",
    "audited_rows",
    "calibration_chart",
    "calibration_points",
    "check_rule",
    "class_units",
    "columns",
    "corrected",
    "counted",
    "decide_thresholds",
    "difference_cells",
    "ensemble_spread",
    "forest",
    "interval",
    "interval_cell",
    "level_rows",
    "listed",
    "mean_with_interval",
    "member_places",
    "model_differences",
    "most_frequent_labels",
    "no_interval",
    "not_tested",
    "number",
    "ordinal",
    "p_value",
    "pairs_of",
    "percent",
    "point",
    "population_differences",
    "quoted",
    "reason_of",
    "replicates_frame",
    "require_text",
    "spread_rows",
    "table",
    "tested_cells",
    "training_rows",
    "validation_rows",
]
