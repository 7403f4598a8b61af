from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.interval_map import END, CoverMap, IntervalMap, numbers

spans = st.tuples(st.integers(-5, 25), st.integers(-5, 25), st.integers(0, 15)).map(
    lambda each: (min(each[:2]), max(each[:2]), each[2])
)


@given(st.lists(spans, max_size=20), st.integers(0, 10))
def test_a_cover_equals_a_dictionary(adds: list[tuple[int, int, int]], below: int) -> None:
    cover, model = CoverMap(0), dict.fromkeys(range(30), 0)
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


@given(st.lists(spans, max_size=20), st.integers(0, 10), spans)
def test_a_map_equals_a_dictionary(
    puts: list[tuple[int, int, int]], below: int, asked: tuple[int, int, int]
) -> None:
    found, model = IntervalMap(0, ""), dict.fromkeys(range(30), "")
    for start, stop, value in puts:
        if value % 2:
            found.put(start, stop, str(value))
        else:
            found.change(start, stop, str(value).__add__)
        for interval in range(max(start, 0), stop):
            model[interval] = str(value) if value % 2 else str(value) + model[interval]
    found.drop_below(below)
    assert {interval: found.at(interval) for interval in range(below, 30)} == {
        interval: value for interval, value in model.items() if interval >= below
    }
    pieces = list(found.pieces(*asked[:2]))
    low, high = max(asked[0], below), asked[1]
    assert [each for piece in pieces for each in range(piece[0], piece[1])] == list(range(low, high))
    assert all(model[each] == value for start, stop, value in pieces for each in range(start, stop))
    assert all(left[2] != right[2] for left, right in pairwise(pieces)), "neighbours differ"


def test_the_range_since_ever_is_one_piece() -> None:
    cover = CoverMap(-(2**62))
    cover.add(-(2**62), 57, 0b11)
    assert (cover.at(-1), cover.until(-(2**60)), cover.at(57)) == (3, 57, 0)


@given(st.integers(0, 2**80))
def test_numbers_are_the_set_bits(mask: int) -> None:
    assert sum(1 << number for number in numbers(mask)) == mask
