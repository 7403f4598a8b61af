from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import ConfigError, DiskFull, StorageError
from elfmesh.storage import failpoints, framescan
from elfmesh.storage.framelog import DAMAGED, FILE_NAME, FrameLog
from elfmesh.storage.frames import Forgotten, Frame, Released, Sealed, SealedInterval
from elfmesh.storage.storage import DiskStorage, MemoryStorage
from tests.hostile.cost import cut_off


def sealed(job: str, index: int, size: int = 20) -> Sealed:
    entry = SealedInterval(index, [1, 0, 0, 0, 0], [bytes([index % 256]) * size])
    at = {"f": index * 10}
    return Sealed(job, 1, index, index + 1, [entry], positions=at, restart=at, counters=[index, 0, 0, 0, 0])


def test_a_restart_goes_on_from_the_last_frame_and_sends_the_unreleased_again() -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    for index in range(5):
        log.append(sealed("shop/top", index))
    log.append(Released("shop/top", 3))
    log.sync()
    again = FrameLog(storage)
    assert again.jobs == ["shop/top"]
    assert again.last("shop/top") == sealed("shop/top", 4)
    assert list(again.unreleased("shop/top")) == [sealed("shop/top", 3), sealed("shop/top", 4)]
    assert again.released("shop/top") == 3
    assert again.recovery.cut_bytes == 0


def test_what_was_not_synced_is_gone_after_a_power_cut_and_what_was_is_not() -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    log.sync()
    log.append(sealed("j", 1))
    storage.crash()
    assert FrameLog(storage).last("j") == sealed("j", 0)


@settings(deadline=None)
@given(st.integers(1, 6), st.data())
def test_a_torn_tail_is_cut_to_the_last_whole_frame(count: int, data: st.DataObject) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    ends = [log.size]
    for index in range(count):
        log.append(sealed("j", index))
        ends.append(log.size)
    cut = data.draw(st.integers(0, log.size))
    storage.files[FILE_NAME].cut(cut)
    again = FrameLog(storage)
    whole = [end for end in ends if end <= cut]
    assert list(again.unreleased("j")) == [sealed("j", index) for index in range(len(whole) - 1)]
    assert again.recovery.cut_bytes == cut - (whole[-1] if whole else 0)
    assert again.recovery.gaps == []
    again.append(sealed("j", 77))
    assert FrameLog(storage).last("j") == sealed("j", 77)


@settings(deadline=None)
@given(st.integers(0, 2), st.data())
def test_a_bad_frame_in_the_middle_is_a_declared_gap(bad: int, data: st.DataObject) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    ends = [log.size]
    for index in range(5):
        log.append(sealed("j", index))
        ends.append(log.size)
    at = data.draw(st.integers(ends[bad], ends[bad + 1] - 1))
    storage.files[FILE_NAME].data[at] ^= data.draw(st.integers(1, 255))
    again = FrameLog(storage)
    assert again.recovery.gaps == [(ends[bad], ends[bad + 1] - ends[bad])]
    assert list(again.unreleased("j")) == [sealed("j", index) for index in range(5) if index != bad]
    assert again.recovery.holes == {"j": [(bad or None, bad + 1)]}


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise_in_the_file_never_raises(noise: bytes) -> None:
    storage = MemoryStorage()
    storage.write(FILE_NAME, noise)
    log = FrameLog(storage)
    log.append(sealed("j", 1))
    assert FrameLog(storage).last("j") == sealed("j", 1)


def test_a_failed_sync_is_fatal_and_not_retried() -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    storage.files[FILE_NAME].fail_sync = True
    with pytest.raises(StorageError, match="injected"):
        log.sync()
    storage.files[FILE_NAME].fail_sync = False
    with pytest.raises(StorageError, match="failed before"):
        log.sync()


def test_what_a_failed_sync_left_is_not_trusted_but_written_again_at_the_next_start() -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    log.sync()
    log.append(sealed("j", 1))
    storage.files[FILE_NAME].fail_sync = True
    with pytest.raises(StorageError):
        log.sync()
    FrameLog(storage)  # says it again to all
    storage.crash()
    again = FrameLog(storage)
    assert [frame.start for frame in again.unreleased("j")] == [0, 1]
    assert not again.recovery.gaps


