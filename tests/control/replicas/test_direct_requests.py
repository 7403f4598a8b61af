"""The second way of contributions: which missing members the master asks directly, and how many at a time."""

from __future__ import annotations

from elfmesh.control.protocol.messages_standby import ContributionRequest
from elfmesh.control.replicas.direct_requests import AGAIN_S, ASKED_MAX, EXPECTED_BYTES_MAX, DirectRequests
from elfmesh.machine import Send
from tests.control.closing.rig import START, ClosingRig
from tests.control.member.support import TEXT


class Rig(ClosingRig):
    """A job of some members, of which none is inside yet."""

    def __init__(self, members: int = 4) -> None:
        super().__init__(TEXT, members)
        about, policy = (self.manifest.job_id, 3), self.collection.straggler_policy
        self.requests = DirectRequests(self.context, about, self.book, self.term.rates, policy.dead_since)

    def ask(self, missing: int, at: int = START, *, answer_bytes: int = 0) -> list[int]:
        """The numbers of the members that are asked, in order."""
        self.again_at = self.requests.ask(missing, at, answer_bytes)
        sent = [each for each in self.context.out if isinstance(each, Send)]
        self.context.out = []
        about = (self.manifest.job_id, 3, at)
        assert all(each.message == ContributionRequest(*about) for each in sent)
        by_contact = {entry.contact: entry.number for entry in self.book.entries}
        return [by_contact[each.to] for each in sent]


def test_a_missing_member_is_asked_once_in_a_while_and_for_each_interval() -> None:
    rig = Rig()
    assert rig.ask(0b0110) == [1, 2]
    assert rig.again_at == AGAIN_S
    assert rig.ask(0b0110) == []
    assert rig.ask(0b0100, START + 1) == [2]
    rig.context.now = AGAIN_S
    assert rig.ask(0b0110) == [1, 2]


def test_members_with_most_records_are_asked_first() -> None:
    rig = Rig()
    rig.term.rates.reported(2, (5.0, 6.0))
    rig.term.rates.reported(3, (7.0,))
    assert rig.ask(0b1111) == [2, 3, 0, 1]


def test_members_that_are_dead_or_have_left_at_once_are_not_asked() -> None:
    rig = Rig()
    rig.book.evict(2, START + 5, ahead=True)
    rig.kill(1)
    assert rig.ask(0b0111) == [0]


def test_a_thousand_missing_members_are_asked_a_few_at_a_time() -> None:
    rig = Rig(1000)
    everyone = (1 << 1000) - 1
    first = rig.ask(everyone)
    assert len(first) == ASKED_MAX
    answered = sum(1 << number for number in first[:100])
    assert len(rig.ask(everyone & ~answered)) == 100, "as many as have answered"


def test_the_bytes_of_the_answers_are_limited() -> None:
    rig = Rig(40)
    assert len(rig.ask((1 << 40) - 2, answer_bytes=EXPECTED_BYTES_MAX // 5)) == 5
    assert EXPECTED_BYTES_MAX == 16 << 20
