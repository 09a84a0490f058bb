-- From `people`, `visits`, `notes` and `conditions` to `labelled`: each index event, its outcome, and why it is not used.
-- Parameters: $cases (visits, notes), $outcome (readmission, death, condition, file), $index (start, end), $days,
-- $gap_hours, $deaths, $prevalent (drop, keep), $incomplete (drop, keep), $min_age, $has_people, $has_periods, $follow, $strays (a time, or NULL).

CREATE TABLE index_events AS
SELECT
    visit_id AS case_id, person_id, visit_id, began, ended, wanted, expired AND $index = 'end' AS expired,
    CASE WHEN $index = 'start' THEN began ELSE ended END AS moment,
    coalesce(ended IS NOT NULL AND NOT not_after(began, ended, true), false) AS backwards
FROM visits WHERE $cases = 'visits'
UNION ALL
SELECT note_id, person_id, visit_id, written, written, true, false, coalesce(known, written), false
FROM notes WHERE $cases = 'notes' AND dropped IS NULL;

-- The last day that the data are about: of all visits the last one to begin, and without visits the last note; but not from
-- $strays on, where dates are taken for mistakes.
CREATE TABLE latest AS
SELECT coalesce(
    (SELECT max_by(began, began.instant) FROM visits WHERE $strays::TIMESTAMP IS NULL OR began.instant < $strays::TIMESTAMP),
    (SELECT max_by(written, written.instant) FROM notes WHERE $strays::TIMESTAMP IS NULL OR written.instant < $strays::TIMESTAMP)) AS last_start;

CREATE TABLE labelled AS
-- When the stay of a note ends: of the visit that it names, else of those in whose time it was written.
WITH homes AS (
    SELECT here.case_id, max_by(there.ended, there.ended.instant) AS home_ended
    FROM index_events AS here JOIN visits AS there
      ON there.person_id = here.person_id
     AND (there.visit_id = here.visit_id
          OR (here.visit_id IS NULL AND there.wanted AND contains_moment(there.began, there.ended, here.moment)))
    WHERE $cases = 'notes'
    GROUP BY here.case_id
),
events AS (
    SELECT
        index_events.*, homes.home_ended, people.birth, people.gender, people.race, people.ethnicity, people.died, people.undated,
        coalesce(people.listed, false) AS known
    FROM index_events LEFT JOIN people USING (person_id) LEFT JOIN homes USING (case_id)
),
-- A return begins after this visit ended, and is listed after it: two visits of one day are not each other's return.
-- A return after a note begins after it, and not before the end of the note's stay.
returns AS (
    SELECT DISTINCT here.case_id
    FROM events AS here
    JOIN visits AS there
      ON there.person_id = here.person_id
     AND there.visit_id IS DISTINCT FROM here.visit_id
     AND there.wanted
     AND not_after(later_by(here.moment, $gap_hours), there.began, $gap_hours = 0)
     AND within_days(here.moment, there.began, $days)
     AND CASE WHEN $cases = 'notes'
         THEN NOT not_after(there.began, here.moment, true) AND coalesce(not_after(here.home_ended, there.began, true), true)
         ELSE (beside(there.began, coalesce(here.began, here.ended)),
              coalesce(beside(there.ended, here.ended), 'infinity'::TIMESTAMP), there.visit_id)
           > (beside(coalesce(here.began, here.ended), there.began),
              coalesce(beside(here.ended, there.ended), 'infinity'::TIMESTAMP), here.visit_id) END
    WHERE $outcome = 'readmission'
),
diagnosed AS (
    SELECT
        here.case_id,
        bool_or(not_after(there.began, here.moment, true) OR there.had_by < here.moment.day) AS before,
        bool_or(NOT not_after(there.began, here.moment, true) AND within_days(here.moment, there.began, $days)
                AND coalesce(there.had_by >= here.moment.day, true)
                OR there.began IS NULL AND there.had_from > here.moment.day
                AND there.had_by <= here.moment.day + $days::INTEGER) AS after,
        -- A month or a year in which the index or the end of the `days` lies, and nothing says when it was recorded.
        bool_or(there.began IS NULL AND there.had_by >= here.moment.day
                AND there.had_from <= here.moment.day + $days::INTEGER
                AND NOT (there.had_from > here.moment.day AND there.had_by <= here.moment.day + $days::INTEGER)) AS unclear
    FROM events AS here JOIN conditions AS there USING (person_id)
    WHERE $outcome = 'condition'
    GROUP BY here.case_id
),
-- The observation period in which the index lies. Who dies is followed to the end, if the data go on for long enough:
-- else deaths alone would be kept of those who could not be followed. Without periods, the data end for everyone alike.
followed AS (
    SELECT
        here.case_id,
        bool_or(here.moment.day + $days::INTEGER <= there.to_day) AS fully
    FROM events AS here
    JOIN observed AS there
      ON there.person_id = here.person_id
     AND here.moment.day BETWEEN there.from_day AND there.to_day
    WHERE $has_periods
    GROUP BY here.case_id
),
judged AS (
    SELECT
        events.*,
        returns.case_id IS NOT NULL AS returned,
        coalesce(diagnosed.before, false) AS had_before,
        coalesce(diagnosed.after, false) AS had_after,
        coalesce(diagnosed.unclear, false) AS unclear,
        coalesce(expired OR not_after(died, moment, $index = 'end'), false) AS dead,
        coalesce(within_days(moment, died, $days), false) AS dies_soon,
        coalesce(moment.day + $days::INTEGER <= (SELECT max(to_day) FROM observed), false) AS in_data,
        NOT $has_periods OR followed.case_id IS NOT NULL AS in_period,
        CASE WHEN $has_periods THEN coalesce(followed.fully, false)
             WHEN moment.timed AND latest.last_start.timed THEN moment.instant <= latest.last_start.instant - to_days($days::INTEGER)
             ELSE moment.day + $days::INTEGER <= latest.last_start.day END AS fully
    FROM events CROSS JOIN latest
    LEFT JOIN returns USING (case_id) LEFT JOIN diagnosed USING (case_id) LEFT JOIN followed USING (case_id)
),
aged AS (
    SELECT
        *,
        CASE WHEN birth IS NULL OR birth > moment.wall THEN NULL
             ELSE datesub('year', birth, moment.wall) END AS age,
        CASE $outcome WHEN 'readmission' THEN returned WHEN 'death' THEN dies_soon AND NOT dead
             WHEN 'condition' THEN had_after END AS outcome
    FROM judged
)
SELECT
    case_id, person_id, visit_id, began, ended, moment, age, gender, race, ethnicity, outcome,
    CASE
        WHEN NOT wanted THEN 'kind'
        WHEN $has_people AND NOT known THEN 'person'
        WHEN moment IS NULL THEN 'no index'
        WHEN backwards THEN 'backwards'
        WHEN dead AND ($deaths = 'drop' OR $outcome = 'death') THEN 'dead'
        WHEN $outcome = 'death' AND undated THEN 'undated death'
        WHEN $min_age > 0 AND (age IS NULL OR age < $min_age) THEN 'age'
        WHEN NOT in_period THEN 'unobserved'
        WHEN $follow AND NOT (fully OR ($has_periods AND dies_soon AND in_data) OR ($incomplete = 'keep' AND outcome)) THEN 'follow-up'
        WHEN had_before AND $prevalent = 'drop' THEN 'prevalent'
        WHEN unclear AND ($prevalent = 'drop' OR NOT had_after) THEN 'unclear'
    END AS dropped
FROM aged;
