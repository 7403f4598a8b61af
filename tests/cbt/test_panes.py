from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import (
    Panes,
    TreeLimits,
    TypeConflict,
    decode_partial,
    encode_partial,
    finish,
    merge_partials,
)
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX
from elfmesh.cbt.keys import KeyTooLong
from elfmesh.cbt.panes_split import FEW_PANES_MAX, split_by_pane
from elfmesh.cbt.sliding import SlidingTable
from elfmesh.errors import StorageError
from tests.cbt.stores import MemoryStore

TINY = TreeLimits(
    root_rows=4,
    root_rows_max=8,
    root_bits=4,
    buffer_rows_max=24,
    leaf_rows_max=4,
    pending_rows_min=4,
)


@dataclass(frozen=True)
class Spec:
    name: str
    keys: tuple[str, ...]
    aggregates: dict[str, tuple[str, str | None]]


INVERTIBLE = (
    Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v")}),
    Spec("d0", ("k", "v"), {}),
    Spec("all", (), {"s": ("sum", "v")}),
)
ANY = (
    Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v"), "lo": ("min", "v"), "hi": ("max", "v")}),
)

MIXED = (*INVERTIBLE, *(Spec("extremes", ("k",), {"hi": ("max", "v")}),))

Record = tuple[int, str | None, float | None]
RECORDS = st.lists(
    st.tuples(
        st.integers(-40, 200),
        st.none() | st.sampled_from("abc"),
        st.none() | st.sampled_from([0.1, 0.2, -3.5]),
    ),
    max_size=40,
)
WINDOWS = st.sampled_from([(10, 10), (20, 10), (30, 20), (50, 10), (100, 10), (90, 20), (5, 10), (7, 3)])


