"""What goes into the control machine about programs beside this agent, and what comes out for them."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.protocol.program_frames import FromAgent, FromProgram
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class ProgramAttached(Event):
    """A process of a user's program is beside this agent now.

    Attributes:
        session: of the host, never used again.
        name: "namespace/name" of the program, which is its job's.
        creator: its job's.
        process: one life of one process.
    """

    session: int
    name: str
    creator: str
    process: bytes


@dataclass(frozen=True, slots=True)
class ProgramReported(Event):
    """What a program beside this agent wants."""

    session: int
    frame: FromProgram


@dataclass(frozen=True, slots=True)
class ProgramGone(Event):
    """Its process has ended, or lost its connection."""

    session: int


@dataclass(frozen=True, slots=True)
class ToProgram(Effect):
    """For a program beside this agent."""

    session: int
    frame: FromAgent
