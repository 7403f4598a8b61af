from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.partial.contents import all_rows
from elfmesh.cbt.plan import TreePlan
from elfmesh.cbt.rows import Layout, Rows, combine, empty_rows, finish_rows
from elfmesh.cbt.sorted_rows import to_rows
from elfmesh.cbt.tree.tree import CompressedBufferTree
from elfmesh.cbt.windows import sliding
from elfmesh.cbt.windows.sliding import SlidingTable, WindowTooLarge
from elfmesh.cbt.windows.stacks import Stacks

KINDS = {
    "n": ("count", None),
    "s": ("sum", "v"),
    "lo": ("min", "v"),
    "hi": ("max", "t"),
    "c": ("count", "v"),
}
INVERTIBLE = {name: KINDS[name] for name in ("n", "s", "c")}

Record = tuple[Any, float | None, str | None]
RECORDS = st.lists(
    st.tuples(
        st.none() | st.sampled_from("abcdef"),
        st.none() | st.sampled_from([0.1, -3.5, 1e300, float("inf"), float("nan")]),
        st.none() | st.sampled_from(["x", "yy" * 20, ""]),
    ),
    min_size=1,
    max_size=6,
)


def lift(plan: TreePlan, records: list[Record], key_type: pa.DataType | None = None) -> Rows:
    columns = {
        name: pa.array([record[place] for record in records], data_type)
        for place, (name, data_type) in enumerate(
            (("k", key_type or pa.string()), ("v", pa.float64()), ("t", pa.string()))
        )
    }
    return lift_batch(plan, pa.record_batch(columns))


def lift_batch(plan: TreePlan, batch: pa.RecordBatch) -> Rows:
    tree = CompressedBufferTree(plan.keys, plan.aggregates)
    tree.insert(batch)
    return all_rows(tree.snapshot())


def content(rows: Rows | None) -> dict[Any, Any]:
    if rows is None:
        return {}
    table = finish_rows(rows)
    out = {
        tuple(values[: len(rows.layout.keys)]): tuple("nan" if v != v else v for v in values)
        for values in zip(*(column.to_pylist() for column in table.columns), strict=True)
    }
    assert len(out) == table.num_rows
    return out


class Model:
    """Panes as lists of rows, and a sliding table beside them that must always agree."""

    def __init__(self, aggregates: dict[str, tuple[str, str | None]], **options: Any) -> None:
        self.plan = TreePlan(["k"], aggregates)
        records = [kind for kind, _ in aggregates.values()].index("count")
        self.table = SlidingTable(self.plan.layout, records, **options)
        self.settled: dict[int, list[Rows]] = defaultdict(list)
        self.fresh: dict[int, list[Rows]] = defaultdict(list)
        self.reads: list[int] = []

    def insert(self, pane: int, rows: Rows) -> None:
        inside = self.table.first <= pane < self.table.stop
        (self.fresh if inside else self.settled)[pane].append(rows)

    def read(self, pane: int) -> Iterator[Rows]:
        self.reads.append(pane)
        if self.settled[pane]:
            yield combine(self.settled[pane])

    def check(self, first: int, stop: int) -> None:
        blocks = [rows for pane in range(first, stop) for rows in (*self.settled[pane], *self.fresh[pane])]
        types = self.plan.layout.null_types
        for rows in blocks:
            types = self.plan.layout.unify(types, rows.types)
        self.table.slide(first, stop, types, self.read, lambda pane: self.fresh.get(pane, []))
        for pane, late in self.fresh.items():
            self.settled[pane] += late
        self.fresh.clear()
        want = combine(blocks, types) if blocks else empty_rows(self.plan.layout, types)
        got = self.table.content(self.plan.layout)
        seen = [*got.rows()]
        assert all(rows.types == want.types for rows in seen)
        assert content(combine(seen) if seen else None) == content(want)
        ordered = [to_rows(rows) for rows in got.sorted()]
        assert sum(rows.count for rows in ordered) == self.table.rows == want.count
        assert content(combine(ordered) if ordered else None) == content(want)

    def drop_below(self, pane: int) -> None:
        self.table.leave(pane, self.read)
        for panes in (self.settled, self.fresh):
            for index in [index for index in panes if index < pane]:
                del panes[index]


@given(
    st.sampled_from([KINDS, INVERTIBLE]),
    st.lists(st.tuples(st.integers(0, 30), RECORDS), max_size=30),
    st.integers(1, 12),
    st.integers(1, 4),
    st.integers(0, 10**6),
)
@settings(deadline=None)
def test_a_sliding_table_equals_a_merge_of_its_panes(
    aggregates: dict[str, tuple[str, str | None]],
    inserts: list[tuple[int, list[Record]]],
    size: int,
    slide: int,
    seed: int,
) -> None:
    """Inserts, some late, gaps, windows asked for twice, jumps in both directions, dropped panes."""
    model, rng, first, floor = Model(aggregates), random.Random(seed), 0, 0
    for pane, records in inserts:
        if pane >= floor:
            model.insert(pane, lift(model.plan, records))
        for _ in range(rng.choice([0, 1, 1, 2])):
            model.check(first, first + size)
            first += rng.choice([slide, slide, slide, 0])
            if rng.random() < 0.5:
                floor = max(floor, first)
                model.drop_below(floor)
        if rng.random() < 0.05:
            first = max(floor, first + rng.choice([-5, size, 2 * size]))
    model.check(first, first + size)


