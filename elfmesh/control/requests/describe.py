"""The rows of lists of jobs, agents and streams, and the description of a job.

The module reads a master and changes nothing.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from elfmesh.control.closing.stores.replica_buffers import frontier_in_all
from elfmesh.control.context import Context
from elfmesh.control.jobs.failure_domains import domain_text
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.events import StreamInfo
from elfmesh.control.protocol.replies import Description, JobRow, MemberRow, RecordHead, RosterRow, StreamRow
from elfmesh.control.protocol.replies_agents import AgentRow, Health
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.requests.dead_agents import ALIVE
from elfmesh.control.requests.paths_plan import planned_standbys
from elfmesh.control.requests.precondition import seen_of
from elfmesh.interval_map import END
from elfmesh.ql.values.row_json import iso_us
from elfmesh.units import format_duration

MISSING_SHOWN = 8
"""Maximum number of missing agents in a row of a list of jobs; a record names all."""

BY_JOB = ("job_costs", "tentative", "kept_if_lost", "standbys")
"""What an agent reports of each job, which its row in a list does not have."""

NO_MAJORITY = "no majority"
"""State of a job of which most voters do not answer."""


def job_row(context: Context, master: Master) -> JobRow:
    newest = master.tally.recent[-1] if master.tally.recent else None
    due = master.term.collection.due_since(master.term.held)
    return row_of(
        master.term.manifest,
        master.term.plan,
        state=NO_MAJORITY if master.term.committer.unanswered_s > MAJORITY_S else master.term.state,
        agents=len(master.term.book.active),
        latest=master.copy.latest,
        master=context.name,
        epoch=master.term.epoch,
        result=None if newest is None else newest.state,
        completeness=None if newest is None else newest.completeness,
        missing=[] if newest is None else newest.missing[:MISSING_SHOWN],
        held_for_seconds=None if due is None else round(context.now - due, 3),
    )


def known_row(manifest: Manifest) -> JobRow:
    """Return the row of a job that this agent knows and does not lead."""
    return row_of(
        manifest,
        None,
        state="known",
        agents=0,
        latest=None,
        master="",
        epoch=0,
        result=None,
        completeness=None,
        missing=[],
        held_for_seconds=None,
    )


def row_of(manifest: Manifest, plan: JobPlan | None, **state: Any) -> JobRow:
    """Return a row with what the manifest and the plan of the job say of it; without a plan, no stream."""
    return JobRow(
        id=manifest.job_id.hex(),
        job=manifest.qualified,
        creator=manifest.creator,
        version=manifest.version,
        leased=manifest.leased or UNSET,
        stream="" if plan is None else ", ".join((*plan.streams, *plan.reads, *plan.latest)),
        created=iso_us(manifest.created) if manifest.created else None,
        **state,
    )


def description(context: Context, master: Master) -> Description:
    manifest, plan, closer = master.term.manifest, master.term.plan, master.term.closer
    missing, due = master.term.collection.missing(), master.term.collection.due_since(closer.next)
    shown = shown_interval(closer.next)
    trees = context.facts("trees").get("items", [])
    return Description(
        **asdict(job_row(context, master)),
        text=manifest.text,
        signed=manifest.signed.decode(errors="replace") or None,
        incarnation=manifest.incarnation,
        seen=str(seen_of(master.term.terms)),
        window={"size": format_duration(plan.size_us), "slide": format_duration(plan.slide_us)},
        labels=_labels(plan),
        partitions=manifest.partitions,
        on_straggler=plan.on_straggler,
        closed_below=shown_interval(closer.closed),
        collecting={
            "index": shown,
            "start": None if shown is None else iso_us(plan.window(shown)[0]),
            "due_for_seconds": None if due is None else round(context.now - due, 3),
            "missing": master.term.book.names(missing) if due is not None else [],
        },
        voters=[f"{voter.host}:{voter.port}" for voter in master.term.committer.cell.contacts],
        voters_without_votes=voters_without_votes(master),
        voter_domains=_voter_domains(master),
        roster=RosterRow(
            master.term.book.version, [_member(master, entry.number) for entry in master.term.book.active]
        ),
        counts=dict(master.tally.totals),
        parse_error_samples=list(master.tally.samples),
        errors=[
            *closer.errors,
            *(f"{name}: {text}" for name, text in master.tally.worker_errors.items()),
            *master.tally.excluded(context.now),
        ],
        refused=master.tally.refused(context.now) or UNSET,
        spent=closer.latency_stats.describe(),
        tentative=master.accuracy.describe() or UNSET,
        kept_if_lost=UNSET if plan.standby_s is None else planned_standbys(master).kept,
        results=[head_of(record) for record in master.tally.recent],
        tree=next((each for each in trees if each.get("tree") == master.job.hex()), None),
    )


def voters_without_votes(master: Master) -> list[str]:
    lost = master.proposer.lost
    return [f"{each.host}:{each.port}" for each in master.term.committer.cell.contacts if each.id in lost]


def _voter_domains(master: Master) -> list[str] | UnsetType:
    """Return region and rack of each voter; nothing if no voter has any."""
    domains = [domain_text(voter) for voter in master.term.committer.cell.contacts]
    return domains if any(domains) else UNSET


def _labels(plan: JobPlan) -> dict[str, Any]:
    """Return the labels that agents must have; by stream if the job reads several."""
    if len(plan.streams) == 1:
        return dict(plan.inputs[0][1])
    return {stream: dict(labels) for stream, labels in plan.inputs}


def _member(master: Master, number: int) -> MemberRow:
    entry = master.term.book.entry(number)
    assert entry is not None
    standby, shipping = master.term.members.standby_of(number), master.term.members.shipping_of(number)
    return MemberRow(
        agent=entry.name,
        id=entry.contact.id.hex(),
        number=number,
        start=shown_interval(entry.start),
        frontier=shown_interval(frontier_in_all(master.term.collection.trees, number)),
        dead=number in master.term.collection.straggler_policy.dead,
        late_seconds=master.term.closer.latency_stats.late_s(number),
        usual_records=list(master.rates.known(number)) or UNSET,
        standby=UNSET if standby is None else standby.name,
        standby_lag_seconds=UNSET if shipping is None else shipping[0],
        standby_bytes_per_second=UNSET if shipping is None else shipping[1],
    )


def shown_interval(index: int) -> int | None:
    """Return an interval number for people; None stands for "from the first" and "without end"."""
    return None if index <= FIRST or index >= END else index


def head_of(record: ResultRecord) -> RecordHead:
    start = iso_us(record.start_us)
    return RecordHead(record.index, start, record.state, record.completeness, record.missing, record.counts)


def agent_row(context: Context, member_host: MemberHost, leads: list[str], health: Health) -> AgentRow:
    """Return an agent as `elf get agents` shows it; `leads` are the jobs whose master it is."""
    row: dict[str, Any] = {
        "name": context.name,
        "status": ALIVE,
        "id": context.me.id.hex(),
        "address": f"{context.me.host}:{context.me.port}",
        "labels": member_host.admission.labels,
        "streams": list(member_host.admission.streams),
        "jobs": [member.manifest.qualified for member in member_host.members.values()],
        "masters": leads,
        "health": health,
    }
    facts = context.facts("agent")
    return AgentRow(**row | {name: fact for name, fact in facts.items() if name not in BY_JOB})


def stream_row(context: Context, stream: StreamInfo) -> StreamRow:
    """Return a stream of one agent; `columns` are empty if only its data shows them."""
    return StreamRow(stream.name, stream.format, context.name, list(stream.columns))
