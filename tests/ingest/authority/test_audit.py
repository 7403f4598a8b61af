"""The audit log: whole after crashes and rotation; found out when it was touched; no room, no action."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from elfmesh.cli.host.audit import audit_group
from elfmesh.errors import DataError, DiskFull, StorageError
from elfmesh.ingest.authority.audit import REFUSALS_A_MINUTE, REFUSED_DAYS, AuditLog
from elfmesh.ingest.authority.audit_chain import HEAD, NAME, AuditEntry, files_of, read_entries, verify
from elfmesh.storage.storage import DiskStorage, MemoryStorage
from tests.patience import PATIENCE_S


def log_of(directory: Path, lines: int = 0, **other: int) -> DiskStorage:
    storage = DiskStorage(directory)
    log = AuditLog(storage, lambda: 1_000_000, **other)
    for number in range(lines):
        log.write("sam", "certificate", "apply", allowed=True, job=f"shop/{number}", digest="ab" * 32)
    log.close()
    return storage


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log_of(tmp_path, 20).close()
    return tmp_path


def test_a_log_is_whole_and_goes_on_after_a_restart(directory: Path) -> None:
    first = verify(directory)
    assert first[:2] == (1, 20)
    log_of(directory, 3).close()
    assert verify(directory)[:2] == (1, 23)
    found = [entry for path in files_of(directory) for _, entry in read_entries(path)]
    assert (found[19].hash, found[20].before) == (first[2], first[2])


def test_a_log_that_was_cut_is_not_written_on(directory: Path) -> None:
    path = directory / NAME
    path.write_bytes(b"".join(line + b"\n" for line in path.read_bytes().splitlines()[:-2]))
    with pytest.raises(StorageError, match="has 18 lines, and had 20"):
        log_of(directory)


def test_a_line_that_a_crash_has_cut_is_dropped_and_the_chain_goes_on(directory: Path) -> None:
    with (directory / NAME).open("ab") as file:
        file.write(b'{"seq":21,"at"')
    log_of(directory, 1).close()
    assert verify(directory)[:2] == (1, 21)
    (directory / HEAD).unlink()  # the crash came before it was written
    log_of(directory, 1).close()
    assert verify(directory)[:2] == (1, 22)


def test_files_are_bounded_and_the_chain_goes_through_them(tmp_path: Path) -> None:
    log_of(tmp_path, 60, file_bytes_max=2000, files=4).close()
    paths = files_of(tmp_path)
    assert 3 <= len(paths) <= 4
    first, last, _ = verify(tmp_path)
    assert first > 1
    assert last == 60
    paths[1].unlink()
    with pytest.raises(DataError, match="does not follow"):
        verify(tmp_path)


def test_a_crash_in_the_middle_of_a_rotation_leaves_no_line_twice(directory: Path) -> None:
    (directory / f"{NAME}.1").write_bytes((directory / NAME).read_bytes())
    log_of(directory, 1).close()
    assert verify(directory)[:2] == (1, 21)


def test_where_there_is_no_room_nothing_is_allowed() -> None:
    class Full(MemoryStorage):
        def write(self, name: str, data: bytes) -> None:
            raise DiskFull(os.strerror(errno.ENOSPC))

    log = AuditLog(Full(), lambda: 1_000_000)
    with pytest.raises(DiskFull):
        log.write("sam", "token", "delete", allowed=True, job="shop/a")


def test_the_head_follows_its_line_and_nothing_happens_while_it_cannot(tmp_path: Path) -> None:
    class Fickle(MemoryStorage):
        full = False
        heads: list[bytes]

        def write(self, name: str, data: bytes) -> None:
            if self.full:
                raise DiskFull(os.strerror(errno.ENOSPC))
            self.heads.append(data)

    storage = Fickle()
    storage.heads = []
    log = AuditLog(storage, lambda: 1_000_000, head_s=3600.0)
    for number in range(3):
        log.write("sam", "token", "pause", allowed=True, job=f"shop/{number}")
    assert not storage.heads
    log.close()
    (head,) = storage.heads
    assert msgspec.json.decode(head)["seq"] == 3
    late = AuditLog(storage, lambda: 1_000_000, head_s=3600.0)
    late.write("sam", "token", "pause", allowed=True)
    storage.full = True
    late.close()  # it could not be written in time
    with pytest.raises(DiskFull):
        late.write("sam", "token", "delete", allowed=True, job="shop/a")
    storage.full = False
    late.write("sam", "token", "delete", allowed=True, job="shop/a")
    assert [msgspec.json.decode(each)["seq"] for each in storage.heads] == [3, 4]
    late.close()


def test_one_thread_waits_to_write_the_head_however_many_lines_come() -> None:
    """It waits for a file descriptor, perhaps for hours; lines are appended to a file that is open."""
    begun, may_go_on = threading.Event(), threading.Event()

    class Waiting(MemoryStorage):
        def write(self, name: str, data: bytes) -> None:
            begun.set()
            assert may_go_on.wait(PATIENCE_S)
            super().write(name, data)

    storage, before = Waiting(), threading.active_count()
    log = AuditLog(storage, lambda: 1_000_000, head_s=0.001)
    log.write("sam", "token", "pause", allowed=True)
    assert begun.wait(PATIENCE_S)
    for _ in range(20):
        log.write("sam", "token", "pause", allowed=True)
    assert threading.active_count() == before + 1
    may_go_on.set()
    end = time.monotonic() + PATIENCE_S
    while msgspec.json.decode(storage.read(HEAD) or b"{}").get("seq") != 21:
        assert time.monotonic() < end, "the head does not follow the lines that came while it was written"
        time.sleep(0.001)
    log.close()


def test_a_caller_without_rights_cannot_make_it_forget(tmp_path: Path) -> None:
    now = [60_000_000]
    storage = DiskStorage(tmp_path)
    log = AuditLog(storage, lambda: now[0])
    for _ in range(REFUSALS_A_MINUTE + 500):
        log.write("mallory", "loopback", "GET /v1/jobs", allowed=False, why="no")
    log.write("sam", "token", "pause", allowed=True)
    now[0] *= 2
    log.write("mallory", "loopback", "GET /v1/jobs", allowed=False, why="no")
    log.close()
    storage.close()
    found = [entry for _, entry in read_entries(tmp_path / NAME)]
    assert len(found) == REFUSALS_A_MINUTE + 3
    assert [(each.what, each.count) for each in found[-3:]] == [
        ("refused", 500),
        ("pause", 1),
        ("GET /v1/jobs", 1),
    ]


def test_a_caller_without_rights_cannot_make_it_forget_in_days_either(tmp_path: Path) -> None:
    now = [0]
    storage = DiskStorage(tmp_path)
    log = AuditLog(storage, lambda: now[0], file_bytes_max=30_000, files=3)
    log.write("sam", "token", "delete", allowed=True, job="shop/a")
    for minute in range(REFUSED_DAYS // 2 * 24 * 60):
        now[0] = minute * 60_000_000
        for _ in range(3 if minute % 60 == 0 else 0):
            log.write("mallory" * 70, "not believed", "x" * 500, allowed=False, why="y" * 500)
    log.close()
    storage.close()
    entries = [entry for path in files_of(tmp_path) for _, entry in read_entries(path)]
    assert ("sam", "delete") in [(each.who, each.what) for each in entries]
    assert sum(each.count for each in entries if each.what == "refused") > 100
    assert verify(tmp_path)[0] == 1


def test_a_log_whose_last_line_was_replaced_is_not_written_on(tmp_path: Path) -> None:
    log_of(tmp_path, 3).close()
    path = tmp_path / NAME
    *lines, last = path.read_bytes().splitlines(keepends=True)
    entry = msgspec.json.decode(last, type=AuditEntry)
    forged = msgspec.structs.replace(entry, who="somebody else").hashed()
    path.write_bytes(b"".join(lines) + msgspec.json.encode(forged, order="deterministic") + b"\n")
    with pytest.raises(StorageError, match="differs from the line that was written"):
        log_of(tmp_path, 1)


def test_names_of_others_are_shown_without_what_moves_a_cursor(tmp_path: Path) -> None:
    storage = DiskStorage(tmp_path)
    log = AuditLog(storage, lambda: 1_000_000)
    log.write("\x1b[2Jroot\n", "certificate", "apply", allowed=False, job="shop/a", why="\x07" * 1000)
    log.close()
    storage.close()
    shown = CliRunner().invoke(audit_group, ["show", str(tmp_path), "--refused", "-o", "json"]).output
    assert "\x1b" not in shown
    assert "\\u001b" not in shown
    assert CliRunner().invoke(audit_group, ["show", str(tmp_path), "--job", "shop/b"]).output.count("\n") <= 1
