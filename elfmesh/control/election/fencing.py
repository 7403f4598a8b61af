"""Fence of messages (D-5): refuses messages of earlier epochs.

Owns the evaluation of the table in `protocol.fences`. A refused message is counted, and the agent that its
fence names receives the newer epoch.
"""

from __future__ import annotations

from typing import Any, cast

from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.fences import FENCES, By, Fence
from elfmesh.machine import Contact, Message


class Fencing:
    """The fences of one agent.

    Args:
        context: counters.
        leadership: the highest known epochs and this agent's terms as a master.
    """

    def __init__(self, context: Context, leadership: Leadership) -> None:
        self._context, self._leadership = context, leadership

    def passed(self, sender: Contact | None, message: Any) -> Message | None:
        """Return the message, without the parts that its fence refuses; None if the fence refuses it."""
        fence = FENCES.get(type(message))
        if fence is None:
            return cast(Message, message)
        match fence.by:
            case By.EACH:
                return self._each(fence, message)
            case By.TERM | By.ROSTER:
                passes = self._is_of_own_term(fence, message)
            case By.EPOCH | By.LEARNED:
                notified = sender if fence.notified == "sender" else None
                if fence.notified == "master":
                    notified = message.master
                admits = self._leadership.admits(fence.job(message), fence.epoch(message), notified)
                passes = admits or fence.by is By.LEARNED
        return cast(Message, message) if passes else None

    def _each(self, fence: Fence, message: Any) -> Message:
        admits = self._leadership.admits
        jobs = tuple(each for each in message.jobs if admits(fence.job(each), fence.epoch(each), None))
        return cast(Message, replace(message, jobs=jobs))

    def _is_of_own_term(self, fence: Fence, message: Any) -> bool:
        master = self._leadership.masters.get(fence.job(message))
        if master is not None:
            own = master.term.roster_epoch if fence.by is By.ROSTER else master.term.epoch
            if own == fence.epoch(message):
                return True
        self._context.stats["control.fenced"] += 1
        return False
