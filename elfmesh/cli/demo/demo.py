"""`elf demo`: runs a fleet on one machine for about a minute and checks every result.

Agents on loopback read the generated click streams of a shop. The paper's three jobs run on the streams; the
third job reads the results of the other two. The demo kills one agent half-way. At the end it compares every
published interval with what one process computes from the same files, and reads the results as a Spark
DataFrame.

The module owns the sequence of steps and the exit code; `verdicts` compares. Invariants: every number on the
screen is measured; no process and no file of the demo survives it, except for the directory with --keep.

Paper: ELF 1, Figure 1. Deviation: a bundle is two products that the same people like or buy, not a component
of their graph, and sale prediction reads the published results of the other jobs instead of querying their
masters. `examples/programs` contains both as in the paper.
"""

from __future__ import annotations

import queue
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import click
from rich.console import Console

from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo.fleet import Fleet
from elfmesh.cli.demo.jobs import JOBS_NOTE, DemoJob, demo_jobs, early_text
from elfmesh.cli.demo.verdicts import early_rows_last, equals_on_spark, equals_one_process, tell
from elfmesh.cli.demo.view import LiveView, PlainView, View
from elfmesh.control.protocol.replies import Description, read_reply
from elfmesh.control.protocol.replies_changes import Applied
from elfmesh.errors import ElfError, RuntimeFailure, Unreachable

TIMEOUT_S = 300.0
"""Time limit for all agents to take part in the jobs, and for the last intervals to close."""


@click.command("demo")
@click.option("--agents", default=8, show_default=True, type=click.IntRange(3, 64), help="Number of agents.")
@click.option(
    "--seconds",
    default=30.0,
    show_default=True,
    type=click.FloatRange(10),
    help="Seconds during which the shop generates traffic.",
)
@click.option(
    "--rate",
    default=100.0,
    show_default=True,
    type=click.FloatRange(1),
    help="Log lines per second for each agent.",
)
@click.option(
    "--seed",
    type=int,
    help=("Random seed of the traffic and of the choice of the killed agent. [default: random]"),
)
@click.option("--no-spark", is_flag=True, help="Do not compare with Spark.")
@click.option("--keep", is_flag=True, help="Keep the logs and data directories, and print their path.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the outcome.")
def demo_command(
    agents: int, seconds: float, rate: float, seed: int | None, no_spark: bool, keep: bool, quiet: bool
) -> int:
    """Run local agents over generated click streams, kill one agent, and check every result.

    The exit code is 0 if every interval equals what one process computes from the same files, and 1 if
    any interval differs.
    """
    console = Console(quiet=quiet)
    seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    directory = Path(tempfile.mkdtemp(prefix="elf-demo-"))
    try:
        with _stopped_by_sigterm():
            return _story(console, directory, agents, seconds, rate, seed, spark=not no_spark)
    finally:
        if keep:
            click.echo(f"kept: {directory}", err=True)
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _story(
    console: Console, directory: Path, agents: int, seconds: float, rate: float, seed: int, *, spark: bool
) -> int:
    jobs = demo_jobs()
    began = time.monotonic()
    with Fleet(directory, agents, seed=seed, rate_per_s=rate) as fleet:
        tell(console, JOBS_NOTE)
        tell(console, f"Starting {agents} agents on loopback (seed {seed}) ...")
        fleet.open()
        asked = fleet.agents[0]
        tell(console, f"All are ready after {time.monotonic() - began:.1f} s; this demo asks {asked.name}.")
        # Never the agent that this demo queries, because the demo could not continue without it.
        victim = random.Random(seed).choice([agent.name for agent in fleet.agents[1:]])
        client = connect(asked.api)
        for job in jobs:
            tell(console, f"\n{job.text}")
            done = _applied(client, job.text)
            reported = f"acknowledged by {done.acknowledged} of {done.expected} agents"
            tell(console, f"-> {'its master reads the other two' if job.reads else reported}.")
        _wait_for_all(console, client, jobs, agents)
        with _view(console) as view:
            _watch(fleet, client, jobs, view, seconds=seconds, victim=victim)
        outcome = equals_one_process(console, jobs, fleet, victim)
        outcome = early_rows_last(console, jobs) and outcome
        if spark:
            outcome = equals_on_spark(console, jobs, asked.api) and outcome
    tell(console, f"\nAll processes are stopped. {time.monotonic() - began:.0f} s in total.")
    click.echo("demo: every interval EQUAL" if outcome else "demo: results DIFFER")
    return 0 if outcome else 1


