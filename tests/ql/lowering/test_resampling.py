"""How far RESAMPLE looks back, and the queries that it cannot look back in."""

from __future__ import annotations

import pytest

from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.plan.relation import Derived, Resampled

TAIL = "RESAMPLE at EVERY '10 s' PARTITION BY k FILL (x LINEAR) MAX GAP '90 s'"
BIN = "date_bin(INTERVAL '10' SECOND, ts) AS at"
JOB = "CREATE JOB a.b EVERY '1 min' AS "


@pytest.mark.parametrize(
    ("text", "size_s"),
    [
        (f"{JOB}SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, at {TAIL} ORDER BY k", 180),
        (f"{JOB}SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY 1, 2 {TAIL}", 180),
        (f"{JOB}SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, {BIN[:-6]} {TAIL}", 180),
        (f"SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY TUMBLE(ts, '1 min'), k, at {TAIL}", 180),
        (f"{JOB}SELECT k, ts AS at, x FROM s WHERE x > 0 {TAIL}", 180),
        (f"{JOB}SELECT k, {BIN}, avg(x) AS x FROM shop.metrics GROUP BY k, at {TAIL}", 180),
        (f"{JOB}SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, at {TAIL.partition('FILL')[0]}", 60),
    ],
)
def test_the_window_is_widened_by_the_gap_in_whole_intervals(text: str, size_s: int) -> None:
    window = parse(text).window
    assert window is not None
    assert (window.size_us, window.slide_us) == (size_s * 1_000_000, 60_000_000)


def test_without_intervals_there_is_nothing_to_look_back_to() -> None:
    assert parse(f"SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, at {TAIL}").window is None


def test_the_interval_of_a_query_to_the_fleet_is_no_grid_of_two_hundred_years() -> None:
    text = f"SELECT k, {BIN}, avg(x) AS x FROM s HISTORY '1 h' UNTIL HISTORY GROUP BY k, at {TAIL}"
    statement = parse(f"CREATE JOB a.b AS {text}")
    assert statement.window is not None
    assert statement.window.kind == "tumble"
    relation = statement.relation
    assert isinstance(relation, Derived)
    assert isinstance(relation.source, Resampled)
    assert (relation.source.bounded, relation.source.shown_us) == (False, 0)


ALONE = "looks back into earlier intervals, which this query cannot"
REFUSED = {
    f"SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY HOP(ts, '1 min', '2 min'), k, at {TAIL}": (
        "RESAMPLE with MAX GAP looks back itself"
    ),
    f"CREATE JOB a.b EVERY '25 s' AS SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, at {TAIL}": (
        "EVERY 10 s does not divide the interval of 25 s"
    ),
    f"{JOB}SELECT k, date_bin(INTERVAL '7' SECOND, ts) AS at, avg(x) AS x FROM s GROUP BY k, at {TAIL}": (
        "bins of 7 s do not divide the interval of 1 min"
    ),
    f"{JOB}SELECT k, max(ts) AS at, avg(x) AS x FROM s GROUP BY k {TAIL}": "not a bin of the event time ts",
    f"{JOB}SELECT k, date_bin(INTERVAL '10' SECOND, seen) AS at, avg(x) AS x FROM s GROUP BY k, at {TAIL}": (
        "not a bin of the event time ts"
    ),
    f"{JOB}SELECT k, {BIN}, x FROM s GROUP BY k, at, x, window_end {TAIL}": (
        "window_end is that of the look-back"
    ),
    f"{JOB}SELECT DISTINCT k, ts AS at, x FROM s {TAIL}": ALONE,
    f"{JOB}SELECT k, ts AS at, sum(x) OVER (ORDER BY ts) AS x FROM s {TAIL}": ALONE,
    f"{JOB}SELECT s.k, s.ts AS at, t.x FROM s JOIN t ON s.k = t.k {TAIL}": ALONE,
    f"{JOB}SELECT k, ts AS at, x FROM s WHERE x > (SELECT avg(x) AS a FROM s) {TAIL}": ALONE,
    f"{JOB}SELECT at FROM (SELECT k, ts AS at, x FROM s {TAIL}) t UNION ALL SELECT ts FROM s": ALONE,
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_query_of_another_shape_is_refused_at_the_clause(text: str) -> None:
    with pytest.raises(QueryError, match=REFUSED[text]) as error:
        parse(text)
    assert error.value.hint


def test_early_rows_and_partials_are_refused_with_it() -> None:
    text = f"SELECT k, {BIN}, avg(x) AS x FROM s GROUP BY k, at {TAIL}"
    with pytest.raises(QueryError, match="RESAMPLE fills gaps that later records close"):
        parse(f"CREATE JOB a.b EVERY '1 min' EARLY '1 s' AS {text}")
    with pytest.raises(QueryError, match="KEEP PARTIALS"):
        parse(f"CREATE JOB a.b EVERY '1 min' KEEP PARTIALS AS {text}")
