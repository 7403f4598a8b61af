"""Events and effects about the programs beside this agent."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.control.protocol.program_frames import FromAgent, FromProgram
from elfmesh.machine import Effect, Event


class ProgramAttached(Event, Struct, frozen=True):
    """A process of a user's program has connected to this agent.

    Attributes:
        session: number given by the host; it is used once.
        name: "namespace/name" of the program, which is the name of its job.
        creator: creator of its job.
        process: id of the process; it changes with each start.
    """

    session: int
    name: str
    creator: str
    process: bytes


class ProgramReported(Event, Struct, frozen=True):
    """A frame of a program beside this agent."""

    session: int
    frame: FromProgram


class ProgramGone(Event, Struct, frozen=True):
    """The process of a session has ended or lost its connection."""

    session: int


class ToProgram(Effect, Struct, frozen=True):
    """A frame for a program beside this agent."""

    session: int
    frame: FromAgent
