-- OMOP CDM 5.3 and 5.4: `people`, `visits`, `notes`, `conditions` and `observed`, from the tables of the same names.
-- Parameters: $visit_kinds (concept ids; empty: all), $classes, $types (concept ids; empty: all),
-- $titles (a regular expression, or NULL), $concepts (concept ids), $descendants, $race (source, concept).

CREATE MACRO named(concept, source, tab, col) AS
    CASE as_id(concept, tab, col)
        WHEN 8507 THEN 'male' WHEN 8532 THEN 'female' WHEN 8521 THEN 'other' WHEN 8551 THEN 'unknown'
        WHEN 8527 THEN 'White' WHEN 8516 THEN 'Black or African American' WHEN 8515 THEN 'Asian'
        WHEN 8557 THEN 'Native Hawaiian or Other Pacific Islander' WHEN 8657 THEN 'American Indian or Alaska Native'
        WHEN 8522 THEN 'Other Race' WHEN 38003563 THEN 'Hispanic or Latino' WHEN 38003564 THEN 'Not Hispanic or Latino'
        -- 0 means that the source's value has no concept: the value itself is what is known.
        ELSE coalesce(source, CASE WHEN as_id(concept, tab, col) > 0 THEN 'concept ' || as_id(concept, tab, col) END) END;

-- What the source says, if that is words and no code such as 5 or W; else what the concept is called.
CREATE MACRO in_words(concept, source, wanted, tab, col) AS
    CASE WHEN wanted = 'source' AND regexp_matches(source, '\pL\pL') THEN source
         ELSE named(concept, source, tab, col) END;

CREATE MACRO born(year, month, day) AS coalesce(
    try_cast(printf('%04d-%02d-%02d', year, month, day) AS TIMESTAMP),
    try_cast(printf('%04d-%02d-15', year, month) AS TIMESTAMP),
    try_cast(printf('%04d-07-01', year) AS TIMESTAMP));

CREATE TABLE people AS
WITH deaths AS (
    SELECT
        need_key(person_id, 'death', 'person_id') AS person_id,
        moment(death_date, death_datetime, 'death', 'death_date', 'death_datetime') AS died
    FROM death
),
persons AS (
    SELECT
        need_key(person_id, 'person', 'person_id') AS person_id,
        coalesce(
            as_date(birth_datetime, 'person', 'birth_datetime'),
            -- Of a birth without a month or a day, or with one that is on no calendar, the middle of what is known.
            born(as_id(year_of_birth, 'person', 'year_of_birth'),
                 as_id(month_of_birth, 'person', 'month_of_birth'),
                 as_id(day_of_birth, 'person', 'day_of_birth'))
        ) AS birth,
        named(gender_concept_id, gender_source_value, 'person', 'gender_concept_id') AS gender,
        in_words(race_concept_id, race_source_value, $race, 'person', 'race_concept_id') AS race,
        in_words(ethnicity_concept_id, ethnicity_source_value, $race, 'person', 'ethnicity_concept_id') AS ethnicity
    FROM person
)
-- Who died is known of those too who are not in PERSON.
SELECT
    person_id, birth, gender, race, ethnicity, persons.person_id IS NOT NULL AS listed, first_death.died,
    first_death.person_id IS NOT NULL AND first_death.died IS NULL AS undated
FROM persons
FULL JOIN (SELECT person_id, min_by(died, died.instant) AS died FROM deaths GROUP BY person_id) AS first_death
  USING (person_id);

CREATE TABLE visits AS
SELECT
    need_key(visit_occurrence_id, 'visit_occurrence', 'visit_occurrence_id') AS visit_id,
    need_key(person_id, 'visit_occurrence', 'person_id') AS person_id,
    moment(visit_start_date, visit_start_datetime, 'visit_occurrence', 'visit_start_date', 'visit_start_datetime') AS began,
    moment(visit_end_date, visit_end_datetime, 'visit_occurrence', 'visit_end_date', 'visit_end_datetime') AS ended,
    len($visit_kinds) = 0
        OR list_contains($visit_kinds, as_id(visit_concept_id, 'visit_occurrence', 'visit_concept_id')) AS wanted,
    -- Patient died.
    coalesce(coalesce(
        as_id(discharged_to_concept_id, 'visit_occurrence', 'discharged_to_concept_id'),
        as_id(discharge_to_concept_id, 'visit_occurrence', 'discharge_to_concept_id')) = 4216643, false) AS expired
