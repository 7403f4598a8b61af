from __future__ import annotations

import errno
import os
import random
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import StorageError
from elfmesh.storage.spill import SpillStore


@settings(max_examples=50, deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=300)), max_size=120))
def test_what_was_put_comes_back_until_it_is_dropped_and_space_is_given_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bytes]]
) -> None:
    store = SpillStore(tmp_path_factory.mktemp("spill"), segment_bytes=500)
    model: dict[int, bytes] = {}
    for choice, blob in steps:
        if choice < 3 or not model:
            model[store.put(blob)] = blob
        else:
            number = sorted(model)[choice * 7 % len(model)]
            assert store.get(number) == model[number]
            store.drop(number)
            del model[number]
        assert {number: store.get(number) for number in model} == model
        assert store.nbytes == sum(map(len, model.values()))
        assert store.disk_bytes <= 2 * store.nbytes + 3 * (500 + 300)
    store.close()


def test_the_files_have_no_names_so_that_a_crash_leaves_nothing(tmp_path: Path) -> None:
    store = SpillStore(tmp_path / "spill")
    assert not (tmp_path / "spill").exists()
    number = store.put(b"x" * 1000)
    assert list((tmp_path / "spill").iterdir()) == []
    assert store.get(number) == b"x" * 1000
    store.close()


def test_dropping_everything_takes_no_disk(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, segment_bytes=100)
    numbers = [store.put(bytes(60)) for _ in range(20)]
    random.Random(1).shuffle(numbers)
    for number in numbers:
        store.drop(number)
    assert (store.nbytes, store.disk_bytes) == (0, 0)
    store.close()


def test_a_full_disk_is_reported_and_costs_nothing_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SpillStore(tmp_path)
    kept = store.put(b"kept")
    write = os.pwrite
    written: list[int] = []

    def fills_up(fd: int, data: memoryview, offset: int) -> int:
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(write(fd, data[:3], offset))
        return written[0]

    monkeypatch.setattr(os, "pwrite", fills_up)
    with pytest.raises(StorageError, match="the disk is full") as caught:
        store.put(b"too much")
    assert str(tmp_path) in str(caught.value)
    monkeypatch.undo()
    assert store.get(kept) == b"kept"
    after = store.put(b"again")
    assert store.get(after) == b"again"
    assert store.disk_bytes == len(b"keptagain")
    store.close()


def test_the_limit_is_kept_and_named(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, limit_bytes=100, segment_bytes=30)
    first = store.put(bytes(90))
    with pytest.raises(StorageError, match=r"limit of 100 bytes.*\n.*limits\.spill"):
        store.put(bytes(11))
    store.drop(first)
    assert store.get(store.put(b"fits")) == b"fits"
    store.close()


def test_a_damaged_blob_is_never_returned(tmp_path: Path) -> None:
    store = SpillStore(tmp_path)
    number = store.put(b"precious")
    os.pwrite(store._segments[0].fd, b"X", 3)
    with pytest.raises(StorageError, match="damaged"):
        store.get(number)
    store.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot write"):
        SpillStore(tmp_path / "file" / "spill").put(b"x")


def test_several_threads_share_a_store(tmp_path: Path) -> None:
    store = SpillStore(tmp_path, segment_bytes=2_000)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng, held = random.Random(seed), dict[int, bytes]()
        for _ in range(300):
            if len(held) > 10:
                number = rng.choice(sorted(held))
                if store.get(number) != held.pop(number):
                    wrong.append(number)
                store.drop(number)
            blob = rng.randbytes(rng.randrange(400))
            held[store.put(blob)] = blob
        for number in held:
            store.drop(number)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert store.disk_bytes == 0
    store.close()


def test_a_collector_may_drop_in_the_middle_of_a_put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SpillStore(tmp_path)
    old = store.put(b"old" * 100)
    write = os.pwrite

    def collects(fd: int, data: memoryview, offset: int) -> int:
        done = write(fd, data, offset)
        store.drop(old)  # as __del__ of what held it would, in this very thread
        return done

    monkeypatch.setattr(os, "pwrite", collects)
    new = store.put(b"new" * 100)
    assert store.get(new) == b"new" * 100
    assert store.nbytes == 300
    store.close()


def test_what_outlives_the_store_may_still_drop(tmp_path: Path) -> None:
    store = SpillStore(tmp_path)
    number = store.put(b"x")
    store.close()
    store.drop(number)
    assert (store.nbytes, store.disk_bytes) == (0, 0)


def test_a_store_that_was_closed_refuses_to_read_and_write(tmp_path: Path) -> None:
    store = SpillStore(tmp_path)
    number = store.put(b"blob")
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.get(number)
    with pytest.raises(StorageError, match="closed"):
        store.put(b"more")
    store.drop(number)
    store.close()
    assert (store.nbytes, store.disk_bytes) == (0, 0)
