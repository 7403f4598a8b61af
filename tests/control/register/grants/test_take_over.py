"""A take-over ends the grant, as agents do it: every state of small registers, and what the model notices.

The scripts are the product's own changes of the register's value (`grant_changes.py`). A new master reads the
votes of the voters that answer it, folds what may be chosen, and ends the grant (docs/adr/0070).
"""

from __future__ import annotations

import pytest

from tests.control.register.grants.grant_flaws import CHANGES
from tests.control.register.grants.test_grants import NOTHING, Case, holds, of_a
from tests.control.register.register_model import Broken
from tests.control.register.register_walks import explore

WITHOUT = {"granted": False}
QUICK = {
    "a new master closes": Case(((), ("succeed", "commit")), 20_000),
    "a new master grants again": Case(((), ("succeed", "commit grant")), 30_000),
    "a master repeats a closing with a grant": Case((("commit grant",),), 5_000, {
        **WITHOUT, "intervals": 3, "rounds": 2,
    }),
    "a take-over while the master ends the grant": Case((("commit grant", "end"), ("succeed",)), 5_000, {
        **WITHOUT, "rounds": 1,
    }),
    "a master closes under its own grant": Case((("commit grant", "commit"),), 5_000, {
        **WITHOUT, "intervals": 3,
    }),
    "one site has the contributions": Case(((), ("succeed",)), 1_000, {
        "intervals": 1, "held": (of_a(0), NOTHING, NOTHING),
    }),
    "one acceptor is exchanged": Case((("2>1",), ("succeed",)), 1_000, {
        "acceptors": 1, "agents": 2, "intervals": 1,
    }),
    "numbers that no value names": Case(((), ("succeed", "roster c")), 1_000, {
        **WITHOUT, "announces": (("b",),), "intervals": 0, "acceptors": 1,
    }, votes_close=False),
}  # fmt: skip
LONG = {
    "a master folds": Case((("fold",), ("succeed", "commit")), 60_000, {"rounds": 1}),
    "a master folds and ends the grant": Case((("fold", "end"), ("succeed",)), 60_000, {"rounds": 1}),
    "two masters grant": Case((("commit grant",), ("succeed", "commit grant")), 20_000, {
        **WITHOUT, "intervals": 3, "rounds": 1,
    }),
    "two masters, the first ends its grant": Case(
        (("commit grant", "end", "commit"), ("succeed", "commit")), 5_000, {**WITHOUT, "rounds": 1},
    ),
    "two agents take over": Case(((), ("succeed",), ("succeed",)), 5_000, {"intervals": 1, "rounds": 1}),
    "one of three acceptors is exchanged": Case((("4>3",), ("succeed",)), 60_000, {
        "agents": 4, "intervals": 1,
    }),
    "an acceptor loses its votes": Case((("-3",), ("succeed",)), 40_000, {"intervals": 1, "rots": 1}),
    "a damaged frame": Case(((), ("succeed", "commit")), 30_000, {
        "intervals": 1, "damaged": True, "held": (of_a(0), of_a(0, variant=1), NOTHING),
    }),
    "a damaged frame, five acceptors": Case((("succeed",),), 20_000, {
        "acceptors": 5, "intervals": 1, "damaged": True,
        "held": (of_a(0), of_a(0), of_a(0, variant=1), of_a(0, variant=1), NOTHING),
    }),
    "numbers behind a grant": Case((("end",), ("succeed", "roster c")), 100_000, {
        "announces": (("b",),), "intervals": 0,
    }, votes_close=False),
}  # fmt: skip
CASES = QUICK | LONG


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(each, marks=pytest.mark.exhaustive) for each in LONG)]
)
def test_no_state_breaks_a_promise_if_a_take_over_ends_the_grant(name: str) -> None:
    holds(name, CASES[name])


ABLATIONS = [
    ("a new master closes", "promise", "without an interval that votes", 8),
    ("a new master closes", "accept takes a promise back", "without an interval that votes", 9),
    ("a new master closes", "no fold", "without an interval that votes", 8),
    ("a new master grants again", "votes of lower ballots", "refuses its master", 12),
    ("a new master grants again", "votes of several ballots", "without an interval that votes", 13),
    ("a new master grants again", "any record", "votes of one ballot differ", 14),
    ("a new master grants again", "no fence", "votes of one ballot differ", 9),
    ("a take-over while the master ends the grant", "short cut", "without an interval that votes", 12),
    ("a new master closes", "sent before synced", "without an interval that votes", 9),
    ("one site has the contributions", "votes without records", "that no acceptor that has promised has", 6),
    ("one acceptor is exchanged", "grant while joint", "without an interval that votes", 9),
    ("an acceptor loses its votes", "rot unnoticed", "without an interval that votes", 9),
    ("a damaged frame", "conflict by a majority", "without an interval that votes", 9),
    ("numbers that no value names", "roster epoch kept by a take-over", "given twice", 9),
    ("a master closes under its own grant", "a closing compares no record", "two records of an interval", 15),
    ("a master repeats a closing with a grant", "a closing that is made compares no grant",
     "refuses its master", 10),
]  # fmt: skip
"""Configuration, rule that is left out, promise that breaks, length of the shortest history."""


@pytest.mark.parametrize(
    ("name", "flaw", "noticed", "steps"),
    [each if each[0] in QUICK else pytest.param(*each, marks=pytest.mark.exhaustive) for each in ABLATIONS],
)
def test_a_rule_on_which_the_take_over_depends_is_noticed(
    name: str, flaw: str, noticed: str, steps: int
) -> None:
    with pytest.raises(Broken, match=noticed) as broken:
        explore(CASES[name].model({flaw}), CASES[name].states_max)
    assert broken.value.steps == steps


def test_every_comparison_of_a_change_is_left_out_once() -> None:
    assert {flaw for _, flaw, *_ in ABLATIONS} & set(CHANGES) == set(CHANGES) - {
        "a take-over keeps the grant"
    }


@pytest.mark.exhaustive
def test_no_promise_depends_on_the_end_of_the_grant_itself() -> None:
    """The votes under a ballot void those under lower ones, whether or not the value holds a grant."""
    for name in ("a new master closes", "a new master grants again"):
        model = CASES[name].model({"a take-over keeps the grant"})
        assert explore(model, 30_000)[1]
        assert model.states_closed_by_votes > 0


def test_numbers_need_no_grant_if_each_term_begins_a_roster_epoch() -> None:
    """G6 protects the numbers of a roster epoch that a take-over keeps; agents keep none (ADR 0070)."""
    bounds = {**WITHOUT, "announces": (("b",),), "intervals": 1, "acceptors": 1}
    case = Case((("commit grant",), ("succeed", "roster c")), 5_000, bounds)
    for flaw in ("announced while a grant is proposed", "announced under a grant"):
        assert explore(case.model({flaw}), case.states_max)[1]
