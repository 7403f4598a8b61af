"""What an agent remembers: the newest of each key, all of a change or nothing; damage costs the votes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from elfmesh.control.protocol.events import Persist
from elfmesh.control.register.lost_votes import KIND, decode_loss
from elfmesh.errors import DiskFull, StorageError
from elfmesh.storage import framescan
from elfmesh.storage.statelog import NAME, SLACK_BYTES, StateLog
from elfmesh.storage.storage import DiskStorage, MemoryStorage

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


AGENT = b"a" * 20


def two_boots(storage: MemoryStorage) -> int:
    """A file with a rewritten part and three frames behind it; where that part ends."""
    log = StateLog(storage, AGENT, 1)
    log.apply(effects(("vote", b"i", b"x" * 700), ("job", b"i", b"terms")))
    log.apply(effects(("vote", b"j", b"zero"), ("member", b"j", b"roster")))
    log = StateLog(storage, AGENT, 2, 1)
    end = storage.files[NAME].size()
    for data in (b"one", b"two", b"three"):
        log.apply(effects(("vote", b"j", data)))
    return end


def lost(storage: MemoryStorage, rewritten: int = 2) -> StateLog:
    """The next boot, which has to find the loss; so do those that follow."""
    log = StateLog(storage, AGENT, 3, rewritten)
    assert log.loss is not None
    again = StateLog(storage, AGENT, 4, 3)
    assert again.loss is None, "it is found once, and remembered"
    for each in (log, again):
        assert not [item for item in each.items() if item[0] == "vote"]
        (kept,) = (data for kind, _, data in each.items() if kind == KIND)
        assert decode_loss(kept) == log.loss
    assert log.loss.boot == 3
    return log


def test_one_flipped_bit_anywhere_in_the_file_loses_the_votes_and_never_shows_older_ones() -> None:
    whole = MemoryStorage()
    two_boots(whole)
    for place in range(whole.files[NAME].size()):
        storage = MemoryStorage()
        storage.write(NAME, whole.files[NAME].read())
        storage.files[NAME].data[place] ^= 1 << place % 8
        log = lost(storage)
        assert log.loss is not None
        assert "damaged at byte" in log.loss.reason
        damaged = bytearray(whole.files[NAME].read())
        damaged[place] ^= 1 << place % 8
        assert storage.files[log.loss.kept].data == damaged, "the file is kept as it was found"


def test_what_is_not_damaged_is_used_but_for_the_votes() -> None:
    storage = MemoryStorage()
    end = two_boots(storage)
    storage.files[NAME].data[end - 20] ^= 1
    left = {(kind, key) for kind, key, _ in lost(storage).items()}
    assert ("job", b"i") in left
    assert ("member", b"j") in left


@pytest.mark.parametrize("where", ["head", "body", "end"])
def test_a_file_cut_off_in_its_rewritten_part_has_lost_votes(where: str) -> None:
    storage = MemoryStorage()
    end = two_boots(storage)
    storage.files[NAME].cut({"head": 7, "body": end // 2, "end": end - 1}[where])
    lost(storage)


def test_a_file_that_is_empty_zero_or_gone_has_lost_votes() -> None:
    for content in (b"", bytes(5000), None):
        storage = MemoryStorage()
        two_boots(storage)
        if content is None:
            storage.delete(NAME)
        else:
            storage.write(NAME, content)
        lost(storage)


def test_the_file_of_another_agent_is_not_used() -> None:
    storage, other = MemoryStorage(), MemoryStorage()
    two_boots(storage)
    log = StateLog(other, b"b" * 20, 1)
    log.apply(effects(("job", b"x", b"theirs"), ("vote", b"x", b"theirs")))
    storage.write(NAME, other.files[NAME].read())
    log = lost(storage)
    assert log.loss is not None
    assert "that of agent 6262" in log.loss.reason
    assert [kind for kind, _, _ in log.items()] == [KIND]


def test_an_older_copy_of_the_file_has_lost_votes() -> None:
    storage = MemoryStorage()
    StateLog(storage, AGENT, 1).apply(effects(("vote", b"j", b"one")))
    older = storage.files[NAME].read()
    StateLog(storage, AGENT, 2, 1).apply(effects(("vote", b"j", b"two")))
    storage.write(NAME, older)
    assert "older than start 2" in (lost(storage).loss or pytest.fail("no loss")).reason


def test_blocks_that_were_never_written_are_a_torn_end_and_no_damage() -> None:
    for hole in ("last byte", "a sector"):
        storage = MemoryStorage()
        log = StateLog(storage, AGENT, 1)
        log.apply(effects(("vote", b"j", b"one")))
        before = storage.files[NAME].size()
        log.apply(effects(("vote", b"j", b"x" * 3000)))
        data = storage.files[NAME].data
        if hole == "last byte":
            data[-1] = 0
        else:
            at = -(-before // 512) * 512
            data[at : at + 512] = bytes(512)
        again = StateLog(storage, AGENT, 2, 1)
        assert again.loss is None
        assert again.items() == (("vote", b"j", b"one"),)


def test_a_file_of_an_earlier_release_is_read_and_its_first_frame_cannot_be_torn() -> None:
    first = framescan.pack(msgspec.msgpack.encode([("vote", b"j", b""), ("vote", b"i", b"one")]))
    second = framescan.pack(msgspec.msgpack.encode([("vote", b"j", b"two")]))
    storage = MemoryStorage()
    storage.write(NAME, first + second)
    assert StateLog(storage, AGENT, 1).items() == (("vote", b"i", b"one"), ("vote", b"j", b"two"))
    storage.write(NAME, first + second[:-1])
    assert StateLog(storage, AGENT, 1).items() == (("vote", b"i", b"one"),)
    for damaged in (first[:-1], first[:20] + b"?" + first[21:], first[:20] + b"?" + first[21:] + second):
        storage.write(NAME, damaged)
        assert StateLog(storage, AGENT, 1).loss is not None


def test_an_earlier_release_reads_the_file() -> None:
    storage = MemoryStorage()
    two_boots(storage)
    found: dict[tuple[str, bytes], bytes] = {}
    for frame in framescan.scan(storage.files[NAME], storage.files[NAME].size()):
        assert frame.body is not None
        for kind, key, data in msgspec.msgpack.decode(frame.body, type=list[tuple[str, bytes, bytes]]):
            found[kind, key] = data
    assert found["vote", b"j"] == b"three"


def test_changes_are_counted_over_restarts() -> None:
    storage = MemoryStorage()
    two_boots(storage)
    log = StateLog(storage, AGENT, 3, 2)
    assert log.sequence == 5
    log.apply(effects(("vote", b"j", b"four")))
    assert StateLog(storage, AGENT, 4, 3).sequence == log.sequence == 6


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


def test_a_kind_is_forgotten_without_a_sync_and_leaves_the_file_when_it_is_rewritten() -> None:
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
    assert storage.files[NAME].size() < 200


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


def test_a_disk_that_cannot_sync_is_reported_and_nothing_is_remembered() -> None:
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
