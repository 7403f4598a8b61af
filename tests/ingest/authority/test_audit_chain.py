"""The chain of the audit log: every change of a line, and every line that is missing, is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.cli.host.audit import audit_group
from elfmesh.errors import DataError
from elfmesh.ingest.authority.audit import AuditLog
from elfmesh.ingest.authority.audit_chain import HEAD, NAME, files_of, verify
from elfmesh.storage.storage import MemoryStorage
from tests.ingest.authority.test_audit import log_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log_of(tmp_path, 20).close()
    return tmp_path


@given(st.data())
@settings(max_examples=60)
def test_no_byte_may_be_another(data: st.DataObject) -> None:
    storage = MemoryStorage()
    log = AuditLog(storage, lambda: 1_000_000)
    for number in range(4):
        log.write("sam", "token", "pause", allowed=number % 2 == 0, job="shop/a", why="x" * number)
    whole = bytearray(storage.open(NAME).read())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"elf-audit-{os.getpid()}.log"
    path.write_bytes(whole)
    try:
        with pytest.raises(DataError, match=r"\.log:\d"):
            verify(path)
    finally:
        path.unlink()


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:5] + lines[6:],
        lambda lines: [*lines[:5], lines[6], lines[5], *lines[7:]],
        lambda lines: lines[:8] + lines[7:],
        lambda lines: [*lines[:5], b"{}", *lines[5:]],
        lambda lines: lines[:-1],
        lambda lines: [lines[0].replace(b'"sam"', b'"ann"'), *lines[1:]],
    ],
    ids=["one taken out", "two exchanged", "one repeated", "one put in", "the last cut off", "one rewritten"],
)
def test_what_was_done_to_it_is_found(directory: Path, change: object) -> None:
    path = directory / NAME
    assert callable(change)
    path.write_bytes(b"".join(line + b"\n" for line in change(path.read_bytes().splitlines())))
    with pytest.raises(DataError):
        verify(directory)
    done = CliRunner().invoke(audit_group, ["verify", str(directory)])
    assert isinstance(done.exception, DataError)


def test_a_damaged_head_is_named(directory: Path) -> None:
    (directory / HEAD).write_bytes(b"something else")
    with pytest.raises(DataError, match="is damaged"):
        verify(directory)


def test_where_there_is_no_log_the_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no audit log"):
        files_of(tmp_path)
    (tmp_path / NAME).touch()
    with pytest.raises(DataError, match="has no lines"):
        verify(tmp_path)
