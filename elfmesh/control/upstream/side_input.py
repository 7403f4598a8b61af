"""Side input: one result of each of some other jobs, for a job that reads streams.

    JOIN LATEST shop.best   the newest interval that has rows and ended before this job's interval begins
    JOIN SAME shop.best     the interval that ends when this job's interval ends

The choice depends only on event time and the other job's log, so that every master that makes the interval
chooses the same result. Contributions of members do not depend on it. Owns the buffered records of these
logs, and their effect on the interval's completeness.

Invariants: an interval is made only when the other job has closed all intervals that it may use. Of the
records before the next interval, only the newest one with rows and those after it are stored.

Paper: ELF 2.4 (a job asks for the results of another).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from elfmesh import ids, ql
from elfmesh.control.context import Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.upstream.buffer import HELD_BYTES_MAX, NOTHING, Quality, Read, UpstreamPiece, combined
from elfmesh.control.upstream.poller import UpstreamPoller

BACK, BACK_FACTOR = 16, 16
"""Number of earlier intervals that are searched for rows first, and the factor by which it grows."""


class LatestRead(Read):
    """Buffer of a job whose newest result is read.

    Args:
        name: name of the input, "latest namespace/name".
        candidates: ids of its candidate placements.
    """

    def __init__(self, name: str, candidates: tuple[bytes, ...]) -> None:
        super().__init__(name, candidates)
        self.wanted_us: int | None = None
        self._back = BACK
        self._from_us: int | None = None

    @property
    def is_idle(self) -> bool:
        if self.wanted_us is None or not self.slide_us:
            return True
        return self.nbytes > HELD_BYTES_MAX and self._is_read(self.wanted_us)

    def want(self, start_us: int) -> None:
        """Request the results for an interval that begins at `start_us`."""
        self.wanted_us = start_us
        if self.slide_us:
            if self._from_us is None:
                self._look_back(start_us)
            elif self._is_read(start_us) and not self._reaches_back(start_us):
                self._back *= BACK_FACTOR
                self._look_back(start_us)

    def knows(self, start_us: int) -> bool:
        """Return whether the input of an interval that begins at `start_us` is complete."""
        return self._from_us is not None and self._is_read(start_us) and self._reaches_back(start_us)

    def seen_by(self, start_us: int) -> UpstreamPiece | None:
        """Return the record with the rows for an interval; None: there is none yet."""
        return next((each for each in reversed(self._before(start_us)) if each.rows), None)

    def quality(self, start_us: int) -> Quality:
        """Return the quality of an interval's input: the record with rows, and all later ones."""
        held = self._before(start_us)
        newest = next((at for at in reversed(range(len(held))) if held[at].rows), 0)
        return combined(held[newest:])[1]

    def has_lost(self, start_us: int) -> bool:
        """Return whether an interval may have used rows that are not stored any more."""
        held = self._before(start_us)
        since = next((at for at in reversed(range(len(held))) if held[at].rows), None)
        return since is None or any(each.quality == NOTHING for each in held[since:])

    def prune(self, start_us: int) -> None:
        newest = self.seen_by(start_us)
        while newest is not None and self.pieces[0] is not newest:
            self.nbytes -= len(self.pieces.popleft().rows or b"")

    def lost(self, until_us: int, *, expired: bool = True) -> None:
        """Note lost records, as `Read` does; records before the beginning of a job are not lost."""
        if self.until_us == self._from_us and not expired:
            self.until_us = max(until_us, self.until_us or until_us)
        else:
            super().lost(until_us)

    def _before(self, start_us: int) -> list[UpstreamPiece]:
        last_us = start_us - self.size_us
        return [
            each for each in self.pieces if each.at_us <= last_us or each.first_us <= last_us < each.at_us
        ]

    def _is_read(self, start_us: int) -> bool:
        return self.until_us is not None and self.until_us > start_us - self.size_us

    def _reaches_back(self, start_us: int) -> bool:
        if self.seen_by(start_us) is not None or self._from_us is None:
            return True
        return self.first_us is None or self.first_us >= self._from_us

    def _look_back(self, start_us: int) -> None:
        self._from_us = self.until_us = start_us - self.size_us - self._back * self.slide_us
        self.pieces.clear()
        self.nbytes = 0


