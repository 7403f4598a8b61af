"""Copies of a host with a rule about where its data is kept."""

from __future__ import annotations

from elfmesh.control.jobs.policy import Policy
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.protocol.events import Sealed
from tests.control.contexts import new_context
from tests.control.member.support import agent_id
from tests.control.member.test_copy_sender import entry


def test_copies_go_only_to_peers_that_the_rule_of_the_host_allows_and_carry_it() -> None:
    context = new_context(0)
    context.policy = Policy(keep_in=(("rack=r1",),))
    safe = CopySender(context, 2)
    safe.peers_are(tuple(entry(number, "r1" if number < 2 else "r2") for number in range(6)))
    assert [peer.id for peer in safe._peers] == [agent_id(1)]
    message, _ = safe._copy_of(Sealed(bytes(20), "i", 0, 1, ((),)), 0, 1)
    assert message.keep_in == (("rack=r1",),)
