"""Members share one roster when they come, and each of their questions is answered by the part that knows."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import cast

from msgspec.structs import replace

from elfmesh.control.jobs.terms import Participant
from elfmesh.control.master.founding import AHEAD
from elfmesh.control.master.members import ENROLL_S, FRONTIER_S, JobMembers, MembersTerm
from elfmesh.control.master.tally import Tally
from elfmesh.control.protocol.events import ReadLog
from elfmesh.control.protocol.messages import Enroll, Leaving, Mark, Report, Roster, Stop, Waiting
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.control.protocol.messages_safety import AskFates
from elfmesh.control.protocol.messages_standby import Shipping
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.machine import Event, Received
from elfmesh.srt.events import Collected
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.election.test_drain import begun, leads, states
from tests.control.harness import World
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.member.support import TEXT, Agent, rows_of
from tests.control.register.support import JOB

NEXT, CLOSED = 30, 20
MARK = Mark(JOB, "i", 1, 3, CLOSED, CLOSED)


class MembersStub(StubTerm):
    """A term whose next member starts at interval `NEXT`, and that has closed everything below `CLOSED`."""

    def __post_init__(self) -> None:
        self.began = replace(self.began, closed=CLOSED)
        super().__post_init__()
        self.calls: list[str] = []
        self.policy = SimpleNamespace(
            dead={},
            revive=lambda number: self.calls.append(f"revive {number}"),
            excludes=lambda number: self.calls.append(f"excludes {number}"),
        )
        self.reported: list[tuple[int, int]] = []
        self.collection = SimpleNamespace(
            frontier=CLOSED,
            straggler_policy=self.policy,
            reported=lambda *reported: self.reported.append(reported),
        )
        self.founding = SimpleNamespace(
            next_start=lambda: NEXT,
            arrived=lambda: self.calls.append("arrived"),
            prepared=lambda: self.calls.append("prepared"),
        )
        self.closer = SimpleNamespace(behind=False)
        self.committer = SimpleNamespace(closed=CLOSED, without_grant=lambda then: then())
        self.trees = SimpleNamespace(watermark=lambda: MARK)
        self.tally = Tally()


class Rig:
    """The members of such a job."""

    def __init__(self) -> None:
        self.term = MembersStub()
        self.calls = self.term.calls
        self.costs = ShippingCosts()
        self.members = JobMembers(cast(MembersTerm, self.term), self.costs, takes_over=True)

    def enroll(self, number: int, *, incarnation: str = "i", version: int = 0, epoch: int = 0) -> None:
        participant = Participant(other(number), f"m{number - 10}")
        self.members.on_enroll(Enroll(JOB, incarnation, participant, epoch, version))

    def policy_has_dead(self, *numbers: int) -> None:
        self.term.policy.dead = dict.fromkeys(numbers, 0.0)

    def leave(self, number: int, frontier: int, *, ahead: bool = False) -> None:
        self.members.on_leaving(Leaving(JOB, "i", other(number), 1, frontier, ahead))


def test_members_that_come_within_a_moment_share_one_roster() -> None:
    rig = Rig()
    rig.enroll(20)
    rig.enroll(21)
    assert rig.term.book.version == 3
    rig.term.run(ENROLL_S)
    assert (rig.term.book.version, rig.term.reports) == (4, ["changed"])
    assert [each.start for each in rig.term.book.entries] == [0, 0, NEXT, NEXT]
    assert rig.calls == ["arrived", "prepared"]


def test_a_member_that_the_roster_of_an_earlier_release_names_may_stand_by_once_it_enrols_again() -> None:
    rig = Rig()
    known = rig.term.book.entries[0]
    rig.members.on_enroll(Enroll(JOB, "i", replace(known.participant, stands_by=True), 1, 3))
    rig.term.run(ENROLL_S)
    assert rig.term.book.entries[0] == replace(known, stands_by=True)
    assert rig.term.reports == ["changed"]


def test_a_new_master_numbers_a_new_member_when_it_knows_how_far_the_others_are() -> None:
    """Otherwise the member begins with intervals that its host's agent before has contributed to (D-14)."""
    rig = Rig()
    rig.term.collection.frontier = None
    rig.enroll(20)
    rig.term.run(FRONTIER_S / 2)
    rig.enroll(20)
    assert rig.term.book.version == 3
    rig.term.collection.frontier = CLOSED
    rig.term.run(FRONTIER_S / 4)
    assert [each.start for each in rig.term.book.entries] == [0, 0, NEXT]


def test_a_new_master_of_members_that_are_all_gone_does_not_wait_for_ever() -> None:
    rig = Rig()
    rig.term.collection.frontier = None
    rig.enroll(20)
    rig.term.run(FRONTIER_S + 1)
    assert [each.start for each in rig.term.book.entries] == [0, 0, NEXT]


