"""The reply to `plan`: where the contributions of a job are reduced, and which members have standbys."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class PlannedSite(msgspec.Struct, frozen=True):
    """An agent that collects all groups; the first one is the master. `domain` is like eu/r1, or empty.

    Attributes:
        first: share of the newest records closed by votes of which the master had this site's vote first;
            absent without such records, and for gateways.
    """

    agent: str
    id: str
    domain: str
    first: float | UnsetType = UNSET


class PlannedGroup(msgspec.Struct, frozen=True):
    """The agents with one value of the label, and the agents at the roots of their trees."""

    group: str
    agents: int
    gateways: list[PlannedSite]


class PlannedLayout(msgspec.Struct, frozen=True):
    """Sites and groups; `label` is the failure domain that forms the groups."""

    label: str
    sites: list[PlannedSite]
    groups: list[PlannedGroup]


class PlannedPath(msgspec.Struct, frozen=True):
    """A stream from a gateway of a group to a site, both by name; `copy` is the number of the gateway."""

    group: str
    copy: int
    gateway: str
    site: str


class PathState(PlannedPath, frozen=True):
    """What is known about a path; the master knows the arrivals of its own paths only.

    Attributes:
        live: whether it carries parts, and not only on request.
        latency_seconds: one way, as its ends have measured it; null: neither has.
        lag_seconds: usual time from the first member that has passed an interval to this part of it.
        behind: closed intervals of which it has brought nothing, up to the newest part.
        first: share of the newest intervals in which it brought the group's first part.
    """

    live: bool
    latency_seconds: float | None
    lag_seconds: float | UnsetType = UNSET
    behind: int | UnsetType = UNSET
    first: float | UnsetType = UNSET


class PlannedCost(msgspec.Struct, frozen=True):
    """What the network carries between gateways and sites.

    Attributes:
        paths: how many paths there are.
        live: how many of them carry parts.
        idle: the others, which carry parts on request.
        bound: that of COST; null: there is none.
        ratio: the cost of the live paths, in units of the cost of PATHS 1; null: no latency is measured.
        is_kept: whether the bound is kept.
    """

    paths: int
    live: int
    idle: list[PlannedPath]
    bound: float | None
    ratio: float | None
    is_kept: bool


class ExpectedLatency(msgspec.Struct, frozen=True):
    """How long after the last seal of an interval its record is at the farthest site, by latencies alone.

    Attributes:
        by_votes_seconds: if votes of the sites close it.
        by_master_seconds: if the master closes it.
        measured: of the latencies between members, gateways and sites, how many the members have measured;
            the others are medians.
        of: how many these are.
    """

    by_votes_seconds: float
    by_master_seconds: float
    measured: int
    of: int


class PlannedStandby(msgspec.Struct, frozen=True):
    """A member that ships its open windows; `standby` has acknowledged them; null: none, by `problem`.

    Attributes:
        lag_seconds: age of the oldest record that the standby lacked before the newest delta.
        bytes_per_second: of deltas; absent like `lag_seconds` without a standby.
    """

    agent: str
    standby: str | None
    problem: str = ""
    lag_seconds: float | UnsetType = UNSET
    bytes_per_second: int | UnsetType = UNSET


class PlannedStandbys(msgspec.Struct, frozen=True):
    """Which members have a standby, and what remains if one failure domain is lost.

    Attributes:
        budget: as in the text of the job, such as ALL or KEEPS 0.95.
        across: the label in which a member and its standby differ.
        members: those that ship.
        of: number of all members.
        kept: by domain, the fidelity of what the members have read, with the standbys that hold windows.
        without: the same without standbys.
        reachable: the least fidelity that the plan would keep when all its standbys hold their windows.
        bytes_per_second: what all members together ship, as they have reported it.
        notes: why members have no standby in another failure domain.
    """

    budget: str
    across: str
    members: list[PlannedStandby]
    of: int
    kept: dict[str, float]
    without: dict[str, float]
    reachable: float
    bytes_per_second: int = 0
    notes: list[str] = []


class JobLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Where the contributions of a job are reduced.

    Attributes:
        paths: the number of sites that the job asks for; 0: the job has no PATHS.
        across: the label in its text; "": it names none.
        layout: null if one tree reduces the contributions of all agents.
        notes: what an operator should know about it.
        standbys: absent if the job has no STANDBY.
        messages: those with contributions that cross between groups for each interval and partition; absent
            without a layout.
        messages_of_one: the same with PATHS 1.
        expected: absent without a layout, and before a member has measured anything.
        copies: the number of trees of each group that the job asks for; absent without PATHS.
        cost: absent without a layout.
        streams: the paths; absent without a layout.
        warnings: those of the notes that state a shortage of sites, which `elf apply --strict` refuses.
    """

    job: str
    paths: int
    across: str
    layout: PlannedLayout | None
    notes: list[str]
    standbys: PlannedStandbys | UnsetType = UNSET
    messages: int | UnsetType = UNSET
    messages_of_one: int | UnsetType = UNSET
    expected: ExpectedLatency | UnsetType = UNSET
    copies: int | UnsetType = UNSET
    cost: PlannedCost | UnsetType = UNSET
    streams: list[PathState] | UnsetType = UNSET
    warnings: list[str] = []
