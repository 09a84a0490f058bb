-- `billed`: the codes of professional fees, from DIAGNOSES_ICD (ICD-9, without dots) and CPTEVENTS.

CREATE TABLE billed AS
SELECT DISTINCT
    need_id(hadm_id, 'diagnoses_icd', 'hadm_id') AS hadm_id,
    'ICD-9-CM' AS code_system,
    upper(replace(icd9_code, '.', '')) AS code
FROM diagnoses_icd
WHERE icd9_code IS NOT NULL
UNION ALL
SELECT DISTINCT
    need_id(hadm_id, 'cptevents', 'hadm_id'),
    'CPT',
    upper(cpt_cd)
FROM cptevents
WHERE cpt_cd IS NOT NULL;
