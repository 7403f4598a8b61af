"""What the votes of an agent need of the state of jobs that it stores for successors; `Leadership` has it."""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.jobs.terms import Terms
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.machine import Contact


class Custody(Protocol):
    """Interface to the state of jobs that this agent stores for successors."""

    def held(self, job: bytes) -> tuple[Terms | None, LogCopy | None]: ...

    def epoch(self, job: bytes) -> int: ...

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        """Return whether a message of this epoch is current; a higher one is durable before later effects."""
        ...

    def keep(self, terms: Terms, roster: int = 0) -> None:
        """Store terms, unless newer ones are stored; they are durable before later effects.

        Args:
            terms: terms of a job.
            roster: version of the roster in the register; stored terms with an earlier roster are replaced.
        """
        ...
