from __future__ import annotations

from functools import partial

from elfmesh.machine import Contact, Message
from elfmesh.overlay.calls import TIMEOUT_MAX_S, TIMEOUT_MIN_S, Calls, LoopDelay, Timers, learn_round_trip
from elfmesh.overlay.messages import Found, Pong
from elfmesh.overlay.table import Peer

PEER = Contact(b"p" * 20, "p", 1)


class Asker:
    def __init__(self) -> None:
        self.timers = Timers()
        self.lateness = LoopDelay()
        self.calls = Calls(self.timers, self.lateness, 100)
        self.answers: list[Message | None] = []

    def ask(self, timeout: float) -> int:
        rid = self.calls.next_rid()
        self.calls.wait(rid, PEER, Pong, lambda answer, sender: self.answers.append(answer), timeout)
        return rid

    def tick(self, now: float) -> None:
        self.calls.now = now
        self.timers.fire(now)


def test_timers_fire_in_order_and_a_timer_set_again_replaces_the_former() -> None:
    timers, fired = Timers(), list[str]()
    for name, when in (("b", 2.0), ("a", 1.0), ("c", 3.0), ("gone", 0.5)):
        timers.set(name, when, partial(fired.append, name))
    timers.set("b", 4.0, lambda: fired.append("b again"))
    timers.cancel("gone")
    assert timers.deadline == 1.0
    timers.fire(3.5)
    assert fired == ["a", "c"]
    assert timers.deadline == 4.0
    timers.fire(4.0)
    assert fired == ["a", "c", "b again"]
    assert timers.deadline is None


def test_a_timer_set_while_firing_waits_for_the_next_tick() -> None:
    timers, fired = Timers(), list[int]()

    def again() -> None:
        fired.append(1)
        timers.set("loop", 0.0, again)

    timers.set("loop", 0.0, again)
    timers.fire(1.0)
    assert fired == [1]


def test_a_request_ends_once_by_its_answer_or_by_its_time_out() -> None:
    asker = Asker()
    rid = asker.ask(0.5)
    asker.calls.now = 0.2
    match = asker.calls.match(rid, PEER, Pong(rid))
    assert match is not None
    assert match[0] == 0.2
    assert asker.calls.match(rid, PEER, Pong(rid)) is None
    asker.tick(1.0)
    assert asker.answers == []  # `match` hands the answer over; no time-out follows
    asker.ask(0.5)
    asker.tick(1.6)
    assert asker.answers == [None]
    assert len(asker.calls) == 0


def test_an_answer_counts_only_from_the_one_asked_and_of_the_right_type() -> None:
    asker = Asker()
    rid = asker.ask(0.5)
    assert asker.calls.match(rid, Contact(b"x" * 20, "p", 1), Pong(rid)) is None
    assert asker.calls.match(rid, PEER, Found(rid, ())) is None
    assert asker.calls.match(rid, PEER, Pong(rid)) is not None


def test_a_late_loop_puts_time_outs_off_but_not_for_ever() -> None:
    asker = Asker()
    asker.ask(0.5)
    asker.lateness.observe(3.0, 3.5)
    asker.tick(3.5)
    assert asker.answers == []
    due = asker.timers.deadline
    assert due is not None
    assert due <= 3.5 + 2.0 + 0.5
    asker.tick(due)
    assert asker.answers == [None]


def test_time_outs_follow_the_round_trip_within_bounds() -> None:
    asker, peer = Asker(), Peer(PEER)
    first = asker.calls.timeout(peer)
    for _ in range(50):
        learn_round_trip(peer, 0.001)
    assert asker.calls.timeout(peer) == TIMEOUT_MIN_S < first
    for _ in range(50):
        learn_round_trip(peer, 0.4)
    assert 0.4 < asker.calls.timeout(peer) < 0.6
    for _ in range(50):
        learn_round_trip(peer, 9.0)
    assert asker.calls.timeout(peer) == TIMEOUT_MAX_S
    for _ in range(50):
        asker.lateness.observe(0.05, 1.0)
    assert asker.calls.timeout(peer) > TIMEOUT_MAX_S + 0.08
