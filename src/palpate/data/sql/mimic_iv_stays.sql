-- MIMIC-IV: `stays`, one row per hospital stay, from hosp/admissions and hosp/patients.
-- The same columns as mimic_iii_stays.sql.

CREATE TABLE stays AS
WITH admitted AS (
    SELECT
        need_id(subject_id, 'admissions', 'subject_id') AS subject_id,
        need_id(hadm_id, 'admissions', 'hadm_id') AS hadm_id,
        need_time(admittime, 'admissions', 'admittime') AS admittime,
        as_time(dischtime, 'admissions', 'dischtime') AS dischtime,
        coalesce(as_flag(hospital_expire_flag, 'admissions', 'hospital_expire_flag'), false) AS died,
        admission_type,
        insurance,
        race AS ethnicity
    FROM admissions
),
people AS (
    SELECT
        need_id(subject_id, 'patients', 'subject_id') AS subject_id,
        as_id(anchor_age, 'patients', 'anchor_age') AS anchor_age,
        as_id(anchor_year, 'patients', 'anchor_year') AS anchor_year,
        gender
    FROM patients
),
aged AS (
    -- A patient's age is given for one year, the anchor; later stays add the years since then.
    SELECT admitted.*, gender, anchor_age + year(admittime) - anchor_year AS years
    FROM admitted LEFT JOIN people USING (subject_id)
)
SELECT
    subject_id, hadm_id, admittime, dischtime, died,
    -- Ages over 89 form one group, 91.
    CASE WHEN years > 89 THEN 91 WHEN years >= 0 THEN years END AS age,
    gender, ethnicity, insurance, admission_type,
    -- There is no admission type for newborns: they are the patients in their first year of life.
    coalesce(years = 0, false) OR upper(admission_type) = 'NEWBORN' AS newborn,
    upper(admission_type) = 'ELECTIVE' AS elective
FROM aged;
