"""The reply to `plan`: where the contributions of a job are reduced."""

from __future__ import annotations

import msgspec


class PlannedSite(msgspec.Struct, frozen=True):
    """An agent that collects all groups; the first one is the master. `domain` is like eu/r1, or empty."""

    agent: str
    id: str
    domain: str


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


class JobLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Where the contributions of a job are reduced.

    Attributes:
        paths: the number of sites that the job asks for; 0: the job has no PATHS.
        across: the label in its text; "": it names none.
        layout: null if one tree reduces the contributions of all agents.
        notes: what an operator should know about it.
    """

    job: str
    paths: int
    across: str
    layout: PlannedLayout | None
    notes: list[str]
