"""Each client that waits for a roster gets one answer, with or without the last acknowledgement."""

from __future__ import annotations

import pytest

from elfmesh.control.answers import BAD_REQUEST, OK
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.master.activation import APPLY_S, DIRECT_MAX, PUBLISH_S, REPEAT_S, Activation
from elfmesh.control.protocol.messages import Roster, RosterAck, pack
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import JOB


def ack(number: int, *, version: int = 3, epoch: int = 1) -> RosterAck:
    return RosterAck(JOB, epoch, version, number)


def waiting() -> tuple[StubTerm, Activation]:
    term = StubTerm()
    activation = Activation(term)
    activation.applied(other(5), 70, "new")
    return term, activation


def test_a_client_is_answered_when_all_have_acknowledged_and_the_roster_is_complete() -> None:
    term, activation = waiting()
    activation.on_roster_ack(ack(0))
    activation.on_roster_ack(ack(1))
    assert (term.answers(), activation.awaits(other(5), 70)) == ([], True)
    activation.prepared()
    [(status, body)] = term.answers()
    assert (status, body["state"], body["acknowledged"], body["expected"]) == (OK, "new", 2, 2)
    activation.check()
    assert term.answers() == []


@pytest.mark.parametrize("wrong", [ack(1, version=2), ack(1, epoch=2)])
def test_an_acknowledgement_of_other_terms_does_not_count(wrong: RosterAck) -> None:
    term, activation = waiting()
    activation.prepared()
    activation.on_roster_ack(ack(0))
    activation.on_roster_ack(wrong)
    assert term.answers() == []


def test_a_client_is_answered_without_the_last_acknowledgement_when_its_time_is_over() -> None:
    term, activation = waiting()
    activation.prepared()
    activation.on_roster_ack(ack(0))
    term.run(APPLY_S - 0.1)
    assert term.answers() == []
    term.run(0.1)
    [(status, body)] = term.answers()
    assert (status, body["acknowledged"], body["expected"]) == (OK, 1, 2)


def test_a_request_that_comes_twice_is_answered_once() -> None:
    term, activation = waiting()
    activation.applied(other(5), 70, "new")
    activation.stop()
    assert len(term.answers()) == 1


def test_a_job_that_is_refused_answers_its_clients_with_the_reason() -> None:
    term, activation = waiting()
    activation.refuse(BAD_REQUEST, {"error": "no such column"})
    assert term.answers() == [(BAD_REQUEST, {"error": "no such column"})]
    term.run(APPLY_S)
    assert term.answers() == []


def test_members_that_the_multicast_has_not_reached_are_sent_the_roster_in_growing_pauses() -> None:
    term = StubTerm()
    activation = Activation(term)
    term.context.roots[JOB] = None
    activation.spread()
    term.done((b"", pack(ack(0))), (b"", b"damaged"))
    cause = term.context.causes.of({JOB}, max(term.terms.closed, term.terms.effective))[-1].name
    direct = [(entry(1).contact, Roster(term.terms, cause=cause))]
    assert term.take() == direct
    for pause in REPEAT_S:
        term.run(pause / 2)
        assert term.take() == []
        term.run(pause / 2 + 0.001)
        assert term.take() == direct
    term.run(PUBLISH_S + 10 * REPEAT_S[-1])
    assert term.take() == [], "afterwards the master's upkeep repeats"
    activation.stop()
    activation.repeat()
    assert term.take() == []


def test_one_round_goes_to_a_bounded_number_of_members() -> None:
    members = tuple(entry(number) for number in range(DIRECT_MAX + 5))
    term = StubTerm(book=RosterBook(members, 1))
    Activation(term).repeat()
    assert [to for to, _ in term.take()] == [each.contact for each in members[:DIRECT_MAX]]
