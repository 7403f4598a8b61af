"""Messages about the open panes that a standby holds for a member (STANDBY).

A chain is one run of deltas from one member to one standby. It is named by the member's agent, its boot and a
number within the boot, and by no roster number, so a change of masters does not end it. The master requests
chains with `Surrender`, as it requests copies. Nothing here is written to disk.

Paper: PPA II-B (active replication of tasks). Deviation: a standby holds partial aggregates and evaluates
nothing.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from elfmesh.machine import Caused, Count, Id, Index, Message
from elfmesh.srt.residency import Rule

PANES_MAX = 4096
"""Maximum number of panes in one delta."""


class PaneDelta(msgspec.Struct, frozen=True, array_like=True):
    """What a delta adds to one pane: its partial has `size` bytes of the payload.

    `evaluated` is the version that has evaluated the records, which also decides the width of the pane.
    """

    evaluated: Count
    pane: Index
    contributed: Count
    filtered: Count
    size: Count


class Delta(Message, frozen=True, tag="ctl.delta"):
    """Member to standby: what it has read since the previous delta; number 0 has all of its open panes.

    Attributes:
        member: id of the member's agent.
        boot: boot of that agent.
        chain: number of the chain within the boot.
        seq: number within the chain.
        first: first open interval of the member; the delta adds nothing to earlier ones, which are sealed.
        until_us: newest event time in the chain up to here.
        panes: the payload has their partials in this order.
        keep_in: which agents may get it; absent: all.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    member: Id
    boot: Count
    chain: Count
    seq: Count
    first: Index
    until_us: Index
    panes: tuple[PaneDelta, ...]
    keep_in: Rule | msgspec.UnsetType = msgspec.UNSET


class Chained(Message, frozen=True, tag="ctl.chained"):
    """Standby to member: the next delta of this chain that it accepts; `has_room` False: it takes none."""

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    boot: Count
    chain: Count
    next: Count
    has_room: bool = True


class Prefix(Caused, frozen=True, tag="ctl.prefix"):
    """The answer to `Surrender` for open panes: deltas of one chain, each behind the one before it.

    `epoch` is that of the request. The payload has the payloads of the deltas in order.
    """

    since: ClassVar[int] = 3

    epoch: Count
    job: Id
    deltas: tuple[Delta, ...]


class Shipping(Message, frozen=True, tag="ctl.shipping"):
    """Member to master, for display: which agent holds its open panes now; b"": none, by `problem`.

    Attributes:
        lag_ms: age of the oldest record that the standby lacked when it acknowledged the newest delta.
        bytes_s: bytes of deltas per second since the report before.
    """

    since: ClassVar[int] = 3

    job: Id
    epoch: Count
    number: Count
    standby: bytes
    problem: str = ""
    lag_ms: Count = 0
    bytes_s: Count = 0


class ContributionRequest(Caused, frozen=True, tag="ctl.contribution_request"):
    """Master to a member: send me what you have contributed from interval `start` on, as `KeptCopy`."""

    since: ClassVar[int] = 3

    job: Id
    epoch: Count
    start: Index


STANDBY_MESSAGES: tuple[type[Message], ...] = (Delta, Chained, Prefix, Shipping, ContributionRequest)
"""For the codec."""


def is_sound_delta(delta: Delta, nbytes: int) -> bool:
    """Return whether the sizes of a delta add up to its payload, and no pane is in it twice."""
    places = {(each.evaluated, each.pane) for each in delta.panes}
    return len(places) == len(delta.panes) <= PANES_MAX and sum(each.size for each in delta.panes) == nbytes