def insert(panes: Panes, tables: tuple[Spec, ...], records: list[Record]) -> None:
    batch = pa.record_batch(
        {
            "k": pa.array([r[1] for r in records], pa.string()),
            "v": pa.array([r[2] for r in records], pa.float64()),
        }
    )
    index = np.array([r[0] // panes.pane_us if panes.pane_us else 0 for r in records], np.int64)
    for table in tables:
        panes.insert(table.name, index, batch)


def total(values: list[float | None]) -> float | None:
    present = [Fraction(value) for value in values if value is not None]
    exact = sum(present, Fraction(0))
    return exact.numerator / exact.denominator if present else None


def brute_force(
    tables: tuple[Spec, ...], records: list[Record], start: int, stop: int
) -> dict[str, Any] | None:
    inside = [record for record in records if start <= record[0] < stop]
    if not inside:
        return None
    out: dict[str, Any] = {}
    for table in tables:
        groups: dict[Any, list[float | None]] = defaultdict(list)
        for _, k, v in inside:
            groups[tuple({"k": k, "v": v}[key] for key in table.keys)].append(v)
        out[table.name] = {
            key: tuple(
                {
                    "count": len(values),
                    "sum": total(values),
                    "min": min((v for v in values if v is not None), default=None),
                    "max": max((v for v in values if v is not None), default=None),
                }[kind]
                for kind, _ in table.aggregates.values()
            )
            for key, values in groups.items()
        }
    return out


def content(panes: Panes, tables: tuple[Spec, ...], index: int) -> dict[str, Any] | None:
    window = panes.window(index)
    if window is None:
        return None
    assert list(window) == [table.name for table in tables]
    finished = finish(window)
    return {table.name: as_groups(table, finished[table.name]) for table in tables}


def as_groups(table: Spec, finished: pa.Table) -> dict[Any, Any]:
    assert finished.column_names == [*table.keys, *table.aggregates]
    rows = list(zip(*(column.to_pylist() for column in finished.columns), strict=True))
    out = {row[: len(table.keys)]: row[len(table.keys) :] for row in rows}
    assert len(out) == len(rows)
    return out


@given(st.sampled_from([INVERTIBLE, ANY]), WINDOWS, st.lists(RECORDS, min_size=1, max_size=4), st.booleans())
@settings(deadline=None)
def test_windows_equal_brute_force(
    tables: tuple[Spec, ...], window: tuple[int, int], batches: list[list[Record]], tiny: bool
) -> None:
    size, slide = window
    options: dict[str, Any] = {"limits": TINY} if tiny else {}
    panes = Panes(tables, size, slide, slide_panes_min=3, **options)
    seen: list[Record] = []
    for records in batches:
        insert(panes, tables, records)
        seen += records
    for index in range(-60 // slide, 220 // slide):
        want = brute_force(tables, seen, index * slide, index * slide + size)
        assert content(panes, tables, index) == want


@given(
    st.sampled_from([INVERTIBLE, ANY, MIXED]),
    WINDOWS,
    st.lists(RECORDS, min_size=3, max_size=12),
    st.integers(0, 10**6),
)
@settings(deadline=None)
def test_late_records_and_dropped_panes_between_windows(
    tables: tuple[Spec, ...], window: tuple[int, int], batches: list[list[Record]], seed: int
) -> None:
    """Windows are read in order while records, late ones too, come in and old panes are dropped.

    Keys of some batches are numbers of one type or another, so types change while windows slide; what comes
    out is also sent through a partial.
    """
    size, slide = window
    panes = Panes(tables, size, slide, slide_panes_min=3)
    rng, seen, low = random.Random(seed), [], -(10**9)
    for index in range(-60 // slide, 220 // slide):
        while batches and rng.random() < 0.3:
            records = [record for record in batches.pop() if record[0] >= low]
            insert(panes, tables, records)
            seen += records
        want = brute_force(tables, seen, index * slide, index * slide + size)
        assert content(panes, tables, index) == want
        if want is not None and rng.random() < 0.2:
            reduced = panes.window(index)
            assert reduced is not None
            finished = finish(decode_partial(merge_partials([encode_partial(reduced)])))
            assert {table.name: as_groups(table, finished[table.name]) for table in tables} == want
        if rng.random() < 0.7:
            low = (index + 1) * slide
            panes.drop_below(low // panes.pane_us)


def test_a_pane_begun_anew_is_not_taken_for_the_dropped_one() -> None:
    tables = (Spec("main", ("k",), {"s": ("sum", "v")}),)
    panes = Panes(tables, 80, 10)
    insert(panes, tables, [(0, "a", 1.0), (10, "a", 2.0), (20, "a", 4.0)])
    assert content(panes, tables, 0) == {"main": {("a",): (7.0,)}}
    panes.drop_below(2)
    insert(panes, tables, [(10, "a", 16.0)])
    assert content(panes, tables, 1) == {"main": {("a",): (20.0,)}}


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_long_windows_read_the_panes_that_enter_and_leave(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Counter[int]()
    original = Panes._settled_rows

    def counted(self: Panes, name: str, pane: int) -> Any:
        read[pane] += 1
        return original(self, name, pane)

    monkeypatch.setattr(Panes, "_settled_rows", counted)
    tables = (Spec("main", ("k",), {"x": (kind, "v")}),)  # no count(*): the panes keep one of their own
    panes = Panes(tables, 300, 1)
    rng = random.Random(1)
    records: list[Record] = [(t, rng.choice("abcdef"), rng.random()) for t in range(400)]
    insert(panes, tables, records)
    for index in range(80):
        assert content(panes, tables, index) == brute_force(tables, records, index, index + 300)
        panes.drop_below(index + 1)
    # Each pane enters and leaves once; the stacks of max are built twice from all of them.
    assert sum(read.values()) <= 380 + 80 + (2 * 300 if kind == "max" else 0)
    assert panes.nbytes > 0


def test_min_and_max_slide_by_merging() -> None:
    panes = Panes(ANY, 100, 10)
    records: list[Record] = [(t, "a", float(t % 17)) for t in range(200)]
    insert(panes, ANY, records)
    for index in range(10):
        assert content(panes, ANY, index) == brute_force(ANY, records, index * 10, index * 10 + 100)


def test_without_a_window_everything_is_pane_zero() -> None:
    panes = Panes(INVERTIBLE, None)
    assert panes.window(0) is None
    insert(panes, INVERTIBLE, [(5, "a", 1.0), (10**9, "a", None)])
    assert panes.panes() == [0]
    assert content(panes, INVERTIBLE, 0) == brute_force(INVERTIBLE, [(5, "a", 1.0), (6, "a", None)], 0, 10)


def test_panes_are_gcd_wide_listed_in_order_and_dropped_from_below() -> None:
    panes = Panes(INVERTIBLE, 30, 20)
    assert panes.pane_us == 10
    insert(panes, INVERTIBLE, [(25, "a", 1.0), (-1, "b", 1.0), (4, "c", None)])
    assert panes.panes() == [-1, 0, 2]
    panes.drop_below(0)
    assert panes.panes() == [0, 2]
    assert content(panes, INVERTIBLE, -1) == brute_force(INVERTIBLE, [(4, "c", None)], -20, 10)
    panes.drop_below(100)
    assert (panes.panes(), panes.nbytes) == ([], 0)


def test_the_window_stays_until_its_panes_are_dropped() -> None:
    panes = Panes(ANY, 10)
    insert(panes, ANY, [(1, "a", 1.0)])
    assert content(panes, ANY, 0) == content(panes, ANY, 0)
    insert(panes, ANY, [(2, "a", 2.0)])
    assert content(panes, ANY, 0) == {"main": {("a",): (2, 3.0, 1.0, 2.0)}}


def test_a_batch_that_fits_one_pane_but_not_another_changes_neither() -> None:
    panes = Panes(ANY, 10)
    panes.insert("main", np.array([1]), pa.record_batch({"k": ["a"], "v": [1.5]}))
    with pytest.raises(TypeConflict, match="'k'"):
        panes.insert("main", np.array([0, 1]), pa.record_batch({"k": [1, 1], "v": [1.5, 1.5]}))
    assert panes.panes() == [1]
    assert content(panes, ANY, 1) == {"main": {("a",): (1, 1.5, 1.5, 1.5)}}


def test_old_panes_of_a_hopping_window_are_compressed() -> None:
    panes = Panes((Spec("main", ("k",), {"n": ("count", None)}),), 100, 10)
    keys = pa.array([f"/shop/item/{i}" for i in range(20_000)])
    panes.insert("main", np.zeros(20_000, np.int64), pa.record_batch({"k": keys}))
    before = panes.nbytes
    panes.insert("main", np.ones(1, np.int64), pa.record_batch({"k": ["x"]}))
    assert panes.nbytes < before / 4
    window = panes.window(0)
    assert window is not None
    assert finish(window)["main"].num_rows == 20_001


def test_special_floats_leave_the_window_with_their_pane() -> None:
    tables = (Spec("main", ("k",), {"s": ("sum", "v")}),)
    panes = Panes(tables, 80, 10)
    insert(
        panes,
        tables,
        [(0, "a", math.nan), (10, "a", math.inf), (20, "a", 0.1), (30, "a", 1e300), (90, "a", 0.2)],
    )
    sums = [content(panes, tables, index) for index in range(5)]
    values = [window["main"][("a",)][0] for window in sums if window]
    assert math.isnan(values[0])
    assert values[1:] == [math.inf, total([0.1, 1e300, 0.2]), total([1e300, 0.2]), 0.2]


def test_wrong_use_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Panes(ANY, 0)
    with pytest.raises(ValueError, match="distinct names"):
        Panes([*ANY, *ANY], 10)
    panes = Panes(ANY, 10)
    with pytest.raises(ValueError, match="no table 'other'"):
        panes.insert("other", np.zeros(1, np.int64), pa.record_batch({"k": ["a"], "v": [1.0]}))
    with pytest.raises(ValueError, match="2 pane indices for 1 rows"):
        panes.insert("main", np.zeros(2, np.int64), pa.record_batch({"k": ["a"], "v": [1.0]}))


def test_a_batch_that_one_table_refuses_is_in_no_table() -> None:
    main = Spec("main", ("k0",), {"a0": ("max", "v0")})
    distinct = Spec("d0", ("k0", "x"), {})
    panes = Panes([main, distinct], None)
    zero = np.zeros(1, np.int64)

    def batch(value: object, seen: str) -> dict[str, tuple[np.ndarray, pa.RecordBatch]]:
        keys = pa.array(["k"])
        return {
            "d0": (zero, pa.record_batch({"k0": keys, "x": pa.array([seen])})),
            "main": (zero, pa.record_batch({"k0": keys, "v0": pa.array([value])})),
        }

    panes.insert_all(batch(1, "a"))
    with pytest.raises(TypeConflict):
        panes.insert_all(batch("text", "b"))
    window = panes.window(0)
    assert window is not None
    assert finish(window)["d0"].column("x").to_pylist() == ["a"]


@given(st.lists(st.integers(-3, 20), min_size=1, max_size=60), st.booleans(), st.integers(1, 30))
def test_a_batch_is_cut_by_pane_in_its_order(panes: list[int], ascending: bool, few: int) -> None:
    indices = np.array(sorted(panes) if ascending else panes, np.int64) % few
    pieces = split_by_pane({"row": pa.array(range(len(panes)))}, indices)
    assert [pane for pane, _, _ in pieces] == sorted(set(indices.tolist()))
    for pane, columns, rows in pieces:
        assert columns["row"].to_pylist() == np.flatnonzero(indices == pane).tolist()
        assert rows == len(columns["row"])


def test_each_way_of_cutting_a_batch_is_taken() -> None:
    rng = np.random.default_rng(1)
    for panes in (1, 2, FEW_PANES_MAX, FEW_PANES_MAX + 1, 40):
        indices = rng.permutation(np.arange(200) % panes)
        assert len(split_by_pane({"v": pa.array(indices)}, indices)) == panes
    (only,) = split_by_pane({"v": pa.array([1, 2])}, np.broadcast_to(np.int64(7), (2,)))
    assert only[0] == 7


def test_keys_that_are_too_long_are_named_by_their_rows_in_the_batch_and_nothing_is_inserted() -> None:
    """The longest form counts: a null that comes later must not make a kept key too long."""
    tables = (Spec("main", ("k",), {"n": ("count", None)}), Spec("d0", ("k", "v"), {}))
    panes = Panes(tables, 10)
    keys = ["a", "b" * KEY_BYTES_MAX, "c", "d" * (KEY_BYTES_MAX - 1), "e" * 70_000]
    batch = pa.record_batch({"k": keys, "v": [1.0] * 5})
    with pytest.raises(KeyTooLong) as caught:
        panes.insert("main", np.array([3, 1, 2, 1, 3]), batch)
    assert caught.value.rows.tolist() == [1, 4]
    small = batch.slice(0, 1)
    with pytest.raises(KeyTooLong) as caught:
        panes.insert_all({"main": (np.zeros(1, np.int64), small), "d0": (np.arange(5), batch)})
    assert caught.value.rows.tolist() == [1, 3, 4]
    assert panes.panes() == []
    panes.insert("main", np.zeros(1, np.int64), batch.slice(3, 1))
    panes.insert(
        "main", np.zeros(1, np.int64), pa.record_batch({"k": pa.array([None], pa.string()), "v": [1.0]})
    )
    window = panes.window(0)
    assert window is not None
    assert finish(window)["main"].num_rows == 2


def test_a_kept_window_gives_its_memory_back_when_the_budget_asks() -> None:
    tables = (Spec("main", ("k",), {"n": ("count", None)}),)
    budget = MemoryBudget(1 << 21)
    panes = Panes(tables, 100, 1, budget=budget)

    def fill(pane: int) -> None:
        keys = pa.array([f"{pane}/{i}" * 8 for i in range(2_000)])
        panes.insert("main", np.full(2_000, pane), pa.record_batch({"k": keys}))

    for pane in range(10):
        fill(pane)
    window = panes.window(-90)
    assert window is not None
    for pane in range(10, 60):
        fill(pane)
    # What is still to be read stays readable, whatever the budget asks meanwhile.
    assert finish(window)["main"].num_rows == 20_000
    del window
    for pane in range(60, 100):
        fill(pane)
    (kept,) = panes._sliding.values()
    assert kept.released
    for index in range(3):
        window = panes.window(index)
        assert window is not None
        assert finish(window)["main"].num_rows == 200_000 - index * 2_000
    assert panes._sliding == {}


def test_a_window_that_is_too_large_to_keep_is_merged_each_time() -> None:
    tables = (Spec("main", ("k",), {"hi": ("max", "v")}),)
    panes = Panes(tables, 20, 1, slide_bytes_max=1 << 16)
    records: list[Record] = [(t, f"{t % 50}" * 20, float(i)) for t in range(40) for i in range(20)]
    for start in range(0, len(records), 100):
        insert(panes, tables, records[start : start + 100])
    wide = pa.record_batch({"k": [f"{i}" * 10 for i in range(5_000)], "v": [1.0] * 5_000})
    panes.insert("main", np.full(5_000, 60), wide)
    for index in range(15):
        assert content(panes, tables, index) == brute_force(tables, records, index, index + 20)
    window = panes.window(50)
    assert window is not None
    assert finish(window)["main"].num_rows == 5_000
    assert panes._sliding == {}


def test_types_change_while_a_window_slides() -> None:
    """A key column is integers, then floats, then integers again; another pane has text and fails alone."""
    tables = (Spec("main", ("k",), {"n": ("count", None), "hi": ("max", "v")}),)
    panes = Panes(tables, 10, 1)
    for pane in range(40):
        key = 0.5 if pane == 12 else "text" if pane == 35 else 2**53 + pane % 2
        panes.insert("main", np.full(1, pane), pa.record_batch({"k": [key], "v": [float(pane)]}))
    for index in range(2, 40):
        inside = set(range(index, min(index + 10, 40)))
        if 35 in inside and inside != {35} and len(inside) > 1:
            with pytest.raises(TypeConflict):
                panes.window(index)
            continue
        window = panes.window(index)
        assert window is not None
        keys = finish(window)["main"]["k"]
        assert keys.type == (pa.float64() if 12 in inside else pa.string() if 35 in inside else pa.int64())
        assert len(keys) == (2 if 12 in inside and len(inside) > 1 else len({pane % 2 for pane in inside}))


def test_a_window_that_outgrows_its_bytes_while_a_pane_leaves_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = (Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v")}),)
    panes = Panes(tables, 10, 1)
    records: list[Record] = [(t, "a", float(t)) for t in range(20)]
    insert(panes, tables, records)
    assert content(panes, tables, 0) == brute_force(tables, records, 0, 10)
    monkeypatch.setattr(panes._sliding["main"], "_bytes_max", 1)
    panes.drop_below(1)
    assert panes.panes()[0] == 1
    for index in (1, 2):
        assert content(panes, tables, index) == brute_force(tables, records, index, index + 10)
    assert panes._sliding == {}


def test_late_rows_are_not_in_a_window_twice_when_a_store_fails_while_they_settle() -> None:
    tables = (Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v")}),)
    store = MemoryStore()
    panes = Panes(tables, 10, 1, limits=TINY, budget=MemoryBudget(1 << 20, store))
    records: list[Record] = [(t, f"{t}", 1.0) for t in range(10)]
    insert(panes, tables, records)
    assert content(panes, tables, 0) == brute_force(tables, records, 0, 10)
    late: list[Record] = [(5, random.Random(i).randbytes(300).hex(), 1.0) for i in range(100)]
    insert(panes, tables, late)
    fresh = panes._panes[5].fresh["main"]
    fresh.push_down()
    fresh.release(1 << 30, root=True, spill=True)
    gets = len(store.blobs)
    assert gets > 2
    # The window reads all of it once, and then some of it again, before the store fails.
    countdown = iter([False] * (gets + gets // 2))
    store.fails = lambda: next(countdown, True)
    with pytest.raises(StorageError):
        panes.window(0)
    store.fails = lambda: False
    assert content(panes, tables, 0) == brute_force(tables, records + late, 0, 10)


def test_a_window_whose_memory_is_asked_back_before_it_is_read_is_merged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = (Spec("main", ("k",), {"n": ("count", None), "s": ("sum", "v")}),)
    panes = Panes(tables, 10, 1)
    records: list[Record] = [(t, "a", float(t)) for t in range(20)]
    insert(panes, tables, records)
    slide = SlidingTable.slide

    def slide_and_be_asked(table: SlidingTable, *args: Any) -> None:
        slide(table, *args)
        table.release(1 << 30, root=True, spill=True)  # what another thread over the limit would do

    monkeypatch.setattr(SlidingTable, "slide", slide_and_be_asked)
    for index in (0, 1):
        assert content(panes, tables, index) == brute_force(tables, records, index, index + 10)
    assert panes._sliding == {}
