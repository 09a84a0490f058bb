-- MIMIC-IV: `notes`, the discharge summaries (note_type DS) and their addenda (AD), from note/discharge.
-- The same columns as mimic_iii_notes.sql; MIMIC-IV marks no notes as errors.

CREATE TABLE notes AS
SELECT
    note_id,
    coalesce(as_id(note_seq, 'discharge', 'note_seq'), 0) AS note_order,
    need_id(subject_id, 'discharge', 'subject_id') AS subject_id,
    as_id(hadm_id, 'discharge', 'hadm_id') AS hadm_id,
    as_time(charttime, 'discharge', 'charttime') AS written,
    coalesce(upper(note_type) = 'AD', false) AS is_addendum,
    false AS is_error,
    text
FROM discharge;
