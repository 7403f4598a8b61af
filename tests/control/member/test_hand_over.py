"""A member whose agent leaves at once: what is sealed, what is asked for, and when the agent may end."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.member.hand_over import ALONE, HOSTS_MIN, PATIENCE_S, UNACKNOWLEDGED, UNSEALED
from elfmesh.control.protocol.events import EndLog, LogEnded
from elfmesh.control.protocol.messages import Leaving, unpack
from elfmesh.control.protocol.messages_safety import Keep, Kept
from elfmesh.machine import Send
from elfmesh.overlay.events import Route
from tests.control.contexts import new_context
from tests.control.member.test_member import NUMBER
from tests.control.member.test_member import Rig as MemberRig
from tests.control.register.support import JOB, TERMS, run

PEERS = [new_context(number, f"r{number}").me for number in (5, 6, 7)]


class Rig(MemberRig):
    """A member beside three others; some of its intervals are sealed in time."""

    def __init__(self) -> None:
        super().__init__()
        self.number()
        self.seal(0, 2)
        self.up()

    def number(self, version: int = 1, until: int | None = None, **changes: Any) -> None:
        mine = RosterEntry(NUMBER, self.context.me, "m", 0, until, ahead=until is not None)
        others = [RosterEntry(10 + at, peer, f"p{at}") for at, peer in enumerate(PEERS)]
        members = (mine, *changes.pop("others", others))
        self.member.on_roster(replace(TERMS, version=version, members=members, **changes))

    def ended(self, stop: int) -> None:
        self.member.hand_over.ended(LogEnded(JOB, "i", stop))

    def left(self) -> Rig:
        """It has sealed up to 6 and knows that as its end."""
        self.member.hand_over.begin()
        self.seal(2, 6)
        self.ended(6)
        self.out()
        self.number(2, until=6)
        return self

    def kept(self, copies: list[tuple[int, Keep]], hosts: tuple[int, ...] = (0, 1, 2)) -> None:
        for host, copy in copies:
            if host in hosts:
                about = (copy.job, copy.incarnation, copy.number, copy.start, copy.rev, copy.epoch)
                self.member.copy_sender.on_kept(PEERS[host], Kept(*about))

    def has_left(self) -> bool:
        return self.member.has_left

    def asks(self) -> list[Leaving]:
        """Its requests for a last interval, to the root of the tree or to its master."""
        out = self.out()
        messages = [unpack(each.body) for each in out if isinstance(each, Route)]
        messages += [each.message for each in out if isinstance(each, Send)]
        return [each for each in messages if isinstance(each, Leaving)]

    def copies(self) -> list[tuple[int, Keep]]:
        return [(PEERS.index(to), message) for to, message in self.sent() if isinstance(message, Keep)]


def test_it_asks_for_its_last_interval_behind_everything_that_it_has_sealed() -> None:
    rig = Rig()
    rig.out()
    rig.member.hand_over.begin()
    assert EndLog(JOB, FIRST) in rig.out()
    rig.seal(2, 6)
    assert rig.up() == []
    rig.ended(6)
    (leaving,) = rig.asks()
    assert (leaving.frontier, leaving.ahead) == (6, True)


def test_what_is_sealed_ahead_goes_to_copy_hosts_and_up_no_tree() -> None:
    rig = Rig()
    rig.left()
    copies = rig.copies()
    assert len({host for host, _ in copies}) == HOSTS_MIN
    assert {(copy.start, copy.stop) for _, copy in copies} == {(0, 2), (2, 6)}, "also what went up before"
    assert rig.up() == []
    rig.number(3, until=6, epoch=2)
    assert [stop for _, _, _, stop in rig.up()] == [2], "to a new master what was sealed in time"


def ends_when_acknowledged() -> None:
    rig = Rig()
    rig.left()
    copies = rig.copies()
    assert not rig.has_left()
    assert rig.member.hand_over.problem == UNACKNOWLEDGED
    rig.kept(copies[:1])
    assert not rig.has_left()
    rig.kept(copies)
    assert rig.has_left()
    assert not rig.member.hand_over.problem


def test_it_ends_when_copy_hosts_have_acknowledged_everything() -> None:
    ends_when_acknowledged()


def test_a_last_interval_behind_what_was_read_is_sealed_as_well() -> None:
    rig = Rig()
    rig.member.hand_over.begin()
    rig.ended(2)
    rig.out()
    rig.number(2, until=4)
    assert EndLog(JOB, 4) in rig.out()
    rig.seal(2, 4)
    rig.kept(rig.copies())
    assert not rig.has_left()
    rig.ended(4)
    rig.kept(rig.copies())
    assert rig.has_left()


def test_a_member_whose_logs_do_not_end_waits_for_its_windows() -> None:
    rig = Rig()
    rig.member.hand_over.begin()
    assert rig.member.hand_over.problem == UNSEALED
    run(rig.context, rig.context.now + PATIENCE_S + 0.1)
    (leaving, *_) = rig.asks()
    assert (leaving.frontier, leaving.ahead) == (2, False)
    rig.ended(6)
    (leaving, *_) = rig.asks()
    assert (leaving.frontier, leaving.ahead) == (6, True), "it may end at once after all"


@pytest.mark.parametrize("others", [[], [RosterEntry(10, PEERS[0], "p", 0, 9)]])
def test_without_another_member_it_stays_and_states_the_reason(others: list[RosterEntry]) -> None:
    rig = Rig()
    rig.number(2, others=others)
    rig.member.hand_over.begin()
    rig.seal(2, 6)
    rig.ended(6)
    rig.number(3, until=6, others=others)
    assert rig.member.hand_over.problem == ALONE
    assert not rig.has_left()


def test_a_member_that_does_not_leave_at_once_has_no_copies_that_its_job_does_not_ask_for() -> None:
    rig = Rig()
    assert rig.member.hand_over.replicas == 0
    rig.ended(6)
    assert (rig.copies(), rig.member.hand_over.problem) == ([], "")