def test_a_start_without_room_for_a_copy_goes_on_with_the_log_as_it_is(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    log.close()
    with failpoints.armed("storage.replace", failpoints.ACTIONS["full"]):
        again = FrameLog(storage)
    assert [frame.start for frame in again.unreleased("j")] == [0]


def test_compaction_keeps_what_may_be_asked_for_and_where_to_go_on() -> None:
    storage = MemoryStorage()
    log = FrameLog(storage, garbage_bytes=1000)
    for index in range(50):
        log.append(sealed("a", index, 100))
        log.append(sealed("b", index, 100))
    log.append(sealed("gone", 1))
    assert not log.compact()
    log.append(Released("a", 48))
    log.append(Released("b", 50))
    log.append(Forgotten("gone"))
    before = log.size
    assert log.compact()
    assert log.size < before / 10
    for opened in (log, FrameLog(storage)):
        assert list(opened.unreleased("a")) == [sealed("a", 48, 100), sealed("a", 49, 100)]
        assert list(opened.unreleased("b")) == []
        last = opened.last("b")
        assert last is not None
        assert (last.stop, last.restart, last.counters) == (50, {"f": 490}, [49, 0, 0, 0, 0])
        assert opened.jobs == ["a", "b"]


def test_the_log_on_disk_survives_reopening(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path / "data")
    log = FrameLog(storage, garbage_bytes=10)
    frames: list[Frame] = [sealed("j", 0), sealed("j", 1), Released("j", 1), sealed("j", 2)]
    for frame in frames:
        log.append(frame)
    log.compact()
    log.close()
    storage.close()
    again = FrameLog(DiskStorage(tmp_path / "data"))
    assert list(again.unreleased("j")) == [sealed("j", 1), sealed("j", 2)]


def test_two_agents_cannot_share_a_directory(tmp_path: Path) -> None:
    first = DiskStorage(tmp_path)
    with pytest.raises(ConfigError, match="another agent"):
        DiskStorage(tmp_path)
    first.close()
    DiskStorage(tmp_path).close()


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    storage.write("state/a", b"1")
    storage.write("state/a", b"2")
    assert storage.read("state/a") == b"2"
    assert storage.read("state/b") is None
    assert storage.names("state/") == ["state/a"]
    storage.delete("state/a")
    storage.delete("state/a")
    assert storage.names("state/") == []
    storage.close()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_images_only_lose_what_is_declared(data: st.DataObject) -> None:
    """Flipped, cut, doubled and zeroed images give some of the frames, in order; the rest is named."""
    storage = MemoryStorage()
    log = FrameLog(storage)
    for index in range(data.draw(st.integers(1, 8))):
        log.append(sealed("j", index, data.draw(st.integers(0, 60))))
    image = storage.files[FILE_NAME].data
    for _ in range(data.draw(st.integers(1, 4))):
        if not image:
            break
        start = data.draw(st.integers(0, len(image) - 1))
        stop = data.draw(st.integers(start, min(len(image), start + 120)))
        match data.draw(st.sampled_from(["flip", "cut", "double", "zero", "move"])):
            case "flip":
                image[start] ^= data.draw(st.integers(1, 255))
            case "cut":
                del image[start:]
            case "double":
                image[stop:stop] = image[start:stop]
            case "zero":
                image[start:stop] = bytes(stop - start)
            case "move":
                image += image[start:stop]
    again = FrameLog(storage)
    found = list(again.unreleased("j"))
    stops = [frame.stop for frame in found]
    assert stops == sorted(set(stops))
    lost = {index for start, stop in again.recovery.holes.get("j", ()) for index in range(start or 0, stop)}
    newest = stops[-1] if stops else 0
    assert lost | {stop - 1 for stop in stops} == set(range(newest))
    for frame in found:
        assert frame.entries[0].interval == frame.start
    again.append(sealed("j", newest, 5))
    assert FrameLog(storage).last("j") == sealed("j", newest, 5)


def test_false_marks_everywhere_cost_no_more_than_reading() -> None:
    storage = MemoryStorage()
    head = framescan.MARK + (200 << 20).to_bytes(4)
    storage.write(FILE_NAME, (head * 300_000)[: 2 << 20])
    with cut_off():
        log = FrameLog(storage)
    assert log.recovery.cut_bytes == 2 << 20


def test_a_full_disk_leaves_the_log_as_it_was_and_usable(tmp_path: Path) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    log.sync()
    storage.files[FILE_NAME].room = log.size + 10
    with pytest.raises(DiskFull):
        log.append(sealed("j", 1))
    storage.files[FILE_NAME].room = None
    log.append(sealed("j", 1))
    log.sync()
    assert list(FrameLog(storage).unreleased("j")) == [sealed("j", 0), sealed("j", 1)]


def test_a_disk_that_fills_up_in_the_middle_of_a_frame_keeps_none_of_it(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    file = storage.open("a")
    file.append(b"one")
    with failpoints.armed("storage.append", failpoints.ACTIONS["full"]), pytest.raises(DiskFull):
        file.append(b"two")
    assert file.read() == b"one"
    with failpoints.armed("storage.replace", failpoints.ACTIONS["full"]), pytest.raises(DiskFull):
        storage.write("b", b"two")
    assert storage.names() == ["a", "lock"]
    storage.close()


@pytest.mark.parametrize("place", ["compact", "storage.replace", "storage.replaced", "compacted"])
def test_a_crash_at_any_step_of_a_rewrite_loses_nothing(tmp_path: Path, place: str) -> None:
    class Crash(BaseException):
        pass

    def crash() -> None:
        raise Crash

    storage = DiskStorage(tmp_path)
    log = FrameLog(storage, garbage_bytes=10)
    for index in range(50):
        log.append(sealed("j", index))
    log.append(Released("j", 48))
    log.sync()
    with failpoints.armed(place, crash), pytest.raises(Crash):
        log.compact()
    storage.close()
    again = FrameLog(DiskStorage(tmp_path))
    assert list(again.unreleased("j")) == [sealed("j", 48), sealed("j", 49)]
    assert again.released("j") == 48


def test_an_end_that_was_whole_once_is_damage_and_not_a_torn_write(caplog: pytest.LogCaptureFixture) -> None:
    """An agent may have been told of it: each job that goes on declares a gap, and the file is kept."""
    storage = MemoryStorage()
    log = FrameLog(storage)
    for index in range(3):
        log.append(sealed("j", index))
    log.sync()
    storage.files[FILE_NAME].data[-1] ^= 1
    damaged = bytes(storage.files[FILE_NAME].data)
    again = FrameLog(storage)
    assert (again.recovery.rotten, again.recovery.cut_bytes > 0) == (True, True)
    assert list(again.unreleased("j")) == [sealed("j", 0), sealed("j", 1)]
    assert bytes(storage.files[DAMAGED].data) == damaged
    assert f"{FILE_NAME} is damaged at byte" in caplog.text
    caplog.clear()
    assert not FrameLog(storage).recovery.rotten
    assert not caplog.records


@pytest.mark.parametrize("end", [b"", bytes(20)])
def test_a_torn_end_is_no_damage(end: bytes, caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage)
    log.append(sealed("j", 0))
    whole = log.size
    log.append(sealed("j", 1))
    storage.files[FILE_NAME].cut(whole + 9)
    storage.files[FILE_NAME].append(end)
    again = FrameLog(storage)
    assert (again.recovery.rotten, list(again.unreleased("j"))) == (False, [sealed("j", 0)])
    assert not caplog.records


def test_frames_of_another_agent_belong_to_no_job(caplog: pytest.LogCaptureFixture) -> None:
    storage = MemoryStorage()
    log = FrameLog(storage, owner=b"other")
    log.append(sealed("j", 0))
    assert FrameLog(storage, owner=b"other").last("j") is not None
    again = FrameLog(storage, owner=b"me")
    assert again.jobs == []
    assert again.recovery.rotten
    again.append(sealed("j", 7))
    kept = FrameLog(storage, owner=b"me").last("j")
    assert kept is not None
    assert (kept.start, kept.owner) == (sealed("j", 7).start, b"me")
    assert DAMAGED in storage.files
