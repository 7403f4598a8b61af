"""Effects and events about early rows; `events` exports them with all others."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Effect, Event


class EarlyMembers(Effect, Struct, frozen=True):
    """Share the thresholds of a job's early rows among this number of members."""

    job: bytes
    members: int


class EarlyReported(Event, Struct, frozen=True):
    """States of groups of an open interval that have changed and reached their local thresholds.

    The states are cumulative. `evaluated`, `begun`: see `Sealed`. `skipped` groups had no room.
    """

    job: bytes
    incarnation: str
    interval: int
    payload: bytes
    skipped: int = 0
    evaluated: int = 1
    begun: int = 0


class MemberStates(Struct, frozen=True):
    """States of some groups, from a message of a member.

    Attributes:
        member: id of the member; one agent has one state of a group, whatever its roster number is.
        boot: boot of the member.
        number: number of its message; of two states of a group, the one with the greater (boot, number)
            counts.
    """

    member: bytes
    boot: int
    number: int
    payload: bytes


class MergeEarly(Effect, Struct, frozen=True):
    """Replace members' states of some groups, and make the rows that pass HAVING now, in a thread.

    Attributes:
        states: in the order of arrival; (): the open groups have changed, and no member has sent states.
        below: states of earlier intervals are dropped.
        open: groups that are open before `below`, if groups of the query span intervals.
        members: ids of the members that interval `below` expects, if groups of the query span intervals.
        is_settled: whether all earlier intervals are closed, so that groups may end in interval `below`.
    """

    job: bytes
    epoch: int
    manifest: Manifest
    interval: int
    states: tuple[MemberStates, ...]
    below: int
    open: bytes = b""
    members: tuple[str, ...] = ()
    is_settled: bool = True


class EarlyMerged(Event, Struct, frozen=True):
    """The early rows that a `MergeEarly` has made.

    Attributes:
        rows: Arrow IPC stream of the new rows; b"" if there are none.
        count: number of rows.
        members: ids of the members whose states the rows contain.
        skipped: groups that had no room at the master.
        error: why the states of a member could not be merged.
        others: the outcomes of further members, and the rows of further intervals, in which other partitions
            end.
    """

    job: bytes
    epoch: int
    interval: int
    rows: bytes = b""
    count: int = 0
    members: tuple[bytes, ...] = ()
    skipped: int = 0
    error: str = ""
    others: tuple[EarlyMerged, ...] = ()
