"""The layout that a job would have if it were applied now, as a function of its text and the list of agents.

Owns what `elf plan -f` knows before a master leads the job: who may be the master, and which agents would be
members. The choice of gateways and sites is that of `control.paths.layout`. The voters of a job that runs are
not known yet, and sites are chosen among them where possible; so the sites of the running job may be others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from elfmesh.addresses import parse_address
from elfmesh.api.host_rules import better_name, masters, members_rule, rule_of
from elfmesh.control.jobs.failure_domains import domain_text
from elfmesh.control.jobs.manifest import JobNames
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.paths.layout import (
    by_group,
    crossings,
    group_of,
    label_error,
    notes,
    planned,
    site_notes,
)
from elfmesh.control.protocol.replies_plan import JobLayout, PlannedGroup, PlannedLayout, PlannedSite
from elfmesh.errors import DataError
from elfmesh.machine import Contact
from elfmesh.srt.residency import allows, shown


def expected_layout(agents: Sequence[Mapping[str, Any]], names: JobNames, plan: JobPlan) -> JobLayout:
    """Return the layout of a new job.

    Args:
        agents: rows of `elf get agents`; those that do not answer count as absent.
        names: of the job.
        plan: of its text.

    Raises:
        DataError: no agent answers, or none states the label of ACROSS.
    """
    alive = {bytes.fromhex(str(each["id"])): each for each in agents if each.get("status") == "alive"}
    if not alive:
        raise DataError("no agent answers", hint="Start an agent, or name another one with --api.")
    contacts = {each: _contact(each, row) for each, row in alive.items()}
    rules = {each: rule_of(row) for each, row in alive.items()}
    qualified = f"{names.namespace}/{names.name}"
    carrying = [each for each, row in alive.items() if plan.read_at(row["streams"], row["labels"])]
    rule = members_rule(agents, plan)
    (home, job), *others = masters(contacts.values(), qualified, rule)
    members = [contacts[each] for each in carrying if allows(rules[each], home)]
    if problem := label_error([contacts[each] for each in carrying], *plan.domains):
        raise DataError(problem, where=qualified)
    found = None
    if plan.paths:
        kept = {each.id: rules[each.id] for each in members}
        about = job, home, members, plan.across, plan.paths
        found = planned(*about, (), (), None, kept, plan.copies)

    def site(agent: Contact) -> PlannedSite:
        return PlannedSite(str(alive[agent.id]["name"]), agent.id.hex(), domain_text(agent))

    remarks = notes(found, members, plan.across, plan.paths, plan.copies) if plan.paths else []
    if plan.cost is not None:
        remarks.append(f"COST {plan.cost:g}: the master prunes the paths when latencies are measured")
    for other in (each for each, _ in others if each.id != home.id):
        remarks.append(f"{site(other).agent} is the master if it leads fewer jobs than {site(home).agent}")
    excluded = [
        f"{site(contacts[each]).agent} takes no part: its keep_in, {shown(rules[each])}, excludes the master"
        for each in carrying
        if not allows(rules[each], home)
    ]
    remarks += excluded
    if excluded and (name := better_name(contacts.values(), qualified, rule)):
        remarks.append(f"all of them take part if the job is called {name}, whose master they admit")
    layout = None
    if found is not None:
        sizes = [group_of(each, found.label) for each in members]
        groups = [
            PlannedGroup(group, sizes.count(group), [site(each) for each in gateways])
            for group, gateways in by_group(found).items()
        ]
        layout = PlannedLayout(found.label, [site(each) for each in found.sites or (home,)], groups)
    cost = None if found is None else crossings(found, home)
    counts: dict[str, Any] = {} if cost is None else {"messages": cost[0], "messages_of_one": cost[1]}
    shape: dict[str, Any] = {"paths": plan.paths, "across": plan.across, "layout": layout, "notes": remarks}
    if plan.paths:
        shape |= {"copies": plan.copies, "warnings": site_notes(found, plan.across, plan.paths)}
    return JobLayout(job=qualified, **shape, **counts)


def _contact(agent: bytes, row: Mapping[str, Any]) -> Contact:
    host, port = parse_address(str(row["address"]), where="address")
    labels = row["labels"]
    return Contact(agent, host, port, 0, str(labels.get("rack", "")), str(labels.get("region", "")))
