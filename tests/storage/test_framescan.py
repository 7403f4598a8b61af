"""Frames in a file that may be damaged: every good one is found, and what lies between them is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.storage import framescan
from elfmesh.storage.framescan import HEAD, MARK, SECTOR, is_cut_short, is_torn, pack, scan, unpack


class Bytes:
    """A file that is only read."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, at: int, size: int) -> bytes:
        return self.data[at : at + size]


def found(data: bytes) -> list[tuple[int, int, bytes | None]]:
    return [(each.offset, each.size, each.body) for each in scan(Bytes(data), len(data))]  # type: ignore[arg-type]  # reads alone


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_frames_come_back_in_order(bodies: list[bytes]) -> None:
    assert [body for _, _, body in found(b"".join(map(pack, bodies)))] == bodies


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=4), st.data())
def test_one_changed_byte_costs_one_frame(bodies: list[bytes], data: st.DataObject) -> None:
    file = bytearray(b"".join(map(pack, bodies)))
    at = data.draw(st.integers(0, len(file) - 1))
    file[at] ^= data.draw(st.integers(1, 255))
    stretches = found(bytes(file))
    assert sum(size for _, size, _ in stretches) == len(file), "every byte is in one stretch"
    ends = [sum(len(pack(body)) for body in bodies[:upto]) for upto in range(len(bodies) + 1)]
    hit = next(place for place in range(len(bodies)) if at < ends[place + 1])
    good = [body for _, _, body in stretches if body is not None]
    assert good == bodies[:hit] + bodies[hit + 1 :]


def test_rubbish_before_between_and_behind_frames_is_named() -> None:
    one, two = pack(b"one"), pack(b"two")
    data = MARK + b"rubbish" + one + b"\0" * 5 + two + MARK
    assert found(data) == [
        (0, 11, None),
        (11, len(one), b"one"),
        (11 + len(one), 5, None),
        (16 + len(one), len(two), b"two"),
        (16 + len(one) + len(two), 4, None),
    ]


def test_a_mark_across_two_windows_of_the_search_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framescan, "WINDOW_BYTES", 8)
    frame = pack(b"x")
    for before in range(1, 20):
        assert found(b"r" * before + frame) == [(0, before, None), (before, len(frame), b"x")]


@pytest.mark.parametrize(
    "head",
    [
        HEAD.pack(MARK, 1 << 30, framescan.checksum(MARK + (1 << 30).to_bytes(4)), 0),
        HEAD.pack(MARK, 5, 0, framescan.checksum(b"12345")),
        HEAD.pack(b"none", 5, framescan.checksum(b"none" + (5).to_bytes(4)), framescan.checksum(b"12345")),
    ],
    ids=["longer than a frame may be", "wrong sum of the head", "another mark"],
)
def test_a_head_that_is_none_leads_nowhere(head: bytes) -> None:
    data = head + b"12345"
    assert unpack(Bytes(data), 0, len(data)) is None  # type: ignore[arg-type]  # reads alone


def test_a_file_that_ends_within_a_frame_is_cut_short() -> None:
    whole = pack(b"body")
    for end in range(1, len(whole)):
        assert is_cut_short(Bytes(whole[:end]), 0, end)  # type: ignore[arg-type]  # reads alone
    assert not is_cut_short(Bytes(whole), 0, len(whole))  # type: ignore[arg-type]  # reads alone


@pytest.mark.parametrize(
    ("tail", "torn"),
    [
        (b"x" * 40 + b"\0", True),
        (b"x" * 100 + bytes(SECTOR) + b"x" * 10, False),
        (b"x" * SECTOR + bytes(SECTOR) + b"x" * 10, True),
        (b"x" * 3000, False),
    ],
    ids=["zeros at the end", "zeros across two sectors", "a whole sector of zeros", "no zeros"],
)
def test_a_crash_leaves_zeros_in_whole_sectors(tail: bytes, torn: bool) -> None:
    assert is_torn(Bytes(tail), 0, len(tail)) is torn  # type: ignore[arg-type]  # reads alone
