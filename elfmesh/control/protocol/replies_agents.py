"""The replies about agents: their rows in lists, their description, their health; see `replies`.

A fact of the host is absent from the JSON of an agent that has no host, such as a simulated one.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

Facts = dict[str, Any] | UnsetType
"""What a part of the host reports. Its names are those of sinks, inputs, counters and jobs."""


class AgentDetails(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent reports about itself.

    Attributes:
        overlay: its address in the overlay.
        skew_seconds: how far its clock is ahead of those of its peers.
        job_costs: what each job costs here.
        load: sums over all jobs, for lists (`jobs.load`).
        tentative: by job whose master it is, the share of the final rows that tentative records had.
        kept_if_lost: by job whose master it is, the least fidelity after the loss of a failure domain.
        standbys: what it holds for other agents, and its own standbys by job.
    """

    name: str | UnsetType = UNSET
    id: str | UnsetType = UNSET
    overlay: str | UnsetType = UNSET
    incarnation: int | UnsetType = UNSET
    version: str | UnsetType = UNSET
    skew_seconds: float | UnsetType | None = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    sources: Facts = UNSET
    inputs: Facts = UNSET
    sinks: Facts = UNSET
    archives: Facts = UNSET
    programs: Any = UNSET
    overlay_stats: Facts = UNSET
    tree_stats: Facts = UNSET
    control_stats: Facts = UNSET
    votes: Facts = UNSET
    transport: Facts = UNSET
    memory: Facts = UNSET
    processor: Facts = UNSET
    job_costs: Facts = UNSET
    dead_letters: Facts = UNSET
    functions: Facts = UNSET
    plugins: dict[str, str] | UnsetType = UNSET
    refused_plugins: list[dict[str, str]] | UnsetType = UNSET
    authority: Facts = UNSET
    security: Facts = UNSET
    frame_log: Facts = UNSET
    problem: str | UnsetType | None = UNSET
    waits_for_disk: Facts = UNSET
    load: Facts = UNSET
    tentative: Facts = UNSET
    kept_if_lost: Facts = UNSET
    standbys: Facts = UNSET


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of an agent. Each field with a problem is present only if there is one.

    `warnings` do not change the status: the clock and the end of the certificate.
    """

    status: str
    sinks: dict[str, str] | UnsetType = UNSET
    slowed: dict[str, Any] | UnsetType = UNSET
    archives: dict[str, str] | UnsetType = UNSET
    held: dict[str, str] | UnsetType = UNSET
    insecure: str | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET
    problem: str | UnsetType = UNSET
    dead_agents: list[str] | UnsetType = UNSET
    agent: str


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that answers, in a list: the jobs that it serves and leads, and its own report."""

    name: str
    status: str
    id: str
    address: str
    labels: dict[str, str]
    streams: list[str]
    jobs: list[str]
    masters: list[str]
    overlay: str | UnsetType = UNSET
    incarnation: int | UnsetType = UNSET
    version: str | UnsetType = UNSET
    skew_seconds: float | UnsetType | None = UNSET
    sources: Facts = UNSET
    inputs: Facts = UNSET
    sinks: Facts = UNSET
    archives: Facts = UNSET
    programs: Any = UNSET
    overlay_stats: Facts = UNSET
    tree_stats: Facts = UNSET
    control_stats: Facts = UNSET
    votes: Facts = UNSET
    transport: Facts = UNSET
    memory: Facts = UNSET
    processor: Facts = UNSET
    dead_letters: Facts = UNSET
    functions: Facts = UNSET
    plugins: dict[str, str] | UnsetType = UNSET
    refused_plugins: list[dict[str, str]] | UnsetType = UNSET
    authority: Facts = UNSET
    security: Facts = UNSET
    frame_log: Facts = UNSET
    problem: str | UnsetType | None = UNSET
    waits_for_disk: Facts = UNSET
    load: Facts = UNSET
    health: Health | UnsetType = UNSET


class DeadAgentRow(msgspec.Struct, frozen=True):
    """An agent in a list that does not answer; `last_seen` is None where there is no wall clock."""

    name: str
    id: str
    address: str
    incarnation: int
    status: str
    last_seen: str | None


class ForgottenAgent(msgspec.Struct, frozen=True):
    """A dead agent that the agent `agent` no longer lists."""

    agent: str
    forgotten: str
    id: str


class StreamCost(msgspec.Struct, frozen=True):
    """What a job would read of a stream of an agent.

    Attributes:
        lines: estimated from the lines that the agent has read; None: it has read none.
        seconds: the expected time; None: the agent has measured no rate.
        bytes_per_second: the rate of one reader of the agent.
        measured_on: "reads": all reads since the start of the agent; "sample": the first bytes of a log.
        estimated: bytes of compressed files that do not state their size.
    """

    stream: str
    files: int
    bytes: int
    lines: int | None
    seconds: float | None
    bytes_per_second: int | None
    measured_on: str
    estimated: int = 0


class AgentCost(msgspec.Struct, frozen=True):
    """What a job would read at one agent: the sums over its streams.

    `bytes_max` is the limit of queries, and `refusal` states why the agent refuses the job.
    """

    agent: str
    id: str
    streams: list[StreamCost]
    bytes: int
    lines: int | None
    seconds: float | None
    bytes_max: int | None = None
    refusal: str = ""
    estimated: int = 0


class VotesLoss(msgspec.Struct, frozen=True):
    """A loss of votes of an agent, and the jobs that still count on one of them."""

    start: int
    file: str
    reason: str
    kept: str
    jobs: list[str]


class VotesReport(msgspec.Struct, frozen=True):
    """What is wrong with votes: of the agent, and of the voters of jobs that it leads or should lead."""

    lost: VotesLoss | None
    without_majority: list[str]


class LeavingJob(msgspec.Struct, frozen=True):
    """A job that an agent has not left yet.

    `problem`: why its open windows are not handed over, if the agent leaves at once.
    """

    job: str
    paused: bool
    problem: str | UnsetType = UNSET


class LeavingAgent(msgspec.Struct, frozen=True):
    """An agent that has left, or is leaving and waits for jobs."""

    agent: str
    state: str
    jobs: int
    waits_for: list[LeavingJob] | UnsetType = UNSET
