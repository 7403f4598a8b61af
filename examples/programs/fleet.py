"""What the examples share: a few agents on this host, a program beside each, and the end of all of them.

The vertices of a program run on one loop here, to start quickly. On real hosts each is a process of its own,
beside its host's agent: `Job.run`, or `elf program run` for a class whose constructor takes only `api`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from elfmesh import Job
from elfmesh.cli.host.local_agents import LocalAgents

Play = Callable[[Path, LocalAgents], Awaitable[None]]


async def until_done(jobs: Sequence[Job], done: Awaitable[object], timeout_s: float) -> None:
    """Run programs until `done` is, or one of them fails; raise TimeoutError after `timeout_s`."""
    serving = [asyncio.create_task(job.serve()) for job in jobs]
    wanted = asyncio.ensure_future(done)
    try:
        async with asyncio.timeout(timeout_s):
            finished, _ = await asyncio.wait([wanted, *serving], return_when=asyncio.FIRST_COMPLETED)
        for task in finished:
            task.result()
    finally:
        wanted.cancel()
        for job in jobs:
            job.stop()
        for task in serving:
            with suppress(Exception):
                await task


def run(play: Play) -> None:
    """Play an example in a directory of its own; nothing is left of it, unless --directory keeps it."""

    @click.command()
    @click.option("--directory", type=click.Path(file_okay=False, path_type=Path), help="Keep the logs here.")
    def command(directory: Path | None) -> None:
        with tempfile.TemporaryDirectory(prefix="elf-example-") as temporary:
            where = directory or Path(temporary)
            where.mkdir(parents=True, exist_ok=True)
            with LocalAgents(where) as agents:
                asyncio.run(play(where, agents))

    command()
