"""Messages that may be sent before earlier writes are durable, because they promise nothing.

Without this, a disk that is busy for a second would make an agent silent to its peers, and the agent's own
pings would time out while they wait. An agent whose disk has stopped is treated as absent.
"""

from __future__ import annotations

from elfmesh.machine import Effect, Send
from elfmesh.overlay.messages import Ping, Pong, Relay, Relayed

STALLED_S = 5.0
"""Duration of a write beyond which the disk counts as stopped and not as busy."""

_HARMLESS = frozenset((Ping, Pong, Relay, Relayed))


def overtakes(effect: Effect, waits_s: float) -> bool:
    return type(effect) is Send and type(effect.message) in _HARMLESS and waits_s < STALLED_S
