"""What a new master does not know of the term before: the numbers of members, and their first intervals."""

from __future__ import annotations

import base64
import json

import pytest
from msgspec import structs
from msgspec.structs import replace

from elfmesh.agent.runtime.core import codec
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.roster import UNKNOWN
from elfmesh.control.jobs.terms import Participant, Terms
from elfmesh.control.member.member import Member
from elfmesh.control.protocol.messages import Enroll, Mark, Roster, pack, unpack
from elfmesh.control.protocol.messages_register import Accept, Prepare
from elfmesh.control.protocol.messages_safety import AskFates, Fates
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.machine import Contact, Event, Message, Received
from elfmesh.srt.events import Delivered
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.election.test_drain import leads
from tests.control.harness import World
from tests.control.member.support import Agent, agent_id
from tests.previous import release


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
    usual = master.term.collection.frontier or 0
    for participant, start in ((early, FIRST), (late, usual + 50)):
        master.term.members.on_enroll(
            Enroll(master.job, master.term.manifest.incarnation, participant, master.term.epoch, 0, start)
        )
    world.run(0.5)
    starts = {entry.name: entry.start for entry in master.term.book.entries}
    assert usual < starts["agent-7"] < starts["agent-8"] == usual + 50


def test_a_member_reports_with_which_interval_its_worker_has_begun() -> None:
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


def test_an_agent_that_does_not_lead_a_job_gives_a_member_no_terms_but_forwards_its_question() -> None:
    """It may hold those of a version that was voted on and never chosen."""
    world = begun()
    world.seal_all(BASE + 3 * SLIDE)
    world.run(2.0)
    led = leads(world)
    voter, asker = (agent for agent in world.living if led.job not in agent.control.leadership.masters)
    member = asker.control.member_host.members[led.job]
    wanted = replace(led.term.terms.manifest, version=2)
    voter.control.leadership.keep(replace(led.term.terms, manifest=wanted, version=led.term.book.version + 1))
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


class Deaf(World):
    """Multicasts do not reach agents that are deaf."""

    deaf: tuple[Agent, ...] = ()

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        if not isinstance(event, Delivered) or agent not in self.deaf:
            super().post(delay, agent, event)


def number_given_by_the_dead() -> tuple[Deaf, Agent, Member]:
    """An agent has a number, and its master dies before another agent has the roster.

    The agent contributes the intervals 1005 to 1008 under this number. It is cut off in the end.
    """
    world = Deaf(4)
    fill(world, intervals=30)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    dead, job = world.master(), leads(world).job
    newcomer = world.add(9)
    newcomer.feed("clicks", [(index * SLIDE, "eggs") for index in range(1000, 1030)])
    world.deaf = tuple(each for each in world.living if each not in (dead, newcomer))
    kinds = (Replica, Accept, Prepare, Roster)
    world.lost = lambda source, target, message: (
        source is dead and target is not newcomer and isinstance(message, kinds)
    )
    world.run(3.0)
    member = newcomer.control.member_host.members[job]
    assert member.entry is not None
    assert member.entry.start == 1005
    newcomer.seal("clicks", BASE + 9 * SLIDE)
    world.run(0.5)
    world.kill(dead)
    world.deaf, world.lost = (newcomer,), lambda source, target, message: newcomer in (source, target)
    world.run(8.0)
    assert all(entry.contact.id != newcomer.me.id for entry in leads(world).term.book.entries)
    return world, newcomer, member


def close_without(newcomer: Agent, world: Deaf) -> None:
    for agent in world.living:
        if agent is not newcomer:
            agent.seal("clicks", BASE + 12 * SLIDE)
    world.run(8.0)
    assert leads(world).term.committer.closed == 1012


def heal(world: Deaf) -> None:
    world.deaf, world.lost = (), lambda source, target, message: False


def counted_once(world: Deaf, newcomer: Agent, member: Member) -> None:
    """The intervals from which on it has had a number, up to its first one now, lack its records."""
    close_without(newcomer, world)
    heal(world)
    world.run(40.0)
    for intervals in range(16, 22):
        world.seal_all(BASE + intervals * SLIDE)
        world.run(8.0)
    assert member.entry is not None
    assert member.entry.start == 1014
    records = world.results(world.master())
    assert sum(record.counts["expired"] for record, _ in records) == 1014 - 1005
    assert [each.interval for each in newcomer.dead_letters] == [*range(1005, 1014)]


def test_what_a_member_contributed_under_a_number_that_was_lost_is_counted_once() -> None:
    """No agent had the number when its intervals were closed, so none names it as one that it lacks."""
    counted_once(*number_given_by_the_dead())


def test_what_a_member_contributed_under_a_number_that_another_has_is_counted_once() -> None:
    """The other agent's contributions are inside."""
    world, newcomer, member = number_given_by_the_dead()
    assert member.entry is not None
    other = world.add(10)
    other.feed("clicks", [(index * SLIDE, "corn") for index in range(1000, 1030)])
    world.run(3.0)
    entry = leads(world).term.book.of(other.me.id)
    assert entry is not None
    assert (entry.number, entry.start) == (member.entry.number, 1005)
    counted_once(world, newcomer, member)


