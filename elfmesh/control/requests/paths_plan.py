"""The answer to `plan`: the layout of a job and its standbys, as its master has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.jobs.failure_domains import domain, domain_text, share
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.standby_choice import DomainLosses, domains_of
from elfmesh.control.master.master import Master
from elfmesh.control.paths.latency_placement import Expectation
from elfmesh.control.paths.layout import (
    Path,
    by_group,
    crossings,
    group_of,
    notes,
    residency_notes,
    site_notes,
)
from elfmesh.control.protocol.replies_plan import (
    ExpectedLatency,
    JobLayout,
    PathState,
    PlannedCost,
    PlannedGroup,
    PlannedLayout,
    PlannedPath,
    PlannedSite,
    PlannedStandby,
    PlannedStandbys,
)
from elfmesh.machine import Contact

NO_STANDBY = "no other agent is a member, so no agent can stand by"
NO_PATHS = "the job has no PATHS, so one tree reduces the contributions of all"


def job_layout(context: Context, master: Master) -> JobLayout:
    term = master.term
    plan, layout, entries = term.plan, term.layouts.layout, term.book.active
    names = {entry.contact.id: entry.name for entry in entries}

    def site(agent: Contact, name: str) -> PlannedSite:
        return PlannedSite(name, agent.id.hex(), domain_text(agent))

    found = None
    if layout is not None:
        sizes = [group_of(entry.contact, layout.label) for entry in entries]
        groups = [
            PlannedGroup(
                group,
                sizes.count(group),
                [site(each, names.get(each.id, each.id.hex())) for each in agents],
            )
            for group, agents in by_group(layout).items()
        ]
        addresses = {each.id: f"{each.host}:{each.port}" for each in layout.sites}
        known, first = addresses | {context.me.id: context.name} | names, master.first_votes
        sites = [
            replace(site(each, known[each.id]), first=first.get(each.id, UNSET))
            for each in layout.sites or (context.me,)
        ]
        found = PlannedLayout(layout.label, sites, groups)
    members = [entry.contact for entry in entries]
    cost = planned_cost(context, master)
    closing = [each for each in (term.grants.note(),) if each]
    shape = [*notes(layout, members, plan.across, plan.paths, plan.copies), *closing]
    shape = [*shape, *(() if cost is None else cost_notes(cost))] if plan.paths else [NO_PATHS]
    kept = residency_notes(entries, context.me, plan.paths)
    messages = (
        (UNSET, UNSET) if layout is None else crossings(layout, context.me, term.layouts.idle_paths.idle)
    )
    return JobLayout(
        job=term.manifest.qualified,
        paths=plan.paths,
        across=plan.across,
        layout=found,
        notes=[*shape, *kept, *master.tally.excluded(context.now)],
        standbys=UNSET if plan.standby_s is None else planned_standbys(master),
        messages=messages[0],
        messages_of_one=messages[1],
        expected=_expected(term.layouts.expectation),
        copies=plan.copies if plan.paths else UNSET,
        streams=UNSET if layout is None else path_states(context, master),
        warnings=site_notes(layout, plan.across, plan.paths),
        cost=UNSET if cost is None else cost,
    )


def planned_cost(context: Context, master: Master) -> PlannedCost | None:
    """Return what the paths of a job cost, and which are idle; None: the job has no layout."""
    term = master.term
    layout, cost, idle = term.layouts.layout, term.layouts.cost, term.layouts.idle_paths.idle
    if layout is None or cost is None:
        return None
    paths = [each for path, each in _paths(context, master) if path in idle]
    ratio = None if cost.ratio is None else round(cost.ratio, 3)
    return PlannedCost(cost.of, cost.live, paths, term.plan.cost, ratio, cost.is_kept)


def _paths(context: Context, master: Master) -> Iterator[tuple[Path, PlannedPath]]:
    """Yield the paths of a job from each gateway to each site, the master's first."""
    layout = master.term.layouts.layout
    if layout is None:
        return
    names = {entry.contact.id: entry.name for entry in master.term.book.active}
    names[context.me.id] = context.name
    for group, agents in by_group(layout).items():
        for copy, gateway in enumerate(agents):
            for site in layout.sites or (context.me,):
                ends = (names.get(each.id, each.id.hex()) for each in (gateway, site))
                yield (gateway.id, site.id), PlannedPath(group, copy, *ends)


