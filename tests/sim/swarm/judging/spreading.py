"""Whether voters are in as many racks as they can be, once the faults have stopped for long enough.

Owns the invariant and its reading of masters. Counts racks by itself, not by the product's measure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from elfmesh.control.master.master import Master
from elfmesh.control.paths.layouts import SITES_MIN
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging.outcome import Outcome

CALM_S = 120.0
"""Two look-ups, two exchanges, and an agent that is taken for dead until then."""


async def crowded(hosts: list[Host]) -> list[str]:
    """Jobs whose voters could be in more racks, and are not within two minutes."""
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
    return [text for master in newest.values() if (text := crowding_of(master, racks, keeping))]


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


def i17_voters_are_spread(out: Outcome) -> Iterator[str]:
    """Two minutes after the last fault the voters of a job are in as many racks as they can be."""
    yield from out.crowded
