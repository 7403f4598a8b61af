"""What the parts of a master know about the term in which it leads, and what they report.

Owns the shapes. Each part names the one that it needs, and `MasterTerm` has them all. `Lasting` is `Master`,
as a term sees it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy
from elfmesh.control.jobs.terms import CurrentTerms, Terms
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.wanted_version import WantedVersion
from elfmesh.control.register.changes import ChangeRefused
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.machine import Contact


class TermView(CurrentTerms, Protocol):
    """What each part may read."""

    @property
    def context(self) -> Context:
        """The clock, and the way to other agents."""
        ...

    @property
    def book(self) -> RosterBook: ...


class OpenTerm(TermView, Protocol):
    """For the parts that change the roster."""

    @property
    def is_open(self) -> bool:
        """Whether the master still leads the job, and no client has deleted it."""
        ...

    def changed(self) -> None:
        """The part has changed the roster: the members and the possible successors receive it."""
        ...


class Lasting(Protocol):
    """The master: what it keeps when a term follows another, and what a term reports to it."""

    @property
    def context(self) -> Context:
        """The clock, and the way to other agents."""
        ...

    @property
    def proposer(self) -> Proposer:
        """Of the job's control register."""
        ...

    @property
    def copy(self) -> LogCopy:
        """This agent's copy of the results log."""
        ...

    @property
    def costs(self) -> ShippingCosts:
        """What the standbys of the members cost."""
        ...

    @property
    def voters(self) -> int:
        """How many agents are to vote in the register."""
        ...

    @property
    def tally(self) -> Tally: ...

    @property
    def accuracy(self) -> TentativeAccuracy: ...

    @property
    def rates(self) -> Rates:
        """How many records the members usually have."""
        ...

    @property
    def errors(self) -> deque[str]:
        """The newest faults that `describe` reports."""
        ...

    def ask_near(self, near: tuple[Contact, ...], then: Callable[[dict[bytes, Terms]], None]) -> None:
        """Ask these agents which terms of the job they hold; `then` gets the answers by id."""
        ...

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        """Vote on a record as a voter of the register; return whether this agent has."""
        ...

    def ended(self) -> None:
        """The job has ended without a request."""
        ...

    def deposed(self, refused: ChangeRefused) -> None:
        """The register names another master, or the job is over."""
        ...

    def swap(self, terms: Terms, cell: RegisterCell, wanted: WantedVersion, prepared_at: float) -> None:
        """The register has the next version: its term begins."""
        ...
