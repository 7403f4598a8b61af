"""Dead agents, for lists: which agents this one has lost sight of, what they are called and when that was.

Owns a bounded memory, on disk. Nothing decides by it: rosters (`master.eviction`) and the agents that count
near a job's id (`known_peers`) forget sooner. Each agent adds what it knows to an answer of all. An agent
that answers itself is not dead, whatever others remember (`one_each`).

Invariant: an agent stays listed until it is seen again, has left for good, or `FORGET_AFTER_S` are over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import msgspec

from elfmesh.control.context import Context
from elfmesh.control.jobs.records import iso_us
from elfmesh.control.protocol.events import Persist
from elfmesh.machine import Contact

KIND = "dead"
"""Of what is kept on disk."""

ALIVE, DEAD = "alive", "dead"
"""STATUS of an agent in a list."""

FORGET_AFTER_S = 7 * 86_400.0
"""How long a dead agent is listed by the wall clock."""

DEAD_MAX = 256
"""Agents remembered, those that died last."""


class Dead(msgspec.Struct, frozen=True):
    """One dead agent: `name` is "" where no roster has it; `seen_us` is 0 where there is no wall clock."""

    contact: Contact
    name: str
    seen_us: int


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Dead)


class DeadAgents:
    """What one agent remembers of others.

    Args:
        context: disk, and the wall clock of the host.
        name_of: what people call an agent, "" if that is not known here.
    """

    def __init__(self, context: Context, name_of: Callable[[bytes], str]) -> None:
        self._context, self._name_of = context, name_of
        self._dead: OrderedDict[bytes, Dead] = OrderedDict()

    def lost(self, contact: Contact | None) -> None:
        """The overlay has lost an agent; None: one that it had left in order."""
        if contact is None or contact.id in self._dead:
            return
        dead = Dead(contact, self._name_of(contact.id), self._now_us())
        self._dead[contact.id] = dead
        self._context.emit(Persist(KIND, contact.id, _PACK.encode(dead)))
        while len(self._dead) > DEAD_MAX:
            self.gone(next(iter(self._dead)))

    def gone(self, agent: bytes) -> None:
        if self._dead.pop(agent, None) is not None:
            self._context.emit(Persist(KIND, agent, b""))

    def restored(self, agent: bytes, data: bytes) -> None:
        """Died in an earlier boot of ours. What cannot be read is left out and counted."""
        try:
            self._dead[agent] = _UNPACK.decode(data)
        except msgspec.MsgspecError:
            self._context.stats["control.malformed"] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Dead agents as `elf get agents` shows them, those that died last first."""
        oldest_us = self._now_us() - round(FORGET_AFTER_S * 1e6)
        for agent in [agent for agent, each in self._dead.items() if 0 < each.seen_us < oldest_us]:
            self.gone(agent)
        return [_row(each) for each in reversed(self._dead.values())]

    def _now_us(self) -> int:
        return int(self._context.facts("clock").get("now_us", 0))


def _row(dead: Dead) -> dict[str, Any]:
    address = f"{dead.contact.host}:{dead.contact.port}"
    return {
        "name": dead.name or address,
        "id": dead.contact.id.hex(),
        "address": address,
        "incarnation": dead.contact.incarnation,
        "status": DEAD,
        "last_seen": iso_us(dead.seen_us) if dead.seen_us else None,
    }


def one_each(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of all agents, each agent once: its own answer, else what the last one to see it remembers."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        agent = str(row.get("id"))
        known = found.get(agent)
        alive = row.get("status") != DEAD
        if alive or known is None or (known.get("status") == DEAD and _newer(row) > _newer(known)):
            found[agent] = row
    return list(found.values())


def _newer(row: dict[str, Any]) -> tuple[str, bool]:
    return str(row.get("last_seen") or ""), row.get("name") != row.get("address")
