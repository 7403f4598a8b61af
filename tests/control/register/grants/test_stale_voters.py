"""A voter behind a cut link, which the proposer does not reach, gets the value from another voter."""

from __future__ import annotations

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.protocol.messages_register import Accept, CumulativeVote
from elfmesh.control.register.changes import Close
from elfmesh.control.register.votes import AGAIN_S
from elfmesh.machine import Send
from tests.control.register.support import GRANT, JOB, ME, A, B, Voters, sent


def folded_without(voters: Voters) -> None:
    """The link between A, which folds, and ME is cut; then A and B vote on."""
    voters[A].cast(5, 4)
    voters.settle()
    voters.cut = {(ME.id, A.id), (A.id, ME.id)}
    voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    voters.pass_time(AGAIN_S)
    voters[A].cast(8, 5)
    voters.settle()


def test_a_voter_behind_a_cut_link_gets_the_folded_value_from_the_voter_that_it_reaches() -> None:
    voters = Voters()
    folded_without(voters)
    assert [each.closed for each in voters.by_id.values()] == [[5, 8]] * 3
    assert voters[ME].cast(9, 8)
    voters.settle()
    voters.settle()  # A asks B, which has asked ME
    assert [each.closed for each in voters.by_id.values()] == [[5, 8, 9]] * 3


def test_a_voter_whose_request_is_on_its_way_gets_no_value_from_another_one() -> None:
    voters = Voters()
    voters[A].cast(5, 4)
    voters.settle()
    stale = voters[ME].registers.acceptors.vote(JOB).ballot
    voters.change(A, Close("i", 1, 0, 5, 4, 4, grant=GRANT))
    voters[B].registers.on_cumulative_vote(ME, CumulativeVote(JOB, "i", stale, (b"link",)), b"")
    assert not sent(voters[B].context.out)
    voters[B].registers.on_cumulative_vote(A, CumulativeVote(JOB, "i", Ballot(99, A.id, 1), (b"link",)), b"")
    (shown,) = (each for each in voters[B].context.out if isinstance(each, Send))
    assert (shown.to, type(shown.message), shown.payload) == (A, CumulativeVote, b""), "its own ballot"


def test_a_voter_behind_a_cut_link_gets_one_value_at_a_time() -> None:
    voters = Voters()
    stale = voters.ballot
    folded_without(voters)
    for _ in range(3):
        voters[B].registers.on_cumulative_vote(ME, CumulativeVote(JOB, "i", stale, (b"link",)), b"")
    assert not [each for each in voters[B].context.out if isinstance(each, Send)]
    voters.pass_time(AGAIN_S)
    for _ in range(3):
        voters[B].registers.on_cumulative_vote(ME, CumulativeVote(JOB, "i", stale, (b"link",)), b"")
    sent = [each for each in voters[B].context.out if isinstance(each, Send)]
    assert [type(each.message) for each in sent] == [Accept, CumulativeVote]
