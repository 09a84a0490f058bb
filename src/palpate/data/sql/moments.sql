-- Moments in time, as hospitals record them: with the time of day or without, and in several notations of dates.
-- A moment is a STRUCT: `instant` for comparing (UTC where the source has time zones), `wall` as the hospital's clock showed
-- it, `day` as the hospital dated it, and `timed`: whether the time of day is known. Midnight to the second counts as
-- unknown, because most databases fill a missing time with it; not in FHIR, where a date can be written without a time.
-- Where one of two moments has no time of day, their days are compared.
-- The variable `dates` says how 7/8/2039 is read: mdy or dmy.

-- A year of two digits is of 1950 to 2049, as Oracle reads it (RR).
CREATE MACRO whole_year(cell) AS
    regexp_replace(regexp_replace(cell, '([A-Za-z]-?)([5-9]\d)$', '\119\2'), '([A-Za-z]-?)([0-4]\d)$', '\120\2');

CREATE MACRO day_of(cell) AS
    CASE WHEN getvariable('dates') = 'dmy' THEN try_strptime(cell, [
             '%d/%m/%Y', '%Y/%m/%d', '%d.%m.%Y', '%d-%b-%Y', '%d%b%Y', '%b %d %Y', '%Y-%m-%d'])
         ELSE try_strptime(cell, [
             '%m/%d/%Y', '%Y/%m/%d', '%d.%m.%Y', '%d-%b-%Y', '%d%b%Y', '%b %d %Y', '%Y-%m-%d']) END;

-- Of 1 to 12 before or after noon, the hour of the day; else one that no day has.
CREATE MACRO hour_of(hour, half) AS
    CASE WHEN half = '' THEN hour
         WHEN hour::INTEGER NOT BETWEEN 1 AND 12 THEN '99'
         ELSE (hour::INTEGER % 12 + CASE WHEN lower(half) = 'pm' THEN 12 ELSE 0 END)::VARCHAR END;

-- All notations but ISO's: 7/23/2039, 2039/07/23, 23.7.2039, 23-JUL-2039 and 23-JUL-39 (Oracle), 23JUL2039 (SAS),
-- Jul 23 2039 (SQL Server); behind them 14:05, 14:05:00.000, 2:05PM, 02.05.00.000000 PM, or in SAS :14:05:00.
CREATE MACRO other_date(cell) AS list_transform([regexp_extract(cell,
    '^(\d{4}-\d{2}-\d{2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}/\d{1,2}/\d{4}|\d{1,2}\.\d{1,2}\.\d{4}'
    || '|\d{1,2}-[A-Za-z]{3}-(?:\d{2}|\d{4})|\d{1,2}[A-Za-z]{3}\d{4}|[A-Za-z]{3} +\d{1,2} +\d{4})'
    || '(?:(?: +|T|:)(\d{1,2})[:.](\d{2})(?:[:.](\d{2}(?:[:.]\d+)?))? *([AaPp][Mm])?)?$',
    ['day', 'hour', 'minute', 'second', 'half'])], lambda cut:
    CASE WHEN cut.hour = '' THEN day_of(whole_year(cut.day))
         ELSE try_cast(strftime(day_of(whole_year(cut.day)), '%Y-%m-%d') || ' ' || lpad(hour_of(cut.hour, cut.half), 2, '0')
             || ':' || cut.minute || ':' || coalesce(nullif(replace(cut.second, ':', '.'), ''), '00') AS TIMESTAMP) END)[1];

-- What the hospital's clock showed: an offset from UTC is not applied here, but in `in_utc`. A cast would take any word
-- behind the time for the name of a time zone, PM too, and leave it out: only what says UTC is known.
CREATE MACRO parsed_date(cell) AS
    CASE WHEN regexp_matches(cell, '^\d{4}-\d{2}-\d{2}([ T][0-9:.]+( *(Z|z|UTC|GMT|[+-]\d{2}(:?\d{2})?))?)?$')
         THEN try_cast(CASE WHEN cell[-1] = 'z' THEN cell[:-2] ELSE cell END AS TIMESTAMP)
         WHEN regexp_matches(cell, '^\d{8}$') THEN try_strptime(cell, '%Y%m%d')
         ELSE other_date(cell) END;

CREATE MACRO has_offset(cell) AS coalesce(regexp_matches(cell, '\d{2}:\d{2}.*(Z|z|UTC|GMT|[+-]\d{2}(:?\d{2})?)$'), false);

