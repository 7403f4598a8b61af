"""Every state of small registers, long walks through larger ones, and what both notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from msgspec.structs import replace as with_fields

from elfmesh.control.consensus import rules as register
from elfmesh.control.consensus.rules import Ballot, Group, Vote
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.register import changes
from elfmesh.control.register.changes import Exchange
from tests.control.register.register_model import Broken, Model
from tests.control.register.register_walks import Phase, explore, follow, hears, is_caught, wander

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


ENDING = (("close", "delete"), ("take over", "close"))


@pytest.mark.parametrize(
    "scripts",
    [(("delete",), ("take over",)), pytest.param(ENDING, marks=pytest.mark.exhaustive)],
    ids=["an end", "an end behind an interval"],
)
def test_what_is_forgotten_of_a_job_that_is_over_does_not_bring_it_back(
    scripts: tuple[tuple[str, ...], ...],
) -> None:
    model = Model(scripts, rounds=1, forgets=True)
    states, complete = explore(model, 200_000)
    assert complete, f"only {states} states were seen"


def test_no_walk_through_an_end_that_is_forgotten_brings_it_back() -> None:
    model = Model((*ENDING, ("take over", "delete")), rounds=3, forgets=True)
    assert wander(model, random.Random(3), walks=60, steps=80) > 1000


def test_a_vote_that_is_forgotten_without_a_floor_is_noticed() -> None:
    model = Model(ENDING, rounds=2, forgets=True, flaws=frozenset({"no floor"}))
    assert is_caught(model, random.Random(2), walks=300, steps=100)


def test_a_floor_that_proposers_do_not_mind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register.Promise, "hides", lambda self, found: False)
    model = Model(ENDING, rounds=2, forgets=True)
    assert is_caught(model, random.Random(2), walks=600, steps=100)


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


def anything(vote: Vote[RegisterCell], ballot: Ballot) -> bool:
    return True


def test_a_majority_of_one_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "is_quorum", any_agent)
    monkeypatch.setattr(
        "tests.control.register.register_model.is_majority",
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


def unsettled(exchange: Exchange, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
    """Begins a change of the acceptors although one is not settled."""
    assert found is not None
    settled = with_fields(found.value, former=())
    checked = Exchange.checked  # type: ignore[attr-defined]  # the ablation put it there
    return cast(RegisterCell, checked(exchange, RegisterCell(settled, found.tail), certain=certain))


def straight(exchange: Exchange, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
    """Changes the acceptors without a joint value."""
    cell: RegisterCell = Exchange.checked(exchange, found, certain=certain)  # type: ignore[attr-defined]  # as above
    return RegisterCell(with_fields(cell.value, former=()), cell.tail)


@pytest.mark.parametrize(("careless", "second"), [(unsettled, "5>2"), (straight, "5>2")])
def test_careless_changes_of_the_acceptors_are_noticed(
    monkeypatch: pytest.MonkeyPatch, careless: Callable[..., RegisterCell], second: str
) -> None:
    monkeypatch.setattr(Exchange, "checked", Exchange.apply, raising=False)
    monkeypatch.setattr(Exchange, "apply", careless)
    monkeypatch.setattr(register, "may_follow", everything_may_follow)
    assert caught_by_moves(second)


def test_settling_what_is_not_chosen_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = changes.Settle.apply

    def hasty(settle: changes.Settle, found: RegisterCell | None, *, certain: bool) -> RegisterCell:
        return honest(settle, found, certain=True)

    monkeypatch.setattr(changes.Settle, "apply", hasty)
    monkeypatch.setattr(register, "may_follow", everything_may_follow)
    assert caught_by_moves("settle")


def test_careful_changes_of_the_acceptors_are_not() -> None:
    assert not caught_by_moves("5>2")
    assert not caught_by_moves("settle")


REPLACED = (
    ("-3", "settle", "+3", "settle", "close"),
    ("take over", "-3", "settle", "+3", "settle", "close"),
    ("take over", "close", "close"),
)
FORGETFUL = (
    ("4>3", "settle", "3>2", "settle", "close"),
    ("take over", "-2", "settle", "+2", "settle", "close"),
    ("take over", "+3", "settle", "close"),
)


@pytest.mark.parametrize(
    ("scripts", "acceptors"),
    [((("-3", "settle"), ("take over",)), 3), ((("+2", "settle"), ("take over", "close")), 1)],
    ids=["leaves the group", "comes into it"],
)
def test_no_state_of_a_small_register_with_a_voter_that_lost_its_votes_breaks_a_promise(
    scripts: tuple[tuple[str, ...], ...], acceptors: int
) -> None:
    model = Model(scripts, acceptors=acceptors, agents=max(acceptors, 2), rounds=1, rots=1)
    states, complete = explore(model, 60_000)
    assert complete, f"only {states} states were seen"


@pytest.mark.parametrize(("scripts", "agents"), [(REPLACED, 3), (FORGETFUL, 4)], ids=["same", "another"])
def test_no_walk_with_voters_that_lose_their_votes_breaks_a_promise(
    scripts: tuple[tuple[str, ...], ...], agents: int
) -> None:
    model = Model(scripts, rounds=4, agents=agents, rots=2)
    assert wander(model, random.Random(3), walks=80, steps=120) > 1000


def breaks(model: Model, *phases: Phase) -> bool:
    try:
        follow(model, phases)
    except Broken:
        return True
    return False


def a_voter_forgets_what_was_chosen(*flaws: str) -> bool:
    """An interval is closed by a majority; one of it loses its votes; a new master hears it and the third."""
    model = Model((("close",), ("take over",)), rounds=1, rots=1, flaws=frozenset(flaws))
    return breaks(model, (0, (1, 2), (1, 2)), 1, (1, (1, 3), (1, 3)))


def a_voter_is_replaced_by_itself_in_one_step(*flaws: str) -> bool:
    """A round that has the promise of a voter from before its loss ends after that voter has come again."""
    model = Model((("3>3",), ("take over",)), rounds=1, rots=1, flaws=frozenset(flaws))
    return breaks(model, (0, (1, 2), None), (1, (2, 3), ()), 3, (0, (), (1, 3)), (1, (), (1, 2)))


def a_voter_comes_again_by_an_old_change(*flaws: str) -> bool:
    """The change that once made it an acceptor, said late, is not one that was made after its loss."""
    scripts = (("+3", "settle", "close"), ("take over",))
    model = Model(scripts, acceptors=2, agents=3, rounds=1, rots=1, flaws=frozenset(flaws))
    closed = follow(model, ((0, (1, 2), (1, 2)), (0, (), (1, 2)), (0, (), (1, 3))))
    try:
        model.start = hears(model, model.rotten(closed, 2), 0, 3, late=True)
        follow(model, ((1, (2, 3), (2, 3)), (1, (), (2, 3))))
    except Broken:
        return True
    return False


def a_promise_from_before_the_loss_counts(*flaws: str) -> bool:
    """A round with a high ballot is promised by a voter that then loses it, is replaced and comes again."""
    scripts = (("-3", "settle", "+3", "settle", "close"), ("take over",))
    model = Model(scripts, rounds=1, rots=1, flaws=frozenset(flaws))
    first, second = model.start.proposers
    model.start = replace(model.start, proposers=(first, replace(second, counter=50)))
    replaced: tuple[Phase, ...] = (
        (0, (1, 2), (1, 2)),
        (0, (), (1, 2)),
        (0, (), (1, 2, 3)),
        (0, (), (1, 2, 3)),
    )
    return breaks(model, (1, (3,), None), 3, *replaced, (1, (2,), None), (0, (), (1, 3)), (1, (), (1, 2)))


@pytest.mark.parametrize(
    ("history", "flaw"),
    [
        (a_voter_forgets_what_was_chosen, "rot unnoticed"),
        (a_voter_is_replaced_by_itself_in_one_step, "in the old group"),
        (a_voter_comes_again_by_an_old_change, "old membership"),
        (a_promise_from_before_the_loss_counts, "old promise"),
    ],
)
def test_a_missing_safeguard_of_voters_that_lost_their_votes_is_noticed(
    history: Callable[..., bool], flaw: str
) -> None:
    assert history(flaw)
    assert not history()
