"""What the root of one tree collects: repetitions, overlaps, attempts and revisions, without a machine."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.revisions import uneven
from elfmesh.control.closing.stores.partial_store import PartialStore
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry


def segment(mask: int, *intervals: int, attempt: int = 0, stop: int = 10) -> Segment:
    return Segment(
        1, attempt, 0, stop, bitmap_of(mask), tuple(SegmentEntry(i, (1, 0, 0, 0, 0), 1) for i in intervals)
    )


def masks(tree: PartialStore, interval: int) -> list[int]:
    return sorted(part.mask for part in tree.parts(interval))


def test_a_repeated_part_counts_once() -> None:
    tree = PartialStore(0)
    for _ in range(3):
        assert tree.add(segment(0b011, 4), (b"x",)) == []
    tree.add(segment(0b001, 4), (b"x",))
    assert masks(tree, 4) == [0b011]
    assert tree.nbytes == 1


def test_a_part_that_contains_others_replaces_them() -> None:
    tree = PartialStore(0)
    tree.add(segment(0b001, 4), (b"x",))
    tree.add(segment(0b100, 4), (b"x",))
    assert tree.add(segment(0b011, 4), (b"y",)) == []
    assert masks(tree, 4) == [0b011, 0b100]
    assert tree.covered(4) == 0b111


def test_a_true_overlap_is_reported_and_not_counted() -> None:
    tree = PartialStore(0)
    tree.add(segment(0b011, 4, 5), (b"x", b"x"))
    assert tree.add(segment(0b110, 4), (b"x",)) == [4]
    assert masks(tree, 4) == [0b011]
    assert tree.covered(4) == 0b011
    assert tree.covered(5) == 0b111


def test_a_later_attempt_replaces_the_earlier_when_it_covers_as_much() -> None:
    tree = PartialStore(0)
    tree.add(segment(0b011, 4), (b"x",))
    tree.add(segment(0b001, 4, attempt=1), (b"y",))
    assert masks(tree, 4) == [0b011]
    tree.add(segment(0b110, 4, attempt=1), (b"y",))
    assert masks(tree, 4) == [0b001, 0b110]
    assert tree.covered(4) == 0b111


def test_what_is_closed_is_forgotten() -> None:
    tree = PartialStore(0)
    tree.add(segment(0b1, 2, 4), (b"x", b"x"))
    tree.drop_below(3)
    assert (tree.first(0, 10), tree.nbytes, masks(tree, 2)) == (4, 1, [])


def part(mask: int, text: str, rev: int = 1, attempt: int = 0) -> tuple[Segment, tuple[bytes, ...]]:
    entry = SegmentEntry(5, (len(text),), len(text), rev)
    return Segment(1, attempt, 5, 6, bitmap_of(mask), (entry,)), (text.encode(),)


def collected(*parts: tuple[Segment, tuple[bytes, ...]]) -> tuple[PartialStore, list[list[int]]]:
    tree = PartialStore(0)
    return tree, [tree.add(*each) for each in parts]


def test_a_revision_replaces_what_stands_alone_and_nothing_older_comes_back() -> None:
    tree, conflicts = collected(part(1, "a"), part(2, "b"), part(1, "aa", 2), part(1, "a"), part(1, "aaa", 3))
    assert conflicts == [[]] * 5
    tree.add(*part(1, "aa", 2))
    assert sorted(each.payload for each in tree.parts(5)) == [b"aaa", b"b"]
    assert tree.revs(5) == {1: 3}
    assert tree.nbytes == 4


@pytest.mark.parametrize("first", [True, False])
def test_a_revision_and_a_merge_of_an_older_one_are_never_both_inside(first: bool) -> None:
    parts = [part(3, "ab"), part(1, "aa", 2)]
    tree, conflicts = collected(*(parts if first else parts[::-1]))
    assert conflicts == [[], [5]]
    assert tree.is_revised(5)
    assert tree.lacks_revision(5) is first
    tree.add(*part(1, "aa", 2, attempt=1))
    assert tree.lacks_revision(5) is first, "not before all have answered"
    tree.add(*part(2, "b", attempt=1))
    assert tree.revs(5) == {1: 2}
    assert sorted(each.payload for each in tree.parts(5)) == [b"aa", b"b"]


def test_a_collection_with_an_older_revision_does_not_win() -> None:
    tree, _ = collected(part(1, "aa", 2), part(2, "b"), part(1, "a", attempt=1), part(2, "b", attempt=1))
    assert tree.revs(5) == {1: 2}


def test_a_member_that_is_torn_is_taken_out_where_it_stands_alone() -> None:
    whole, _ = collected(part(3, "ab"))
    other, _ = collected(part(1, "a"))
    assert uneven([whole, other], 5) == 2
    assert whole.parts_without(5, 2) is None
    whole.add(*part(1, "a", attempt=1))
    kept = whole.parts_without(5, 2)
    assert kept is not None
    assert [each.payload for each in kept] == [b"a"]


def test_revisions_that_differ_between_trees_are_uneven() -> None:
    left, _ = collected(part(1, "a"), part(2, "b"))
    right, _ = collected(part(1, "aa", 2), part(2, "b"))
    assert uneven([left, right], 5) == 1
    left.add(*part(1, "aa", 2))
    assert uneven([left, right], 5) == 0
