"""RESAMPLE against a walk over the rows of each partition, and the cases that its page promises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine.resampling import GRID_MAX
from tests.ql.conftest import run

START = datetime(2024, 3, 31, 0, 30, tzinfo=UTC)  # an hour is missing in Berlin at 01:00 UTC
Rows = list[tuple[str | None, int, float | None, int | None]]
"""Partition, seconds since START, a DOUBLE, a BIGINT."""

TUMBLE = "TUMBLE(ts, INTERVAL '1' MINUTE), "
FILLS = "FILL (x LINEAR, n PREVIOUS) MAX GAP '20 s'"


def table(rows: Rows, start: datetime = START) -> pa.Table:
    times = [start + timedelta(seconds=second) for _, second, _, _ in rows]
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "k": pa.array([row[0] for row in rows], pa.string()),
            "x": pa.array([row[2] for row in rows], pa.float64()),
            "n": pa.array([row[3] for row in rows], pa.int64()),
        }
    )


def answer(
    rows: Rows, clause: str, *, window: str = "", start: datetime = START
) -> dict[int, list[tuple[Any, ...]]]:
    """The rows of each interval: partition, seconds since START, x and n."""
    text = (
        f"SELECT k, date_bin(INTERVAL '10' SECOND, ts) AS at, max(x) AS x, max(n) AS n FROM t "
        f"GROUP BY {window}k, at RESAMPLE at EVERY '10 s' PARTITION BY k {clause} ORDER BY k, at"
    )
    return {
        index: [
            (row["k"], int((row["at"] - start).total_seconds()), row["x"], row["n"])
            for row in each.to_pylist()
        ]
        for index, each in run(text, table(rows, start)).items()
    }


@pytest.mark.parametrize("k", ["a", None])
@pytest.mark.parametrize("start", [START, datetime(1969, 12, 31, 23, 59, tzinfo=UTC)])
@pytest.mark.parametrize(
    ("clause", "filled"),
    [
        ("", [(None, None), (None, None), (None, None)]),
        ("FILL (x -1.5, n 7)", [(-1.5, 7), (-1.5, 7), (-1.5, 7)]),
        ("FILL (x 2, n NULL)", [(2.0, None), (2.0, None), (2.0, None)]),
        ("FILL (x PREVIOUS, n NEXT) MAX GAP '40 s'", [(1.0, 9), (1.0, 9), (1.0, 9)]),
        ("FILL (x PREVIOUS, n NEXT) MAX GAP '20 s'", [(1.0, None), (1.0, 9), (None, 9)]),
        ("FILL (x LINEAR, n PREVIOUS) MAX GAP '30 s'", [(2.0, 5), (3.0, 5), (4.0, 5)]),
        ("FILL (x LINEAR) MAX GAP '20 s'", [(None, None), (3.0, None), (None, None)]),
        ("FILL (x LINEAR OR PREVIOUS) MAX GAP '20 s'", [(1.0, None), (3.0, None), (None, None)]),
        ("FILL (n LINEAR) MAX GAP '1 s'", QueryError),
        ("FILL (x 'no') ", [(None, None)] * 3),
    ],
)
def test_a_gap_is_filled_by_the_rules_of_the_clause(
    clause: str, filled: Any, start: datetime, k: str | None
) -> None:
    rows: Rows = [(k, 0, 1.0, 5), (k, 40, 5.0, 9)]
    if filled is QueryError:
        with pytest.raises(QueryError, match="LINEAR is for DOUBLE, and n is BIGINT"):
            answer(rows, clause, start=start)
        return
    middle = [(k, second, *pair) for second, pair in zip((10, 20, 30), filled, strict=True)]
    assert answer(rows, clause, start=start) == {0: [(k, 0, 1.0, 5), *middle, (k, 40, 5.0, 9)]}


def test_the_interval_is_the_grid_and_a_neighbour_may_lie_before_it() -> None:
    given: Rows = [("a", 50, 1.0, 5), ("a", 130, 4.0, 8), ("b", 61, 2.0, 3)]
    found = answer(given, "FILL (n PREVIOUS) MAX GAP '40 s'", window=TUMBLE)
    a, b = "a", "b"
    assert list(found.values()) == [
        [*((a, at, None, None) for at in range(0, 50, 10)), (a, 50, 1.0, 5)],
        [
            *((a, at, None, 5) for at in (60, 70, 80, 90)),
            *((a, at, None, None) for at in (100, 110)),
            (b, 60, 2.0, 3),
            *((b, at, None, 3) for at in range(70, 110, 10)),
            (b, 110, None, None),
        ],
        [
            (a, 120, None, None),
            (a, 130, 4.0, 8),
            *((a, at, None, 8) for at in (140, 150, 160, 170)),
            *((b, at, None, None) for at in range(120, 180, 10)),
        ],
        [*((a, at, None, None) for at in range(180, 240, 10))],
    ]


def test_without_a_neighbour_an_interval_is_its_own() -> None:
    found = answer([("a", 50, 1.0, 5), ("a", 130, 4.0, 8)], "FILL (n 0)", window=TUMBLE)
    assert [len(rows) for rows in found.values()] == [6, 6]
    assert found == {index: sorted(rows) for index, rows in found.items()}


def test_a_null_is_no_neighbour_and_stays_where_it_is() -> None:
    given: Rows = [("a", 0, 1.0, None), ("a", 20, None, None), ("a", 40, 3.0, 2)]
    assert answer(given, "FILL (x LINEAR, n NEXT) MAX GAP '1 min'")[0] == [
        ("a", 0, 1.0, None), ("a", 10, 1.5, 2), ("a", 20, None, None), ("a", 30, 2.5, 2), ("a", 40, 3.0, 2),
    ]  # fmt: skip


def test_no_row_and_one_row() -> None:
    assert answer([], FILLS) == {0: []}
    assert answer([("a", 3, 1.0, 2)], FILLS) == {0: [("a", 0, 1.0, 2)]}


def test_an_hour_that_a_zone_leaves_out_is_in_the_grid() -> None:
    (rows,) = answer([("a", 0, 1.0, 1), ("a", 3600, 2.0, 2)], "").values()
    assert len(rows) == 361
    assert START.astimezone(ZoneInfo("Europe/Berlin")).utcoffset() == timedelta(hours=1)
    assert (START + timedelta(hours=1)).astimezone(ZoneInfo("Europe/Berlin")).utcoffset() == timedelta(
        hours=2
    )


def test_rows_beside_the_grid_stay_and_are_neighbours() -> None:
    text = "SELECT ts AS at, x FROM t RESAMPLE at EVERY '10 s' FILL (x PREVIOUS) MAX GAP '10 s'"
    (found,) = run(text, table([("a", 3, 1.0, 1), ("a", 25, 2.0, 2)])).values()
    seconds = [((row["at"] - START).total_seconds(), row["x"]) for row in found.to_pylist()]
    assert sorted(seconds) == [(3.0, 1.0), (10.0, 1.0), (20.0, None), (25.0, 2.0)]


def test_two_rows_at_one_time_are_refused_by_name() -> None:
    text = "SELECT k, ts AS at, n FROM t RESAMPLE at EVERY '10 s'"
    with pytest.raises(
        QueryError, match=r"two rows at one time: k=a, at=.*, n=1; and k=b, at=.*, n=2"
    ) as error:
        run(text, table([("a", 0, 1.0, 1), ("b", 0, 1.0, 2)]))
    assert (error.value.line, error.value.column) == (1, 30)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT n AS at FROM t RESAMPLE at EVERY '10 s'", "at of RESAMPLE is BIGINT, not TIMESTAMP"),
        ("SELECT ts AS at, n FROM t RESAMPLE at EVERY '10 s' FILL (n 'x')", ""),
        ("SELECT ts AS at, k FROM t RESAMPLE at EVERY '10 s' FILL (k TRUE)", ""),
        ("SELECT ts AS at, ts AS b FROM t RESAMPLE at EVERY '10 s' FILL (b 5)", "FILL of b is BIGINT"),
        ("SELECT ts AS at FROM t RESAMPLE at EVERY '1 us'", f"{GRID_MAX} are the most"),
        ("SELECT ts AS at, k FROM t RESAMPLE at EVERY '7 us' PARTITION BY k", "rows"),
    ],
)
def test_what_the_columns_cannot_be_filled_with(text: str, message: str) -> None:
    rows: Rows = [(f"k{second}", second, 1.0, 1) for second in range(6)]
    if not message:
        assert run(text, table(rows))
        return
    with pytest.raises(QueryError, match=message):
        run(text, table(rows))


# -- against a walk


cells = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.integers(0, 50).map(lambda at: at * 5),
    st.none() | st.integers(-4, 4).map(float),
    st.none() | st.integers(-4, 4),
)
HOWS = ("PREVIOUS", "NEXT", "LINEAR", "LINEAR OR PREVIOUS")


def walked(rows: Rows, hows: tuple[str, str], gap: int, grid: range) -> list[tuple[Any, ...]]:
    """The rows that there are by bins of 10 s, and those of the grid."""
    known: dict[tuple[str | None, int], list[Any]] = {}
    for k, second, x, n in rows:
        have = known.setdefault((k, second // 10 * 10), [None, None])
        for place, value in enumerate((x, n)):
            have[place] = (
                value if have[place] is None else have[place] if value is None else max(have[place], value)
            )
    found = [(k, at, *values) for (k, at), values in known.items()]
    for k in {k for k, _ in known}:
        mine = {at: values for (key, at), values in known.items() if key == k}
        for at in grid:
            if at not in mine:
                pair = [neighbour(mine, place, hows[place], gap, at) for place in range(2)]
                found.append((k, at, *pair))
    return sorted(found, key=lambda row: (row[0] is not None, row[0] or "", row[1]))


def neighbour(mine: dict[int, list[Any]], place: int, how: str, gap: int, at: int) -> Any:
    before = max(
        (each for each in mine if at - gap <= each < at and mine[each][place] is not None), default=None
    )
    after = min(
        (each for each in mine if at < each <= at + gap and mine[each][place] is not None), default=None
    )
    previous = None if before is None else mine[before][place]
    if how == "NEXT":
        return None if after is None else mine[after][place]
    if how == "PREVIOUS" or before is None or after is None:
        return previous if "PREVIOUS" in how else None
    return previous + (mine[after][place] - previous) * ((at - before) / (after - before))


@given(
    st.lists(cells, max_size=12),
    st.sampled_from(HOWS),
    st.sampled_from(HOWS[:2]),
    st.integers(1, 6).map(lambda n: n * 10),
)
def test_all_rows_are_those_of_a_walk(rows: Rows, one: str, other: str, gap: int) -> None:
    clause = f"FILL (x {one}, n {other}) MAX GAP '{gap} s'"
    bins = [second // 10 * 10 for _, second, _, _ in rows]
    whole = walked(rows, (one, other), gap, range(min(bins, default=0), max(bins, default=-10) + 10, 10))
    assert answer(rows, clause) == {0: whole}
    for index, found in answer(rows, clause, window=TUMBLE).items():
        start = found[0][1] // 60 * 60
        back = [row for row in rows if start - 60 <= row[1] < start + 60]
        expected = walked(back, (one, other), gap, range(start, start + 60, 10))
        assert found == [row for row in expected if row[1] >= start], index


def test_a_cut_of_the_rows_changes_nothing() -> None:
    rows: Rows = [("ab"[at % 2], at * 7, float(at), at) for at in range(30)]
    text = (
        "SELECT k, date_bin(INTERVAL '10' SECOND, ts) AS at, avg(x) AS x FROM t GROUP BY k, at"
        " RESAMPLE at EVERY '5 s' PARTITION BY k FILL (x LINEAR) MAX GAP '1 min'"
    )
    assert run(text, table(rows), batch_rows=3) == run(text, table(rows), batch_rows=30)
    assert parse(text).columns == ("k", "at", "x")
