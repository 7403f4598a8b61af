"""A record on its way into a log comes back whole, and a file of an earlier release up to its torn end."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.protocol.events import Append
from elfmesh.errors import ProtocolError
from elfmesh.storage.results.journal import entries, pack, unpack
from tests.storage.results.records import record, rows


def test_a_record_comes_back_with_its_job_and_rows() -> None:
    found = unpack(pack(Append(b"j" * 20, "inc", record(5), rows(7))))
    assert (found.job, found.incarnation, found.result()) == (b"j" * 20, "inc", (record(5), rows(7)))


@pytest.mark.parametrize("data", [b"", b"\xc0", pack(Append(b"j", "inc", record(5), b""))[:-1]])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="no record on its way"):
        unpack(data)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4) + zlib.crc32(body).to_bytes(4) + body


@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4), st.data())
def test_entries_are_read_up_to_the_first_that_is_torn(bodies: list[bytes], data: st.DataObject) -> None:
    frames = [framed(body) for body in bodies]
    whole = b"".join(frames)
    assert list(entries(whole)) == bodies
    cut = data.draw(st.integers(0, len(whole) - 1))
    ends = [sum(map(len, frames[: at + 1])) for at in range(len(frames))]
    assert list(entries(whole[:cut])) == bodies[: sum(end <= cut for end in ends)]
    assert (
        list(entries(whole[:cut] + bytes([whole[cut] ^ 1]) + whole[cut + 1 :]))
        == bodies[: sum(end <= cut for end in ends)]
    )


def test_zeros_behind_the_last_entry_are_none() -> None:
    assert list(entries(framed(b"a") + bytes(64))) == [b"a"]
