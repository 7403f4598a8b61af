"""Records that are ready become final when the register has closed their intervals, in order and once."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.closing.commit import FOLD_RECORDS, VOTED_S, WATERMARK_S, Committer
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.protocol.events import LOG_PAGE_BYTES_MAX
from elfmesh.control.register.changes import ChangeRefused, Close
from tests.control.contexts import new_context
from tests.control.register.support import TERMS, VALUE, Register, run, with_tail


class Rig:
    """A committer, its register, and what it tells the master.

    Attributes:
        published_records: what is final, with its rows in `rows`.
        counts: of the records that each change has closed.
        refusals: of changes, because another agent leads.
    """

    def __init__(self, closed: int = 5, latest: int | None = 4) -> None:
        self.context = new_context(1)
        self.terms = replace(TERMS, version=2)
        self.register = Register(replace(VALUE, closed=closed, latest=latest))
        self.published_records: list[ResultRecord] = []
        self.rows: list[bytes] = []
        self.counts: list[int] = []
        self.refusals: list[ChangeRefused] = []
        self.granted: VotingGrant | None = None
        self.votes: list[ResultRecord] = []
        self.may_vote = True
        self.adopted_records: list[int] = []
        self.committer = Committer(self.context, self.register.proposer, self.register.cell, self)

    def published(self, record: ResultRecord, rows: bytes) -> None:
        self.published_records.append(record)
        self.rows.append(rows)

    def committed(self, count: int) -> None:
        self.counts.append(count)

    def deposed(self, refused: ChangeRefused) -> None:
        self.refusals.append(refused)

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        self.votes.append(record)
        return self.may_vote

    def adopted(self, record: ResultRecord) -> None:
        self.adopted_records.append(record.index)

    def grant(self, record: ResultRecord, rows: bytes, closed: int) -> VotingGrant | None:
        return self.granted

    def add(self, *indices: int, rows: bytes = b"rows", opened: bytes = b"") -> None:
        for index in indices:
            self.committer.add(ResultRecord(job="shop/top", index=index, open=opened), rows)

    @property
    def change(self) -> Close:
        """The one change that is under way."""
        (change,) = self.register.changes
        assert isinstance(change, Close)
        return change

    def indices(self) -> list[int]:
        return [record.index for record in self.published_records]


def test_a_record_is_published_when_the_register_has_closed_its_interval_and_not_before() -> None:
    rig = Rig()
    rig.add(7)
    assert (rig.change.closed, rig.change.before, rig.change.latest) == (8, 4, 7)
    assert (rig.change.epoch, rig.change.incarnation, rig.change.roster) == (1, "i", 2)
    assert rig.register.terms == rig.terms
    assert (rig.indices(), rig.committer.closed) == ([], 5)
    rig.register.decide()
    assert (rig.indices(), rig.rows, rig.counts) == ([7], [b"rows"], [1])
    assert rig.committer.closed == 8
    assert rig.published_records[0].before == 4


def test_records_that_become_ready_meanwhile_are_closed_by_one_change() -> None:
    rig = Rig()
    rig.add(5, 6, 7)
    assert [record.index for record, _ in decode_page(rig.change.tail)] == [5]
    rig.register.decide()
    assert [(record.index, record.before) for record, _ in decode_page(rig.change.tail)] == [(6, 5), (7, 6)]
    assert rig.counts == [1]
    rig.register.decide()
    assert (rig.indices(), rig.counts, rig.register.changes) == ([5, 6, 7], [1, 2], [])


def test_open_sessions_are_in_the_register_behind_the_newest_record_alone_and_in_no_log() -> None:
    rig = Rig()
    rig.add(5, 6, 7, opened=b"open")
    rig.register.decide()
    assert [record.open for record, _ in decode_page(rig.change.tail)] == [b"", b"open"]
    rig.register.decide()
    assert [record.open for record in rig.published_records] == [b"", b"", b""]


def test_a_change_has_as_many_rows_as_a_page_of_the_log_and_at_least_one_record() -> None:
    rig = Rig()
    half = LOG_PAGE_BYTES_MAX // 2
    rig.add(5)
    rig.add(6, 7, 8, rows=b"r" * half)
    rig.add(9, rows=b"r" * (LOG_PAGE_BYTES_MAX + 1))
    for indices in ([5], [6, 7], [8], [9]):
        assert [record.index for record, _ in decode_page(rig.change.tail)] == indices
        rig.register.decide()
    assert rig.indices() == [5, 6, 7, 8, 9]


def test_a_refused_change_publishes_nothing_and_ends_the_term() -> None:
    rig = Rig()
    rig.add(5, 6)
    rig.register.refuse()
    assert len(rig.refusals) == 1
    assert (rig.indices(), rig.counts, rig.register.changes) == ([], [], [])


def test_a_stopped_committer_publishes_nothing_that_is_decided_later() -> None:
    rig = Rig()
    called: list[str] = []
    rig.add(5, 6)
    rig.committer.confirm(lambda: called.append("confirmed"))
    rig.committer.stop()
    rig.register.decide()
    rig.add(7)
    rig.committer.reached(20)
    run(rig.context, 10.0)
    assert (rig.indices(), rig.counts, called, rig.register.changes) == ([], [], [], [])


def test_intervals_without_a_record_are_closed_a_little_later_by_a_change_of_their_own() -> None:
    rig = Rig()
    rig.committer.reached(9)
    rig.committer.reached(11)
    rig.committer.reached(10)
    run(rig.context, WATERMARK_S - 0.01)
    assert rig.register.changes == []
    run(rig.context, WATERMARK_S)
    assert (rig.change.closed, rig.change.before, rig.change.latest, rig.change.tail) == (11, 4, 4, b"")
    rig.register.decide()
    assert (rig.committer.closed, rig.counts, rig.indices()) == (11, [0], [])
    run(rig.context, 10.0)
    assert rig.register.changes == []


def test_intervals_without_a_record_go_with_the_record_behind_them() -> None:
    rig = Rig()
    rig.committer.reached(9)
    rig.add(12)
    assert rig.change.closed == 13
    rig.register.decide()
    run(rig.context, 10.0)
    assert rig.register.changes == []


def test_what_the_register_has_closed_already_is_not_closed_again() -> None:
    rig = Rig()
    rig.committer.reached(5)
    run(rig.context, 10.0)
    assert rig.register.changes == []


def test_terms_are_confirmed_when_the_register_has_their_roster() -> None:
    rig = Rig()
    called: list[str] = []
    rig.committer.confirm(lambda: called.append("first"))
    assert (rig.change.roster, rig.change.closed, rig.change.tail) == (2, 5, b"")
    assert called == []
    rig.register.decide()
    assert called == ["first"]
    assert rig.register.changes == []


def test_terms_that_have_changed_meanwhile_are_confirmed_by_the_next_change() -> None:
    rig = Rig()
    called: list[str] = []
    rig.committer.confirm(lambda: called.append("first"))
    rig.terms = replace(rig.terms, version=3)
    rig.committer.confirm(lambda: called.append("second"))
    rig.register.decide()
    assert called == ["first"], "the change that is through has the older roster"
    assert rig.change.roster == 3
    rig.register.decide()
    assert (called, rig.register.changes) == (["first", "second"], [])


def test_a_deposed_committer_confirms_nothing() -> None:
    rig = Rig()
    called: list[str] = []
    rig.committer.confirm(lambda: called.append("confirmed"))
    rig.register.refuse()
    assert (called, len(rig.refusals)) == ([], 1)


def test_a_committer_reports_for_how_long_the_voters_have_not_answered() -> None:
    rig = Rig()
    rig.context.now = 10.0
    rig.add(5)
    rig.context.now = 13.0
    assert rig.committer.unanswered_s == 3.0
    rig.register.decide()
    assert rig.committer.unanswered_s == 0.0


def test_a_committer_goes_on_with_the_value_that_another_change_has_left() -> None:
    rig = Rig()
    rig.register.cell = RegisterCell(replace(VALUE, latest=6, closed=7))
    rig.committer.changed(rig.register.cell)
    assert rig.committer.closed == 7
    rig.add(8)
    assert (rig.change.before, rig.change.latest) == (6, 8)
    rig.register.decide()
    assert rig.published_records[0].before == 6


def test_the_first_record_of_a_job_has_none_before_it() -> None:
    rig = Rig(closed=0, latest=None)
    rig.add(3)
    assert rig.change.before is None
    rig.register.decide()
    assert rig.published_records[0].before is None


GRANT = VotingGrant(1, 1, 2, 8)


def granted() -> Rig:
    """A committer whose register holds a grant, behind the record of interval 7."""
    rig = Rig()
    rig.granted = GRANT
    rig.add(7)
    assert rig.change.grant == GRANT
    rig.register.decide()
    assert rig.committer.is_granted
    return rig


def voted_records(rig: Rig, *indices: int) -> None:
    rig.committer.voted(tuple((ResultRecord(job="shop/top", index=each), b"voted") for each in indices))


def test_under_a_grant_a_record_is_a_vote_and_published_when_votes_have_closed_it() -> None:
    rig = granted()
    rig.add(8, 9)
    assert [(each.index, each.before) for each in rig.votes[-2:]] == [(8, 7), (9, 8)]
    assert (rig.register.changes, rig.indices()) == ([], [7])
    voted_records(rig, 8, 9)
    assert (rig.indices(), rig.rows[1:], rig.adopted_records) == ([7, 8, 9], [b"voted"] * 2, [])
    assert (rig.committer.closed, rig.counts[-2:]) == (10, [1, 1])
    run(rig.context, rig.context.now + 2 * VOTED_S)
    assert rig.register.changes == []


def test_a_record_that_the_others_have_closed_first_is_adopted_and_once() -> None:
    rig = granted()
    voted_records(rig, 8)
    voted_records(rig, 8)
    assert (rig.indices(), rig.adopted_records, rig.committer.closed) == ([7, 8], [8], 9)
    rig.add(10)
    assert rig.votes[-1].before == 8


def test_a_record_on_which_no_site_may_vote_ends_the_grant_and_is_closed_by_the_master() -> None:
    rig = granted()
    rig.may_vote = False
    rig.add(8)
    assert (rig.change.tail, rig.change.grant) == (b"", None)
    rig.granted = None
    rig.register.decide()
    assert [record.index for record, _ in decode_page(rig.change.tail)] == [8]
    rig.register.decide()
    assert rig.indices() == [7, 8]


def test_a_record_without_enough_votes_ends_the_grant_and_what_was_voted_is_published() -> None:
    rig = granted()
    rig.add(8)
    run(rig.context, rig.context.now + VOTED_S + 0.01)
    assert (rig.change.tail, rig.change.grant) == (b"", None)
    value, page = with_tail(rig.register.cell.value, 7, 8)
    rig.register.cell = RegisterCell(value, page)
    rig.register.decide()
    assert (rig.indices(), rig.register.changes) == ([7, 8], []), "the register has folded the votes"
    assert not rig.committer.is_granted


def test_voted_records_are_folded_from_time_to_time_under_the_same_grant() -> None:
    rig = granted()
    voted_records(rig, *range(8, 8 + FOLD_RECORDS))
    assert (rig.change.tail, rig.change.grant) == (b"", GRANT)
    rig.register.decide()
    assert rig.register.changes == []


def test_a_grant_of_another_roster_is_not_kept() -> None:
    rig = granted()
    rig.terms = replace(rig.terms, version=3)
    rig.committer.confirm(lambda: None)
    assert rig.change.grant is None


def test_a_change_of_the_roster_waits_until_no_votes_can_close_an_interval() -> None:
    rig = granted()
    called: list[str] = []
    rig.committer.without_grant(lambda: called.append("now"))
    assert called == []
    assert rig.change.grant is None
    rig.register.decide()
    assert called == ["now"]
    rig.committer.without_grant(lambda: called.append("at once"))
    assert called == ["now", "at once"]


def test_a_change_of_the_roster_waits_also_for_a_grant_whose_outcome_is_not_known() -> None:
    rig = Rig()
    rig.granted = GRANT
    called: list[str] = []
    rig.add(7)
    rig.committer.without_grant(lambda: called.append("now"))
    rig.register.decide()
    assert called == []
    rig.register.decide()
    assert called == ["now"]


def test_a_change_of_the_voters_ends_the_grant_and_leaves_what_they_have_voted() -> None:
    rig = granted()
    value, page = with_tail(rig.register.cell.value, 7, 8)
    rig.committer.changed(RegisterCell(replace(value, grant=None), page))
    assert (rig.indices(), rig.committer.is_granted) == ([7, 8], False)
