"""`elf plan`: shows where the contributions of a running or a new job are reduced, and its standbys."""

from __future__ import annotations

from collections.abc import Iterator

import click
from msgspec import UnsetType, to_builtins

from elfmesh.api.client.client import Client
from elfmesh.cli.common import print_json, say
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.protocol.replies_plan import JobLayout, PlannedGroup, PlannedStandbys
from elfmesh.errors import DataError, ElfError, QueryError, RuntimeFailure
from elfmesh.text import printable
from elfmesh.units import format_rate

NO_LABEL = "(no label)"
PAIRS_MAX = 20
"""Members with their standbys in a line of text."""


def show_layout(job: str, output: str, api: str | None) -> None:
    found = Client(api).ask("plan", job)
    if output == "json":
        print_json(found)
        return
    for line in layout_lines(read_reply(JobLayout, found)):
        click.echo(printable(line))


def note_standbys(client: Client, job: str) -> None:
    """Say why members of a job cannot have a standby in another failure domain."""
    try:
        plan = read_reply(JobLayout, client.ask("plan", job))
    except RuntimeFailure as error:  # the job is there
        say(f"The standbys are not known yet: {error.message}. `elf plan {job}` shows them.")
        return
    for note in () if isinstance(plan.standbys, UnsetType) else plan.standbys.notes:
        say(note)


def note_sites(client: Client, text: str, source: str, *, strict: bool) -> None:
    """Say where a job has fewer sites than its text names, or two in one failure domain.

    Raises:
        DataError: there is such a place, and `strict` is set.
    """
    from elfmesh.api.expected_layout import expected_layout
    from elfmesh.control.jobs.plan import read_job

    try:
        names, plan = read_job(text, source=source)
        found = expected_layout(client.get("agents"), names, plan).warnings if plan.paths else []
    except QueryError:  # the agent refuses the text, and shows where
        return
    except ElfError:  # a principal that may submit jobs may lack the permission to list agents
        if strict:
            raise
        return
    if strict and found:
        raise DataError("; ".join(found), where=source)
    for each in found:
        say(each)


def show_expected(path: str, output: str, api: str | None) -> None:
    """Show the layout that each job of a file would have."""
    from elfmesh.api.expected_layout import expected_layout
    from elfmesh.control.jobs.plan import read_job
    from elfmesh.local.text_input import read_text
    from elfmesh.ql import parse_many

    text, source = read_text(path)
    agents = Client(api).ask("agents")["agents"]
    found = [
        expected_layout(agents, *read_job(each.text, source=source))
        for each in parse_many(text, source=source)
    ]
    if output == "json":
        print_json(to_builtins(found[0] if len(found) == 1 else found))
        return
    for each in found:
        for line in layout_lines(each):
            click.echo(printable(line))


def layout_lines(plan: JobLayout) -> Iterator[str]:
    """Yield the lines of a layout: the job, its sites, its groups with their gateways, and notes."""
    groups: list[PlannedGroup] = []
    across = ""
    if plan.layout is not None:
        groups = plan.layout.groups
        across = f" ACROSS {plan.layout.label}" if plan.layout.label else ""
    sizes = ", ".join(f"{each.group or NO_LABEL} {each.agents}" for each in groups)
    agents = f"  {sum(each.agents for each in groups)} agents: {sizes}" if groups else ""
    trees = "" if isinstance(plan.copies, UnsetType) or plan.copies == 1 else f", {plan.copies}"
    cost = None if isinstance(plan.cost, UnsetType) else plan.cost
    bound = "" if cost is None or cost.bound is None else f" COST {cost.bound:g}"
    yield plan.job + (f"  PATHS {plan.paths}{trees}{across}{bound}" if plan.paths else "") + agents
    for number, site in enumerate(() if plan.layout is None else plan.layout.sites):
        yield f"site {number}  {site.agent} {site.domain}".rstrip() + ("" if number else " (master)")
    for each in groups:
        names = ", ".join(gateway.agent for gateway in each.gateways)
        many = "s" if len(each.gateways) > 1 else ""
        yield f"group {each.group or NO_LABEL}  gateway{many} {names}"
    if not isinstance(plan.messages, UnsetType):
        label = plan.layout.label if plan.layout is not None and plan.layout.label else "group"
        count = f"{plan.messages} (PATHS 1: {plan.messages_of_one})"
        yield f"messages between {label}s for each interval and partition: {count}"
    if cost is not None and cost.ratio is not None:
        yield f"cost {cost.ratio:.1f} x PATHS 1, with {cost.live} of {cost.paths} paths"
    if not isinstance(plan.expected, UnsetType):
        found = plan.expected
        ways = (("by votes", found.by_votes_seconds), ("by the master", found.by_master_seconds))
        times = ", ".join(f"{seconds:.3f} s {how}" for how, seconds in ways)
        measured = f"{found.measured} of {found.of} latencies measured"
        yield f"expected from the last seal to the farthest site: {times} ({measured})"
    if not isinstance(plan.standbys, UnsetType):
        yield from standby_lines(plan.standbys)
    for note in plan.notes:
        yield f"note: {note}"


def standby_lines(plan: PlannedStandbys) -> Iterator[str]:
    """Yield the lines of the standbys: what they keep, and which member ships to which agent."""
    before, after = (min(each.values(), default=1.0) for each in (plan.without, plan.kept))
    many = f"{len(plan.kept)} failure domains" if len(plan.kept) != 1 else "one failure domain"
    shipped = f"{format_rate(plan.bytes_per_second)}" if plan.members else "nothing shipped"
    yield (f"STANDBY {plan.budget} ACROSS {plan.across}  {len(plan.members)} of {plan.of} members, {shipped}")
    yield f"kept of what was read, whichever of {many} is lost: {before:.3f} -> {after:.3f}"
    pairs = [f"{each.agent} -> {each.standby or each.problem or 'none yet'}" for each in plan.members]
    more = f"  ... ({len(pairs) - PAIRS_MAX} more)" if len(pairs) > PAIRS_MAX else ""
    if pairs:
        yield "  " + "  ".join(pairs[:PAIRS_MAX]) + more
    for domain, kept in plan.kept.items():
        yield f"  without {domain}: {kept:.3f}"
    wanted = plan.budget.removeprefix("KEEPS ")
    if wanted != plan.budget and plan.reachable < float(wanted):
        yield f"note: no choice of standbys keeps {wanted}; this one keeps {plan.reachable:.3f}"
    for note in plan.notes:
        yield f"note: {note}"
