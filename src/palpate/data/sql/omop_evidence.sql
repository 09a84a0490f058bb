-- `spans`: the words that NOTE_NLP found for some concepts, and where in their note.
-- Parameter: $concepts. A term that the note denies (term_exists N) is no evidence.

CREATE TABLE spans AS
SELECT
    as_key(note_id, 'note_nlp', 'note_id') AS note_id,
    -- The column is text in the CDM; some systems write start-end.
    try_cast(regexp_extract("offset", '^\d+') AS BIGINT) AS start,
    lexical_variant AS words
FROM note_nlp
WHERE list_contains($concepts, as_id(note_nlp_concept_id, 'note_nlp', 'note_nlp_concept_id'))
  AND lexical_variant IS NOT NULL
  AND NOT coalesce(regexp_matches(term_exists, '^(n|0|f)', 'i'), false);
