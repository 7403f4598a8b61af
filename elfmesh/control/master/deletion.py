"""The end of a job: registered first, then told to all who work on it.

Owns who waits for the end. Decides nothing about intervals.

Invariants: members are told to stop only when the control register says that the incarnation is over, so that
no successor goes on with it; the client that asked for the end hears once whether it came.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh import ids
from elfmesh.control.context import Context
from elfmesh.control.jobs.register_value import ChangeRefused, Delete, RegisterCell
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.master.successors import Replicator
from elfmesh.control.protocol.events import DropLog, Persist
from elfmesh.control.protocol.messages import Stop, Withdraw
from elfmesh.control.register.proposer import Proposer
from elfmesh.srt.events import PublishDone

STOP_S = 2.0
UNROOTED_S = 0.25
"""How long the last answers may take where the tree goes as its members stop."""

Ended = Callable[[bool], None]
"""Called with whether the job is over; if not, another leads it by now."""


class Deletion:
    """How one job ends.

    Args:
        context: the way out.
        proposer: of its register.
        terms: the state as it is now.
        book: who works on it.
        replicas: who holds it.
        streams: where it meets its stream hosts.
    """

    def __init__(
        self,
        context: Context,
        proposer: Proposer,
        terms: Callable[[], Terms],
        book: RosterBook,
        replicas: Replicator,
        streams: tuple[str, ...],
    ) -> None:
        self._context, self._proposer, self._terms = context, proposer, terms
        self._book, self._replicas, self._streams = book, replicas, streams
        self._waiting: list[Ended] = []
        self.begun = False
        self._retires = False
        self.stopped = 0
        self._finish: Callable[[PublishDone | None], None] | None = None

    def begin(
        self, then: Ended, over: Callable[[], None], deposed: Callable[[ChangeRefused], None], *, retire: bool
    ) -> None:
        """End the job; `over` is called before those who wait.

        Args:
            then: one of those who wait.
            over: called when the job is over.
            deposed: called when another leads it.
            retire: the job goes on with another numbering: its results are set aside, not deleted.
        """
        self._waiting.append(then)
        if self.begun:
            return
        self.begun, self._retires = True, retire
        terms = self._terms()

        def registered(outcome: RegisterCell | ChangeRefused) -> None:
            if isinstance(outcome, ChangeRefused):
                deposed(outcome)
                return
            stop = Stop(terms.manifest.job_id, terms.manifest.incarnation, terms.epoch)
            self._finish = lambda done: self._over(stop, done, over)
            self._context.publish(stop.job, stop, STOP_S, self._finished)

        self._proposer.submit(Delete(terms.manifest.incarnation, terms.epoch), registered, terms)

    def unrooted(self) -> None:
        """The tree has gone: nothing more is heard of the multicast."""
        self._context.after(UNROOTED_S, lambda: self._finished(None))

    def _finished(self, done: PublishDone | None) -> None:
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(done)

    def _over(self, stop: Stop, done: PublishDone | None, over: Callable[[], None]) -> None:
        answered = {agent for agent, _ in done.answers} if done is not None else set()
        members = {entry.contact.id for entry in self._book.entries}  # the root may be none of them
        self.stopped = len(answered & members)
        for entry in self._book.active:
            if entry.contact.id not in answered:
                self._context.send(entry.contact, stop)
        for stream in self._streams:
            withdraw = Withdraw(stop.job, stream, stop.incarnation, stop.epoch)
            self._context.route(ids.stream_id(stream), withdraw)
        self._replicas.tell(Withdraw(stop.job, "", stop.incarnation, stop.epoch))
        self._context.emit(DropLog(stop.job, self._retires))
        self._context.emit(Persist("job", stop.job, b""))
        waiting, self._waiting = self._waiting, []
        over()
        for then in waiting:
            then(True)

    def give_up(self) -> None:
        """Another leads: tell those who wait that the job goes on."""
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(False)
