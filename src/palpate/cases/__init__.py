"""What is audited: the cohort, edits of its notes, evidence spans, and hashes of texts."""
