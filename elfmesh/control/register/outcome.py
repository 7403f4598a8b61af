"""Outcomes of an attempt to lead a job."""

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
        terms: the newest known terms, with the new epoch and master.
        cell: value of the register.
        proposer: proposer of the register.
        sources: acceptors in the order of their copies of the results log, the most complete first.
        inherits: the roster epoch of these terms under the master before; 0: there is none.
    """

    terms: Terms
    cell: RegisterCell
    proposer: Proposer
    sources: tuple[Contact, ...] = ()
    inherits: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """This agent does not lead.

    Attributes:
        reason: the reason, for display.
        cell: value of the register; None if it has none or it is not known.
        open: whether the register has not decided, so that the agent may try again.
        terms: terms that the register names, with its epoch and master; None: no agent that answered has
            them.
    """

    reason: str
    cell: RegisterCell | None = None
    open: bool = False
    terms: Terms | None = None
