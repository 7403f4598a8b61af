"""A job as people see it: one object for a list, a long one for `elf describe`.

Reads a master; changes nothing.
"""

from __future__ import annotations

from typing import Any

from elfmesh.control.cover import END
from elfmesh.control.master import Master
from elfmesh.control.office import Office
from elfmesh.control.records import FIRST, ResultRecord, iso_us
from elfmesh.units import format_duration


def job_row(office: Office, master: Master) -> dict[str, Any]:
    """A job in a list."""
    manifest = master.manifest
    return {
        "id": manifest.job_id.hex(),
        "job": manifest.qualified,
        "creator": manifest.creator,
        "version": manifest.version,
        "state": master.state,
        "stream": master.plan.stream,
        "agents": len(master.book.active),
        "latest": master.copy.latest,
        "master": office.name,
        "epoch": master.epoch,
        "created": iso_us(manifest.created) if manifest.created else None,
    }


def description(office: Office, master: Master) -> dict[str, Any]:
    """Everything worth knowing about a job, bounded."""
    manifest, plan, closer = master.manifest, master.plan, master.closer
    missing = closer.missing()
    due = closer.due_since(closer.next)
    waiting = {
        "index": shown_interval(closer.next),
        "start": _start(master, closer.next),
        "due_for_seconds": None if due is None else round(office.now - due, 3),
        "missing": master.book.names(missing) if due is not None else [],
    }
    trees = office.facts("trees").get("items", [])
    tree = next((each for each in trees if each.get("tree") == master.job.hex()), None)
    return {
        **job_row(office, master),
        "text": manifest.text,
        "incarnation": manifest.incarnation,
        "window": {"size": format_duration(plan.size_us), "slide": format_duration(plan.slide_us)},
        "labels": dict(plan.labels),
        "partitions": manifest.partitions,
        "on_straggler": plan.on_straggler,
        "closed_below": shown_interval(closer.closed),
        "collecting": waiting,
        "voters": [f"{voter.host}:{voter.port}" for voter in master.committer.cell.contacts],
        "roster": {"version": master.book.version, "agents": [_member(master, n) for n in _numbers(master)]},
        "counts": dict(master.totals),
        "parse_error_samples": list(master.samples),
        "errors": [*closer.errors, *(f"{name}: {text}" for name, text in master.worker_errors.items())],
        "results": [_summary(record) for record in master.recent],
        "tree": tree,
    }


def _numbers(master: Master) -> list[int]:
    return [entry.number for entry in master.book.active]


def _member(master: Master, number: int) -> dict[str, Any]:
    entry = master.book.entry(number)
    assert entry is not None
    frontier = master.closer.frontier_of(number)
    return {
        "agent": entry.name,
        "id": entry.contact.id.hex(),
        "number": number,
        "from": shown_interval(entry.start),
        "frontier": shown_interval(frontier),
        "dead": number in master.closer.judge.dead,
    }


def shown_interval(index: int) -> int | None:
    """An interval index for people: "since ever" and "for ever" are null."""
    return None if index <= FIRST or index >= END else index


def _start(master: Master, index: int) -> str | None:
    shown = shown_interval(index)
    return None if shown is None else iso_us(master.plan.window(shown)[0])


def _summary(record: ResultRecord) -> dict[str, Any]:
    return {
        "index": record.index,
        "start": iso_us(record.start_us),
        "state": record.state,
        "completeness": record.completeness,
        "missing": record.missing,
        "counts": record.counts,
    }
