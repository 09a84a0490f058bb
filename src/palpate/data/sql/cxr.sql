-- From `shots`, `studies`, `stays` and `notes` to `history` (the notes that can be context, and since when they are
-- known) and `labelled` (each image, what it has, and why it is not used).
-- Parameters: $per (image, study), $views (all, frontal), $uncertain (zeros, ones, ignore), $addenda (join, leave).

CREATE TABLE screened AS
SELECT
    notes.rowid AS note_row,
    notes.subject_id,
    notes.hadm_id,
    notes.note_id,
    notes.note_order,
    notes.written,
    notes.is_addendum,
    stays.admittime,
    stays.dischtime,
    md5(notes.text) AS content,
    CASE
        WHEN notes.is_addendum AND $addenda = 'leave' THEN 'addendum'
        WHEN notes.text IS NULL OR NOT regexp_matches(notes.text, '\S') THEN 'blank'
        WHEN notes.hadm_id IS NULL THEN 'no stay'
        WHEN stays.hadm_id IS NULL THEN 'unknown stay'
        WHEN stays.subject_id <> notes.subject_id THEN 'other patient'
        WHEN stays.dischtime IS NULL THEN 'no discharge'
        WHEN notes.written IS NULL THEN 'no chart time'
    END AS dropped
FROM notes LEFT JOIN stays USING (hadm_id);

-- A note is known to a study if its stay had begun and ended and the note was charted, all strictly before the study.
-- Of several copies of a text in a stay, the one known first is kept, so that a later copy changes nothing.
CREATE TABLE history AS
WITH dated AS (
    SELECT *, greatest(admittime, dischtime, written) AS known_from FROM screened WHERE dropped IS NULL
),
originals AS (
    SELECT * FROM dated
    QUALIFY row_number() OVER (
        PARTITION BY hadm_id, content ORDER BY known_from, is_addendum, note_order, note_id
    ) = 1
)
SELECT
    *,
    row_number() OVER (
        PARTITION BY subject_id ORDER BY known_from, admittime, hadm_id, is_addendum, note_order, note_id
    ) AS place
FROM originals;

CREATE TABLE known AS
SELECT studies.subject_id, studies.study_id, count(*) AS n_prior_notes
FROM studies JOIN history ON history.subject_id = studies.subject_id AND history.known_from < studies.time
GROUP BY studies.subject_id, studies.study_id;

CREATE TABLE admitted_before AS
SELECT studies.subject_id, studies.study_id, count(*) AS n_prior_admissions
FROM studies
JOIN stays
  ON stays.subject_id = studies.subject_id AND greatest(stays.admittime, stays.dischtime) < studies.time
 AND stays.dischtime IS NOT NULL
GROUP BY studies.subject_id, studies.study_id;

CREATE TABLE labelled AS
WITH people AS (
    SELECT
        need_id(subject_id, 'patients', 'subject_id') AS subject_id,
        as_id(anchor_age, 'patients', 'anchor_age') AS anchor_age,
        as_id(anchor_year, 'patients', 'anchor_year') AS anchor_year,
        gender
    FROM patients
),
-- One image per study: frontal before lateral, then the one whose id comes first.
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY subject_id, study_id
        ORDER BY coalesce(view IN ('PA', 'AP'), false) DESC, view = 'PA' DESC NULLS LAST, dicom_id
    ) AS choice
    FROM shots
),
aged AS (
    SELECT
        ranked.*,
        people.subject_id IS NULL AS stranger,
        people.gender,
        -- A patient's age is given for one year, the anchor; ages over 89 form one group, 91.
        people.anchor_age + year(ranked.time) - people.anchor_year AS years
    FROM ranked LEFT JOIN people USING (subject_id)
)
SELECT
    aged.dicom_id, aged.subject_id, aged.study_id, aged.time, aged.gender, aged.view,
    CASE WHEN years > 89 THEN 91 WHEN years >= 0 THEN years END AS age,
    studies.* EXCLUDE (subject_id, study_id, time, uncertain),
    coalesce(admitted_before.n_prior_admissions, 0) AS n_prior_admissions,
    coalesce(known.n_prior_notes, 0) AS n_prior_notes,
    CASE
        WHEN aged.time IS NULL THEN 'no time'
        WHEN studies.study_id IS NULL THEN 'no labels'
        WHEN stranger THEN 'unknown patient'
        WHEN $views = 'frontal' AND NOT coalesce(view IN ('PA', 'AP'), false) THEN 'view'
        WHEN $per = 'study' AND choice > 1 THEN 'further image'
        WHEN $uncertain = 'ignore' AND studies.uncertain THEN 'uncertain'
        WHEN admitted_before.n_prior_admissions IS NULL THEN 'no earlier admission'
        WHEN known.n_prior_notes IS NULL THEN 'no earlier note'
    END AS dropped
FROM aged
LEFT JOIN studies ON studies.subject_id = aged.subject_id AND studies.study_id = aged.study_id
LEFT JOIN known ON known.subject_id = aged.subject_id AND known.study_id = aged.study_id
LEFT JOIN admitted_before ON admitted_before.subject_id = aged.subject_id AND admitted_before.study_id = aged.study_id;

-- Images of one study, and studies between two admissions, have the same notes: each text is joined once.
CREATE TABLE contexts AS
SELECT subject_id, n_prior_notes, row_number() OVER (ORDER BY subject_id, n_prior_notes) AS number
FROM (SELECT DISTINCT subject_id, n_prior_notes FROM labelled WHERE dropped IS NULL);
