-- The ICD-9 procedures of PROCEDURES_ICD, without dots, to `billed`.

INSERT INTO billed
SELECT DISTINCT
    need_id(hadm_id, 'procedures_icd', 'hadm_id'),
    'ICD-9-PCS',
    upper(replace(icd9_code, '.', ''))
FROM procedures_icd
WHERE icd9_code IS NOT NULL;