def test_a_member_of_another_numbering_or_of_a_job_that_ends_is_stopped() -> None:
    rig = Rig()
    rig.enroll(20, incarnation="older")
    assert rig.term.take() == [(other(20), Stop(JOB, "older", 1))]
    rig.term.is_open = False
    rig.enroll(20)
    assert rig.term.take() == [(other(20), Stop(JOB, "i", 1))]


def test_a_known_member_gets_the_roster_if_it_has_an_older_one() -> None:
    rig = Rig()
    rig.enroll(10, version=3, epoch=1)
    assert rig.term.take() == []
    rig.enroll(10, version=2, epoch=1)
    assert rig.term.take() == [(other(10), Roster(rig.term.terms))]


def test_a_dead_member_that_enrols_is_revived() -> None:
    rig = Rig()
    rig.term.policy.dead[0] = 1.0
    rig.enroll(10, version=3, epoch=1)
    assert rig.calls == ["revive 0"]


def test_a_member_that_leaves_is_expected_up_to_an_interval_that_no_member_has_sealed() -> None:
    rig = Rig()
    rig.leave(10, NEXT - 5)
    assert rig.term.book.entry(0) == entry(0, until=NEXT)
    rig.leave(11, NEXT + 5)
    assert rig.term.book.entry(1) == entry(1, until=NEXT + 5)
    assert rig.term.reports == ["changed", "changed"]
    assert all(isinstance(message, Roster) for _, message in rig.term.take())


def test_a_member_that_leaves_at_once_is_marked_although_it_was_leaving() -> None:
    rig = Rig()
    rig.leave(10, NEXT + 5, ahead=True)
    assert rig.term.book.entry(0) == replace(entry(0, until=NEXT + 5), ahead=True)
    rig.leave(11, 0)
    rig.leave(11, NEXT + 9, ahead=True)
    assert rig.term.book.entry(1) == replace(entry(1, until=NEXT), ahead=True)
    changes = len(rig.term.reports)
    rig.leave(11, NEXT + 9, ahead=True)
    assert len(rig.term.reports) == changes, "it repeats its request until it has the roster"


def test_an_agent_that_leaves_before_it_is_a_member_is_stopped_and_gets_no_number() -> None:
    rig = Rig()
    rig.enroll(20)
    rig.leave(20, 0)
    assert rig.term.take() == [(other(20), Stop(JOB, "i", 1))]
    rig.term.run(ENROLL_S)
    assert (len(rig.term.book.entries), rig.term.reports) == (2, [])


def test_a_master_that_ends_the_job_changes_no_roster() -> None:
    rig = Rig()
    rig.enroll(20)
    rig.term.is_open = False
    rig.leave(10, 0)
    rig.term.run(ENROLL_S)
    assert (rig.term.book.version, rig.term.reports, rig.term.take()) == (3, [], [])


def test_a_member_that_has_missed_a_watermark_gets_it_and_the_frontier_of_another_is_noted() -> None:
    rig = Rig()
    rig.members.on_waiting(Waiting(JOB, 1, 0, CLOSED))
    (step,) = rig.term.context.causes.of({JOB}, CLOSED - 1)
    assert (step.kind, rig.term.take()) == ("watermark", [(other(10), replace(MARK, cause=step.name))])
    rig.members.on_waiting(Waiting(JOB, 1, 1, CLOSED + 5))
    rig.members.on_waiting(Waiting(JOB, 1, 99, CLOSED + 5))
    assert (rig.term.take(), rig.term.reported) == ([], [(1, CLOSED + 5)])


def test_outcomes_are_not_answered_from_a_log_that_is_not_complete() -> None:
    rig = Rig()
    asked = AskFates(JOB, "i", 0, (CLOSED - 1,))
    rig.term.closer.behind = True
    rig.members.on_ask_outcomes(other(10), asked)
    assert rig.term.context.out == []
    rig.term.closer.behind = False
    rig.members.on_ask_outcomes(other(10), asked)
    assert [type(each) for each in rig.term.context.out] == [ReadLog]


def test_the_report_of_an_agent_that_is_no_member_leaves_no_error() -> None:
    rig = Rig()
    rig.members.on_report(Report(JOB, "m0", ("a line",), "no memory"))
    rig.members.on_report(Report(JOB, "stranger", (), "no memory"))
    assert rig.term.tally.worker_errors == {"m0": "no memory"}
    assert list(rig.term.tally.samples) == ["m0: a line"]


class Cut(World):
    """Contributions do not reach the master."""

    cut = False

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        if not self.cut or not isinstance(event, Collected):
            super().post(delay, agent, event)


