"""Reports of acceptors for a successor, and the choice of the terms that fit a value of the register.

Terms may belong to a change on which acceptors voted and that was never chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.register_value import RegisterValue, plan_digest
from elfmesh.control.jobs.stages import reverted
from elfmesh.control.jobs.terms import Terms
from elfmesh.machine import Contact


@dataclass(frozen=True, slots=True)
class AcceptorReport:
    """Terms of a job and last record of its log at an acceptor.

    `completes`: whether it completes a request that leaves out a tail on which it has voted (`left_out`).
    """

    contact: Contact
    terms: Terms | None
    latest: int | None
    completes: bool = False


def newest_terms(
    reports: dict[bytes, AcceptorReport], value: RegisterValue, own: Terms | None
) -> Terms | None:
    """Return the newest terms of an incarnation at the acceptors or at this agent.

    Terms of a later epoch are those of an attempt to begin the job that was too late: two agents may get one
    request to begin it. Acceptors with such terms would try to succeed a master that there never was.

    Terms with the roster that the register names come first, because an agent that only knows a new master
    has an old roster with a new epoch.
    """
    found = [
        fitting(terms, value)
        for terms in (own, *(report.terms for report in reports.values()))
        if terms is not None
        and terms.manifest.incarnation == value.incarnation
        and terms.epoch <= value.epoch
    ]

    def rank(terms: Terms) -> tuple[bool, bool, int, int]:
        return plan_of(terms) == value.plan, terms.version >= value.roster, terms.epoch, terms.version

    return max(found, key=rank, default=None)


def fitting(terms: Terms, value: RegisterValue) -> Terms:
    """Return the terms with the version that the register names; a change that was not chosen is reverted."""
    before = None if plan_of(terms) == value.plan else reverted(terms)
    return before if before is not None and plan_of(before) == value.plan else terms


def plan_of(terms: Terms) -> bytes:
    return plan_digest(terms.manifest, terms.effective, terms.evaluated)


def sources_of(reports: dict[bytes, AcceptorReport], record: int | None, agent: bytes) -> tuple[Contact, ...]:
    """Return the acceptors but `agent` whose logs have a record, those with the newest records first."""
    if record is None:
        return ()
    others = [report for report in reports.values() if report.contact.id != agent]
    found = [(report.latest or record - 1, report.contact) for report in others]
    newest = sorted(found, key=lambda each: (-each[0], each[1].id))
    return tuple(contact for latest, contact in newest if latest >= record)
