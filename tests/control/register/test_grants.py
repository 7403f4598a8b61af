"""Closing by votes under a grant: every state of small registers, and what the model notices.

The rules are those of docs/adr/0049. `pytest -s` prints how many states each configuration has.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.control.register.grant_model import GrantModel
from tests.control.register.grant_rules import Delivery
from tests.control.register.register_model import Broken
from tests.control.register.register_walks import explore, is_caught, wander


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration of the model, and how many states it has at most."""

    scripts: tuple[tuple[str, ...], ...]
    states_max: int
    bounds: dict[str, Any] = field(default_factory=dict)
    votes_close: bool = True

    def model(self, flaws: Iterable[str] = ()) -> GrantModel:
        return GrantModel(*self.scripts, flaws=flaws, **self.bounds)


def of_a(*indices: int, variant: int = 0) -> frozenset[Delivery]:
    """What a site has of member a."""
    return frozenset(Delivery(1, 0, "a", index, 1, variant) for index in indices)


def of_m(index: int) -> Delivery:
    return Delivery(1, 1, "m", index)


NOTHING: frozenset[Delivery] = frozenset()
TWO = {"members": ("a", "m"), "intervals": 2}
QUICK = {
    "the master closes twice": Case((("close", "close"),), 5_000),
    "a successor closes": Case(((), ("take over", "close")), 20_000),
    "one acceptor becomes two": Case((("+2", "settle", "grant"), ("take over",)), 5_000, {
        "acceptors": 1, "agents": 2, "intervals": 1, "rounds": 1,
    }),
    "one acceptor is exchanged": Case(
        (("2>1",), ("take over",)),
        5_000,
        {"acceptors": 1, "agents": 2, "intervals": 1},
    ),
    "a member is excluded": Case((("exclude m",), ("take over",)), 10_000, {
        **TWO, "held": (of_a(1),) * 3, "pool": ((1, of_m(1)),),
    }),
    "a member is included again": Case((("exclude m", "include m"),), 20_000, {
        **TWO, "held": (of_a(1),) * 3, "pool": ((0, of_m(1)), (1, of_m(1))),
    }),
    "a copy of a dead member is held": Case((("exclude m", "exclude m"),), 5_000, {
        "members": ("a", "m"), "intervals": 3, "held": (of_a(0, 1, 2), of_a(0, 1, 2), NOTHING),
        "kept": (("m", 1),),
    }),
    "empty intervals while a member is excluded": Case((("exclude m",),), 100, {
        "members": ("a", "m"), "intervals": 4, "empty": (1, 2), "held": (of_a(0, 1, 2, 3),) * 3,
    }),
    "empty intervals": Case((("close",),), 5_000, {
        "intervals": 3, "empty": (1,), "held": (of_a(0, 1, 2), of_a(0, 2), of_a(0, 1, 2)),
        "pool": ((1, Delivery(1, 0, "a", 1)),),
    }),
    "a site lacks a contribution": Case((("close",),), 100, {
        "intervals": 1, "held": (of_a(0), NOTHING, of_a(0)),
    }),
    "a roster grows": Case((("roster b",), ("take over",)), 20_000, {"intervals": 1}),
    "numbers under a grant": Case(((), ("take over", "roster c")), 1_000, {
        "announces": (("b",),), "intervals": 0,
    }, votes_close=False),
    "numbers before a grant": Case((("grant",), ("take over", "roster c")), 5_000, {
        "announces": (("b",),), "intervals": 0, "acceptors": 1, "granted": False,
    }, votes_close=False),
    "numbers behind a grant": Case((("revoke", "grant"), ("take over", "roster c")), 20_000, {
        "announces": (("b",),), "intervals": 0, "acceptors": 1,
    }, votes_close=False),
    "two roster epochs": Case(((), ("take over", "grant")), 20_000, {
        "announces": (("b",), ("c",)), "intervals": 1, "granted": False,
    }),
}  # fmt: skip
LONG = {
    "two masters": Case((("close",), ("take over",)), 60_000),
    "two masters, two closings": Case((("close",), ("take over", "close")), 400_000, {"intervals": 1}),
    "acceptors change": Case((("4>3",), ("take over",)), 400_000, {"agents": 4, "intervals": 1}),
    "acceptors change, and a grant follows": Case((("4>3", "settle", "grant"),), 400_000, {
        "agents": 4, "intervals": 1, "rounds": 1,
    }),
    "acceptors change and settle beside a successor": Case((("4>3", "settle"), ("take over",)), 400_000, {
        "agents": 4, "intervals": 1, "rounds": 1,
    }),
    "an acceptor loses its votes": Case((("-3",), ("take over",)), 400_000, {"intervals": 1, "rots": 1}),
    "a copy of a dead member is held, and a successor": Case(
        (("exclude m", "exclude m"), ("take over",)), 20_000, {
            "members": ("a", "m"), "intervals": 3, "rounds": 1, "kept": (("m", 1),),
            "held": (of_a(0, 1, 2), of_a(0, 1, 2), NOTHING),
        },
    ),
    "a revision arrives": Case((("close",), ("take over",)), 400_000, {
        "intervals": 1, "held": (of_a(0), of_a(0), NOTHING),
        "pool": ((1, Delivery(1, 0, "a", 0, 2, 1)), (2, Delivery(1, 0, "a", 0))),
    }),
    "a damaged frame": Case((("close",), ("take over",)), 60_000, {
        "intervals": 1, "damaged": True, "held": (of_a(0), of_a(0, variant=1), NOTHING),
    }),
    "a damaged frame, five acceptors": Case((("take over",),), 60_000, {
        "acceptors": 5, "intervals": 1, "damaged": True,
        "held": (of_a(0), of_a(0), of_a(0, variant=1), of_a(0, variant=1), NOTHING),
    }),
    "numbers of two masters": Case((("roster b",), ("take over", "roster c")), 20_000, {"intervals": 0},
                                   votes_close=False),
    "a new version": Case((("advance", "grant"),), 40_000, {"announces": (("b",),), "intervals": 1}),
}  # fmt: skip
CASES = QUICK | LONG


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in LONG)]
)
def test_no_state_of_a_register_with_a_grant_breaks_a_promise(name: str) -> None:
    case = CASES[name]
    model = case.model()
    states, complete = explore(model, case.states_max)
    print(f"{name}: {states:,} states, votes have closed an interval in {model.states_closed_by_votes:,}")
    assert complete, f"only {states} states were seen"
    assert bool(model.states_closed_by_votes) == case.votes_close


