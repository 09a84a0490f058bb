-- What is known of each case by its prediction time: the time of birth, and what was last said under each heading,
-- several values where they were said at the same time.
-- `headings` (heading, name) lists the codes of attributes. A code without a time is static: it always counts.

CREATE TABLE births AS
SELECT subject_id, min(time) AS birth FROM events
WHERE upper(code) = 'MEDS_BIRTH' AND time IS NOT NULL GROUP BY subject_id;

CREATE TABLE headed AS
SELECT
    events.subject_id, events.time, headings.name,
    CASE WHEN length(events.code) > length(headings.heading) + 2 THEN substr(events.code, length(headings.heading) + 3)
         ELSE coalesce(events.text_value, events.numeric_value::VARCHAR) END AS value
FROM events JOIN headings
  ON upper(events.code) = headings.heading OR starts_with(upper(events.code), headings.heading || '//');

CREATE TABLE told AS
SELECT DISTINCT labels.case_id, labels.subject_id, headed.name, headed.value
FROM labels JOIN headed
  ON headed.subject_id = labels.subject_id AND (headed.time IS NULL OR headed.time <= labels.prediction_time)
WHERE headed.value IS NOT NULL
QUALIFY rank() OVER (PARTITION BY labels.case_id, headed.name ORDER BY headed.time DESC NULLS LAST) = 1;
