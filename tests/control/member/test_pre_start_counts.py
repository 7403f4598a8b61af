"""Records of intervals below a member's first one count once, however often a worker says them."""

from __future__ import annotations

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import BUCKETS
from elfmesh.control.member.pre_start_counts import PreStartCounts
from elfmesh.control.protocol.events import Sealed


def sealed(start: int, stop: int, *, again: bool = False) -> Sealed:
    """One record in each interval, and one that is filtered."""
    counts = (1, 1, *(0 for _ in BUCKETS[2:]))
    part = tuple(Contribution(index, counts) for index in range(start, stop))
    return Sealed(b"j" * 20, "i", start, stop, (part,), again=again)


def records(number: int) -> tuple[int, ...]:
    return (number, number, *(0 for _ in BUCKETS[2:]))


def test_what_a_worker_says_again_counts_once() -> None:
    pre_start_counts = PreStartCounts()
    assert pre_start_counts.count(sealed(0, 30), 60) == records(30)
    assert pre_start_counts.count(sealed(0, 25, again=True), 60) == records(0)
    assert pre_start_counts.count(sealed(25, 50), 60) == records(20), "as much as was not said before"
    assert pre_start_counts.count(sealed(50, 70), 60) == records(10), "the others go up"


def test_what_went_up_under_another_number_is_settled_there() -> None:
    pre_start_counts = PreStartCounts()
    assert pre_start_counts.count(sealed(0, 10), 4) == records(4)
    assert pre_start_counts.count(sealed(0, 10, again=True), 20) == records(0)
    assert pre_start_counts.count(sealed(10, 30), 20) == records(10)


def test_what_another_version_makes_again_counts_unless_it_did_before() -> None:
    pre_start_counts = PreStartCounts()
    assert pre_start_counts.count(sealed(0, 10), 4) == records(4)
    pre_start_counts.rewind(2)
    assert pre_start_counts.count(sealed(2, 10), 8) == records(4), "those that went up, and do no longer"
    assert pre_start_counts.count(sealed(2, 10), 8) == records(0)
