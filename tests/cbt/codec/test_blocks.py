"""Blocks as framed bytes: equal rows come back, cut anywhere, and damage is found."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.cbt.codec.blocks import (
    FRAME_BYTES_MAX,
    Squeezer,
    frame,
    read_block,
    split_frames,
    unfold,
    unframe,
    write_block,
)
from elfmesh.cbt.sorted_rows import to_rows
from elfmesh.errors import ProtocolError
from tests.cbt.packing import mixed, sample
from tests.cbt.tables import content

BLOCK = write_block(mixed())


def test_rows_come_back() -> None:
    for rows in (mixed(), sample(50)):
        for trusted in (False, True):
            assert content(to_rows(read_block(write_block(rows), trusted=trusted))) == content(to_rows(rows))


@given(st.integers(0, len(BLOCK) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(place: int, flip: int) -> None:
    changed = bytearray(BLOCK)
    changed[place] ^= flip
    with pytest.raises(ProtocolError):
        read_block(bytes(changed))


@given(st.integers(0, len(BLOCK) - 1))
def test_any_cut_is_noticed(size: int) -> None:
    with pytest.raises(ProtocolError, match="cut off"):
        read_block(BLOCK[:size])


def test_a_block_over_the_budget_is_not_unfolded() -> None:
    with pytest.raises(ProtocolError, match="a block unfolds to over 10 bytes"):
        read_block(BLOCK, budget_bytes=10)


@pytest.mark.parametrize("body", [b"", b"\xff\xff\xff\xff", struct.pack("<I", 1) + b"\xc1"])
def test_a_body_that_is_no_block_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed block"):
        read_block(frame(body))


@given(st.lists(st.binary(max_size=20), max_size=5), st.lists(st.integers(0, 200), max_size=5))
def test_frames_come_whole_from_bytes_that_were_cut_anywhere(bodies: list[bytes], cuts: list[int]) -> None:
    data = b"".join(map(frame, bodies))
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[start:stop] for start, stop in pairwise(places)]
    assert [bytes(unframe(each)) for each in split_frames(chunks)] == bodies


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (struct.pack("<I", 3), "impossible length"),
        (struct.pack("<I", FRAME_BYTES_MAX), "impossible length"),
        (frame(b"abc")[:-1], "end inside a frame"),
        (frame(b"abc") + b"\0", "end inside a frame"),
    ],
)
def test_frames_of_a_wrong_length_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        list(split_frames([data]))


def test_chunks_are_cut_by_their_sizes() -> None:
    assert [bytes(part) for part in unfold(Squeezer().squeeze(b"aabbb"), [2, 0, 3])] == [b"aa", b"", b"bbb"]
    assert [bytes(part) for part in unfold(Squeezer().squeeze(b""), [0])] == [b""]


@pytest.mark.parametrize(
    ("data", "sizes", "message"),
    [
        (Squeezer().squeeze(b"aabbb"), [2, 2], "does not state the size of its chunks"),
        (Squeezer().squeeze(b"aabbb"), [6, -1], "negative size"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"aa"), [2], "does not state the size"),
        (b"no frame", [2], "does not decompress"),
        (Squeezer().squeeze(b"aabbb")[:-2], [5], "does not decompress"),
    ],
)
def test_frames_that_are_not_their_chunks_are_refused(data: bytes, sizes: list[int], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        unfold(data, sizes)
