"""What acceptors have reported: the newest terms, and whose logs have a record."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.protocol.messages_register import Accept, Prepare, Promised
from elfmesh.control.register.changes import Create
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.reports import AcceptorReport, newest_terms, sources_of
from elfmesh.machine import Contact
from tests.control.register.support import JOB, ME, TERMS, VALUE, A, B, context, sent

C = Contact(b"\x7f" * 20, "sim", 12)


def reports(**latest: int | None) -> dict[bytes, AcceptorReport]:
    contacts = {"a": A, "b": B, "c": C}
    return {contacts[name].id: AcceptorReport(contacts[name], None, at) for name, at in latest.items()}


@pytest.mark.parametrize(
    ("record", "agent", "expected"),
    [
        (7, b"", (C, A)),
        (7, C.id, (A,)),
        (8, b"", (C,)),
        (9, b"", ()),
        (None, b"", ()),
    ],
)
def test_a_record_is_fetched_from_the_acceptors_that_have_it_the_newest_first(
    record: int | None, agent: bytes, expected: tuple[Contact, ...]
) -> None:
    assert sources_of(reports(a=7, b=None, c=8), record, agent) == expected


def test_of_equal_logs_the_lower_id_is_first() -> None:
    assert sources_of(reports(b=7, a=7), 7, b"") == (A, B)


def test_terms_of_a_later_epoch_than_the_value_are_those_of_no_term() -> None:
    later = replace(TERMS, epoch=VALUE.epoch + 1, version=9)
    known = {A.id: AcceptorReport(A, TERMS, None), B.id: AcceptorReport(B, later, None)}
    assert newest_terms(known, VALUE, later) == TERMS
    assert newest_terms({}, VALUE, later) is None
    assert newest_terms(known, replace(VALUE, epoch=later.epoch), None) == later


def test_a_second_agent_that_begins_the_same_job_gives_the_acceptors_the_terms_of_the_first() -> None:
    own = context()
    proposer = Proposer(own, JOB, (ME, A, B), 7)
    proposer.submit(
        Create(replace(VALUE, epoch=VALUE.epoch + 1)),
        lambda outcome: None,
        replace(TERMS, epoch=VALUE.epoch + 1),
    )
    (first, *_) = [each for each in sent(own.out) if isinstance(each, Prepare)]
    own.out.clear()
    for sender in (ME, A):
        proposer.on_promised(sender, Promised(JOB, first.ballot, Ballot(1, b""), VALUE, TERMS, None), b"")
    proposed = [each for each in sent(own.out) if isinstance(each, Accept)]
    assert {(each.value.epoch, each.terms and each.terms.epoch) for each in proposed} == {
        (VALUE.epoch, TERMS.epoch)
    }
