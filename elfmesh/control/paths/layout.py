"""PathLayout of a job: the groups of its members, and the gateway at the root of the trees of each group.

Owns the choice of gateways. Pure: a function of the members, and of the layout before. Sends nothing.

Invariants: the groups are disjoint and contain all members. A gateway is a member of its group. A gateway
stays as long as it is a member and present, because another one makes its group contribute again. A layout
decides no row: a wrong one costs bytes and time.

Paper: "Replicated processing over wide areas" V-A (placement of operators). Deviation: labels, where there
are any, instead of latency; the choice among the agents of a group is by hash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from elfmesh import ids
from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS, domain
from elfmesh.control.jobs.terms import Gateway, PathLayout
from elfmesh.machine import Contact


def group_of(agent: Contact, label: str) -> str:
    """Return the group of an agent, such as eu or eu/r1; "" if it does not state the label."""
    values = domain(agent, label)
    return "/".join(values) if values[-1] else ""


def label_of(members: Sequence[Contact], across: str) -> str:
    """Return the label of the groups: `across`, or the outermost that tells members apart; "": none."""
    labels = (across,) if across else DOMAIN_LABELS
    return next((each for each in labels if len({group_of(one, each) for one in members}) > 1), "")


def planned(
    job: bytes,
    master: Contact,
    members: Sequence[Contact],
    across: str,
    away: Collection[bytes],
    before: PathLayout | None,
) -> PathLayout | None:
    """Return the layout of a job; None if all members are one group, which needs no gateway.

    Args:
        job: id of the job.
        master: the site of the job; it is the gateway of its own group if it is a member.
        members: the members that later intervals expect.
        across: label of the job's text, "" if that names none.
        away: agents that cannot be reached.
        before: the layout that is in force.
    """
    label = label_of(members, across)
    if not label:
        return None
    groups: dict[str, list[Contact]] = {}
    for member in sorted(members, key=lambda each: each.id):
        groups.setdefault(group_of(member, label), []).append(member)
    known = {} if before is None else {each.group: each.contact.id for each in before.gateways}
    chosen = []
    for group, agents in sorted(groups.items()):
        present = [each for each in agents if each.id not in away] or agents
        key = ids.group_tree(master.id, job, 0, group)

        def order(agent: Contact, group: str = group, key: bytes = key) -> tuple[bool, bool, int]:
            return agent.id != master.id, agent.id != known.get(group), ids.distance(agent.id, key)

        chosen.append(Gateway(group, min(present, key=order)))
    return PathLayout(label, tuple(chosen))


def gateway_of(agent: Contact, layout: PathLayout | None) -> Gateway | None:
    """Return the gateway to which an agent contributes; None: the job's own trees."""
    if layout is None:
        return None
    group = group_of(agent, layout.label)
    return next((each for each in layout.gateways if each.group == group), None)


def group_trees(job: bytes, partitions: int, gateway: Gateway) -> tuple[bytes, ...]:
    """Return the trees of a group, by partition."""
    about = gateway.contact.id, job
    return tuple(ids.group_tree(*about, partition, gateway.group) for partition in range(partitions))


def notes(layout: PathLayout | None, members: Sequence[Contact], across: str) -> list[str]:
    """Return what an operator should know about a layout."""
    if layout is None:
        what = across or " and no ".join(DOMAIN_LABELS)
        return [f"no {what} tells the agents apart, so one tree reduces the contributions of all"]
    unlabelled = sum(not group_of(each, layout.label) for each in members)
    if not unlabelled:
        return []
    verb = "agent states" if unlabelled == 1 else "agents state"
    return [f"{unlabelled} {verb} no {layout.label} and form a group of their own"]
