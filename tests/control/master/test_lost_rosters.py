"""What a new master does not know of the term before: from which interval on a member was expected."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Participant
from elfmesh.control.protocol.messages import Enroll
from elfmesh.machine import Contact, Message, Received
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.election.test_drain import leads
from tests.control.harness import World
from tests.control.member.support import Agent, agent_id


def begun() -> World:
    world = World(3)
    fill(world, intervals=3)
    world.apply(world[0])
    return world


def test_a_member_is_expected_from_the_interval_on_that_its_worker_has_begun_with() -> None:
    """It was numbered by a master whose roster its successor never had: what lies before will not be said."""
    world = begun()
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    master = leads(world)
    early, late = (Participant(Contact(agent_id(n), "sim", n), f"agent-{n}") for n in (7, 8))
    usual = master.collection.frontier or 0
    for participant, start in ((early, FIRST), (late, usual + 50)):
        master.members.enroll(
            Enroll(master.job, master.manifest.incarnation, participant, master.epoch, 0, start)
        )
    world.run(0.5)
    starts = {entry.name: entry.start for entry in master.book.entries}
    assert usual < starts["agent-7"] < starts["agent-8"] == usual + 50


def test_a_member_says_with_what_its_worker_has_begun() -> None:
    world = begun()
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    newcomer = world.add(9)
    world.run(3.0)
    member = newcomer.control.member_host.members[leads(world).job]
    assert member.start is not None
    assert member.start > FIRST
    surveyed: list[int] = []

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        surveyed.extend([message.start] if isinstance(message, Enroll) else [])
        return False

    world.lost = lost
    newcomer.control.context.after(0.0, member.requests.enroll)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(1.0)
    assert member.start in surveyed


def test_who_does_not_lead_a_job_gives_a_member_no_terms_but_passes_its_question_on() -> None:
    """It may hold those of a version that was voted on and never chosen."""
    world = begun()
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    led = leads(world)
    voter, asker = (agent for agent in world.living if led.job not in agent.control.leadership.masters)
    member = asker.control.member_host.members[led.job]
    wanted = replace(led.terms.manifest, version=2)
    voter.control.leadership.keep(replace(led.terms, manifest=wanted, version=led.book.version + 1))
    known, _ = voter.control.leadership.known(led.job)
    assert known is not None
    assert known.manifest.version == 2
    surveyed: list[Message] = []

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        surveyed.extend([message] if isinstance(message, Enroll) and source is voter else [])
        return False

    world.lost = lost
    world.post(0.0, voter, Received(asker.me, member.requests.enrolment()))
    world.run(1.0)
    assert len(surveyed) == 1
    assert member.manifest.version == 1
