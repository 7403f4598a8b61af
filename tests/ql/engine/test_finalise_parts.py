"""Large intervals are finished block by block, with the rows that one table would give."""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import Panes, finish
from elfmesh.ql import Query, parse
from elfmesh.ql.engine.finalise_parts import finalise_parts


@dataclass
class Parts:
    """A table cut at random places."""

    table: pa.Table
    seed: int

    @property
    def rows_max(self) -> int:
        return int(self.table.num_rows)

    def blocks(self) -> Iterator[pa.Table]:
        rng, start = random.Random(self.seed), 0
        while start < self.table.num_rows:
            rows = rng.randrange(4)
            yield self.table.slice(start, rows)
            start += rows


QUERIES = (
    "SELECT k, j, sum(v) AS s, count(*) AS n FROM t GROUP BY k, j",
    "SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY s DESC, k LIMIT 3",
    "SELECT k, max(v) AS m FROM t GROUP BY k HAVING max(v) > 2 ORDER BY m LIMIT 2",
    "SELECT DISTINCT j FROM t ORDER BY j LIMIT 2",
    "SELECT DISTINCT max(v) AS m FROM t GROUP BY k ORDER BY m DESC LIMIT 2",
    "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 5",
    "SELECT k, v FROM t ORDER BY v",
    "SELECT count(DISTINCT v) AS d, count(*) AS n FROM t",
    "SELECT k, count(DISTINCT v, j) AS d, count(DISTINCT j) AS e FROM t GROUP BY k ORDER BY d DESC LIMIT 4",
    "SELECT k, count(DISTINCT v) FILTER (WHERE v > 100) AS d FROM t GROUP BY k",
    "SELECT avg(v) AS a, min(k) AS low FROM t",
    "SELECT k, sum(v) * 2 AS twice FROM t GROUP BY k ORDER BY twice LIMIT 100",
)
ROW = st.tuples(
    st.sampled_from([None, "a", "b", "c", "d", "e"]),
    st.sampled_from([None, "x", "y"]),
    st.one_of(st.none(), st.integers(0, 5), st.just(2**62)),
)


@pytest.mark.parametrize("text", QUERIES)
@settings(max_examples=25, deadline=None)
@given(rows=st.lists(ROW, max_size=30), seed=st.integers(0, 5))
def test_parts_give_the_rows_of_the_whole(
    text: str, rows: list[tuple[str | None, str | None, int | None]], seed: int
) -> None:
    query = Query(parse(text))
    kinds = {"k": pa.string(), "j": pa.string(), "v": pa.int64()}
    columns = {
        name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())
    }
    panes = Panes(query.statement.tables, None)
    prepared = query.prepare(pa.record_batch(columns))
    for name, batch in prepared.tables.items():
        panes.insert(name, pa.nulls(batch.num_rows, pa.int64()).fill_null(0).to_numpy(), batch)
    reduced = panes.window(0)
    tables = {} if reduced is None else finish(reduced)
    whole = query.finalise(tables, None)
    parts = {name: Parts(table, seed) for name, table in tables.items()}
    assert query.finalise_parts(parts, None).equals(whole)
    assert finalise_parts(query.finaliser, parts, None, part_rows_min=0).equals(whole)


def test_a_sum_that_is_wide_in_one_block_is_wide_in_all() -> None:
    query = Query(parse("SELECT k, sum(v) AS s, sum(v) / 2 AS h FROM t GROUP BY k ORDER BY k LIMIT 9"))
    narrow = pa.table({"k0": ["a", "b"], "a0": pa.array([1, 2], pa.int64())})
    wide = pa.table({"k0": ["c"], "a0": pa.array([2**63], pa.decimal128(38, 0))})

    class Blocks:
        rows_max = 3

        def blocks(self) -> Iterator[pa.Table]:
            yield narrow
            yield wide

    found = finalise_parts(query.finaliser, {"main": Blocks()}, None, part_rows_min=0)
    whole = pa.concat_tables([narrow, wide], promote_options="permissive")
    assert found.equals(query.finalise({"main": whole}, None))
    assert [int(value) for value in found.column("s").to_pylist()] == [1, 2, 2**63]


def test_only_the_best_rows_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elfmesh.ql.engine.finalise_parts.HELD_ROWS_MAX", 10)
    query = Query(parse("SELECT k, sum(v) AS s FROM t GROUP BY k ORDER BY s DESC LIMIT 3"))
    table = pa.table({"k0": [f"{n:04}" for n in range(1000)], "a0": [(n * 7919) % 1000 for n in range(1000)]})
    parts = {"main": Parts(table, 1)}
    found = finalise_parts(query.finaliser, parts, None, part_rows_min=0)
    assert found.equals(query.finalise({"main": table}, None))
    assert found.column("s").to_pylist() == [999, 998, 997]


@pytest.mark.parametrize(
    ("text", "name", "columns"),
    [
        ("SELECT count(DISTINCT v) AS d FROM t", "d0", {"x": 0}),
        ("SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n DESC LIMIT 1", "main", {"k0": 0, "a0": 1}),
    ],
)
def test_a_few_rows_of_long_values_are_finished_block_by_block_too(
    text: str, name: str, columns: dict[str, int]
) -> None:
    held: list[weakref.ref[pa.Table]] = []
    most = 0

    class Blocks:
        rows_max = 64

        def blocks(self) -> Iterator[pa.Table]:
            nonlocal most
            for at in range(64):
                long, few = pa.array([f"{at:04}" * (1 << 18)]), pa.array([at])
                block = pa.table([long if kind == 0 else few for kind in columns.values()], list(columns))
                held.append(weakref.ref(block))
                most = max(most, sum(each() is not None for each in held))
                yield block
                del block

    found = finalise_parts(Query(parse(text)).finaliser, {name: Blocks()}, None)
    assert found.num_rows == 1
    assert most < 16
