"""A member asks its master when what it has sealed stays open for too long."""

from __future__ import annotations

from itertools import pairwise

import pytest

from elfmesh.control.member.stall_watch import PATIENCE_S, WAITING_AGAIN_S, StallWatch
from tests.control.contexts import new_context
from tests.control.register.support import run

JITTER = 1.25
"""The longest that a pause becomes."""


class Rig:
    """A watch over a job with a deadline, and when it has asked."""

    def __init__(self, deadline_s: float = 4.0) -> None:
        self.context, self.deadline_s = new_context(1), deadline_s
        self.asked: list[float] = []
        self.watch = StallWatch(
            self.context, lambda: self.deadline_s, lambda: self.asked.append(self.context.now)
        )

    @property
    def patience_s(self) -> float:
        return self.deadline_s + PATIENCE_S

    def seal(self, stop: int) -> None:
        self.watch.sealed(stop)
        self.watch.begin()


def test_a_watch_asks_when_the_deadline_of_a_sealed_interval_is_well_over() -> None:
    rig = Rig()
    rig.seal(5)
    run(rig.context, rig.patience_s - 0.01)
    assert rig.asked == []
    run(rig.context, JITTER * rig.patience_s)
    assert len(rig.asked) == 1


@pytest.mark.parametrize("deadline_s", [0.1, 4.0])
def test_a_watch_asks_again_after_a_pause_while_the_interval_stays_open(deadline_s: float) -> None:
    rig = Rig(deadline_s)
    rig.seal(5)
    run(rig.context, 100.0)
    pause_s = max(WAITING_AGAIN_S, rig.patience_s)
    pauses = [later - earlier for earlier, later in pairwise(rig.asked)]
    assert len(pauses) > 10
    assert all(pause_s <= pause <= JITTER * pause_s for pause in pauses)


def test_a_watch_is_silent_once_everything_is_closed_and_begins_again_with_the_next_interval() -> None:
    rig = Rig()
    rig.seal(5)
    rig.watch.closed(5)
    run(rig.context, 100.0)
    assert (rig.asked, rig.context.deadline) == ([], None)
    rig.seal(6)
    run(rig.context, 100.0 + JITTER * rig.patience_s)
    assert len(rig.asked) == 1


def test_the_patience_is_that_of_the_oldest_interval_that_is_open() -> None:
    rig = Rig()
    rig.seal(5)
    rig.context.now = 3.0
    rig.seal(6)
    rig.watch.closed(5)
    run(rig.context, 3.0 + rig.patience_s - 0.01)
    assert rig.asked == [], "the timer of the closed one begins the time of the other again"
    run(rig.context, 3.0 + 2 * JITTER * rig.patience_s)
    assert len(rig.asked) >= 1


def test_an_interval_that_is_closed_in_part_is_still_watched() -> None:
    rig = Rig()
    rig.seal(5)
    rig.watch.closed(4)
    run(rig.context, JITTER * rig.patience_s)
    assert len(rig.asked) == 1


def test_one_watch_asks_once_however_much_is_sealed() -> None:
    rig = Rig()
    for stop in range(5, 50):
        rig.seal(stop)
    run(rig.context, JITTER * rig.patience_s)
    assert len(rig.asked) == 1


def test_a_watch_takes_the_deadline_that_the_job_has_now() -> None:
    rig = Rig()
    rig.seal(5)
    rig.deadline_s = 20.0
    run(rig.context, rig.patience_s - 0.01)
    assert rig.asked == []


def test_a_stopped_watch_asks_nothing() -> None:
    rig = Rig()
    rig.seal(5)
    rig.watch.stop()
    rig.watch.begin()
    run(rig.context, 100.0)
    assert (rig.asked, rig.context.deadline) == ([], None)
