"""Messages between agents about the programs beside them.

Owns the messages with the tags "ctl.program_*". Each may arrive twice, late or never; a `Parcel` is repeated
until a `Receipt` names it.
"""

from __future__ import annotations

from elfmesh.control.protocol.program_frames import Group, Process, ResultPosition, Status, Text, Verb
from elfmesh.machine import Contact, Count, Id, Message


class Present(Message, frozen=True, tag="ctl.program_present"):
    """Agent to the rendezvous of a program, routed: whether a process of the program is beside the agent.

    Attributes:
        program: id of the program, which is the id of the job of its name.
        agent: the sender.
        here: whether the process is connected.
        leads: whether this agent leads the job of that id.
        master: agent of the master side, as far as the sender knows.
        term: highest known term.
        place: highest known position.
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
    """Rendezvous to the agents of a program: the agent of the master side in this term."""

    program: Id
    master: Contact
    name: Group
    term: Count
    place: ResultPosition


class Parcel(Message, frozen=True, tag="ctl.program_parcel"):
    """A message of a program; its body is the payload.

    Attributes:
        program: id of the receiving program.
        verb: "send_to" goes from parent to parent, the others go to the rendezvous.
        origin: agent beside the sender.
        sender: name of that agent.
        process, number: name of the message.
        group: group of a `send_to`.
        term: term of the master side that multicasts.
        hops: number of agents that have forwarded it.
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
    """Result of a parcel, sent to its origin; the payload is the return value of its handler."""

    process: Process
    number: Count
    status: Status
    error: Text = ""
    acknowledged: Count = 0
    expected: Count = 0


class Broadcast(Message, frozen=True, tag="ctl.program_broadcast"):
    """A multicast of a program's master side in the tree of its agents; (term, number) grows."""

    program: Id
    process: Process
    number: Count
    sender: Group
    term: Count
    body: bytes


MESSAGES: tuple[type[Message], ...] = (Present, Appointed, Parcel, Receipt, Broadcast)
