"""Delays events of the control machine that need the engine (Arrow, numpy, SQL) until it is loaded.

The module owns the delayed events and their order. The first of them makes it return `LoadEngine`, which the
pump executes in a thread. Afterwards the pump passes the events of `release` to the core again. All other
events go to the control machine at once: the agent answers questions about known jobs, running jobs and
agents, and the overlay and the trees forward multicasts. The control machine does not know about this. It
only informs the member hosts of a stream with `Coming` that the stream gets its first job, so that all of
them load the engine at the same time and before the job is announced.

Invariants: the engine is loaded once. A delayed event is delivered once, in its order. At most KEPT_MAX
events with KEPT_BYTES_MAX in total are delayed. A message beyond this limit is dropped as if the network had
lost it; a client's request beyond it is refused.

Paper: none.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.answers import UNAVAILABLE, error_body
from elfmesh.control.machine import Control
from elfmesh.control.protocol import messages as words
from elfmesh.control.protocol import messages_programs as programs
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.events import ClientRequest, Reply
from elfmesh.control.protocol.messages_register import REGISTER_MESSAGES
from elfmesh.errors import ProtocolError
from elfmesh.machine import Effect, Event, Message, Received
from elfmesh.overlay.events import RouteDelivered
from elfmesh.srt.events import Delivered

KEPT_MAX = 1024
"""Maximum number of delayed events. An agent that loads gets a handful of requests; more is an attack."""

KEPT_BYTES_MAX = 64 << 20
"""Maximum bytes of delayed events, so that peers cannot make an agent without jobs use more memory."""

LIGHT_VERBS = frozenset(
    {
        *("agent", "agents", "health", "list", "streams", "trees", "leave", "whose"),
        *("interval", "steps", "describe", "why", "pause", "resume", "delete", "offsets"),
    }
)
"""Requests of clients that the agent answers or forwards without the engine."""

LIGHT: frozenset[type[Message]] = frozenset(
    {
        *(words.Ask, words.AskAll, words.Question, words.Answered, words.WhatRuns, succession.Inquire),
        *(words.Stop, words.Withdraw, words.Fenced, versions.Coming),
        *REGISTER_MESSAGES,
        *programs.MESSAGES,
    }
)
"""Messages that never need the engine. Questions about a job are among them, because the master of the job
has loaded the engine, and any other agent answers what it knows of the job; the question may be repeated."""


@dataclass(frozen=True, slots=True)
class LoadEngine(Effect):
    """Load the engine in a thread, then pass the events of `release` to the core."""


class LateControl:
    """Control machine that delays events until the engine is loaded.

    Args:
        control: receives the events.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._loaded = self._asked = False
        self._kept: list[Event] = []
        self._kept_bytes = 0

    def step(self, event: Event, now: float) -> list[Effect]:
        """Pass an event on, or delay it. Cost: decoding the event, until the engine is loaded."""
        if self._loaded:
            return self._control.step(event, now)
        needs, effects = _needs_engine(event), list[Effect]()
        if (needs or isinstance(_message(event), versions.Coming)) and not self._asked:
            self._asked = True
            effects.append(LoadEngine())
        if not needs:
            return [*effects, *self._control.step(event, now)]
        nbytes = _bytes_of(event)
        if len(self._kept) < KEPT_MAX and self._kept_bytes + nbytes <= KEPT_BYTES_MAX:
            self._kept.append(event)
            self._kept_bytes += nbytes
            return effects
        self._control.context.stats["control.not_kept"] += 1
        if isinstance(event, ClientRequest):
            body = error_body("too many requests wait until this agent has loaded the engine", code=69)
            effects.append(Reply(event.token, UNAVAILABLE, body))
        return effects

    @property
    def deadline(self) -> float | None:
        return self._control.deadline

    def release(self) -> list[Event]:
        """Return the delayed events in order after the engine is loaded. Later events are not delayed."""
        self._loaded = True
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        return kept


def _needs_engine(event: Event) -> bool:
    if isinstance(event, ClientRequest):
        return event.verb not in LIGHT_VERBS
    message = _message(event)
    if message is None or type(message) in LIGHT:
        return False
    if isinstance(message, succession.Known):
        return message.terms is not None
    return not (isinstance(message, words.Running) and not message.jobs)


def _message(event: Event) -> Message | None:
    if isinstance(event, Received):
        return event.message
    if isinstance(event, RouteDelivered | Delivered):
        try:
            return words.unpack(event.body)
        except ProtocolError:
            return None
    return None


def _bytes_of(event: Event) -> int:
    if isinstance(event, Received):
        return len(words.pack(event.message)) + len(event.payload)
    if isinstance(event, RouteDelivered):
        return len(event.body) + len(event.payload)
    return len(event.body) if isinstance(event, Delivered) else 0
