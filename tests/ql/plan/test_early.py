from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.plan.directions import Direction
from elfmesh.ql.plan.early import columns_by_direction, gains_by_early
from tests.ql.refusals import refusing

JOB = "CREATE JOB a.b EVERY '5 s' EARLY '250 ms' AS\n"
GROUPED = f"{JOB}SELECT k FROM log GROUP BY k HAVING "
RISING = "rising conditions"
ASSUMED_AT_LEAST = GROUPED.replace(" AS\n", " ASSUME ({}) AS\n")
SEALED = f"{JOB}SELECT "
ENDS = "GROUP BY SEALED(k WHEN e = 'end' PRODUCERS ONE RECORDS n AFTER '1 h')"

test_a_statement_that_is_not_monotone_is_refused_where_it_is_not = refusing(
    (f"{JOB}SELECT k, count(*) FROM log GROUP BY k LIMIT 5", 2, 40, "LIMIT may drop a row", "Leave it out"),
    (f"{JOB}SELECT k FROM log GROUP BY k OFFSET 5", 2, 30, "OFFSET may drop a row", "Leave it out"),
    (f"{JOB}SELECT k, rank() OVER (ORDER BY k) FROM log GROUP BY k", 2, 18, "OVER compares", "reads this"),
    (f"{GROUPED}avg(x) > 3", 2, 37, "avg may rise and fall", "in the reader"),
    (f"{GROUPED}count(*) < 3", 2, 37, "may make this condition false", RISING),
    (f"{GROUPED}count(*) > 1 AND NOT max(x) > 3", 2, 58, "may make this condition false", RISING),
    (f"{GROUPED}sum(x) > 3", 2, 37, "sum(x) falls if x is negative", "sum(abs(x))"),
    (f"{ASSUMED_AT_LEAST.format('x >= -1')}sum(x) > 3", 2, 37, "sum(x) falls", "ASSUME (x >= 0)"),
    (f"{ASSUMED_AT_LEAST.format('y >= 0')}sum(x) > 3", 2, 37, "sum(x) falls", "ASSUME (x >= 0)"),
    (f"{ASSUMED_AT_LEAST.format('x <= 0')}sum(x) > 3", 2, 37, "may make this condition false", RISING),
    (f"{ASSUMED_AT_LEAST.format('x -> y')}sum(x) > 3", 2, 37, "sum(x) falls", "ASSUME (x >= 0)"),
    (f"{ASSUMED_AT_LEAST.format('x >= 0')}sum(-x) > 3", 2, 37, "sum(x) falls", "ASSUME (x >= 0)"),
    (f"{ASSUMED_AT_LEAST.format('x >= 0')}sum(x) < 3", 2, 37, "may make this condition false", RISING),
    (f"{GROUPED}median(x) > 3", 2, 37, "a percentile", "count_if(x > 5)"),
    (f"{GROUPED}approx_percentile(x, 0.5) > 3", 2, 37, "approximate percentile", "count_if(x > 5)"),
    (f"{GROUPED}stddev(x) > 3", 2, 37, "a variance", RISING),
    (f"{GROUPED}first(x) > 3", 2, 37, "the first value", RISING),
    (f"{GROUPED}last(x) > 3", 2, 37, "the last value", RISING),
    (f"{GROUPED}coalesce(max(x), 0) > 3", 2, 37, "may become false again", RISING),
    (f"{GROUPED}count(*) * 3000000 > 3", 2, 37, "may become false again", RISING),
    (f"{JOB}SELECT a.k FROM log a JOIN log2 b ON a.k = b.k", 2, 28, "a join of streams", "a TABLE of"),
    (f"{JOB}SELECT k FROM log UNION SELECT k FROM log2", 2, 8, "several queries", "Write UNION ALL"),
    (f"{GROUPED}max(x) > 3 UNION ALL SELECT k FROM a GROUP BY k HAVING max(x) < 3", 2, 92, "false", RISING),
    (f"{JOB}SELECT k FROM log UNION ALL SELECT k FROM shop.hot", 1, 28, "a job that reads", "in the job"),
    (f"{JOB}SELECT k + 1 FROM (SELECT k FROM a UNION ALL SELECT k FROM b) t", 2, 27, "several", "UNION"),
    (f"{JOB}SELECT k FROM (SELECT k FROM log GROUP BY k) t", 2, 23, "of a subquery", "Write one SELECT"),
    (f"{JOB}SELECT k FROM shop.hot", 1, 28, "a job that reads results", "in the job that is read"),
    (
        f"{JOB}SELECT l.n FROM log JOIN lookup.hosts l ON log.h = l.h", 1, 28,
        "the file of the lookup table hosts may change", "Write TABLE hosts (...)",
    ),
    (
        "CREATE JOB a.b EARLY '1 s' AS SELECT k FROM log GROUP BY SESSION(ts, INTERVAL '5' SECOND), k",
        1, 58, "may join two sessions", "TUMBLE or HOP",
    ),
    (f"{SEALED}k, count(*) FROM log {ENDS.replace('RECORDS n ', '')}", 2, 52, "without RECORDS", "RECORDS n"),
    (f"{SEALED}DISTINCT k FROM log {ENDS}", 2, 8, "DISTINCT compares", "Leave DISTINCT out"),
    (f"{SEALED}k FROM log {ENDS} LIMIT 5", 2, 89, "LIMIT may drop", "Leave it out"),
    (f"{SEALED}k FROM log {ENDS} HAVING approx_percentile(x, 0.5) > 3", 2, 96, "approximate", "count_if"),
    ("CREATE JOB a.b EVERY '5 s' EARLY '1 ms' AS SELECT k FROM log", 1, 34, "at least 50 ms", "250 ms"),
)  # fmt: skip


