-- `labelled`: each stay with a discharge summary, whether the patient was readmitted, and why it is not used.
-- Parameters: $days; $deaths, $newborns (drop, keep); $overlaps, $transfers, $electives (count, ignore, drop);
-- $transfer_hours.

CREATE TABLE labelled AS
WITH latest AS (
    SELECT max(admittime) AS admittime FROM stays
),
documented AS (
    SELECT stays.* FROM stays SEMI JOIN parts USING (hadm_id)
),
-- Every later stay of the same patient, by time of admission (then of discharge, if any), and what kind of return it
-- would be. A patient who died has none: a stay that follows is an organ donation.
returns AS (
    SELECT
        here.hadm_id,
        there.hadm_id AS next_hadm_id,
        there.admittime,
        coalesce(there.dischtime, 'infinity'::TIMESTAMP) AS dischtime,
        there.admittime <= here.dischtime + to_days($days::INTEGER) AS soon,
        there.admittime < here.dischtime AS is_overlap,
        there.admittime BETWEEN here.dischtime AND here.dischtime + to_seconds($transfer_hours * 3600) AS is_transfer,
        coalesce(there.elective, false) AS is_elective
    FROM documented AS here
    JOIN stays AS there
      ON NOT coalesce(here.died, false)
     AND there.subject_id = here.subject_id
     AND (
         there.admittime > here.admittime
         OR (
             there.admittime = here.admittime
             AND (coalesce(there.dischtime, 'infinity'::TIMESTAMP), there.hadm_id)
                 > (coalesce(here.dischtime, 'infinity'::TIMESTAMP), here.hadm_id)
         )
     )
),
-- The next stay: the first one that the options do not ignore.
next_stay AS (
    SELECT
        hadm_id,
        soon,
        soon AND (
            (is_overlap AND $overlaps = 'drop')
            OR (is_transfer AND $transfers = 'drop')
            OR (is_elective AND $electives = 'drop')
        ) AS spoils
    FROM returns
    WHERE NOT (is_overlap AND $overlaps = 'ignore')
      AND NOT (is_transfer AND $transfers = 'ignore')
      AND NOT (is_elective AND $electives = 'ignore')
    QUALIFY row_number() OVER (PARTITION BY hadm_id ORDER BY admittime, dischtime, next_hadm_id) = 1
)
SELECT
    documented.*,
    coalesce(next_stay.soon, false) AS readmission,
    CASE
        WHEN dischtime IS NULL THEN 'no discharge'
        WHEN dischtime < documented.admittime THEN 'backwards'
        WHEN died AND $deaths = 'drop' THEN 'death'
        WHEN newborn AND $newborns = 'drop' THEN 'newborn'
        WHEN dischtime > latest.admittime - to_days($days::INTEGER) THEN 'last month'
        WHEN next_stay.spoils THEN 'next stay'
    END AS dropped
FROM documented CROSS JOIN latest LEFT JOIN next_stay USING (hadm_id);
