"""The answer to `plan`: the layout of a job as its master has it."""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.jobs.failure_domains import domain_text
from elfmesh.control.master.master import Master
from elfmesh.control.paths.layout import group_of, notes
from elfmesh.control.protocol.replies_plan import JobLayout, PlannedGroup, PlannedLayout, PlannedSite
from elfmesh.machine import Contact

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
    return JobLayout(
        job=term.manifest.qualified,
        paths=plan.paths,
        across=plan.across,
        layout=found,
        notes=notes(layout, members, plan.across, plan.paths) if plan.paths else [NO_PATHS],
    )
