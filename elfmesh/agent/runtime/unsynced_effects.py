"""What an agent says before its disk has answered: that it is there, which promises nothing.

A disk that is busy for a second would otherwise make an agent silent to all its peers, and all its peers
silent to it: its questions wait, the patience for their answers does not. Whose disk has stopped is away.
"""

from __future__ import annotations

from elfmesh.machine import Effect, Send
from elfmesh.overlay.messages import Ping, Pong, Relay, Relayed

STALLED_S = 5.0
"""A write that takes longer is no busy disk any more: who waits for it is of no use to the others."""

_HARMLESS = frozenset((Ping, Pong, Relay, Relayed))


def overtakes(effect: Effect, waits_s: float) -> bool:
    return type(effect) is Send and type(effect.message) in _HARMLESS and waits_s < STALLED_S
