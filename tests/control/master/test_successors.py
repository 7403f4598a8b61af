"""The agents that may lead a job next hold its terms, and those that vote hold its records too."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.master.successors import FOUND_S, LOOK_S, REPLICAS, Replicator
from elfmesh.control.protocol.messages import Withdraw
from elfmesh.control.protocol.messages_succession import Replica
from elfmesh.machine import Contact
from elfmesh.overlay.events import Lookup
from tests.control.master.stub_term import StubTerm, other
from tests.control.register.support import JOB, TERMS

LATEST = 41
"""The last record of the master's copy."""


def started(*acceptors: Contact) -> tuple[StubTerm, Replicator]:
    term = StubTerm(began=replace(TERMS, acceptors=acceptors or (other(1), other(8))))
    return term, Replicator(term)


def test_an_agent_that_becomes_one_of_the_closest_gets_the_terms_once() -> None:
    term, replicator = started(other(2), other(3))
    replicator.refresh()
    closest = (term.context.me, other(2), other(3), other(4))
    term.looked_up(*closest)
    assert term.take() == [(contact, Replica(term.terms, None)) for contact in (other(2), other(3))]
    assert len(closest) - 1 > REPLICAS
    replicator.refresh()
    term.looked_up(other(3), other(5))
    assert term.take() == [(other(5), Replica(term.terms, None))]
    assert term.found == [closest, (other(3), other(5))]


def test_all_agents_near_a_job_with_a_voter_elsewhere_get_the_terms() -> None:
    term, replicator = started(other(2), other(8))
    replicator.refresh()
    near = (other(2), other(3), other(4))
    term.looked_up(term.context.me, *near)
    assert term.take() == [(contact, Replica(term.terms, None)) for contact in near]
    replicator.share()
    assert [contact for contact, _ in term.take()] == [*near, other(8)]


def test_a_change_goes_to_the_closest_and_to_the_voters_with_the_last_record() -> None:
    term, replicator = started()
    replicator.refresh()
    term.looked_up(other(2), other(8))
    term.take()
    replicator.share()
    assert term.take() == [(other(2), Replica(term.terms, None)), (other(8), Replica(term.terms, LATEST))]
    message = Withdraw(JOB, "", "i", 1)
    replicator.tell(message)
    assert term.take() == [(other(2), message), (other(8), message)]
    replicator.invite(other(9))
    assert term.take() == [(other(9), Replica(term.terms, LATEST))]


def test_the_closest_are_looked_up_when_they_may_have_changed() -> None:
    term, replicator = started()
    for restless, lookups in ((False, 1), (False, 1), (True, 2)):
        replicator.upkeep(restless=restless)
        assert term.lookups() == lookups
        term.run(1.0)
    term.context.grown(other(9).id)
    term.run(0.1)
    replicator.upkeep(restless=False)
    assert term.lookups() == 3
    term.run(1.0)
    replicator.upkeep(restless=False)
    assert term.lookups() == 3
    term.run(LOOK_S)
    replicator.upkeep(restless=False)
    asked = [each for each in term.context.out if isinstance(each, Lookup)]
    assert [each.within_s for each in asked] == [0, 0, 0, FOUND_S]
