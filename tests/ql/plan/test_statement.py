"""What parsing says about a statement before any data comes."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.errors import QueryError
from elfmesh.ql import JobClause, Query, WindowSpec, expand, parse, parse_many

PAPER = """--@test input=clicks.ndjson expect=top10.json
CREATE JOB shop.micro_promotion
  EVERY '30 s' LATENESS '5 s' DEADLINE '1 s' ON STRAGGLER CORRECT     -- all optional
AS
SELECT product, SUM(clicks_count) AS clicks
FROM   clicks ON (role = 'web')
WHERE  directory = 'Video Games' AND user.location <> 'test'
GROUP BY TUMBLE(ts, INTERVAL '30' SECOND), product
HAVING SUM(clicks_count) > 1
ORDER BY clicks DESC LIMIT 10
"""


def test_the_job_of_the_contract_is_understood() -> None:
    statement = parse(PAPER, source="top.elfql")
    assert statement.job == JobClause(
        "shop", "micro_promotion", 30_000_000, 5_000_000, 1_000_000, "correct", 1
    )
    assert statement.job.qualified == "shop/micro_promotion"
    assert (statement.stream, statement.labels) == ("clicks", (("role", "web"),))
    assert statement.window == WindowSpec("tumble", "ts", 30_000_000, 30_000_000)
    assert statement.fields == ("clicks_count", "directory", "product", "ts", "user.location")
    (main,) = statement.tables
    assert (main.name, main.keys, main.aggregates) == ("main", ("k0",), {"a0": ("sum", "v0")})
    assert Query(statement).columns == ("product", "clicks")
    assert statement.text.startswith("CREATE JOB")
    assert statement.text.endswith("LIMIT 10")


def test_a_job_without_options_takes_the_documented_defaults() -> None:
    job = parse("create job top as select count(*) from s group by tumble('1 min')").job
    assert job == JobClause("default", "top", None, 0, 1_000_000, "correct", 1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("EVERY INTERVAL 5 MINUTES", JobClause("a", "b", 300_000_000)),
        ("EVERY INTERVAL '5' MINUTE LATENESS 2 SECONDS", JobClause("a", "b", 300_000_000, 2_000_000)),
        ("PARTITIONS 8 EVERY '1 h'", JobClause("a", "b", 3_600_000_000, partitions=8)),
        (
            "EVERY '1 s' ON STRAGGLER skip DEADLINE '250 ms'",
            JobClause("a", "b", 1_000_000, 0, 250_000, "skip"),
        ),
    ],
)  # fmt: skip
def test_job_options_come_in_any_order_and_spelling(options: str, expected: JobClause) -> None:
    assert parse(f"CREATE JOB a.b {options} AS SELECT count(*) FROM s").job == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("TUMBLE(ts, INTERVAL '30' SECOND)", WindowSpec("tumble", "ts", 30_000_000, 30_000_000)),
        ("TUMBLE(ts, INTERVAL 30 SECONDS)", WindowSpec("tumble", "ts", 30_000_000, 30_000_000)),
        ("TUMBLE(at.time, '30 s')", WindowSpec("tumble", "at.time", 30_000_000, 30_000_000)),
        ("TUMBLE(INTERVAL '1' HOUR)", WindowSpec("tumble", "ts", 3_600_000_000, 3_600_000_000)),
        (
            "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)",
            WindowSpec("hop", "ts", 30_000_000, 10_000_000),
        ),
        ("HOP('4 s', '10 s')", WindowSpec("hop", "ts", 10_000_000, 4_000_000)),
        ("window(ts, '30 seconds')", WindowSpec("tumble", "ts", 30_000_000, 30_000_000)),
        ("window(ts, '30 seconds', '10 seconds')", WindowSpec("hop", "ts", 30_000_000, 10_000_000)),
        ("s.window(ts, '30 seconds')", None),
    ],
)
def test_window_calls_of_both_spellings(call: str, expected: WindowSpec | None) -> None:
    text = f"SELECT window_start, window.end AS e, count(*) FROM s GROUP BY {call}"
    if expected is None:
        with pytest.raises(QueryError):
            parse(text)
    else:
        assert parse(text).window == expected


def test_panes_are_the_greatest_common_width() -> None:
    window = parse("SELECT count(*) FROM s GROUP BY HOP(ts, '4 s', '10 s')").window
    assert window is not None
    assert window.pane_us == 2_000_000


def test_every_without_a_window_tumbles_over_ts() -> None:
    statement = parse("CREATE JOB j EVERY '5 s' AS SELECT host FROM s")
    assert statement.window == WindowSpec("tumble", "ts", 5_000_000, 5_000_000)
    assert statement.fields == ("host", "ts")


def test_every_may_repeat_the_slide_of_the_window() -> None:
    text = "CREATE JOB j EVERY '4 s' AS SELECT count(*) FROM s GROUP BY HOP(ts, '4 s', '10 s')"
    assert parse(text).window == WindowSpec("hop", "ts", 10_000_000, 4_000_000)


def test_labels_are_joined_by_and_or_comma() -> None:
    text = "SELECT a FROM s x ON (role = 'web' AND zone='eu-1', rack = 'r''7') WHERE x.b = 'on'"
    statement = parse(text)
    assert statement.labels == (("role", "web"), ("zone", "eu-1"), ("rack", "r'7"))
    assert statement.fields == ("a", "b")


def test_equal_aggregates_and_values_are_shared() -> None:
    statement = parse("SELECT sum(a), avg(a), sum(a) / count(*) AS m, count(a), max(a), min(a + 0) FROM s")
    (main,) = statement.tables
    assert main.keys == ()
    assert main.aggregates == {
        "a0": ("sum", "v0"), "a1": ("count", "v0"), "a2": ("count", None), "a3": ("count", "v1"),
        "a4": ("max", "v1"), "a5": ("min", "v2"),
    }  # fmt: skip


def test_each_distinct_count_has_a_table_of_its_own() -> None:
    text = (
        "SELECT h, count(DISTINCT u), count(DISTINCT u, p) AS n, count(DISTINCT u) + 1 AS m FROM s GROUP BY h"
    )
    tables = parse(text).tables
    assert [(table.name, table.keys, table.aggregates) for table in tables] == [
        ("main", ("k0",), {}), ("d0", ("k0", "x"), {}), ("d1", ("k0", "x", "x1"), {}),
    ]  # fmt: skip


def test_a_projection_groups_by_its_outputs_with_a_hidden_count() -> None:
    (main,) = parse("SELECT a, upper(b), 1 AS one FROM s ORDER BY c").tables
    assert (main.keys, main.aggregates) == (("k0", "k1", "k2"), {"a0": ("count", None)})


def test_fields_are_dotted_paths_and_backquotes_and_the_alias_of_the_stream_are_understood() -> None:
    text = "SELECT `user-id`, x.a.b.c.d.e, s.b, c['k'].l, `q`.`r` FROM s x WHERE X.f > _raw AND _host = ''"
    with pytest.raises(QueryError, match="two columns are called e"):
        parse("SELECT a.e, b.e FROM s")
    assert parse(text).fields == ("_host", "_raw", "a.b.c.d.e", "b", "c.k.l", "f", "q.r", "user-id")


def test_unnamed_columns_are_called_as_in_spark() -> None:
    text = (
        "SELECT count(*), sum(a) / 2, a.b, upper(c) || '!', a.d > 1 AND NOT e, CAST(f AS BIGINT), "
        "count(DISTINCT g) FROM s GROUP BY a.b, upper(c), a.d > 1 AND NOT e, f"
    )
    assert Query(parse(text)).columns == (
        "count(1)", "(sum(a) / 2)", "b", "concat(upper(c), !)", "((a.d > 1) AND (NOT e))",
        "CAST(f AS BIGINT)", "count(DISTINCT g)",
    )  # fmt: skip


def test_many_statements_keep_their_own_text() -> None:
    text = "-- first\nSELECT a FROM s;;\nCREATE JOB j EVERY '1 s' AS SELECT count(*) FROM s -- the job\n;"
    first, second = parse_many(text, source="x.elfql")
    assert (first.text, first.source) == ("SELECT a FROM s", "x.elfql")
    assert second.text == "CREATE JOB j EVERY '1 s' AS SELECT count(*) FROM s"
    assert parse(second.text) == parse(second.text)


def test_star_waits_for_the_columns_of_the_format() -> None:
    statement = parse("SELECT *, _raw FROM s WHERE a > 1")
    assert statement.star
    assert statement.fields == ("*", "_raw", "a")
    with pytest.raises(QueryError, match="needs the columns"):
        Query(statement)
    whole = expand(statement, ["b", "a"])
    assert not whole.star
    assert Query(whole).columns == ("b", "a", "_raw")
    assert whole.fields == ("_raw", "a", "b")
    assert expand(whole, ["z"]) is whole


SCHEMA = pa.schema([("host", pa.string()), ("status", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("SELECT hots FROM access", 8, "access has no column hots", "Did you mean host?"),
        ("SELECT count(*) FROM access WHERE Status = 1", 35, "no column Status", "Did you mean status?"),
        ("SELECT xyz FROM access", 8, "no column xyz", "There are host, status, ts."),
        ("SELECT count(*) FROM access GROUP BY TUMBLE(time, '1 s')", 1, "no column time", ""),
        (
            "SELECT left(host, 1) AS status, count(*) FROM access GROUP BY status",
            63,
            "and an alias",
            "AS other",
        ),
    ],
)
def test_names_are_checked_against_a_known_format(text: str, column: int, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        Query(parse(text)).check_schema(SCHEMA)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.column == column


def test_implicit_columns_are_known_to_every_format() -> None:
    Query(parse("SELECT _raw, _source, _host, host.x FROM access")).check_schema(SCHEMA)


def test_a_text_is_parsed_once_however_its_source_is_named() -> None:
    text = "SELECT count(*) AS once FROM clicks"
    assert parse(text) is parse(text, source="query")
    with pytest.raises(QueryError, match=r"other\.elfql"):
        parse("SELECT", source="other.elfql")


def test_nothing_of_sqlglot_is_subclassed() -> None:
    for path in Path(ql.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sqlglot")
            for alias in node.names
        } | {"sqlglot"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {
                    name.id for base in node.bases for name in ast.walk(base) if isinstance(name, ast.Name)
                }
                assert not bases & names, f"{path.name}: {node.name}"


def test_importing_the_language_does_not_read_the_clock_or_the_network() -> None:
    unwanted = "{'asyncio', 'pyspark'}"  # pandas is loaded by Arrow, where there is one
    probe = f"import sys, elfmesh.ql; print(sorted(set(sys.modules) & {unwanted}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