def path_states(context: Context, master: Master) -> list[PathState]:
    """Return what the master knows about each path of a job."""
    layouts, arrivals = master.term.layouts, master.term.part_requests.arrivals
    found = []
    for path, named in _paths(context, master):
        gateway, site = path
        latency_s = layouts.trips.between(gateway, site)
        latency = None if latency_s is None else round(latency_s, 6)
        about = named.group, named.copy, named.gateway, named.site
        state = PathState(*about, path not in layouts.idle_paths.idle, latency)
        if site == context.me.id and (arrived := arrivals.get(gateway)) is not None:
            first = layouts.idle_paths.first_share(named.group, gateway)
            state = replace(
                state,
                lag_seconds=UNSET if arrived.lag is None else round(arrived.lag.mean_s, 6),
                behind=UNSET if arrived.stop == FIRST else max(0, master.term.closer.next - arrived.stop),
                first=UNSET if first is None else round(first, 4),
            )
        found.append(state)
    return found


def cost_notes(cost: PlannedCost) -> list[str]:
    """Return what an operator should know about the bound of a job's network cost."""
    if cost.bound is None:
        return []
    what = f"COST {cost.bound:g}"
    if cost.ratio is None:
        return [f"{what}: all {cost.paths} paths are live, because no latency is measured"]
    named = ", ".join(f"{each.group or 'all'}.{each.copy} -> {each.site}" for each in cost.idle)
    found = [f"{what} keeps {cost.live} of {cost.paths} paths; idle: {named}"] if named else []
    if not cost.is_kept:
        why = (
            "two sites and two trees of each group stay"
            if named
            else "the next pruning is within five minutes"
        )
        found.append(f"{what}: the live paths cost {cost.ratio:g} x PATHS 1; {why}")
    return found


def _expected(found: Expectation | None) -> ExpectedLatency | UnsetType:
    if found is None:
        return UNSET
    return ExpectedLatency(round(found.by_votes, 6), round(found.by_master, 6), found.measured, found.of)


def standby_notes(members: Sequence[Contact], across: str) -> list[str]:
    """Return why members have no standby in another failure domain."""
    if len(members) < 2:
        return [NO_STANDBY]
    together = {domain(each, across) for each in members}
    if len(together) == 1 and all(share(members[0], each, across) for each in members[1:]):
        return [f"all members are in one {across}, so no agent stands by outside the {across} of a member"]
    return []


def planned_standbys(master: Master) -> PlannedStandbys:
    """Return the standbys of a job with STANDBY. A standby in the domain of its member keeps nothing."""
    term, budget = master.term, master.term.plan.standbys
    domains = domains_of(term.book.active, term.plan.standby_across)
    scenarios = DomainLosses(domains, master.rates, term.plan.shape)
    planned = term.standby_plans.standbys
    rows, held, placed = [], set[int](), len({*domains.values()}) > 1
    for entry in term.book.active:
        standby = term.members.standby_of(entry.number)
        if standby is not None and domains.get(standby.number) != domains[entry.number]:
            held.add(entry.number)
        if planned is None or entry.number in planned:
            problem = "" if standby is not None else term.members.standby_problem(entry.number)
            shipping = term.members.shipping_of(entry.number) or (UNSET, UNSET)
            rows.append(
                PlannedStandby(entry.name, None if standby is None else standby.name, problem, *shipping)
            )
    names = {entry.contact.id.hex(): entry.name for entry in term.book.active}

    def shown(values: dict[tuple[str, ...], float]) -> dict[str, float]:
        texts = {"/".join(names.get(part, part) for part in each if part): each for each in values}
        return {text: round(values[each], 4) for text, each in sorted(texts.items())}

    ships = {*domains} if planned is None else {*planned}
    reachable = min(scenarios.kept(ships if placed else set()).values(), default=1.0)
    return PlannedStandbys(
        str(budget), term.plan.standby_across, rows, len(domains), shown(scenarios.kept(held)),
        shown(scenarios.kept(())), round(reachable, 4), sum(each.bytes_per_second or 0 for each in rows),
        standby_notes([entry.contact for entry in term.book.active], term.plan.standby_across),
    )  # fmt: skip


def least_kept(master: Master) -> float:
    """Return what the loss of any single domain leaves at least of what the members have read."""
    return min(planned_standbys(master).kept.values(), default=1.0)
