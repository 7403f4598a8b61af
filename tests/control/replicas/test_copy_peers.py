"""Which peers get the copies of a member: first those of other racks, and another one for a silent one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.member.copy_sender import AGAIN_BYTES, AGAIN_S, AVOID_S, CopySender
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.messages_safety import Kept
from elfmesh.machine import Contact, Send
from tests.control.contexts import new_context
from tests.control.member.support import agent_id
from tests.control.register.support import run

JOB = bytes(20)


def entry(number: int, rack: str) -> RosterEntry:
    return RosterEntry(number, Contact(agent_id(number), "sim", number, 1, rack), f"agent-{number}")


@pytest.mark.parametrize("replicas", [1, 2])
def test_peers_of_other_racks_come_first_and_one_of_them_is_needed(replicas: int) -> None:
    context = new_context(0, rack="r1")
    safe = CopySender(context, replicas)
    members = [entry(number, "r1") for number in range(6)] + [entry(6, "r2")]
    safe.peers_are(tuple(members))
    assert safe._peers[0].id == agent_id(6)
    assert len(safe._peers) == replicas
    assert agent_id(0) not in {peer.id for peer in safe._peers}


def test_what_peers_refuse_is_not_sent_again_all_at_once() -> None:
    context = new_context(0)
    safe = CopySender(context, 1)
    safe.peers_are((entry(1, ""),))
    for start in range(64):
        part = (Contribution(start, (1,), bytes(1 << 20)),)
        safe.add(Sealed(JOB, "i", start, start + 1, (part,)), 0, 1)
    context.out.clear()
    context.now += 10.0
    context.fire()
    sent = [effect for effect in context.out if isinstance(effect, Send)]
    assert 0 < sum(len(effect.payload) for effect in sent) <= 2 * AGAIN_BYTES


def test_a_peer_that_acknowledges_nothing_is_replaced_although_the_roster_has_it() -> None:
    context = new_context(0)
    safe = CopySender(context, 1)
    safe.peers_are(tuple(entry(number, "") for number in range(1, 4)))
    (silent,) = safe._peers
    safe.add(Sealed(JOB, "i", 0, 1, ((Contribution(0, (1,), b"x"),),)), 0, 1)

    def receivers(seconds: float) -> list[bytes]:
        context.out.clear()
        run(context, context.now + seconds)
        return [each.to.id for each in context.out if isinstance(each, Send)]

    assert receivers(1.3 * AGAIN_S) == [silent.id]
    (other,) = {*receivers(1.3 * AGAIN_S)}
    assert other != silent.id
    safe.on_kept(replace(silent, id=other), Kept(JOB, "i", 0, 0, 0, 1))
    assert safe.unsafe == 0
    context.out.clear()
    safe.add(Sealed(JOB, "i", 1, 2, ((Contribution(1, (1,), b"x"),),)), 0, 1)
    assert [each.to.id for each in context.out if isinstance(each, Send)] == [other]
    context.now += AVOID_S
    assert silent.id in receivers(3 * AGAIN_S), "it may be back"
