"""Acceptors close complete intervals by votes under a grant, and a proposer keeps what they have closed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.context import Alarm
from elfmesh.control.jobs.pages import count_frames
from elfmesh.control.jobs.register_value import RegisterCell, read_tail
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.messages_register import (
    Accept,
    CumulativeVote,
    Prepare,
    Promised,
)
from elfmesh.control.register.changes import Change, ChangeRefused, Close, TakeOver
from elfmesh.control.register.voted_chain import RECORDS_MAX
from elfmesh.control.register.votes import AGAIN_S, ALONE
from elfmesh.machine import Contact, Send
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.control.register.support import GRANT, JOB, ME, TERMS, VALUE, A, B, Voter, Voters, record


def test_a_majority_of_votes_closes_an_interval_at_all_voters() -> None:
    voters = Voters()
    assert voters[ME].cast(5, 4)
    voters.settle()
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], [5]], "the others take its record"
    assert voters[A].cast(7, 5)
    assert voters[A].cast(7, 5), "it has voted already"
    voters.settle()
    assert [each.closed for each in voters.by_id.values()] == [[5, 7]] * 3
    first = [each.registers.votes.first_votes(JOB) for each in voters.by_id.values()]
    assert first[:2] == [{ME.id: 0.5, A.id: 0.5, B.id: 0.0}] * 2
    voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert voters[ME].registers.votes.first_votes(JOB) == first[0], "until there are votes after the fold"
    assert voters[ME].registers.votes.first_votes(bytes(20)) == {}, "no grant"


def records_sent(voters: Voters) -> int:
    """Return how many records votes and folds have brought since the last call."""
    found, voters.sent = voters.sent, []
    return sum(
        count_frames(payload)
        for message, payload in found
        if isinstance(message, CumulativeVote | Promised | Accept)
    )


def test_votes_of_sites_that_have_made_a_record_do_not_bring_it() -> None:
    voters = Voters()
    for contact in (ME, A, B):
        voters[contact].cast(5, 4)
    voters.settle()
    voters.pass_time(AGAIN_S + 0.01)
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], [5]]
    assert records_sent(voters) == 0


def test_a_voter_that_takes_records_of_another_gets_the_next_ones_with_the_vote() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4)
    voters.deliver()
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], []]
    assert records_sent(voters) == 0
    voters.settle()
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], [5]]
    assert records_sent(voters) == 1, "B has asked one voter"
    voters[ME].cast(6, 5)
    voters.deliver()
    assert voters[B].closed == [5, 6], "without a pause and another round trip"
    assert records_sent(voters) == 1
    voters[B].cast(7, 6)
    voters[ME].cast(7, 6)
    voters.settle()
    assert voters[A].closed == [5, 6, 7]
    records_sent(voters)
    for contact in (ME, A, B):
        voters[contact].cast(8, 7)
    voters.settle()
    assert records_sent(voters) == 2, "A and B have lacked one of the last records"


def test_a_voter_asks_until_it_has_made_some_records_in_turn_also_over_a_fold() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4)
    voters.settle()
    assert records_sent(voters) == 1
    for contact in (ME, A, B):
        voters[contact].cast(6, 5)
    voters.settle()
    assert records_sent(voters) == 1, "the first vote to B"
    voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    records_sent(voters)
    for index in range(7, 7 + ALONE):
        for contact in (B, ME, A):
            voters[contact].cast(index, index - 1)
        voters.settle()
        assert records_sent(voters) == (index < 6 + ALONE)
    assert [each.closed for each in voters.by_id.values()] == [[*range(5, 7 + ALONE)]] * 3


def test_a_voter_asks_once_for_a_record_that_it_does_not_take() -> None:
    voters = Voters()
    voters[B].refuses = {5}
    for index in (5, 6, 7):
        voters[ME].cast(index, index - 1)
        voters[A].cast(index, index - 1)
        voters.settle()
    asked = [message for message, _ in voters.sent if isinstance(message, CumulativeVote) and message.asks]
    assert len(asked) == 1


def test_a_voter_of_an_earlier_release_which_does_not_ask_gets_the_record_with_the_repeated_vote() -> None:
    voters = Voters()
    voters[B].registers.votes._ask_alarm = Alarm(voters[B].context, lambda: None)
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4)
    voters.settle()
    assert voters[B].closed == []
    voters.pass_time(AGAIN_S + 0.01)
    assert voters[B].closed == [5]


def test_a_fold_sends_no_record_that_the_other_side_has() -> None:
    voters = Voters()
    for index in (5, 6):
        for contact in (ME, A, B):
            voters[contact].cast(index, index - 1)
        voters.settle()
    voters.sent = []
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert [each.index for each, _ in read_tail(cell)] == [5, 6]
    assert [each.registers.acceptors.vote(JOB).value for each in voters.by_id.values()] == [cell] * 3
    assert all(message.terms is None for message, _ in voters.sent if isinstance(message, Promised))
    assert records_sent(voters) == 0
    cell = voters.change(A, Close("i", 1, 0, 7, 6, 6))
    assert (cell.value.latest, cell.value.grant) == (6, None)
    assert records_sent(voters) == 2 * 2, "no acceptor has voted on anything: its tail is sent, as before"


def test_a_fold_sends_what_one_side_lacks() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4)
    voters.deliver()
    voters.cut = {(ME.id, A.id), (ME.id, B.id)}
    voters[ME].cast(6, 5)
    voters.deliver()
    voters.cut = set()
    voters.sent = []
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT), (ME, A))
    assert [each.index for each, _ in read_tail(cell)] == [5, 6]
    promised = [payload for message, payload in voters.sent if isinstance(message, Promised)]
    assert sorted(count_frames(payload) for payload in promised) == [0, 1], "6 of ME alone"
    assert any(payload for message, payload in voters.sent if isinstance(message, Accept))


def test_an_acceptor_that_has_written_the_rows_in_another_way_gets_the_tail() -> None:
    """Releases of the Arrow library may write equal rows differently; the digest of a tail is of bytes."""
    voters = Voters()
    table = pa.table({"n": [1, 2]})
    written = {
        ME: table_to_ipc(table),
        A: table_to_ipc(table),
        B: table_to_ipc(table.replace_schema_metadata({"written": "by another release"})),
    }
    for contact, rows in written.items():
        voters[contact].registers.votes.cast(JOB, record(5, 4), rows)
    voters.settle()
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], [5]]
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    voters.pass_time(1.0)
    assert [each.registers.acceptors.vote(JOB).value for each in voters.by_id.values()] == [cell] * 3
    assert voters[B].context.stats["control.votes_behind"] == 1


def test_one_vote_closes_nothing_and_reaches_the_others_when_they_are_back() -> None:
    voters = Voters()
    voters.cut = {(ME.id, A.id), (ME.id, B.id)}
    voters[ME].cast(5, 4)
    voters[ME].cast(6, 5)
    voters.deliver()
    assert [each.closed for each in voters.by_id.values()] == [[], [], []]
    voters.cut = set()
    voters.pass_time(AGAIN_S + 0.01)
    assert [each.closed for each in voters.by_id.values()] == [[5, 6]] * 3


def test_a_voter_knows_the_votes_on_an_open_interval() -> None:
    voters = Voters()
    votes = voters[ME].registers.votes
    assert votes.voters_on(JOB, 5) == ((), VALUE.acceptors)
    voters.cut = {(ME.id, A.id), (ME.id, B.id)}
    voters[ME].cast(5, 4)
    voters[ME].cast(7, 5)
    voters.deliver()
    others = tuple(each for each in VALUE.acceptors if each.id != ME.id)
    for index in (5, 6, 7):
        assert votes.voters_on(JOB, index) == ((ME,), others), "the record of 7 has 6 too"
    assert votes.voters_on(JOB, 8) == ((), VALUE.acceptors)
    voters.cut = set()
    voters.pass_time(AGAIN_S + 0.01)
    assert votes.voters_on(JOB, 7) == (VALUE.acceptors, ())
    voters.change(A, Close("i", 1, 0, 5, 4, 4))
    assert votes.voters_on(JOB, 8) is None


def test_a_vote_is_on_disk_before_it_is_sent_and_survives_a_restart() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    kinds = [type(each) for each in voters[ME].context.out]
    assert kinds.index(Persist) < kinds.index(Send)
    again = Voter(ME)
    again.registers.acceptors.restored(JOB, voters[ME].stored())
    assert again.registers.acceptors.chain(JOB) == voters[ME].registers.acceptors.chain(JOB)
    assert again.cast(6, 5), "a restart takes no vote back and ends no voting"


def test_a_vote_carries_the_number_of_votes_of_its_sender() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    count = voters[ME].registers.acceptors.count
    voters.deliver()
    assert voters[A].registers.counts.seen(ME.id).votes == count


def test_a_promise_ends_the_votes_and_no_vote_is_made_without_a_grant() -> None:
    voters = Voters()
    higher = Ballot(2, B.id, 1)
    voters[ME].registers.on_prepare(B, Prepare(JOB, higher), b"")
    assert not voters[ME].cast(5, 4)
    voters.change(A, Close("i", 1, 0, 5, 4, 4))
    assert not voters[A].cast(5, 4)


def test_an_acceptor_does_not_take_a_record_that_leaves_out_what_it_holds() -> None:
    voters = Voters()
    voters[A].refuses = {5}
    voters[ME].cast(5, 4)
    voters.settle()
    assert not voters[A].registers.acceptors.chain(JOB).links
    assert [each.closed for each in voters.by_id.values()] == [[5], [], [5]], "it learns of it by a change"


def test_a_record_that_does_not_follow_the_last_one_is_no_vote() -> None:
    voters = Voters()
    assert not voters[ME].cast(6, 5)
    assert voters[ME].cast(6, 4)


@pytest.mark.parametrize(
    "change", [TakeOver("i", B, 1), Close("i", 1, 0, 5, 4, 4)], ids=["takes over", "ends"]
)
def test_the_next_value_has_what_votes_have_closed_and_no_grant(change: Change) -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    voters[ME].cast(6, 5)
    voters.deliver()
    cell = voters.change(B, change)
    assert [each.index for each, _ in read_tail(cell)] == [5, 6]
    assert (cell.value.latest, cell.value.closed, cell.value.grant) == (6, 7, None)
    assert cell.value.epoch == (2 if isinstance(change, TakeOver) else 1)


def test_the_next_value_has_a_single_vote_too_because_a_majority_may_have_voted_so() -> None:
    voters = Voters()
    voters.cut = {(ME.id, A.id), (ME.id, B.id)}
    voters[ME].cast(5, 4)
    voters.deliver()
    voters.cut = {(A.id, B.id), (B.id, A.id)}
    cell = voters.change(B, TakeOver("i", B, 1))
    assert cell.value.latest == 5


def test_a_grant_goes_on_over_a_fold_and_the_votes_begin_behind_it() -> None:
    voters = Voters()
    voters[ME].cast(5, 4)
    voters.settle()
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert (cell.value.grant, cell.value.latest) == (GRANT, 5)
    assert not voters[ME].registers.acceptors.chain(JOB).links
    assert voters[B].cast(8, 5)
    voters.settle()
    assert [each.closed for each in voters.by_id.values()] == [[5, 8]] * 3
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert [each.index for each, _ in read_tail(cell)] == [8], "earlier records are in the logs"


def test_after_votes_that_differ_all_voters_are_needed_and_the_grant_ends() -> None:
    voters = Voters()
    voters.cut = {(ME.id, A.id), (ME.id, B.id), (A.id, ME.id), (B.id, ME.id)}
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4, "made again after its frame was damaged")
    voters.settle()
    assert [voters[each].closed for each in (ME, A, B)] == [[], [5], [5]]
    voters.cut = {(A.id, B.id), (B.id, A.id), (A.id, ME.id)}
    outcomes: list[RegisterCell | ChangeRefused] = []
    proposer = voters[ME].registers.proposer(JOB, (ME, A, B))
    proposer.submit(Close("i", 1, 0, 5, 4, 4, grant=GRANT), outcomes.append, TERMS)
    voters.pass_time(1.0)
    assert outcomes == [], "which record a majority has cannot be known without A"
    voters.cut = set()
    voters.pass_time(3.0)
    (cell,) = outcomes
    assert isinstance(cell, RegisterCell)
    assert [each.reason for each, _ in read_tail(cell)] == ["made again after its frame was damaged"]
    assert cell.value.grant is None
    assert voters[ME].context.stats["control.votes_differ"] >= 1


def test_foreign_and_damaged_votes_are_counted_and_change_nothing() -> None:
    voters = Voters()
    stats = voters[ME].context.stats
    vote = CumulativeVote(JOB, "i", voters.ballot, (b"x" * 32,))
    on_vote = voters[ME].registers.votes.on_cumulative_vote
    on_vote(Contact(b"\t" * 20, "sim", 9), vote, b"")
    assert stats["control.misplaced"] == 1
    on_vote(A, replace(vote, ballot=Ballot(7, A.id, 1)), b"")
    assert stats["control.stray_votes"] == 1
    on_vote(A, vote, b"damaged")
    assert stats["control.malformed"] == 1
    chain = voters[B].registers.acceptors.chain(JOB).extended(record(5, 4), b"")
    on_vote(A, replace(vote, links=(b"x" * 32,)), chain.page())
    assert stats["control.malformed"] == 2
    assert not voters[ME].registers.acceptors.chain(JOB).links


def test_a_vote_of_more_records_than_an_acceptor_votes_on_is_counted_and_changes_nothing() -> None:
    """Comparing chains costs the square of their links, so that a long one would stop the agent."""
    voters = Voters()
    vote = CumulativeVote(JOB, "i", voters.ballot, (b"x" * 32,) * (RECORDS_MAX + 1))
    on_vote = voters[ME].registers.votes.on_cumulative_vote
    on_vote(A, vote, b"")
    assert voters[ME].context.stats["control.malformed"] == 1
    assert voters[ME].registers.votes.voters_on(JOB, 5) == ((), VALUE.acceptors)
    on_vote(A, replace(vote, links=vote.links[1:]), b"")
    assert voters[ME].context.stats["control.malformed"] == 1
    assert len(voters[ME].registers.votes.voters_on(JOB, 5)[0]) == 1  # type: ignore[index]  # there is a grant
