"""What several queries want of one block is computed once, and each of them gets what it would have alone."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.ql import Query, parse, to_timestamp_us
from elfmesh.ql.engine import block
from elfmesh.ql.engine.block import INT64_MAX, BlockRows, count_panes
from elfmesh.ql.expressions.operand import Env, Operand, shared

JOBS = (
    "SELECT upper(k) u, count(*) n FROM t WHERE v > 2 GROUP BY TUMBLE(ts, '10 s'), upper(k)",
    "SELECT upper(k) u, sum(v) s FROM t  WHERE  v>2 GROUP BY TUMBLE(ts, '10 s'), upper(k)",
    "SELECT upper(k) u, max(CAST(w AS DOUBLE)) s FROM t GROUP BY TUMBLE(ts, '10 s'), upper(k)",
    "SELECT sum(CAST(w AS DOUBLE)) s FROM t WHERE v > 2 AND k <> 'b' GROUP BY TUMBLE(ts, '10 s')",
    "SELECT k, count(DISTINCT upper(k)) s FROM t WHERE k IS NOT NULL GROUP BY HOP(ts, '5 s', '10 s'), k",
    "SELECT k, v FROM t WHERE upper(k) = 'A'",
)


def batch_of(rows: list[tuple[str | None, int | None, str | None, int | None]]) -> pa.RecordBatch:
    kinds = (pa.string(), pa.int64(), pa.string(), pa.timestamp("us", "UTC"))
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.RecordBatch.from_arrays(columns, names=["k", "v", "w", "ts"])


ROW = st.tuples(
    st.sampled_from([None, "a", "b", "A"]),
    st.one_of(st.none(), st.integers(0, 5)),
    st.sampled_from([None, "1", "2.5", "x"]),
    st.one_of(st.none(), st.integers(-30_000_000, 30_000_000)),
)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(ROW, max_size=30), seed=st.integers(0, 100), in_order=st.booleans())
def test_jobs_that_share_a_block_get_what_each_would_get_alone(
    rows: list[Any], seed: int, in_order: bool
) -> None:
    if in_order:
        rows = sorted((row for row in rows if row[3] is not None), key=lambda row: int(row[3]))
    batch = batch_of(rows)
    shared = BlockRows.of(batch)
    for text in random.Random(seed).sample(JOBS, len(JOBS)):
        alone, together = Query(parse(text)).prepare(batch), Query(parse(text)).prepare(shared)
        assert together.tables == alone.tables
        assert {n: p.tolist() for n, p in together.panes.items()} == {
            n: p.tolist() for n, p in alone.panes.items()
        }
        assert (together.kept, together.filtered, together.undated, together.passed) == (
            alone.kept,
            alone.filtered,
            alone.undated,
            alone.passed,
        )
        if together.panes:
            assert Counter(together.panes["main"].tolist()) == Counter(together.kept)
        for name, runs in together.runs.items():
            assert [pane for pane, count in runs.items() for _ in range(count)] == together.panes[
                name
            ].tolist()
        several = "main" in together.panes and len(set(together.panes["main"].tolist())) > 1
        assert ("main" in together.runs) or not (in_order and several)
        assert together.passed + sum(together.filtered.values()) + together.undated == batch.num_rows


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each shared expression was run."""
    seen: Counter[str] = Counter()

    def counting(expr: Any, operand: Operand) -> Operand:
        run = operand.run

        def counted(env: Env) -> Any:
            seen[expr.name] += 1
            return run(env)

        return shared(expr, operand if operand.constant else Operand(operand.type, counted))

    monkeypatch.setattr("elfmesh.ql.functions.compiler.shared", counting)
    return seen


