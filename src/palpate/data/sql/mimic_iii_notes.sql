-- MIMIC-III: `notes`, the discharge summaries and their addenda, from NOTEEVENTS.
-- Two million notes are streamed through once; about 60 thousand are kept. The view `noteevents` is
-- already limited to the category 'Discharge summary'.

CREATE TABLE notes AS
SELECT
    need_id(row_id, 'noteevents', 'row_id')::VARCHAR AS note_id,
    need_id(row_id, 'noteevents', 'row_id') AS note_order,
    need_id(subject_id, 'noteevents', 'subject_id') AS subject_id,
    as_id(hadm_id, 'noteevents', 'hadm_id') AS hadm_id,
    -- Discharge summaries have a date and usually no time.
    coalesce(
        as_time(charttime, 'noteevents', 'charttime'),
        as_time(chartdate, 'noteevents', 'chartdate')
    ) AS written,
    coalesce(lower(description) LIKE '%addend%', false) AS is_addendum,
    coalesce(as_flag(iserror, 'noteevents', 'iserror'), false) AS is_error,
    text
FROM noteevents;
