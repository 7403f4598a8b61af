"""The end of a job: the register has it first, then the members stop.

Owns the clients that wait for the end. Decides nothing about intervals.

Invariants: the members stop only after the control register has ended the incarnation, so that no successor
continues it; each client that waits learns once whether the job has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from elfmesh import ids
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.master.ports import TermView
from elfmesh.control.master.successors import Replicator
from elfmesh.control.protocol.events import DropLog, Persist
from elfmesh.control.protocol.messages import Stop, Withdraw
from elfmesh.control.register.changes import ChangeRefused, Delete
from elfmesh.control.register.proposer import Proposer
from elfmesh.srt.events import PublishDone

STOP_S = 2.0
"""How long the multicast to the members may take."""

UNROOTED_S = 0.25
"""How long the last answers may take after the tree has gone, because its members stop."""

Ended = Callable[[bool], None]
"""Called with True when the job is over, and with False when another agent leads it."""


class EndingTerm(TermView, Protocol):
    """What the end of a job needs of the master's term."""

    @property
    def plan(self) -> JobPlan: ...

    @property
    def proposer(self) -> Proposer:
        """Of the job's control register."""
        ...

    def resign(self) -> None:
        """The job is over."""
        ...

    def deposed(self, refused: ChangeRefused) -> None:
        """The register names another master."""
        ...


class Deletion:
    """Ends one job.

    Args:
        term: of the master.
        replicas: the agents that hold the job.
    """

    def __init__(self, term: EndingTerm, replicas: Replicator) -> None:
        self._context, self._term, self._replicas = term.context, term, replicas
        self._waiting: list[Ended] = []
        self.begun = False
        self._retires = False
        self.stopped = 0
        self._finish: Callable[[PublishDone | None], None] | None = None

    def begin(self, then: Ended, *, retire: bool) -> None:
        """End the job.

        Args:
            then: called when the job has ended, after the master has resigned.
            retire: the job continues with another numbering, so its results are set aside and not deleted.
        """
        self._waiting.append(then)
        if self.begun:
            return
        self.begun, self._retires = True, retire
        terms = self._term.terms

        def registered(outcome: RegisterCell | ChangeRefused) -> None:
            if isinstance(outcome, ChangeRefused):
                self._term.deposed(outcome)
                return
            stop = Stop(terms.manifest.job_id, terms.manifest.incarnation, terms.epoch)
            self._finish = lambda done: self._over(stop, done)
            self._context.publish(stop.job, stop, STOP_S, self._finished)

        self._term.proposer.submit(Delete(terms.manifest.incarnation, terms.epoch), registered, terms)

    def unrooted(self) -> None:
        """The tree has gone, so that no further answer to the multicast can come."""
        self._context.after(UNROOTED_S, lambda: self._finished(None))

    def _finished(self, done: PublishDone | None) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(done)

    def _over(self, stop: Stop, done: PublishDone | None) -> None:
        answered = {agent for agent, _ in done.answers} if done is not None else set()
        members = {entry.contact.id for entry in self._term.book.entries}  # the root need not be one
        self.stopped = len(answered & members)
        for entry in self._term.book.active:
            if entry.contact.id not in answered:
                self._context.send(entry.contact, stop)
        for stream in self._term.plan.streams:
            withdraw = Withdraw(stop.job, stream, stop.incarnation, stop.epoch)
            self._context.route(ids.stream_id(stream), withdraw)
        self._replicas.tell(Withdraw(stop.job, "", stop.incarnation, stop.epoch))
        self._context.emit(DropLog(stop.job, self._retires))
        self._context.emit(Persist("job", stop.job, b""))
        waiting, self._waiting = self._waiting, []
        self._term.resign()
        for then in waiting:
            then(True)

    def give_up(self) -> None:
        """Another agent leads: the waiting clients learn that the job goes on."""
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(False)
