"""Events and effects about the programs beside this agent."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.protocol.program_frames import FromAgent, FromProgram
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class ProgramAttached(Event):
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


@dataclass(frozen=True, slots=True)
class ProgramReported(Event):
    """A frame of a program beside this agent."""

    session: int
    frame: FromProgram


@dataclass(frozen=True, slots=True)
class ProgramGone(Event):
    """The process of a session has ended or lost its connection."""

    session: int


@dataclass(frozen=True, slots=True)
class ToProgram(Effect):
    """A frame for a program beside this agent."""

    session: int
    frame: FromAgent
