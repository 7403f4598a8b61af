"""Interval source of a job that reads other jobs: the records represent their results.

Owns the results that are not used yet; `UpstreamPoller` requests them from the masters of the jobs that are
read. Such a job has no members.

Invariants: an interval is complete when each job that is read has closed all intervals that begin before its
end. It contains exactly the records that begin in it. The position from which to continue follows from the
last closed interval, so that a successor of either master repeats only requests. If an input was not
complete, the record is not complete.

Paper: ELF 2.4, coordination of jobs: the request is routed to the other job's master.
"""

from __future__ import annotations

import dataclasses

from elfmesh import ids, ql
from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.interval_source import OpenIntervals
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED, ResultRecord, counts_dict
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.upstream.buffer import HELD_BYTES_MAX, Read, combined, next_step
from elfmesh.control.upstream.poller import UpstreamPoller


class UpstreamIntervals:
    """The `IntervalSource` of upstream jobs."""

    def __init__(self, term: ClosingTerm) -> None:
        self._term, self._plan, self._manifest = term, term.plan, term.stages[-1].manifest
        self._reads = [
            Read(name, ids.job_placements(name, self._manifest.creator)) for name in self._plan.reads
        ]
        self._sources = tuple(map(ql.job_read, self._plan.sources))
        about = term.context, [self._manifest], term.leader.close_ready, self._is_full
        self._poller = UpstreamPoller(*about, asks_sites=self._plan.paths > 1)
        self._closer: OpenIntervals | None = None

    def begin(self, closer: OpenIntervals) -> None:
        self._closer = closer
        for read in self._reads:
            if closer.next != FIRST:
                read.until_us = self._plan.window(closer.next)[0]
            self._poller.begin(read)

    def stop(self) -> None:
        self._poller.stop()

    def resumed(self) -> None:
        """Do nothing, because no interval waits for a member."""

    def decided(self, at: int) -> None:
        """Do nothing, because the next decision drops earlier input."""

    def wait(self, at: int, *, shows: bool) -> None:
        """Do nothing, because such a job has no tentative records."""

    def waits_for(self) -> list[str]:
        return [f"{read.name.replace('/', '.')}: {read.waits}" for read in self._slowest()]

    def _slowest(self) -> list[Read]:
        silent = [read for read in self._reads if read.until_us is None]
        least = min((read.until_us for read in self._reads if read.until_us is not None), default=None)
        return silent or [read for read in self._reads if read.until_us == least]

    def _is_full(self, read: Read) -> bool:
        """Return whether there is no room for more results of a job, unless the next interval needs them."""
        ahead = read not in self._slowest()
        return read.nbytes > HELD_BYTES_MAX and (ahead or self._closer is None or not self._closer.has_room)

    def decide(self, at: int, *, paused: bool) -> Decision | None:
        if paused or self._poller.stopped or any(read.until_us is None for read in self._reads):
            return None
        if self._term.open_groups.is_making:  # it may be skipped, which changes the open groups
            return None
        if at == FIRST:  # the job begins with the first interval of which all input is stored
            begins = [read.begin_us for read in self._reads if read.begin_us is not None]
            begin = self._plan.first_after(max(begins)) if begins else at
            if begin > at:
                return Decision(at, begin, False)
        else:
            for read in self._reads:
                read.drop_before(self._plan.window(at)[0])
        found = next_step(self._reads, at, self._plan.size_us, self._plan.slide_us)
        due = None if found is None else self._term.open_groups.due(at, found.index, 0, 0)
        if found is None:
            for read in self._slowest():
                if read.nbytes > HELD_BYTES_MAX:
                    read.overflow()
            return None
        if due is not None and (found.pieces is None or found.since is None or due < found.since):
            return Decision(at, due + 1, True)
        if found.pieces is None:
            return Decision(at, found.index, False)
        state = combined(found.pieces)[0]
        index = found.index if due is None else due
        since = None if found.since == index else found.since
        return Decision(at, index + 1, True, state=state, since=since, pieces=found.pieces)

    def make(self, decision: Decision, rev: int) -> tuple[ResultRecord, Finalise | bytes]:
        start_us, end_us = self._plan.window(decision.index)
        (state, quality), reason = combined(decision.pieces, self._sources, self._plan.shape), ""
        inside = [piece for piece in decision.pieces if start_us <= piece.at_us < end_us]
        if any(piece.rows is None for piece in inside):
            reason = f"what it reads has more than {HELD_BYTES_MAX} bytes"
            self._term.errors.append(f"interval {decision.index}: {reason}")
            state, inside = "SKIPPED", []
            quality = dataclasses.replace(quality, completeness=0.0, fidelity=0.0)
        manifest = self._manifest
        record = ResultRecord(
            job=manifest.qualified,
            index=decision.index,
            start_us=start_us,
            end_us=end_us,
            state=state,
            rev=rev,
            completeness=quality.completeness,
            fidelity=quality.fidelity,
            agents_in=quality.agents_in,
            agents_expected=quality.agents_expected,
            missing=list(quality.missing),
            version=manifest.version,
            epoch=self._term.epoch,
            counts=counts_dict(NOT_COUNTED),
            since=decision.since,
            reason=reason,
            clean=quality.clean,
        )
        inputs = tuple((piece.name, piece.at_us, piece.rows) for piece in inside if piece.rows)
        groups, heavy = self._term.open_groups, bool(inputs)
        heavy = heavy or (state != "SKIPPED" and groups.needed(record.index, record.completeness))
        before = groups.before(record.index)
        about = (manifest.job_id, self._term.epoch, manifest, record.index, (), rev)
        return record, Finalise(*about, before, record.completeness, inputs) if heavy else b""
