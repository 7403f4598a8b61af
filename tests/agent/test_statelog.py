"""What an agent remembers: the newest of each key, all of a change or nothing; damage is no torn end."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elfmesh.agent.disk import framescan
from elfmesh.agent.disk.statelog import NAME, SLACK_BYTES, StateLog
from elfmesh.agent.disk.storage import DiskStorage, MemoryStorage
from elfmesh.control.events import Persist
from elfmesh.errors import DiskFull, StorageError

CHANGES = st.lists(
    st.tuples(st.sampled_from(["job", "vote"]), st.binary(min_size=1, max_size=2), st.binary(max_size=5)),
    min_size=1,
    max_size=4,
)


def effects(*changes: tuple[str, bytes, bytes]) -> list[Persist]:
    return [Persist(*change) for change in changes]


def newest(batches: list[list[tuple[str, bytes, bytes]]]) -> tuple[tuple[str, bytes, bytes], ...]:
    held: dict[tuple[str, bytes], bytes] = {}
    for batch in batches:
        for kind, key, data in batch:
            held[kind, key] = data
    return tuple((kind, key, data) for (kind, key), data in sorted(held.items()) if data)


@given(st.lists(CHANGES, max_size=6))
def test_the_newest_of_each_key_survives_any_crash_between_changes(
    batches: list[list[tuple[str, bytes, bytes]]],
) -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    for number, batch in enumerate(batches):
        log.apply(effects(*batch))
        storage.crash()
        log = StateLog(storage)
        assert log.items() == newest(batches[: number + 1])


@given(st.lists(CHANGES, min_size=2, max_size=4), st.data())
def test_a_torn_end_takes_the_last_change_whole_and_nothing_else(
    batches: list[list[tuple[str, bytes, bytes]]], data: st.DataObject
) -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    for batch in batches[:-1]:
        log.apply(effects(*batch))
    before = storage.files[NAME].size()
    log.apply(effects(*batches[-1]))
    file = storage.files[NAME]
    whole = file.read()
    cut = data.draw(st.integers(before, file.size() - 1))
    tail = bytes(data.draw(st.integers(0, 30)))
    file.cut(cut)
    file.append(tail)
    assume(not file.read().startswith(whole))  # zeros may be what was cut off
    again = StateLog(storage)
    assert again.items() == newest(batches[:-1])
    again.apply(effects(("job", b"k", b"v")))
    assert StateLog(storage).items() == newest([*batches[:-1], [("job", b"k", b"v")]])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_damage_before_a_good_frame_is_an_error_never_an_older_promise(place: int, flip: int) -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    log.apply(effects(("vote", b"j", b"one")))
    end = storage.files[NAME].size()
    log.apply(effects(("vote", b"j", b"two")))
    log.apply(effects(("vote", b"i", b"x")))
    storage.files[NAME].data[place % end] ^= flip
    with pytest.raises(StorageError, match="damaged"):
        StateLog(storage)


def test_a_frame_of_another_version_is_an_error() -> None:
    storage = MemoryStorage()
    storage.write(NAME, framescan.pack(b"\x81\xa1a\x01"))
    with pytest.raises(StorageError, match="another version"):
        StateLog(storage)


def test_what_is_forgotten_leaves_the_file_and_what_is_kept_stays() -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    log.apply(effects(("job", b"kept", b"k" * 1000)))
    for number in range(600):
        log.apply(effects(("vote", b"j", bytes([number % 256]) * 10_000)))
        assert storage.files[NAME].size() <= 3 * 11_000 + SLACK_BYTES + 20_000
        storage.crash()
    assert StateLog(storage).items() == (("job", b"kept", b"k" * 1000), ("vote", b"j", bytes([87]) * 10_000))


def test_a_kind_is_forgotten_without_a_sync_and_leaves_the_file_when_it_is_written_anew() -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    log.apply(effects(("result", b"2", b"b"), ("vote", b"j", b"one"), ("result", b"1", b"a" * SLACK_BYTES)))
    size = storage.files[NAME].size()
    assert log.forget("result") == [b"a" * SLACK_BYTES, b"b"]
    assert log.forget("result") == []
    assert log.items() == (("vote", b"j", b"one"),)
    assert storage.files[NAME].size() == size
    again = StateLog(storage)  # after a kill
    assert len(again.forget("result")) == 2
    again.apply(effects(("vote", b"j", b"two")))
    assert StateLog(storage).items() == (("vote", b"j", b"two"),)
    assert storage.files[NAME].size() < 100


def test_a_disk_without_room_for_a_shorter_file_keeps_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    log = StateLog(storage)

    def full(name: str, data: bytes) -> None:
        raise DiskFull("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "write", full)
        for number in range(300):
            log.apply(effects(("vote", b"j", bytes([number % 256]) * 10_000)))
    assert storage.files[NAME].size() > SLACK_BYTES
    log.apply(effects(("vote", b"j", b"last")))
    assert storage.files[NAME].size() < SLACK_BYTES
    assert StateLog(storage).items() == (("vote", b"j", b"last"),)


def test_a_disk_that_cannot_sync_is_said_and_nothing_is_remembered() -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    storage.files[NAME].fail_sync = True
    with pytest.raises(StorageError):
        log.apply(effects(("vote", b"j", b"one")))
    assert log.items() == ()


def test_what_a_failed_sync_left_is_not_trusted_but_written_again_at_the_next_start() -> None:
    storage = MemoryStorage()
    log = StateLog(storage)
    log.apply(effects(("vote", b"j", b"one")))
    storage.files[NAME].fail_sync = True
    with pytest.raises(StorageError):
        log.apply(effects(("vote", b"j", b"two")))
    before = storage.files[NAME]
    StateLog(storage)
    after = storage.files[NAME]
    assert after is not before, "another file, of which every byte was synced"
    assert after.durable == after.size()
    storage.crash()
    assert StateLog(storage).items() == (("vote", b"j", b"two"),)


def test_on_a_real_disk_it_is_there_after_a_restart(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    log = StateLog(storage)
    log.apply(effects(("job", b"a", b"1"), ("vote", b"a", b"2"), ("job", b"b", b"3")))
    log.apply(effects(("job", b"b", b"")))
    log.close()
    assert StateLog(storage).items() == (("job", b"a", b"1"), ("vote", b"a", b"2"))
    storage.close()
