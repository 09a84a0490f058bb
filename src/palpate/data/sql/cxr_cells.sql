-- How MIMIC-CXR writes dates and times: StudyDate 21800506 and StudyTime 93014.531, a number that has lost its leading zeros.

CREATE MACRO is_study_date(cell) AS
    regexp_matches(cell, '^\d{8}(\.0+)?$') AND try_strptime(left(cell, 8), '%Y%m%d') IS NOT NULL;

CREATE MACRO is_study_clock(cell) AS
    regexp_matches(cell, '^\d{1,6}(\.\d*)?$')
    AND try_strptime(lpad(split_part(cell, '.', 1), 6, '0'), '%H%M%S') IS NOT NULL;

CREATE MACRO is_finding(cell) AS
    regexp_matches(cell, '^-?[01](\.0+)?$');

-- Fractions of a second are truncated, never rounded up.
CREATE MACRO study_moment(day, clock) AS
    try_strptime(left(day, 8) || lpad(split_part(clock, '.', 1), 6, '0'), '%Y%m%d%H%M%S');
