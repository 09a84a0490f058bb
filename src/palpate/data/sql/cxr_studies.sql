-- MIMIC-CXR-JPG: `shots` (one row per image), `studies` (one row per study: labels, and what earlier studies found).
-- A study's time is that of its first image, so that nothing charted between two images counts as known before.
-- The cells were checked by data/cohorts/cxr.py.

CREATE TABLE shots AS
SELECT
    dicom_id,
    need_id(subject_id, 'cxr_metadata', 'subject_id') AS subject_id,
    need_id(study_id, 'cxr_metadata', 'study_id') AS study_id,
    upper(viewposition) AS view,
    min(study_moment(studydate, studytime)) OVER (PARTITION BY subject_id, study_id) AS time
FROM cxr_metadata;

-- What is not positive is negative: 0.0 (absent) and the empty cell (not mentioned). -1.0 (uncertain) is negative too,
-- unless it is asked to be positive; `uncertain` says that a study has one.
-- Parameter: $uncertain (zeros, ones, ignore).
CREATE MACRO is_unsure(cell) AS coalesce(try_cast(cell AS DOUBLE) = -1, false);
CREATE MACRO is_found(cell, policy) AS
    (coalesce(try_cast(cell AS DOUBLE) = 1, false) OR (policy = 'ones' AND is_unsure(cell)))::INTEGER;

CREATE TABLE labelled_studies AS
SELECT
    need_id(subject_id, 'cxr_chexpert', 'subject_id') AS subject_id,
    need_id(study_id, 'cxr_chexpert', 'study_id') AS study_id,
    is_found(atelectasis, $uncertain) AS atelectasis,
    is_found(cardiomegaly, $uncertain) AS cardiomegaly,
    is_found(consolidation, $uncertain) AS consolidation,
    is_found(edema, $uncertain) AS edema,
    is_found(enlarged_cardiomediastinum, $uncertain) AS enlarged_cardiomediastinum,
    is_found(fracture, $uncertain) AS fracture,
    is_found(lung_lesion, $uncertain) AS lung_lesion,
    is_found(lung_opacity, $uncertain) AS lung_opacity,
    is_found(pleural_effusion, $uncertain) AS pleural_effusion,
    is_found(pleural_other, $uncertain) AS pleural_other,
    is_found(pneumonia, $uncertain) AS pneumonia,
    is_found(pneumothorax, $uncertain) AS pneumothorax,
    is_found(support_devices, $uncertain) AS support_devices,
    (is_unsure(atelectasis) OR is_unsure(cardiomegaly) OR is_unsure(consolidation) OR is_unsure(edema)
      OR is_unsure(enlarged_cardiomediastinum) OR is_unsure(fracture) OR is_unsure(lung_lesion)
      OR is_unsure(lung_opacity) OR is_unsure(pleural_effusion) OR is_unsure(pleural_other)
      OR is_unsure(pneumonia) OR is_unsure(pneumothorax) OR is_unsure(support_devices)) AS uncertain
FROM cxr_chexpert;

-- Earlier is strictly before: of two studies at the same moment neither knows the other.
CREATE TABLE studies AS
WITH timed AS (
    SELECT labelled_studies.*, moments.time
    FROM labelled_studies
    JOIN (SELECT DISTINCT subject_id, study_id, time FROM shots WHERE time IS NOT NULL) AS moments
    USING (subject_id, study_id)
)
SELECT
    *,
    count(*) OVER before AS n_earlier_studies,
    max(atelectasis) OVER before AS earlier_atelectasis,
    max(cardiomegaly) OVER before AS earlier_cardiomegaly,
    max(consolidation) OVER before AS earlier_consolidation,
    max(edema) OVER before AS earlier_edema,
    max(enlarged_cardiomediastinum) OVER before AS earlier_enlarged_cardiomediastinum,
    max(fracture) OVER before AS earlier_fracture,
    max(lung_lesion) OVER before AS earlier_lung_lesion,
    max(lung_opacity) OVER before AS earlier_lung_opacity,
    max(pleural_effusion) OVER before AS earlier_pleural_effusion,
    max(pleural_other) OVER before AS earlier_pleural_other,
    max(pneumonia) OVER before AS earlier_pneumonia,
    max(pneumothorax) OVER before AS earlier_pneumothorax,
    max(support_devices) OVER before AS earlier_support_devices
FROM timed
WINDOW before AS (
    PARTITION BY subject_id ORDER BY time
    RANGE BETWEEN UNBOUNDED PRECEDING AND INTERVAL 1 MICROSECOND PRECEDING
);
