"""A constant that its function cannot use is refused when a text is read, not record by record on agents."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.plan import read_plan
from elfmesh.errors import QueryError
from elfmesh.ql import parse

# (text, column, part of the message, part of the hint)
WRONG_CONSTANTS = [
    ("SELECT s RLIKE '(?=x)' FROM s", 16, "cannot use the regular expression", "RE2"),
    ("SELECT s RLIKE concat('(?', '=x)') FROM s", 16, "cannot use the regular expression", "RE2"),
    ("SELECT s RLIKE coalesce(NULL, '(?=x)') FROM s", 16, "cannot use the regular expression", "RE2"),
    ("SELECT date_format(ts, lower('QQQ')) FROM s", 8, "cannot be written", "y M d"),
    ("SELECT regexp_extract(s, '(a)', 2) FROM s", 8, "has 1 groups, not 2", "Group 0"),
    ("SELECT regexp_replace(s, '(a)', '$2') FROM s", 33, "does not have", "dollar"),
    ("SELECT s LIKE 'a\\\\b' FROM s", 15, "does not escape a special character", "twice"),
    ("SELECT date_trunc('fortnight', ts) FROM s", 8, "does not support the unit", "month"),
    ("SELECT date_format(ts, 'YYYY') FROM s", 8, "cannot be written", "y M d"),
    ("SELECT to_timestamp(s, 'EEE') FROM s", 8, "cannot be read", "y M d"),
    ("SELECT get_json_object(s, 'a.b') FROM s", 27, "is not a path", "$.a.b"),
    ("SELECT parse_url(s, 'host') FROM s", 21, "does not support the part", "HOST"),
    ("SELECT format_string('%s %s', s) FROM s", 22, "needs 2 values but the call has 1", ""),
    (
        "SELECT from_utc_timestamp(ts, 'Mars/Base') FROM s",
        31,
        "unknown time zone 'Mars/Base'",
        "Europe/Paris",
    ),
    ("SELECT ts AT TIME ZONE 'Mars/Base' FROM s", 24, "unknown time zone", "Europe/Paris"),
    ("SELECT cidr_contains('10.0.0/99', s) FROM s", 22, "is no network", "10.0.0.0/8"),
    ("SELECT regexp_extract_all(s, '(a)', 2) FROM s", 8, "has 1 groups, not 2", "Group 0"),
    ("SELECT next_day(ts, 'someday') FROM s", 21, "not a day of the week", "monday"),
    ("SELECT split_part(s, ',', 0) FROM s", 27, "counts from 1", "first part"),
    ("SELECT count_if(s RLIKE '(?=x)') FROM s", 25, "cannot use the regular expression", "RE2"),
    (
        "SELECT s, count(*) AS n FROM s GROUP BY s HAVING s RLIKE '['",
        58,
        "cannot use the regular expression",
        "RE2",
    ),
    ("SELECT max(i) OVER (PARTITION BY split(s, '(')) AS m FROM s", 43, "cannot use", "RE2"),
    (
        "SELECT s.i FROM s JOIN t ON s.i = t.i AND s.s RLIKE '*'",
        53,
        "cannot use the regular expression",
        "RE2",
    ),
    (
        "SELECT i FROM (SELECT i, s FROM s) x WHERE s RLIKE '*'",
        52,
        "cannot use the regular expression",
        "RE2",
    ),
]


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"), WRONG_CONSTANTS, ids=lambda given: str(given)[:50]
)
def test_a_constant_that_its_function_cannot_use_is_refused_when_the_text_is_read(
    text: str, column: int, message: str, hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.column == (column or caught.value.column)


def test_a_job_whose_pattern_cannot_be_compiled_is_not_accepted() -> None:
    with pytest.raises(QueryError, match="cannot use the regular expression"):
        read_plan("CREATE JOB a.b EVERY '1 s' AS SELECT count(*) AS n FROM s WHERE x RLIKE '(?=y)'")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x RLIKE y FROM s",
        "SELECT x RLIKE concat('(?=', y) FROM s",
        "SELECT timestamp '2026-11-22 06:00:00' + INTERVAL '1' DAY AS t FROM s",
        "SELECT explode(split('a,b', ',')) AS e FROM s",
        "SELECT count(*) AS n FROM s WHERE upper(x) LIKE 'A%' ESCAPE '/'",
        "SELECT date_format(ts, 'yyyy') AS y, concat(x, 'a', 1) AS z, x = 'a' AS e FROM s",
        "SELECT array_join(split(x, ','), '-') AS y, x.y['k'] AS v FROM s",
        "SELECT map(x, y)['k'] AS v, from_json(x, 'ARRAY<BIGINT>')[0] AS j FROM s",
        "SELECT element_at(str_to_map(x, '&', '='), 'id') AS v FROM s",
        "SELECT array_contains(split(x, ','), 'a') AS a FROM s",
        "SELECT sum(CASE WHEN x = '' THEN 1 END) AS n, max(x) || 'a' AS m FROM s",
    ],
)
def test_what_depends_on_records_is_left_to_them(text: str) -> None:
    parse(text)
