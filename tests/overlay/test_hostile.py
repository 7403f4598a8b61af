"""A peer may say anything the codec lets through; nothing of it may raise out of `step`."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.machine import Contact, Effect, Received, Send, Tick
from elfmesh.overlay import (
    Joined,
    Lookup,
    Overlay,
    PeerUp,
    Probe,
    Route,
    RouteDelivered,
    Start,
    Watch,
)
from elfmesh.overlay.messages import (
    BeatBack,
    Find,
    Found,
    Hop,
    HopTaken,
    Ping,
    Pong,
    Relayed,
    Rows,
)
from tests.overlay.arbitrary import FRIEND, ME, contacts, messages, numbers


def busy() -> tuple[Overlay, list[Effect]]:
    """A machine with a request of every kind in flight."""
    overlay = Overlay(ME, rng=random.Random(1))
    effects = overlay.step(Start((("f", 2),)), 0.0)
    effects += overlay.step(Received(FRIEND, Ping(1)), 0.1)
    effects += overlay.step(Watch(FRIEND), 0.1)
    effects += overlay.step(Lookup(b"\x20" * 20, 1), 0.2)
    effects += overlay.step(Route(b"\x21" * 20, b"b", b"p"), 0.2)
    effects += overlay.step(Probe(Contact(b"\x77" * 20, "q", 7), 1), 0.2)
    return overlay, effects


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_message_of_any_content_in_any_order_raises_out_of_step(data: st.DataObject) -> None:
    overlay, effects = busy()
    asked = [e.message.rid for e in effects if isinstance(e, Send) and hasattr(e.message, "rid")]
    now = 0.3
    for _ in range(data.draw(st.integers(1, 15))):
        sender = data.draw(st.one_of(st.just(FRIEND), contacts))
        message = data.draw(messages(st.one_of(st.sampled_from(asked), numbers)))
        effects = overlay.step(Received(sender, message, b"p"), now)
        now += data.draw(st.sampled_from([0.0, 0.01, 0.4, 3.0]))
        effects += overlay.step(Tick(), now)
        asked += [e.message.rid for e in effects if isinstance(e, Send) and hasattr(e.message, "rid")]
        for effect in effects:
            if isinstance(effect, Send):
                assert effect.to.port in range(1, 65536)
                assert effect.to.id != ME.id or sender.id == ME.id
    for key in (b"\x20" * 20, ME.id):
        assert overlay.contact(ME.id) is None
        for contact in overlay.closest(key, 1000):
            assert len(contact.id) == 20
    overlay.stats()


def test_lies_about_contacts_are_stopped_before_any_agent_is_pinged() -> None:
    overlay, effects = busy()
    (find,) = [
        e for e in effects if isinstance(e, Send) and isinstance(e.message, Find) and e.message.k == 8
    ][:1]
    assert isinstance(find.message, Find)
    lies = (
        Contact(ME.id, "h", 1),
        Contact(b"\x21" * 19, "h", 1),
        Contact(b"\x21" * 20, "h", 0),
        Contact(b"\x22" * 20, "h", 65536),
        Contact(b"\x23" * 20, "", 1),
        Contact(b"\x24" * 20, "x" * 300, 1),
        Contact(b"\x25" * 20, "h", 1, -1),
    )
    effects = overlay.step(Received(FRIEND, Found(find.message.rid, lies)), 0.3)
    assert {e.to for e in effects if isinstance(e, Send)} <= {FRIEND}


def test_a_huge_list_of_contacts_costs_a_bounded_number_of_pings_and_memory() -> None:
    overlay, effects = busy()
    many = tuple(Contact(random.Random(n).randbytes(20), "h", 1) for n in range(5000))
    sent = 0
    pending = effects
    now = 0.3
    for _ in range(60):
        answers = [
            Received(FRIEND, Found(e.message.rid, many))
            for e in pending
            if isinstance(e, Send) and e.to.id == FRIEND.id and isinstance(e.message, Find | Rows)
        ]
        pending = [e for answer in answers for e in overlay.step(answer, now)]
        now += 0.2
        pending += overlay.step(Tick(), now)
        sent += sum(isinstance(e, Send) for e in pending)
    assert sent < 3000
    assert int(overlay.stats()["contacts"]) <= 2


@pytest.mark.parametrize(
    "sender", [Contact(b"x", "h", 1), Contact(b"\x01" * 20, "h", 0), Contact(b"", "", 0)]
)
def test_a_sender_that_cannot_be_one_is_counted_and_ignored(sender: Contact) -> None:
    overlay, _ = busy()
    assert overlay.step(Received(sender, Ping(1)), 0.3) == []
    assert overlay.stats()["malformed"] == 1


def test_unrequested_answers_admit_no_peer() -> None:
    overlay, _ = busy()
    stranger = Contact(b"\x66" * 20, "s", 6)
    for message in (Pong(12345), Found(12345, (stranger,)), BeatBack(1, b""), Relayed(1, True)):
        effects = overlay.step(Received(stranger, message), 0.3)
        assert not any(isinstance(e, PeerUp) for e in effects)
    assert overlay.stats()["stray_answers"] == 4


def test_no_peer_can_acknowledge_a_hop_for_another() -> None:
    overlay, effects = busy()
    (hop,) = [e.message for e in effects if isinstance(e, Send) and isinstance(e.message, Hop)]
    overlay.step(Received(Contact(b"\x66" * 20, "s", 6), HopTaken(ME.id, hop.nonce)), 0.3)
    assert overlay.stats()["routes"] == 1
    overlay.step(Received(FRIEND, HopTaken(ME.id, hop.nonce)), 0.3)
    assert overlay.stats()["routes"] == 0


def test_a_routed_message_with_a_false_origin_is_not_delivered() -> None:
    overlay = Overlay(ME, rng=random.Random(1))
    assert overlay.step(Start(), 0.0) == [Joined()]
    for origin in (Contact(b"", "h", 1), Contact(b"\x30" * 20, "h", 0)):
        effects = overlay.step(Received(FRIEND, Hop(origin, 1, ME.id, 1, b"")), 1.0)
        assert not any(isinstance(e, RouteDelivered) for e in effects)
