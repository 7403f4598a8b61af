"""Closing by votes under a grant: every state of small registers, and what the model notices.

The rules are those of docs/adr/0049 and 0059. `pytest -s` prints how many states each configuration has.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from elfmesh.control.register.grant import RosterBasis
from tests.control.register.grants.grant_flaws import FLAWS
from tests.control.register.grants.grant_model import GrantModel
from tests.control.register.grants.grant_rules import Delivery
from tests.control.register.register_model import Broken
from tests.control.register.register_walks import explore, is_caught, wander
from tests.exhaustive import few


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration of the model, and how many states it has at most."""

    scripts: tuple[tuple[str, ...], ...]
    states_max: int
    bounds: dict[str, Any] = field(default_factory=dict)
    votes_close: bool = True

    def model(self, flaws: Iterable[str] = ()) -> GrantModel:
        return GrantModel(*self.scripts, flaws=flaws, **self.bounds)


def holds(name: str, case: Case) -> None:
    """Explore all states of a configuration; the model raises if one breaks a promise."""
    model = case.model()
    states, complete = explore(model, case.states_max)
    print(f"{name}: {states:,} states, votes have closed an interval in {model.states_closed_by_votes:,}")
    assert complete, f"only {states} states were seen"
    assert states > 1
    assert bool(model.states_closed_by_votes) == case.votes_close


def of_a(*indices: int, variant: int = 0) -> frozenset[Delivery]:
    """What a site has of member a."""
    return frozenset(Delivery(1, 0, "a", index, 1, variant) for index in indices)


def of_m(index: int) -> Delivery:
    return Delivery(1, 1, "m", index)


NOTHING: frozenset[Delivery] = frozenset()
TWO = {"members": ("a", "m"), "intervals": 2}
FAR = {"acceptors": 1, "intervals": 0, "granted": False, "leavers": (0,), "rounds": 1}
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
    "one site has the contributions": Case(((), ("take over",)), 5_000, {
        "intervals": 1, "held": (of_a(0), NOTHING, NOTHING),
    }),
    "numbers under a grant": Case(((), ("take over", "roster c")), 1_000, {
        "announces": (("b",),), "intervals": 0,
    }, votes_close=False),
    "numbers before a grant": Case((("grant",), ("take over", "roster c")), 5_000, {
        "announces": (("b",),), "intervals": 0, "acceptors": 1, "granted": False,
    }, votes_close=False),
    "two roster epochs": Case(((), ("take over", "grant")), 20_000, {
        "announces": (("b",), ("c",)), "intervals": 1, "granted": False,
    }),
    "a job is paused": Case((("pause",), ("take over",)), 20_000, {"intervals": 1}),
    "a text that may have no grant": Case((("grant",), ("take over",)), 20_000, {
        "intervals": 1, "granted": False, "permitted": False,
        "held": (of_a(0), of_a(0, variant=1), NOTHING),
    }, votes_close=False),
    **{
        f"another value of {field}": Case(((f"advance {field}", "grant"), ("take over",)), 20_000, {
            "intervals": 1, "acceptors": 1,
        })
        for field in RosterBasis._fields
    },
    "two agents near the job": Case((("4>1", "settle"), ("take over",)), 20_000, {
        **FAR, "agents": 4, "near": range(3), "near_max": 2,
    }, votes_close=False),
    "three agents near the job": Case((("5>1", "settle"),), 20_000, {
        **FAR, "agents": 5, "near": range(4), "near_max": 3,
    }, votes_close=False),
}  # fmt: skip
LONG = {
    "a member is included again": Case((("exclude m", "include m"),), 20_000, {
        **TWO, "held": (of_a(1),) * 3, "pool": ((0, of_m(1)), (1, of_m(1))),
    }),
    "a roster grows": Case((("roster b",), ("take over",)), 20_000, {"intervals": 1}),
    "numbers behind a grant": Case((("revoke", "grant"), ("take over", "roster c")), 20_000, {
        "announces": (("b",),), "intervals": 0, "acceptors": 1,
    }, votes_close=False),
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
    "a new version": Case((("advance version", "grant"),), 40_000, {"announces": (("b",),), "intervals": 1}),
}  # fmt: skip
CASES = QUICK | LONG
SLOWEST = ("two masters, two closings", "acceptors change and settle beside a successor")
"""Each takes as long as all others together, so `make test-nightly` runs them."""
BY_LENGTH = [*QUICK, *(name for name in LONG if name not in SLOWEST), *SLOWEST]


