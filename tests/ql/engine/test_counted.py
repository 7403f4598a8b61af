"""Windows of ROWS: the root's step against sorting and counting, over any split of the records."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.cbt import Content, Panes
from elfmesh.errors import DataError
from elfmesh.ql.engine import counted
from elfmesh.ql.engine.counted import TABLE
from elfmesh.ql.engine.open_groups import NONE, ClosedPane, Open, lacking_after, read_open, write_open
from elfmesh.ql.plan.statement import ROWS
from tests.ql.counting import close_in_order, full_windows
from tests.ql.sessions import SECOND, Record, query_of

WIDTH = 5 * SECOND
SELECT = """SELECT k, count(*) AS n, sum(v) AS total, count(v) AS present, min(v) AS least,
       window_start AS begin, window_end AS last FROM s"""
RECORDS = st.lists(
    st.tuples(
        st.builds(
            lambda at, beside: at * WIDTH // 2 + beside, st.integers(0, 12), st.sampled_from([0, 0, 1])
        ),
        st.sampled_from([None, "a", "b"]),
        st.one_of(st.none(), st.integers(-2, 2)),
    ),
    max_size=40,
)


def text_of(size: int, slide: int, partitions: int = 1) -> str:
    head = f"CREATE JOB a.b EVERY '5 s' PARTITIONS {partitions} AS"
    return f"{head} {SELECT} GROUP BY ROWS({size}, {slide}), k"


def row_of(key: str | None, window: list[Record]) -> tuple[Any, ...]:
    values = [value for _, _, value in window if value is not None]
    total, least = (sum(values), min(values)) if values else (None, None)
    return key, len(window), total, len(values), least, window[0][0], window[-1][0]


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    plain = table.set_column(5, "begin", table.column("begin").cast(pa.int64()))
    plain = plain.set_column(6, "last", plain.column("last").cast(pa.int64()))
    return [tuple(row.values()) for row in plain.to_pylist()]


@settings(max_examples=60)
@given(
    st.lists(RECORDS, min_size=1, max_size=4), st.integers(1, 5), st.integers(1, 7), st.integers(1, 3),
    st.integers(0, 2**32),
)  # fmt: skip
def test_any_tree_and_any_split_give_the_windows_of_sorting_and_counting(
    agents: list[list[Record]], size: int, slide: int, partitions: int, seed: int
) -> None:
    records = [record for each in agents for record in each]
    wanted = defaultdict(list)
    for interval, key, window in full_windows(records, size, slide, WIDTH):
        wanted[interval].append(row_of(key, window))
    found = {}
    text = text_of(size, slide, partitions)
    for index, table, share in close_in_order(text, agents, rng=random.Random(seed), partitions=partitions):
        assert share == 1.0
        if table.num_rows:
            found[index] = sorted(rows_of(table), key=repr)
    assert found == {interval: sorted(rows, key=repr) for interval, rows in wanted.items()}


def test_equal_records_on_both_sides_of_a_window_are_divided() -> None:
    records: list[Record] = [(at // 5, "a", 7 if at < 5 else 1) for at in range(6)]
    (first,) = close_in_order(text_of(2, 2), [records[:3], records[3:]])
    assert sorted((row[1], row[2]) for row in rows_of(first[1])) == [(2, 8), (2, 14), (2, 14)]


def test_records_with_one_time_are_in_the_order_of_the_fields_in_use() -> None:
    records: list[Record] = [(0, "a", value) for value in (3, None, -1, 2)]
    (first,) = close_in_order(text_of(2, 2), [records])
    assert [row[2] for row in rows_of(first[1])] == [-1, 5]


def test_without_keys_there_is_one_count() -> None:
    text = "CREATE JOB a.b EVERY '5 s' AS SELECT sum(v) AS total FROM s GROUP BY ROWS(2)"
    records: list[Record] = []
    records += [(at, key, at) for at, key in enumerate("abcab")]
    (first,) = close_in_order(text, [records[:2], records[2:]])
    assert first[1].to_pylist() == [{"total": 1}, {"total": 5}]


def test_an_interval_that_lacks_records_makes_all_later_windows_incomplete() -> None:
    records: list[Record] = [(at * WIDTH, "a", 1) for at in range(6)]
    shares = [share for _, _, share in close_in_order(text_of(2, 1), [records], shares={2: 0.5, 4: 0.75})]
    assert shares == [1.0, 1.0, 0.5, 0.5, 0.5, 0.5]


def test_the_share_of_an_interval_without_records_is_kept() -> None:
    found = list(close_in_order(text_of(1, 1), [[(3 * WIDTH, "a", 1)]], shares={0: 0.5}))
    assert [share for _, _, share in found] == [0.5] * 4


def test_a_skipped_interval_begins_all_counts_again() -> None:
    text = text_of(3, 3)
    statement = query_of(text).statement
    open_ = counted.step(statement, NONE, ClosedPane(_pane(text, [(0, "a", 1)]), end_us=WIDTH)).open
    skipped = lacking_after(write_open(open_, text, ROWS), text, ROWS, 2 * WIDTH)
    found = read_open(skipped, text, ROWS)
    assert (found.shares, found.lacking) == ({}, ((2 * WIDTH, 0.0),))
    assert read_open(lacking_after(b"", text, ROWS, WIDTH), text, ROWS).lacking == ((WIDTH, 0.0),)


def test_a_group_whose_next_record_begins_a_window_keeps_nothing() -> None:
    assert _kept(text_of(2, 2), [(0, "a", 1), (1, "a", 1)]) == []
    assert _kept(text_of(1, 1), [(0, "a", 1), (1, "a", 1)]) == []


def test_a_group_keeps_the_records_of_windows_that_are_not_full() -> None:
    assert _kept(text_of(3, 1), [(at, "a", at) for at in range(9)]) == [(0, 7), (1, 8)]


def test_a_group_between_two_windows_keeps_its_last_record() -> None:
    records: list[Record] = [(at, "a", at) for at in range(3)]
    assert _kept(text_of(2, 5), records) == [(-3, 2)]  # two more records are in no window


def test_too_many_rows_of_windows_fail_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "OPEN_ROWS_MAX", 5)
    with pytest.raises(DataError, match="the windows of an interval have more than 5 rows") as caught:
        _kept(text_of(2, 1), [(at, "a", at) for at in range(5)])
    assert "step longer" in caught.value.hint


def test_another_number_begins_the_counts_again() -> None:
    before, after = text_of(3, 3), text_of(4, 3)
    assert not ql.compare(before, after).same_records or ql.compare(before, after).state == ql.RESET
    open_ = counted.step(
        query_of(before).statement, NONE, ClosedPane(_pane(before, [(0, "a", 1)]), end_us=WIDTH)
    ).open
    assert read_open(write_open(open_, before, ROWS), after, ROWS) == NONE


def _pane(text: str, records: list[Record]) -> dict[str, Content]:
    query = query_of(text)
    times, keys, values = zip(*records, strict=True)
    columns = [pa.array(times, pa.timestamp("us", "UTC")), pa.array(keys), pa.array(values)]
    prepared = query.prepare(pa.RecordBatch.from_arrays(columns, names=["ts", "k", "v"]))
    panes = Panes(query.statement.tables, WIDTH, WIDTH)
    panes.insert_all({name: (prepared.panes[name], rows) for name, rows in prepared.tables.items()})
    found = panes.window(0)
    assert found is not None
    return dict(found)


def _kept(text: str, records: list[Record]) -> list[tuple[int, int]]:
    """Return position and value of the records that are kept."""
    step = counted.step(query_of(text).statement, Open({}), ClosedPane(_pane(text, records), end_us=WIDTH))
    tables = step.open.tables()
    if TABLE not in tables:
        return []
    keys = tables[TABLE].keys
    return list(zip(keys[-1].to_pylist(), keys[2].to_pylist(), strict=True))
