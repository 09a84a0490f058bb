-- How cells become values. Every source column is a string, and an empty cell is NULL.
-- A cell that can't be read stops the build: error() carries 'palpate|problem|table|column', and
-- data/hospitals turns it into a sentence with the file and the row.

-- A leap second, such as 23:59:60, counts as the second before it, which is of the same day.
CREATE MACRO without_leap(cell) AS regexp_replace(cell, '([ T]\d{1,2}:\d{2}):60', '\1:59');
CREATE MACRO to_time(cell) AS coalesce(try_cast(cell AS TIMESTAMP), try_cast(without_leap(cell) AS TIMESTAMP));

-- A cast would take any word behind the time for the name of a time zone, PM too, and leave it out.
CREATE MACRO is_time(cell) AS
    regexp_matches(cell, '^\d{4}-\d{2}-\d{2}([ T][0-9:.]+( *(Z|UTC|GMT|[+-]\d{2}(:?\d{2})?))?)?$') AND to_time(cell) IS NOT NULL;

-- Programs whose integers have no missing values write whole numbers as 145834.0.
CREATE MACRO is_id(cell) AS
    regexp_matches(cell, '^\d{1,18}(\.0+)?$');

CREATE MACRO is_flag(cell) AS
    regexp_matches(cell, '^[01](\.0+)?$|^(true|false)$', 'i');

CREATE MACRO as_time(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN NULL
         WHEN is_time(cell) THEN to_time(cell)
         ELSE error('palpate|time|' || tab || '|' || col) END;

CREATE MACRO as_id(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN NULL
         WHEN is_id(cell) THEN try_cast(regexp_replace(cell, '\.0+$', '') AS BIGINT)
         ELSE error('palpate|id|' || tab || '|' || col) END;

CREATE MACRO as_flag(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN NULL
         WHEN is_flag(cell) THEN regexp_matches(cell, '^(1|t)', 'i')
         ELSE error('palpate|flag|' || tab || '|' || col) END;

-- The same for cells that must not be empty.
CREATE MACRO need_time(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN error('palpate|empty|' || tab || '|' || col) ELSE as_time(cell, tab, col) END;

CREATE MACRO need_id(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN error('palpate|empty|' || tab || '|' || col) ELSE as_id(cell, tab, col) END;
