"""What a change of a register starts from: the value found, and the records that its acceptors have voted."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot, Promise, Round
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell, check_cell, read_tail
from elfmesh.control.register.folding import FoundWithVotes, found_with_votes
from elfmesh.control.register.voted_chain import VotedChain
from tests.control.register.support import JOB, ME, VALUE, A, B, with_tail

OLD, NEWER, MINE = Ballot(1, A.id, 1), Ballot(2, A.id, 1), Ballot(3, ME.id, 1)
CELL = RegisterCell(*with_tail(VALUE, 3, 4))


def chain(*indices: int, reason: str = "") -> VotedChain:
    found = VotedChain()
    for index in indices:
        found = found.extended(ResultRecord(job="shop/top", index=index, reason=reason), b"")
    return found


def found(*promised: tuple[bytes, Ballot, VotedChain], cell: RegisterCell = CELL) -> FoundWithVotes | None:
    promises = tuple(Promise(agent, ballot, cell) for agent, ballot, _ in promised)
    begun = Round(MINE, (ME.id, A.id, B.id), promises)
    return found_with_votes(begun, {agent: (ballot, voted) for agent, ballot, voted in promised})


def indices(start: FoundWithVotes | None) -> list[int]:
    assert start is not None
    assert start.cell is not None
    check_cell(JOB, start.cell)
    return [record.index for record, _ in read_tail(start.cell)]


def test_the_longest_vote_is_folded_behind_a_value_that_a_majority_has() -> None:
    start = found((ME.id, OLD, chain(5)), (A.id, OLD, chain(5, 7)))
    assert indices(start) == [5, 7]
    assert start is not None
    assert start.cell is not None
    assert (start.settled, start.cell.value.before, start.cell.value.closed) == (OLD, 4, 8)


def test_the_tail_of_a_value_that_may_not_be_chosen_goes_on_with_the_votes() -> None:
    start = found((ME.id, OLD, VotedChain()), (A.id, NEWER, chain(5)))
    assert indices(start) == [4, 5]
    assert start is not None
    assert start.cell is not None
    assert (start.settled, start.cell.value.before) == (None, 3)


def test_votes_under_an_earlier_ballot_are_void() -> None:
    start = found((ME.id, OLD, chain(5)), (A.id, NEWER, VotedChain()))
    assert indices(start) == [4]


def test_votes_that_differ_need_all_voters() -> None:
    other = chain(5, reason="made again")
    assert found((ME.id, OLD, chain(5)), (A.id, OLD, other)) is None
    start = found((ME.id, OLD, chain(5)), (A.id, OLD, other), (B.id, OLD, other))
    assert start is not None
    assert start.conflict
    assert start.cell is not None
    assert [record.reason for record, _ in read_tail(start.cell)] == ["made again"]


def test_a_register_without_a_value_or_a_vote_is_found_as_it_is() -> None:
    assert found_with_votes(Round(MINE, (ME.id,)), {}) == FoundWithVotes(None)
    ended = RegisterCell(replace(VALUE, deleted=True))
    assert found((ME.id, OLD, VotedChain()), cell=ended) == FoundWithVotes(ended)
