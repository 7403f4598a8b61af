"""The way up from one barrier: nothing goes up without a parent, and a new parent gets all that is held."""

from __future__ import annotations

from dataclasses import replace

from elfmesh.srt.held_parts import HeldParts
from elfmesh.srt.outflow import Outflow
from elfmesh.srt.parts import Part


class Parent:
    """What a parent gets, in order."""

    def __init__(self) -> None:
        self.got: list[object] = []

    def announce(self, frontier: int | None) -> None:
        self.got.append(frontier)

    def forward(self, part: Part, *, claims: bool) -> None:
        self.got.append((part, claims))

    def overlap(self, start: int, stop: int, attempt: int) -> None:
        self.got.append(("overlap", start, stop, attempt))

    def lagging(self, start: int, stop: int, attempt: int) -> None:
        self.got.append(("lagging", start, stop, attempt))

    def fault(self, start: int, stop: int, coverage: int, error: str) -> None:
        self.got.append(("fault", start, stop, coverage, error))


def outflow() -> tuple[Outflow, Parent, HeldParts]:
    parent, held = Parent(), HeldParts(1 << 20)
    return Outflow(parent, held), parent, held


ONE, TWO = Part(0, 3, 0b1), Part(3, 5, 0b10)


def test_without_a_parent_parts_are_held_and_nothing_goes_up() -> None:
    flow, parent, held = outflow()
    flow.forward(ONE)
    assert parent.got == []
    assert list(held.sent) == [ONE]


def test_a_new_parent_gets_what_is_held_each_part_alone() -> None:
    flow, parent, held = outflow()
    flow.forward(ONE)
    flow.forward(TWO)
    held.release(3)
    flow.resume(None)
    assert flow.open
    assert parent.got == [(replace(TWO, alone=True), False)]


def test_a_part_without_a_member_goes_up_only_as_a_claim_and_is_not_held() -> None:
    flow, parent, held = outflow()
    flow.resume(None)
    nobody = Part(5, 9, 0)
    flow.forward(nobody)
    assert parent.got == []
    flow.forward(nobody, claims=True)
    assert parent.got == [(nobody, True)]
    assert len(held.sent) == 0


def test_an_empty_range_is_nothing() -> None:
    flow, parent, held = outflow()
    flow.resume(None)
    flow.forward(Part(5, 5, 0b1), claims=True)
    assert (parent.got, len(held.sent)) == ([], 0)


def test_a_frontier_is_announced_when_the_parent_does_not_know_it() -> None:
    flow, parent, _ = outflow()
    flow.resume(4)
    flow.announce(4)
    flow.announce(7)
    flow.announce(7)
    flow.claimed(9)
    flow.announce(9)
    assert parent.got == [7]
    flow.forget()
    flow.announce(9)
    assert parent.got == [7, 9], "of another epoch the parent knows nothing"


def test_a_parent_that_is_gone_gets_nothing_until_there_is_another() -> None:
    flow, parent, _ = outflow()
    flow.resume(None)
    flow.pause()
    flow.forward(ONE)
    assert parent.got == []
    flow.resume(None)
    assert parent.got == [(replace(ONE, alone=True), False)]
