"""Session windows: the root's step against sorting and walking, and against a real Spark."""

from __future__ import annotations

import datetime as dt
import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.cbt import Panes, decode_partial, encode_parts
from elfmesh.errors import QueryError
from elfmesh.ql.engine import sessions
from elfmesh.ql.engine.open_groups import NONE, ClosedPane, lacking_after, read_open
from elfmesh.ql.plan.statement import SESSION
from tests.ql.sessions import SECOND, Record, close_all, content, partials, walk
from tests.ql.test_spark_agreement import _same

GAP = 5 * SECOND
TEXT = """CREATE JOB shop.visits AS
SELECT k, window_start AS start, window_end AS end, count(*) AS n, sum(v) AS total,
       count(DISTINCT v) AS kinds, count(*) FILTER (WHERE v > 0) AS positive, median(v) AS middle
FROM clicks GROUP BY SESSION(ts, INTERVAL '5' SECOND), k"""

# Times on a grid of half a gap meet exactly, and just beside by a microsecond.
TIMES = st.builds(
    lambda grid, beside: 1_000 * GAP + grid * GAP // 2 + beside,
    st.integers(0, 30),
    st.sampled_from([0, 0, 0, 1, -1]),
)
RECORDS = st.lists(
    st.tuples(TIMES, st.sampled_from([None, "a", "b", "c"]), st.one_of(st.none(), st.integers(-2, 2))),
    max_size=40,
)


def micros(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


def expected(records: list[Record]) -> dict[int, list[tuple[Any, ...]]]:
    """Rows by the interval that shows them: the one behind the pane of the last record."""
    rows = defaultdict(list)
    for one in walk(records, GAP):
        values = sorted(value for value in one["values"] if value is not None)
        half = len(values) // 2
        middle = None if not values else (values[half] + values[-half - 1]) / 2
        total = sum(values) if values else None
        positive = sum(value > 0 for value in values)
        row = one["k"], one["start"], one["end"], len(one["values"]), total, len(set(values))
        rows[one["last"] // GAP + 1].append((*row, positive, middle))
    return dict(rows)


def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[0] or "", row[1]


def plain(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in table.to_pylist()]
    return [(row[0], micros(row[1]), micros(row[2]), *row[3:]) for row in rows]


@settings(max_examples=40)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.integers(1, 3), st.integers(0, 2**32))
def test_any_tree_and_any_split_give_the_sessions_of_sorting_and_walking(
    agents: list[list[Record]], partitions: int, seed: int
) -> None:
    text = TEXT.replace("AS\nSELECT", f"PARTITIONS {partitions} AS\nSELECT", 1)
    found = {}
    for index, table, share in close_all(text, agents, rng=random.Random(seed), partitions=partitions):
        assert share == 1.0
        if table.num_rows:
            found[index] = plain(table)
    wanted = expected([record for records in agents for record in records])
    assert {index: sorted(rows, key=key) for index, rows in found.items()} == {
        index: sorted(rows, key=key) for index, rows in wanted.items()
    }


@given(RECORDS)
def test_without_keys_there_is_one_chain_of_sessions(records: list[Record]) -> None:
    text = "CREATE JOB a.b AS SELECT window_start, window_end, count(*) AS n FROM s GROUP BY SESSION('5 s')"
    found = [
        (micros(row["window_start"]), micros(row["window_end"]), row["n"])
        for _, table, _ in close_all(text, [records])
        for row in table.to_pylist()
    ]
    same = [(at, None, value) for at, _, value in records]
    assert found == [(one["start"], one["end"], len(one["values"])) for one in walk(same, GAP)]


def test_a_session_has_the_least_completeness_of_the_intervals_it_spans() -> None:
    # a spans panes 0 to 2, b is in pane 2 alone; each is a row of the pane behind its last one.
    records = [(at * SECOND, "a", 1) for at in (1, 4, 8, 12)] + [(13 * SECOND, "b", 1), (31 * SECOND, "c", 1)]
    shares = [
        (index, share)
        for index, table, share in close_all(TEXT, [records], shares={1: 0.5})
        if table.num_rows
    ]
    assert shares == [(3, 0.5), (7, 1.0)]


def test_a_session_that_may_have_begun_in_an_incomplete_interval_is_incomplete() -> None:
    """Another agent may have a record of a at 4 s: the session would begin there."""
    records = [(1 * SECOND, "b", 1), (6 * SECOND, "a", 1), (21 * SECOND, "c", 1)]
    found = [
        (index, share)
        for index, table, share in close_all(TEXT, [records], shares={0: 0.5})
        if table.num_rows
    ]
    assert found == [(1, 0.5), (2, 0.5), (5, 1.0)]


def test_a_session_behind_a_skipped_interval_is_incomplete_even_if_none_was_open() -> None:
    statement = ql.parse(TEXT)
    open_ = read_open(lacking_after(b"", TEXT, SESSION, GAP), TEXT, SESSION)
    (part,) = partials(TEXT, [(6 * SECOND, "a", 1)])[1]
    fresh = {name: content(table) for name, table in decode_partial(part).items()}
    step = sessions.step(statement, open_, ClosedPane(fresh, start_us=GAP, end_us=2 * GAP))
    assert list(step.open.shares) == [0.0]
    later = sessions.step(statement, open_, ClosedPane(fresh, start_us=2 * GAP, end_us=3 * GAP))
    assert list(later.open.shares) == [1.0]


def test_keys_of_other_types_are_other_groups() -> None:
    statement = ql.parse("CREATE JOB a.b AS SELECT k, count(*) AS n FROM s GROUP BY SESSION('5 s'), k")
    rows = []
    open_ = NONE
    for values in (pa.array([1]), pa.array(["x"]), pa.array([2.5])):
        pane = {"main": content(_reduced(statement, values))}
        step = sessions.step(statement, open_, ClosedPane(pane))
        open_ = step.open
        rows += [
            block.column("k0").to_pylist() for content in step.ended.values() for block in content.blocks()
        ]
    assert rows == [[1], ["x"]]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM s a JOIN u b ON a.k = b.k GROUP BY SESSION(ts, '5 s'), a.k",
        "SELECT n FROM (SELECT count(*) AS n FROM s GROUP BY SESSION(ts, '5 s')) t",
        "SELECT k FROM s GROUP BY SESSION(ts, '5 s'), ROLLUP(k)",
        "SELECT k, rank() OVER (ORDER BY k) AS r FROM s GROUP BY SESSION(ts, '5 s'), k",
        "SELECT k FROM s GROUP BY SESSION(ts, '5 s'), k UNION ALL SELECT k FROM s",
        "SELECT k FROM s GROUP BY SESSION(ts, '5 s'), k HAVING count(*) > (SELECT count(*) FROM s)",
    ],
)
def test_what_is_more_than_one_stream_alone_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="one stream alone"):
        ql.parse(text)


