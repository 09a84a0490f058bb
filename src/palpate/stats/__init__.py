"""Statistics as free functions of arrays: no files, no state, no printing.

Every function takes `weight` where that is meaningful, and equals scikit-learn's with `sample_weight`, ties included.
An undefined number is nan (AUROC with one class); a wrong argument is a `ValueError` of one sentence. A row is
predicted positive if its score is at least the threshold.

discrimination  auroc  auprc  sensitivity_at_specificity  threshold_at_specificity  operating_point
                youden_threshold  recall_threshold  capacity_threshold
confusion       confusion  sensitivity_at_threshold  specificity_at_threshold  ppv  npv  precision_recall_f1
calibration     brier  brier_skill_score  adaptive_calibration_error  calibration_curve
bootstrap       bootstrap  resample_counts  macro_average  METRICS  NOISE  THRESHOLD_METRICS
clustered       ratio_replicates  resampled_ratios
intervals       percentile_interval  error_interval  wilson_interval  standard_error
                interval_p_value  widen_interval  adjust
score_intervals (import from the module) metric_intervals  contrast_interval: intervals that hold with few patients
ranks           average_ranks  spearman  pearson  resampled_ranks  resampled_spearman  resampled_pearson
                correlation_interval  correlation_difference_interval
agreement       krippendorff_alpha  fleiss_kappa  hooper_consistency  kendall_w
curves          decision_curves

With a pre-test probability (the context audit):

context                    quantile_strata
context.matching           matched_share  balance
context.matched_bootstrap  matched_bootstrap
context.weighting          context_weights  effective_size  weight_warnings  reweighted_bootstrap
context.incremental        context_gain  combine_logits

What only the evidence audit uses is imported from its own modules: `evidence` (words and spans; precision, recall and
F1 under resampled charts; thresholds), `evidence.faithfulness` (how far a probability falls without its evidence) and
`evidence.annotation_agreement` (annotators who give words several codes).

Two models, per label and on average, and two groups of rows, all under the same resamples of patients:

    seed = int(rng.integers(2**63))
    r = bootstrap(y_true, y_score, metrics=("auroc", "brier"), patient=patient, rng=seed)
    r.point                                        # [model, metric, label], on the data
    percentile_interval(r.values)                  # low and high, [model, metric, label]
    difference = r.values[0] - r.values[1]         # [metric, label, replicate], paired
    low, high = percentile_interval(difference)    # [metric, label]
    interval_p_value(r.point[0] - r.point[1], low, high)
    percentile_interval(macro_average(r.values, axis=2))
    old = bootstrap(y_true, y_score, rows=is_old, patient=patient, rng=seed)
    young = bootstrap(y_true, y_score, rows=~is_old, patient=patient, rng=seed)
    old.values - young.values                      # paired too
    # micro average: all (row, label) pairs pooled
    bootstrap(y_true.ravel(), y_score.ravel(), patient=np.repeat(patient, n_labels), rng=seed)

Numba is imported when a bootstrap, `resample_counts` or `matched_share` is called, not before.
"""

from palpate.stats.agreement import fleiss_kappa, hooper_consistency, kendall_w, krippendorff_alpha
from palpate.stats.arguments import METRICS, NOISE, THRESHOLD_METRICS
from palpate.stats.bootstrap import Replicates, bootstrap, macro_average, resample_counts
from palpate.stats.calibration import (
    CalibrationCurve,
    adaptive_calibration_error,
    brier,
    brier_skill_score,
    calibration_curve,
)
from palpate.stats.clustered import ratio_replicates, resampled_ratios
from palpate.stats.confusion import (
    ClassScores,
    Confusion,
    confusion,
    npv,
    ppv,
    precision_recall_f1,
    sensitivity_at_threshold,
    specificity_at_threshold,
)
from palpate.stats.context import Strata, quantile_strata
from palpate.stats.context.incremental import ContextGain, combine_logits, context_gain
from palpate.stats.context.matched_bootstrap import matched_bootstrap
from palpate.stats.context.matching import Balance, balance, matched_share
from palpate.stats.context.weighting import (
    ContextWeights,
    WeightLimits,
    WeightWarning,
    context_weights,
    effective_size,
    reweighted_bootstrap,
    weight_warnings,
)
from palpate.stats.curves import DecisionCurves, decision_curves
from palpate.stats.discrimination import (
    Capacity,
    OperatingPoint,
    auprc,
    auroc,
    capacity_threshold,
    operating_point,
    recall_threshold,
    sensitivity_at_specificity,
    threshold_at_specificity,
    youden_threshold,
)
from palpate.stats.intervals import (
    Interval,
    adjust,
    error_interval,
    interval_p_value,
    percentile_interval,
    standard_error,
    widen_interval,
    wilson_interval,
)
from palpate.stats.ranks import (
    average_ranks,
    correlation_difference_interval,
    correlation_interval,
    pearson,
    resampled_pearson,
    resampled_ranks,
    resampled_spearman,
    spearman,
)

__all__ = [
    "METRICS",
    "NOISE",
    "THRESHOLD_METRICS",
    "Balance",
    "CalibrationCurve",
    "Capacity",
    "ClassScores",
    "Confusion",
    "ContextGain",
    "ContextWeights",
    "DecisionCurves",
    "Interval",
    "OperatingPoint",
    "Replicates",
    "Strata",
    "WeightLimits",
    "WeightWarning",
    "adaptive_calibration_error",
    "adjust",
    "auprc",
    "auroc",
    "average_ranks",
    "balance",
    "bootstrap",
    "brier",
    "brier_skill_score",
    "calibration_curve",
    "capacity_threshold",
    "combine_logits",
    "confusion",
    "context_gain",
    "context_weights",
    "correlation_difference_interval",
    "correlation_interval",
    "decision_curves",
    "effective_size",
    "error_interval",
    "fleiss_kappa",
    "hooper_consistency",
    "interval_p_value",
    "kendall_w",
    "krippendorff_alpha",
    "macro_average",
    "matched_bootstrap",
    "matched_share",
    "npv",
    "operating_point",
    "pearson",
    "percentile_interval",
    "ppv",
    "precision_recall_f1",
    "quantile_strata",
    "ratio_replicates",
    "recall_threshold",
    "resample_counts",
    "resampled_pearson",
    "resampled_ranks",
    "resampled_ratios",
    "resampled_spearman",
    "reweighted_bootstrap",
    "sensitivity_at_specificity",
    "sensitivity_at_threshold",
    "spearman",
    "specificity_at_threshold",
    "standard_error",
    "threshold_at_specificity",
    "weight_warnings",
    "widen_interval",
    "wilson_interval",
    "youden_threshold",
]
