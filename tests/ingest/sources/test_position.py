"""Places in files: what tells files apart, and how far a replay goes."""

from __future__ import annotations

import pytest

from elfmesh.ingest.sources.position import (
    FINISHED,
    MARK_BYTES,
    READING,
    FilePosition,
    Gap,
    mark_of,
    replay_ends,
)


def place(offset: int, generation: bytes = b"g", inode: int = 2) -> FilePosition:
    return FilePosition("/log", 1, inode, generation, 1, offset, role=FINISHED)


def test_a_place_further_on_is_read_again() -> None:
    moved = place(5).at(9, b"m")
    assert (moved.offset, moved.mark, moved.role) == (9, b"m", READING)
    assert moved.key == place(0).key


def test_a_truncated_file_is_another_generation_of_one_source() -> None:
    assert place(0).key != place(0, b"h").key
    assert place(0).id == place(0, b"h").id


@pytest.mark.parametrize("before", [b"a", b"x" * MARK_BYTES, b"ab" * MARK_BYTES])
def test_a_mark_is_of_the_bytes_just_before(before: bytes) -> None:
    assert mark_of(before) == mark_of(before[-MARK_BYTES:])
    assert mark_of(before) != mark_of(before[:-1] + b"?")
    assert mark_of(b"y" * MARK_BYTES + before) == mark_of(before) or len(before) < MARK_BYTES


def test_nothing_has_no_mark() -> None:
    assert mark_of(b"") == b""


def test_a_replay_ends_at_the_furthest_place_of_each_generation() -> None:
    ends = replay_ends([place(5), place(9), place(7), place(3, b"h"), place(4, inode=3)])
    assert ends == {place(0).key: 9, place(0, b"h").key: 3, place(0, inode=3).key: 4}
    assert replay_ends([]) == {}


def test_a_gap_reports_its_reason_and_the_lost_bytes() -> None:
    assert str(Gap("/log", "it was removed")) == "/log: lines may be lost: it was removed"
    assert str(Gap("/log", "it was removed", 7)) == "/log: 7 bytes are lost: it was removed"