CREATE MACRO in_utc(cell) AS
    CASE WHEN has_offset(cell)
         THEN make_timestamp(epoch_us(try_cast(regexp_replace(regexp_replace(
             without_leap(cell), '\s*(z|UTC|GMT)$', 'Z'), '\s+([+-]\d{2})', '\1') AS TIMESTAMPTZ))) END;

CREATE MACRO told_date(cell) AS parsed_date(CASE WHEN contains(cell, ':60') THEN without_leap(cell) ELSE cell END);
CREATE MACRO is_date(cell) AS told_date(cell) IS NOT NULL;

CREATE MACRO as_date(cell, tab, col) AS
    CASE WHEN cell IS NOT NULL THEN coalesce(told_date(cell), error('palpate|date|' || tab || '|' || col)::TIMESTAMP) END;

-- From the cells of a date and of a time, of which either may be empty. A time that strays from its date is not used: one of
-- another day, by more than one, which a time zone may make, or at midnight.
-- DuckDB copies what a macro is given to each place that names it, so that macros in macros grow without bound. What a lambda
-- is given is there once: `parsed` are the values of the cells, `used` what is left of them.
CREATE MACRO moment(day_cell, time_cell, tab, day_col, time_col) AS
    CASE WHEN coalesce(time_cell, day_cell) IS NOT NULL THEN list_transform(list_transform([{
        'clock': as_date(time_cell, tab, time_col),
        'utc': in_utc(time_cell),
        'zoned': has_offset(time_cell),
        -- Beside a time, a day that can't be read is not needed.
        'day': CASE WHEN time_cell IS NULL THEN as_date(day_cell, tab, day_col) ELSE told_date(day_cell) END
    }], lambda parsed: {
        'astray': coalesce(abs(parsed.clock::DATE - parsed.day::DATE)
            > CASE WHEN parsed.clock = date_trunc('day', parsed.clock) THEN 0 ELSE 1 END, false),
        'parsed': parsed
    }), lambda used: {
        'instant': CASE WHEN used.astray THEN used.parsed.day
                        ELSE coalesce(used.parsed.utc, used.parsed.clock, used.parsed.day) END,
        'wall': CASE WHEN used.astray THEN used.parsed.day ELSE coalesce(used.parsed.clock, used.parsed.day) END,
        'day': coalesce(used.parsed.day, used.parsed.clock)::DATE,
        'timed': CASE WHEN used.astray OR used.parsed.clock IS NULL THEN used.parsed.day <> date_trunc('day', used.parsed.day)
                      ELSE used.parsed.clock <> date_trunc('day', used.parsed.clock) END,
        'zoned': used.parsed.zoned AND NOT used.astray,
        'astray': used.astray
    })[1] END;

-- Whether a is not after b; `same_day` decides where only the days are known and are the same.
CREATE MACRO not_after(a, b, same_day) AS
    CASE WHEN a.timed AND b.timed THEN a.instant <= b.instant
         ELSE a.day < b.day OR (a.day = b.day AND same_day) END;

-- Whether b is at most so many days after a.
CREATE MACRO within_days(a, b, days) AS
    CASE WHEN a.timed AND b.timed THEN b.instant <= a.instant + to_days(days::INTEGER)
         ELSE b.day <= a.day + days::INTEGER END;

-- Whether a moment is between the start and the end of a visit, which must be known.
CREATE MACRO contains_moment(began, ended, at_moment) AS
    coalesce(not_after(began, at_moment, true) AND not_after(at_moment, ended, true), false);

-- What a is sorted by beside b.
CREATE MACRO beside(a, b) AS CASE WHEN a.timed AND b.timed THEN a.instant ELSE a.wall END;

CREATE MACRO later_by(a, hours) AS {
    'instant': a.instant + to_seconds(hours * 3600), 'wall': a.wall + to_seconds(hours * 3600), 'timed': a.timed,
    'day': (a.day + (a.wall - date_trunc('day', a.wall)) + to_seconds(hours * 3600))::DATE
};

CREATE MACRO as_key(cell, tab, col) AS as_id(cell, tab, col)::VARCHAR;
CREATE MACRO need_key(cell, tab, col) AS need_id(cell, tab, col)::VARCHAR;
CREATE MACRO need_day(cell, tab, col) AS
    CASE WHEN cell IS NULL THEN error('palpate|empty|' || tab || '|' || col)::DATE ELSE as_date(cell, tab, col)::DATE END;
