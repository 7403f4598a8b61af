"""An ORDERED topic of a run: programs post the lines of the logs, and each agent reads the order in the end.

The posts of an agent that is there at the end, with its first disk, have to be in the order.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from elfmesh.errors import ElfError
from elfmesh.ql.plan.delivery import AGENT, POSITION, PRODUCER
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.outcome import PostName, posts
from tests.sim.swarm.judging.topics import ORDERED
from tests.sim.swarm.residing.watch import newest_rack
from tests.sim.swarm.workload import GOOD, IDS_PER_HOST

if TYPE_CHECKING:
    from tests.sim.swarm.fleet import Swarm
    from tests.sim.swarm.host import Host

TEXT = f"CREATE TOPIC {ORDERED.replace('/', '.')} FROM log DELIVERY ORDERED"
WAIT_S_MAX = 120.0
"""How long after everything else the last posts may take until all agents have them."""


def posted(swarm: Swarm) -> frozenset[PostName]:
    """What has to be in the order; hosts that the newest master excludes post once admitted (D-23)."""
    keeping, rack = swarm.history.residence.keeping, newest_rack(swarm.hosts, ORDERED)
    return frozenset(
        (host.name, f"p{host.number}", line.id % IDS_PER_HOST)
        for host in swarm.hosts
        if host.up and not host.left and host.disks == 1 and host.name not in swarm.history.tampered
        if host.name not in keeping or host.rack == rack
        for line in host.server.ledger
        if line.kind == GOOD
    )


async def orders(swarm: Swarm, key: Incarnation) -> dict[str, list[PostName]]:
    """Return what is read at each agent, once all of them have everything, or the time is over."""
    end = asyncio.get_running_loop().time() + WAIT_S_MAX
    wanted = posted(swarm)
    found: dict[str, list[PostName]] = {}
    for host in swarm.hosts:
        while host.up and not host.left:
            found[host.name] = await _read(swarm, host, key)
            if wanted <= set(found[host.name]) or asyncio.get_running_loop().time() > end:
                break
            await asyncio.sleep(1.0)
    return found


async def _read(swarm: Swarm, host: Host, key: Incarnation) -> list[PostName]:
    found: list[PostName] = []
    start: int | None = None
    while True:
        try:
            reply = await host.ask("results", {"job": key[0], "from": start, "limit": 500})
        except ElfError:
            return found
        if reply.status != 200 or reply.body["incarnation"] != key[1]:
            return found
        page = await swarm.whole_rows(key, reply)
        if not page:
            return found
        for record, rows in page:
            found += [(row[AGENT], row[PRODUCER], row[POSITION]) for row in posts(rows)]
            start = record.index + 1
