"""Context of one overlay agent, shared by its sub-machines: contact, time, effects, counters.

Owns the list of effects of the current step and the counters. Makes no decisions. Invariant: `now` never
decreases within one machine, and effects are emitted only during a step.
"""

from __future__ import annotations

import math

from elfmesh.ids import ID_BYTES
from elfmesh.machine import Contact, Effect, Message, Rng, Send
from elfmesh.overlay.calls import Answered, Calls, LoopDelay, Timers
from elfmesh.overlay.messages import Obituary, Ping, Pong
from elfmesh.overlay.table import Peer, Table

HOST_CHARS_MAX = 255
DOMAIN_CHARS_MAX = 64
INCARNATION_MAX = 1 << 62


class Context:
    """Context that the sub-machines of one agent share.

    Args:
        me: this agent.
        rng: the injected source of randomness.
        table: its routing table.
    """

    def __init__(self, me: Contact, rng: Rng, table: Table) -> None:
        self.me = me
        self.n = int.from_bytes(me.id)
        self._phase = (self.n & 0xFFFF) / 0x10000  # ids are random, so agents have different phases
        self.rng = rng
        self.table = table
        self.timers = Timers()
        self.lateness = LoopDelay()
        self.calls = Calls(self.timers, self.lateness, rng.getrandbits(32))
        self.now = float("-inf")
        self.out: list[Effect] = []
        self.obituaries: tuple[Obituary, ...] = ()  # sent with every ping and heartbeat
        self.counters: dict[str, int] = {}

    def emit(self, effect: Effect) -> None:
        self.out.append(effect)

    def send(self, to: Contact, message: Message, payload: bytes = b"") -> None:
        self.out.append(Send(to, message, payload))

    def count(self, what: str) -> None:
        self.counters[what] = self.counters.get(what, 0) + 1

    def after(self, seconds: float, spread: float = 0.2) -> float:
        """Return the time `seconds` from now, jittered by `spread` so that agents do not synchronise."""
        return self.now + seconds * (1 + spread * (2 * self.rng.random() - 1))

    def in_time(self, every_s: float) -> float:
        """Return the next time of this agent's schedule, at least three quarters of a period from now.

        Periodic work happens in one step, because waking an agent costs more than the work itself.
        """
        return (math.ceil(self.now / every_s + 0.75 - self._phase) + self._phase) * every_s

    def ping(self, to: Contact, peer: Peer | None, done: Answered, timeout: float | None = None) -> None:
        """Ping an agent; `done` receives its Pong or None."""
        calls = self.calls
        rid = calls.next_rid()
        self.send(to, Ping(rid, self.obituaries))
        calls.wait(rid, to, Pong, done, calls.timeout(peer) if timeout is None else timeout)

    def acceptable(self, contact: Contact) -> bool:
        """Return whether a contact can be that of another agent; malicious contacts are refused here."""
        return contact.id != self.me.id and self.well_formed(contact)

    def well_formed(self, contact: Contact) -> bool:
        return (
            len(contact.id) == ID_BYTES
            and 0 < contact.port < 65536
            and 0 < len(contact.host) <= HOST_CHARS_MAX
            and len(contact.rack) <= DOMAIN_CHARS_MAX
            and len(contact.region) <= DOMAIN_CHARS_MAX
            and 0 <= contact.incarnation <= INCARNATION_MAX
        )
