"""Contributions kept by peers: who dies with its disk takes nothing along that was safe (D-8, I11)."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.context import Context
from elfmesh.control.member.copy_sender import CopySender
from elfmesh.control.member.copy_store import KEPT_BYTES_MAX, CopyStore
from elfmesh.control.protocol.messages import unpack
from elfmesh.control.protocol.messages_safety import Keep, Kept, KeptCopy, Surrender
from elfmesh.machine import Contact, Received, Send
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import Publish
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent, agent_id

REPLICATED = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' REPLICAS 1")


def dies_with_the_master(text: str) -> tuple[World, Agent]:
    """All have sealed, one does not get through; then a member and the master die for good."""
    world = World(6)
    fill(world, intervals=2)
    world.apply(world[0], text)
    master = world.master()
    slow, victim = [agent for agent in world.living if agent is not master][:2]
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 2 * SLIDE)
    world.run(0.5)
    world.kill(victim)
    world.run(2.0)
    world.kill(master)
    world.run(2.0)
    slow.seal("clicks", BASE + 2 * SLIDE)
    world.run(12.0)
    return world, victim


def test_contributions_of_a_lost_agent_are_fetched_from_its_copy_store() -> None:
    world, victim = dies_with_the_master(REPLICATED.replace("REPLICAS 1", "REPLICAS 2"))
    exact(world, world.living[0])
    for record, _ in world.results(world.living[0]):
        assert (record.state, record.missing) == ("FINAL", []), victim.number


def test_without_replicas_it_is_missing_and_named() -> None:
    world, victim = dies_with_the_master(TEXT)
    for record, _ in world.results(world.living[0]):
        assert record.state == "FINAL_PARTIAL"
        assert f"agent-{victim.number}" in record.missing


def test_copies_are_dropped_when_their_interval_is_closed_and_when_the_job_ends() -> None:
    world = World(4)
    fill(world, intervals=3)
    world.apply(world[0], REPLICATED)
    world[0].seal("clicks", BASE + 2 * SLIDE)
    world.run(0.5)
    kept = [agent for agent in world.living if agent.control.member_host.copy_store.nbytes]
    assert kept, "one of them keeps what the first has sealed"
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    assert all(agent.control.member_host.copy_store.nbytes == 0 for agent in world.living)
    assert not [key for agent in world.living for key in agent.disk if key[0] == "kept"]
    world[1].seal("clicks", BASE + 3 * SLIDE)
    world.run(0.5)
    world.ask(world[0], "delete", {"job": "shop/top"})
    world.run(3.0)
    assert not [key for agent in world.living for key in agent.disk if key[0] == "kept"]


def test_a_copy_store_that_is_restarted_still_has_its_copies() -> None:
    world = World(4)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    world[0].seal("clicks", BASE + SLIDE)
    world.run(0.5)
    (copy_store,) = [agent for agent in world.living if agent.control.member_host.copy_store.nbytes]
    before = copy_store.control.member_host.copy_store.nbytes
    world.kill(copy_store)
    world.run(1.0)
    world.restart(copy_store)
    assert copy_store.control.member_host.copy_store.nbytes == before


# -- the parts -----------------------------------------------------------------------------------------

JOB = bytes(20)


def copy(number: int = 1, start: int = 5, size: int = 3) -> tuple[Keep, bytes]:
    entry = SegmentEntry(start, (size,), size)
    return Keep(JOB, "i", agent_id(2), number, start, start + 1, ((entry,),)), bytes(size)


def acknowledged(context: Context) -> list[Kept]:
    sent, context.out = context.out, []
    return [
        effect.message for effect in sent if isinstance(effect, Send) and isinstance(effect.message, Kept)
    ]


def test_an_acknowledgement_comes_after_the_write_and_again_for_a_copy_that_is_there() -> None:
    context = new_context(1)
    copy_store, sender = CopyStore(context), new_context(2).me
    copy_store.on_keep(sender, *copy(), None)
    assert [type(effect).__name__ for effect in context.out] == ["Persist", "Send"]
    acknowledged(context)
    copy_store.on_keep(sender, *copy(), None)
    assert [type(effect).__name__ for effect in context.out] == ["Send"]


def test_what_lies_about_its_size_or_is_too_much_is_not_acknowledged() -> None:
    context = new_context(1)
    copy_store, sender = CopyStore(context), new_context(2).me
    message, _ = copy()
    copy_store.on_keep(sender, message, b"1", None)
    assert acknowledged(context) == []
    for start in range(3):
        copy_store.on_keep(sender, *copy(start=start, size=KEPT_BYTES_MAX // 2 - 1000), None)
    assert [each.start for each in acknowledged(context)] == [0, 1]
    assert copy_store.nbytes <= KEPT_BYTES_MAX


def test_copies_in_the_same_rack_only_are_not_safe() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    member = next(iter(world[0].control.member_host.members.values()))
    world.lost = lambda source, target, message: isinstance(message, Kept)
    world[0].seal("clicks", BASE + SLIDE)
    world.run(1.0)
    assert member.copy_sender.unsafe == 1, "what no copy host acknowledged"
    world.lost = lambda source, target, message: False
    world.run(5.0)
    assert member.copy_sender.unsafe == 0, "sent again; agents without a rack share none"
    same = Contact(agent_id(1), "sim", 1, 1, "r1")
    safe = CopySender(new_context(0, rack="r1"), 1)
    safe._open[0] = next(iter(member.copy_sender._open.values()))
    safe._open[0].at = {same.id: same}
    assert safe.unsafe == 1


def contributes_nothing_more(world: World, victim: Agent) -> None:
    """Its seals reach its copy hosts, and no other agent."""
    collect = world._collect
    world._collect = lambda tree, segment, payloads: (  # type: ignore[method-assign]  # a fault of this test
        None if bits_of(segment.coverage) == mask else collect(tree, segment, payloads)
    )
    (member,) = victim.control.member_host.members.values()
    assert member.entry is not None
    mask = 1 << member.entry.number


def test_what_is_safe_is_asked_for_also_of_an_interval_that_is_due_long_after_the_death() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0], REPLICATED)
    victim = next(agent for agent in world.living if agent is not world.master())
    contributes_nothing_more(world, victim)
    victim.seal("clicks", BASE + 2 * SLIDE)
    world.run(0.5)
    world.kill(victim)
    world.run(20.0)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(8.0)
    exact(world, world.living[0])
    assert {record.state for record, _ in world.results(world.living[0])} == {"FINAL"}


def test_copy_stores_are_asked_less_and_less_often_for_copies_that_no_agent_has() -> None:
    world = World(4)
    fill(world, intervals=2)
    world.apply(world[0], REPLICATED.replace("REPLICAS 1", "HORIZON '10 min' REPLICAS 1"))
    victim = next(agent for agent in world.living if agent is not world.master())
    world.kill(victim)
    world.run(2.0)
    world.seal_all(BASE + SLIDE)
    asked: list[bool] = []
    publish = world._publish

    def noticed(agent: Agent, effect: Publish) -> None:
        asked.append(isinstance(unpack(effect.body), Surrender))
        publish(agent, effect)

    world._publish = noticed  # type: ignore[method-assign]  # listens in
    world.run(120.0)
    assert 3 <= sum(asked) <= 12


def test_a_copy_counts_in_every_attempt_of_its_intervals() -> None:
    world = World(4)
    fill(world, intervals=3)
    world.apply(world[0], REPLICATED)
    victim, slow = [agent for agent in world.living if agent is not world.master()][:2]
    contributes_nothing_more(world, victim)
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 3 * SLIDE)
    world.run(0.2)
    master = next(iter(world.master().control.leadership.masters.values()))
    master.term.trees.recollect(master.term.closer.next, 1001, 0, 1)
    world.run(0.2)
    world.kill(victim)
    world.run(3.0)
    slow.seal("clicks", BASE + 3 * SLIDE)
    world.run(10.0)
    exact(world, world.living[0])
    assert {record.state for record, _ in world.results(world.living[0])} == {"FINAL"}


def test_wrong_copies_of_a_confused_peer_end_no_agent_and_count_nowhere() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    master = world.master()
    (leading,) = master.control.leadership.masters.values()
    incarnation, epoch = leading.term.manifest.incarnation, leading.term.epoch
    other = next(agent for agent in world.living if agent is not master)
    entry = leading.term.book.of(other.me.id)
    assert entry is not None
    good = (SegmentEntry(1000, (9,), 2),)
    copies = [
        Keep(leading.job, incarnation, other.me.id, 1 << 62, 1000, 1001, (good,)),
        Keep(leading.job, incarnation, agent_id(77), entry.number, 1000, 1001, (good,)),
        Keep(
            leading.job,
            incarnation,
            other.me.id,
            entry.number,
            1000,
            1001,
            ((SegmentEntry(1000, (9,) * 99, 2),),),
        ),
        Keep(
            leading.job, incarnation, other.me.id, entry.number, 1000, 1001, ((SegmentEntry(1005, (9,), 2),),)
        ),
        Keep(leading.job, incarnation, other.me.id, entry.number, 1000, 1001, ((*good, *good),)),
        Keep(leading.job, incarnation, other.me.id, entry.number, 1000, 1001, (good, good)),
    ]
    for each in copies:
        payload = b"{}" * sum(len(part) for part in each.parts)
        world.post(0.0, master, Received(world[1].me, KeptCopy(epoch, each), payload))
    world.run(0.2)
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    exact(world, world[0])


def test_copies_of_nothing_are_bounded_too() -> None:
    context = new_context(1)
    copy_store, sender = CopyStore(context), new_context(2).me
    entries = tuple(SegmentEntry(at, (0,)) for at in range(10_000))
    for number in range(200):
        copy_store.on_keep(sender, Keep(JOB, "i", sender.id, number, 0, 10_000, (entries,)), b"", None)
    assert 0 < len(acknowledged(context)) < 200


def test_a_number_given_twice_does_not_mix_two_members() -> None:
    context, master = new_context(1), new_context(9).me
    copy_store = CopyStore(context)
    for owner in (2, 3):
        sender = new_context(owner).me
        message = msgspec.structs.replace(copy()[0], member=sender.id)
        copy_store.on_keep(sender, message, bytes([owner] * 3), None)
    assert len(acknowledged(context)) == 2
    copy_store.on_surrender(master, Surrender(JOB, "i", master, 1, 1, 0))
    (sent,) = [effect for effect in context.out if isinstance(effect, Send)]
    assert isinstance(sent.message, KeptCopy)
    assert (sent.payload, sent.message.copy.member) == (bytes([3] * 3), agent_id(3))


def test_copies_of_jobs_that_an_agent_does_not_work_on_after_a_restart_are_dropped() -> None:
    world = World(4)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    world[0].seal("clicks", BASE + SLIDE)
    world.run(0.5)
    (copy_store,) = [agent for agent in world.living if agent.control.member_host.copy_store.nbytes]
    world.kill(copy_store)
    world.run(1.0)
    copy_store.streams = {}
    world.restart(copy_store)
    assert copy_store.control.member_host.copy_store.nbytes == 0
    assert not [key for key in copy_store.disk if key[0] in ("kept", "member")]


def test_a_copy_at_a_peer_that_has_left_does_not_count_as_safe() -> None:
    world = World(4)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    owner = world[0]
    owner.seal("clicks", BASE + SLIDE)
    world.run(0.5)
    (member,) = owner.control.member_host.members.values()
    (copy_store,) = [agent for agent in world.living if agent.control.member_host.copy_store.nbytes]
    assert member.terms is not None
    assert member.copy_sender.unsafe == 0
    world.lost = lambda source, target, message: isinstance(message, Kept)
    left = [each for each in member.terms.members if each.contact.id != copy_store.me.id]
    member.copy_sender.peers_are(tuple(left))
    assert member.copy_sender.unsafe == 1


def test_copies_of_an_older_term_are_refused_by_the_master() -> None:
    world = World(3)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED)
    master = world.master()
    job = next(iter(master.control.leadership.masters))
    stale = KeptCopy(
        0, Keep(job, "x", agent_id(0), 0, 1000, 1001, ((SegmentEntry(1000, (9, 0, 0, 0, 0), 2),),))
    )
    world.post(0.0, master, Received(world[1].me, stale, b"{}"))
    world.run(0.2)
    assert master.control.stats()["control.fenced"] >= 1
    world.seal_all(BASE + SLIDE)
    world.run(2.0)
    exact(world, world[0])


def test_that_a_dead_member_had_nothing_is_known_to_its_peers() -> None:
    world = World(4)
    world.apply(world[0], REPLICATED)
    silent = next(agent for agent in world.living if agent is not world.master())
    for agent in world.living:
        if agent is not silent:
            agent.feed("clicks", [(BASE + 1, "a")])
    silent.seal("clicks", BASE + SLIDE)
    world.run(0.5)
    world.kill(silent)
    for members in silent.contributed.values():
        members.clear()
    world.lost = lambda source, target, message: False
    world.seal_all(BASE + SLIDE)
    world.run(5.0)
    (record,) = [each for each, _ in world.results(world.master())]
    assert (record.state, record.missing) == ("FINAL", [])


@pytest.mark.parametrize("replicated", [True, False])
def test_the_neighbours_of_a_straggler_stand_in_for_it_or_it_is_asked_itself(replicated: bool) -> None:
    """ELF 3: "speculative backup copies of slow tasks could be run in neighboring agents"."""
    world = World(4)
    fill(world, intervals=1)
    world.apply(world[0], REPLICATED if replicated else TEXT)
    slow = next(agent for agent in world.living if agent is not world.master())
    arrive = world._arrive
    number = next(iter(slow.control.member_host.members.values())).entry
    assert number is not None

    def stalled(tree: bytes, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        if not int.from_bytes(segment.coverage, "little") >> number.number & 1:
            arrive(tree, segment, payloads)

    world._arrive = stalled  # type: ignore[method-assign]  # its way up the tree is blocked, it lives
    world.seal_all(BASE + SLIDE)
    world.run(6.0)
    found = [record.state for record, _ in world.results(world.master())]
    assert found == ["FINAL"]
    exact(world, world.master())
