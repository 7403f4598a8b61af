"""Copies that peers keep of a member across the terms of its job: another version may begin with one."""

from __future__ import annotations

import msgspec

from elfmesh.contribution import Contribution
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.messages_safety import Kept, Surrender
from elfmesh.machine import Send
from tests.control.contexts import new_context
from tests.control.member.test_copy_sender import JOB, acknowledged, copy
from tests.control.replicas.test_copy_peers import entry


def test_a_copy_of_a_later_term_replaces_that_of_an_earlier_one() -> None:
    """Another version has made the same interval again, and nothing revised it."""
    context, sender, master = new_context(1), new_context(2).me, new_context(9).me
    copy_store = CopyStore(context)
    earlier, later = (
        msgspec.structs.replace(copy()[0], epoch=epoch, evaluated=epoch, rev=2 - epoch) for epoch in (1, 2)
    )
    for message, payload in ((earlier, b"old"), (later, b"new"), (earlier, b"old")):
        copy_store.on_keep(sender, message, payload, None)
    assert [each.epoch for each in acknowledged(context)] == [1, 2, 1]
    copy_store.on_surrender(master, Surrender(JOB, "i", master, 3, 1, 0))
    (sent,) = [effect for effect in context.out if isinstance(effect, Send)]
    assert sent.payload == b"new"


def test_an_acknowledgement_of_an_earlier_term_makes_nothing_safe() -> None:
    safe = CopySender(new_context(0), 1)
    safe.peers_are((entry(1, ""),))
    event = Sealed(JOB, "i", 5, 6, ((Contribution(5, (1,)),),))
    safe.add(event, 0, 1)
    safe.rewind(5)
    safe.add(event, 0, 2)
    for epoch, unsafe in ((1, 1), (2, 0)):
        safe.on_kept(entry(1, "").contact, Kept(JOB, "i", 0, 5, 0, epoch))
        assert safe.unsafe == unsafe
    safe.add(event, 0, 3)
    assert safe.unsafe == 0, "its copies are where they were"


def test_an_acknowledgement_of_the_earlier_version_counts_though_it_names_no_term() -> None:
    safe = CopySender(new_context(0), 1)
    safe.peers_are((entry(1, ""),))
    safe.add(Sealed(JOB, "i", 5, 6, ((Contribution(5, (1,)),),)), 0, 7)
    safe.on_kept(entry(1, "").contact, Kept(JOB, "i", 0, 5, 1))
    assert safe.unsafe == 1, "another revision"
    safe.on_kept(entry(1, "").contact, Kept(JOB, "i", 0, 5, 0))
    assert safe.unsafe == 0


def test_another_number_of_replicas_takes_effect_with_its_roster() -> None:
    safe = CopySender(new_context(0, rack="r1"), 0)
    members = tuple(entry(number, "r2") for number in range(1, 4))
    safe.peers_are(members)
    assert not safe._peers
    safe.peers_are(members, 2)
    assert [each.id for each in safe._peers]
    safe.peers_are(members, 0)
    assert safe.unsafe == 0
