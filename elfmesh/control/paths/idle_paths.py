"""Idle paths: streams from gateways to sites that carry nothing, so that a job's network cost stays bounded.

Owns which paths of one term are idle (`COST x`), what is known about their use, and their revival. The master
claims the trees with the sites of the live paths only (`master.trees`). A gateway holds its parts until they
are closed in any case, so a revival costs one round trip and the bytes that are open.

A stream costs the bytes of its group times its latency. The bound is x times the cost of `PATHS 1`, one path
from each group to the master. Algorithm 6 prunes the paths each time the placement is computed. Gateways and
sites are operators; readers take the first answer of any site. Weights are the ranks in which the copies of a
group arrive at the master, and ranks by latency where none has arrived. While the bound permits, paths that
were requested lately become live, those with the most requested bytes first.

Invariants: the master, which closes what votes do not, keeps a live path from each group. Each stage keeps
`min(2, n)` replicas, or all if it has fewer. Idle paths are no part of the layout, of a grant or of a vote:
a site without parts takes the record on which another one votes. A new master, and a layout that has changed,
begin with all paths.

Paper: Hwang et al. V-B (pruning), V-C (revival). Deviations: ranks are those at the master; a gateway whose
paths are all idle stays, because its inputs cross no region.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.terms import PathLayout
from elfmesh.control.paths.layout import Path, by_group, group_of
from elfmesh.control.paths.round_trips import Latencies, RoundTrips
from elfmesh.control.planning.pruning import ReplicaStream, pruned
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

REVIVED_S = 300.0
"""For how long a requested path stays live, and counts as requested."""

PART_BYTES = 256
"""Bytes of a part beside its payload, at most some entries."""

RANKED_MAX = 64
"""Intervals of which the order of the copies is known."""

KEPT = 2

SITE, READERS, CLOSING = "site", "readers", "closing"


@dataclass(frozen=True, slots=True)
class PathCost:
    """What the live paths of a layout cost, in units of the cost of `PATHS 1`.

    Attributes:
        live: how many paths carry parts, and `of`: how many there are.
        ratio: the cost of the live paths; None: no latency is measured, or `PATHS 1` costs nothing.
        is_kept: whether the bound is kept.
    """

    live: int
    of: int
    ratio: float | None
    is_kept: bool


@dataclass(slots=True)
class _Use:
    """What a gateway has delivered to the master since the last plan: bytes, intervals, the sum of 1/rank."""

    nbytes: int = 0
    intervals: int = 0
    shares: float = 0.0


def path_costs(
    layout: PathLayout, master: Contact, latencies: Latencies, rates: Mapping[str, float]
) -> dict[Path, float]:
    """Return what each path costs: the rate of its group times its latency in seconds."""
    return {
        (each.contact.id, site.id): rates.get(each.group, 1.0) * latencies.between(each.contact.id, site.id)
        for each in layout.gateways
        for site in layout.sites or (master,)
    }


def cost_of_one(layout: PathLayout, master: Contact, costs: Mapping[Path, float]) -> float:
    """Return the cost of `PATHS 1`: one path from each group to the master, the cheapest."""
    return sum(min(costs[each.id, master.id] for each in agents) for agents in by_group(layout).values())


def discarded(
    layout: PathLayout,
    master: Contact,
    costs: Mapping[Path, float],
    weights: Mapping[Path, float],
    bound: float,
) -> tuple[Path, ...]:
    """Return the paths that Algorithm 6 discards, so that the others cost at most `bound`, if possible."""
    sites = layout.sites or (master,)
    streams: list[ReplicaStream] = []
    for group, agents in by_group(layout).items():
        stage = f"gateway {group}"
        for each in agents:
            gateway = stage, each.id.hex()
            streams.append(ReplicaStream((f"members {group}", ""), gateway, 0.0))
            streams += [
                ReplicaStream(gateway, (SITE, site.id.hex()), costs[path], weights.get(path, 0.0))
                for site in sites
                for path in ((each.id, site.id),)
            ]
    streams += [ReplicaStream((SITE, site.id.hex()), (READERS, ""), 0.0) for site in sites]
    streams.append(ReplicaStream((SITE, master.id.hex()), (CLOSING, ""), 0.0))
    gone = pruned(streams, bound, min(KEPT, len(sites))).discarded
    paths = [(each.source[1], each.destination) for step in gone for each in step]
    return tuple((bytes.fromhex(one), bytes.fromhex(to[1])) for one, to in paths if to[0] == SITE)


class IdlePaths:
    """The idle paths of one term.

    Args:
        plan: has the bound.
        trips: what the members have measured.
        layout: returns the layout that is in force.
    """

    def __init__(
        self, context: Context, plan: JobPlan, trips: RoundTrips, layout: Callable[[], PathLayout | None]
    ) -> None:
        self._context, self._plan, self._trips, self._layout = context, plan, trips, layout
        self._idle: set[Path] = set()
        self._pruned = frozenset[Path]()
        """All paths of the layout that was pruned."""
        self._until: dict[Path, float] = {}
        self._requested: dict[Path, int] = {}
        self._uses: dict[bytes, _Use] = {}
        self._rates: dict[str, float] = {}
        self._order: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()

    @property
    def idle(self) -> frozenset[Path]:
        """The paths that carry nothing now; none if the layout has changed since they were pruned."""
        if not self._idle or self._pruned != self._paths(self._layout()):
            return frozenset()
        now = self._context.now
        return frozenset(each for each in self._idle if self._until.get(each, now) <= now)

    def of_site(self, group: str, site: bytes) -> list[Contact]:
        """Return the gateways of a group whose path to a site is idle, in the order of their copies."""
        layout, idle = self._layout(), self.idle
        agents = [] if layout is None else by_group(layout).get(group, [])
        return [each for each in agents if (each.id, site) in idle]

    def arrived(self, group: str, gateway: bytes, interval: int, nbytes: int) -> bool:
        """A part has arrived at the master; return whether its copy is the first one of the interval."""
        use = self._uses.setdefault(gateway, _Use())
        use.nbytes += nbytes + PART_BYTES
        order = self._order.setdefault((group, interval), [])
        while len(self._order) > RANKED_MAX:
            self._order.popitem(last=False)
        if gateway not in order:
            order.append(gateway)
            use.intervals += 1
            use.shares += 1 / len(order)
        path = gateway, self._context.me.id
        if path in self._idle:
            self._requested[path] = self._requested.get(path, 0) + nbytes + PART_BYTES
        return order[0] == gateway

    def first_share(self, group: str, gateway: bytes) -> float | None:
        """Return in which share of the newest intervals a copy of a group was the first one at the master."""
        orders = [order for (of, _), order in self._order.items() if of == group]
        return sum(order[0] == gateway for order in orders) / len(orders) if orders else None

    @safeguard("idle-paths-revive")
    def revive(self, gateway: bytes, site: bytes) -> None:
        """A path is requested: it is live for a while, and gets everything that is open."""
        self._until[gateway, site] = self._context.now + REVIVED_S
        self._requested.setdefault((gateway, site), 0)
        self._context.stats["control.revived_paths"] += 1

    def look(self, master: Contact, members: Iterable[Contact]) -> None:
        """Prune the paths and revive those that were requested, as far as the bound permits."""
        layout, now = self._layout(), self._context.now
        uses, self._uses = self._uses, {}
        known = self._paths(layout)
        self._until = {each: until for each, until in self._until.items() if until > now and each in known}
        requested = {each: size for each, size in self._requested.items() if each in self._until}
        self._requested = dict.fromkeys(requested, 0)
        if layout is None or self._plan.cost is None:
            self._idle.clear()
            return
        latencies = self._latencies(layout, master, members)
        if latencies is None:
            return
        self._rates = _rates(layout, uses)
        costs = path_costs(layout, master, latencies, self._rates)
        bound = self._plan.cost * cost_of_one(layout, master, costs)
        weights = self._weights(layout, master, latencies, uses)
        idle = set(discarded(layout, master, costs, weights, bound))
        spent = sum(cost for path, cost in costs.items() if path not in idle)
        for path in sorted(requested, key=lambda each: (-requested[each], each)):
            if path in idle and spent + costs[path] <= bound:
                idle.discard(path)
                spent += costs[path]
        self._context.stats["control.pruned_paths"] += len(idle - self._idle)
        self._idle, self._pruned = idle, known

    def cost(self, master: Contact, members: Iterable[Contact]) -> PathCost | None:
        """Return what the live paths cost; None: the job has no layout."""
        layout, idle = self._layout(), self.idle
        if layout is None or not layout.gateways:
            return None
        known = self._paths(layout)
        live = len(known - idle)
        latencies = self._latencies(layout, master, members)
        if latencies is None:
            return PathCost(live, len(known), None, True)
        costs = path_costs(layout, master, latencies, self._rates)
        one = cost_of_one(layout, master, costs)
        if not one:
            return PathCost(live, len(known), None, True)
        ratio = sum(cost for path, cost in costs.items() if path not in idle) / one
        return PathCost(live, len(known), ratio, self._plan.cost is None or ratio <= self._plan.cost)

    def _paths(self, layout: PathLayout | None) -> frozenset[Path]:
        if layout is None:
            return frozenset()
        sites = layout.sites or (self._context.me,)
        return frozenset((each.contact.id, site.id) for each in layout.gateways for site in sites)

    def _latencies(self, layout: PathLayout, master: Contact, members: Iterable[Contact]) -> Latencies | None:
        gateways = (each.contact for each in layout.gateways)
        agents = (*members, master, *layout.sites, *gateways)
        return self._trips.latencies({each.id: group_of(each, layout.label) for each in agents})

    def _weights(
        self, layout: PathLayout, master: Contact, latencies: Latencies, uses: Mapping[bytes, _Use]
    ) -> dict[Path, float]:
        """Return the mean of 1/rank of each path: as they have arrived at the master, else by latency."""
        found: dict[Path, float] = {}
        for agents in by_group(layout).values():
            for site in layout.sites or (master,):
                near = sorted(agents, key=lambda each: (latencies.between(each.id, site.id), each.id))
                for rank, each in enumerate(near, 1):
                    use = uses.get(each.id) if site.id == master.id else None
                    found[each.id, site.id] = (
                        use.shares / use.intervals if use and use.intervals else 1 / rank
                    )
        return found


def _rates(layout: PathLayout, uses: Mapping[bytes, _Use]) -> dict[str, float]:
    """Return what each group has sent: that of the copy with most bytes, because idle ones send nothing."""

    def sent(agents: Collection[Contact]) -> float:
        return float(max((uses[each.id].nbytes for each in agents if each.id in uses), default=0))

    found = {group: sent(agents) for group, agents in by_group(layout).items()}
    return {group: max(1.0, each) for group, each in found.items()}