@pytest.mark.parametrize(
    "having",
    [
        "count(*) >= 3",
        "3 < count(x)",
        "count_if(x = 1) > 3",
        "count(DISTINCT x) > 3",
        "NOT count(*) < 3",
        "max(x) > 3",
        "min(x) <= 3",
        "bool_or(x = 1)",
        "NOT bool_and(x = 1)",
        "max(x) > min(x)",
        "sum(length(x)) > 3",
        "sum(abs(x)) > 3",
        "sum(CASE WHEN x = 1 THEN 2 ELSE 0 END) > 3",
        "size(collect_set(x)) > 3",
        "approx_count_distinct(x) > 3",
        "count(*) * 2 + count(x) - 1 > 3",
        "-min(x) > 3",
        "floor(count(*) / 3) > 3",
        "coalesce(sum(abs(x)), 0) > 3",
        "k LIKE 'a%' AND count(*) > 3 OR max(x) > 5",
        "window_end > TIMESTAMP '2020-01-01'",
    ],
)
def test_a_rising_condition_is_accepted(having: str) -> None:
    job = parse(GROUPED + having).job
    assert job is not None
    assert job.early_us == 250_000


@pytest.mark.parametrize(
    ("assumed", "having"),
    [
        ("x >= 0", "sum(x) > 3"),
        ("x >= 1.5", "sum(x) >= 3 AND count(*) > 2"),
        ("x >= 0", "sum(CASE WHEN y = 1 THEN x ELSE 0 END) > 3"),
        ("x.y >= 0", "coalesce(sum(x.y), 0) > 3"),
        ("x <= 0", "sum(x) < -3"),
        ("x <= -1", "NOT sum(x) > -3"),
        ("x >= 0, y <= 0", "sum(x) > 3 OR sum(y) < -3"),
    ],
)
def test_a_sum_under_a_bound_that_is_assumed_has_a_direction(assumed: str, having: str) -> None:
    text = ASSUMED_AT_LEAST.format(assumed) + having
    assert parse(text).job is not None
    assert gains_by_early(parse(text.replace("EARLY '250 ms' ", "")))
    with pytest.raises(QueryError, match="EARLY is impossible here"):
        parse(GROUPED + having)


