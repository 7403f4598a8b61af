"""Hundreds of jobs of different shapes on eight real agents: each right, and what they cost beside one.

The jobs are applied, logs appear, and every interval of every job is compared with what the embedded
engine has said of the same logs before there were agents. Costs are CPU and anonymous memory of all agents;
the same logs are also read by fleets with few jobs and with one: what is shared, and what grows.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.fleet import START_US, ProbedFleet, canonical, replayed
from benchmarks.harness import Figure, percentile
from benchmarks.job_shapes import Shape, shapes
from elfmesh.api.client.client import Client, connect
from elfmesh.errors import RuntimeFailure, Unreachable
from elfmesh.ingest.job_rows import JobRows
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse
from elfmesh.ql.values.row_json import rows_to_json
from elfmesh.units import MICROS

AGENTS = 8
JOBS, JOBS_IDLE, JOBS_FEW, JOBS_SMALL = 500, 120, 60, 24
LINES, LINES_SMALL = 3_000, 1_500
"""Of each agent."""

SECONDS = 120
TAIL_S = 130
"""Longer than the longest window and the longest interval of a reader: one line then closes them all."""

CLIENTS = 4
"""How many apply at once."""

SETTLE_S = 2.0
IDLE_S = 3.0
SETTLED_S, WATCHED_S = 15.0, 20.0
"""Idle agents do little, much of it once in 30 s."""

RARELY_S = "10"
"""Between two looks at a loop that is not measured."""

DONE_S = 1200.0

LOOK_S = 1.0
"""Between two looks at all jobs."""

Rowset = Mapping[str, Mapping[str, Any]]
"""What the list of jobs says of each."""

Rows = Mapping[int, str]
"""By interval: its rows as canonical text, if it has any."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What some jobs cost a fleet.

    Attributes:
        apply_s: each job's time from the request to the answer that all agents have acknowledged.
        applied_s: until all were applied.
        apply_cpu_s: CPU of all agents meanwhile.
        idle_cpu_s: CPU per second of all agents with all jobs and nothing to read.
        cpu_s: CPU of all agents from the logs' appearance to the last result.
        wall_s: the same by the clock.
        bytes: anonymous memory of all agents without a job, and with all before there were logs.
        compared: intervals whose rows were compared.
        partial: those that say that an agent is missing.
        lags_s: how late the agents' event loops were, from the first apply to the last result.
    """

    apply_s: list[float]
    applied_s: float
    apply_cpu_s: float
    idle_cpu_s: float
    cpu_s: float
    wall_s: float
    bytes: tuple[int, int]
    compared: int
    partial: int
    lags_s: list[float]


def many(*, small: bool) -> list[Figure]:
    """All jobs."""
    return _figures(JOBS_SMALL, LINES_SMALL) if small else _figures(JOBS, LINES)


def few(*, small: bool) -> list[Figure]:
    """The first of them."""
    if small:
        return [Figure(f"{JOBS_FEW} jobs", 0.0, "s", skipped="as many as the small size of all jobs")]
    return _figures(JOBS_FEW, LINES)


def _figures(count: int, lines: int) -> list[Figure]:
    cost = _measure(shapes(count), lines)
    what = f"{count} jobs on {AGENTS} agents"
    records = lines * AGENTS
    lags_ms = [each * 1000 for each in cost.lags_s]
    apply_ms = [each * 1000 for each in cost.apply_s]
    per_record = cost.cpu_s / records * 1e6
    bytes_per_job = (cost.bytes[1] - cost.bytes[0]) / count / AGENTS
    return [
        Figure(f"{what}: intervals equal to elf run", cost.compared, "intervals"),
        *([Figure(f"{what}: of them without an agent", cost.partial, "intervals")] if cost.partial else []),
        Figure(f"{what}: all applied by {CLIENTS} clients", cost.applied_s, "s"),
        Figure(f"{what}: one apply, median", percentile(apply_ms, 0.5), "ms"),
        Figure(f"{what}: one apply, p90", percentile(apply_ms, 0.9), "ms"),
        Figure(f"{what}: CPU of all agents per apply", cost.apply_cpu_s / count * 1000, "ms"),
        Figure(f"{what}: memory per job and agent", bytes_per_job / 1000, "kB"),
        Figure(f"{what}: memory of an agent", cost.bytes[1] / AGENTS / 1e6, "MB"),
        Figure(f"{what}: CPU of an idle agent", cost.idle_cpu_s / AGENTS * 1000, "ms/s"),
        Figure(f"{what}: CPU of all agents per interval", cost.cpu_s / cost.compared * 1000, "ms"),
        Figure(f"{what}: CPU per record", per_record, "us"),
        Figure(f"{what}: CPU per record and job", per_record / count, "us"),
        Figure(f"{what}: from the logs to the last result", cost.wall_s, "s"),
        Figure(f"{what}: event loop lag, p99", percentile(lags_ms, 0.99), "ms"),
        Figure(f"{what}: event loop lag, most", max(lags_ms), "ms"),
    ]


def one(*, small: bool) -> list[Figure]:
    """The first of these jobs alone: what is not shared by many."""
    if small:
        return [Figure("1 job", 0.0, "us", skipped="too short to be measured")]
    cost = _measure(shapes(1), LINES)
    return [
        Figure("1 job: CPU of an idle agent", cost.idle_cpu_s / AGENTS * 1000, "ms/s"),
        Figure("1 job: CPU per record", cost.cpu_s / LINES / AGENTS * 1e6, "us"),
    ]


def idle(*, small: bool) -> list[Figure]:
    """Agents with jobs and nothing to read: CPU and messages of one alone, and of each of eight."""
    count = JOBS_SMALL if small else JOBS_IDLE
    figures = []
    for agents in (1, AGENTS):
        cpu_s, messages = _watched(shapes(count), agents, IDLE_S if small else WATCHED_S)
        what = f"{count} idle jobs, {'alone' if agents == 1 else f'one of {agents} agents'}"
        figures += [Figure(what, cpu_s * 1000, "ms/s"), Figure(f"{what}: messages sent", messages, "/s")]
    return figures


def _watched(jobs: Sequence[Shape], agents: int, seconds: float) -> tuple[float, float]:
    """CPU seconds and messages sent, per second and agent."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ProbedFleet(Path(directory), agents, probe_s=RARELY_S) as fleet,
    ):
        client = fleet.begin()
        _apply(fleet, jobs)
        _wait(client, partial(_founded, jobs, agents), "all agents at all jobs")
        time.sleep(SETTLED_S if seconds > IDLE_S else SETTLE_S)
        clients = [connect(agent.api) for agent in fleet.agents]
        cpu, sent, began = fleet.cpu_s(), sum(map(_sent, clients)), time.monotonic()
        time.sleep(seconds)
        took = (time.monotonic() - began) * agents
        return (fleet.cpu_s() - cpu) / took, (sum(map(_sent, clients)) - sent) / took


