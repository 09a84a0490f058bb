-- MEDS: the notes and attributes of each label, as of its prediction time, which is included.
-- `labels` (case_id, subject_id, prediction_time) and the view `events` are there.
-- Parameters: $codes (a regular expression for codes of notes), $window_days (NULL: all), $last (NULL: all).

-- A note without a time is counted, but is in no case.
CREATE TABLE notes AS
SELECT event AS note_id, subject_id, code AS category, time, md5(text_value) AS content
FROM events
WHERE text_value IS NOT NULL AND regexp_full_match(code, $codes, 'si')
  AND regexp_matches(text_value, '\S');

CREATE VIEW texts AS SELECT event AS note_id, text_value AS text FROM events;

CREATE TABLE parts AS
WITH linked AS (
    SELECT notes.*, labels.case_id
    FROM labels JOIN notes
      ON notes.subject_id = labels.subject_id
     AND notes.time <= labels.prediction_time
     AND ($window_days IS NULL OR notes.time >= labels.prediction_time - to_seconds($window_days * 86400))
    -- The same text twice in a case is a copy: the earlier one is kept.
    QUALIFY row_number() OVER (PARTITION BY case_id, content ORDER BY time, length(note_id), note_id) = 1
),
placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY case_id ORDER BY time, length(note_id), note_id) AS place,
        count(*) OVER (PARTITION BY case_id) AS n
    FROM linked
)
SELECT note_id, case_id, place FROM placed WHERE $last IS NULL OR place > n - $last;
