"""Rendezvous of a program: the agent closest to the id of the program's tree.

Owns soft state only: the agents that have reported a process within `FORGET_S`, and the master side that it
has appointed. It appoints the agent that leads the job of the program's name, else the present master side,
else the agent closest to the job's id. Each appointment has a higher term than all known ones, so that agents
refuse multicasts of an earlier master side.

Paper: ELF 2.4 ("given any application's name as a key, queries or results can be efficiently routed to that
application's master"). Deviation: the master side is a process of the user, which not every agent has. The
rendezvous therefore knows its agent and forwards parcels to it. Two parts of a partitioned overlay appoint
one master side each; the job's only master decides about all requests of a program to its job.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.protocol.messages_programs import Appointed, Broadcast, Parcel, Present, Receipt
from elfmesh.control.protocol.program_frames import NOWHERE, ResultPosition
from elfmesh.machine import Contact
from elfmesh.srt.events import PublishDone

FORGET_S = 7.0
"""Time after which an agent is forgotten; it has missed three `Present` messages, or has another
rendezvous."""

MULTICAST_S = 5.0
"""Time for the programs to handle a multicast before the master side receives the result."""

PROGRAMS_MAX = 10_000
DONE_MAX = 512
"""Number of multicasts whose receipts are stored, because a receipt may be lost."""

HOPS_MAX = 64
HANDLED = b"\x01"
"""An agent's answer to a multicast that its program has handled."""


@dataclass(slots=True)
class _Here:
    contact: Contact
    name: str
    leads: bool
    at: float


@dataclass(slots=True)
class _Program:
    """One program: its agents, and its master side, whose last report arrived at `received_at`."""

    agents: dict[bytes, _Here] = field(default_factory=dict)
    master: Contact | None = None
    master_name: str = ""
    received_at: float = 0.0
    term: int = 0
    place: ResultPosition = NOWHERE


class ProgramRendezvous:
    """The programs of which this agent is the rendezvous."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._programs: OrderedDict[bytes, _Program] = OrderedDict()
        self._done: OrderedDict[tuple[bytes, int], Receipt | None] = OrderedDict()

    # -- agents of a program ---------------------------------------------------------------------------

    def on_present(self, message: Present) -> None:
        """Store whether an agent has a process of a program, and appoint a master side if needed."""
        program = self._programs.get(message.program)
        if program is None:
            program = self._programs[message.program] = _Program()
            if message.master is not None and not self._context.is_gone(message.master.id):
                # A new rendezvous keeps the master side that the old one has appointed.
                program.master, program.received_at = message.master, self._context.now
        self._programs.move_to_end(message.program)
        while len(self._programs) > PROGRAMS_MAX:
            self._programs.popitem(last=False)
        again = _is_rival(program, message)
        program.term, program.place = max(program.term, message.term), max(program.place, message.place)
        if message.here:
            here = _Here(message.agent, message.name, message.leads, self._context.now)
            program.agents[message.agent.id] = here
            if program.master is not None and program.master.id == message.agent.id:
                program.master, program.received_at = message.agent, self._context.now
                program.master_name = message.name
        else:
            program.agents.pop(message.agent.id, None)
            if program.master is not None and program.master.id == message.agent.id:
                program.master = None
        if not self._appoint(message.program, program, again=again) and message.here:
            self._tell(message.program, program, message.agent)

    def lost(self, agent: bytes) -> None:
        for key, program in list(self._programs.items()):
            was_here = program.agents.pop(agent, None) is not None
            if program.master is not None and program.master.id == agent:
                program.master, was_here = None, True
            if was_here:
                self._appoint(key, program)

    def _appoint(self, key: bytes, program: _Program, *, again: bool = False) -> bool:
        now = self._context.now
        for id, here in list(program.agents.items()):
            if now - here.at > FORGET_S:
                del program.agents[id]
        if program.master is not None and now - program.received_at > FORGET_S:
            program.master = None
        if not program.agents:
            if program.master is None:
                del self._programs[key]
            return False
        leading = [here for here in program.agents.values() if here.leads]
        held = program.agents.get(program.master.id) if program.master is not None else None
        stays = program.master is not None and (not leading or (held is not None and held.leads))
        if stays and not again:
            return False
        if not stays:
            candidates = leading or list(program.agents.values())
            chosen = min(candidates, key=lambda here: ids.distance(here.contact.id, key))
            program.master, program.master_name, program.received_at = chosen.contact, chosen.name, now
        program.term += 1
        for here in program.agents.values():
            self._tell(key, program, here.contact)
        return True

    def _tell(self, key: bytes, program: _Program, agent: Contact) -> None:
        if program.master is not None and program.term:
            message = Appointed(key, program.master, program.master_name, program.term, program.place)
            self._context.send(agent, message)

    # -- parcels ---------------------------------------------------------------------------------------

    def on_parcel(self, message: Parcel, payload: bytes) -> None:
        """Forward a routed parcel to the master side, or multicast it."""
        program = self._programs.get(message.program)
        if program is None or program.master is None or message.hops >= HOPS_MAX:
            self._context.stats["program.nobody"] += 1  # its origin sends it again
        elif message.verb == "multicast":
            self._multicast(message, program, payload)
        elif message.verb == "send_to" and program.master.id == message.origin.id:
            self._context.send(message.origin, Receipt(message.process, message.number, "root"))
        else:
            onward = replace(message, hops=message.hops + 1, term=program.term)
            self._context.send(program.master, onward, payload)

    def _multicast(self, message: Parcel, program: _Program, payload: bytes) -> None:
        name = (message.process, message.number)
        if name in self._done:
            receipt = self._done[name]
            if receipt is not None:
                self._context.send(message.origin, receipt)
            return
        assert program.master is not None
        if message.origin.id != program.master.id or message.term != program.term:
            if message.term <= program.term:
                self._context.send(message.origin, Receipt(*name, "fenced"))
            return
        tree = ids.program_tree(message.program)
        if tree not in self._context.roots:
            self._context.stats["program.nobody"] += 1
            return
        self._done[name] = None
        while len(self._done) > DONE_MAX:
            self._done.popitem(last=False)
        broadcast = Broadcast(message.program, *name, message.sender, message.term, payload)

        def done(outcome: PublishDone | None) -> None:
            if outcome is None:  # another agent is the root now, and gets the repeated parcel
                self._done.pop(name, None)
                return
            handled = sum(body == HANDLED for _, body in outcome.answers)
            receipt = Receipt(*name, "ok", "", handled, max(outcome.expected, handled))
            if name in self._done:
                self._done[name] = receipt
            self._context.send(message.origin, receipt)

        self._context.publish(tree, broadcast, MULTICAST_S, done)


def _is_rival(program: _Program, message: Present) -> bool:
    if program.master is None or (message.master is not None and message.master.id == program.master.id):
        return False
    return message.term > program.term or (message.term == program.term and message.master is not None)