def _sent(client: Client) -> int:
    return int(client.agent()["transport"].get("messages_out", 0))  # none yet, if it is alone


def _measure(jobs: Sequence[Shape], lines: int) -> Cost:
    """Apply the jobs, let logs appear, compare all results."""
    with tempfile.TemporaryDirectory() as directory, ProbedFleet(Path(directory), AGENTS) as fleet:
        logs = _logs(Path(directory) / "expected", fleet.traffic.paths, lines)
        expected = _expected(jobs, logs)
        _say(f"{sum(map(len, expected.values()))} intervals of {len(jobs)} jobs are to come")
        client = fleet.begin()
        empty = fleet.anonymous_bytes()
        cpu, began = fleet.cpu_s(), time.monotonic()
        apply_s = _apply(fleet, jobs)
        applied_s, apply_cpu_s = time.monotonic() - began, fleet.cpu_s() - cpu
        _say(f"all applied after {applied_s:.0f} s")
        _wait(client, partial(_founded, jobs, AGENTS), "all agents at all jobs")
        time.sleep(SETTLE_S)
        cpu = fleet.cpu_s()
        time.sleep(IDLE_S)
        idle_cpu_s = (fleet.cpu_s() - cpu) / IDLE_S
        full = fleet.anonymous_bytes()
        cpu, appeared = fleet.cpu_s(), time.monotonic()
        for name, path in logs.items():
            with fleet.traffic.paths[name].open("ab", buffering=0) as file:
                file.write(path.read_bytes())
        due = {name: max(rows) for name, rows in expected.items() if rows}
        _wait(client, partial(_reached, due), "the last result")
        ended = time.monotonic()
        cpu = fleet.cpu_s() - cpu
        _say(f"all told after {ended - appeared:.0f} s more")
        compared = [_compare(client, job, expected[job.name], logs) for job in jobs]
        return Cost(
            apply_s,
            applied_s,
            apply_cpu_s,
            idle_cpu_s,
            cpu,
            ended - appeared,
            (empty, full),
            sum(each for each, _ in compared),
            sum(partial for _, partial in compared),
            fleet.lags_s(began, ended),
        )


def _say(what: str) -> None:
    """How far it is: a run takes minutes."""
    click.echo(f"jobs: {what}; load {os.getloadavg()[0]:.1f}", err=True)


def _logs(directory: Path, names: Iterable[str], lines: int) -> dict[str, Path]:
    """What every agent's log will hold, in files of their own."""
    directory.mkdir()
    logs = {name: directory / f"{name}.ndjson" for name in names}
    for number, path in enumerate(logs.values()):
        path.write_bytes(replayed(number, lines, SECONDS, TAIL_S))
    return logs


