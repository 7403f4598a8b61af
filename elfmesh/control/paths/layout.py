"""PathLayout of a job: the groups of its members, the gateways at the roots of their trees, and the sites.

Owns the choice of gateways and sites. Pure: a function of the members, and of the layout before. Sends
nothing.

Invariants: the groups are disjoint and contain all members. A gateway is a member of its group. A gateway
stays as long as it is a member and present, because another one makes its group contribute again. The first
site is the master; the others are members in other failure domains. With several sites, the master is a
gateway only where its group has no other agent, because it must not take what it collects with it. Several
sites of members without a label are themselves the gateways: each collects a tree of all members. A layout
decides no row: a wrong one costs bytes and time. The rules of all members (`srt.residency`) allow each site
but the master, and those of a group its gateway, if they allow one of its agents.

Paper: Hwang et al. V-A (placement of operators). Deviation: labels, where there
are any, instead of latency; the choice among the agents of a group is by hash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from elfmesh import ids
from elfmesh.control.jobs.failure_domains import DOMAIN_LABELS, best_addition, domain, share
from elfmesh.control.jobs.terms import Gateway, PathLayout, RosterEntry
from elfmesh.machine import Contact
from elfmesh.srt.residency import ANYWHERE, Rule, allows, shown, together

SITES_MIN = 3
"""With fewer voters a majority is all of them, so that the loss of one would stop the votes."""

Path = tuple[bytes, bytes]
"""A gateway and a site, by their ids: one of the streams between the two stages."""


def group_of(agent: Contact, label: str) -> str:
    """Return the group of an agent, such as eu or eu/r1; "" without a label, or if it does not state it."""
    values = domain(agent, label) if label else ("",)
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
    paths: int,
    voters: Collection[bytes],
    away: Collection[bytes],
    before: PathLayout | None,
    rules: Mapping[bytes, Rule] = MappingProxyType({}),
    copies: int = 1,
) -> PathLayout | None:
    """Return the layout of a job; None if all members are one group, which needs no gateway for one site.

    Args:
        job: id of the job.
        master: the first site of the job.
        members: the members that later intervals expect.
        across: label of the job's text, "" if that names none.
        paths: how many sites the job is to have.
        voters: of the job's register; sites are chosen among them where they are members, because voters
            are spread over failure domains and have the log.
        away: agents that cannot be reached.
        before: the layout that is in force.
        rules: of the members that state where their data is kept, by agent.
        copies: how many gateways each group is to have, if a label tells the members apart.
    """
    label = label_of(members, across)
    if not label and (paths < 2 or not members):
        return None
    allowed = [each for each in members if allows(_rule(members, rules), each)]
    sites = _sites(job, master, allowed, paths, voters, away, before) if paths > 1 else ()
    groups: dict[str, list[Contact]] = {}
    for member in sorted(members, key=lambda each: each.id):
        groups.setdefault(group_of(member, label), []).append(member)
    chosen = []
    for group, agents in sorted(groups.items()):
        known = [each.contact.id for each in (before.gateways if before else ()) if each.group == group]
        about = master, ids.group_tree(master.id, job, 0, group), _rule(agents, rules), paths > 1
        present = [each for each in agents if each.id not in away] or agents
        ends = [] if label else [each for each in sites if each.id in {one.id for one in agents}]
        ends = ends or _gateways(present, known, copies, *about)
        chosen += [Gateway(group, each) for each in _in_place(ends, known)]
    return PathLayout(label, tuple(chosen), sites)


def _rule(members: Sequence[Contact], rules: Mapping[bytes, Rule]) -> Rule:
    return together(rules.get(each.id, ANYWHERE) for each in members)


def _gateways(
    present: Sequence[Contact],
    known: Sequence[bytes],
    copies: int,
    master: Contact,
    key: bytes,
    rule: Rule,
    master_is_last: bool,
) -> list[Contact]:
    """Return the gateways of one group."""
    chosen: list[Contact] = []

    def order(agent: Contact) -> tuple[bool, bool, bool, bool, int]:
        is_late = (agent.id == master.id) == master_is_last
        is_near = any(share(agent, each, DOMAIN_LABELS[-1]) for each in chosen)
        return not allows(rule, agent), is_late, agent.id not in known, is_near, ids.distance(agent.id, key)

    for _ in range(copies):
        rest = [each for each in present if each not in chosen and (not chosen or allows(rule, each))]
        if rest:
            chosen.append(min(rest, key=order))
    return chosen


def _in_place(chosen: Sequence[Contact], known: Sequence[bytes]) -> list[Contact]:
    """Return the gateways in order; one that stays keeps its place, which is the number of its copy."""
    stay = {at: each for at, agent in enumerate(known) for each in chosen if each.id == agent}
    others = iter([each for each in chosen if each.id not in known[: len(chosen)]])
    return [stay.get(at) or next(others) for at in range(len(chosen))]


def _sites(
    job: bytes,
    master: Contact,
    members: Sequence[Contact],
    paths: int,
    voters: Collection[bytes],
    away: Collection[bytes],
    before: PathLayout | None,
) -> tuple[Contact, ...]:
    """Return the master and the members that spread the sites best: voters, earlier sites, the nearest."""
    known = {each.id for each in (() if before is None else before.sites)}
    present = [each for each in members if each.id != master.id and each.id not in away]
    present.sort(key=lambda each: (each.id not in voters, each.id not in known, ids.distance(each.id, job)))
    sites = [master]
    while len(sites) < paths and (rest := [each for each in present if each not in sites]):
        sites.append(best_addition(sites, rest)[0])
    return tuple(sites)


class ReadSites(NamedTuple):
    """The sites of which an agent requests results.

    Attributes:
        first: those that it asks at once; none: the master, to which the overlay routes.
        spare: those that it asks beside them while no answer comes.
    """

    first: tuple[Contact, ...] = ()
    spare: tuple[Contact, ...] = ()


def read_sites(
    me: Contact, layout: PathLayout | None, is_gone: Callable[[bytes], bool] = lambda agent: False
) -> ReadSites:
    """Return the sites that an agent asks for results.

    An agent asks its near site, and the others if that does not answer. If it is gone, or none is near, it
    asks all that vote, and the first answer counts. A site reads from itself, also if another agent has
    become the master.
    """
    sites = () if layout is None else layout.sites
    label = DOMAIN_LABELS[0] if layout is None else layout.label or DOMAIN_LABELS[0]
    present = tuple(each for each in sites if each.id == me.id or not is_gone(each.id))
    near = next((each for each in present if each.id == me.id), None)
    near = near or next((each for each in present if share(me, each, label)), None)
    if near is None:
        return ReadSites(present if len(sites) >= SITES_MIN else ())
    others = tuple(each for each in present if each is not near)
    return ReadSites((near,) if near in sites[1:] else (), others)


def gateways_of(agent: Contact, layout: PathLayout | None) -> tuple[Gateway, ...]:
    """Return the gateways to which an agent contributes, by copy; none: the job's own trees."""
    if layout is None:
        return ()
    group = group_of(agent, layout.label)
    return tuple(each for each in layout.gateways if each.group == group)


