"""Messages between a master, the roots of its job's trees, and its sites.

A job has one tree per partition. The master may be the root of none of them. Orders carry the epoch, which
fences them (D-5), and the roster epoch, which fences the contributions in the tree.

Paper: ELF 2.3, 3; partitions: the paper's WordCount.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from elfmesh.machine import Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.messages import Segment


class PartRoot(Message, frozen=True, tag="ctl.part_root"):
    """Master to the root of a partition's tree, routed: send the collected segments to the master.

    `stated_roster_epoch` is absent if it is the epoch. `tree` is that of a group, absent for the job's own
    tree of the partition; the other messages have it as well. `sites` are agents beside the master that get
    the segments too. `idle`: the master itself gets none now, and no part waits for it. Earlier releases
    ignore all four.
    """

    job: Id
    partition: Count
    master: Contact
    epoch: Count
    closed: Index
    stated_roster_epoch: Count | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="roster_epoch")
    tree: Id | msgspec.UnsetType = msgspec.UNSET
    sites: tuple[Contact, ...] | msgspec.UnsetType = msgspec.UNSET
    idle: bool | msgspec.UnsetType = msgspec.UNSET

    @property
    def roster_epoch(self) -> int:
        return self.stated_roster_epoch or self.epoch


class Part(Caused, frozen=True, tag="ctl.part"):
    """Root of a tree to the master and its sites: a segment; the payload has those of its entries."""

    job: Id
    partition: Count
    seq: Count
    segment: Segment
    tree: Id | msgspec.UnsetType = msgspec.UNSET


class PartFault(Message, frozen=True, tag="ctl.part_fault"):
    """Root of a partition's tree to the master: the contributions of `coverage` cannot be merged."""

    job: Id
    partition: Count
    roster_epoch: Count = msgspec.field(name="epoch")
    start: Index
    stop: Index
    coverage: bytes
    error: str


class PartAck(Message, frozen=True, tag="ctl.part_ack"):
    """Master or site to the root of a partition's tree: it has received the part `seq`."""

    job: Id
    partition: Count
    seq: Count
    tree: Id | msgspec.UnsetType = msgspec.UNSET


class TreeOrder(Message, frozen=True, tag="ctl.tree_order"):
    """Master to the root of a partition's tree: collect [start, stop) again, or do not wait for it.

    `stated_roster_epoch` is absent if it is the epoch. Earlier releases ignore it.
    """

    job: Id
    partition: Count
    epoch: Count
    start: Index
    stop: Index
    attempt: Count
    recollect: bool
    stated_roster_epoch: Count | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="roster_epoch")
    tree: Id | msgspec.UnsetType = msgspec.UNSET

    @property
    def roster_epoch(self) -> int:
        return self.stated_roster_epoch or self.epoch


class PartRequest(Message, frozen=True, tag="ctl.part_request"):
    """Master to a site: send the parts of a roster epoch from interval `start` on.

    The roster epoch is that of its own term, or, for a new master, that of the term before. `members` is the
    bitmap of the members that it lacks; empty: all parts.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    epoch: Count
    roster_epoch: Count
    start: Index
    members: bytes = b""


class SitePart(Caused, frozen=True, tag="ctl.site_part"):
    """Site to a master, whose epoch it names: a part of the requested roster epoch, and its tree.

    A site of an earlier release names no tree.
    """

    since: ClassVar[int] = 3

    job: Id
    epoch: Count
    partition: Count
    segment: Segment
    tree: Id | msgspec.UnsetType = msgspec.UNSET


MESSAGES: tuple[type[Message], ...] = (PartRoot, Part, PartFault, PartAck, TreeOrder, PartRequest, SitePart)
"""For the codec."""
