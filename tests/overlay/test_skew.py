from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.machine import Contact, Event, Received, Send, Tick
from elfmesh.overlay import Overlay
from elfmesh.overlay.events import Start, Unwatch, Watch
from elfmesh.overlay.messages import Beat, BeatBack
from elfmesh.overlay.skew import US, Skew

PEER = Contact(b"\x20" * 20, "p", 2)
EPOCH_US = 1_700_000_000 * US


@given(st.floats(-1e6, 1e6), st.floats(0, 5), st.floats(0, 1))
def test_an_estimate_is_off_by_half_of_the_round_trip_at_most(
    ahead_s: float, round_trip_s: float, share: float
) -> None:
    clock = [EPOCH_US]
    skew = Skew(lambda: clock[0])
    skew.asked(b"p", 100.0)
    theirs = clock[0] + round((ahead_s + share * round_trip_s) * US)
    clock[0] += round(round_trip_s * US)
    skew.answered(b"p", theirs, 100.0 + round_trip_s)
    assert skew.seconds == pytest.approx(-ahead_s, abs=round_trip_s / 2 + 1e-5)


def test_one_wrong_clock_among_the_peers_does_not_make_ours_wrong() -> None:
    skew = Skew(lambda: EPOCH_US)
    for number, ahead_us in enumerate((10, -10, 0, 3600 * US, 20)):
        skew.told(bytes([number]), -ahead_us)
    assert skew.seconds == pytest.approx(-10 / US)


def test_nothing_is_claimed_where_nothing_is_known() -> None:
    skew = Skew(lambda: EPOCH_US)
    assert skew.seconds is None
    skew.answered(b"p", EPOCH_US, 1.0)
    skew.asked(b"p", 1.0)
    skew.answered(b"p", 0, 2.0)
    assert skew.seconds is None
    without = Skew(lambda: 0)
    without.asked(b"p", 1.0)
    without.answered(b"p", EPOCH_US, 1.0)
    assert without.seconds is None
    skew.told(b"p", 5)
    skew.forget(b"p")
    assert skew.seconds is None


def test_both_ends_of_a_pair_learn_it_from_heartbeats_and_forget_it_with_the_watch() -> None:
    now = 0.0
    offsets = {b"\x10" * 20: 7 * US, b"\x20" * 20: 0}
    me = Contact(b"\x10" * 20, "m", 1)

    def clock_us(id: bytes) -> int:
        return EPOCH_US + round(now * US) + offsets[id]

    agents = {
        contact.id: Overlay(contact, rng=random.Random(contact.port), clock_us=partial(clock_us, contact.id))
        for contact in (me, PEER)
    }
    contacts = {contact.id: contact for contact in (me, PEER)}
    queue: list[tuple[bytes, Event]] = [
        (me.id, Start()),
        (PEER.id, Start()),
        (me.id, Watch(PEER)),
        (PEER.id, Watch(me)),
    ]
    for _ in range(400):
        while queue:
            target, event = queue.pop(0)
            queue += [
                (effect.to.id, Received(contacts[target], effect.message, b""))
                for effect in agents[target].step(event, now)
                if isinstance(effect, Send)
            ]
        now += 0.05
        queue += [(id, Tick()) for id in agents]
    assert agents[me.id].skew_s == pytest.approx(7.0, abs=0.06)
    assert agents[PEER.id].skew_s == pytest.approx(-7.0, abs=0.06)
    agents[me.id].step(Unwatch(PEER.id), now)
    assert agents[me.id].skew_s is None


def test_who_is_not_watched_tells_us_nothing() -> None:
    overlay = Overlay(Contact(b"\x10" * 20, "m", 1), rng=random.Random(1), clock_us=lambda: EPOCH_US)
    overlay.step(Start(), 0.0)
    effects = overlay.step(Received(PEER, Beat(5, b"", (), 1 << 62)), 1.0)
    assert Send(PEER, BeatBack(5, b"", (), EPOCH_US)) in effects
    assert overlay.skew_s is None