def by_group(layout: PathLayout) -> dict[str, list[Contact]]:
    """Return the gateways of each group, by copy."""
    found: dict[str, list[Contact]] = {}
    for each in layout.gateways:
        found.setdefault(each.group, []).append(each.contact)
    return found


def group_trees(job: bytes, partitions: int, gateway: Gateway) -> tuple[bytes, ...]:
    """Return the trees of a group at one gateway, by partition."""
    about = gateway.contact.id, job
    return tuple(ids.group_tree(*about, partition, gateway.group) for partition in range(partitions))


def copies_of(job: bytes, partitions: int, layout: PathLayout | None) -> dict[bytes, int]:
    """Return the number of the copy that each tree of the groups is."""
    found: dict[bytes, int] = {}
    given: dict[str, int] = {}
    for each in () if layout is None else layout.gateways:
        copy = given[each.group] = given.get(each.group, -1) + 1
        found |= dict.fromkeys(group_trees(job, partitions, each), copy)
    return found


def crossings(layout: PathLayout, master: Contact, idle: Collection[Path] = ()) -> tuple[int, int]:
    """Return how many messages cross between groups for an interval and partition, and with PATHS 1.

    Args:
        layout: of the job.
        master: its first site.
        idle: the paths that carry nothing: ids of a gateway and of a site.
    """

    def count(gateways: Sequence[Gateway], sites: Sequence[Contact]) -> int:
        return sum(
            each.group != group_of(site, layout.label) and (each.contact.id, site.id) not in idle
            for each in gateways
            for site in sites
        )

    one = [next(each for each in layout.gateways if each.group == group) for group in by_group(layout)]
    ahead = {group_of(master, layout.label)}
    return count(layout.gateways, layout.sites or (master,)), sum(each.group not in ahead for each in one)


def residency_notes(entries: Sequence[RosterEntry], master: Contact, paths: int) -> list[str]:
    """Return which members keep the sites of a job away from other members."""
    found = []
    for entry in entries if paths > 1 else ():
        out = sum(not allows(entry.keep_in, each.contact) for each in entries)
        if out and allows(entry.keep_in, master):
            verb = "members are" if out != 1 else "member is"
            rule = shown(entry.keep_in)
            found.append(f"{out} {verb} no site, because {entry.name} keeps its data in {rule}")
    return found


def notes(
    layout: PathLayout | None, members: Sequence[Contact], across: str, paths: int, copies: int = 1
) -> list[str]:
    """Return what an operator should know about a layout."""
    label = "" if layout is None else layout.label
    found = site_notes(layout, across, paths)
    for group, gateways in by_group(layout).items() if layout is not None else ():
        if len(gateways) < copies:
            few = f"{len(gateways)} of {copies} gateways of {group or 'the group'}"
            found.append(f"PATHS {paths}, {copies}: {few}, because no other agent of it is present")
    if not label:
        what = across or " and no ".join(DOMAIN_LABELS)
        apart = f"no {what} tells the agents apart, so one tree reduces the contributions of all"
        return [label_error(members, across) or apart, *found]
    unlabelled = sum(not group_of(each, label) for each in members)
    if unlabelled:
        verb = "agent states" if unlabelled == 1 else "agents state"
        found.insert(0, f"{unlabelled} {verb} no {label} and form a group of their own")
    return found


def site_notes(layout: PathLayout | None, across: str, paths: int) -> list[str]:
    """Return where the sites of a layout are fewer than the text names, or share a failure domain."""
    if layout is None or paths < 2:
        return []
    found = []
    if len(layout.sites) < paths:
        found.append(
            f"PATHS {paths}: {len(layout.sites)} of {paths} sites, because no other agent is present"
        )
    label = layout.label or across or DOMAIN_LABELS[-1]
    places = [group_of(each, label) for each in layout.sites]
    for number, place in enumerate(places):
        if place in places[:number]:
            found.append(f"site {number} shares {label} {place or '(none)'} with another site")
    return found


def label_error(members: Sequence[Contact], *labels: str) -> str:
    """Return why a text cannot be applied that names a label which no member states; "" if it can."""
    for label in labels if members else ():
        if label and not any(group_of(each, label) for each in members):
            return (
                f"ACROSS {label}: no agent with the job's input states a {label};"
                f" set `{label}` under `[labels]` in agent.toml of each of them"
            )
    return ""
