-- FHIR R4: `people`, `visits`, `notes`, `conditions` and `observed`, from the rows of data/hospitals/fhir.
-- Parameters: $visit_kinds (encounter classes in upper case; empty: all), $superseded (keep, drop), $parts (merge, keep),
-- $cases (visits, notes).
-- What was entered in error is left out. Of several versions of a resource the newest counts: that of the latest
-- meta.lastUpdated, then of the highest meta.versionId that is a number, then the last line; one that states none is older.
-- Of notes and observations it is the newest one at the index.

CREATE MACRO known_moment(instant, wall, timed) AS
    CASE WHEN wall IS NOT NULL THEN {'instant': instant, 'wall': wall, 'day': wall::DATE, 'timed': timed} END;

CREATE TABLE people AS
SELECT
    id AS person_id, birth, gender, race, ethnicity, true AS listed,
    known_moment(instant, wall, timed) AS died,
    dead AND wall IS NULL AS undated
FROM staged_patients
QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated DESC NULLS LAST, version DESC NULLS LAST, line DESC) = 1;

CREATE TABLE encounters AS
SELECT * FROM staged_encounters
QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated DESC NULLS LAST, version DESC NULLS LAST, line DESC) = 1;

CREATE TABLE stays AS
SELECT
    id AS visit_id, person_id, part_of,
    known_moment(instant, wall, timed) AS began,
    known_moment(end_instant, end_wall, end_timed) AS ended,
    len($visit_kinds) = 0 OR list_contains($visit_kinds, upper(kind)) AS wanted,
    expired
FROM encounters
WHERE status NOT IN ('entered-in-error', 'cancelled', 'planned');

-- With $parts = merge, a wanted encounter that is part of another wanted one of the patient, such as a ward in a stay, is
-- no visit of its own: what belongs to it belongs to the outermost encounter, its `visit_id`. Who is part of himself stays.
CREATE TABLE wholes AS
WITH RECURSIVE up AS (
    SELECT here.visit_id AS part, there.visit_id, there.part_of, [here.visit_id, there.visit_id] AS seen
    FROM stays AS here JOIN stays AS there ON there.visit_id = here.part_of AND there.person_id = here.person_id
    WHERE $parts = 'merge' AND here.wanted AND there.wanted
    UNION ALL
    SELECT up.part, there.visit_id, there.part_of, list_append(up.seen, there.visit_id)
    FROM up JOIN stays AS there ON there.visit_id = up.part_of
    JOIN stays AS here ON here.visit_id = up.part AND here.person_id = there.person_id
    WHERE there.wanted AND NOT list_contains(up.seen, there.visit_id)
)
SELECT part, max_by(visit_id, len(seen)) AS visit_id FROM up
GROUP BY part HAVING NOT coalesce(bool_or(part = part_of), false);

CREATE TABLE visits AS SELECT * EXCLUDE (part_of) FROM stays ANTI JOIN wholes ON wholes.part = stays.visit_id;

-- Of a note a case is to know the version that there was at its index. `known` is when a version came about: the first one at
-- the note's own time, a later one at its own time too if that is later than the one's before it, else when it was stored
-- (meta.lastUpdated), and where nothing says when, at the same time as the one before it. So does a note that says that it was amended, but not when. Servers store a note again for many reasons,
-- so meta.lastUpdated tells nothing of a note of which there is one version.
CREATE MACRO later_of(a, b) AS CASE WHEN b IS NULL THEN a WHEN a IS NULL OR not_after(a, b, true) THEN b ELSE a END;
CREATE MACRO came_about(place, written, before, amended, stored) AS
    CASE WHEN place = 1 AND NOT amended THEN written
         WHEN place > 1 AND NOT not_after(written, before, true) THEN written
         ELSE coalesce(later_of(written, stored), before) END;

CREATE TABLE versions AS
WITH once AS (
    SELECT
        line, resource, id, status, amended, updated, version,
        known_moment(instant, wall, timed) AS written, known_moment(updated, updated_wall, true) AS stored
    FROM staged_documents
    QUALIFY row_number() OVER (PARTITION BY resource, id, updated, version ORDER BY line DESC) = 1
),
placed AS (
    SELECT *, row_number() OVER every AS place, lag(written) OVER every AS before
    FROM once WINDOW every AS (PARTITION BY resource, id ORDER BY updated NULLS FIRST, version NULLS FIRST, line)
)
SELECT line, resource, id, status, place, stored, came_about(place, written, before, amended, stored) AS known FROM placed;

-- A version that a newer one followed at the same time never counted.
CREATE TABLE documents AS
WITH passed AS (
    SELECT DISTINCT older.line FROM versions AS older JOIN versions AS newer USING (resource, id)
    WHERE newer.place > older.place AND not_after(newer.known, older.known, newer.known.timed = older.known.timed)
),
numbered AS (
    SELECT line, known, stored, row_number() OVER (PARTITION BY resource, id ORDER BY place) AS edition
    FROM versions ANTI JOIN passed USING (line)
),
-- Who withdraws a note says that it never was the patient's.
withdrawn AS (
    SELECT resource, id FROM versions GROUP BY resource, id
    HAVING max_by(status, place) IN ('entered-in-error', 'cancelled')
)
SELECT
    -- Ids are unique within a type only.
    CASE WHEN count(DISTINCT resource) OVER (PARTITION BY id) > 1 THEN resource || '/' || id ELSE id END
        || CASE WHEN edition > 1 THEN '/_history/' || edition ELSE '' END AS note_id,
    withdrawn.id IS NOT NULL AS withdrawn, edition, known, stored, staged.*
