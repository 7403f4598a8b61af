from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import ProtocolError
from elfmesh.srt.messages import FIRST, Segment, SegmentEntry
from elfmesh.srt.parts import Part, Shelf, add_counts, unpack
from tests.srt.rig import items, part


def test_cutting_keeps_the_entries_inside() -> None:
    whole = part(FIRST, 9, 1, _2="a", _5="b")
    assert whole.cut(3, 6) == part(3, 6, 1, _5="b")
    assert whole.cut(FIRST, 9) is whole


def test_a_split_part_claims_its_range_piece_by_piece() -> None:
    whole = part(FIRST, 9, 1, _2="aa", _5="bb", _6="c")
    assert list(whole.split(256, 3)) == [part(FIRST, 5, 1, _2="aa"), part(5, 9, 1, _5="bb", _6="c")]
    assert list(whole.split(1, 99)) == [
        part(FIRST, 5, 1, _2="aa"),
        part(5, 6, 1, _5="bb"),
        part(6, 9, 1, _6="c"),
    ]


@given(st.lists(st.binary(max_size=9), max_size=9), st.integers(1, 4), st.integers(9, 30))
def test_split_pieces_join_up_and_keep_the_limits(payloads: list[bytes], entries: int, limit: int) -> None:
    whole = Part(FIRST, 40, 1, tuple(items(_0="")[0].__class__(n, (1,), p) for n, p in enumerate(payloads)))
    pieces = list(whole.split(entries, limit))
    assert [p.start for p in pieces] == [FIRST, *(p.stop for p in pieces[:-1])]
    assert pieces[-1].stop == 40
    assert tuple(item for p in pieces for item in p.items) == whole.items
    assert all(len(p.items) <= entries and sum(len(i.payload) for i in p.items) <= limit for p in pieces)


def test_a_segment_and_its_payload_come_back_as_the_part() -> None:
    sent = part(3, 9, 1, 4, source=7, _4="ab", _7="c")
    segment = sent.segment(epoch=2)
    assert segment == Segment(2, 0, 3, 9, b"\x12", (SegmentEntry(4, (1,), 2), SegmentEntry(7, (1,), 1)))
    assert unpack(segment, b"abc", b"\x07", alone=False) == sent


@pytest.mark.parametrize(
    ("segment", "payload"),
    [
        (Segment(0, 0, 5, 4, b"\x01"), b""),
        (Segment(0, 0, FIRST - 1, 4, b"\x01"), b""),
        (Segment(0, -1, 0, 4, b"\x01"), b""),
        (Segment(-1, 0, 0, 4, b"\x01"), b""),
        (Segment(0, 0, 0, 4, b"\x01", (SegmentEntry(4, (1,)),)), b""),
        (Segment(0, 0, 0, 4, b"\x01", (SegmentEntry(2, (1,)), SegmentEntry(2, (1,)))), b""),
        (Segment(0, 0, 0, 4, b"\x01", (SegmentEntry(2, (1,), 3),)), b"ab"),
        (Segment(0, 0, 0, 4, b"\x01", (SegmentEntry(2, (1,), -2),)), b""),
        (Segment(0, 0, 0, 4, b"", (SegmentEntry(2, (1,), 2),)), b"ab"),
    ],
)
def test_a_malformed_segment_is_the_peers_fault(segment: Segment, payload: bytes) -> None:
    with pytest.raises(ProtocolError):
        unpack(segment, payload, b"", alone=False)


def test_counts_of_different_length_add_up() -> None:
    assert add_counts((1, 2), (3,)) == (4, 2)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3))),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_taking_from_a_shelf_partitions_what_it_holds(
    held: list[tuple[int, int, int]], start: int, stop: int
) -> None:
    shelf = Shelf()
    for low, length, source in held:
        shelf.add(part(low, low + length + 1, source, source=source, _0="x"))
    before = {(n, p.source) for p in shelf for n in range(p.start, p.stop)}
    taken = shelf.take(start, stop)
    inside = {(n, p.source) for p in taken for n in range(p.start, p.stop)}
    outside = {(n, p.source) for p in shelf for n in range(p.start, p.stop)}
    assert inside == {(n, source) for n, source in before if start <= n < stop}
    assert outside == before - inside
    assert shelf.nbytes == sum(p.nbytes for p in shelf)
    assert {p.source for p in shelf.take_from(b"\x01")} <= {b"\x01"}
    assert all(p.source != b"\x01" for p in shelf)
