-- `chart_notes`: the notes of annotated and coded admissions, from NOTEEVENTS.
-- The view `noteevents` is already limited to the admissions in `charts` and to the notes in `annotated`.

CREATE TABLE chart_notes AS
SELECT
    need_id(row_id, 'noteevents', 'row_id') AS note_id,
    as_id(subject_id, 'noteevents', 'subject_id') AS subject_id,
    as_id(hadm_id, 'noteevents', 'hadm_id') AS hadm_id,
    -- Discharge summaries have a date and usually no time.
    coalesce(
        as_time(charttime, 'noteevents', 'charttime'),
        as_time(chartdate, 'noteevents', 'chartdate')
    ) AS written,
    coalesce(category, '') AS category,
    coalesce(lower(category) = 'discharge summary', false) AS is_summary,
    coalesce(lower(description) LIKE '%addend%', false) AS is_addendum,
    coalesce(as_flag(iserror, 'noteevents', 'iserror'), false) AS is_error,
    text
FROM noteevents;
