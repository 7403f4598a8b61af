"""The acceptors of a register change one at a time, and only for a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.paths.layouts import WishedVoters
from elfmesh.control.register.changes import Change, ChangeRefused, Exchange, Settle
from elfmesh.control.register.members import GONE_S, READY_S, Electorate
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Contact
from elfmesh.overlay.events import Lookup, LookupDone
from elfmesh.safeguards import PLACES
from tests.control.register.support import ME, STRANGER, VALUE, A, B, context, run


class Rig:
    """A master whose register has the acceptors ME, A and B; `decide` ends its last change."""

    def __init__(self, wanted: int = 3, *acceptors: Contact) -> None:
        self.context = context()
        self.cell = RegisterCell(replace(VALUE, acceptors=acceptors or (ME, A, B)))
        self.idle, self.lost = True, dict[bytes, int]()
        self.changes: list[Change] = []
        self.invited: list[Contact] = []
        self.outcomes: list[RegisterCell | ChangeRefused] = []
        self.counting: list[tuple[tuple[Contact, ...], Callable[[int], None]]] = []
        self.wishes = WishedVoters()
        about = self.context, cast(Proposer, self), self
        self.electorate = Electorate(*about, wanted=wanted, wishes=lambda: self.wishes)

    # -- the proposer ----------------------------------------------------------------------------------

    def submit(self, change: Change, then: object) -> None:
        self.changes.append(change)
        self._then = then

    def met(self, contact: Contact) -> None: ...

    def decide(self, outcome: RegisterCell | ChangeRefused) -> None:
        assert callable(self._then)
        self._then(outcome)

    # -- the master ------------------------------------------------------------------------------------

    def invite(self, contact: Contact) -> None:
        self.invited.append(contact)

    def count_holders(self, near: tuple[Contact, ...], then: Callable[[int], None]) -> None:
        self.counting.append((near, then))

    def elected(self, outcome: RegisterCell | ChangeRefused) -> None:
        self.outcomes.append(outcome)
        if isinstance(outcome, RegisterCell):
            self.cell = outcome

    # -- the overlay -----------------------------------------------------------------------------------

    def upkeep(self, *nearest: Contact, members: tuple[Contact, ...] = (), found: bool = False) -> None:
        """Look-ups of agents that are not among the closest find none of them, or members if `found`."""
        self.electorate.upkeep(nearest, members)
        for lookup in [each for each in self.context.out if isinstance(each, Lookup)]:
            there = [each for each in (*members, *self.cell.contacts) if found and each.id == lookup.key]
            self.context.answer(lookup.token, LookupDone(lookup.token, lookup.key, (*there[:1], ME)))
        self.context.out.clear()


def test_acceptors_that_are_all_there_stay() -> None:
    rig = Rig()
    rig.upkeep(ME, A, B, STRANGER)
    assert (rig.changes, rig.invited, rig.electorate.restless) == ([], [], False)


def test_an_acceptor_that_has_been_away_for_long_is_replaced_by_an_agent_that_holds_its_state() -> None:
    rig = Rig()
    rig.upkeep(ME, A, STRANGER)
    assert (rig.changes, rig.electorate.restless) == ([], True)
    run(rig.context, GONE_S)
    rig.upkeep(ME, A, STRANGER)
    assert (rig.changes, rig.invited) == ([], [STRANGER]), "it has no time yet to fetch the log"
    run(rig.context, GONE_S + READY_S)
    rig.upkeep(ME, A, STRANGER)
    assert rig.changes == [Exchange("i", 1, STRANGER, B.id)]


def test_an_acceptor_that_comes_back_in_time_stays() -> None:
    rig = Rig()
    rig.upkeep(ME, A, STRANGER)
    run(rig.context, GONE_S - 1)
    rig.upkeep(ME, A, B, STRANGER)
    run(rig.context, GONE_S + READY_S + 1)
    rig.upkeep(ME, A, B, STRANGER)
    assert (rig.changes, rig.invited) == ([], [])


def test_a_register_of_one_grows_by_one_acceptor_at_a_time() -> None:
    rig = Rig(3, ME)
    rig.upkeep(ME, A)
    assert rig.invited == [], "two agents are fewer than three"
    rig.upkeep(ME, A, B)
    run(rig.context, READY_S)
    rig.upkeep(ME, A, B)
    assert rig.changes == [Exchange("i", 1, A, None)]


def test_a_fleet_with_too_few_agents_for_another_voter_needs_no_look_up_until_one_comes() -> None:
    rig = Rig(3, ME)
    restless = [rig.electorate.restless]  # no agent has been looked for
    for found in ([ME, A], [ME, A, B]):  # there are to be three voters
        rig.upkeep(*found)
        restless.append(rig.electorate.restless)
    assert restless == [True, False, True]


def test_a_change_is_settled_and_the_next_one_begins_only_then() -> None:
    rig = Rig(3, ME)
    rig.upkeep(ME, A, B)
    run(rig.context, READY_S)
    rig.upkeep(ME, A, B)
    joint = RegisterCell(replace(VALUE, acceptors=(ME, A), former=(ME,)))
    rig.decide(joint)
    assert rig.changes[1:] == [Settle("i", 1)]
    rig.decide(joint)
    assert rig.changes[2:] == [Settle("i", 1)], "the joint value is chosen now, and may be settled"
    rig.decide(RegisterCell(replace(VALUE, acceptors=(ME, A))))
    assert rig.cell.value.former == ()
    assert rig.changes[3:] == [Exchange("i", 1, B, None)], "B was invited together with A"
    assert rig.context.stats["control.acceptors_changed"] == 1


def test_an_acceptor_without_its_votes_is_left_out_at_once_if_no_other_agent_can_come() -> None:
    rig = Rig()
    rig.lost[B.id] = 2
    rig.upkeep(ME, A, B)
    assert rig.changes == [Exchange("i", 1, None, B.id)]


def test_an_acceptor_that_leaves_is_counted_on_until_its_vote_is_replaced() -> None:
    rig = Rig()
    assert rig.electorate.resign(STRANGER.id, last=True), "it has no vote"
    assert not rig.electorate.resign(B.id, last=False)
    rig.upkeep(ME, A, B, STRANGER)
    assert (rig.invited, rig.changes) == ([STRANGER], [])
    run(rig.context, READY_S)
    assert rig.changes == [Exchange("i", 1, STRANGER, B.id)]


def test_a_term_that_is_over_changes_no_acceptor_but_reports_the_outcome() -> None:
    rig = Rig()
    rig.lost[B.id] = 2
    rig.upkeep(ME, A, B)
    rig.electorate.stop()
    refused = ChangeRefused("another epoch", None)
    rig.decide(refused)
    rig.upkeep(ME, A, B)
    assert (rig.outcomes, len(rig.changes)) == ([refused], 1)


def at(contact: Contact, rack: str, region: str = "") -> Contact:
    return replace(contact, rack=rack, region=region)


FAR = at(Contact(b"\xee" * 20, "sim", 14), "r2")
CROWDED = at(A, "r1"), at(B, "r1"), at(STRANGER, "r1")


class Racks(Rig):
    """This agent has no rack, and all agents near the job are in r1; `FAR` is a member in r2."""

    def __init__(self) -> None:
        super().__init__(3, ME, *CROWDED[:2])

    def passes(self, *, found: bool = True, members: tuple[Contact, ...] = (FAR,)) -> None:
        self.upkeep(ME, *CROWDED, members=members, found=found)
        run(self.context, self.context.now + READY_S)
        self.upkeep(ME, *CROWDED, members=members, found=found)


def test_a_voter_that_shares_a_rack_is_exchanged_for_a_member_of_another_rack() -> None:
    rig = Racks()
    rig.passes()
    assert rig.invited[0] == FAR
    assert rig.changes == [Exchange("i", 1, FAR, B.id)]


def test_a_member_that_no_look_up_finds_becomes_no_voter() -> None:
    rig = Racks()
    rig.passes(found=False)
    rig.passes(found=False)
    assert rig.changes == []


def test_voters_are_not_moved_while_one_of_them_is_away() -> None:
    rig = Racks()
    for _ in range(2):
        rig.electorate.upkeep((ME, *CROWDED[1:]), (FAR,))
        for lookup in [each for each in rig.context.out if isinstance(each, Lookup)]:
            found = (FAR, ME) if lookup.key == FAR.id else (ME,)
            rig.context.answer(lookup.token, LookupDone(lookup.token, lookup.key, found))
        rig.context.out.clear()
        run(rig.context, rig.context.now + READY_S)
    assert rig.changes == []


def test_the_labels_of_an_agent_are_those_that_it_has_reported_itself() -> None:
    rig = Racks()
    rig.upkeep(ME, *(at(each, rack) for each, rack in zip(CROWDED, ("r1", "r2", "r3"), strict=True)))
    assert rig.invited == [], "the register's value has old labels of the voters"


NEAR_FAR = at(Contact(b"\xed" * 20, "sim", 15), "r2")
"""An agent of the same rack as `FAR`, which is nearer to the job."""


class Wishing(Racks):
    """The voters are this agent, and one in each of two racks."""

    def __init__(self, wishes: WishedVoters) -> None:
        super().__init__()
        self.wishes = wishes
        self.cell = RegisterCell(replace(VALUE, acceptors=(ME, CROWDED[0], FAR)))

    def pass_with(self, *members: Contact) -> None:
        for _ in range(3):
            self.upkeep(ME, CROWDED[0], members=(FAR, *members), found=True)
            run(self.context, self.context.now + READY_S)


def test_a_voter_moves_to_an_agent_that_should_be_a_site_if_the_voters_are_spread_as_well() -> None:
    rig = Wishing(WishedVoters())
    rig.pass_with(NEAR_FAR)
    assert rig.changes == [], "no voter moves without a wish"
    rig = Wishing(WishedVoters(frozenset({NEAR_FAR.id, CROWDED[0].id})))
    rig.pass_with(NEAR_FAR)
    assert rig.changes[:1] == [Exchange("i", 1, NEAR_FAR, FAR.id)]
    rig = Wishing(WishedVoters(frozenset({NEAR_FAR.id, FAR.id})))
    rig.pass_with(NEAR_FAR)
    assert rig.changes == [], "two voters in one rack are worse than a voter that is no site"


def test_a_voter_moves_inside_the_rules_of_the_members_however_the_voters_are_spread() -> None:
    inside = at(Contact(b"\xec" * 20, "sim", 16), "r1")
    rig = Wishing(WishedVoters(rule=(("rack=r1",),)))
    rig.pass_with(inside, NEAR_FAR)
    assert rig.changes[:1] == [Exchange("i", 1, inside, FAR.id)]
    rig.cell = RegisterCell(replace(VALUE, acceptors=(ME, CROWDED[0], inside)))
    rig.changes.clear()
    rig.pass_with(inside, NEAR_FAR)
    assert rig.changes == [], "it does not move back to another rack"


def joint_with_a_far_voter(leaves: Contact | None = None) -> Racks:
    rig = Racks()
    rig.passes()
    assert rig.changes, "no voter is exchanged"
    if leaves is not None:
        rig.electorate.resign(leaves.id, last=False)
    value = replace(rig.cell.value, acceptors=(ME, CROWDED[0], FAR), former=rig.cell.value.acceptors)
    rig.decide(RegisterCell(value))
    return rig


def test_a_voter_far_from_the_job_is_settled_after_a_majority_near_it_knows() -> None:
    rig = joint_with_a_far_voter()
    assert rig.counting, "the voter is settled at once"
    near, counted = rig.counting[0]
    assert near == (ME, *CROWDED)
    assert len(rig.changes) == 1
    counted(2)
    assert len(rig.changes) == 1
    assert rig.electorate.restless
    rig.upkeep(ME, *CROWDED)
    _, counted = rig.counting[1]
    counted(3)
    assert rig.changes[1:] == [Settle("i", 1)]


def test_a_voter_that_leaves_is_not_one_of_the_agents_near_the_job_that_know() -> None:
    rig = joint_with_a_far_voter(CROWDED[1])
    near, _ = rig.counting[0]
    assert near == (ME, CROWDED[0], CROWDED[2])


def test_voters_near_the_job_are_settled_at_once() -> None:
    rig = Rig()
    value = replace(rig.cell.value, acceptors=(ME, A, STRANGER), former=(ME, A, B))
    rig.cell = RegisterCell(value)
    rig.upkeep(ME, A, B, STRANGER)
    assert (rig.changes, rig.counting) == ([Settle("i", 1)], [])


@pytest.mark.parametrize("name", ["voters-by-domain", "settled-when-the-terms-are-known"])
def test_a_missing_safeguard_of_voters_in_failure_domains_is_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = {"voters-by-domain": ([], []), "settled-when-the-terms-are-known": False}
    monkeypatch.setattr(Electorate, PLACES[name][1].split(".")[1], lambda *_: without[name])
    with pytest.raises((AssertionError, IndexError)):
        test_a_voter_far_from_the_job_is_settled_after_a_majority_near_it_knows()
