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
from elfmesh.overlay.skew import CLOCKS_MAX, KEPT_S, US, Skew

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
        skew.answering(bytes([number]), -ahead_us, 1.0)
    assert skew.seconds == pytest.approx(-10 / US)


@pytest.mark.parametrize("wrong_s", [3600, -3600])
def test_a_right_clock_beside_a_right_and_a_wrong_one_is_right(wrong_s: int) -> None:
    skew = Skew(lambda: EPOCH_US)
    for number, ahead_us in enumerate((10, wrong_s * US)):
        skew.answering(bytes([number]), -ahead_us, 1.0)
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
    skew.answering(b"p", 5, 3.0)
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


def test_a_beat_of_a_peer_that_is_not_watched_leaves_the_skew_unknown() -> None:
    overlay = Overlay(Contact(b"\x10" * 20, "m", 1), rng=random.Random(1), clock_us=lambda: EPOCH_US)
    overlay.step(Start(), 0.0)
    effects = overlay.step(Received(PEER, Beat(5, b"", (), 1 << 62)), 1.0)
    assert Send(PEER, BeatBack(5, b"", (), EPOCH_US)) in effects
    assert overlay.skew_s is None


def known(*ahead_us: int) -> Skew:
    """Peers whose clocks are so far ahead of ours, seen at the time 1."""
    skew = Skew(lambda: EPOCH_US)
    for number, each in enumerate(ahead_us):
        skew.asked(bytes([number]), 1.0)
        skew.answered(bytes([number]), EPOCH_US + each, 1.0)
    return skew


def test_the_peers_clocks_go_on_with_the_monotonic_clock() -> None:
    assert Skew(lambda: EPOCH_US).peers_us(1.0) is None
    assert known(-5 * US, 0, 3600 * US).peers_us(11.0) == EPOCH_US + 10 * US


def test_one_of_two_peers_that_is_behind_holds_back_nothing_and_a_single_peer_counts() -> None:
    assert known(-3600 * US, 0).peers_us(1.0) == EPOCH_US
    assert known(-3600 * US).peers_us(1.0) == EPOCH_US - 3600 * US


@pytest.mark.parametrize("watches", [True, False], ids=["watching", "watched"])
def test_what_the_peers_clocks_show_does_not_depend_on_setting_our_own(watches: bool) -> None:
    now, clock = 1.0, [EPOCH_US]
    skew = Skew(lambda: clock[0])

    def beat() -> None:
        if watches:
            skew.asked(b"p", now)
            skew.answered(b"p", EPOCH_US + round((now - 1.0) * US), now)
        else:
            skew.answering(b"p", shown_us - (EPOCH_US + round((now - 2.0) * US)), now)

    shown_us = clock[0]
    skew.answering(b"p", None, now)
    now, clock[0] = 2.0, EPOCH_US + 3600 * US  # the peer speaks of the answer before the clock was set
    beat()
    assert skew.peers_us(now) == EPOCH_US + US
    shown_us, now, clock[0] = clock[0], 3.0, clock[0] + US
    beat()
    assert skew.peers_us(now) == EPOCH_US + 2 * US


def test_clocks_of_peers_are_remembered_for_a_while_when_they_are_gone_and_are_bounded() -> None:
    skew = known(0, 0, 0)
    for number in range(3):
        skew.forget(bytes([number]))
    assert skew.seconds is None
    assert skew.peers_us(KEPT_S) == EPOCH_US + round((KEPT_S - 1) * US)
    assert skew.peers_us(KEPT_S + 2) is None
    skew.asked(b"new", KEPT_S + 2)
    skew.answered(b"new", EPOCH_US, KEPT_S + 2)
    assert skew.peers_us(KEPT_S + 2) == EPOCH_US, "those of before count no more"
    many = known(*range(200))
    assert many.peers_us(1.0) == EPOCH_US + 200 - CLOCKS_MAX // 2
