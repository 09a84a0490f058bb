-- From `notes` and `labelled` to `parts`: the notes of each case in their order, none of them later than the index.
-- `notes.dropped` gets the reason for those that are in no case. `notes.known` is when a note became known, if that is not when
-- it was written; `replacements` (note_id, known) says from when on another note counts in its place.
-- Parameters: $cases (visits, notes), $same_day, $grace_hours, $window_days, $which (all, first, last).

CREATE TABLE kept AS SELECT * FROM labelled WHERE dropped IS NULL;

CREATE TABLE links AS
WITH usable AS (
    SELECT note_id, person_id, visit_id, written, known, content FROM notes WHERE dropped IS NULL
),
linked AS (
    SELECT usable.*, kept.case_id, kept.moment
    FROM usable JOIN kept ON kept.case_id = usable.note_id
    WHERE $cases = 'notes'
    UNION ALL
    SELECT usable.*, kept.case_id, kept.moment
    FROM usable JOIN kept ON kept.visit_id = usable.visit_id AND kept.person_id = usable.person_id
    WHERE $cases = 'visits'
    UNION ALL
    -- A note that names no visit belongs to the visit in whose time it was written, else to one that begins soon after it or
    -- has just ended; of several to the last one to begin.
    (SELECT usable.*, kept.case_id, kept.moment
     FROM usable JOIN kept
       ON kept.person_id = usable.person_id
      AND (usable.written.day BETWEEN kept.began.day - $window_days::INTEGER AND later_by(kept.moment, $grace_hours).day
           OR contains_moment(kept.began, kept.ended, usable.written))
     WHERE $cases = 'visits' AND usable.visit_id IS NULL
     QUALIFY row_number() OVER (PARTITION BY usable.note_id ORDER BY
         contains_moment(kept.began, kept.ended, usable.written) DESC, kept.began.wall DESC, kept.case_id) = 1)
)
SELECT *, not_after(coalesce(known, written), later_by(moment, $grace_hours), $same_day) AS in_time FROM linked;

CREATE TABLE outlived AS
SELECT DISTINCT links.note_id
FROM links JOIN replacements USING (note_id)
WHERE $cases = 'visits' AND not_after(replacements.known, later_by(links.moment, $grace_hours), $same_day);

-- The same text twice in a case is a copy: the earlier one is kept.
CREATE TABLE parts AS
WITH originals AS (
    SELECT * FROM links ANTI JOIN outlived USING (note_id) WHERE in_time
    QUALIFY row_number() OVER (PARTITION BY case_id, content ORDER BY written.instant, length(note_id), note_id) = 1
),
placed AS (
    SELECT *, row_number() OVER (every ORDER BY written.instant, length(note_id), note_id) AS place, count(*) OVER (every) AS n
    FROM originals WINDOW every AS (PARTITION BY case_id)
)
SELECT note_id, case_id, place FROM placed
WHERE $which = 'all' OR ($which = 'first' AND place = 1) OR ($which = 'last' AND place = n);

CREATE TABLE screened AS
SELECT
    notes.person_id AS subject_id,
    CASE WHEN notes.dropped IS NOT NULL THEN notes.dropped
         WHEN links.note_id IS NULL AND notes.visit_id IS NOT NULL AND visits.visit_id IS NULL THEN 'unknown visit'
         WHEN links.note_id IS NULL AND visits.person_id <> notes.person_id THEN 'other patient'
         WHEN links.note_id IS NULL THEN 'no case'
         WHEN NOT links.in_time THEN 'late'
         WHEN outlived.note_id IS NOT NULL THEN 'replaced'
         WHEN parts.note_id IS NULL THEN 'copy' END AS dropped
FROM notes LEFT JOIN links USING (note_id) LEFT JOIN parts USING (note_id)
LEFT JOIN outlived USING (note_id) LEFT JOIN visits ON visits.visit_id = notes.visit_id;
