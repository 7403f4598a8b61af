"""Attempts to lead a job."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.election.election import TAKE_OVER_S, Elections
from elfmesh.control.protocol.messages_register import (
    Prepare,
    Promised,
)
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.reports import plan_of
from tests.control.register.support import (
    JOB,
    MANIFEST,
    ME,
    TERMS,
    VALUE,
    A,
    B,
    Held,
    context,
    run,
    sent,
)


def test_a_new_term_without_a_majority_is_given_up_and_may_be_tried_again() -> None:
    own_registers = context()
    elections = Elections(own_registers, Registers(own_registers, Held(own_registers)), lambda job: 1)
    outcomes: list[Won | Lost] = []
    terms = replace(TERMS, acceptors=(ME, A, B))
    for attempt in (1, 2):
        elections.take_over(terms, outcomes.append)
        assert elections.is_running(JOB)
        run(own_registers, own_registers.now + TAKE_OVER_S)
        assert len(outcomes) == attempt
        assert isinstance(outcomes[-1], Lost)
        assert outcomes[-1].open
        assert not elections.is_running(JOB)


@pytest.mark.parametrize("held", ["the newer version", "its older roster", "a change never chosen", ""])
def test_a_candidate_that_finds_another_master_takes_only_the_terms_that_the_register_names(
    held: str,
) -> None:
    """A newer epoch over an older version: by such terms members would begin that version again."""
    second, third = (replace(MANIFEST, version=version) for version in (2, 3))
    newer = replace(TERMS, manifest=second, epoch=7, version=6, effective=9, evaluated=2)
    notified = {
        "the newer version": newer,
        "its older roster": replace(newer, version=4),
        "a change never chosen": replace(newer, manifest=third, older=newer.stages, evaluated=3),
        "": None,
    }[held]
    own_registers = context()
    registers = Registers(own_registers, Held(own_registers))
    outcomes: list[Won | Lost] = []
    own = replace(TERMS, epoch=2, version=3, acceptors=(ME, A, B))
    Elections(own_registers, registers, lambda job: 2).take_over(own, outcomes.append)
    value = replace(VALUE, version=2, plan=plan_of(newer), epoch=8, master=B, roster=5)
    (ballot,) = {message.ballot for message in sent(own_registers.out) if isinstance(message, Prepare)}
    for voter, terms in ((A, notified), (B, None)):
        registers.on_promised(voter, Promised(JOB, ballot, Ballot(1), value, terms, None), b"")
    (lost,) = outcomes
    assert isinstance(lost, Lost)
    assert not lost.open
    named = replace(newer, epoch=8, master=B)
    assert lost.terms == (named if notified is not None and notified.version >= value.roster else None)
