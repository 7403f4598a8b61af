"""The order and the pace in which open contributions go up again (D-15)."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.contribution import Contribution
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import BUCKETS
from elfmesh.control.member.contributions import (
    BURST_BYTES,
    BURST_INTERVALS,
    PACE_S,
    Contributions,
)
from elfmesh.control.member.trees import MemberTrees
from elfmesh.control.protocol.events import Revised, Sealed
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import Contribute

JOB = b"j" * 20
OTHER = b"o" * 20
COUNTS = (1, *(0,) * (len(BUCKETS) - 1))


def sealed(start: int, stop: int, size: int = 1) -> Sealed:
    """Every interval of the range has a record."""
    run = tuple(Contribution(index, COUNTS, b"p" * size) for index in range(start, stop))
    return Sealed(JOB, "x", start, stop, (run,))


class Bench:
    """One member's contributions on their own."""

    def __init__(self, *trees: bytes) -> None:
        me = Contact(b"m" * 20, "sim", 1)
        self.context = Context(me, "agent-1", random.Random(1), lambda topic: {})
        self.notified: list[tuple[int, int, bool]] = []
        self.up = Contributions(self.context, MemberTrees(self.context, [trees or (JOB,)]), self._sent)

    def _sent(self, event: Sealed, number: int, again: bool) -> None:
        self.notified.append((event.start, number, again))

    def reported(self) -> list[Contribute]:
        """What went up since the last time, without the declarations."""
        out, self.context.out = self.context.out, []
        found = [effect for effect in out if isinstance(effect, Contribute)]
        return [each for each in found if each.segment.start < each.segment.stop]

    def intervals(self) -> list[int]:
        return [entry.interval for each in self.reported() for entry in each.segment.entries]

    def wait(self, seconds: float) -> None:
        self.context.now += seconds
        self.context.fire()


def test_a_long_backlog_goes_up_oldest_first_in_bounded_bursts() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    for at in range(200):
        bench.up.add(sealed(at, at + 1))
    assert bench.intervals() == list(range(200)), "what is sealed goes up at once"
    bench.up.begin(3, 2, 0)
    reported = bench.intervals()
    assert reported == list(range(BURST_INTERVALS))
    assert bench.up.gone_up == BURST_INTERVALS
    while bench.up.waiting:
        bench.wait(PACE_S * 0.9)
        assert bench.intervals() == [], "not before its time"
        bench.wait(PACE_S * 0.1 + 1e-6)
        burst = bench.intervals()
        assert 0 < len(burst) <= BURST_INTERVALS
        reported += burst
    assert reported == list(range(200))
    assert bench.up.gone_up == 200


def test_all_trees_of_a_partition_get_the_same_segments_in_the_same_order() -> None:
    bench = Bench(JOB, OTHER)
    bench.up.begin(3, 1, 0)
    for at in range(2 * BURST_INTERVALS):
        bench.up.add(sealed(at, at + 1))
    bench.up.begin(3, 2, 0)
    while bench.up.waiting:
        bench.wait(PACE_S)
    up = bench.reported()
    segments = {tree: [each.segment for each in up if each.tree == tree] for tree in (JOB, OTHER)}
    assert segments[JOB] == segments[OTHER]
    assert len(segments[JOB]) == 4 * BURST_INTERVALS
    assert [each.number for each in bench.up.release(1)] == [3], "a range is released once"


@pytest.mark.parametrize("at_once", [True, False])
def test_what_was_closed_before_it_was_sealed_does_not_go_up_and_is_released(at_once: bool) -> None:
    """A member is stopped in interval 5; the next master, whose term begins with 12, closes without it."""
    bench = Bench()
    bench.up.begin(3, 1, 0)
    bench.up.add(sealed(0, 5))
    assert [each.event.stop for each in bench.up.release(12)] == [5]
    bench.reported()
    bench.up.begin(3, 2, 12)
    assert bench.up.undecided == 5, "the worker has still to say what it has of the closed intervals"
    for start, stop in [(5, 20)] if at_once else [(at, at + 1) for at in range(5, 20)]:
        bench.up.add(sealed(start, stop))
    assert bench.intervals() == list(range(12, 20))
    released = bench.up.release(12)
    entries = [entry.interval for each in released for entry in each.event.parts[0]]
    assert entries == list(range(5, 12))
    assert {each.number for each in released} == {3}
    assert bench.up.undecided == 12
    bench.up.add(sealed(5, 20))
    assert bench.up.release(12) == [], "a worker that is begun again says it again, and it is settled once"


def test_bytes_bound_a_burst_and_one_range_always_goes() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    for at in range(4):
        bench.up.add(sealed(at, at + 1, BURST_BYTES))
    bench.reported()
    bench.up.begin(3, 2, 0)
    assert bench.intervals() == [0]
    bench.wait(PACE_S)
    assert bench.intervals() == [1]


def test_the_backlog_shrinks_however_much_is_sealed_meanwhile() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    for at in range(100):
        bench.up.add(sealed(at, at + 1))
    assert bench.intervals() == list(range(100))
    bench.up.begin(3, 2, 0)
    reported = bench.intervals()
    top = 100
    for waiting in (100 - 2 * BURST_INTERVALS, 100 - 3 * BURST_INTERVALS, 0):
        for _ in range(2 * BURST_INTERVALS):
            bench.up.add(sealed(top, top + 1))
            top += 1
        assert bench.intervals() == [], "in order, so that inner agents can merge"
        assert bench.up.gone_up == len(reported), "the master must not believe that all is on its way"
        bench.wait(PACE_S)
        reported += bench.intervals()
        assert bench.up.waiting == waiting
    bench.up.add(sealed(top, top + 1))
    assert reported + bench.intervals() == list(range(top + 1))
    assert [again for _, _, again in bench.notified] == [False] * 100 + [True] * 100 + [False] * (top - 99)


