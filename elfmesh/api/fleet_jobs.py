"""The descriptions of all jobs of a fleet. A job without a master has none, and must not hide the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from elfmesh.control.answers import NOT_FOUND, OK
from elfmesh.errors import ElfError, Unreachable

if TYPE_CHECKING:
    from elfmesh.api.client.client import Client
    from elfmesh.api.web.whole_rows import Asker

AT_ONCE = 16
"""Jobs whose descriptions are asked for at a time. A job without a master answers after seconds."""

Row = Mapping[str, Any]

UNLISTED = "unlisted"
"""Marks a job that no master lists: it has none, or was deleted a moment ago."""


@dataclass(frozen=True, slots=True)
class FleetJobs:
    """By the names of jobs: their descriptions; and why the others have none."""

    described: dict[str, dict[str, Any]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)


def job_rows(listed: Iterable[Row], agents: Iterable[Row] = ()) -> list[Row]:
    """Return the jobs that masters list, each once, and those of which only members know."""
    found: dict[str, Row] = {}
    for row in listed:
        found.setdefault(str(row["job"]), row)
    for agent in agents:
        for name in agent.get("jobs", ()):
            found.setdefault(str(name), {"job": name, UNLISTED: True})
    return list(found.values())


def ask_all(client: Client, rows: Iterable[Row]) -> FleetJobs:
    def one(row: Row) -> dict[str, Any] | str:
        try:
            return client.ask("describe", str(row["job"]), creator=row.get("creator"))
        except ElfError as error:
            return "" if UNLISTED in row and not isinstance(error, Unreachable) else error.message

    rows = list(rows)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return _sorted(rows, list(threads.map(one, rows)))


async def gather_all(ask: Asker, rows: Iterable[Row]) -> FleetJobs:
    free = asyncio.Semaphore(AT_ONCE)

    async def one(row: Row) -> dict[str, Any] | str:
        given = {key: row[key] for key in ("job", "creator") if row.get(key)}
        async with free:
            try:
                reply = await ask("describe", given)
            except Unreachable as error:
                return error.message
        if reply.status == OK:
            return reply.body
        deleted = UNLISTED in row and reply.status == NOT_FOUND
        return "" if deleted else str(reply.body.get("error", f"status {reply.status}"))

    rows = list(rows)
    return _sorted(rows, await asyncio.gather(*map(one, rows)))


def _sorted(rows: list[Row], answers: list[dict[str, Any] | str]) -> FleetJobs:
    found = FleetJobs()
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, str):
            found.described[str(row["job"])] = answer
        elif answer:
            found.silent[str(row["job"])] = answer
    return found
