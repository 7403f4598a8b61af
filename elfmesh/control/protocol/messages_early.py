"""Message about early rows. `messages` has the list of all messages.

It goes straight to the master, not through the tree, and is never written to disk. It may arrive in any
order, twice or never: states are cumulative, so the next message makes up for a lost one.
"""

from __future__ import annotations

from typing import ClassVar

from elfmesh.machine import Count, Id, Index, Message

PAYLOAD_BYTES_MAX = 64 << 10
"""Maximum size of the states in one message."""


class Early(Message, frozen=True, tag="ctl.early"):
    """Member to master: states of groups of an open interval. The payload is their partial.

    Attributes:
        version: version that has evaluated the states.
        number: roster number of the member.
        boot: boot of the member's agent.
        seq: number of the message, which grows within a boot.
        skipped: groups of the interval that had no room at the member.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    epoch: Count
    version: Count
    number: Count
    boot: Count
    seq: Count
    interval: Index
    skipped: Count = 0


EARLY_MESSAGES: tuple[type[Message], ...] = (Early,)