def test_numbers_of_groups_that_are_gone_are_reclaimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding, "DEAD_MIN", 4)
    for aggregates in (KINDS, INVERTIBLE):
        model = Model(aggregates)
        for pane in range(100):
            model.insert(pane, lift(model.plan, [(f"{pane}-{i}", 1.0, "t" * i) for i in range(8)]))
        sizes = []
        for first in range(90):
            model.check(first, first + 10)
            model.drop_below(first + 1)
            sizes.append(model.table.nbytes)
        assert max(sizes[40:]) <= max(sizes[:40])


@pytest.mark.parametrize("safeguard", ["negate", "undo", "reclaim", "types"])
def test_each_step_of_a_slide_is_needed(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ablation: without the step, the content is wrong, and the comparison above notices."""
    monkeypatch.setattr(sliding, "DEAD_MIN", 4)
    model = Model(KINDS)
    for pane in range(40):
        model.insert(pane, lift(model.plan, [("a", float(pane), "x"), (f"{pane}", 0.1, "y")]))
    if safeguard == "negate":
        monkeypatch.setattr(type(LAWS["sum"]), "negate", lambda self, state: state)
    elif safeguard == "undo":
        monkeypatch.setattr(Stacks, "leave", lambda self, pane: None)
    elif safeguard == "reclaim":
        monkeypatch.setattr(Stacks, "renumber", lambda self, ids, number_of: None)
    else:
        monkeypatch.setattr(SlidingTable, "_begin", _begin_once(SlidingTable._begin))
        model.settled[0] = [lift(model.plan, [(2.5, 1.0, "x")], pa.float64())]
        for pane in range(1, 40):
            model.settled[pane] = [lift(model.plan, [(1, 1.0, "x")], pa.int64())]

    def slide_on() -> None:
        for first in range(25):
            model.check(first, first + 10)

    with pytest.raises((AssertionError, ValueError, IndexError)):
        slide_on()


def _begin_once(begin: Any) -> Any:
    def once(table: SlidingTable, first: int, types: Any) -> None:
        if table._types is None:
            begin(table, first, types)

    return once


def test_a_slide_reads_what_enters_and_leaves_and_seldom_all() -> None:
    for aggregates, most in ((INVERTIBLE, 2.0), (KINDS, 3.5)):
        model = Model(aggregates)
        for pane in range(200):
            model.insert(pane, lift(model.plan, [(str(pane % 25), 1.0, "x")]))
        model.check(0, 50)
        model.reads.clear()
        for first in range(1, 150):
            model.check(first, first + 50)
        assert len(model.reads) / 149 <= most


def test_late_rows_in_the_newest_panes_rebuild_nothing() -> None:
    model = Model(KINDS)
    for pane in range(200):
        model.insert(pane, lift(model.plan, [(str(pane % 50), 1.0, "x")]))
    model.check(0, 80)
    model.reads.clear()
    model.insert(79, lift(model.plan, [("late", 2.0, "zz")]))
    model.check(1, 81)
    assert sorted(model.reads) == [0, 80]
    model.insert(2, lift(model.plan, [("late", 3.0, "zzz")]))
    model.check(2, 82)
    assert len(model.reads) > 80


def test_keys_that_a_float_makes_equal_part_again_when_it_leaves() -> None:
    model = Model({"n": ("count", None)})

    def rows(keys: list[Any], data_type: pa.DataType) -> Rows:
        return lift(model.plan, [(key, None, None) for key in keys], data_type)

    model.insert(0, rows([0.5], pa.float64()))
    model.insert(1, rows([2**53, 2**53 + 1], pa.int64()))
    model.insert(2, rows([2**53, None], pa.int64()))
    model.check(0, 3)
    assert model.table.rows == 3
    model.check(1, 4)
    assert model.table.rows == 3
    assert model.table.content(model.plan.layout).types[0] == pa.int64()


def test_content_is_read_before_the_next_slide_or_not_at_all() -> None:
    model = Model(INVERTIBLE)
    model.insert(0, lift(model.plan, [("a", 1.0, None)]))
    model.check(0, 3)
    content_now = model.table.content(model.plan.layout)
    assert sum(rows.count for rows in content_now.rows()) == 1
    model.drop_below(1)
    with pytest.raises(ValueError, match="moved on"):
        next(content_now.rows())


def test_a_pane_that_changed_behind_the_window_is_noticed() -> None:
    model = Model(INVERTIBLE)
    for pane in range(2):
        model.insert(pane, lift(model.plan, [("a", 1.0, None)]))
    model.check(0, 3)
    model.settled[0] *= 3
    with pytest.raises(ValueError, match="did not enter"):
        model.check(1, 4)


def test_a_window_over_its_bytes_is_given_up_while_it_is_built() -> None:
    model = Model(KINDS, bytes_max=1 << 18)
    for pane in range(20):
        records: list[Record] = [(f"{pane}-{i}" * 20, 1.0, "x") for i in range(1000)]
        model.insert(pane, lift(model.plan, records))
    with pytest.raises(WindowTooLarge):
        model.check(0, 20)
    assert len(model.reads) < 10


def test_a_table_of_no_keys_and_layouts_with_a_hidden_count() -> None:
    plan = TreePlan([], {"s": ("sum", "v"), "records": ("count", None)})
    shown = Layout((), plan.layout.aggregates[:1])
    table = SlidingTable(plan.layout, 1)
    rows = [lift_batch(plan, pa.record_batch({"v": [float(i), 1.0]})) for i in range(4)]
    table.slide(0, 3, rows[0].types, lambda pane: [rows[pane]], lambda pane: [])
    table.slide(1, 4, rows[0].types, lambda pane: [rows[pane]], lambda pane: [])
    (got,) = table.content(shown).rows()
    assert finish_rows(got).to_pylist() == [{"s": 9.0}]
    assert np.all(got.states[0].parts["values"] == 6)
