"""What must hold in every state of the model of grants (`grant_model.py`)."""

from __future__ import annotations

import itertools

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.register.grant import is_prefix
from elfmesh.machine import Contact
from tests.control.register.grants.grant_flaws import Rules
from tests.control.register.grants.grant_rules import GrantedRecord, History
from tests.control.register.grants.grant_world import Announced, CastVote, Proposed, World
from tests.control.register.register_model import Broken

Sent = list[tuple[bytes, CastVote]]


def check(
    world: World,
    agents: list[Contact],
    rules: Rules,
    kept: frozenset[tuple[str, int]],
    *,
    damaged: bool,
) -> bool:
    """Return whether votes have closed an interval. Raises Broken."""
    asked = {each.ballot: each for each in world.asked}
    accepted = {agent.id: site.accepted for agent, site in zip(agents, world.sites, strict=True)}
    chosen = sorted(
        (each for each in world.asked if _is_chosen(each, accepted)), key=lambda each: each.ballot
    )
    _check_chain(chosen, asked)
    sent = [(agent.id, cast) for agent, site in zip(agents, world.sites, strict=True) for cast in site.sent]
    closed = _closed_by_votes(sent, asked)
    read = _read_by_sites(sent, asked, rules)
    for ballot, history in (*((ballot, history) for ballot, history, _ in closed), *read):
        if asked[ballot].value.paused:
            raise Broken("votes closed an interval of a job that is paused")
        for later in chosen:
            if later.ballot > ballot and not is_prefix(history, later.value.history):
                raise Broken("a value was chosen without an interval that votes had closed")
    histories = [
        *(each.value.history for each in chosen),
        *(history for _, history, _ in closed),
        *(history for _, history in read),
    ]
    longest = max(histories, key=len)
    if any(not is_prefix(each, longest) for each in histories):
        raise Broken("an interval was closed with two records")
    _check_epochs(longest)
    for _, history, voters in closed:
        _check_excluded(world, history, voters, kept)
    if not damaged:
        for (_, one), (_, other) in itertools.combinations(sent, 2):
            short, long = sorted((one.history, other.history), key=len)
            if one.ballot == other.ballot and not is_prefix(short, long):
                raise Broken("two votes of one ballot differ, and nothing was damaged")
    numbers = {(each.roster_epoch, each.number) for each in world.announced}
    if len(numbers) < len({each[:3] for each in world.announced}):
        raise Broken("a roster number was given twice in a roster epoch")
    for record in longest:
        _check_content(record, world.announced)
    return bool(closed)


def check_founder(world: World, near: list[int], founders: int) -> None:
    """A founder creates no second register, whichever of the near agents answer it. Raises Broken.

    It creates one if a majority of the near agents answers, none of them knows the job, and a majority of the
    nearest ones, which would vote, is among them.
    """
    unaware = [place for place in near if not world.sites[place].named]
    first = near[:founders]
    if 2 * len(unaware) > len(near) and 2 * len(set(unaware) & set(first)) > len(first):
        raise Broken("a founder finds no agent that knows the job")


def _is_chosen(asked: Proposed, accepted: dict[bytes, frozenset[Ballot]]) -> bool:
    """Counted here again, so that a flaw in the rules does not hide itself."""
    return all(
        2 * sum(asked.ballot in accepted[agent] for agent in group) > len(group) for group in asked.groups
    )


def _check_chain(chosen: list[Proposed], asked: dict[Ballot, Proposed]) -> None:
    chain = [chosen[-1]]
    while chain[-1].parent != NONE:
        chain.append(asked[chain[-1].parent])
    decided = {each.ballot for each in chain}
    if any(each.ballot not in decided for each in chosen):
        raise Broken("a value was chosen beside the chain of the others")
    masters: dict[int, int] = {}
    for later, earlier in itertools.pairwise(chain):
        old, new = earlier.value, later.value
        if masters.setdefault(new.epoch, new.master) != new.master:
            raise Broken("two masters of one epoch")
        if new.epoch < old.epoch or new.roster_epoch < old.roster_epoch:
            raise Broken("an epoch went back")


def _closed_by_votes(
    sent: Sent, asked: dict[Ballot, Proposed]
) -> list[tuple[Ballot, History, list[CastVote]]]:
    """What a majority of the acceptors has voted, with its votes; counted here again."""
    found = []
    for ballot in sorted({cast.ballot for _, cast in sent}):
        value = asked[ballot].value
        voters = [each.id for each in value.acceptors]
        of = [(agent, cast) for agent, cast in sent if agent in voters and cast.ballot == ballot]
        shortest = len(value.history) + 1
        ends = {cast.history[:end] for _, cast in of for end in range(shortest, len(cast.history) + 1)}
        for history in ends:
            votes = {agent: cast for agent, cast in of if is_prefix(history, cast.history)}
            if 2 * len(votes) > len(voters):
                found.append((ballot, history, list(votes.values())))
    return found


def _read_by_sites(sent: Sent, asked: dict[Ballot, Proposed], rules: Rules) -> list[tuple[Ballot, History]]:
    """What a site that has received all votes takes as closed."""
    votes = [(agent, cast.ballot, cast.history) for agent, cast in sent]
    found = []
    for ballot in sorted({cast.ballot for _, cast in sent}):
        voters = tuple(each.id for each in asked[ballot].value.acceptors)
        history: History = rules.closed_by_votes(ballot, votes, voters)
        if len(history) > len(asked[ballot].value.history):
            found.append((ballot, history))
    return found


def _check_epochs(history: History) -> None:
    for earlier, later in itertools.pairwise(history):
        if later.epoch < earlier.epoch:
            raise Broken("a record of a lower epoch follows one of a higher epoch")
        if later.interval <= earlier.interval and later.basis.numbering == earlier.basis.numbering:
            raise Broken("a history has two records of an interval")


def _check_content(record: GrantedRecord, announced: frozenset[Announced]) -> None:
    """A record that votes have closed is what its roster determines."""
    grant = record.grant
    if grant is None:
        return
    agents = {each.number: each.agent for each in announced if each.roster_epoch == grant.roster_epoch}
    for number, agent, _, basis in record.content:
        if agents.get(number) != agent:
            raise Broken("a record counts a contribution under the number of another member")
        if basis != record.basis:
            raise Broken("a record counts a contribution that was made for other terms")
    numbers = [number for number, *_ in record.content]
    if numbers != [number for number in range(grant.roster) if number not in grant.excluded]:
        raise Broken("votes closed a record without a member that the roster requires, or with one twice")


def _check_excluded(
    world: World, history: History, voters: list[CastVote], kept: frozenset[tuple[str, int]]
) -> None:
    for record in history:
        grant = record.grant
        if grant is None:
            continue
        for each in world.announced:
            if each.roster_epoch != grant.roster_epoch or each.number not in grant.excluded:
                continue
            for index in range(record.since, record.interval + 1):
                if any((each.agent, index) in cast.had for cast in voters):
                    raise Broken("votes closed a record without a member of which a voter had something")
                if (each.agent, index) in kept:
                    raise Broken("votes closed a record without a member of which a copy was held")
