"""Where copies go: the rule of a host about its data, and the failure domain that a job names."""

from __future__ import annotations

import msgspec

from elfmesh.control.jobs.policy import Policy
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.messages_safety import Kept
from elfmesh.machine import Contact
from tests.control.contexts import new_context
from tests.control.member.support import agent_id
from tests.control.replicas.test_copy_peers import entry


def test_copies_go_only_to_peers_that_the_rule_of_the_host_allows_and_carry_it() -> None:
    context = new_context(0)
    context.policy = Policy(keep_in=(("rack=r1",),))
    safe = CopySender(context, 2)
    safe.peers_are(tuple(entry(number, "r1" if number < 2 else "r2") for number in range(6)))
    assert [peer.id for peer in safe._peers] == [agent_id(1)]
    message, _ = safe._copy_of(Sealed(bytes(20), "i", 0, 1, ((),)), 0, 1)
    assert message.keep_in == (("rack=r1",),)


def test_with_replicas_across_region_a_copy_in_another_rack_of_the_region_is_not_safe() -> None:
    """REPLICAS 1 ACROSS region, which a later version of the text leaves out."""
    context = new_context(0)
    context.me = msgspec.structs.replace(context.me, region="eu", rack="r1")
    places = [("eu", "r1"), ("eu", "r2"), ("us", "r1")]
    members = tuple(
        RosterEntry(at, Contact(agent_id(at), "sim", at, 1, rack, region), f"agent-{at}")
        for at, (region, rack) in enumerate(places, 1)
    )
    sealed = Sealed(bytes(20), "i", 0, 1, ((),))

    def unsafe_with(peer: int) -> int:
        safe.add(sealed, 0, 1)
        safe.on_kept(members[peer].contact, Kept(sealed.job, "i", 0, 0, 0, 1))
        return safe.unsafe

    safe = CopySender(context, 1, "region")
    safe.peers_are(members[:2])
    assert [peer.id for peer in safe._peers] == [agent_id(2)], "no other region, so the other rack"
    assert unsafe_with(1) == 1
    safe.peers_are(members)
    assert [peer.id for peer in safe._peers] == [agent_id(3)]
    assert unsafe_with(2) == 0
    safe.peers_are(members[:2], 1, "")
    assert [peer.id for peer in safe._peers] == [agent_id(2)]
    assert unsafe_with(1) == 0, "another rack is enough now"
