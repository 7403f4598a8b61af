"""The answer to `plan`: the layout of a job and its standbys, as its master has them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from elfmesh.control.context import Context
from elfmesh.control.jobs.failure_domains import domain, domain_text, share
from elfmesh.control.jobs.standby_choice import DomainLosses, domains_of
from elfmesh.control.master.master import Master
from elfmesh.control.paths.latency_placement import Expectation
from elfmesh.control.paths.layout import crossings, group_of, notes, residency_notes
from elfmesh.control.protocol.replies_plan import (
    ExpectedLatency,
    JobLayout,
    PlannedGroup,
    PlannedLayout,
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
                each.group,
                sizes.count(each.group),
                [site(each.contact, names.get(each.contact.id, each.contact.id.hex()))],
            )
            for each in layout.gateways
        ]
        sites = [site(each, names.get(each.id) or context.name) for each in layout.sites or (context.me,)]
        found = PlannedLayout(layout.label, sites, groups)
    members = [entry.contact for entry in entries]
    closing = [each for each in (term.grants.note(),) if each]
    shape = [*notes(layout, members, plan.across, plan.paths), *closing] if plan.paths else [NO_PATHS]
    kept = residency_notes(entries, context.me, plan.paths)
    messages = (UNSET, UNSET) if layout is None else crossings(layout, context.me)
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
    )


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
