"""What a ledger stores and reads again, and which differences must be on disk before the next effect."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.control.jobs.records import FIRST, LATE, NOT_COUNTED
from elfmesh.control.member.accounts.ledger_state import (
    SAME,
    Counts,
    Difference,
    LedgerState,
    Undecided,
    read_state,
    stored_state,
)

ONE_LATE = tuple(int(bucket == LATE) for bucket in range(len(NOT_COUNTED)))


def test_a_restarted_agent_reads_what_it_stored() -> None:
    placed: dict[int, Counts] = {12: ONE_LATE, 11: NOT_COUNTED}
    stored = stored_state(LedgerState("x", ((3, 1),), 10, ONE_LATE, received=4, given_in=(7,)), placed)
    found = read_state(stored, "x")
    assert (found.numbers, found.given_in, found.settled, found.received) == (((3, 1),), (7,), 10, 4)
    assert found.pending_corrections == ONE_LATE
    assert found.placed == ((11, NOT_COUNTED), (12, ONE_LATE)), "in the order of the intervals"


def test_the_state_of_an_earlier_release_lacks_the_fields_that_came_later() -> None:
    found = read_state(msgspec.msgpack.encode(("x", ((3, 1),))), "x")
    assert found == LedgerState("x", ((3, 1),))
    assert (found.pre_start, found.given_in) == (FIRST, ())


@pytest.mark.parametrize(
    "stored", [b"", b"\xc1rubbish", msgspec.msgpack.encode(("x", 5)), stored_state(LedgerState("other"), {})]
)
def test_what_cannot_be_read_or_is_of_another_incarnation_is_an_empty_state(stored: bytes) -> None:
    assert read_state(stored, "x") == LedgerState("x")


@pytest.mark.parametrize(
    ("difference", "must"),
    [
        (SAME, False),
        (Difference(settled=1), False),
        (Difference(other=True), True),
        (Difference(ONE_LATE), True),
        (Difference(left_out=(Undecided(1, None, NOT_COUNTED, ()),)), True),
    ],
)
def test_a_difference_must_be_stored_if_a_restart_would_not_find_it_again(
    difference: Difference, must: bool
) -> None:
    assert difference.must_be_stored is must
