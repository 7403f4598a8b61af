"""What a member asks its master about its place on the roster, when, and when again."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET
from msgspec.structs import replace

from elfmesh.control.jobs.policy import Policy
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import Gateway, Participant, PathLayout, RosterEntry, Terms
from elfmesh.control.member.roster_requests import CHECK_S, ENROLL_S, LEAVE_AGAIN_S, RosterRequests
from elfmesh.control.protocol.messages import TRIPS_MAX, Enroll, Leaving, unpack
from elfmesh.machine import Contact, Effect, Message, Send
from elfmesh.overlay.events import Route
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS, A, B, run

JITTER = 1.25


class Applicant:
    """What the requests say of a member."""

    def __init__(self) -> None:
        self.manifest, self.master = MANIFEST, A
        self.epoch, self.version, self.begun = 3, 5, 40
        self.terms: Terms | None = None
        self.is_expected = False
        self.frontier: int | None = None
        self.has_left = False


class Rig:
    """The requests of one member."""

    def __init__(self) -> None:
        self.context, self.member = new_context(1), Applicant()
        self.requests = RosterRequests(self.context, self.member)

    def number(self) -> None:
        self.member.is_expected = True

    def requested(self, until: float) -> list[tuple[str, Message]]:
        """What is routed to the job, or sent to its master, until then."""
        run(self.context, until)
        out, self.context.out = self.context.out, []
        return list(_requests_of(out))


def _requests_of(out: list[Effect]) -> Iterator[tuple[str, Message]]:
    for effect in out:
        if isinstance(effect, Route):
            assert effect.key == JOB
            yield "route", unpack(effect.body)
        elif isinstance(effect, Send):
            assert effect.to == A
            yield "send", effect.message


def test_a_member_enrols_with_the_roster_that_it_knows_and_where_its_worker_began() -> None:
    rig = Rig()
    rig.requests.enroll()
    participant = Participant(rig.context.me, rig.context.name, stands_by=True)
    assert rig.requested(0.0) == [("send", Enroll(JOB, "i", participant, 3, 5, 40))]


def test_an_agent_without_room_for_open_windows_of_others_states_that_it_is_no_standby() -> None:
    rig = Rig()
    rig.context.policy = Policy(standby_bytes=0)
    assert not rig.requests.enrolment().participant.stands_by


def test_a_member_without_a_number_asks_for_one_until_it_has_one() -> None:
    rig = Rig()
    rig.requests.begin()
    assert rig.requested(ENROLL_S - 0.01) == []
    assert rig.requested(ENROLL_S) == [("route", rig.requests.enrolment())]
    assert len(rig.requested(ENROLL_S + JITTER * ENROLL_S)) == 1
    rig.number()
    assert rig.requested(CHECK_S - 0.01) == []


def test_a_member_asks_now_and_then_whether_it_has_missed_anything() -> None:
    rig = Rig()
    rig.number()
    rig.requests.begin()
    assert rig.requested(CHECK_S - 0.01) == []
    checks = rig.requested(10 * CHECK_S)
    assert 8 <= len(checks) <= 10
    assert {message for _, message in checks} == {rig.requests.enrolment()}
    assert [how for how, _ in checks[:4]] == ["route", "send", "route", "send"]


def test_a_member_that_leaves_asks_its_master_and_the_root_of_the_tree_in_turn() -> None:
    rig = Rig()
    rig.number()
    rig.member.frontier = 60
    rig.requests.leave()
    leaving = Leaving(JOB, "i", rig.context.me, 3, 60)
    assert rig.requested(0.0) == [("route", leaving)]
    assert rig.requested(LEAVE_AGAIN_S - 0.01) == []
    asked = rig.requested(10 * LEAVE_AGAIN_S)
    assert [how for how, _ in asked] == ["send", "route"] * (len(asked) // 2) + ["send"] * (len(asked) % 2)
    assert len(asked) >= 7
    rig.member.has_left = True
    assert rig.requested(100.0) == []


def test_a_member_that_has_sealed_nothing_leaves_from_the_beginning() -> None:
    rig = Rig()
    rig.requests.leave()
    ((_, leaving),) = rig.requested(0.0)
    assert isinstance(leaving, Leaving)
    assert leaving.frontier == FIRST


def test_a_member_that_leaves_asks_for_nothing_else() -> None:
    rig = Rig()
    rig.requests.begin()
    rig.requests.leave()
    assert {type(message) for _, message in rig.requested(5 * CHECK_S)} == {Leaving}


def test_a_member_whose_intervals_are_closed_does_not_ask_for_its_end() -> None:
    rig = Rig()
    rig.member.has_left = True
    rig.requests.leave()
    assert rig.requests.leaving
    assert rig.requested(100.0) == []


def test_a_stopped_member_asks_for_nothing() -> None:
    rig = Rig()
    rig.requests.begin()
    rig.requests.stop()
    rig.requests.leave()
    assert rig.requested(100.0) == []
    assert rig.context.deadline is None


def test_a_request_goes_to_the_master_that_is_known_now() -> None:
    rig = Rig()
    rig.member.master = Contact(b"n" * 20, "sim", 9)
    rig.requests.enroll()
    (effect,) = rig.context.out
    assert isinstance(effect, Send)
    assert effect.to == rig.member.master


def test_a_member_of_a_job_with_a_layout_reports_round_trips_to_its_agents_first() -> None:
    rig = Rig()
    others = [new_context(10 + number).me for number in range(TRIPS_MAX + 8)]
    seconds = {each.id: 0.001 * number for number, each in enumerate(others, 1)} | {b"?" * 20: 0.5}
    rig.context.facts = lambda topic: {"seconds": seconds} if topic == "round trips" else {}
    members = tuple(RosterEntry(number, each, "m") for number, each in enumerate(others))
    left = RosterEntry(99, B, "left", until=3)
    terms = replace(TERMS, members=(*members, left))
    rig.member.terms = terms
    assert rig.requests.enrolment().trips is UNSET, "a job without a layout needs none"
    layout = PathLayout("region", (Gateway("eu", others[-1]),), (A, others[-2]))
    rig.member.terms = replace(terms, layout=layout)
    trips = rig.requests.enrolment().trips
    assert trips is not UNSET
    assert trips[:2] == ((others[-1].id, 1000 * len(others)), (others[-2].id, 1000 * (len(others) - 1)))
    assert len(trips) == TRIPS_MAX
    assert {agent for agent, _ in trips} <= {each.id for each in others}
