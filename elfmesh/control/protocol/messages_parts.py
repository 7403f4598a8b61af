"""Messages between a master and the roots of its job's trees.

A job has one tree per partition. The master may be the root of none of them.

Paper: ELF 2.3, 3; partitions: the paper's WordCount.
"""

from __future__ import annotations

from elfmesh.machine import Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.messages import Segment


class PartRoot(Message, frozen=True, tag="ctl.part_root"):
    """Master to the root of a partition's tree, routed: send the collected segments to the master."""

    job: Id
    partition: Count
    master: Contact
    epoch: Count
    closed: Index


class Part(Caused, frozen=True, tag="ctl.part"):
    """Root of a tree to the master: a collected segment; the payload has those of its entries in order."""

    job: Id
    partition: Count
    seq: Count
    segment: Segment


class PartFault(Message, frozen=True, tag="ctl.part_fault"):
    """Root of a partition's tree to the master: the contributions of `coverage` cannot be merged."""

    job: Id
    partition: Count
    epoch: Count
    start: Index
    stop: Index
    coverage: bytes
    error: str


class PartAck(Message, frozen=True, tag="ctl.part_ack"):
    """Master to the root of a partition's tree: it has received the part `seq`."""

    job: Id
    partition: Count
    seq: Count


class TreeOrder(Message, frozen=True, tag="ctl.tree_order"):
    """Master to the root of a partition's tree: collect [start, stop) again, or do not wait for it."""

    job: Id
    partition: Count
    epoch: Count
    start: Index
    stop: Index
    attempt: Count
    recollect: bool


MESSAGES: tuple[type[Message], ...] = (PartRoot, Part, PartFault, PartAck, TreeOrder)
"""For the codec."""
