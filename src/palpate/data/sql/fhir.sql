-- FHIR R4: `people`, `visits`, `notes`, `conditions` and `observed`, from the rows of data/hospitals/fhir.
-- Parameters: $visit_kinds (encounter classes in upper case; empty: all), $superseded (keep, drop).
-- What was entered in error is left out; of a resource that occurs twice, the last line counts.

CREATE MACRO known_moment(instant, wall, timed) AS
    CASE WHEN wall IS NOT NULL THEN {'instant': instant, 'wall': wall, 'day': wall::DATE, 'timed': timed} END;

CREATE TABLE people AS
SELECT
    id AS person_id, birth, gender, race, ethnicity, true AS listed,
    known_moment(instant, wall, timed) AS died,
    dead AND wall IS NULL AS undated
FROM staged_patients
QUALIFY row_number() OVER (PARTITION BY id ORDER BY line DESC) = 1;

CREATE TABLE encounters AS
SELECT * FROM staged_encounters QUALIFY row_number() OVER (PARTITION BY id ORDER BY line DESC) = 1;

CREATE TABLE visits AS
SELECT
    id AS visit_id, person_id,
    known_moment(instant, wall, timed) AS began,
    known_moment(end_instant, end_wall, end_timed) AS ended,
    len($visit_kinds) = 0 OR list_contains($visit_kinds, upper(kind)) AS wanted,
    expired
FROM encounters
WHERE status NOT IN ('entered-in-error', 'cancelled', 'planned');

CREATE TABLE documents AS
SELECT
    -- Ids are unique within a type only.
    CASE WHEN count(DISTINCT resource) OVER (PARTITION BY id) > 1 THEN resource || '/' || id ELSE id END AS note_id,
    *
FROM staged_documents
QUALIFY row_number() OVER (PARTITION BY resource, id ORDER BY line DESC) = 1;

-- A DocumentReference may repeat the text of a DiagnosticReport: the earlier one of the same visit is kept.
CREATE TABLE notes AS
WITH judged AS (
    SELECT
        note_id, person_id, visit_id, category, md5(text) AS content,
        known_moment(instant, wall, timed) AS written,
        CASE
            WHEN status IN ('entered-in-error', 'cancelled') THEN 'error'
            WHEN status = 'superseded' AND $superseded = 'drop' THEN 'superseded'
            WHEN NOT chosen THEN 'type'
            WHEN text IS NULL THEN 'no text'
            WHEN NOT regexp_matches(text, '\S') THEN 'blank'
            WHEN wall IS NULL THEN 'undated'
        END AS dropped
    FROM documents
)
SELECT
    * REPLACE (
        CASE WHEN dropped IS NULL AND row_number() OVER (
                 PARTITION BY dropped, person_id, visit_id, content
                 ORDER BY written.instant, length(note_id), note_id) > 1
             THEN 'repeat' ELSE dropped END AS dropped
    )
FROM judged;

CREATE VIEW texts AS SELECT note_id, text FROM documents;

CREATE TABLE judged_conditions AS
SELECT
    *,
    CASE WHEN status IN ('entered-in-error', 'refuted') THEN 'error'
         WHEN NOT chosen THEN 'other'
         WHEN wall IS NULL AND had_by IS NULL THEN 'undated' END AS dropped
FROM staged_conditions
QUALIFY row_number() OVER (PARTITION BY id ORDER BY line DESC) = 1;

CREATE TABLE judged_observations AS
SELECT
    *,
    CASE WHEN status = 'entered-in-error' THEN 'error'
         WHEN code IS NULL OR value IS NULL THEN 'other'
         WHEN wall IS NULL THEN 'undated' END AS dropped
FROM staged_observations
QUALIFY row_number() OVER (PARTITION BY id ORDER BY line DESC) = 1;

-- Of an onset that is a month or a year, `had_by` is the last day: who had it by then is known, not when it began.
CREATE TABLE conditions AS
SELECT person_id, known_moment(instant, wall, timed) AS began, had_by FROM judged_conditions WHERE dropped IS NULL;

CREATE TABLE observed (person_id VARCHAR, from_day DATE, to_day DATE);
