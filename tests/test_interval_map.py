from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.closing.partial_store import PartialStore
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.context import Context
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.interval_map import END, IntervalMap, numbers
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Entry, Segment

spans = st.tuples(st.integers(-5, 25), st.integers(-5, 25), st.integers(0, 15)).map(
    lambda each: (min(each[:2]), max(each[:2]), each[2])
)


@given(st.lists(spans, max_size=20), st.integers(0, 10))
def test_a_cover_equals_a_dictionary(adds: list[tuple[int, int, int]], below: int) -> None:
    cover, model = IntervalMap(0), dict.fromkeys(range(30), 0)
    for start, stop, mask in adds:
        cover.add(start, stop, mask)
        for interval in range(max(start, 0), stop):
            model[interval] |= mask
    cover.drop_below(below)
    for interval in range(below, 30):
        assert cover.at(interval) == model[interval]
        stop = cover.until(interval)
        assert stop == END or model.get(stop, 0) != model[interval]
        for same in range(interval, min(stop, 30)):
            assert model[same] == model[interval]
    for number in range(4):
        first = next(interval for interval in range(below, 31) if not model.get(interval, 0) >> number & 1)
        assert cover.frontier(number, below) == first


def test_the_range_since_ever_is_one_piece() -> None:
    cover = IntervalMap(-(2**62))
    cover.add(-(2**62), 57, 0b11)
    assert (cover.at(-1), cover.until(-(2**60)), cover.at(57)) == (3, 57, 0)


@given(st.integers(0, 2**80))
def test_numbers_are_the_set_bits(mask: int) -> None:
    assert sum(1 << number for number in numbers(mask)) == mask


def segment(mask: int, *intervals: int, attempt: int = 0, stop: int = 10) -> Segment:
    return Segment(
        1, attempt, 0, stop, bitmap_of(mask), tuple(Entry(i, (1, 0, 0, 0, 0), 1) for i in intervals)
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


def test_who_is_only_in_a_collection_that_lacks_the_dead_is_not_waited_for() -> None:
    """0 is dead and in the first collection only; 2 came since, and is in the second one only."""
    tree = PartialStore(0)
    tree.add(segment(0b011, 4), (b"x",))
    tree.add(segment(0b110, 4, attempt=1), (b"y",))
    assert (tree.covered(4), tree.newest(4)) == (0b011, 0b110)
    context = Context(Contact(b"m" * 20, "sim", 1), "agent-1", random.Random(1), lambda topic: {})
    judge = StragglerPolicy(context, RosterBook(()), "skip", 5.0, lambda: None)
    assert judge.lost(0b111, 4, [tree]) == 0, "0 lives: the second collection may have it any moment"
    judge._dead[0] = 0.0
    assert judge.lost(0b111, 4, [tree]) == 0b001
    assert judge.lost(0b1111, 4, [tree]) == 0, "3 lives, and is in neither"
    tree.add(segment(0b001, 4, attempt=1), (b"y",))
    assert judge.lost(0b111, 4, [tree]) == 0, "nobody is lacking"


def test_what_is_closed_is_forgotten() -> None:
    tree = PartialStore(0)
    tree.add(segment(0b1, 2, 4), (b"x", b"x"))
    tree.drop_below(3)
    assert (tree.first(0, 10), tree.nbytes, masks(tree, 2)) == (4, 1, [])
