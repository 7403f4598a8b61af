"""The replies to verbs that change, verify or recover a job; see `replies`."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from elfmesh.control.protocol.replies import Voter


class JobSummary(msgspec.Struct, frozen=True):
    """The version of a job that is in force from `effective_interval` on, and how many members have it."""

    job: str
    version: int
    effective_interval: int
    acknowledged: int
    expected: int
    state: str


class Applied(JobSummary, frozen=True, kw_only=True):
    """What a change of a job did to its state, or, in a dry run, would do.

    `excluded` has a sentence for each host that takes no part because of its `keep_in`.
    """

    in_place: bool | UnsetType = UNSET
    columns: dict[str, str] | UnsetType = UNSET
    reasons: list[str] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    dry_run: bool | UnsetType = UNSET
    seconds: dict[str, float] | UnsetType = UNSET
    hint: str | UnsetType = UNSET
    excluded: list[str] | UnsetType = UNSET


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a job. The reply about a job that was deleted before has a state only."""

    job: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    effective_interval: int | UnsetType = UNSET
    acknowledged: int | UnsetType = UNSET
    expected: int | UnsetType = UNSET
    state: str = "deleted"
    earlier: bool | UnsetType = UNSET


class RolloutStatus(JobSummary, frozen=True, kw_only=True):
    """The progress of the last change of a job, and of its canary."""

    in_force: bool
    waits_for: list[str]
    usable: dict[str, float | None]
    replaces: int | None
    halted: str
    texts: dict[str, str]
    canary: RolloutStatus | UnsetType = UNSET


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the verification of an interval; from `digest` on, its outcome."""

    job: str
    interval: int
    state: str
    waits_for: list[str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET
    published: dict[str, int] | UnsetType = UNSET
    recomputed: dict[str, int] | UnsetType = UNSET
    agents: list[dict[str, Any]] | UnsetType = UNSET
    errors: list[dict[str, str]] | UnsetType = UNSET
    rows: int | UnsetType = UNSET
    differences: list[dict[str, Any]] | UnsetType = UNSET


class MeasuredLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What an interval would have been worth without some members; from `errors` on, the outcome.

    `rows` is the number of rows of all members. Each of the `cases` has the failure domain, its members, the
    fidelity by usual rates, the share of the interval's records, and what the rows had in common.
    """

    job: str
    interval: int
    state: str
    waits_for: list[str] | UnsetType = UNSET
    error: str | UnsetType = UNSET
    errors: list[dict[str, str]] | UnsetType = UNSET
    rows: int | UnsetType = UNSET
    cases: list[dict[str, Any]] | UnsetType = UNSET


class PossibleLoss(msgspec.Struct, frozen=True):
    """What a recovery may lose: the first interval and None, and a sentence."""

    intervals: tuple[int | None, None]
    what: str


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery of a job would do, or, with `recovered` and the fields after it, has done."""

    job: str
    incarnation: str
    voters: list[Voter]
    results: dict[str, int | None]
    may_be_lost: PossibleLoss
    closed_below: int
    state: str
    recovered: str | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    new_voters: list[str] | UnsetType = UNSET
