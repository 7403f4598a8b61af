"""The fence of messages (D-5): what of a message may be acted upon, by the epoch that it says.

Owns what `protocol.fences` means. A message whose fence refuses it is counted, and the agent that its fence
names is told the newer epoch.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.fences import FENCES, By, Fence
from elfmesh.machine import Contact, Message


class Fencing:
    """All fences of one agent.

    Args:
        context: counters.
        leadership: knows the highest epochs and the terms of this agent.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership

    def passed(self, sender: Contact | None, message: Any) -> Message | None:
        """The message, or what its fence leaves of it; None if nothing of it may be acted upon."""
        fence = FENCES.get(type(message))
        if fence is None:
            return cast(Message, message)
        match fence.by:
            case By.EACH:
                return self._each(fence, message)
            case By.TERM:
                passes = self._is_of_own_term(fence, message)
            case By.EPOCH | By.LEARNED:
                notified = (
                    message.master
                    if fence.notified == "master"
                    else sender
                    if fence.notified == "sender"
                    else None
                )
                admits = self._leadership.admits(fence.job(message), fence.epoch(message), notified)
                passes = admits or fence.by is By.LEARNED
        return cast(Message, message) if passes else None

    def _each(self, fence: Fence, message: Any) -> Message:
        admits = self._leadership.admits
        jobs = tuple(each for each in message.jobs if admits(fence.job(each), fence.epoch(each), None))
        return cast(Message, replace(message, jobs=jobs))

    def _is_of_own_term(self, fence: Fence, message: Any) -> bool:
        master = self._leadership.masters.get(fence.job(message))
        if master is not None and master.epoch == fence.epoch(message):
            return True
        self._context.stats["control.fenced"] += 1
        return False
