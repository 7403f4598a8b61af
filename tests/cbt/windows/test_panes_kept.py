"""Windows that are kept from slide to slide, and when they are given up."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from elfmesh.cbt import (
    Panes,
    TypeConflict,
    finish,
)
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.windows.sliding import SlidingTable
from elfmesh.errors import StorageError
from tests.cbt.stores import MemoryStore
from tests.cbt.window_cases import ANY, TINY, Record, Spec, brute_force, content, insert, total


def test_a_pane_that_begins_again_is_not_taken_for_the_dropped_one() -> None:
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


def test_the_window_stays_until_its_panes_are_dropped() -> None:
    panes = Panes(ANY, 10)
    insert(panes, ANY, [(1, "a", 1.0)])
    assert content(panes, ANY, 0) == content(panes, ANY, 0)
    insert(panes, ANY, [(2, "a", 2.0)])
    assert content(panes, ANY, 0) == {"main": {("a",): (2, 3.0, 1.0, 2.0)}}


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


def test_new_panes_take_the_trees_of_those_that_are_gone() -> None:
    panes = Panes(ANY, 10)
    rng = random.Random(4)
    trees = set()
    for index in range(20):
        records: list[Record] = [
            (t, rng.choice("abc"), rng.random()) for t in range(index * 10, index * 10 + 20)
        ]
        insert(panes, ANY, records)  # of this window and the next
        trees |= {id(tree) for pane in panes._panes.values() for tree in pane.settled.values()}
        found = (content(panes, ANY, index) or {})["main"]
        assert sum(row[0] for row in found.values()) == (20 if index else 10)
        panes.drop_below(index + 1)
    assert len(trees) == 2