def _applied(client: Client, text: str) -> Applied:
    """Submit a job; again if an agent on a busy machine answered too late."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return read_reply(Applied, client.apply(text))
        except Unreachable:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def _wait_for_all(console: Console, client: Client, jobs: list[DemoJob], agents: int) -> None:
    """Wait until every agent takes part in every job, before the traffic starts.

    An agent that was still joining when a job was applied takes part from a later, declared interval on.
    """
    deadline = time.monotonic() + TIMEOUT_S
    for job in jobs:
        while not job.reads:
            about = read_reply(Description, client.describe(job.name))
            roster = about.roster.agents
            begin_us = max((entry.start or 0 for entry in roster), default=0) * job.slide_us
            if len(roster) == agents and begin_us <= time.time_ns() // 1000:
                tell(console, f"All {agents} agents work on {job.name}; its master is {about.master}.")
                break
            if time.monotonic() > deadline:
                raise RuntimeFailure(f"only {len(roster)} of {agents} agents work on {job.name}")
            time.sleep(0.2)


def _watch(
    fleet: Fleet, client: Client, jobs: list[DemoJob], view: View, *, seconds: float, victim: str
) -> None:
    """Run the traffic, show results as intervals close, and kill the victim half-way.

    Returns when the last interval has closed.
    """
    results: queue.Queue[dict[str, Any] | ElfError] = queue.Queue()
    over = threading.Event()
    for job in jobs:
        threading.Thread(target=_follow, args=(client, job, results, over), daemon=True).start()
    by_name = {job.name: job for job in jobs}
    fleet.traffic.start()
    began = time.monotonic()
    killed: str | None = None
    closing: float | None = None
    try:
        while True:
            elapsed = time.monotonic() - began
            if killed is None and elapsed >= seconds / 2:
                process = fleet.kill(victim).process
                killed = victim
                view.say(
                    f"killed agent {victim} (SIGKILL, process {process.pid}); its web server stopped too"
                )
            if closing is None and elapsed >= seconds:
                fleet.traffic.stop()
                closing = time.monotonic() + TIMEOUT_S
                view.say(f"the shop is closed after {fleet.traffic.lines:,} lines; the last intervals follow")
            _take(results, by_name, view)
            fleet.check(dead=killed)
            open_jobs = [job.name for job in jobs if not _done(job, fleet.traffic.last_us)]
            if closing is not None and not open_jobs:
                return
            if closing is not None and time.monotonic() > closing:
                raise RuntimeFailure(
                    f"the last interval of {', '.join(open_jobs)} did not close in {TIMEOUT_S:.0f} s"
                )
            view.status(
                f"{elapsed:4.0f} s of {seconds:.0f}   {fleet.traffic.lines:,} log lines   "
                f"{sum(agent.alive for agent in fleet.agents)} agents alive"
            )
    finally:
        over.set()


def _done(job: DemoJob, last_us: int) -> bool:
    return max(job.records, default=-1) >= last_us // job.slide_us


def _follow(
    client: Client, job: DemoJob, results: queue.Queue[dict[str, Any] | ElfError], over: threading.Event
) -> None:
    """Put the results of a job into the queue as they arrive; runs in its own thread."""
    try:
        for record in client.results(job.name, follow=True, state=job.state):
            results.put(record)
            if over.is_set():
                return
    except ElfError as error:
        if not over.is_set():
            results.put(error)


def _take(results: queue.Queue[dict[str, Any] | ElfError], jobs: dict[str, DemoJob], view: View) -> None:
    try:
        item = results.get(timeout=0.1)
        while True:
            if isinstance(item, ElfError):
                raise item
            job, index = jobs[item["job"]], item["interval"]["index"]
            if item["state"] == "EARLY":
                if not job.early:
                    view.say(early_text(item))
                job.early.setdefault(index, []).append(item)
            else:
                job.records[index] = item
                view.result(item)
            item = results.get_nowait()
    except queue.Empty:
        pass


def _view(console: Console) -> View:
    return LiveView(console) if console.is_terminal and not console.quiet else PlainView(console)


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Make SIGTERM unwind the stack as Ctrl-C does, so that all processes and files are removed."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
