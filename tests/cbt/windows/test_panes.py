"""Windows over panes equal brute force, and each batch goes into all its panes or into none."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cbt import (
    Panes,
    TypeConflict,
    decode_partial,
    encode_partial,
    finish,
    merge_partials,
)
from elfmesh.cbt.budget import MemoryBudget
from elfmesh.cbt.kernel.protocol import KEY_BYTES_MAX
from elfmesh.cbt.keys import KeyTooLong
from elfmesh.errors import StorageError
from tests.cbt.stores import MemoryStore
from tests.cbt.window_cases import (
    ANY,
    INVERTIBLE,
    MIXED,
    RECORDS,
    TINY,
    WINDOWS,
    Record,
    Spec,
    as_groups,
    brute_force,
    content,
    insert,
)


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
    held = panes.nbytes
    panes.drop_below(100)
    assert (panes.panes(), panes.rows, panes.nbytes <= held) == ([], 0, True)  # the trees are for other panes


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


@pytest.mark.parametrize("panes_of_batch", [[0, 0], [0, 1]])
def test_a_batch_that_a_store_keeps_from_one_table_is_in_no_table(panes_of_batch: list[int]) -> None:
    """For a first null the keys of all rows there are are encoded again, those on disk too."""
    tables = (Spec("all", (), {"n": ("count", None)}), Spec("main", ("k",), {"n": ("count", None)}))
    store = MemoryStore()
    panes = Panes(tables, 10, limits=TINY, budget=MemoryBudget(1 << 20, store))

    def batch(keys: list[str | None]) -> dict[str, tuple[np.ndarray, pa.RecordBatch]]:
        where = np.array(panes_of_batch * (len(keys) // 2))
        return {name: (where, pa.record_batch({"k": keys})) for name in ("all", "main")}

    panes.insert_all(batch([random.Random(i).randbytes(300).hex() for i in range(200)]))
    tree = panes._panes[panes_of_batch[1]].settled["main"]
    tree.push_down()
    tree.release(1 << 30, root=True, spill=True)
    assert store.blobs
    before = {pane: content(panes, tables, pane) for pane in set(panes_of_batch)}
    store.loses = True
    with pytest.raises(StorageError):
        panes.insert_all(batch([None, None]))
    store.loses = False
    assert {pane: content(panes, tables, pane) for pane in set(panes_of_batch)} == before
    panes.insert_all(batch([None, None]))
    counts = [
        finish(window)["all"]["n"][0].as_py()
        for pane in set(panes_of_batch)
        if (window := panes.window(pane))
    ]
    assert sum(counts) == 202


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
