"""Addresses of acceptors, and which of them answer."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.register.acceptor_contacts import MAJORITY_S, AcceptorContacts
from elfmesh.overlay.events import Lookup, LookupDone
from tests.control.register.support import ME, STRANGER, A, B, context


def test_an_acceptor_answers_until_a_request_to_it_is_open_for_too_long() -> None:
    own = context()
    known = AcceptorContacts(own, (ME, A))
    known.asked(A.id)
    assert not known.answers(A.id), "it has never answered"
    known.answered(A.id)
    own.now += 10 * MAJORITY_S
    assert known.answers(A.id), "no request to it is open"
    known.asked(A.id)
    own.now += MAJORITY_S / 2
    known.asked(A.id)
    assert known.answers(A.id)
    own.now += MAJORITY_S / 2
    assert not known.answers(A.id), "a repeated request does not start its time again"
    known.answered(A.id)
    assert known.answers(A.id)


def test_an_address_that_an_agent_shows_replaces_one_that_a_value_states() -> None:
    known = AcceptorContacts(context(), (A,))
    moved = replace(A, port=A.port + 1)
    known.add((moved, B))
    assert (known.get(A.id), known.get(B.id)) == (A, B)
    known.met(moved)
    known.met(STRANGER)
    assert (known.get(A.id), known.get(STRANGER.id)) == (moved, None)


def test_a_silent_acceptor_is_looked_up_and_asked_again_only_where_it_has_moved() -> None:
    own = context()
    known, moved = AcceptorContacts(own, (A,)), list[bytes]()
    elsewhere = replace(A, port=A.port + 1)
    for contacts in ((), (B,), (A,), (elsewhere,), (elsewhere,)):
        known.find(A.id, moved.append)
        (lookup,) = [each for each in own.out if isinstance(each, Lookup)]
        own.out.clear()
        own.answer(lookup.token, LookupDone(lookup.token, A.id, contacts))
    assert (moved, known.get(A.id)) == ([A.id], elsewhere)
