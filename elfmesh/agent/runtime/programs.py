"""The sessions of the programs beside this agent: the pump's side of the control machine's `Programs`.

Owns which session's frames go to whom. Runs nothing of a program: it is a process of its own, its user's.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.program_frames import FromAgent, FromProgram
from elfmesh.machine import Event


class ProgramSessions:
    """Programs as the loop sees them.

    Args:
        step: takes their events.
    """

    def __init__(self, step: Callable[[Event], None]) -> None:
        self._step = step
        self._sessions: dict[int, Callable[[FromAgent], None]] = {}
        self._count = 0

    def attach(self, name: str, creator: str, process: bytes, deliver: Callable[[FromAgent], None]) -> int:
        """A process has come; frames for it go to `deliver`. Returns its session."""
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
        """For a process; to one that has gone, nothing is said."""
        take = self._sessions.get(effect.session)
        if take is not None:
            take(effect.frame)