FROM visit_occurrence;

CREATE TABLE notes AS
WITH cells AS (
    SELECT
        need_key(note_id, 'note', 'note_id') AS note_id,
        need_key(person_id, 'note', 'person_id') AS person_id,
        nullif(as_key(visit_occurrence_id, 'note', 'visit_occurrence_id'), '0') AS visit_id,
        moment(note_date, note_datetime, 'note', 'note_date', 'note_datetime') AS written,
        as_id(note_class_concept_id, 'note', 'note_class_concept_id') AS class,
        as_id(note_type_concept_id, 'note', 'note_type_concept_id') AS type,
        coalesce(nullif(note_title, '0'), note_source_value, '') AS title,
        md5(note_text) AS content,
        note_text IS NULL OR NOT regexp_matches(note_text, '\S') AS blank
    FROM note
)
SELECT
    note_id, person_id, visit_id, written, CASE WHEN false THEN written END AS known, title AS category, content,
    CASE
        WHEN len($classes) > 0 AND NOT coalesce(list_contains($classes, class), false) THEN 'class'
        WHEN len($types) > 0 AND NOT coalesce(list_contains($types, type), false) THEN 'type'
        WHEN $titles IS NOT NULL AND NOT regexp_full_match(title, $titles, 'si') THEN 'title'
        WHEN blank THEN 'blank'
        WHEN written IS NULL THEN 'undated'
    END AS dropped
FROM cells;

CREATE TABLE replacements (note_id VARCHAR, known STRUCT(instant TIMESTAMP, wall TIMESTAMP, "day" DATE, timed BOOLEAN));

CREATE VIEW texts AS SELECT as_key(note_id, 'note', 'note_id') AS note_id, note_text AS text FROM note;

CREATE TABLE conditions AS
WITH sought AS (
    SELECT unnest($concepts)::BIGINT AS concept
    UNION
    SELECT as_id(descendant_concept_id, 'concept_ancestor', 'descendant_concept_id')
    FROM concept_ancestor
    WHERE $descendants AND list_contains($concepts,
        as_id(ancestor_concept_id, 'concept_ancestor', 'ancestor_concept_id'))
)
SELECT
    need_key(person_id, 'condition_occurrence', 'person_id') AS person_id,
    moment(condition_start_date, condition_start_datetime, 'condition_occurrence', 'condition_start_date', 'condition_start_datetime') AS began,
    NULL::DATE AS had_from,
    NULL::DATE AS had_by
FROM condition_occurrence
SEMI JOIN sought
  ON sought.concept = as_id(condition_concept_id, 'condition_occurrence', 'condition_concept_id');

CREATE TABLE periods AS
SELECT
    need_key(person_id, 'observation_period', 'person_id') AS person_id,
    need_day(observation_period_start_date, 'observation_period', 'observation_period_start_date') AS from_day,
    need_day(observation_period_end_date, 'observation_period', 'observation_period_end_date') AS to_day
FROM observation_period;

-- Periods that touch or overlap, merged.
CREATE TABLE observed AS
WITH marked AS (
    SELECT *, coalesce(from_day > 1 + max(to_day) OVER (
        PARTITION BY person_id ORDER BY from_day, to_day ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS new
    FROM periods
),
numbered AS (
    SELECT *, sum(new::INTEGER) OVER (PARTITION BY person_id ORDER BY from_day, to_day ROWS UNBOUNDED PRECEDING) AS period
    FROM marked
)
SELECT person_id, min(from_day) AS from_day, max(to_day) AS to_day FROM numbered GROUP BY person_id, period;
