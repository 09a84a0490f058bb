"""Predicted risks as probabilities: calibration, net benefit and recalibration, with intervals by patient.

core           core_replicates: the core set of many models and labels
intervals      risk_intervals: of what core_replicates gives
smooth         fit_curve  calibration_errors  curve_band: the smooth calibration curve
net_benefit    net_benefit  benefit_curves
distribution   risk_distribution: of cases with and without the outcome
recalibration  fit_map: intercept, slope, isotonic
logistic       fit_logistic  influences
influence      unit_codes  unit_sums  mean_influences
"""