FROM staged_documents AS staged JOIN numbered USING (line) LEFT JOIN withdrawn USING (resource, id);

CREATE TABLE judged_documents AS
SELECT
    note_id, person_id, coalesce(wholes.visit_id, documents.visit_id) AS visit_id, category, md5(text) AS content,
    known_moment(instant, wall, timed) AS written, known, resource, id, edition, replaces, status,
    CASE
        WHEN withdrawn OR status IN ('entered-in-error', 'cancelled') THEN 'error'
        WHEN NOT chosen THEN 'type'
        WHEN text IS NULL THEN 'no text'
        WHEN NOT regexp_matches(text, '\S') THEN 'blank'
        WHEN wall IS NULL THEN 'undated'
        WHEN edition > 1 AND $cases = 'notes' THEN 'version'
    END AS dropped
FROM documents LEFT JOIN wholes ON wholes.part = documents.visit_id;

-- What counts no longer, and from when: a version after which a newer one came, and a document that another one replaces.
CREATE TABLE replacements AS
SELECT older.note_id, newer.known FROM judged_documents AS older JOIN judged_documents AS newer USING (resource, id)
WHERE newer.edition > older.edition
UNION ALL
SELECT older.note_id, newer.known
FROM (SELECT *, unnest(string_split(replaces, chr(10))) AS replaced FROM judged_documents WHERE dropped IS NULL) AS newer
JOIN judged_documents AS older
  ON older.id = newer.replaced AND older.resource = 'DocumentReference' AND older.person_id = newer.person_id
 AND older.id <> newer.id;

-- A DocumentReference may repeat the text of a DiagnosticReport: the earlier one of the same visit is kept, and of the same day, if
-- they name no visit.
CREATE TABLE notes AS
WITH judged AS (
    SELECT
        * EXCLUDE (replaces) REPLACE (
            CASE WHEN status = 'superseded' AND $superseded = 'drop' AND replacements.note_id IS NULL
                 THEN coalesce(nullif(dropped, 'version'), 'superseded') ELSE dropped END AS dropped),
        replacements.note_id IS NOT NULL AS outlived
    FROM judged_documents LEFT JOIN (SELECT DISTINCT note_id FROM replacements) AS replacements USING (note_id)
)
SELECT
    note_id, person_id, visit_id, category, content, written, known,
    CASE WHEN dropped IS NULL AND NOT outlived AND row_number() OVER (
             PARTITION BY dropped, outlived, person_id, visit_id, CASE WHEN visit_id IS NULL THEN written.day END, content
             ORDER BY known.instant, length(note_id), note_id) > 1
         THEN 'repeat' ELSE dropped END AS dropped
FROM judged;

CREATE VIEW texts AS SELECT note_id, text FROM documents;

-- Every version of what was asked for in any of them: the newest may have another code.
CREATE VIEW asked_conditions AS
SELECT * FROM staged_conditions SEMI JOIN (SELECT id FROM staged_conditions WHERE chosen) USING (id);

CREATE VIEW asked_observations AS
SELECT * FROM staged_observations SEMI JOIN (SELECT id FROM staged_observations WHERE code IS NOT NULL) USING (id);

CREATE TABLE judged_conditions AS
SELECT
    *,
    CASE WHEN status IN ('entered-in-error', 'refuted', 'differential') THEN 'error'
         WHEN NOT chosen THEN 'other'
         WHEN wall IS NULL AND had_by IS NULL THEN 'undated' END AS dropped
FROM asked_conditions
QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated DESC NULLS LAST, version DESC NULLS LAST, line DESC) = 1;

-- Like notes, observations have versions, of which a case knows what there was at its index.
CREATE TABLE observation_versions AS
WITH once AS (
    SELECT *, known_moment(instant, wall, timed) AS issued, known_moment(updated, updated_wall, true) AS stored
    FROM asked_observations
    QUALIFY row_number() OVER (PARTITION BY id, updated, version ORDER BY line DESC) = 1
),
placed AS (
    SELECT *, row_number() OVER every AS place, lag(issued) OVER every AS before
    FROM once WINDOW every AS (PARTITION BY id ORDER BY updated NULLS FIRST, version NULLS FIRST, line)
)
SELECT
    id, person_id, code, value, taken, place, came_about(place, issued, before, false, stored) AS known,
    code IS NOT NULL AND value IS NOT NULL AND issued IS NOT NULL AS usable,
    max_by(status, place) OVER (PARTITION BY id) IN ('entered-in-error', 'cancelled') AS withdrawn
FROM placed;

CREATE TABLE judged_observations AS
SELECT
    id, max_by(person_id, place) AS person_id,
    CASE WHEN bool_or(withdrawn) THEN 'error'
         WHEN NOT bool_or(code IS NOT NULL AND value IS NOT NULL) THEN 'other'
         WHEN NOT bool_or(usable) THEN 'undated' END AS dropped
FROM observation_versions GROUP BY id;

-- Of an onset that is a month or a year, `had_from` is the first day and `had_by` the last one: when between them it began is
-- not known.
CREATE TABLE conditions AS
SELECT person_id, known_moment(instant, wall, timed) AS began, had_from, had_by FROM judged_conditions WHERE dropped IS NULL;

CREATE TABLE observed (person_id VARCHAR, from_day DATE, to_day DATE);