ABLATIONS = [
    ("a successor closes", "promise", "without an interval that votes"),
    ("the master closes twice", "short cut", "without an interval that votes"),
    ("a successor closes", "no fold", "without an interval that votes"),
    ("a roster grows", "votes of lower ballots", "finds votes that differ"),
    ("two masters", "votes of several ballots", "without an interval that votes"),
    ("two masters", "sent before synced", "without an interval that votes"),
    ("a site lacks a contribution", "incomplete", "votes of one ballot differ"),
    ("a successor closes", "any record", "votes of one ballot differ"),
    ("a revision arrives", "revision", "votes of one ballot differ"),
    ("empty intervals while a member is excluded", "runs by time", "votes of one ballot differ"),
    ("a member is excluded", "no abstaining", "a voter had something"),
    ("a copy of a dead member is held", "copies left out", "a copy was held"),
    ("a successor closes", "grant not renewed", "a record of a lower epoch"),
    ("one acceptor is exchanged", "grant while joint", "without an interval that votes"),
    ("numbers under a grant", "announced under a grant", "given twice"),
    ("numbers before a grant", "announced while a grant is proposed", "given twice"),
    ("numbers behind a grant", "announced while a grant is proposed", "given twice"),
    ("numbers before a grant", "roster epoch kept", "given twice"),
    ("two roster epochs", "no fence", "number of another member"),
    ("a damaged frame", "conflict by a majority", "without an interval that votes"),
    ("an acceptor loses its votes", "rot unnoticed", "without an interval that votes"),
]


@pytest.mark.parametrize(("name", "flaw", "noticed"), ABLATIONS)
def test_a_rule_that_is_left_out_is_noticed(name: str, flaw: str, noticed: str) -> None:
    with pytest.raises(Broken, match=noticed):
        explore(CASES[name].model({flaw}), CASES[name].states_max)


def test_an_acceptor_of_a_grant_that_promises_the_following_ballot_never_votes() -> None:
    model = CASES["a successor closes"].model({"accept promises more"})
    assert explore(model, 20_000)[1]
    assert model.states_closed_by_votes == 0


LONG_SCRIPTS = (
    ("close", "4>3", "settle", "grant", "roster b", "close"),
    ("take over", "exclude a", "include a", "close"),
    ("take over", "revoke", "5>2", "settle", "grant", "close"),
)


def test_no_walk_through_a_larger_register_with_grants_breaks_a_promise() -> None:
    model = GrantModel(*LONG_SCRIPTS, agents=5, intervals=4, rots=1)
    assert wander(model, random.Random(1), walks=40, steps=80) > 1000
    assert model.states_closed_by_votes > 0


def test_walks_notice_a_missing_fold() -> None:
    model = GrantModel(*LONG_SCRIPTS, agents=5, intervals=4, flaws={"no fold"})
    assert is_caught(model, random.Random(1), walks=200, steps=80)
