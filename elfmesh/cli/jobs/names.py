"""Checks of names that a user typed: of streams, which agents may get later, and of jobs."""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.api.client.client import Client
from elfmesh.cli.common import say
from elfmesh.errors import DataError, ElfError, RuntimeFailure
from elfmesh.text import suggest

NO_SUCH_JOB = "there is no such job"


def note_unknown_streams(client: Client, streams: Sequence[str], *, strict: bool) -> None:
    """Print which streams of a job no agent has; with `strict`, refuse the job.

    Raises:
        DataError: no agent has a stream, and `strict` is set.
    """
    try:
        there = stream_names(client)
    except ElfError:  # a principal that may submit jobs may lack the permission to list streams
        if strict:
            raise
        return
    for name in streams:
        if name in there:
            continue
        near = suggest(name, there)
        if strict:
            raise DataError(f"no agent has a stream {name}", hint=near or "`elf get streams` lists them.")
        what = near[:1].lower() + near[1:] or "the job waits until an agent has it."
        say(f"no agent has a stream {name}; {what}")


def stream_names(client: Client) -> list[str]:
    return [str(row["stream"]) for row in client.get("streams")]


def check_is_job(client: Client, job: str) -> None:
    """Raise RuntimeFailure if no job has this name."""
    try:
        client.describe(job)
    except RuntimeFailure as error:
        if NO_SUCH_JOB not in error.message:
            return  # the job exists, but its master does not answer
        jobs = [str(row["job"]) for row in client.get("jobs")]
        raise RuntimeFailure(
            error.message, hint=suggest(job.replace(".", "/"), jobs) or "`elf get jobs` lists the jobs."
        ) from None
