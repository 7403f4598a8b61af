"""CREATE JOB with its options, inputs and labels, cut out before the SQL parser reads the rest."""

from __future__ import annotations

import pytest

from elfmesh.ql import ONE_INTERVAL_US, parse, within
from tests.ql.refusals import refusing

test_a_wrong_query_is_refused_where_it_is_wrong = refusing(
    ("SELEC a FROM s", 1, 1, "begins with SELECT", "Did you mean SELECT?"),
    ("a FROM s", 1, 1, "begins with SELECT", "CREATE JOB"),
    ("SELECT a", 1, 9, "FROM", "FROM stream"),
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
    ("CREATE JOB j EVERY '5 s' PATHS 0 AS SELECT a FROM s", 1, 32, "from 1 to 5, not `0`", "PATHS 5"),
    ("CREATE JOB j EVERY '5 s' PATHS 6 AS SELECT a FROM s", 1, 32, "from 1 to 5, not `6`", "PATHS 5"),
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


def test_all_options_of_a_job() -> None:
    job = parse(
        "CREATE JOB n.j EVERY '5 s' LATENESS 2 MINUTES DEADLINE INTERVAL '1 m' ON STRAGGLER WAIT "
        "PARTITIONS 4 REPLICAS 2 HORIZON 1.5 DAYS KEEP PARTIALS AS SELECT count(*) FROM s"
    ).job
    assert job is not None
    assert (job.namespace, job.name, job.on_straggler, job.partials) == ("n", "j", "wait", True)
    assert (job.partitions, job.replicas) == (4, 2)
    seconds = [job.every_us, job.lateness_us, job.deadline_us, job.horizon_us]
    assert [(each or 0) // 1_000_000 for each in seconds] == [5, 120, 60, 129_600]


def test_a_job_without_options_has_the_defaults() -> None:
    job = parse("CREATE JOB j AS SELECT count(*) FROM s GROUP BY TUMBLE(ts, '5 s')").job
    assert job is not None
    assert (job.namespace, job.name, job.every_us, job.lateness_us) == ("default", "j", None, 0)
    assert (job.on_straggler, job.partitions, job.replicas, job.horizon_us) == ("correct", 1, 0, None)
    assert not job.partials


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("FROM s ON (role = 'web', zone = 'a')", (("role", "web"), ("zone", "a"))),
        ("FROM s ON (role = 'web' AND role = 'web') WHERE a = 1", (("role", "web"),)),
        ("FROM s AS x ON (role = 'web') GROUP BY a", (("role", "web"),)),
        ("FROM s WHERE extract(year FROM ts) = 1 AND a IS DISTINCT FROM b", ()),
    ],
)
def test_labels_of_a_stream(text: str, labels: tuple[tuple[str, str], ...]) -> None:
    statement = parse(f"SELECT a {text}")
    assert (statement.stream, statement.labels) == ("s", labels)


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("FROM s JOIN LATEST n.j AS j ON s.a = j.a", ["latest n/j", "s"]),
        ("FROM s JOIN n.j AS j ON s.a = j.a", ["n/j", "s"]),
        ("FROM s JOIN latest AS j ON s.a = j.a", ["latest", "s"]),  # a stream of that name
    ],
)
def test_latest_and_same_belong_to_a_job(text: str, streams: list[str]) -> None:
    assert sorted(part.stream for part in parse(f"SELECT s.a {text}").parts) == streams


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


@pytest.mark.parametrize(
    ("clauses", "history_us", "until_us"),
    [
        ("HISTORY '1 h'", 3_600_000_000, None),
        ("AS x ON (role = 'web') HISTORY '1 min' UNTIL HISTORY WHERE x.a = 1", 60_000_000, 0),
        ("x HISTORY 5 min UNTIL INTERVAL 10 SECONDS", 300_000_000, 10_000_000),
        ("UNTIL '1 s'", None, 1_000_000),
        ("HISTORY '0 s'", 0, None),
        ("HISTORY TIMESTAMP '1970-01-01' UNTIL HISTORY", 0, 0),
        (
            "HISTORY TIMESTAMP '1970-01-01T01:00:01+01:00' UNTIL TIMESTAMP '1970-01-02'",
            1_000_000,
            86_400_000_000,
        ),
        ("UNTIL TIMESTAMP '1970-01-01 00:00:02'", None, 2_000_000),
        ("history", None, None),
        ("until WHERE until.history = 1", None, None),
        ("HISTORY '1 h', t HISTORY '1 h'", 3_600_000_000, None),
    ],
)
def test_history_and_until_of_a_job(clauses: str, history_us: int | None, until_us: int | None) -> None:
    job = parse(f"CREATE JOB j EVERY '5 s' AS SELECT count(*) AS n FROM s {clauses}").job
    assert job is not None
    assert (job.history_us, job.until_us) == (history_us, until_us)
    assert job.dated is ("TIMESTAMP" in clauses)


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
