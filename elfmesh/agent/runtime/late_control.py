"""Delays what others ask of the control machine until the engine (Arrow, numpy, SQL) is loaded.

The agent loads the engine in a thread as soon as it is ready. Until then, requests of clients and messages of
agents wait, because they may need the engine. The control machine does not know about this. Its own start and
its timers do not wait: without a job they do not need the engine. Requests about the agent itself do not wait
either, so that the agent reports its health meanwhile.

Invariants: a waiting event is delivered once, in its order. At most KEPT_MAX events with KEPT_BYTES_MAX in
total wait. A message beyond this limit is dropped as if the network had lost it; a client's request beyond it
is refused.

Paper: none.
"""

from __future__ import annotations

from elfmesh.control.answers import UNAVAILABLE, error_body
from elfmesh.control.machine import Control
from elfmesh.control.protocol.events import ClientGone, ClientRequest, Reply
from elfmesh.control.protocol.messages import pack
from elfmesh.control.requests.verbs import VERBS, Scope
from elfmesh.machine import Effect, Event, Received
from elfmesh.overlay.events import RouteDelivered
from elfmesh.srt.events import Delivered

KEPT_MAX = 1024
"""Maximum number of waiting events. An agent that loads gets a handful of them; more is an attack."""

KEPT_BYTES_MAX = 64 << 20
"""Maximum bytes of waiting events, so that peers cannot make a starting agent use more memory."""


class LateControl:
    """Control machine whose events from others wait until `release`.

    Args:
        control: receives the events.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._loaded = False
        self._kept: list[Event] = []
        self._kept_bytes = 0

    def step(self, event: Event, now: float) -> list[Effect]:
        if self._loaded or not _waits(event):
            return self._control.step(event, now)
        nbytes = _bytes_of(event)
        if len(self._kept) < KEPT_MAX and self._kept_bytes + nbytes <= KEPT_BYTES_MAX:
            self._kept.append(event)
            self._kept_bytes += nbytes
            return []
        self._control.context.stats["control.not_kept"] += 1
        if not isinstance(event, ClientRequest):
            return []
        body = error_body("too many requests wait until this agent has loaded the engine", code=69)
        return [Reply(event.token, UNAVAILABLE, body)]

    @property
    def deadline(self) -> float | None:
        return self._control.deadline

    def release(self) -> list[Event]:
        """Return the waiting events in order after the engine is loaded. Later events do not wait."""
        self._loaded = True
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept


def _waits(event: Event) -> bool:
    if isinstance(event, ClientRequest):
        return event.verb not in VERBS or VERBS[event.verb].scope is not Scope.AGENT
    return isinstance(event, Received | RouteDelivered | Delivered | ClientGone)


def _bytes_of(event: Event) -> int:
    if isinstance(event, Received):
        return len(pack(event.message)) + len(event.payload)
    if isinstance(event, RouteDelivered):
        return len(event.body) + len(event.payload)
    return len(event.body) if isinstance(event, Delivered) else 0
