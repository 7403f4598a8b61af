"""The rules of grants one by one; `test_grants.py` explores them together."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from elfmesh.control.consensus.rules import NONE, Ballot, Group, Vote
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.register.grant import (
    Folded,
    RecordSpan,
    RosterBasis,
    abstains,
    accept,
    closed_by_votes,
    fold,
    is_complete,
    may_announce,
    may_exclude,
    may_follow_at_once,
    may_grant,
    may_vote,
    next_span,
    renewed,
    roster_epoch,
    votes_under,
)

A, B, C = b"a", b"b", b"c"
VOTERS = (A, B, C)
ALL_IN = VotingGrant(1, 1, 3, 0)
WITHOUT_TWO = VotingGrant(1, 1, 3, 0, (2,))
ONE, TWO, THREE = Ballot(1, A), Ballot(2, B), Ballot(3, A)


@dataclass(frozen=True)
class Value:
    grant: VotingGrant | None
    groups: tuple[Group, ...] = (VOTERS,)
    is_over: bool = False

    def member_since(self, agent: bytes) -> int:
        return 0


GRANTED, PLAIN = Value(ALL_IN), Value(None)


@pytest.mark.parametrize(
    ("groups", "paused", "permitted", "may"),
    [
        ((VOTERS,), False, True, True),
        ((VOTERS, (A, B)), False, True, False),
        ((VOTERS,), True, True, False),
        ((VOTERS,), False, False, False),
    ],
)
def test_a_value_may_hold_a_grant(
    groups: tuple[Group, ...], paused: bool, permitted: bool, may: bool
) -> None:
    assert may_grant(groups, paused=paused, permitted=permitted) is may


@pytest.mark.parametrize(
    ("after", "granted", "epoch"),
    [
        (RosterBasis(), True, 3),
        (RosterBasis(), False, 7),
        (RosterBasis(version=2), True, 7),
        (RosterBasis(numbering=2), True, 7),
        (RosterBasis(partitions=4), True, 7),
        (RosterBasis(bounds=1), True, 7),
    ],
)
def test_only_a_take_over_of_a_grant_keeps_the_roster_epoch(
    after: RosterBasis, granted: bool, epoch: int
) -> None:
    assert roster_epoch(3, 7, RosterBasis(), after, granted=granted) == epoch


def test_a_closing_renews_the_grant() -> None:
    assert renewed(WITHOUT_TWO, 5) == VotingGrant(5, 1, 3, 0, (2,))


def test_a_master_announces_numbers_only_while_no_grant_may_be_in_force() -> None:
    assert may_announce(None, proposed=False)
    assert not may_announce(None, proposed=True)
    assert not may_announce(ALL_IN, proposed=False)


def test_a_member_is_excluded_when_no_copy_of_an_open_interval_is_held() -> None:
    assert may_exclude(5, [])
    assert may_exclude(5, [3, 4])
    assert not may_exclude(5, [4, 5])


@pytest.mark.parametrize(
    ("grant", "held", "complete", "leaves_out"),
    [
        (ALL_IN, {0: 1, 1: 1, 2: 1}, True, False),
        (ALL_IN, {0: 1, 1: 1}, False, False),
        (ALL_IN, {0: 1, 1: 2, 2: 1}, True, True),
        (ALL_IN, {0: 1, 1: 1, 2: 1, 3: 1}, True, True),
        (WITHOUT_TWO, {0: 1, 1: 1}, True, False),
        (WITHOUT_TWO, {0: 1, 1: 1, 2: 1}, True, True),
    ],
)
def test_a_site_votes_on_what_is_complete_and_leaves_nothing_out(
    grant: VotingGrant, held: dict[int, int], complete: bool, leaves_out: bool
) -> None:
    assert is_complete(grant, range(3), held) is complete
    assert abstains(grant, range(3), held) is leaves_out


@pytest.mark.parametrize(
    ("grant", "complete", "empty", "span"),
    [
        (ALL_IN, "1111", "", RecordSpan(0, 0)),
        (ALL_IN, "0111", "", None),
        (ALL_IN, "1111", "01", RecordSpan(2, 2)),
        (WITHOUT_TWO, "1111", "01", RecordSpan(0, 2)),
        (WITHOUT_TWO, "1111", "0123", None),
        (WITHOUT_TWO, "1011", "0", None),
    ],
)
def test_a_record_ends_where_there_are_rows(
    grant: VotingGrant, complete: str, empty: str, span: RecordSpan | None
) -> None:
    found = next_span(grant, 0, 4, lambda index: complete[index] == "1", lambda index: str(index) in empty)
    assert found == span


def test_an_acceptor_of_a_grant_votes_until_it_promises_more() -> None:
    blank: Vote[Value] = Vote()
    begun = accept(blank, ONE, GRANTED)
    assert begun == Vote(ONE, ONE, GRANTED)
    assert may_vote(begun)
    later = begun.promise(TWO)
    assert later is not None
    assert not may_vote(later)
    assert accept(later, ONE, GRANTED) == later  # a repeated request takes no promise back
    assert accept(later, TWO, PLAIN) == Vote(TWO.following, TWO, PLAIN)
    assert accept(later, Ballot(1, C), GRANTED) is None


def test_nothing_is_voted_without_a_grant() -> None:
    blank: Vote[Value] = Vote()
    begun = accept(blank, ONE, PLAIN)
    assert begun == Vote(ONE.following, ONE, PLAIN)
    assert not may_vote(begun)
    assert not may_vote(blank)
    assert may_follow_at_once(PLAIN)
    assert not may_follow_at_once(GRANTED)


def test_a_majority_closes_under_one_ballot() -> None:
    votes = [(A, TWO, (1, 2, 3)), (B, TWO, (1, 2)), (C, ONE, (1, 2, 3))]
    assert closed_by_votes(TWO, votes, VOTERS) == (1, 2)
    assert closed_by_votes(ONE, votes, VOTERS) == ()
    assert closed_by_votes(TWO, [(b"x", TWO, (1, 2, 3)), *votes], VOTERS) == (1, 2)  # no voter
    assert closed_by_votes(TWO, [(A, TWO, (1,)), *votes], VOTERS) == (1, 2)  # an earlier vote


def test_votes_of_lower_ballots_are_void() -> None:
    assert votes_under(TWO, {A: (TWO, (1,)), B: (ONE, (1, 2)), C: (NONE, ())}) == {A: (1,), B: (), C: ()}


@pytest.mark.parametrize(
    ("known", "votes", "folded"),
    [
        ((), {A: (), B: ()}, Folded(())),
        ((1,), {A: (), B: ()}, Folded((1,))),
        ((1,), {A: (1, 2, 3), B: (1, 2)}, Folded((1, 2, 3))),
        ((), {A: (1,), B: (2,)}, Folded((), conflict=True, decided=False)),
        ((), {A: (1,), B: (2,), C: ()}, Folded((), conflict=True)),
        ((), {A: (1, 3), B: (1, 4), C: (1,)}, Folded((1,), conflict=True)),
        ((), {A: (1,), B: (2,), C: (2,)}, Folded((2,), conflict=True)),
    ],
)
def test_a_proposer_folds_what_may_be_closed(
    known: tuple[int, ...], votes: dict[bytes, tuple[int, ...]], folded: Folded[int]
) -> None:
    assert fold(known, votes, VOTERS) == folded
