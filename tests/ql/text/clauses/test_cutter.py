"""CREATE JOB with its options, inputs and labels, cut out before the SQL parser reads the rest."""

from __future__ import annotations

import pytest

from elfmesh.ql import ONE_INTERVAL_US, parse, within
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELEC a FROM s", 1, 1, "begins with SELECT", "Did you mean SELECT?"),
    ("a FROM s", 1, 1, "begins with SELECT", "CREATE JOB"),
    ("SELECT a", 1, 8, "FROM", "FROM stream"),
    ("SELECT a FROM s ORDER a", 1, 17, "ORDER needs BY", "ORDER BY a, b"),
    ("SELECT a FROM", 1, 14, "expected the name of a stream", ""),
    ("SELECT a FROM STREAM s", 1, 15, "STREAM is not an ELF-QL keyword", "FROM name"),
    ("SELECT a FROM s ON role = 'web'", 1, 20, "labels in parentheses", "ON (role"),
    ("SELECT a FROM s ON (role 'web')", 1, 26, "expected `=`", "ON (role"),
    ("SELECT a FROM s ON (role = web)", 1, 28, "'string'", "ON (role"),
    ("SELECT a FROM s ON (role = 'web' zone = 'x')", 1, 34, "expected `)`", ""),
    ("SELECT a FROM s ON (role = 'a', role = 'b')", 1, 40, "two values", ""),
    ("SELECT a FROM s EVERY '5 s'", 1, 17, "option of a job", "CREATE JOB"),
    ("CREATE TABLE t AS SELECT a FROM s", 1, 8, "only jobs", "CREATE JOB"),
    ("CREATE JOB AS SELECT a FROM s", 1, 15, "", ""),
    ("CREATE JOB a.b.c EVERY '5 s' AS SELECT x FROM s", 1, 18, "at most two parts", "namespace.name"),
    ("CREATE JOB 'a b' AS SELECT x FROM s", 1, 12, "name of the job", "letters"),
    ("CREATE JOB j EVRY '5 s' AS SELECT a FROM s", 1, 14, "option of the job", "Did you mean EVERY?"),
    ("CREATE JOB j EVERY '5 s' EVERY '6 s' AS SELECT a FROM s", 1, 26, "twice", ""),
    ("CREATE JOB j EVERY AS SELECT a FROM s", 1, 20, "takes a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY 'soon' AS SELECT a FROM s", 1, 20, "not a duration", "EVERY '30 s'"),
    ("CREATE JOB j EVERY '0 s' AS SELECT a FROM s", 1, 20, "greater than zero", "30 s"),
    (f"CREATE JOB j EVERY {'9' * 20} s AS SELECT a FROM s", 1, 20, "longer than any clock", "EVERY '30 s'"),
    (f"CREATE JOB j EVERY {'9' * 400} s AS SELECT a FROM s", 1, 20, "longer than any clock", "EVERY '30 s'"),
    ("CREATE JOB j EVERY '5 s' ON STRAGGLER LEAP AS SELECT a FROM s", 1, 39, "CORRECT, SKIP", "WAIT"),
    ("CREATE JOB j EVERY '5 s' PARTITIONS 0 AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    ("CREATE JOB j EVERY '5 s' PARTITIONS x AS SELECT a FROM s", 1, 37, "from 1 to 64", ""),
    ("SELECT count(*) AS n FROM s WHERE from = 'a'", 1, 40, "the name of a stream", "written `from`"),
    ("SELECT a FROM s GROUP", 1, 17, "GROUP needs BY", "GROUP BY a, b"),
    ("SELECT a FROM s x ORDER", 1, 19, "ORDER", ""),
    (
        "CREATE JOB j EVERY '5 s' REPLICAS 4 AS SELECT a FROM s",
        1, 35, "from 0 to 3, not `4`", "REPLICAS 3",
    ),
    (
        "CREATE JOB j EVERY '5 s' REPLICAS 2 ACROSS zone AS SELECT a FROM s",
        1, 44, "ACROSS takes region or rack, not `zone`", "labels.region",
    ),
    ("CREATE JOB j EVERY '5 s' PATHS 0 AS SELECT a FROM s", 1, 32, "from 1 to 5, not `0`", "PATHS 5"),
    ("CREATE JOB j EVERY '5 s' PATHS 6 AS SELECT a FROM s", 1, 32, "from 1 to 5, not `6`", "PATHS 5"),
    (
        "CREATE JOB j EVERY '5 s' PATHS 2, 3 AS SELECT a FROM s",
        1, 35, "the number of trees of PATHS takes a number from 1 to 2, not `3`", "",
    ),
    ("CREATE JOB j EVERY '5 s' PATHS 1, 2 AS SELECT a FROM s", 1, 35, "takes 1, not `2`", ""),
    ("CREATE JOB j EVERY '5 s' PATHS 3 COST 0.5 AS SELECT a FROM s", 1, 39, "from 1 to 1000", "COST 6"),
    ("CREATE JOB j EVERY '5 s' PATHS 3 COST x AS SELECT a FROM s", 1, 39, "not `x`", "COST 6"),
    ("CREATE JOB j EVERY '5 s' PATHS 3 COST 1001 AS SELECT a FROM s", 1, 39, "not `1001`", "COST 6"),
    ("CREATE JOB j EVERY '5 s' COST 2 AS SELECT a FROM s", 1, 33, "COST is an option of PATHS", "PATHS 3"),
    (
        "CREATE JOB j EVERY '5 s' PATHS 1 ACROSS zone AS SELECT a FROM s",
        1, 41, "ACROSS takes region or rack, not `zone`", "labels.region",
    ),
    (
        "CREATE JOB j EVERY '5 s' PATHS 1 ACROSS regoin AS SELECT a FROM s",
        1, 41, "not `regoin`", "region",
    ),
    ("CREATE JOB j EVERY '5 s' ACROSS region AS SELECT a FROM s", 1, 26, "found `ACROSS`", ""),
    (
        "CREATE JOB 9a EVERY '5 s' AS SELECT a FROM s",
        1, 15, "`9a` is not the name", "begins with a letter",
    ),
    ("SELECT a FROM range(10)", 1, 15, "ELF-QL has no range(...) in FROM", "the name of a stream"),
    ("SELECT a FROM f('x')", 1, 15, "ELF-QL has no f(...) in FROM", "name the file after the query"),
    ("SELECT a FROM 'x.csv'", 1, 15, "expected the name of a stream, found `'x.csv'`", "elf run"),
    ("SELECT s.a FROM s AS s(a, 1)", 1, 23, "must be names in parentheses", "Write s(a, b)."),
)  # fmt: skip


