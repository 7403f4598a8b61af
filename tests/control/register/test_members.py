"""The acceptors of a register change one at a time, and only for a reason."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from elfmesh.control.jobs.register_value import Change, ChangeRefused, Exchange, RegisterCell, Settle
from elfmesh.control.register.members import GONE_S, READY_S, Electorate
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Contact
from elfmesh.overlay.events import Lookup, LookupDone
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
        self.electorate = Electorate(self.context, cast(Proposer, self), self, wanted=wanted)

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

    def elected(self, outcome: RegisterCell | ChangeRefused) -> None:
        self.outcomes.append(outcome)
        if isinstance(outcome, RegisterCell):
            self.cell = outcome

    # -- the overlay -----------------------------------------------------------------------------------

    def upkeep(self, *nearest: Contact) -> None:
        """Look-ups of acceptors that are not among the closest find none of them."""
        self.electorate.upkeep(nearest)
        for lookup in [each for each in self.context.out if isinstance(each, Lookup)]:
            self.context.answer(lookup.token, LookupDone(lookup.token, lookup.key, (ME,)))
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