def test_ten_jobs_on_a_block_convert_cast_and_filter_once(
    evaluations: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conversions: list[int] = []

    def convert(array: pa.Array) -> pa.Array:
        conversions.append(1)
        return to_timestamp_us(array)

    monkeypatch.setattr(block, "to_timestamp_us", convert)
    shared = BlockRows.of(batch_of([("a", n % 5, str(n), n * 1_000_000) for n in range(100)]))
    text = (
        "SELECT upper(k) u, {}(CAST(w AS DOUBLE)) s FROM t WHERE v > 2 GROUP BY TUMBLE(ts, '10 s'), upper(k)"
    )
    for kind in ("sum", "max", "min", "avg", "count") * 2:
        assert Query(parse(text.format(kind))).prepare(shared).passed == 40
    assert len(conversions) == 1
    assert {name: evaluations[name] for name in (">", "upper", "cast")} == {">": 1, "upper": 1, "cast": 1}


def test_what_is_known_of_all_rows_is_filtered_and_not_computed_again(evaluations: Counter[str]) -> None:
    shared = BlockRows.of(batch_of([("a", n % 5, None, None) for n in range(100)]))
    Query(parse("SELECT upper(k) u, count(*) FROM t GROUP BY upper(k)")).prepare(shared)
    few = Query(parse("SELECT upper(k) u, count(*) FROM t WHERE v = 1 GROUP BY upper(k)")).prepare(shared)
    assert few.tables["main"].column("k0").to_pylist() == ["A"] * 20
    assert evaluations["upper"] == 1


def test_expressions_that_only_look_alike_are_not_shared() -> None:
    shared = BlockRows.of(batch_of([("a", 3, "1", 0)]))
    texts = ("v + 1", "v + 1.0", "v + '1'", "w", "`w`", "CAST(v AS STRING)", "CAST(v AS DOUBLE)")
    values = [
        Query(parse(f"SELECT {text} AS x FROM t")).prepare(shared).tables["main"].column("k0").to_pylist()[0]
        for text in texts
    ]
    assert [(type(value), value) for value in values] == [
        (int, 4), (float, 4.0), (float, 4.0), (str, "1"), (str, "1"), (str, "3"), (float, 3.0),
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["0.0", "-0.0"])
def test_a_zero_keeps_its_sign_whichever_query_comes_first(first: str) -> None:
    shared = BlockRows.of(batch_of([("a", 3, "1", 0)]))
    signs = {}
    for zero in (first, "0.0", "-0.0"):
        query = Query(parse(f"SELECT if(k = 'a', {zero}, 1.0) AS x FROM t"))
        signs[zero] = np.signbit(query.prepare(shared).tables["main"].column("k0")[0].as_py())
    assert signs == {"0.0": False, "-0.0": True}


def test_a_condition_that_leaves_all_rows_leaves_the_same_rows() -> None:
    rows = BlockRows.of(batch_of([("a", 3, "1", 5), ("b", 4, "1", 7)]))
    assert rows.within("ts", 5, 7) is rows
    assert rows.where("all", lambda: pa.array([True, True])) is rows
    assert rows.within("ts", 6, INT64_MAX).times("ts").values.tolist() == [7]
    assert rows.without(np.array([0])).column("k").to_pylist() == ["b"]  # type: ignore[union-attr]  # strings have one


def test_columns_are_asked_for_only_when_they_are_needed() -> None:
    class Lazy(dict[str, pa.Array]):
        def __getitem__(self, name: str) -> pa.Array:
            asked.append(name)
            return super().__getitem__(name)

    asked: list[str] = []
    batch = batch_of([("a", 3, "1", 5)])
    rows = BlockRows(Lazy(zip(batch.schema.names, batch.columns, strict=True)), 1)
    Query(parse("SELECT k, count(*) FROM t GROUP BY TUMBLE(ts, '10 s'), k")).prepare(rows)
    assert sorted(asked) == ["k", "ts"]


@given(panes=st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**40), 2**40)), min_size=1))
def test_panes_are_counted(panes: list[int]) -> None:
    found = count_panes(np.array(panes, np.int64), min(panes), max(panes))
    assert list(found.items()) == sorted(Counter(panes).items())


def test_types_may_change_from_block_to_block_for_one_query() -> None:
    query: Callable[[BlockRows], Any] = Query(parse("SELECT v + 1 AS x FROM t")).prepare
    for value, expected in ((1, 2), ("1", 2.0), (None, None)):
        rows = BlockRows({"v": pa.array([value])}, 1)
        assert query(rows).tables["main"].column("k0").to_pylist() == [expected]


def test_a_released_block_is_gone_without_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    try:
        shared = BlockRows.of(batch_of([("a", 3, "1", at * 1_000_000) for at in range(40)]))
        for text in JOBS:
            Query(parse(text)).prepare(shared)
        part = weakref.ref(shared.where("v", lambda: pa.array([True] * 3 + [False] * 37)))
        whole = weakref.ref(shared)
        shared.release()
        del shared
        assert whole() is None
        assert part() is None
    finally:
        gc.enable()


@given(
    panes=st.lists(st.integers(-5, 5) | st.integers(-(10**12), 10**12), min_size=1, max_size=40),
    seed=st.integers(0, 2**31),
)
def test_the_panes_of_some_rows_are_those_of_their_times(panes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = 7
    times = pa.array([width * pane + int(rng.integers(width)) for pane in panes], pa.timestamp("us", "UTC"))
    mask = pa.array([[True, False, None][place] for place in rng.integers(3, size=len(panes))], pa.bool_())
    block = BlockRows({"ts": times}, len(panes))
    some = block.where("some", lambda: mask)
    found = some.panes("ts", width)
    kept = [pane for pane, keep in zip(panes, mask.to_pylist(), strict=True) if keep]
    assert found.indices.tolist() == kept
    assert found.counts == {pane: kept.count(pane) for pane in sorted(set(kept))}
    alone = BlockRows({"ts": times.filter(mask)}, len(kept)).panes("ts", width)
    assert alone.indices.tolist() == kept
    assert alone.counts == found.counts
