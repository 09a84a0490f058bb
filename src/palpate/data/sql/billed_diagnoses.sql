-- `billed`: the codes that each admission was billed with; first the ICD-9 diagnoses of DIAGNOSES_ICD, without dots.

CREATE TABLE billed AS
SELECT DISTINCT
    need_id(hadm_id, 'diagnoses_icd', 'hadm_id') AS hadm_id,
    'ICD-9-CM' AS code_system,
    upper(replace(icd9_code, '.', '')) AS code
FROM diagnoses_icd
WHERE icd9_code IS NOT NULL;
