-- `labelled`: each stay with a discharge summary, its outcomes, and why it is not used.
-- Parameters: $newborns (drop, keep), $task (mortality, diagnoses, both).

CREATE TABLE labelled AS
SELECT
    stays.*,
    diagnosed.codes,
    CASE
        WHEN newborn AND $newborns = 'drop' THEN 'newborn'
        WHEN diagnosed.codes IS NULL AND $task <> 'mortality' THEN 'no diagnosis'
    END AS dropped
FROM stays SEMI JOIN parts USING (hadm_id)
LEFT JOIN diagnosed USING (hadm_id);
