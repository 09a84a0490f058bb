-- `diagnosed`: the three-digit ICD-9 groups of each stay, from DIAGNOSES_ICD.

CREATE TABLE diagnosed AS
WITH coded AS (
    SELECT
        need_id(hadm_id, 'diagnoses_icd', 'hadm_id') AS hadm_id,
        upper(replace(icd9_code, '.', '')) AS code
    FROM diagnoses_icd
    WHERE icd9_code IS NOT NULL
),
-- The group is the code up to the point: 428.0 is 428, V45.81 is V45, E849.0 is E849.
groups AS (
    SELECT DISTINCT hadm_id, CASE WHEN code LIKE 'E%' THEN left(code, 4) ELSE left(code, 3) END AS code
    FROM coded
)
SELECT hadm_id, list(code ORDER BY code) AS codes
FROM groups
GROUP BY hadm_id;
