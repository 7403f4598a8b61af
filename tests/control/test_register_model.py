"""Every state of small registers, long walks through larger ones, and what both notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

import pytest
from msgspec.structs import replace as with_fields

from elfmesh.control.register import rules as register
from elfmesh.control.register import value as register_value
from elfmesh.control.register.rules import Ballot, Group, Vote
from elfmesh.control.register.value import Cell, Exchange
from tests.control.register_model import Broken, Model, explore, follow, is_caught, wander

RIVALS = (("close",), ("take over", "close"))
LONGER = (("close", "close"), ("take over",))
GROWING = (("+2", "settle"), ("take over",), ("take over",))
MANY = (("close", "close", "close"), ("take over", "close", "close"), ("take over", "close"))
MOVES = (
    ("4>3", "settle", "5>2", "settle", "close"),
    ("take over", "1>4", "settle", "close"),
    ("take over", "+5", "settle", "close"),
)


@pytest.mark.parametrize(
    ("scripts", "acceptors", "rounds"),
    [(RIVALS, 3, 1), (LONGER, 3, 1), (GROWING, 1, 1)],
    ids=["an old and a new master", "several intervals", "one acceptor becomes two"],
)
def test_no_state_of_a_small_register_breaks_a_promise(
    scripts: tuple[tuple[str, ...], ...], acceptors: int, rounds: int
) -> None:
    model = Model(scripts, acceptors=acceptors, agents=max(acceptors, 2), rounds=rounds)
    states, complete = explore(model, 60_000)
    assert complete, f"only {states} states were seen"


@pytest.mark.parametrize(
    ("scripts", "acceptors", "agents"),
    [(MANY, 3, 3), (MOVES, 3, 5), (MOVES, 1, 5), (MANY, 5, 5)],
    ids=["three masters", "acceptors change", "one acceptor grows", "five acceptors"],
)
def test_no_walk_through_a_larger_register_breaks_a_promise(
    scripts: tuple[tuple[str, ...], ...], acceptors: int, agents: int
) -> None:
    model = Model(scripts, rounds=3, acceptors=acceptors, agents=agents)
    assert wander(model, random.Random(1), walks=60, steps=80) > 1000


def caught_by_rivals(*flaws: str) -> bool:
    model = Model(MANY, rounds=2, flaws=frozenset(flaws))
    return is_caught(model, random.Random(2), walks=300, steps=100)


def caught_by_moves(second: str) -> bool:
    """One changes the acceptors, another goes on with that, neither with a quorum; then two want to lead."""
    model = Model((("4>3",), (second,), ("take over",), ("take over",)), agents=5, rounds=1)
    half_known = ((0, (1, 2), (1,)), (1, (1, 2), (1,)), (2, (1, 4), (1, 4)), (3, (2, 3), (2, 3)))
    try:
        follow(model, half_known)
    except Broken:
        return True
    return False


@pytest.mark.parametrize("flaw", ["lost votes", "unprepared", "epoch"])
def test_a_missing_safeguard_of_votes_and_comparisons_is_noticed(flaw: str) -> None:
    assert caught_by_rivals(flaw)


def any_agent(groups: tuple[Group, ...], agents: Group) -> bool:
    return all(any(agent in agents for agent in group) for group in groups)


def anything(vote: Vote[Cell], ballot: Ballot) -> bool:
    return True


def test_a_majority_of_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "is_quorum", any_agent)
    monkeypatch.setattr(
        "tests.control.register_model.is_majority",
        lambda asked, accepted: any_agent(
            asked.groups, tuple(agent for ballot, agent in accepted if ballot == asked.ballot)
        ),
    )
    assert caught_by_rivals()


def test_an_acceptor_that_compares_no_ballots_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Vote, "permits", anything)
    assert caught_by_rivals()


def everything_may_follow(*_: object, **__: object) -> bool:
    return True


def unsettled(exchange: Exchange, found: Cell | None, *, certain: bool) -> Cell:
    """Begins a change of the acceptors although one is not settled."""
    assert found is not None
    settled = with_fields(found.value, former=())
    checked = Exchange.checked  # type: ignore[attr-defined]  # the ablation put it there
    return cast(Cell, checked(exchange, Cell(settled, found.tail), certain=certain))


def straight(exchange: Exchange, found: Cell | None, *, certain: bool) -> Cell:
    """Changes the acceptors without a joint value."""
    cell: Cell = Exchange.checked(exchange, found, certain=certain)  # type: ignore[attr-defined]  # as above
    return Cell(with_fields(cell.value, former=()), cell.tail)


@pytest.mark.parametrize(("careless", "second"), [(unsettled, "5>2"), (straight, "5>2")])
def test_careless_changes_of_the_acceptors_are_noticed(
    monkeypatch: pytest.MonkeyPatch, careless: Callable[..., Cell], second: str
) -> None:
    monkeypatch.setattr(Exchange, "checked", Exchange.apply, raising=False)
    monkeypatch.setattr(Exchange, "apply", careless)
    monkeypatch.setattr(register, "may_follow", everything_may_follow)
    assert caught_by_moves(second)


def test_settling_what_is_not_chosen_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = register_value.Settle.apply

    def hasty(settle: register_value.Settle, found: Cell | None, *, certain: bool) -> Cell:
        return honest(settle, found, certain=True)

    monkeypatch.setattr(register_value.Settle, "apply", hasty)
    monkeypatch.setattr(register, "may_follow", everything_may_follow)
    assert caught_by_moves("settle")


def test_careful_changes_of_the_acceptors_are_not() -> None:
    assert not caught_by_moves("5>2")
    assert not caught_by_moves("settle")
