"""On which intervals a site votes, and what it holds that ends its votes."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.paths.site import Site
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.control.protocol.messages_register import Accept
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.register.support import JOB, ME, TERMS, A, B
from tests.control.register.test_votes import GRANT as FROM_FIVE
from tests.control.register.test_votes import GRANTED, Voter

MEMBERS = tuple(RosterEntry(number, contact, f"m{number}") for number, contact in enumerate((ME, A, B)))
ALL = 0b111


class Rig:
    """A site of a job with three members, which have sealed nothing yet."""

    def __init__(self, grant: VotingGrant = FROM_FIVE) -> None:
        self.voter = Voter(ME)
        self.terms: Terms = replace(TERMS, members=MEMBERS)
        value = replace(GRANTED, grant=grant)
        self.voter.registers.on_accept(A, Accept(JOB, Ballot(1, A.id, 1), value), b"")
        self.site = Site(self.voter.context, self.terms, grant, 5, self.voter.registers.votes)

    def collect(
        self,
        interval: int,
        mask: int,
        rev: int = 1,
        payload: bytes = b"",
        epoch: int = 1,
        empty: bool = False,
    ) -> None:
        """A part of one interval arrives; with `empty`, its members have no records."""
        entries = () if empty else (SegmentEntry(interval, (1,), len(payload), rev),)
        self.site.collect(0, Segment(epoch, 0, interval, interval + 1, bitmap_of(mask), entries), payload)
        self.site.advance()

    @property
    def voted(self) -> list[int]:
        return [record.index for record, _ in self.voter.registers.acceptors.chain(JOB).records]

    def orders(self) -> list[Finalise]:
        return [each for each in self.voter.context.out if isinstance(each, Finalise)]


def test_a_site_votes_when_it_has_the_contributions_of_all_members() -> None:
    rig = Rig()
    rig.collect(5, 0b011)
    assert rig.voted == [], "one member is missing, and a site gives up on none"
    rig.collect(5, 0b100)
    assert rig.voted == [5]
    ((record, _),) = rig.voter.registers.acceptors.chain(JOB).records
    assert (record.state, record.rev, record.completeness, record.epoch) == ("FINAL", 1, 1.0, 1)
    assert (record.before, record.since, record.absent, record.counts["contributed"]) == (4, None, b"", 2)


def test_intervals_are_voted_on_in_order_and_empty_ones_have_no_record() -> None:
    rig = Rig()
    rig.collect(7, ALL)
    assert rig.voted == []
    rig.collect(5, ALL, empty=True)
    rig.collect(6, ALL, empty=True)
    assert rig.voted == [7]


def test_a_site_does_not_vote_on_an_interval_with_a_revision() -> None:
    rig = Rig()
    rig.collect(5, 0b110)
    rig.collect(5, 0b001, rev=2)
    assert rig.voted == []


def test_a_site_does_not_vote_without_a_member_that_the_interval_does_not_require() -> None:
    rig = Rig()
    rig.collect(5, ALL | 0b1000)
    assert rig.voted == []


def test_parts_of_another_roster_epoch_do_not_count() -> None:
    rig = Rig()
    rig.collect(5, ALL, epoch=2)
    assert rig.voted == []


def test_rows_are_made_before_the_vote_and_rows_with_pages_are_the_masters() -> None:
    rig = Rig()
    rig.collect(5, ALL, payload=b"partial")
    (order,) = rig.orders()
    assert (order.interval, order.rev, order.epoch, rig.voted) == (5, 1, 1, [])
    rig.site.finalised(Finalised(JOB, 1, 5, b"", rev=1))
    assert rig.voted == [5]
    rig.collect(6, ALL, payload=b"partial")
    rig.site.finalised(Finalised(JOB, 1, 6, b"", rev=1, pages=(b"page",)))
    rig.collect(7, ALL)
    assert rig.voted == [5]


def test_a_site_begins_behind_the_records_of_another_voter() -> None:
    rig = Rig()
    rig.voter.cast(5, 4)
    rig.collect(6, ALL)
    assert rig.voted == [5, 6]
