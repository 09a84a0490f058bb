-- From `notes` and `stays` to `screened` (each note, and why it is not used) and `parts` (the notes that make up the
-- text of each stay). Texts stay in `notes`: data/hospitals/discharge.py joins them in batches.
-- Parameters: $summaries (join, first, last), $addenda (join, leave).

CREATE TABLE screened AS
WITH checked AS (
    SELECT
        notes.rowid AS note_row,
        notes.subject_id,
        notes.hadm_id,
        notes.note_id,
        notes.note_order,
        notes.written,
        notes.is_addendum,
        md5(notes.text) AS content,
        CASE
            WHEN notes.is_error THEN 'error'
            WHEN notes.text IS NULL OR NOT regexp_matches(notes.text, '\S') THEN 'blank'
            WHEN notes.hadm_id IS NULL THEN 'no stay'
            WHEN stays.hadm_id IS NULL THEN 'unknown stay'
            WHEN stays.subject_id <> notes.subject_id THEN 'other patient'
        END AS dropped
    FROM notes LEFT JOIN stays USING (hadm_id)
),
summarised AS (
    SELECT DISTINCT hadm_id FROM checked WHERE dropped IS NULL AND NOT is_addendum
)
SELECT
    checked.* REPLACE (
        CASE WHEN dropped IS NULL AND is_addendum AND summarised.hadm_id IS NULL
             THEN 'no summary' ELSE dropped END AS dropped
    )
FROM checked LEFT JOIN summarised USING (hadm_id);

-- The parts of each text in their order: summaries by time, then addenda by time.
-- The same text twice in a stay is a copy, not a second summary: the earlier one is kept.
CREATE TABLE parts AS
WITH originals AS (
    SELECT * FROM screened
    WHERE dropped IS NULL AND NOT (is_addendum AND $addenda = 'leave')
    QUALIFY row_number() OVER (PARTITION BY hadm_id, content ORDER BY is_addendum, written, note_order, note_id) = 1
),
placed AS (
    SELECT
        *,
        row_number() OVER (kind ORDER BY written, note_order, note_id) AS from_first,
        count(*) OVER (kind) AS n
    FROM originals
    WINDOW kind AS (PARTITION BY hadm_id, is_addendum)
)
SELECT
    hadm_id, subject_id, note_row, is_addendum,
    row_number() OVER (PARTITION BY hadm_id ORDER BY is_addendum, from_first) AS place
FROM placed
WHERE is_addendum
   OR $summaries = 'join'
   OR ($summaries = 'first' AND from_first = 1)
   OR ($summaries = 'last' AND from_first = n);
