-- How MIMIC-CXR writes dates and times: StudyDate 21800506 and StudyTime 93014.531, a number that has lost its leading zeros.

CREATE MACRO is_study_date(cell) AS
    regexp_matches(cell, '^\d{8}(\.0+)?$') AND try_strptime(left(cell, 8), '%Y%m%d') IS NOT NULL;

-- Six digits; a leap second, such as 235960, counts as the second before it.
CREATE MACRO clock_digits(cell) AS regexp_replace(lpad(split_part(cell, '.', 1), 6, '0'), '60$', '59');

CREATE MACRO is_study_clock(cell) AS
    regexp_matches(cell, '^\d{1,6}(\.\d*)?$') AND try_strptime(clock_digits(cell), '%H%M%S') IS NOT NULL;

CREATE MACRO is_finding(cell) AS
    regexp_matches(cell, '^-?[01](\.0+)?$');

-- Fractions of a second are truncated, never rounded up.
CREATE MACRO study_moment(day, clock) AS
    try_strptime(left(day, 8) || clock_digits(clock), '%Y%m%d%H%M%S');
