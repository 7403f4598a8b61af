"""Whether voters and standbys are in other racks where they can be, and pruned paths leave what is needed.

Owns the invariants and their reading of masters. Counts racks and paths by itself, not by the product's
measure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from elfmesh.control.master.master import Master
from elfmesh.control.paths.layout import SITES_MIN
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging.outcome import Outcome

CALM_S = 120.0
"""Two look-ups, two exchanges, and an agent that is taken for dead until then."""

KEPT = 2
"""Sites that get all groups, and trees of each group that are used, where there are as many."""


async def crowded(hosts: list[Host]) -> list[str]:
    """Jobs whose voters or standbys could be in other racks, and are not within two minutes."""
    until = asyncio.get_running_loop().time() + CALM_S
    while found := _crowded_now(hosts):
        if asyncio.get_running_loop().time() >= until:
            return found
        await asyncio.sleep(1.0)
    return []


def _crowded_now(hosts: list[Host]) -> list[str]:
    newest: dict[bytes, Master] = {}
    racks = {host.id: host.rack for host in hosts if host.up and not host.left}
    for host in hosts:
        masters = {} if host.local is None else host.local.control.leadership.masters
        for job, master in masters.items():
            if job not in newest or master.term.epoch > newest[job].term.epoch:
                newest[job] = master
    keeping = hosts[0].around.scenario.keeping
    voters = [text for master in newest.values() if (text := crowding_of(master, racks, keeping))]
    return [*voters, *(text for master in newest.values() for text in misplaced(master, racks, keeping))]


def crowding_of(master: Master, racks: dict[bytes, str], keeping: str) -> str:
    """Return how the voters of a job are crowded; "" if they are not, or one has to be replaced first.

    Args:
        master: of the job.
        racks: of all agents that are up.
        keeping: the rack whose hosts keep their data there; "": none. Voters that are sites have to be in it
            if the master is, however they are spread.
    """
    value = master.term.cell.value
    voters = [contact.id for contact in value.acceptors]
    if value.former or master.term.stopping or master.proposer.lost or not racks.keys() >= set(voters):
        return ""  # a voter has to be replaced first
    members = {entry.contact.id for entry in master.term.book.active}
    is_kept = master.term.plan.paths >= SITES_MIN and racks.get(master.term.context.me.id) == keeping
    inside = {agent for agent, rack in racks.items() if not is_kept or rack == keeping}
    possible = {racks[agent] for agent in inside if agent in members or agent in voters}
    used = {racks[voter] for voter in voters}
    if len(used) >= min(len(voters), len(possible)):
        return ""
    return f"{master.term.manifest.qualified}: {len(voters)} voters in {len(used)} of {len(possible)} racks"


def misplaced(master: Master, racks: dict[bytes, str], keeping: str) -> Iterator[str]:
    """Return the standbys in the racks of their members, and the plan if it is above its budget.

    Args:
        master: of the job.
        racks: of all agents that are up.
        keeping: the rack whose hosts keep their data there; "": none.
    """
    term, budget = master.term, master.term.plan.standbys
    members = {entry.number: entry.contact.id for entry in term.book.active}
    if term.plan.standby_s is None or term.stopping or not racks.keys() >= {*members.values()}:
        return
    name, used = term.manifest.qualified, {racks[agent] for agent in members.values()}
    for number, agent in members.items():
        standby = term.members.standby_of(number)
        if standby is not None and racks[standby.contact.id] == racks[agent] != keeping and len(used) > 1:
            yield f"{name}: the standby of member {number} is in its rack, {racks[agent]}"
    planned, share = term.standby_plans.standbys or (), budget.amount * len(members)
    most = {"members": budget.amount, "share": share}.get(budget.unit, len(members))
    if len(planned) > most or not members.keys() >= {*planned}:
        yield f"{name}: the plan {planned} is above {budget} of {len(members)} members"


def i17_agents_are_spread(out: Outcome) -> Iterator[str]:
    """Two minutes after the last fault voters and standbys are in other racks if they can be (D-4, D-21)."""
    yield from out.crowded


def starving(hosts: list[Host]) -> list[str]:
    """Groups without a live path to their master, and jobs with fewer than two sites that get all groups."""
    found = []
    for host in hosts:
        masters = {} if host.local is None else host.local.control.leadership.masters
        for master in masters.values() if host.up and not host.left else ():
            found += [f"{host.name}, {master.term.manifest.qualified}: {text}" for text in _starving(master)]
    return found


def pruned(hosts: list[Host]) -> int:
    """How many paths all masters have pruned."""
    living = [host.local.control for host in hosts if host.local is not None]
    return sum(control.stats().get("control.pruned_paths", 0) for control in living)


def _starving(master: Master) -> Iterator[str]:
    layout, idle = master.term.layouts.layout, master.term.layouts.idle_paths.idle
    if layout is None or not layout.sites:
        return
    gateways: dict[str, list[bytes]] = {}
    for each in layout.gateways:
        gateways.setdefault(each.group, []).append(each.contact.id)
    fed = {
        site.id: [any((one, site.id) not in idle for one in agents) for agents in gateways.values()]
        for site in layout.sites
    }
    if not all(fed[layout.sites[0].id]):
        yield "the master has no live path from a group"
    if sum(all(each) for each in fed.values()) < min(KEPT, len(layout.sites)):
        yield "fewer than two sites get all groups"
    for group, agents in gateways.items():
        used = sum(any((one, site.id) not in idle for site in layout.sites) for one in agents)
        if used < min(KEPT, len(layout.sites), len(agents)):
            yield f"{used} of {len(agents)} trees of {group} are used"


def i18_pruned_paths_leave_what_is_needed(out: Outcome) -> Iterator[str]:
    """The master gets each group, and two sites and two trees of each group are in use."""
    yield from out.starving
