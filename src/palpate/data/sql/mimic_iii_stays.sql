-- MIMIC-III: `stays`, one row per hospital stay, from ADMISSIONS and PATIENTS.
-- Both layouts result in the same columns, so that the cohorts need not distinguish them.

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
        ethnicity
    FROM admissions
),
people AS (
    SELECT
        need_id(subject_id, 'patients', 'subject_id') AS subject_id,
        as_time(dob, 'patients', 'dob') AS dob,
        gender
    FROM patients
),
aged AS (
    SELECT admitted.*, gender, date_sub('year', dob, admittime) AS years
    FROM admitted LEFT JOIN people USING (subject_id)
)
SELECT
    subject_id, hadm_id, admittime, dischtime, died,
    -- Dates of birth of people over 89 are shifted 300 years back; 91 is about their median age.
    CASE WHEN years > 89 THEN 91 WHEN years >= 0 THEN years END AS age,
    gender, ethnicity, insurance, admission_type,
    upper(admission_type) = 'NEWBORN' AS newborn,
    upper(admission_type) = 'ELECTIVE' AS elective
FROM aged;