def test_what_is_closed_meanwhile_does_not_go_up_again() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    for at in range(100):
        bench.up.add(sealed(at, at + 1))
    bench.up.begin(3, 2, 0)
    bench.reported()
    assert [kept.event.start for kept in bench.up.release(90)] == list(range(90))
    bench.wait(PACE_S)
    assert bench.intervals() == list(range(90, 100))


def test_under_a_new_number_the_older_part_stays_with_the_old_one() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    bench.up.add(sealed(0, 10))
    bench.up.begin(5, 2, 4)
    (again,) = bench.reported()[-1:]
    assert (again.segment.start, again.segment.stop, bits_of(again.segment.coverage)) == (4, 10, 1 << 5)
    assert [entry.interval for entry in again.segment.entries] == [4, 5, 6, 7, 8, 9]
    assert [(kept.event.stop, kept.number) for kept in bench.up.release(10)] == [(4, 3), (10, 5)]


def test_nothing_goes_up_before_there_is_a_number() -> None:
    with pytest.raises(RuntimeError):
        Bench().up.add(sealed(0, 1))


@given(st.lists(st.sampled_from(["seal", "term", "close", "wait"]), max_size=60), st.randoms())
@settings(max_examples=300, deadline=None)
def test_in_each_term_the_ranges_touch_and_each_goes_up_once(steps: list[str], rng: random.Random) -> None:
    bench = Bench()
    epoch = top = closed = first = 0
    bench.up.begin(0, 0, 0)
    reported: list[tuple[int, int, int]] = []
    settled: list[int] = []
    for step in [*steps, *["wait"] * 200]:
        if step == "seal":
            stop = top + rng.randint(1, 20)
            bench.up.add(sealed(top, stop, rng.choice([1, BURST_BYTES // 4])))
            top = stop
        elif step == "term":
            epoch, first, reported = epoch + 1, closed, []
            bench.context.out.clear()
            bench.up.begin(0, epoch, first)
        elif step == "close":
            closed = rng.randint(closed, top)
            for kept in bench.up.release(closed):
                settled += range(kept.event.start, kept.event.stop)
        else:
            bench.wait(PACE_S)
        for each in bench.reported():
            assert not reported or reported[-1][1] <= each.segment.start
            assert each.segment.epoch == epoch
            reported.append((each.segment.start, each.segment.stop, len(each.segment.entries)))
            assert reported[-1][2] == reported[-1][1] - reported[-1][0], "whole, and nothing beyond its range"
    gaps = [(a[1], b[0]) for a, b in pairwise(reported) if a[1] < b[0]]
    assert all(stop <= closed for _, stop in gaps), "what is left out is closed"
    covered = {index for start, stop, _ in reported for index in range(start, stop)}
    assert covered >= set(range(max(first, closed), top)), "all that is open, in the end"
    assert settled == list(range(len(settled))), "each is settled once, in order"
    assert bench.up.gone_up == max(top, first)


@given(st.integers(0, 12), st.integers(0, 12))
def test_ranges_are_cut_exactly(low: int, high: int) -> None:
    event = sealed(2, 9)
    cut = event.within(low, high)
    assert [each.interval for each in cut.parts[0]] == list(range(max(2, low), min(9, high)))
    assert (cut.start, cut.stop) == (max(2, low), max(2, low, min(9, high)))


def test_contributions_that_a_restart_repeats_are_paced_as_well() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    for at in range(100):
        bench.up.add(replace(sealed(at, at + 1), again=True))
    assert bench.intervals() == []
    reported = []
    for _ in range(20):
        bench.wait(PACE_S)
        burst = bench.intervals()
        assert len(burst) <= BURST_INTERVALS
        reported += burst
    assert reported == list(range(100))


def test_a_revision_goes_up_by_itself_and_again_with_everything() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 0)
    bench.up.add(sealed(0, 4))
    bench.reported()
    part = (Contribution(2, COUNTS, b"pp", 2),)
    assert bench.up.revise(Revised(JOB, "x", 2, 2, (part,), COUNTS, 1))
    (only,) = bench.reported()
    assert (only.segment.start, only.segment.stop, only.segment.entries[0].rev) == (2, 3, 2)
    bench.up.begin(3, 2, 0)
    assert [(each.segment.start, each.segment.stop) for each in bench.reported()] == [(0, 2), (2, 3), (3, 4)]
    assert not bench.up.revise(Revised(JOB, "x", 9, 2, (part,), COUNTS, 2))


def test_what_begins_behind_a_gap_waits_until_the_gap_is_closed_and_is_asked_for_once() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 5)
    assert bench.up.joined(sealed(6, 7)) is None, "interval 5 is open, and its content was not reported"
    assert bench.up.joined(sealed(7, 9)) is None
    assert not bench.up.can_catch_up()
    bench.up.release(5)
    assert not bench.up.can_catch_up()
    bench.up.release(6)
    assert [bench.up.can_catch_up(), bench.up.can_catch_up()] == [True, False]
    for again in (sealed(6, 7), sealed(7, 9)):
        joined = bench.up.joined(again)
        assert joined is not None
        bench.up.add(joined)
    assert bench.intervals() == [6, 7, 8]
    assert bench.up.frontier == 9


def test_contributions_that_come_after_all_need_not_be_asked_for() -> None:
    bench = Bench()
    bench.up.begin(3, 1, 5)
    assert bench.up.joined(sealed(6, 7)) is None, "of a worker that is being begun again"
    for event in (sealed(5, 6), sealed(6, 7)):
        assert bench.up.joined(event) == event
        bench.up.add(event)
    bench.up.release(7)
    assert not bench.up.can_catch_up()
