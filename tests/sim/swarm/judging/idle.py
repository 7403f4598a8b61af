"""Whether pruned paths leave what votes and the master need, after the last fault.

Owns the invariant and its reading of masters. Counts paths by itself, not by the product's graph.
"""

from __future__ import annotations

from collections.abc import Iterator

from elfmesh.control.master.master import Master
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging.outcome import Outcome

KEPT = 2


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