def _apply(fleet: ProbedFleet, jobs: Sequence[Shape]) -> list[float]:
    """Apply all jobs, those that read others last; how long each took, in seconds."""

    def apply(numbered: tuple[int, Shape]) -> float:
        number, job = numbered
        client = connect(fleet.agents[number % len(fleet.agents)].api)
        began = time.monotonic()
        while True:
            try:
                client.apply(job.text)
            except Unreachable:  # as its text says: ask again
                if time.monotonic() - began > DONE_S:
                    raise
            else:
                return time.monotonic() - began

    took: list[float] = []
    with ThreadPoolExecutor(CLIENTS) as clients:
        for reads in (False, True):
            took += clients.map(apply, enumerate(job for job in jobs if bool(job.reads) == reads))
    return took


def _wait(client: Client, is_so: Callable[[Rowset], bool], what: str) -> None:
    """Until the list of all jobs says so; every agent is asked for it, so it is asked for seldom.

    Raises:
        RuntimeFailure: it does not, in time.
    """
    end = time.monotonic() + DONE_S
    while True:
        with suppress(Unreachable):  # as its text says: ask again
            if is_so({row["job"]: row for row in client.get("jobs")}):
                return
        if time.monotonic() > end:
            raise RuntimeFailure(f"{what} did not come within {DONE_S:g} s")
        time.sleep(LOOK_S)


def _founded(jobs: Sequence[Shape], agents: int, listed: Rowset) -> bool:
    """Whether every job has its members: on a slow machine some come after the answer, before any record."""
    return all(listed.get(job.name, {}).get("agents") == (0 if job.reads else agents) for job in jobs)


def _expected(jobs: Sequence[Shape], logs: Mapping[str, Path]) -> dict[str, Rows]:
    """What the embedded engine says of every job: the intervals that the last line of these logs closes."""
    last_us = START_US + (SECONDS + TAIL_S) * MICROS
    rows = JobRows()
    found: dict[str, Rows] = {}
    for job in jobs:
        statement = parse(job.text)
        rows.begin(statement)
        results = LogRun(statement, list(map(str, logs.values())), format="json", jobs=rows).answers()
        for result in results:
            rows.add(statement, result)
        found[job.name] = {
            each.record.index: canonical(rows_to_json(each.table))
            for each in results
            if each.table.num_rows and (each.record.end_us or 0) <= last_us
        }
    return found


def _reached(due: Mapping[str, int], listed: Rowset) -> bool:
    return all(
        (index := listed.get(name, {}).get("latest")) is not None and index >= last
        for name, last in due.items()
    )


def _compare(client: Client, job: Shape, whole: Rows, logs: Mapping[str, Path]) -> tuple[int, int]:
    """Compare all due intervals of a job; how many were compared, and of how many agents were missing.

    On a machine that is too busy an agent may be taken for dead: an interval that says so is compared with
    what the embedded engine says of the others' logs, but for what goes on from other intervals: jobs that
    read other jobs, and sessions, which say so without naming an agent where they began with a part missing.

    Raises:
        RuntimeFailure: one differs, is missing, or came twice.
    """
    goes_on = bool(job.reads) or "SESSION(" in job.text
    by_missing: dict[tuple[str, ...], Rows] = {(): whole}
    got: dict[int, tuple[tuple[str, ...], str]] = {}
    partial: set[int] = set()
    for result in client.results(job.name):
        index, missing = result["interval"]["index"], tuple(result["agents"]["missing"])
        is_partial = result["state"] == "FINAL_PARTIAL"
        inherits = is_partial and goes_on and bool(job.reads or partial)
        if index in got or result["state"] == "SKIPPED" or (is_partial != bool(missing) and not inherits):
            raise RuntimeFailure(f"{job.name}, interval {index}: {result['state']}, {result['agents']}")
        got[index] = (missing, canonical(result["rows"]))
        partial |= {index} if is_partial else set()
    last, compared = max(whole, default=0), 0
    for index in sorted({*whole, *(index for index in got if index <= last)}):
        missing, rows = got.get(index, ((), "nothing"))
        if goes_on and index in partial:
            continue
        if missing not in by_missing:
            others = {name: path for name, path in logs.items() if name not in missing}
            by_missing[missing] = _expected([job], others)[job.name]
        expected = by_missing[missing].get(index, canonical([]))
        if rows != expected:
            notified = f"{job.name}, interval {index} of {min(got, default=None)} to {max(got, default=None)}"
            raise RuntimeFailure(f"{notified}: {rows}, elf run says {expected}; {job.text}")
        compared += 1
    return compared, sum(index <= last for index in partial)


PARTS = {"many": many, "few": few, "one": one, "idle": idle}
