"""What a tree holds stays within its bytes; a new parent gets what went up before."""

from __future__ import annotations

from dataclasses import replace

from elfmesh.contribution import Contribution
from elfmesh.srt.held_parts import HeldParts
from elfmesh.srt.outflow import Outflow
from elfmesh.srt.parts import Part


def part(start: int, size: int = 100) -> Part:
    return Part(start, start + 1, 1, (Contribution(start, (1,), bytes(size)),))


class Above:
    """A parent that writes down what it gets."""

    def __init__(self) -> None:
        self.parts: list[tuple[Part, bool]] = []
        self.notified: list[int | None] = []

    def forward(self, part: Part, *, claims: bool) -> None:
        self.parts.append((part, claims))

    def announce(self, frontier: int | None) -> None:
        self.notified.append(frontier)

    def overlap(self, start: int, stop: int, attempt: int) -> None:
        raise AssertionError("the barrier says so")

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        raise AssertionError("the barrier says so")

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None:
        raise AssertionError("the barrier says so")


def test_what_went_up_goes_first_and_oldest_first() -> None:
    one = part(0).nbytes
    held = HeldParts(3 * one)
    held.own.add(part(0))
    held.pending.add(part(1))
    for start in (2, 3, 4):
        held.sent.add(part(start))
    assert held.shrink() == 2
    assert [each.start for each in held.sent] == [4]
    assert held.truncated
    assert held.nbytes == 3 * one
    held.pending.add(part(5))
    held.pending.add(part(6))
    assert held.shrink() == 1
    assert held.nbytes == 4 * one, "own and waiting parts have no original elsewhere"


def test_room_is_counted_without_what_may_be_dropped() -> None:
    held = HeldParts(2 * part(0).nbytes)
    held.own.add(part(0))
    held.sent.add(part(1))
    assert held.has_room(part(2))
    held.pending.add(part(2))
    assert not held.has_room(part(3))
    held.release(1)
    assert held.has_room(part(3))


def test_a_new_parent_gets_what_went_up_alone_and_is_notified_once() -> None:
    above = Above()
    up = Outflow(above, HeldParts(10_000))
    up.forward(part(0), claims=True)
    assert not above.parts, "without a parent nothing goes up"
    up.resume(None)
    up.forward(part(1), claims=True)
    up.forward(Part(2, 3, 0), claims=True)
    up.forward(Part(3, 4, 0))
    up.forward(Part(4, 4, 1), claims=True)
    first, second = (replace(part(0), alone=True), False), (part(1), True)
    assert above.parts == [first, second, (Part(2, 3, 0), True)]
    for frontier in (None, 5, 5, None):
        up.announce(frontier)
    up.claimed(7)
    up.announce(7)
    assert above.notified == [5, None]
    up.pause()
    above.parts.clear()
    up.resume(7)
    assert above.parts == [(replace(part(start), alone=True), False) for start in (0, 1)]