@pytest.mark.parametrize("name", few(BY_LENGTH, len(QUICK), len(LONG) - len(SLOWEST)))
def test_no_state_of_a_register_with_a_grant_breaks_a_promise(name: str) -> None:
    holds(name, CASES[name])


ABLATIONS = [
    ("a successor closes", "promise", "without an interval that votes", 8),
    ("a successor closes", "accept takes a promise back", "without an interval that votes", 9),
    ("the master closes twice", "short cut", "without an interval that votes", 12),
    ("a successor closes", "no fold", "without an interval that votes", 8),
    ("a roster grows", "votes of lower ballots", "finds votes that differ", 13),
    ("two masters", "votes of several ballots", "without an interval that votes", 8),
    ("two masters", "sent before synced", "without an interval that votes", 9),
    ("one site has the contributions", "votes without records", "that no acceptor that has promised has", 6),
    ("a site lacks a contribution", "incomplete", "votes of one ballot differ", 2),
    ("a successor closes", "any record", "votes of one ballot differ", 17),
    ("a revision arrives", "revision", "votes of one ballot differ", 3),
    ("empty intervals while a member is excluded", "runs by time", "votes of one ballot differ", 8),
    ("a member is excluded", "no abstaining", "a voter had something", 9),
    ("a copy of a dead member is held", "copies left out", "a copy was held", 8),
    ("a successor closes", "grant not renewed", "a record of a lower epoch", 15),
    ("one acceptor is exchanged", "grant while joint", "without an interval that votes", 9),
    ("a job is paused", "grant while paused", "a job that is paused", 8),
    ("a text that may have no grant", "grant for any text", "votes of one ballot differ", 8),
    ("numbers under a grant", "announced under a grant", "given twice", 15),
    ("numbers before a grant", "announced while a grant is proposed", "given twice", 15),
    ("numbers behind a grant", "announced while a grant is proposed", "given twice", 18),
    ("numbers before a grant", "roster epoch kept by a take-over", "given twice", 9),
    ("another value of version", "roster epoch kept: version", "made for other terms", 8),
    ("another value of numbering", "roster epoch kept: numbering", "made for other terms", 8),
    ("another value of partitions", "roster epoch kept: partitions", "made for other terms", 8),
    ("another value of bounds", "roster epoch kept: bounds", "made for other terms", 8),
    ("two roster epochs", "no fence", "or with one twice", 12),
    ("a damaged frame", "conflict by a majority", "without an interval that votes", 9),
    ("an acceptor loses its votes", "rot unnoticed", "without an interval that votes", 9),
    ("two agents near the job", "settled before the near agents know", "no agent that knows the job", 11),
    ("three agents near the job", "leaving agents count", "no agent that knows the job", 12),
]
"""Configuration, rule that is left out, promise that breaks, length of the shortest history."""


@pytest.mark.parametrize(
    ("name", "flaw", "noticed", "steps"),
    [each if each[0] in QUICK else pytest.param(*each, marks=pytest.mark.exhaustive) for each in ABLATIONS],
)
def test_a_rule_that_is_left_out_is_noticed(name: str, flaw: str, noticed: str, steps: int) -> None:
    with pytest.raises(Broken, match=noticed) as broken:
        explore(CASES[name].model({flaw}), CASES[name].states_max)
    assert broken.value.steps == steps


def test_every_rule_is_left_out_once() -> None:
    assert {flaw for _, flaw, *_ in ABLATIONS} == set(FLAWS) - {"accept promises more"}


def test_an_acceptor_of_a_grant_that_promises_the_following_ballot_never_votes() -> None:
    model = CASES["a successor closes"].model({"accept promises more"})
    assert explore(model, 20_000)[1]
    assert model.states_closed_by_votes == 0


def test_an_even_number_of_near_agents_may_lose_one_that_was_counted() -> None:
    bounds: dict[str, Any] = {**FAR, "agents": 6, "near": range(5), "near_max": 4}
    model = GrantModel(("6>1", "settle"), flaws={"leaving agents count"}, **bounds)
    states, complete = explore(model, 5_000)
    assert complete
    assert states > 193, "more than with three"


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
