"""What waits until the engine is there: Arrow, numpy and SQL, which an agent without jobs has not loaded.

Owns the events that came for the engine before it was there, in their order. Loads nothing: the host does,
told by `LoadEngine`, and says `EngineLoaded`. Everything else is answered meanwhile: who asks what is known
of a job, what runs, who is there; and the overlay and the trees never come by here, so that multicasts are
passed on.

Invariants: the engine is asked for once; what needs it is given once, in its order; no more than KEPT_MAX
events, of KEPT_BYTES_MAX together, are kept, and what is too much is as if the network had lost it, but a
client is told.

Paper: none.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.answers import UNAVAILABLE, error_body
from elfmesh.control.context import Context
from elfmesh.control.protocol import messages as words
from elfmesh.control.protocol import messages_programs as programs
from elfmesh.control.protocol import messages_succession as succession
from elfmesh.control.protocol import messages_versions as versions
from elfmesh.control.protocol.events import ClientRequest, LoadEngine, Reply
from elfmesh.control.protocol.messages_register import REGISTER_MESSAGES
from elfmesh.errors import ProtocolError
from elfmesh.machine import Event, Message, Received
from elfmesh.overlay.events import RouteDelivered
from elfmesh.srt.events import Delivered

KEPT_MAX = 1024
"""Of a few peers' and clients' questions there are a handful; more comes from who means harm."""

KEPT_BYTES_MAX = 64 << 20
"""What they carry: an agent without jobs shall not grow by what peers have it keep while it loads."""

LIGHT_VERBS = frozenset(
    {
        *("agent", "agents", "health", "list", "streams", "trees", "leave", "whose"),
        *("describe", "why", "pause", "resume", "delete", "offsets"),
    }
)
"""Questions of clients that are answered, or passed on, without the engine."""

LIGHT: frozenset[type[Message]] = frozenset(
    {
        *(words.Ask, words.AskAll, words.Question, words.Answered, words.WhatRuns, succession.Inquire),
        *(words.Stop, words.Withdraw, words.Fenced, versions.Coming),
        *REGISTER_MESSAGES,
        *programs.MESSAGES,
    }
)
"""Messages that are taken without the engine, whatever they say. A question about a job is one of them: who
leads the job has loaded it, and who does not says what it knows of it, which may be asked more than once."""


class DeferredEvents:
    """See the module.

    Args:
        context: the way out.
        loaded: whether the engine is there from the beginning.
    """

    def __init__(self, context: Context, *, loaded: bool) -> None:
        self._context, self.loaded = context, loaded
        self._asked = False
        self._kept: list[Event] = []
        self._kept_bytes = 0

    def keeps(self, event: Event) -> bool:
        """Whether an event has to wait; it is kept then. Cost: before, the event's decoding."""
        if self.loaded:
            return False
        message = _message(event)
        if isinstance(message, versions.Coming):
            self.ask()
        if not (_is_heavy(message) or (isinstance(event, ClientRequest) and event.verb not in LIGHT_VERBS)):
            return False
        self.ask()
        nbytes = _bytes_of(event)
        if len(self._kept) < KEPT_MAX and self._kept_bytes + nbytes <= KEPT_BYTES_MAX:
            self._kept.append(event)
            self._kept_bytes += nbytes
        else:
            self._context.stats["control.not_kept"] += 1
            if isinstance(event, ClientRequest):
                body = error_body("too many requests wait for this agent to load what they need", code=69)
                self._context.emit(Reply(event.token, UNAVAILABLE, body))
        return True

    def ask(self) -> None:
        """The engine is needed, or will be any moment."""
        if not self.loaded and not self._asked:
            self._asked = True
            self._context.emit(LoadEngine())

    def release(self, take: Callable[[Event], None]) -> None:
        self.loaded = True
        kept, self._kept, self._kept_bytes = self._kept, [], 0
        for event in kept:
            take(event)


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


def _is_heavy(message: Message | None) -> bool:
    if message is None or type(message) in LIGHT:
        return False
    if isinstance(message, succession.Known):
        return message.terms is not None
    return not (isinstance(message, words.Running) and not message.jobs)
