"""The report: a run's results as one HTML file that a clinician can read, offline and on paper.

`html.render` is the door. It takes the run's manifest and its `AuditResult`s and gives a string; nothing here
reads a run directory, calls a model or computes a statistic. `charts.to_spec` turns a `Chart` into Vega-Lite.
"""