def test_no_interval_expects_an_agent_that_has_left_by_a_second_number() -> None:
    """It knows a frontier that its master does not, and an older enrolment arrives after it has left."""
    world = Cut(4)
    leaver = begun(world)
    master = leads(world)
    stale = leaver.control.member_host.members[master.job].requests.enrolment()
    world.cut = True
    world.seal_all(BASE + 8 * SLIDE)
    world.run(0.1)
    world.request(leaver, "leave")
    world.run(0.1)
    world.post(0.0, world.master(), Received(leaver.me, stale))
    world.run(0.1)
    first, second = (each for each in master.term.book.entries if each.contact.id == leaver.me.id)
    assert first.until is not None
    assert first.until > (master.term.collection.frontier or 0) + AHEAD, "the scenario"
    assert second.start >= first.until
    world.cut = False
    world.run(20.0)
    assert states(world) == [("FINAL", 4)] * 8
    exact(world, world.master())


def test_members_whose_labels_are_wanted_again_before_they_have_left_come_back() -> None:
    """Each of their intervals expects them by one number, and they contribute to all of them."""
    world = World()
    for number in range(4):
        world.add(number, labels={"role": "web" if number < 3 else "api", "zone": f"z{number % 2}"})
    world.run(2.0)
    fill(world, intervals=12)
    web, zone = (
        TEXT.replace("FROM clicks", f"FROM clicks ON ({each})") for each in ("role = 'web'", "zone = 'z1'")
    )
    world.apply(world[0], web)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(1.0)
    firsts = []
    for text in (zone, web):
        firsts.append(world.apply(world[0], text).body["effective_interval"])
        world.run(1.0)
    for intervals in range(3, 13):
        world.seal_all(BASE + intervals * SLIDE)
        world.run(2.0)
    records = world.results(world[0])
    assert [record.index for record, _ in records] == list(range(1000, 1012))
    assert firsts[0] < firsts[1] < 1010
    for record, rows in records:
        numbers = [1, 3] if firsts[0] <= record.index < firsts[1] else [0, 1, 2]
        counts: Counter[str] = Counter()
        for number in numbers:
            counts.update(key for at, key in world[number].logs["clicks"] if at // SLIDE == record.index)
        assert (record.state, record.agents_expected, rows) == ("FINAL", len(numbers), rows_of(counts))


def test_lag_and_bytes_of_a_standby_are_shown_while_there_is_one() -> None:
    rig = Rig()
    assert rig.members.shipping_of(0) is None
    rig.members.on_shipping(other(10), Shipping(JOB, 1, 0, other(11).id, "", 1_500, 300))
    assert rig.members.shipping_of(0) == (1.5, 300)
    rig.members.on_shipping(other(10), Shipping(JOB, 1, 0, b"", "no agent has room", 1_500, 300))
    assert rig.members.shipping_of(0) is None


IN_EU = (("region=eu",),)


def test_a_new_master_waits_for_no_member_whose_rule_excludes_it() -> None:
    rig = Rig()
    rule = replace(Participant(other(11), "m1"), keep_in=IN_EU)
    rig.term.book.add((rule,), 0)
    rig.members = JobMembers(cast(MembersTerm, rig.term), rig.costs, takes_over=True)
    assert rig.calls == ["excludes 1"]
    rig.policy_has_dead(1)
    rig.members.on_enroll(Enroll(JOB, "i", rule, 1, 9))
    assert "revive 1" not in rig.calls


def test_a_new_master_waits_for_no_excluded_member_that_leaves() -> None:
    """A member that the master before excludes as well is expected up to an interval that is still open."""
    rig = Rig()
    rule = replace(Participant(other(11), "m1"), keep_in=IN_EU)
    rig.term.book.add((rule,), 0)
    rig.term.book.evict(1, CLOSED + 2)
    rig.members = JobMembers(cast(MembersTerm, rig.term), rig.costs, takes_over=True)
    assert rig.calls == ["excludes 1"]


def test_a_master_waits_for_no_excluded_host_that_asks_for_a_number() -> None:
    """Its request was on its way to the master before."""
    rig = Rig()
    rule = replace(Participant(other(20), "m20"), keep_in=IN_EU)
    rig.members.on_enroll(Enroll(JOB, "i", rule, 1, 9))
    rig.term.run(ENROLL_S)
    assert "excludes 2" in rig.calls


def test_an_excluded_host_is_named_until_it_takes_part() -> None:
    rig = Rig()
    message = Excluded(JOB, "i", "m20", IN_EU, "the master")
    rig.members.on_excluded(other(20), replace(message, incarnation="older"))
    assert rig.term.tally.excluded(0.0) == []
    rig.members.on_excluded(other(20), message)
    assert rig.term.tally.excluded(0.0) == ["m20 takes no part: its keep_in, region=eu, excludes the master"]
    rig.enroll(20)
    assert rig.term.tally.excluded(0.0) == []
