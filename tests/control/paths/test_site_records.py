"""On which intervals a site votes, and what it holds that ends its votes."""

from __future__ import annotations

import pyarrow as pa
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.paths.site import Site
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.control.protocol.messages_register import Accept
from elfmesh.ql.values.plain_ipc import table_to_ipc
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.register.support import GRANT as FROM_FIVE
from tests.control.register.support import GRANTED, JOB, ME, TERMS, A, B, Voter

MEMBERS = tuple(RosterEntry(number, contact, f"m{number}") for number, contact in enumerate((ME, A, B)))
ALL = 0b111
WIDTH_US, ROWS = 10_000_000, table_to_ipc(pa.table({"n": [3]}))
OF_MEMBERS: Terms = replace(TERMS, members=MEMBERS)
READER = "CREATE JOB shop.top EVERY '10 s' PATHS 3 AS SELECT sum(n) AS n FROM shop.hits"


class Rig:
    """A site of a job with three members, which have sealed nothing yet."""

    def __init__(self, grant: VotingGrant = FROM_FIVE, terms: Terms = OF_MEMBERS) -> None:
        self.voter, self.terms = Voter(ME), terms
        value = replace(GRANTED, grant=grant)
        self.voter.registers.on_accept(A, Accept(JOB, Ballot(1, A.id, 1), value), b"")
        self.site = Site(self.voter.context, self.terms, grant, 5, self.voter.registers.votes, self._note)
        self.shown = list[tuple[int, str, int, float]]()

    def _note(self) -> None:
        """A reader of tentative records asks for the newest one."""
        *_, (_, record, _) = self.site.lines.since(0, 0, early=False)
        self.shown.append((record.index, record.state, record.rev, record.completeness))

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


def open_until_closed() -> None:
    """Point 13: a complete record is shown as tentative, once, until its interval is closed."""
    rig = Rig()
    rig.collect(5, 0b011)
    assert rig.shown == [], "it is not complete"
    rig.collect(5, 0b100)
    rig.collect(6, ALL)
    assert rig.shown == [(5, "TENTATIVE", 1, 1.0), (6, "TENTATIVE", 1, 1.0)]
    rig.site.on_closed(5)
    assert [record.index for _, record, _ in rig.site.lines.since(0, 0, early=False)] == [6]


def test_a_complete_record_is_shown_as_tentative_until_its_interval_is_closed() -> None:
    open_until_closed()


def test_a_record_that_is_closed_is_not_shown() -> None:
    rig = Rig()
    rig.site.on_closed(5)
    rig.collect(5, ALL)
    assert (rig.voted, rig.shown) == ([5], [])


class ReadingRig(Rig):
    """A site of a job that reads `shop.hits`, whose intervals are as wide."""

    def __init__(self) -> None:
        manifest = new_manifest(read_job(READER)[0], READER, "local", created=1, incarnation="i")
        super().__init__(terms=replace(TERMS, manifest=replace(manifest, version=TERMS.manifest.version)))
        assert self.site._source is not None
        (self.upstream,) = self.site._source._reads

    def closed(self, *records: ResultRecord, upto: int) -> None:
        """The job that is read has closed everything below `upto`, with these records."""
        self.upstream.take([(record, ROWS) for record in records], WIDTH_US)
        self.upstream.until_us = upto * WIDTH_US
        self.site.advance()

    def make(self) -> list[int]:
        """The rows that are ordered are made; return their intervals."""
        orders = self.orders()
        self.voter.context.out.clear()
        for each in orders:
            self.site.finalised(Finalised(JOB, 1, each.interval, ROWS, rev=1))
        return [each.interval for each in orders]


def reads_whole_records() -> None:
    """Point 17: a site of a job that reads jobs votes if all records of the interval are complete."""
    rig = ReadingRig()
    rig.closed(upto=6)
    assert rig.orders() == [], "an interval without records has none"
    rig.closed(ResultRecord(job="shop/hits", index=6), upto=7)
    assert (rig.make(), rig.voted) == ([6], [6])
    partial = ResultRecord(job="shop/hits", index=7, state="FINAL_PARTIAL", completeness=0.5, missing=["m2"])
    rig.closed(partial, upto=8)
    rig.closed(ResultRecord(job="shop/hits", index=8), upto=9)
    assert (rig.make(), rig.voted) == ([], [6]), "the master closes what is not complete"
    assert rig.shown == [(6, "TENTATIVE", 1, 1.0)]


def test_a_site_of_a_job_that_reads_jobs_votes_on_what_is_complete() -> None:
    reads_whole_records()


def test_a_site_of_a_job_that_reads_jobs_begins_at_the_first_open_interval_and_ends_its_requests() -> None:
    rig = ReadingRig()
    assert rig.upstream.until_us == 5 * WIDTH_US
    rig.site.stop()
    rig.closed(ResultRecord(job="shop/hits", index=6), upto=7)
    assert rig.orders() == []
