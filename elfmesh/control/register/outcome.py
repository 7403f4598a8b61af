"""What became of an attempt to lead a job: the control register names this agent, or another."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Contact


@dataclass(frozen=True, slots=True)
class Won:
    """This agent leads.

    Attributes:
        terms: the newest that are known, with the new epoch and master in them.
        cell: the register's value.
        proposer: of the register.
        sources: acceptors by how far their copies of the results log reach, the furthest first.
    """

    terms: Terms
    cell: RegisterCell
    proposer: Proposer
    sources: tuple[Contact, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """This agent does not lead.

    Attributes:
        reason: for people.
        cell: what the register says instead, None if there is no such register.
        open: nothing was decided; it may be tried again.
        terms: those that the register names, with its epoch and master; None: no agent that answered holds
            them.
    """

    reason: str
    cell: RegisterCell | None = None
    open: bool = False
    terms: Terms | None = None
