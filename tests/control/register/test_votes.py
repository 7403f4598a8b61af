"""Acceptors close complete intervals by votes under a grant, and a proposer keeps what they have closed."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell, read_tail
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.messages_register import (
    Accept,
    CumulativeVote,
    Prepare,
)
from elfmesh.control.register.changes import Change, ChangeRefused, Close, TakeOver
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.voted_chain import RECORDS_MAX
from elfmesh.control.register.votes import AGAIN_S, Records
from elfmesh.machine import Contact, Send
from tests.control.register.support import JOB, ME, TERMS, VALUE, A, B, Held, run

GRANT = VotingGrant(1, 1, 0, 5)
GRANTED = replace(VALUE, closed=5, latest=4, grant=GRANT)


def record(index: int, before: int | None, reason: str = "") -> ResultRecord:
    return ResultRecord(job="shop/top", index=index, before=before, epoch=1, reason=reason)


class Voter:
    """One agent with its votes."""

    def __init__(self, me: Contact) -> None:
        self.me = me
        self.context = Context(me, "voter", random.Random(me.id), lambda topic: {})
        self.held = Held(self.context, latest=4)
        self.registers = Registers(self.context, self.held)
        self.registers.votes.closed = self._closed
        self.closed: list[int] = []
        self.refuses: set[int] = set()
        self.registers.votes.leaves_out = lambda job, record: record.index in self.refuses

    def _closed(self, job: bytes, records: Records) -> None:
        self.closed += [record.index for record, _ in records]

    def cast(self, index: int, before: int | None, reason: str = "") -> bool:
        return self.registers.votes.cast(JOB, record(index, before, reason), b"")

    def stored(self) -> bytes:
        return [each.data for each in self.context.out if isinstance(each, Persist) and each.kind == "vote"][
            -1
        ]


class Voters:
    """Three agents that have accepted a value with a grant, and the links between them."""

    def __init__(self) -> None:
        self.by_id = {each.id: Voter(each) for each in (ME, A, B)}
        self.cut: set[tuple[bytes, bytes]] = set()
        self.ballot = Ballot(1, A.id, 1)
        for voter in self.by_id.values():
            voter.registers.on_accept(A, Accept(JOB, self.ballot, GRANTED), b"")
        self.deliver()

    def __getitem__(self, contact: Contact) -> Voter:
        return self.by_id[contact.id]

    def deliver(self) -> None:
        """Deliver all messages, also those that these cause."""
        moved = True
        while moved:
            moved = False
            for voter in self.by_id.values():
                out, voter.context.out = voter.context.out, []
                for effect in out:
                    if isinstance(effect, Send) and effect.to.id in self.by_id:
                        moved = True
                        if (voter.me.id, effect.to.id) not in self.cut:
                            self._receive(self.by_id[effect.to.id], voter.me, effect)
                local, voter.context.inbox = list(voter.context.inbox), type(voter.context.inbox)()
                for message, payload in local:
                    moved = True
                    self._receive(voter, voter.me, Send(voter.me, message, payload))

    @staticmethod
    def _receive(to: Voter, sender: Contact, effect: Send) -> None:
        handle = to.registers.handlers().get(type(effect.message))
        if handle is not None:
            handle(sender, effect.message, effect.payload)

    def pass_time(self, seconds: float) -> None:
        for voter in self.by_id.values():
            run(voter.context, voter.context.now + seconds)
        self.deliver()

    def change(
        self, by: Contact, change: Change, acceptors: tuple[Contact, ...] = (ME, A, B)
    ) -> RegisterCell:
        """Let an agent change the register; returns the chosen value."""
        outcomes: list[RegisterCell | ChangeRefused] = []
        proposer = self[by].registers.proposer(JOB, (ME, A, B))
        proposer.submit(change, outcomes.append, TERMS)
        self.deliver()
        (outcome,) = outcomes
        assert isinstance(outcome, RegisterCell)
        return outcome


def test_a_majority_of_votes_closes_an_interval_at_all_voters() -> None:
    voters = Voters()
    assert voters[ME].cast(5, 4)
    voters.deliver()
    assert [each.closed for each in voters.by_id.values()] == [[5], [5], [5]], "the others take its record"
    assert voters[A].cast(7, 5)
    assert voters[A].cast(7, 5), "it has voted already"
    voters.deliver()
    assert [each.closed for each in voters.by_id.values()] == [[5, 7]] * 3


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
    voters.deliver()
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
    voters.deliver()
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert (cell.value.grant, cell.value.latest) == (GRANT, 5)
    assert not voters[ME].registers.acceptors.chain(JOB).links
    assert voters[B].cast(8, 5)
    voters.deliver()
    assert [each.closed for each in voters.by_id.values()] == [[5, 8]] * 3
    cell = voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    assert [each.index for each, _ in read_tail(cell)] == [8], "earlier records are in the logs"


def test_after_votes_that_differ_all_voters_are_needed_and_the_grant_ends() -> None:
    voters = Voters()
    voters.cut = {(ME.id, A.id), (ME.id, B.id), (A.id, ME.id), (B.id, ME.id)}
    voters[ME].cast(5, 4)
    voters[A].cast(5, 4, "made again after its frame was damaged")
    voters.deliver()
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
