"""Gates: how far every contributor has come, whatever the order of its claims."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elfmesh.srt.gates import Gate, Gates
from elfmesh.srt.messages import FIRST

RANGES = st.tuples(st.integers(0, 12), st.integers(0, 12)).map(sorted)


@given(st.lists(RANGES), st.integers(0, 5), st.randoms())
def test_a_gate_stands_before_the_first_hole_whatever_the_order(
    claims: list[list[int]], frontier: int, rng: object
) -> None:
    claimed = {n for start, stop in claims for n in range(start, stop)}
    expected = frontier
    while expected in claimed:
        expected += 1
    early, late = Gate(frontier), Gate()
    for start, stop in claims:
        early.claim(start, stop)
        late.claim(start, stop)
    late.set(frontier)
    assert early.frontier == late.frontier == expected


def test_a_gate_without_frontier_is_not_waited_for() -> None:
    gate = Gate()
    gate.claim(0, 3)
    assert gate.frontier is None
    gate.set(0)
    assert gate.frontier == 3


def test_the_slowest_contributor_is_waited_for() -> None:
    gates = Gates()
    assert gates.frontier(FIRST) is None, "no child contributes"
    assert gates.begin(3)
    assert not gates.begin(9), "it has begun"
    gates.enter(b"child")
    assert gates.frontier(FIRST) == 3, "who has not said where it stands is not waited for"
    gates.place(b"child", 1)
    gates.reach(7)
    assert gates.frontier(FIRST) == 1
    gates.claim(b"child", 1, 5)
    gates.claim(b"stranger", 0, 9)
    assert gates.frontier(FIRST) == 5
    gates.leave(b"child")
    assert gates.frontier(FIRST) == 7
    gates.retire()
    assert gates.frontier(FIRST) is None


def test_no_contributor_is_waited_for_below_what_is_closed_or_hastened() -> None:
    gates = Gates()
    gates.begin(0)
    assert gates.frontier(4) == 4
    assert gates.hasten(6)
    assert not gates.hasten(5)
    assert gates.frontier(4) == 6


def test_a_child_is_only_ever_corrected_forwards() -> None:
    gates = Gates()
    gates.enter(b"child")
    assert not gates.correct(b"child", 2), "no interval waits for it"
    gates.place(b"child", 2)
    assert not gates.correct(b"child", 2)
    assert gates.correct(b"child", 3)
    assert gates.frontier(FIRST) == 3


def test_another_epoch_knows_the_children_and_nothing_of_where_they_stand() -> None:
    gates = Gates()
    gates.begin(0)
    gates.hasten(5)
    gates.enter(b"child")
    gates.place(b"child", 8)
    gates.renew()
    assert gates.frontier(FIRST) is None
    gates.place(b"child", 2)
    assert gates.frontier(FIRST) == 2
