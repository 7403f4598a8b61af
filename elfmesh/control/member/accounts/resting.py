"""Ledgers of jobs without a member at this agent: the next member of the job continues from them.

A member that rests leaves its ledger here and its frames with the worker, and so does the boot before. They
are deleted with the incarnation that they belong to (D-1).
"""

from __future__ import annotations

from elfmesh.control.context import Context
from elfmesh.control.member.accounts import ledger_state
from elfmesh.control.member.accounts.ledger_state import incarnation_of
from elfmesh.control.protocol.events import Persist, StopWorker


class RestingLedgers:
    """The stored ledgers, by job."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stored: dict[bytes, bytes] = {}

    def keep(self, job: bytes, stored: bytes) -> None:
        self._stored[job] = stored

    def take(self, job: bytes, incarnation: str) -> bytes:
        """Remove and return the ledger of a job for its next member, b"" if there is none.

        The frames of another incarnation are deleted, because it ended while this agent rested or was away.
        """
        stored = self._stored.pop(job, b"")
        if (earlier := incarnation_of(stored)) not in ("", incarnation):
            self._context.emit(StopWorker(job, earlier))
        return stored

    def end(self, job: bytes, incarnation: str) -> None:
        """Delete the ledger and the frames of an incarnation that has ended, if they are here."""
        if job in self._stored and incarnation_of(self._stored[job]) == incarnation:
            del self._stored[job]
            self._context.emit(Persist(ledger_state.KIND, job, b""))
            self._context.emit(StopWorker(job, incarnation))
