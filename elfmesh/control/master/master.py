"""The master of one job: it lives while this agent leads the job, and swaps its term with each version.

Owns what a change of the version keeps. Each version is a term of its own (ADR 0018), and everything else is
a part of the term.

    kept by `Master`                          | begins with each `MasterTerm`
    ------------------------------------------|--------------------------------------------------------
    proposer of the register, copy of the log | terms, roster book, committer, electorate, replicas
    tally, rates, accuracy, errors            | collection, closer, result service, verifier, trees
    the leadership, which it reports to       | founding, activation, members, rollouts, quiesce, deletion

Invariant: a term that is over changes nothing: it reports to its master only while it leads.

Paper: ELF 2.3: "the rendezvous node is set as the job's master".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.master_term import MasterTerm
from elfmesh.control.master.tally import Tally
from elfmesh.control.master.wanted_version import WantedVersion
from elfmesh.control.register.changes import ChangeRefused
from elfmesh.control.register.outcome import Won
from elfmesh.control.register.registers import Registers
from elfmesh.control.replicas.log_copy import LogCopy
from elfmesh.control.replicas.shipping_costs import ShippingCosts
from elfmesh.control.replicas.terms_query import TermsQuery
from elfmesh.machine import Contact

ERRORS_MAX = 10


class Led(Protocol):
    """What a master reports to the agent that leads."""

    def deposed(self, master: Master, refused: ChangeRefused) -> None:
        """The register names another master, or the job is over."""
        ...

    @property
    def terms_query(self) -> TermsQuery:
        """Asks other agents which terms of a job they hold."""
        ...

    @property
    def registers(self) -> Registers:
        """The registers in which this agent votes."""
        ...

    def ended(self, master: Master) -> None:
        """The job has ended."""
        ...

    def began(self, master: Master, epoch: int) -> None:
        """The term of a new version begins; the one before is over."""
        ...


class Master:
    """See the module.

    Args:
        plan: of the job's text.
        copy: this agent's copy of the results log.
        won: the change of the register that made this agent the master.
        voters: how many agents are to vote in the register.
        leadership: what the master reports to.

    Attributes:
        term: the parts of the term that goes on.
    """

    def __init__(
        self, context: Context, plan: JobPlan, copy: LogCopy, won: Won, voters: int, leadership: Led
    ) -> None:
        self.context, self.copy, self.proposer, self.voters = context, copy, won.proposer, voters
        self.tally, self.rates, self.accuracy = Tally(), Rates(), TentativeAccuracy()
        self.costs = ShippingCosts()
        self.tally.inherited(record for record, _ in decode_page(won.cell.tail))
        self.errors: deque[str] = deque(maxlen=ERRORS_MAX)
        self._leadership = leadership
        self.term = MasterTerm(self, plan, won)

    @property
    def job(self) -> bytes:
        return self.term.job

    def swap(self, terms: Terms, cell: RegisterCell, wanted: WantedVersion, prepared_at: float) -> None:
        """End the term, and begin the one of the next version, which the register has chosen (D-16)."""
        before = self.term
        before.give_way()
        self._leadership.began(self, terms.epoch)
        terms = replace(terms, closed=max(cell.value.closed, terms.start))
        won = Won(terms, cell, self.proposer)
        self.term = MasterTerm(self, read_plan(terms.manifest.text), won)
        self.term.go_on_from(before, wanted, prepared_at)

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        return self._leadership.registers.votes.cast(self.job, record, rows)

    def voters_on(self, index: int) -> tuple[tuple[Contact, ...], tuple[Contact, ...]] | None:
        """Return which sites have voted on an interval, and which have not; None: the master closes it."""
        return self._leadership.registers.votes.voters_on(self.job, index)

    @property
    def first_votes(self) -> dict[bytes, float]:
        """By site, the share of the newest voted records of which its vote was here first."""
        return self._leadership.registers.votes.first_votes(self.job)

    def ended(self) -> None:
        self._leadership.ended(self)

    def ask_near(self, near: tuple[Contact, ...], then: Callable[[dict[bytes, Terms]], None]) -> None:
        queries = self._leadership.terms_query
        queries.ask_all(self.job, near, lambda _, answers: then(dict(answers.holding)))

    def deposed(self, refused: ChangeRefused) -> None:
        self._leadership.deposed(self, refused)
