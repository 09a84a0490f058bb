-- `billed`: the ICD-9 codes that each admission was billed with, without dots, from DIAGNOSES_ICD and PROCEDURES_ICD.

CREATE TABLE billed AS
SELECT DISTINCT
    need_id(hadm_id, 'diagnoses_icd', 'hadm_id') AS hadm_id,
    'ICD-9-CM' AS code_system,
    upper(replace(icd9_code, '.', '')) AS code
FROM diagnoses_icd
WHERE icd9_code IS NOT NULL
UNION ALL
SELECT DISTINCT
    need_id(hadm_id, 'procedures_icd', 'hadm_id'),
    'ICD-9-PCS',
    upper(replace(icd9_code, '.', ''))
FROM procedures_icd
WHERE icd9_code IS NOT NULL;
