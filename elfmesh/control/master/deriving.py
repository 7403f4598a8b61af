"""A job that reads other jobs: its master asks theirs for results, and closes its intervals over them.

Owns what of the answers is not used yet; `asking` asks. Such a job has no members: its intervals are
closed by the same register, into the same log, as those of any other.

Invariants: an interval is made when every job that is read has closed all that begins before its end, of
exactly the records that begin in it; the place to go on from follows from the last interval closed, so that a
successor of either master repeats questions and nothing else; what was not complete there is not here.

Paper: ELF 2.4, coordination of jobs: the request is routed to the other job's master, whoever that is.
"""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.closing.interval_closer import IN_FLIGHT_MAX, Closer
from elfmesh.control.closing.ports import Closing, Leader
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import Plan
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED, ResultRecord, counts_dict
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.control.upstream.buffer import HELD_BYTES_MAX, Read, Step, combined, next_step
from elfmesh.control.upstream.poller import UpstreamPoller


class DerivingCloser(Closer):
    """Closes the intervals of a job that reads others; what it takes is what any `Closer` takes."""

    def __init__(
        self,
        context: Context,
        stages: tuple[Stage, ...],
        plan: Plan,
        book: RosterBook,
        epoch: int,
        start: int,
        leader: Leader,
    ) -> None:
        super().__init__(context, stages, plan, book, epoch, start, leader)
        self._manifest = stages[-1].manifest
        self._reads = [Read(name, ids.job_placements(name, self._manifest.creator)) for name in plan.reads]
        self._poller = UpstreamPoller(context, [self._manifest], self._step, self._is_full)

    def begin(self) -> None:
        for read in self._reads:
            if self.next != FIRST:
                read.until_us = self._plan.window(self.next)[0]
            self._poller.begin(read)

    def advance(self) -> None:
        super().advance()
        self._step()

    def finalised(self, event: Finalised) -> None:
        """The rows of an interval are there, with the counts of what they are made of, or cannot be made."""
        for closing in self._closing:
            if closing.record.index == event.interval and event.counts:
                closing.record = replace(closing.record, counts=counts_dict(event.counts))
        super().finalised(event)

    def stop(self) -> None:
        super().stop()
        self._poller.stop()

    def waits_for(self) -> list[str]:
        return [f"{read.name.replace('/', '.')}: {read.waits}" for read in self._slowest()]

    def _slowest(self) -> list[Read]:
        silent = [read for read in self._reads if read.until_us is None]
        least = min((read.until_us for read in self._reads if read.until_us is not None), default=None)
        return silent or [read for read in self._reads if read.until_us == least]

    def _is_full(self, read: Read) -> bool:
        """Whether there is no room for more of a job, unless it is the one that is waited for."""
        ahead = read not in self._slowest()
        return read.nbytes > HELD_BYTES_MAX and (ahead or not self._has_room)

    # -- closing ---------------------------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        held_back = self.frozen or self.founding or self.paused
        return len(self._closing) < IN_FLIGHT_MAX and not held_back and not self._poller.stopped

    def _step(self) -> None:
        plan = self._plan
        if any(read.until_us is None for read in self._reads):
            return
        if self.next == FIRST and self._has_room:  # it begins with the first interval that is kept whole
            begins = [read.begin_us for read in self._reads if read.begin_us is not None]
            if begins:
                self._leap(plan.first_after(max(begins)))
        while self._has_room:
            if self.next != FIRST:
                for read in self._reads:
                    read.drop_before(plan.window(self.next)[0])
            found = next_step(self._reads, self.next, plan.size_us, plan.slide_us)
            if found is None:
                break
            if found.pieces is not None:
                self._close(found)
            else:
                self._leap(found.index)
        for read in self._slowest():
            if self._has_room and read.nbytes > HELD_BYTES_MAX:
                read.overflow()

    def _leap(self, stop: int) -> None:
        self._move(stop)
        self._leader.advanced()

    def _close(self, found: Step) -> None:
        pieces = found.pieces or ()
        start_us, end_us = self._plan.window(found.index)
        (state, quality), reason = combined(pieces), ""
        inside = [piece for piece in pieces if start_us <= piece.at_us < end_us]
        if any(piece.rows is None for piece in inside):
            reason = f"what it reads has more than {HELD_BYTES_MAX} bytes"
            self.errors.append(f"interval {found.index}: {reason}")
            state, inside = "SKIPPED", []
            quality = dataclasses.replace(quality, completeness=0.0, fidelity=0.0)
        record = ResultRecord(
            job=self._manifest.qualified,
            index=found.index,
            start_us=start_us,
            end_us=end_us,
            state=state,
            completeness=quality.completeness,
            fidelity=quality.fidelity,
            agents_in=quality.agents_in,
            agents_expected=quality.agents_expected,
            missing=list(quality.missing),
            version=self._manifest.version,
            epoch=self._epoch,
            counts=counts_dict(NOT_COUNTED),
            since=found.since,
            reason=reason,
        )
        inputs = tuple((piece.name, piece.at_us, piece.rows) for piece in inside if piece.rows)
        self._closing.append(Closing(record, None if inputs else b""))
        self._move(record.index + 1)
        if inputs:
            manifest = self._manifest
            effect = Finalise(manifest.job_id, self._epoch, manifest, record.index, (), inputs=inputs)
            self._context.emit(effect)
        else:
            self._context.after(0.0, self.publish)
