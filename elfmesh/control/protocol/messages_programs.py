"""What agents say to each other about the programs beside them.

Owns the typed messages with the tags "ctl.program_*". Each can come twice, late or never: what matters is
said again until a `Receipt` names it.
"""

from __future__ import annotations

from elfmesh.control.protocol.program_frames import Group, Process, ResultPosition, Status, Text, Verb
from elfmesh.machine import Contact, Count, Id, Message


class Present(Message, frozen=True, tag="ctl.program_present"):
    """An agent to the rendezvous of a program, routed: a process of it is beside me, or is no longer.

    Attributes:
        program: its id, which is the id of the job of its name.
        agent: who says so.
        here: whether the process is there.
        leads: whether this agent leads the job of that id.
        master: whom it takes for the agent of the master side.
        term: highest it has heard of.
        place: furthest it has heard of.
    """

    program: Id
    agent: Contact
    name: Group
    here: bool
    leads: bool
    master: Contact | None
    term: Count
    place: ResultPosition


class Appointed(Message, frozen=True, tag="ctl.program_appointed"):
    """The rendezvous to the agents of a program: the master side is here, as of this term."""

    program: Id
    master: Contact
    name: Group
    term: Count
    place: ResultPosition


class Parcel(Message, frozen=True, tag="ctl.program_parcel"):
    """A message of a program on its way; its body is the payload.

    Attributes:
        program: whose it is for.
        verb: how it travels: "send_to" from parent to parent, the others by way of the rendezvous.
        origin: agent beside which the sender is.
        sender: what people call that agent.
        process, number: the message's name.
        group: of a `send_to`.
        term: of the master side that multicasts.
        hops: agents it has passed.
    """

    program: Id
    verb: Verb
    origin: Contact
    sender: Group
    process: Process
    number: Count
    group: Group = ""
    term: Count = 0
    hops: Count = 0


class Receipt(Message, frozen=True, tag="ctl.program_receipt"):
    """How a parcel ended, to its origin; what its handler returned is the payload."""

    process: Process
    number: Count
    status: Status
    error: Text = ""
    acknowledged: Count = 0
    expected: Count = 0


class Broadcast(Message, frozen=True, tag="ctl.program_broadcast"):
    """A multicast of a program's master side, on the tree of its agents; (term, number) grows."""

    program: Id
    process: Process
    number: Count
    sender: Group
    term: Count
    body: bytes


MESSAGES: tuple[type[Message], ...] = (Present, Appointed, Parcel, Receipt, Broadcast)
