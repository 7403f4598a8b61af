"""Inserts with positions: each batch is in the spool once and whole, wherever the agent crashed."""

from __future__ import annotations

import shutil
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.errors import StorageError
from elfmesh.ingest.inputs.positions import (
    FILE_NAME,
    PRODUCERS_MAX,
    UNNAMED_MAX,
    Positions,
    TooManyProducers,
)
from elfmesh.ingest.inputs.spool import Spool, SpoolFull
from elfmesh.storage.results.segment import write_all

LIMIT = 1 << 20
Batch = tuple[str, list[bytes]]
BATCHES = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.binary(min_size=1, max_size=6), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What crashes here is the process: what it wrote is there, synced or not."""
    monkeypatch.setattr("os.fsync", lambda fd: None)
    monkeypatch.setattr("os.fdatasync", lambda fd: None)


class Crash(BaseException):
    """The process is gone."""


def lines_of(number: int, batch: Batch) -> bytes:
    producer, values = batch
    return b"".join(b"%s%d:%s\n" % (producer.encode(), number, value.hex().encode()) for value in values)


def everything(directory: Path) -> bytes:
    """What readers find: rotated segments, then the newest."""
    return (
        b"".join(path.read_bytes() for path in sorted(directory.glob("spool.log.*")))
        + (directory / "spool.log").read_bytes()
    )


def crash_in(directory: Path, batches: list[Batch], crash_at: int, limit: int) -> int:
    """Append batches until the disk has taken `crash_at` bytes; how many were acknowledged."""
    left, write = crash_at, write_all
    acknowledged = 0

    def torn(fd: int, data: bytes) -> None:
        nonlocal left
        write(fd, data[:left])
        left -= len(data)
        if left < 0:
            raise Crash

    spool = Spool(directory, limit, positioned=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elfmesh.ingest.inputs.spool.write_all", torn)
        patch.setattr("elfmesh.ingest.inputs.positions.write_all", torn)
        try:
            for number, batch in enumerate(batches):
                spool.append(lines_of(number, batch), [(batch[0], number)])
                acknowledged += 1
        except Crash:
            pass
    spool.close()
    return acknowledged


def replay(directory: Path, batches: list[Batch], limit: int) -> None:
    """As a program does after a crash: everything again that the positions do not have."""
    spool = Spool(directory, limit, positioned=True)
    assert spool.positions is not None
    for number, batch in enumerate(batches):
        last = spool.positions.last(batch[0])
        if last is None or last < number:
            spool.append(lines_of(number, batch), [(batch[0], number)])
    spool.close()


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, crash_at=st.integers(0, 500), small=st.booleans())
def test_after_a_crash_at_any_byte_a_repetition_makes_every_batch_there_once(
    tmp_path_factory: pytest.TempPathFactory, batches: list[Batch], crash_at: int, small: bool
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    limit = 400 if small else LIMIT  # of a small one, segments are rotated
    try:
        acknowledged = crash_in(directory, batches, crash_at, limit)
        replay(directory, batches, limit)
    except SpoolFull:
        return
    finally:
        found = everything(directory)
        shutil.rmtree(directory)
    expected = b"".join(lines_of(number, batch) for number, batch in enumerate(batches))
    assert acknowledged <= len(batches)
    assert found == expected


@pytest.mark.parametrize("without", ["cut", "intent"])
def test_the_crash_test_notices_a_missing_safeguard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    restore = Positions._restore
    if without == "cut":  # a batch that is there in part stays
        monkeypatch.setattr(Positions, "_restore", lambda *args, **kw: (restore(*args, **kw), None)[1])
    else:  # positions are not journalled at all
        monkeypatch.setattr(Positions, "intend", lambda *args: None)
    batches: list[Batch] = [("a", [b"1", b"2"]), ("a", [b"3"] * 4)]
    wrong = 0
    for crash_at in range(0, 300, 5):
        directory = tmp_path / str(crash_at)
        crash_in(directory, batches, crash_at, LIMIT)
        replay(directory, batches, LIMIT)
        wrong += everything(directory) != b"".join(
            lines_of(number, batch) for number, batch in enumerate(batches)
        )
    assert wrong


def test_a_write_that_failed_is_no_insert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(tmp_path, LIMIT, positioned=True)

    def full(fd: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("elfmesh.ingest.inputs.spool.write_all", full)
        with pytest.raises(SpoolFull):
            spool.append(b"one\n", [("p", 1)])
    assert spool.positions is not None
    assert spool.positions.last("p") is None
    spool.append(b"other\n", [("q", 1)])
    spool.close()
    again = Spool(tmp_path, LIMIT, positioned=True)
    assert again.positions is not None
    assert (again.positions.last("p"), again.positions.last("q")) == (None, 1)
    again.close()


def test_a_journal_that_is_damaged_in_its_middle_is_not_believed(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT, positioned=True)
    for number in range(3):
        spool.append(b"line\n", [("p", number)])
    spool.close()
    path = tmp_path / FILE_NAME
    data = bytearray(path.read_bytes())
    data[12] ^= 1
    path.write_bytes(data)
    with pytest.raises(StorageError, match="is damaged at byte 0"):
        Spool(tmp_path, LIMIT, positioned=True)


def test_the_journal_stays_small_and_unnamed_producers_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elfmesh.ingest.inputs.positions.COMPACT_BYTES", 2000)
    spool = Spool(tmp_path, LIMIT, positioned=True)
    positions = spool.positions
    assert positions is not None
    for number in range(400):
        spool.append(b"line\n", [("named", number)])
    assert (tmp_path / FILE_NAME).stat().st_size < 4000
    monkeypatch.undo()
    for number in range(UNNAMED_MAX + 5):
        spool.append(b"line\n", [(f"~{number}", 1)])
    assert positions.last("~0") is None
    assert positions.last("named") == 399
    spool.close()


def test_room_is_looked_for_while_another_thread_appends(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT, positioned=True)
    positions = spool.positions
    assert positions is not None
    for number in range(PRODUCERS_MAX):
        positions.applied([(f"named {number}", 1)])
    done, slice_s = threading.Event(), sys.getswitchinterval()

    def appends() -> None:
        for number in range(1_000):
            positions.applied([(f"named {number % 7}", number)])
        done.set()

    other = threading.Thread(target=appends)
    sys.setswitchinterval(1e-6)
    try:
        other.start()
        while not done.is_set():
            positions.check_room("named 3")
            with pytest.raises(TooManyProducers):
                positions.check_room("one more")
    finally:
        sys.setswitchinterval(slice_s)
        other.join()
    spool.close()