def test_both_sides_of_union_all_may_rely_on_an_assumption() -> None:
    side = "SELECT k FROM log GROUP BY k HAVING sum(x) > 3"
    text = JOB.replace(" AS\n", " ASSUME (x >= 0) AS\n")
    assert parse(f"{text}{side} UNION ALL {side}").parts
    statement = parse(f"{text}SELECT k, sum(x) AS n, sum(y) AS m FROM log GROUP BY k")
    assert list(columns_by_direction(statement).values())[1:] == [Direction.RISING, Direction.UNKNOWN]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT ts, msg FROM log WHERE level = 'ERROR' ORDER BY ts",
        "SELECT DISTINCT k FROM log",
        "SELECT k FROM log UNION ALL SELECT k FROM log2 ORDER BY k",
        "SELECT k, count(*) AS n FROM log GROUP BY ROLLUP(k)",
        "SELECT count(*) FROM log GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    ],
)
def test_a_monotone_statement_is_accepted(query: str) -> None:
    assert parse(JOB + query if "HOP" not in query else JOB.replace("EVERY '5 s' ", "") + query).job


@pytest.mark.parametrize(
    ("query", "gains"),
    [
        ("SELECT k FROM log GROUP BY k HAVING count(*) > 3", True),
        ("SELECT ts, msg FROM log WHERE level = 'ERROR'", True),
        ("SELECT k, count(*) AS n FROM log GROUP BY k", False),
        ("SELECT k FROM log GROUP BY k HAVING count(*) < 3", False),
        ("SELECT k FROM log GROUP BY k HAVING count(*) > 3 ORDER BY k LIMIT 5", False),
        ("SELECT ts, msg FROM log LIMIT 5", False),
        ("SELECT k FROM (SELECT k FROM log LIMIT 5) t", False),
        ("SELECT k FROM log GROUP BY k HAVING count(*) > 3 UNION ALL SELECT k FROM log2", True),
        ("SELECT k FROM log GROUP BY k UNION ALL SELECT k FROM log2", False),
        ("SELECT l.n FROM log JOIN lookup.hosts l ON log.h = l.h", False),
        ("SELECT k FROM shop.hot GROUP BY k HAVING count(*) > 3", False),
        (
            "SELECT k FROM log GROUP BY SEALED(k WHEN e = 'z' PRODUCERS ONE AFTER '1 h') HAVING count(*) > 3",
            False,
        ),
    ],
)
def test_early_is_proposed_only_where_the_parser_accepts_it_and_rows_gain(query: str, gains: bool) -> None:
    assert gains_by_early(parse(JOB.replace("EARLY '250 ms' ", "") + query)) == gains
    if gains:
        parse(JOB + query)


def test_a_table_of_the_text_may_be_joined() -> None:
    text = JOB.replace(" AS", " TABLE hosts (h STRING, n STRING) AS")
    parse(f"{text}SELECT l.n FROM log JOIN lookup.hosts l ON log.h = l.h GROUP BY l.n HAVING count(*) > 3")


def test_columns_are_stable_or_growing_or_change() -> None:
    statement = parse(f"{JOB}SELECT k, window_start, count(*) AS n, avg(x) AS m, min(x) FROM log GROUP BY k")
    assert list(columns_by_direction(statement).values()) == [
        Direction.CONSTANT,
        Direction.CONSTANT,
        Direction.RISING,
        Direction.UNKNOWN,
        Direction.FALLING,
    ]


def test_a_column_of_union_all_has_the_direction_of_all_sides() -> None:
    first = "SELECT k, count(*) AS n, min(x) AS m FROM log GROUP BY k"
    second = "SELECT j, max(y), max(y) FROM log2 GROUP BY j"
    found = columns_by_direction(parse(f"{JOB}{first} UNION ALL {second}"))
    assert found == {"k": Direction.CONSTANT, "n": Direction.RISING, "m": Direction.UNKNOWN}


def test_rows_of_a_sealed_partition_are_final_whatever_having_is() -> None:
    query = f"{SEALED}k, avg(x) AS a, count(*) AS c, approx_percentile(x, 0.5) AS p FROM log {ENDS}"
    found = columns_by_direction(parse(f"{query} HAVING count(*) < 100 AND avg(x) > 3"))
    stable = Direction.CONSTANT
    assert found == {"k": stable, "a": stable, "c": stable, "p": Direction.UNKNOWN}
