"""What acceptors hold for a successor, and which of it fits a value of the register.

Owns that choice only. Terms can be of a change that was voted on and never chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.register_value import RegisterValue, plan_digest
from elfmesh.control.jobs.stages import reverted
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Contact


@dataclass(frozen=True, slots=True)
class AcceptorReport:
    """What an acceptor said it holds for a successor."""

    contact: Contact
    terms: Terms | None
    latest: int | None


def newest_terms(
    reports: dict[bytes, AcceptorReport], value: RegisterValue, own: Terms | None
) -> Terms | None:
    """The newest terms that acceptors or this agent hold of an incarnation.

    Those that know the roster which the register names come first: who has only heard of a new master holds
    an old roster under a new epoch.
    """
    found = [
        fitting(terms, value)
        for terms in (own, *(report.terms for report in reports.values()))
        if terms is not None and terms.manifest.incarnation == value.incarnation
    ]

    def rank(terms: Terms) -> tuple[bool, bool, int, int]:
        return plan_of(terms) == value.plan, terms.version >= value.roster, terms.epoch, terms.version

    return max(found, key=rank, default=None)


def fitting(terms: Terms, value: RegisterValue) -> Terms:
    """The terms by the version that the register names: they may be of a change that was never chosen."""
    before = None if plan_of(terms) == value.plan else reverted(terms)
    return before if before is not None and plan_of(before) == value.plan else terms


def plan_of(terms: Terms) -> bytes:
    return plan_digest(terms.manifest, terms.effective, terms.evaluated)
