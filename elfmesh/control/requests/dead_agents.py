"""Dead agents, for lists: which agents this one has lost sight of, what they are called and when that was.

Owns a bounded memory, on disk. Nothing decides by it: rosters (`master.eviction`) and the agents that count
near a job's id (`known_peers`) forget sooner. Each agent adds what it knows to an answer of all. An agent
that answers itself is not dead, whatever others remember (`one_each`).

Invariant: an agent stays listed until it is seen again, has left for good, an operator forgets it, or
`forget_after_s` are over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Persist
from elfmesh.control.protocol.replies_agents import AgentRow, DeadAgentRow
from elfmesh.machine import Contact
from elfmesh.ql.values.row_json import iso_us

KIND = "dead"
"""Of what is kept on disk."""

ALIVE, DEAD = "alive", "dead"
"""STATUS of an agent in a list."""

FORGET_AFTER_S = 7 * 86_400.0
"""How long a dead agent is listed by the wall clock, unless `control.forget_after` says otherwise."""

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
        forget_after_s: how long a dead agent is listed.
    """

    def __init__(
        self, context: Context, name_of: Callable[[bytes], str], forget_after_s: float = FORGET_AFTER_S
    ) -> None:
        self._context, self._name_of, self._forget_after_s = context, name_of, forget_after_s
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

    def rows(self) -> list[DeadAgentRow]:
        """Dead agents as `elf get agents` shows them, those that died last first."""
        oldest_us = self._now_us() - round(self._forget_after_s * 1e6)
        for agent in [agent for agent, each in self._dead.items() if 0 < each.seen_us < oldest_us]:
            self.gone(agent)
        return [_row(each) for each in reversed(self._dead.values())]

    def forget(self, agent: str | None) -> list[DeadAgentRow]:
        """Remove the dead agents of a name or an id, as an operator demands; returns their rows.

        Agents may know one agent by different names, but by one id.
        """
        found = [row for row in self.rows() if agent in {row.name, row.id}]
        for row in found:
            self.gone(bytes.fromhex(row.id))
        return found

    def _now_us(self) -> int:
        return int(self._context.facts("clock").get("now_us", 0))


def _row(dead: Dead) -> DeadAgentRow:
    contact = dead.contact
    address = f"{contact.host}:{contact.port}"
    seen = iso_us(dead.seen_us) if dead.seen_us else None
    return DeadAgentRow(dead.name or address, contact.id.hex(), address, contact.incarnation, DEAD, seen)


Row = tuple[AgentRow | DeadAgentRow, Any]
"""A row of a list of agents, with anything of the caller."""


def one_each(rows: Iterable[Row]) -> list[Row]:
    """Return each agent once: its own answer, else that of the agent that last saw it."""
    found: dict[str, Row] = {}
    for row, given in rows:
        known = found.get(row.id, (None, None))[0]
        later = isinstance(row, DeadAgentRow) and isinstance(known, DeadAgentRow) and _age(row) > _age(known)
        if known is None or later or isinstance(row, AgentRow):
            found[row.id] = (row, given)
    return list(found.values())


def _age(row: DeadAgentRow) -> tuple[str, bool]:
    return row.last_seen or "", row.name != row.address
