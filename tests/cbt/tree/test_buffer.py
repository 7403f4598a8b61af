"""A compressed buffer: equal rows come back, and blobs live as long as buffers."""

from __future__ import annotations

import pytest

from elfmesh.cbt.codec.codec import pack
from elfmesh.cbt.sorted_rows import SortedRows, to_rows
from elfmesh.cbt.tree import buffer
from elfmesh.cbt.tree.buffer import CompressedBuffer, Press
from elfmesh.errors import StorageError
from tests.cbt.packing import mixed, sample
from tests.cbt.stores import MemoryStore
from tests.cbt.tables import content


def rows_of(one: CompressedBuffer) -> object:
    return content(to_rows(one.unpack(Press())))


@pytest.mark.parametrize("rows", [mixed(), sample(3), sample(3_000)], ids=["mixed", "few", "two frames"])
def test_rows_come_back_from_memory_and_from_a_store(rows: SortedRows) -> None:
    one, store = CompressedBuffer(pack(rows), Press()), MemoryStore()
    assert (one.rows, rows_of(one)) == (rows.count, content(to_rows(rows)))
    before = one.nbytes
    one.spill(store)
    assert one.is_spilled == bool(store.blobs) == (rows.count == 3_000)  # small pieces stay
    assert (one.nbytes < before) == one.is_spilled
    assert rows_of(one) == content(to_rows(rows))
    del one
    assert store.blobs == {}


def test_runs_in_one_frame_and_in_two_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sample(500)
    found = []
    for least in (0, 1 << 30):
        monkeypatch.setattr(buffer, "SPLIT_BYTES_MIN", least)
        found.append(rows_of(CompressedBuffer(pack(rows), Press())))
    assert found[0] == found[1] == content(to_rows(rows))


def test_a_twin_lends_its_keys_and_the_store_keeps_them_for_both() -> None:
    packed, store = pack(sample(9_000)), MemoryStore()
    first = CompressedBuffer(packed, Press())
    first.spill(store)
    assert len(store.blobs) == 2  # keys and states
    second = CompressedBuffer(packed, Press(), twin=first)
    assert second.is_spilled
    del first
    assert len(store.blobs) == 1
    assert rows_of(second) == content(to_rows(sample(9_000)))
    del second
    assert store.blobs == {}


def test_what_a_store_refuses_is_still_here() -> None:
    one, store = CompressedBuffer(pack(sample(3_000)), Press()), MemoryStore()
    store.refuses = True
    with pytest.raises(StorageError):
        one.spill(store)
    assert not one.is_spilled
    store.refuses = False
    one.spill(store)
    assert rows_of(one) == content(to_rows(sample(3_000)))
