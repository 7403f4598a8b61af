"""One result of each of some other jobs, beside the records of a job that reads streams.

    JOIN LATEST shop.best   of the newest interval that had ended when ours begins, and has rows
    JOIN SAME shop.best     of the interval that ends when ours ends

Which one that is follows from event time and the other job's log alone, so that any agent that makes the
interval, and however often, takes the same one; contributions of agents do not depend on it. Owns what of
these logs is held, and what it says about the interval's completeness.

Invariants: an interval is made only when the other job has closed all that it may see; of what lies before
the next interval, the newest rows and what is missing behind them are held, and nothing else.

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
"""How many intervals back rows are looked for first, and how much further if there are none."""


class LatestRead(Read):
    """A job of which the newest result is read.

    Args:
        name: of the input, "latest namespace/name".
        candidates: the ids that it may live under.
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
        """An interval that begins at `start_us` is made next."""
        self.wanted_us = start_us
        if self.slide_us:
            if self._from_us is None:
                self._look_back(start_us)
            elif self._is_read(start_us) and not self._reaches_back(start_us):
                self._back *= BACK_FACTOR
                self._look_back(start_us)

    def knows(self, start_us: int) -> bool:
        """Whether it is known what an interval that begins at `start_us` sees."""
        return self._from_us is not None and self._is_read(start_us) and self._reaches_back(start_us)

    def seen_by(self, start_us: int) -> UpstreamPiece | None:
        """The rows that an interval sees; None: there are none yet."""
        return next((each for each in reversed(self._before(start_us)) if each.rows), None)

    def quality(self, start_us: int) -> Quality:
        """How complete what an interval sees is: its rows, and what should have come after them."""
        held = self._before(start_us)
        newest = next((at for at in reversed(range(len(held))) if held[at].rows), 0)
        return combined(held[newest:])[1]

    def has_lost(self, start_us: int) -> bool:
        """Whether an interval may have seen rows, when it was made, that are not kept any more."""
        held = self._before(start_us)
        since = next((at for at in reversed(range(len(held))) if held[at].rows), None)
        return since is None or any(each.quality == NOTHING for each in held[since:])

    def prune(self, start_us: int) -> None:
        newest = self.seen_by(start_us)
        while newest is not None and self.pieces[0] is not newest:
            self.nbytes -= len(self.pieces.popleft().rows or b"")

    def lost(self, until_us: int, *, expired: bool = True) -> None:
        """As of any reader; but before a job's own beginning nothing is lost."""
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
    """A job of which the result of the same interval is read: the one that ends when ours does."""

    def seen_by(self, at_us: int) -> UpstreamPiece | None:
        """The rows that an interval sees that ends then; None: there are none."""
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
    """All that a job reads so.

    Args:
        context: clock and way out.
        manifests: of the job, in its versions: all read the same jobs, perhaps other columns of these.
        received: called when more is known.
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
        """Whether all is known that an interval sees; else it is asked for."""
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
        """The jobs of which it is not known any more that an interval saw what it would see now, in words."""
        return [_shown(read) for read in self._reads if read.has_lost(self._seen_at(read, interval))]

    def judged(self, record: ResultRecord) -> ResultRecord:
        for read in self._reads:
            at_us = self._seen_at(read, record.index)
            quality = read.quality(at_us) if read.knows(at_us) else Quality()
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