JOB = "CREATE JOB a.b EVERY '5 s' AS SELECT k, count(*) AS n FROM s "

test_a_wrong_range_is_refused_where_it_is_wrong = refusing(
    (JOB + "HISTORY '-1 h' GROUP BY k", 1, 70, "'-1 h' is not a duration", "HISTORY '30 s'"),
    (JOB + "HISTORY -5 s GROUP BY k", 1, 70, "takes a duration, not `-`", "HISTORY '30 s'"),
    (JOB + "HISTORY 'x' GROUP BY k", 1, 70, "'x' is not a duration", ""),
    (JOB + "HISTORY '1000000 d' GROUP BY k", 1, 62, "at most 20000 d", "HISTORY '20000 d'"),
    (JOB + "UNTIL '0 s' GROUP BY k", 1, 62, "greater than zero", "UNTIL '10 min'"),
    (JOB + "UNTIL HISTORY GROUP BY k", 1, 62, "needs HISTORY", "HISTORY '1 h' UNTIL HISTORY"),
    (JOB + "HISTORY '0 s' UNTIL HISTORY GROUP BY k", 1, 62, "needs HISTORY", ""),
    (JOB + "HISTORY '1 h' HISTORY '2 h' GROUP BY k", 1, 76, "HISTORY is given twice", ""),
    (JOB + "HISTORY TIMESTAMP 'noon' GROUP BY k", 1, 80, "takes a time, not `noon`", "TIMESTAMP '2026-"),
    (JOB + "HISTORY TIMESTAMP '1969-12-31' GROUP BY k", 1, 80, "from 1970 to 2100", ""),
    (JOB + "UNTIL TIMESTAMP '2200-01-01' GROUP BY k", 1, 78, "from 1970 to 2100", ""),
    (JOB + "HISTORY TIMESTAMP", 1, 70, "takes a time, not `TIMESTAMP`", ""),
    (JOB + "HISTORY '1 h' UNTIL TIMESTAMP '2026-01-01' GROUP BY k", 1, 76, "both times or", "as '1 h'"),
    (
        JOB + "HISTORY TIMESTAMP '2026-01-01' UNTIL TIMESTAMP '2026-01-01' GROUP BY k",
        1, 62, "ends before it begins", "",
    ),
    ("SELECT count(*) AS n FROM s HISTORY '1 h'", 1, 29, "are for jobs", "elf query"),
    (
        "CREATE JOB j AS SELECT k, count(*) n FROM s HISTORY '1 h' GROUP BY k, SESSION(ts, INTERVAL 1 DAY)",
        1, 45, "windows of a fixed size", "TUMBLE or HOP",
    ),
    ("CREATE JOB j AS SELECT count(*) AS n FROM a.b HISTORY '1 h' UNTIL HISTORY", 1, 47, "interval", "EVERY"),
)  # fmt: skip


def test_a_job_with_an_end_and_without_a_window_has_one_interval() -> None:
    text = "CREATE JOB j AS SELECT count(*) AS n FROM s HISTORY '1 h' UNTIL HISTORY"
    window = parse(text).window
    assert window is not None
    assert window.size_us == window.slide_us == ONE_INTERVAL_US
    tumbling = parse(f"{text} GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)").window
    assert tumbling is not None
    assert tumbling.size_us == 60_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT a FROM s x ON (r = 'w') WHERE a = 1",
            "SELECT a FROM s x ON (r = 'w') HISTORY '1 h' WHERE a = 1",
        ),
        (
            "WITH q AS (SELECT a FROM s) SELECT a FROM q",
            "WITH q AS (SELECT a FROM s HISTORY '1 h') SELECT a FROM q",
        ),
        ("SELECT a FROM s JOIN t ON s.a = t.a", "SELECT a FROM s HISTORY '1 h' JOIN t ON s.a = t.a"),
        ("SELECT a FROM s -- the log", "SELECT a FROM s HISTORY '1 h' -- the log"),
    ],
)
def test_a_range_is_written_behind_the_first_input(text: str, expected: str) -> None:
    assert within(text, "HISTORY '1 h'") == expected
