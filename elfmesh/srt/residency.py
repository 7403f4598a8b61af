"""Where the data of a host may be sent: the rule that travels with each contribution.

Owns the rule and its comparison with the labels that an agent states of itself. Sends and refuses nothing.

A rule is a tuple of clauses, one for each host with a rule of its own. A clause is a sorted tuple of labels
such as region=eu. An agent satisfies a rule if it has one label of each clause. The empty rule allows every
agent. What is merged satisfies the rules of all its parts, so a merged rule has the clauses of all of them.

Invariant: an agent whose labels are not known satisfies no clause.
"""

from __future__ import annotations

from collections.abc import Iterable

from elfmesh.machine import Contact

Rule = tuple[tuple[str, ...], ...]
ANYWHERE: Rule = ()


def allows(rule: Rule, agent: Contact) -> bool:
    """Return whether an agent may get what has this rule."""
    if not rule:
        return True
    return admitted(rule, agent) == len(rule)


def admitted(rule: Rule, agent: Contact) -> int:
    """Return how many clauses of a rule an agent satisfies."""
    labels = {f"region={agent.region}", f"rack={agent.rack}"}
    return sum(not labels.isdisjoint(clause) for clause in rule)


def together(rules: Iterable[Rule]) -> Rule:
    """Return the rule of what is merged from parts with these rules."""
    return tuple(sorted({clause for rule in rules for clause in rule}))


def implies(stronger: Rule, weaker: Rule) -> bool:
    """Return whether an agent that sends only where the first rule allows keeps the second one, too."""
    return set(weaker) <= set(stronger)


def shown(rule: Rule) -> str:
    """Return a rule for people, such as `region=eu or region=uk`."""
    return " and ".join(" or ".join(clause) for clause in rule)
