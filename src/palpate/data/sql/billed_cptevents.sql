-- The professional fees of CPTEVENTS, to `billed`.

INSERT INTO billed
SELECT DISTINCT
    need_id(hadm_id, 'cptevents', 'hadm_id'),
    'CPT',
    upper(cpt_cd)
FROM cptevents
WHERE cpt_cd IS NOT NULL;