def test_a_mark_decides_nothing_for_a_member_that_lacks_the_roster_of_its_epoch() -> None:
    """The mark comes before the roster by which it names members."""
    world, newcomer, member = number_given_by_the_dead()
    close_without(newcomer, world)
    mark = leads(world).term.trees.watermark()
    assert isinstance(mark, Mark)
    world.post(0.0, newcomer, Received(world.master().me, mark))
    world.run(0.1)
    assert (member.closed, member.ledger.undecided) == (1012, 4)


def test_a_master_gives_its_roster_to_a_member_that_asks_by_an_earlier_one() -> None:
    world, newcomer, member = number_given_by_the_dead()
    close_without(newcomer, world)
    assert member.entry is not None
    master, answers = leads(world), list[Message]()

    def lost(source: Agent, target: Agent, message: Message) -> bool:
        answers.extend([message] if target is newcomer else [])
        return True

    world.lost = lost
    for epoch in (member.epoch, master.term.epoch, 0):
        asked = AskFates(
            master.job, master.term.manifest.incarnation, member.entry.number, tuple(range(1005, 1009)), epoch
        )
        world.post(0.0, world.master(), Received(newcomer.me, asked))
        world.run(0.1)
    kinds = [type(each) for each in answers if isinstance(each, (Roster, Fates))]
    assert kinds == [Roster, Fates, Fates], "an earlier release names no epoch"


class Mixed(World):
    """Agents of the previous release: they send no epochs of numbers, and keep none that they receive."""

    earlier: frozenset[bytes] = frozenset()

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        if isinstance(event, Received) and {event.sender.id, agent.me.id} & self.earlier:
            event = structs.replace(event, message=without_epochs(event.message))
        elif isinstance(event, Delivered):
            message = unpack(event.body)
            sender = message.terms.master.id if isinstance(message, Roster) else b""
            if {sender, agent.me.id} & self.earlier:
                event = replace(event, body=pack(without_epochs(message)))
        super().post(delay, agent, event)


def without_epochs(message: Message) -> Message:
    """The message as the previous release writes it; `tests/previous` has one of every kind."""
    terms = getattr(message, "terms", None)
    if isinstance(terms, Terms):
        message = replace(message, terms=replace(terms, given_in=()))
    return replace(message, epoch=UNKNOWN) if isinstance(message, AskFates) else message


def test_the_previous_release_sends_no_epochs_of_numbers() -> None:
    written = json.loads(release.MESSAGES.read_text())
    for tag in ("ctl.roster", "ctl.replica", "ctl.ask_fates"):
        message, _ = codec().decode(base64.b64decode(written[tag]["frame"]))
        assert without_epochs(message) == message


@pytest.mark.parametrize("masters", [True, False], ids=["the masters", "a member"])
def test_beside_the_previous_release_no_record_is_lost_or_counted_twice(masters: bool) -> None:
    """A newcomer gets a number, a master dies, and a member that was cut off asks for its outcomes."""
    world = Mixed(5)
    fill(world, intervals=12)
    world.apply(world[0])
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    first = world.master()
    voting = {agent.me.id: agent.control.leadership.registers.acceptors.voting for agent in world.living}
    away = next(agent for agent in world.living if not voting[agent.me.id](agent.me.id))
    world.earlier = frozenset(each.me.id for each in world.living if (each is not away) is masters)
    newcomer = world.add(9)
    newcomer.feed("clicks", [(index * SLIDE, "eggs") for index in range(1005, 1012)])
    world.run(5.0)
    world.lost = lambda source, target, message: away in (source, target)
    for agent in world.living:
        if agent is not away:
            agent.seal("clicks", BASE + 6 * SLIDE)
    world.run(8.0)
    world.kill(first)
    world.run(80.0)
    world.lost = lambda source, target, message: False
    for intervals in range(7, 13):
        world.seal_all(BASE + intervals * SLIDE)
        world.run(8.0)
    world.run(60.0)
    found = world.results(world.master())
    members = {agent.me.id: agent.control.member_host.members for agent in world.living}
    assert all(not member.ledger.undecided for each in members.values() for member in each.values())
    assert [record.index for record, _ in found] == list(range(1000, 1012))
    inside = sum(row["hits"] for _, rows in found for row in rows)
    assert inside == sum(record.counts["contributed"] for record, _ in found)
    name = f"agent-{first.number}"
    with_first = {record.index for record, _ in found if name not in record.missing}
    read = sum(len(agent.logs["clicks"]) for agent in world.living)
    read += sum(at // SLIDE in with_first for at, _ in first.logs["clicks"])
    assert 0 < len(with_first) < len(found)
    assert read == sum(sum(record.counts.values()) for record, _ in found)
    assert any(record.counts["expired"] for record, _ in found), "of the member that was cut off"