QUERIES = [
    "SELECT k, {start} AS s, {end} AS e, count(*) AS n, sum(v) AS t FROM clicks GROUP BY {window}, k",
    "SELECT {start} AS s, {end} AS e, count(DISTINCT k) AS n, avg(v) AS m FROM clicks GROUP BY {window}",
    "SELECT k, upper(k) AS u, count(*) AS n, percentile(v, 0.5) AS m FROM clicks WHERE v <> 3 "
    "GROUP BY {window}, k HAVING count(*) > 1",
    "SELECT k, v % 2 AS odd, {start} AS s, max(v) AS m FROM clicks "
    "GROUP BY k, {window}, v % 2 HAVING {end} > timestamp '2020-01-01 00:00:30'",
]


@pytest.mark.spark
@pytest.mark.slow
def test_sessions_are_those_of_spark(spark: Any) -> None:
    rng = random.Random(5)
    begin = 1_577_836_800 * SECOND
    records = [
        (
            begin + rng.randrange(90) * GAP // 2 + rng.choice([0, 0, 1, -1]),
            rng.choice([None, "a", "b", "c"]),
            rng.choice([None, *range(7)]),
        )
        for _ in range(70)
    ]
    rows = [(dt.datetime.fromtimestamp(at / SECOND, dt.UTC), k, v) for at, k, v in records]
    assert [micros(moment) for moment, _, _ in rows] == [at for at, _, _ in records]
    spark.createDataFrame(
        [*rows, (None, "a", 1)], "ts timestamp, k string, v bigint"
    ).createOrReplaceTempView("clicks")
    for gap in ("5 seconds", "2500 milliseconds"):
        for shape in QUERIES:
            window = f"session_window(ts, '{gap}')"
            text = shape.format(window=window, start=f"{window}.start", end=f"{window}.end")
            short = shape.format(window=window, start="session_window.start", end="session_window.end")
            theirs = [tuple(row.values()) for row in spark.sql(short).toArrow().to_pylist()]
            for mine_text in (text, short) if gap == "5 seconds" else (text,):
                job = f"CREATE JOB a.b AS {mine_text}"
                halves = [records[::2], records[1::2]]
                mine = [tuple(row.values()) for _, t, _ in close_all(job, halves) for row in t.to_pylist()]
                ours, other = (sorted(each, key=repr) for each in (_zoned(mine), _zoned(theirs)))
                assert len(ours) == len(other) > 1, text
                assert all(
                    _same(one, two) or one is two is None
                    for row, reference in zip(ours, other, strict=True)
                    for one, two in zip(row, reference, strict=True)
                ), (text, ours, other)


def _zoned(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [
        tuple(each.replace(tzinfo=dt.UTC) if isinstance(each, dt.datetime) else each for each in row)
        for row in rows
    ]


def _reduced(statement: ql.Statement, keys: pa.Array) -> pa.Table:
    """One record in pane 0: whether a session goes on is up to the keys alone."""
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.timestamp("us", tz="UTC")), keys], names=["ts", "k"])
    prepared = ql.Query(statement).prepare(batch)
    panes = Panes(statement.tables, GAP)
    panes.insert("main", prepared.panes["main"], prepared.tables["main"])
    content = panes.window(0)
    assert content is not None
    return decode_partial(encode_parts(content, 1)[0])["main"]
