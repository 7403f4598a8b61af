"""The replies to verbs: one struct per JSON object that an agent returns.

The module owns the names in the JSON and their order, which other programs and earlier releases read. It
decides neither how an agent makes a reply nor what a command prints. A field with the default UNSET is absent
from the JSON if it has no value. A new field gets a default, because earlier agents do not send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from elfmesh.control.jobs.terms import Numbering
from elfmesh.errors import ProtocolError

R = TypeVar("R", bound=msgspec.Struct)


def read_reply(kind: type[R], body: Mapping[str, Any]) -> R:
    """Return a JSON object as a struct; unknown names are ignored.

    Raises:
        ProtocolError: a name is missing, or a value has another type.
    """
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the answer of the agent is malformed: {error}") from None


# -- parts of several replies ------------------------------------------------------------------------------


class Span(msgspec.Struct, frozen=True):
    """An interval with its range of event time."""

    index: int
    start: str | None
    end: str | None


class RecordHead(msgspec.Struct, frozen=True):
    """A record without its rows."""

    index: int
    start: str | None
    state: str
    completeness: float
    missing: list[str]
    counts: dict[str, int]


class Voter(msgspec.Struct, frozen=True):
    """A voter of a job that may have lost its majority."""

    address: str
    id: str
    state: str

    def __str__(self) -> str:
        return f"{self.address} {self.state}"


# -- a job -------------------------------------------------------------------------------------------------


class JobRow(msgspec.Struct, frozen=True):
    """A job in a list. `latest` to `missing` describe its newest result; `leased`: it is a client's query."""

    id: str
    job: str
    creator: str
    version: int
    state: str
    stream: str
    agents: int
    latest: int | None
    master: str
    epoch: int
    created: str | None
    result: str | None
    completeness: float | None
    missing: list[str]
    held_for_seconds: float | None
    leased: bool | UnsetType = UNSET


