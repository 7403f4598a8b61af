"""The question for what dead members contributed: one names a whole rack, and earlier versions read it."""

from __future__ import annotations

import msgspec

from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.protocol.messages import pack, unpack
from elfmesh.control.protocol.messages_safety import KeptCopy, Surrender
from elfmesh.machine import Send
from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.events import Publish
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import Agent, agent_id
from tests.control.member.test_copy_sender import (
    JOB,
    REPLICATED,
    acknowledged,
    contributes_nothing_more,
    copy,
)


def test_one_question_fetches_what_all_members_of_a_lost_rack_had_contributed() -> None:
    world = World(12)
    fill(world, intervals=2)
    world.apply(world[0], REPLICATED.replace("REPLICAS 1", "REPLICAS 3"))
    voters = {
        contact.id
        for contact in next(iter(world.master().control.leadership.masters.values())).term.terms.acceptors
    }
    slow, *others = [agent for agent in world.living if agent.me.id not in voters]
    rack = others[:5]
    for agent in rack:
        contributes_nothing_more(world, agent)
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 2 * SLIDE)
    world.run(0.5)
    asked: list[Surrender] = []
    publish = world._publish

    def noticed(agent: Agent, effect: Publish) -> None:
        if isinstance(message := unpack(effect.body), Surrender):
            asked.append(message)
        publish(agent, effect)

    world._publish = noticed  # type: ignore[method-assign]  # listens in
    for agent in rack:
        world.kill(agent)
    world.run(2.0)
    slow.seal("clicks", BASE + 2 * SLIDE)
    world.run(12.0)
    exact(world, world.master())
    assert {record.state for record, _ in world.results(world.master())} == {"FINAL"}
    numbers = [bits_of(each.members).bit_count() for each in asked]
    assert max(numbers) >= len(rack)
    assert len(asked) < len(rack)


def test_a_question_for_one_member_is_what_earlier_versions_send_and_names_no_others() -> None:
    context, master = new_context(1), new_context(9).me
    copy_store = CopyStore(context)
    for owner in (2, 3, 70):
        message, payload = copy(number=owner)
        copy_store.on_keep(
            new_context(owner).me, msgspec.structs.replace(message, member=agent_id(owner)), payload, None
        )
    acknowledged(context)
    one = Surrender(JOB, "i", master, 1, 3, 0)
    assert b"members" not in pack(one)

    def given(question: Surrender) -> list[int]:
        copy_store.on_surrender(master, question)
        sent, context.out = context.out, []
        messages = [effect.message for effect in sent if isinstance(effect, Send)]
        return [message.copy.number for message in messages if isinstance(message, KeptCopy)]

    assert given(one) == [3]
    assert given(Surrender(JOB, "i", master, 1, 1 << 62, 0)) == []
    assert given(Surrender(JOB, "i", master, 1, 2, 0, bitmap_of(1 << 2 | 1 << 70))) == [2, 70]
