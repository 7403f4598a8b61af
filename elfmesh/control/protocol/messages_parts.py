"""What a master and the roots of its job's trees say to each other about what the trees collect.

A job has a tree per partition; the master need not be the root of any. Owns the messages; refuses to know how
a tree collects.

Paper: ELF 2.3, 3; partitions: the paper's WordCount.
"""

from __future__ import annotations

from elfmesh.machine import Caused, Contact, Count, Id, Index, Message
from elfmesh.srt.messages import Segment


class PartRoot(Message, frozen=True, tag="ctl.part_root"):
    """The master to the root of a partition's tree, routed: send me what you collect."""

    job: Id
    partition: Count
    master: Contact
    epoch: Count
    closed: Index


class Part(Caused, frozen=True, tag="ctl.part"):
    """The root of a tree to the master: a collected segment; the payload is its entries' in order."""

    job: Id
    partition: Count
    seq: Count
    segment: Segment


class PartFault(Message, frozen=True, tag="ctl.part_fault"):
    """The root of a partition's tree to the master: contributions of `coverage` cannot be merged."""

    job: Id
    partition: Count
    epoch: Count
    start: Index
    stop: Index
    coverage: bytes
    error: str


class PartAck(Message, frozen=True, tag="ctl.part_ack"):
    """The master has the part `seq`."""

    job: Id
    partition: Count
    seq: Count


class TreeOrder(Message, frozen=True, tag="ctl.tree_order"):
    """The master to the root of a partition's tree: collect [start, stop) again, or wait no longer for it."""

    job: Id
    partition: Count
    epoch: Count
    start: Index
    stop: Index
    attempt: Count
    recollect: bool


MESSAGES: tuple[type[Message], ...] = (PartRoot, Part, PartFault, PartAck, TreeOrder)
"""For the codec."""
