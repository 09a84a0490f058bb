"""What two audits or more need, and what a plug-in's author imports (as `palpate.kit`).

scope       cohort, split, labels: options and their checks
thresholds  where a probability becomes a decision
resampling  settings of the bootstrap; the mean of a measure by patient
rows        estimate rows: written, looked up, corrected for multiple comparisons
metrics     metrics of models x labels with replicates, as rows; models of several seeds
wording     numbers in sentences
tables      estimates as table cells, columns and chart points
answers     estimates as answers to the scorecard's questions
paired      the same notes altered: means and shares by patient, corrected over a family
altered     findings and tables of audits that alter notes: effects in words, edits that were not seen
shifts      the notes that an alteration moves furthest
"""