class SameRead(LatestRead):
    """Buffer of a job whose result of the interval with the same end is read."""

    def seen_by(self, at_us: int) -> UpstreamPiece | None:
        """Return the record with the rows for an interval that ends at `at_us`; None: there is none."""
        return next((each for each in self._covering(at_us) if each.rows), None)

    def quality(self, at_us: int) -> Quality:
        return combined(self._covering(at_us))[1]

    def has_lost(self, at_us: int) -> bool:
        return any(each.quality == NOTHING for each in self._covering(at_us))

    def prune(self, at_us: int) -> None:
        self.drop_before(at_us - self.size_us)

    def _covering(self, at_us: int) -> list[UpstreamPiece]:
        begin_us = at_us - self.size_us
        return [each for each in self.pieces if each.first_us <= begin_us <= each.at_us]

    def _reaches_back(self, at_us: int) -> bool:
        return self._from_us is not None


class SideInput:
    """Side inputs of one job.

    Args:
        manifests: versions of the job, which read the same jobs, but may read other columns.
        received: called after new input.
    """

    def __init__(self, context: Context, manifests: Sequence[Manifest], received: Callable[[], None]) -> None:
        self._plan = read_plan(manifests[-1].text)
        self._reads = [
            (SameRead if name.startswith(ql.SAME) else LatestRead)(
                name, ids.job_placements(ql.job_read(name), manifests[-1].creator)
            )
            for name in self._plan.latest
        ]
        self._received = received
        self._poller = (
            UpstreamPoller(context, manifests, self._answered, self._is_idle) if self._reads else None
        )

    def begin(self) -> None:
        for read in self._reads:
            assert self._poller is not None
            self._poller.begin(read)

    def stop(self) -> None:
        if self._poller is not None:
            self._poller.stop()

    def has_read(self, interval: int) -> bool:
        """Return whether the input of an interval is complete; otherwise request it."""
        for read in self._reads:
            if not read.knows(at_us := self._seen_at(read, interval)):
                read.want(at_us)
                assert self._poller is not None
                self._poller.hasten(read)
        return all(read.knows(self._seen_at(read, interval)) for read in self._reads)

    def inputs(self, interval: int) -> tuple[tuple[str, int, bytes], ...]:
        found = ((read.name, read.seen_by(self._seen_at(read, interval))) for read in self._reads)
        return tuple((name, piece.at_us, piece.rows or b"") for name, piece in found if piece is not None)

    def lacks(self, interval: int) -> list[str]:
        """Return the names of the jobs whose rows an interval may have used that are not stored any more."""
        return [_shown(read) for read in self._reads if read.has_lost(self._seen_at(read, interval))]

    def judged(self, record: ResultRecord) -> ResultRecord:
        for read in self._reads:
            at_us = self._seen_at(read, record.index)
            quality = read.quality(at_us) if read.knows(at_us) else Quality()
            if not quality.clean:
                record = replace(record, clean=False)
            if not quality.final and record.state != "SKIPPED":
                record = replace(
                    record,
                    state="FINAL_PARTIAL" if record.state == "FINAL" else record.state,
                    completeness=min(record.completeness, quality.completeness),
                    fidelity=record.fidelity * quality.fidelity,
                    missing=sorted({*record.missing, *quality.missing}),
                )
        return record

    def closed(self, following: int) -> None:
        for read in self._reads:
            at_us = self._seen_at(read, following)
            if read.knows(at_us):
                read.prune(at_us)

    def _seen_at(self, read: Read, interval: int) -> int:
        start_us, end_us = self._plan.window(interval)
        return end_us if isinstance(read, SameRead) else start_us

    def waits_for(self) -> list[str]:
        late = (read for read in self._reads if read.wanted_us is not None and not read.knows(read.wanted_us))
        return [f"{_shown(read)}: {read.waits}" for read in late]

    def _is_idle(self, read: Read) -> bool:
        assert isinstance(read, LatestRead)
        return read.is_idle

    def _answered(self) -> None:
        for read in self._reads:
            if read.wanted_us is not None and not read.knows(read.wanted_us):
                read.want(read.wanted_us)
                assert self._poller is not None
                self._poller.hasten(read)
        self._received()


def _shown(read: Read) -> str:
    return ql.job_read(read.name).replace("/", ".")
