"""Sessions of the programs beside this agent, between the API and the control machine's `Programs`.

The module owns which session receives which frames. It runs no code of programs, which are separate
processes.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.program_frames import FromAgent, FromProgram
from elfmesh.machine import Event


class ProgramSessions:
    """Sessions of attached programs.

    Args:
        step: receives the events of programs.
    """

    def __init__(self, step: Callable[[Event], None]) -> None:
        self._step = step
        self._sessions: dict[int, Callable[[FromAgent], None]] = {}
        self._count = 0

    def attach(self, name: str, creator: str, process: bytes, deliver: Callable[[FromAgent], None]) -> int:
        """Register a process. Its frames are passed to `deliver`. Returns the number of the session."""
        self._count += 1
        self._sessions[self._count] = deliver
        self._step(ctl.ProgramAttached(self._count, name, creator, process))
        return self._count

    def from_program(self, session: int, frame: FromProgram) -> None:
        self._step(ctl.ProgramReported(session, frame))

    def detach(self, session: int) -> None:
        del self._sessions[session]
        self._step(ctl.ProgramGone(session))

    def deliver(self, effect: ctl.ToProgram) -> None:
        take = self._sessions.get(effect.session)
        if take is not None:
            take(effect.frame)
