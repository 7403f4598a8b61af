"""A job as people see it: one object for a list, a long one for `elf describe`.

Reads a master; changes nothing.
"""

from __future__ import annotations

from typing import Any

from elfmesh.control.closing.partial_store import frontier_in_all
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import FIRST, ResultRecord, iso_us
from elfmesh.control.master.master import Master
from elfmesh.control.member.member_host import MemberHost
from elfmesh.control.protocol.events import StreamInfo
from elfmesh.control.register.proposer import MAJORITY_S
from elfmesh.control.requests.dead_agents import ALIVE
from elfmesh.control.requests.precondition import seen_of
from elfmesh.interval_map import END
from elfmesh.units import format_duration

MISSING_SHOWN = 8
"""Missing agents named in a list of jobs; a result names all."""


NO_MAJORITY = "no majority"
"""State of a job of which most voters do not answer."""


def job_row(context: Context, master: Master) -> dict[str, Any]:
    manifest = master.term.manifest
    return {
        "id": manifest.job_id.hex(),
        "job": manifest.qualified,
        "creator": manifest.creator,
        "version": manifest.version,
        "state": NO_MAJORITY if master.term.committer.unanswered_s > MAJORITY_S else master.term.state,
        "stream": ", ".join((*master.term.plan.streams, *master.term.plan.reads, *master.term.plan.latest)),
        "agents": len(master.term.book.active),
        "latest": master.copy.latest,
        "master": context.name,
        "epoch": master.term.epoch,
        "created": iso_us(manifest.created) if manifest.created else None,
        **_standing(context, master),
    }


def _standing(context: Context, master: Master) -> dict[str, Any]:
    newest = master.tally.recent[-1] if master.tally.recent else None
    due = master.term.collection.due_since(master.term.held)
    return {
        "result": None if newest is None else newest.state,
        "completeness": None if newest is None else newest.completeness,
        "missing": [] if newest is None else newest.missing[:MISSING_SHOWN],
        "held_for_seconds": None if due is None else round(context.now - due, 3),
    }


def description(context: Context, master: Master) -> dict[str, Any]:
    """Everything worth knowing about a job, bounded."""
    manifest, plan, closer = master.term.manifest, master.term.plan, master.term.closer
    missing = master.term.collection.missing()
    due = master.term.collection.due_since(closer.next)
    waiting = {
        "index": shown_interval(closer.next),
        "start": _start(master, closer.next),
        "due_for_seconds": None if due is None else round(context.now - due, 3),
        "missing": master.term.book.names(missing) if due is not None else [],
    }
    trees = context.facts("trees").get("items", [])
    tree = next((each for each in trees if each.get("tree") == master.job.hex()), None)
    return {
        **job_row(context, master),
        "text": manifest.text,
        "signed": manifest.signed.decode(errors="replace") or None,
        "incarnation": manifest.incarnation,
        "seen": str(seen_of(master.term.terms)),
        "window": {"size": format_duration(plan.size_us), "slide": format_duration(plan.slide_us)},
        "labels": _labels(plan),
        "partitions": manifest.partitions,
        "on_straggler": plan.on_straggler,
        "closed_below": shown_interval(closer.closed),
        "collecting": waiting,
        "voters": [f"{voter.host}:{voter.port}" for voter in master.term.committer.cell.contacts],
        "voters_without_votes": voters_without_votes(master),
        "roster": {
            "version": master.term.book.version,
            "agents": [_member(master, n) for n in _numbers(master)],
        },
        "counts": dict(master.tally.totals),
        "parse_error_samples": list(master.tally.samples),
        "errors": [*closer.errors, *(f"{name}: {text}" for name, text in master.tally.worker_errors.items())],
        "spent": master.term.closer.latency_stats.describe(),
        "results": [summary(record) for record in master.tally.recent],
        "tree": tree,
    }


def voters_without_votes(master: Master) -> list[str]:
    lost = master.proposer.lost
    return [f"{each.host}:{each.port}" for each in master.term.committer.cell.contacts if each.id in lost]


def _labels(plan: JobPlan) -> dict[str, Any]:
    """What agents must be labelled with; by stream, where the job reads several."""
    if len(plan.streams) == 1:
        return dict(plan.inputs[0][1])
    return {stream: dict(labels) for stream, labels in plan.inputs}


def _numbers(master: Master) -> list[int]:
    return [entry.number for entry in master.term.book.active]


def _member(master: Master, number: int) -> dict[str, Any]:
    entry = master.term.book.entry(number)
    assert entry is not None
    frontier = frontier_in_all(master.term.collection.trees, number)
    return {
        "agent": entry.name,
        "id": entry.contact.id.hex(),
        "number": number,
        "from": shown_interval(entry.start),
        "frontier": shown_interval(frontier),
        "dead": number in master.term.collection.straggler_policy.dead,
        "late_seconds": master.term.closer.latency_stats.late_s(number),
    }


def shown_interval(index: int) -> int | None:
    """An interval index for people: "since ever" and "for ever" are null."""
    return None if index <= FIRST or index >= END else index


def _start(master: Master, index: int) -> str | None:
    shown = shown_interval(index)
    return None if shown is None else iso_us(master.term.plan.window(shown)[0])


def summary(record: ResultRecord) -> dict[str, Any]:
    return {
        "index": record.index,
        "start": iso_us(record.start_us),
        "state": record.state,
        "completeness": record.completeness,
        "missing": record.missing,
        "counts": record.counts,
    }


def agent_row(context: Context, member_host: MemberHost, leads: list[str]) -> dict[str, Any]:
    """An agent as `elf get agents` shows it; `leads` are the jobs whose master it is."""
    return {
        "name": context.name,
        "status": ALIVE,
        "id": context.me.id.hex(),
        "address": f"{context.me.host}:{context.me.port}",
        "labels": member_host.labels,
        "streams": list(member_host.streams),
        "jobs": [member.manifest.qualified for member in member_host.members.values()],
        "masters": leads,
        **{key: fact for key, fact in context.facts("agent").items() if key != "job_costs"},
    }


def stream_row(context: Context, stream: StreamInfo) -> dict[str, Any]:
    """A stream of one agent; `columns` are empty where only the data shows them."""
    return {
        "stream": stream.name,
        "format": stream.format,
        "agent": context.name,
        "columns": list(stream.columns),
    }
