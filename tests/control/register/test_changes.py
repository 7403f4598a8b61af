"""Every change of a register compares before it sets."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.jobs.register_value import RegisterCell, digest
from elfmesh.control.register.changes import ChangeRefused, Close, Create, Delete, Exchange, TakeOver
from tests.control.register.support import (
    ME,
    STRANGER,
    VALUE,
    A,
    B,
    tail,
)

CHANGES: list[tuple[Any, dict[str, Any], str]] = [
    (Create(replace(VALUE, incarnation="other")), {}, "exists"),
    (Create(VALUE), {"deleted": True}, "over"),
    (TakeOver("i", B, 3), {}, "another took over"),
    (TakeOver("other", B, 1), {}, "over"),
    (TakeOver("i", B, 1), {"deleted": True}, "over"),
    (Close("i", 2, 0, 1, None, 0, tail(0)), {}, "another epoch"),
    (Close("i", 1, 0, 9, 7, 8, tail(8)), {"latest": 6}, "another interval"),
    (Close("other", 1, 0, 1, None, 0, tail(0)), {}, "over"),
    (Delete("i", 4), {}, "another epoch"),
    (Exchange("i", 1, comes=STRANGER), {"former": (ME, A)}, "changing"),
    (Exchange("i", 1, comes=A), {}, "already"),
    (Exchange("i", 2, comes=STRANGER), {}, "another epoch"),
]


@pytest.mark.parametrize(("change", "fields", "reason"), CHANGES)
def test_every_change_compares_before_it_sets(change: Any, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(ChangeRefused, match=reason):
        change.apply(RegisterCell(replace(VALUE, **fields)), certain=True)


def test_a_take_over_is_known_again_by_an_acceptor_that_keeps_no_region() -> None:
    change = TakeOver("i", replace(B, region="eu"), 1)
    made = change.apply(RegisterCell(VALUE), certain=False)
    kept = RegisterCell(replace(made.value, master=B))
    assert change.apply(kept, certain=False) == kept
    later = TakeOver("i", replace(B, incarnation=B.incarnation + 1), 1)
    with pytest.raises(ChangeRefused, match="another took over"):
        later.apply(kept, certain=False)


def test_a_change_that_is_found_to_be_made_is_not_made_twice() -> None:
    found = RegisterCell(VALUE)
    for change in (TakeOver("i", B, 1), Close("i", 2, 4, 9, None, 8, tail(8)), Delete("i", 2)):
        once = change.apply(found, certain=False)
        assert once != found
        assert change.apply(once, certain=False) == once
        found = once
    assert Create(replace(VALUE, incarnation="j")).apply(found, certain=False).value.epoch == 3


def test_a_change_ends_a_grant_and_a_joint_value_gets_none() -> None:
    grant = VotingGrant(1, 1, 0, 5)
    close = Close("i", 1, 0, 5, None, None, grant=grant)
    granted = close.apply(RegisterCell(VALUE), certain=True)
    assert granted.value.grant == grant
    for change in (TakeOver("i", B, 1), Exchange("i", 1, comes=STRANGER), Delete("i", 1)):
        assert change.apply(granted, certain=True).value.grant is None
    joint = Exchange("i", 1, comes=STRANGER).apply(granted, certain=True)
    assert close.apply(joint, certain=True).value.grant is None, "its voters are changing"


def test_a_change_with_a_grant_is_known_again_when_votes_have_closed_more() -> None:
    grant = VotingGrant(1, 1, 0, 9)
    close = Close("i", 1, 0, 9, None, 8, tail(8), grant)
    made = close.apply(RegisterCell(VALUE), certain=False)
    page = tail(8, 9)
    value = replace(made.value, latest=9, closed=10, digest=digest(page))
    assert close.apply(RegisterCell(value, page), certain=False) == RegisterCell(value, page)