class MemberRow(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """A member of a job in its description; `usual_records` are by input of the text, for an interval.

    `standby` is the agent that holds its open panes. Its lag is the age of the oldest record that it lacked
    before the newest delta.
    """

    agent: str
    id: str
    number: int
    start: int | None
    frontier: int | None
    dead: bool
    late_seconds: float | None
    usual_records: list[float] | UnsetType = UNSET
    standby: str | UnsetType = UNSET
    standby_lag_seconds: float | UnsetType = UNSET
    standby_bytes_per_second: int | UnsetType = UNSET


class RefusingAgent(msgspec.Struct, frozen=True):
    """An agent that takes no part in a query because of its own limit."""

    agent: str
    id: str
    reason: str


class RosterRow(msgspec.Struct, frozen=True):
    """The members of a job."""

    version: int
    agents: list[MemberRow]


class Description(JobRow, frozen=True, kw_only=True):
    """The details of a job.

    `seen` is the tag with which a client changes this version and no other. `collecting` is the first open
    interval, `spent` is how long the newest intervals took, and `tree` is the tree of the job at its master.
    `kept_if_lost` is, by failure domain, the fidelity of what the members had read if that domain is lost.
    `voter_domains` has the region and rack of each voter, in the order of `voters`. `tentative` has, by
    ranges of fidelity, how much of the final rows tentative records had. `refused` are the agents that refuse
    a query.
    """

    text: str
    signed: str | None
    incarnation: str
    seen: str | UnsetType = UNSET
    window: dict[str, str]
    labels: dict[str, Any]
    partitions: int
    on_straggler: str
    closed_below: int | None
    collecting: dict[str, Any]
    voters: list[str]
    voters_without_votes: list[str] = []
    voter_domains: list[str] | UnsetType = UNSET
    roster: RosterRow
    counts: dict[str, int]
    parse_error_samples: list[str]
    errors: list[str]
    spent: list[dict[str, int | float]]
    results: list[RecordHead]
    tree: dict[str, Any] | None
    refused: list[RefusingAgent] | UnsetType = UNSET
    tentative: list[dict[str, Any]] | UnsetType = UNSET
    kept_if_lost: dict[str, float] | UnsetType = UNSET


class DelayingAgent(msgspec.Struct, frozen=True):
    """A member whose contribution to the open interval is not at the master.

    `behind` is the number of intervals between it and the member that is furthest ahead. `standby` is the
    agent that holds its open panes, with the newest lag that the member has reported.
    """

    agent: str
    state: str
    frontier: int | None
    behind: int
    dead_for_seconds: float | None
    error: str
    standby: str | UnsetType = UNSET
    standby_lag_seconds: float | UnsetType = UNSET


class SiteVotes(msgspec.Struct, frozen=True):
    """The sites of a job that have voted on its first open interval, and those that have not; names."""

    voted: list[str]
    lacking: list[str]


class Why(msgspec.Struct, frozen=True, kw_only=True, rename={"inside": "in"}):
    """What delays the first open interval of a job.

    Attributes:
        held_for_seconds: time since the first member was beyond the interval.
        tentative_rev: revision of the interval that is published; 0: none.
        inside: number of members whose contribution is at the master, of `expected`.
        agents: members that the master waits for, and dead ones whose contribution it does not have.
        newest: the newest record.
        missing: the agents that the newest record lacks, and those in `agents`.
        reads: what a job that reads other jobs waits for.
        voters: the voters of a job without a majority.
        voters_without_votes: their addresses.
        sites: which sites have voted on the interval, if votes close it.
        because: the explanation as a sentence.
    """

    job: str
    state: str
    interval: Span | None
    held_for_seconds: float | None
    stage: str
    tentative_rev: int
    inside: int
    expected: int
    agents: list[DelayingAgent]
    newest: RecordHead | UnsetType | None = UNSET
    missing: list[str] | UnsetType = UNSET
    reads: list[str]
    voters: list[Voter] | UnsetType = UNSET
    voters_without_votes: list[str] = []
    sites: SiteVotes | UnsetType = UNSET
    because: str


class AgentName(msgspec.Struct, frozen=True):
    """A member of a job."""

    agent: str
    id: str


class IntervalState(msgspec.Struct, frozen=True):
    """What the master of a job knows of an interval; `newest` is the newest closed one.

    `state` is the one of its record, or CLOSED if the master has only the newest records; None: it is open.
    """

    job: str
    id: str
    partitions: int
    interval: Span
    end_us: int
    newest: int | None
    state: str | None
    completeness: float | None
    missing: list[str]
    agents: list[AgentName]


class StoryStep(msgspec.Struct, frozen=True):
    """A step of an agent for an interval, `seconds` after the end of the interval."""

    seconds: float
    agent: str
    kind: str
    peer: str
    detail: str
    times: int
    step: str
    cause: str


class KeptSteps(msgspec.Struct, frozen=True):
    """The first interval of a job of which an agent, whose id is in hex, keeps steps; None: it keeps none."""

    agent: str
    kept_from: int | None


class ReportedStep(msgspec.Struct, frozen=True):
    """A step as its agent sends it: names and ids in hex, the time of its wall clock."""

    agent: str
    name: str
    step: str
    cause: str
    at_us: int
    kind: str
    peer: str
    detail: str
    times: int
    again: list[str] = []


class IdleAgent(msgspec.Struct, frozen=True):
    """An agent without a step in a story."""

    agent: str
    reason: str


class Story(msgspec.Struct, frozen=True):
    """The steps of all agents for an interval, each after its cause."""

    job: str
    interval: Span
    state: str | None
    completeness: float | None
    missing: list[str]
    steps: list[StoryStep]
    without: list[IdleAgent]
    asked: dict[str, int] | UnsetType = UNSET


# -- results -----------------------------------------------------------------------------------------------


class LogRange(msgspec.Struct, frozen=True, kw_only=True):
    """The intervals that a results log holds, under the incarnation of the job that numbers them.

    Attributes:
        latest: below `earliest` if the log is empty.
        expired: the newest interval that the log has dropped.
        first: the first interval that the job ever had; earlier releases do not send it.
    """

    earliest: int
    latest: int
    expired: int | None = None
    first: int | None = None
    incarnation: str


class ResultOffsets(LogRange, frozen=True, kw_only=True):
    """The range of a log, with the earlier incarnations of the job and the newest tentative revision."""

    earlier: tuple[Numbering, ...] | UnsetType = UNSET
    revision: int | UnsetType = UNSET


class ResultSchema(LogRange, frozen=True, kw_only=True):
    """The Arrow schema of a result row, in base64."""

    arrow: str


class ResultPage(LogRange, frozen=True, kw_only=True):
    """A page of records, which are the payload. The next page begins with `next` and `revision`.

    `site` is what counts the revisions, for a client that states one.
    """

    next: int
    revision: int | None = None
    site: str | UnsetType = UNSET


class PageOfRows(msgspec.Struct, frozen=True):
    """A page of the rows of a record, which is the payload."""

    incarnation: str


class ArrowStream(msgspec.Struct, frozen=True):
    """No JSON: HTTP answers with an Arrow stream or a file."""


# -- rows of lists -----------------------------------------------------------------------------------------


class StreamRow(msgspec.Struct, frozen=True):
    """A stream of one agent."""

    stream: str
    format: str
    agent: str
    columns: list[Any]


class StreamSummary(msgspec.Struct, frozen=True):
    """A stream of all its agents."""

    stream: str
    formats: list[str]
    columns: list[Any]
    agents: list[str]


class TreeRow(msgspec.Struct, frozen=True):
    """A shared reducer tree as one agent knows it. `job` is set by the master of its job only."""

    agent: str
    tree: str
    root: bool
    subscribed: bool
    parent: str | None
    children: list[str]
    depth: int
    size: int
    job: str
