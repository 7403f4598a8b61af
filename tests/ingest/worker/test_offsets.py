"""Which bytes a job has seen, and from where they are read again."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.records import FIRST
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.position import FilePosition
from elfmesh.ingest.worker.offsets import JobOffsets, ReadUpTo, furthest


def at(offset: int, inode: int = 1) -> FilePosition:
    return FilePosition("log", 1, inode, b"g", 10, offset)


def block(start: int, end: int, inode: int = 1) -> Block:
    return Block(b"", "log", at(start, inode), end)


def offsets_of(positions: tuple[FilePosition, ...]) -> list[tuple[int, int]]:
    return sorted((each.inode, each.offset) for each in positions)


def test_reading_restarts_where_the_oldest_open_interval_began() -> None:
    offsets = JobOffsets()
    for start, pane in ((0, 1), (100, 2), (200, 2), (300, 3)):
        offsets.begin(pane, block(start, start + 100))
        offsets.read(block(start, start + 100))
    offsets.read(block(0, 50, inode=2))
    assert offsets_of(offsets.restart()) == [(1, 0), (2, 50)]
    offsets.close_below(2)
    assert offsets_of(offsets.restart()) == [(1, 100), (2, 50)]
    assert offsets_of(offsets.begun_from(3)) == [(1, 300)]
    offsets.close_below(9)
    assert offsets_of(offsets.restart()) == offsets_of(offsets.reached()) == [(1, 400), (2, 50)]


@pytest.mark.parametrize(
    ("given", "counted"),
    [
        (block(0, 100), 5),
        (block(0, 101), None),  # it reaches beyond
        (block(0, 50), 7),  # two say it: the one for more intervals
        (block(0, 50, inode=2), None),
    ],
)
def test_what_an_earlier_boot_has_counted_is_not_counted_again(given: Block, counted: int | None) -> None:
    offsets = JobOffsets([(at(100), 5), (at(50), 7)])
    assert offsets.counted_below(given) == counted


def test_what_was_left_out_is_left_out_again_after_a_restart() -> None:
    offsets = JobOffsets()
    offsets.read(block(0, 100))
    offsets.leave_out(1, block(100, 200))
    offsets.read(block(100, 200))
    assert offsets.shed() == (), "the interval is open: it is not counted yet"
    offsets.begin(2, block(150, 200))
    offsets.close_below(2)
    assert offsets.shed() == ((at(100), 200),)
    again = JobOffsets((), offsets.shed())
    assert again.was_left_out(block(100, 200))
    assert again.was_left_out(block(120, 150))
    assert not again.was_left_out(block(90, 150))
    assert not again.was_left_out(block(150, 201))
    offsets.close_below(3)
    assert offsets.shed() == (), "no restart reads it again"


def test_no_block_reaches_across_an_edge() -> None:
    offsets = JobOffsets([(at(70), 5)])
    offsets.read(block(0, 300))
    offsets.leave_out(1, block(100, 200))
    assert sorted(each.offset for each in offsets.edges()) == [70, 100, 200, 300]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([(at(10), 5), (at(20), 5)], [(20, 5)]),
        ([(at(10), 7), (at(20), 5)], [(10, 7), (20, 5)]),
        ([(at(10), 5), (at(20), 7)], [(20, 7)]),
        ([(at(10), FIRST)], []),
    ],
)
def test_a_position_that_another_covers_is_left_out(
    given: list[ReadUpTo], expected: list[tuple[int, int]]
) -> None:
    assert [(to.offset, below) for to, below in furthest(given)] == expected
    assert furthest(given[::-1]) == furthest(given)


def test_a_position_that_was_passed_is_not_kept() -> None:
    offsets = JobOffsets([(at(100), 5), (at(50, inode=2), 5)])
    offsets.read(block(0, 100))
    assert [(to.inode, below) for to, below in offsets.read_up_to()] == [(2, 5)]
    offsets.keep({})
    assert offsets.read_up_to() == (), "the other file is gone"
