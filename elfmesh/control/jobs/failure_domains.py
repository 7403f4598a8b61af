"""Failure domains: labels of agents whose hosts may fail together, and how evenly agents are spread.

Owns the labels that contain each other, the domains that two agents share, and the choice of the agent that
spreads a group best. Decides nothing about voters and copies.

Invariants: a domain lies within one domain of every label before its own, so that two racks of one name in
two regions are two. An agent without a label is in the domain "" of that label; a value is never guessed.
All choices depend on the order of the candidates only, which callers sort by distance.

Paper: PPA (standbys in other failure domains); Hwang et al. V-A (distance between
replicas). Deviation: labels, where there are any, instead of latency.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from elfmesh.machine import Contact

DOMAIN_LABELS = ("region", "rack")
"""Labels that contain each other, the outermost first."""


def domain(agent: Contact, label: str) -> tuple[str, ...]:
    """Return the domain of an agent, with those that contain it."""
    values = (agent.region, agent.rack)
    return values[: DOMAIN_LABELS.index(label) + 1]


def domain_text(agent: Contact) -> str:
    """Return the domains of an agent for people, such as eu/r1; "" if it has none."""
    return "/".join(value for value in domain(agent, DOMAIN_LABELS[-1]) if value)


def share(one: Contact, other: Contact, label: str) -> bool:
    """Return whether two agents are known to fail together at a label.

    Agents without a label share none. An agent of an earlier version reports no region; its rack counts.
    """
    pairs = list(zip(domain(one, label), domain(other, label), strict=True))
    *outer, (inner, same) = pairs
    return bool(inner) and inner == same and all(a == b or not (a and b) for a, b in outer)


def crowding(agents: Iterable[Contact]) -> tuple[int, ...]:
    """Return how unevenly agents are spread, label by label; the smaller the better.

    For each label: the sum of the squares of the numbers of agents in a domain.
    """
    group = list(agents)
    return tuple(
        sum(count * count for count in Counter(domain(agent, label) for agent in group).values())
        for label in DOMAIN_LABELS
    )


def best_addition(agents: Sequence[Contact], candidates: Sequence[Contact]) -> list[Contact]:
    """Return the candidates, those first that spread the agents best; others keep their order."""
    return sorted(candidates, key=lambda each: crowding((*agents, each)))


def best_exchange(agents: Sequence[Contact], candidates: Sequence[Contact]) -> tuple[Contact, Contact] | None:
    """Return the exchange of one agent for one candidate that spreads the agents best: (goes, comes).

    The last of several agents goes, and the first of several candidates comes. None: no exchange spreads
    them better, so that repeated exchanges end.
    """
    best, found = crowding(agents), None
    for comes in candidates:
        for place in reversed(range(len(agents))):
            spread = crowding((*agents[:place], *agents[place + 1 :], comes))
            if spread < best:
                best, found = spread, (agents[place], comes)
    return found
