"""Readers: whatever palpate reads from disk becomes a cohort, a table or a list here, checked cell by cell.

tables       cohorts in table files (CSV, TSV, JSON Lines, Parquet), the `cohort:` of audit.yaml
hospitals    a hospital's own tables (MIMIC-III, MIMIC-IV, MIMIC-CXR-JPG), opened in DuckDB; the SQL is in `sql/`
cohorts      the papers' cohorts, built from these tables or from published corpora
annotations  evidence for codes: MDACE, WebAnno and INCEpTION
codes        ICD codes and how they map to each other
lexicons     words, ratings and replacements; phrases from PsyTAR
suites       template suites in YAML, CSV and JSON Lines
"""
