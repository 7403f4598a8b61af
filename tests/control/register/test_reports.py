"""What acceptors have reported: the newest terms, and whose logs have a record."""

from __future__ import annotations

import pytest

from elfmesh.control.register.reports import AcceptorReport, sources_of
from elfmesh.machine import Contact
from tests.control.register.support import A, B

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
