"""Which messages contain data of hosts that may state where it is kept, and the message of an excluded host.

Owns one line per message with such data: where its rule stands (`srt.residency`). `OWN` messages contain data
of their sender alone, which sends them straight to the agent that uses them. A message that is not listed
contains no data of a host, or closed results, which may be read anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import msgspec

from elfmesh.control.protocol.messages_early import Early
from elfmesh.control.protocol.messages_order import OrderPosts
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.control.protocol.messages_safety import Keep, KeptCopy, Verified
from elfmesh.control.protocol.messages_standby import Delta, Prefix
from elfmesh.machine import Id, Message
from elfmesh.srt.messages import SegmentUp
from elfmesh.srt.residency import ANYWHERE, Rule, together

WHY_CHARS_MAX = 256


class Excluded(Message, frozen=True, tag="ctl.excluded"):
    """Host to master: it takes no part in the job, because of its rule or of a limit.

    Attributes:
        name: of the host.
        keep_in: its rule, which excludes an agent that gets its data; empty: a limit is the reason.
        why: what the rule excludes, or the reason, for display.
    """

    since: ClassVar[int] = 3

    job: Id
    incarnation: str
    name: str
    keep_in: Rule
    why: Annotated[str, msgspec.Meta(max_length=WHY_CHARS_MAX)] = ""


RESIDENCY_MESSAGES: tuple[type[Message], ...] = (Excluded,)
"""For the codec."""

OWN: tuple[type[Message], ...] = (Early, Verified, OrderPosts)

RULES: dict[type[Message], Callable[[Any], Rule]] = {
    SegmentUp: lambda message: message.segment.keep_in,
    Part: lambda message: message.segment.keep_in,
    SitePart: lambda message: message.segment.keep_in,
    Keep: lambda message: message.keep_in or ANYWHERE,
    KeptCopy: lambda message: message.copy.keep_in or ANYWHERE,
    Delta: lambda message: message.keep_in or ANYWHERE,
    Prefix: lambda message: together(delta.keep_in or ANYWHERE for delta in message.deltas),
}


def rule_of(message: Message, own: Rule) -> Rule:
    """Return which agents may get a message; `own` is the rule of the host that sends it."""
    kind = type(message)
    if kind in OWN:
        return own
    read = RULES.get(kind)
    return ANYWHERE if read is None else read(message)
