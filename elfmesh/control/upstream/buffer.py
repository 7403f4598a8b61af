"""Upstream buffer: the records of another job that are not used yet, and the position of the reader.

Owns the mapping from the intervals of the job that is read to those of the job that reads. Sends nothing.

Invariants: the records are in the order of the log. The buffer has all records that start before `until_us`
and are not used yet. A complete record without rows is not stored, because it does not change any interval.

Paper: ELF 2.4 (coordination of jobs).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from elfmesh.control.jobs.records import FIRST, ResultRecord, State
from elfmesh.lazy import lazy_module
from elfmesh.machine import Contact
from elfmesh.ql.plan.fidelity_shape import FidelityShape

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


@dataclass(frozen=True, slots=True)
class Quality:
    """Completeness of the input of an interval; of several inputs, the worst one.

    `contributed` is the number of records inside, which weighs the fidelity; None: unknown.
    """

    completeness: float = 1.0
    fidelity: float = 1.0
    agents_in: int = 1
    agents_expected: int = 1
    missing: tuple[str, ...] = ()
    final: bool = True
    contributed: int | None = None
    clean: bool = True


HELD_BYTES_MAX = 256 << 20
"""Maximum size of the buffered rows of one job."""

NOTHING = Quality(0.0, 0.0, 0, 1, (), final=False, clean=False)
"""Quality of results that are not stored any more."""


@dataclass(frozen=True, slots=True)
class UpstreamPiece:
    """A record of the job that is read, or a range of its log that is lost.

    Attributes:
        name: the job that is read.
        first_us: start of the range with the quality of the record; `at_us` if it is only the record.
        at_us: time of the record's rows.
        quality: quality of the record.
        rows: Arrow IPC, b"" for none; None: they were too large.
    """

    name: str
    first_us: int
    at_us: int
    quality: Quality
    rows: bytes | None


class Read:
    """Buffer of one job that is read.

    Args:
        name: "namespace/name".
        candidates: ids of its candidate placements.

    Attributes:
        incarnation: incarnation of the log; None before the first answer.
        until_us: time before which all records are read; None before the first answer.
        begin_us: time from which on the log has all records; None if it has them from the beginning.
        pieces: buffered records.
        nbytes: size of their rows.
        slide_us: distance of two windows of the job.
        size_us: width of its windows.
        sites: the id of the job and the sites that answer for it, besides its master.
        waits: reason why no further record is read, for display.
    """

    def __init__(self, name: str, candidates: tuple[bytes, ...]) -> None:
        self.name, self.candidates = name, candidates
        self.incarnation: str | None = None
        self.until_us: int | None = None
        self.begin_us: int | None = None
        self.pieces: deque[UpstreamPiece] = deque()
        self.nbytes = 0
        self.slide_us = self.size_us = 0
        self.first_us: int | None = None
        """Time of the first record of its log; None if it has none."""
        self.sites: tuple[bytes, tuple[Contact, ...]] = b"", ()
        self.waits = "it has not answered yet"

    def lost(self, until_us: int, *, expired: bool = True) -> None:
        """Note that the log lacks the unread records before `until_us`; `expired`: because of retention."""
        if self.until_us is not None and self.until_us < until_us:
            self.pieces.append(UpstreamPiece(self.name, self.until_us, until_us - 1, NOTHING, b""))
            self.until_us = until_us

    def take(self, records: Iterable[tuple[ResultRecord, bytes]], slide_us: int) -> None:
        """Add the next records of the log, except those before `until_us`."""
        for record, rows in records:
            at_us = record.index * slide_us
            if self.until_us is not None and at_us < self.until_us:
                continue
            piece = _piece(self.name, record, rows, slide_us)
            self.until_us = at_us + 1
            if piece.rows or not piece.quality.final:
                self.pieces.append(piece)
                self.nbytes += len(piece.rows or b"")

    def drop_before(self, start_us: int) -> None:
        while self.pieces and self.pieces[0].at_us < start_us:
            self.nbytes -= len(self.pieces.popleft().rows or b"")

    def overflow(self) -> None:
        """Drop the rows of all records, so that their intervals cannot be made."""
        self.pieces = deque(replace(piece, rows=None) if piece.rows else piece for piece in self.pieces)
        self.nbytes = 0


def _piece(name: str, record: ResultRecord, rows: bytes, slide_us: int) -> UpstreamPiece:
    skipped = record.state == "SKIPPED"
    quality = Quality(
        0.0 if skipped else record.completeness,
        0.0 if skipped else record.fidelity,
        0 if skipped else record.agents_in,
        record.agents_expected,
        tuple(record.missing),
        record.state == "FINAL",
        record.counts.get("contributed") if any(record.counts.values()) and not skipped else None,
        record.is_clean,
    )
    at_us = record.index * slide_us
    since = record.since
    first_us = at_us if since is None or since <= FIRST else since * slide_us
    return UpstreamPiece(name, first_us, at_us, quality, b"" if skipped or not has_rows(rows) else rows)


def has_rows(rows: bytes) -> bool:
    """Return whether an Arrow IPC stream has a row. Cost: the heads of its messages."""
    if not rows:
        return False
    with pa.ipc.open_stream(pa.py_buffer(rows)) as reader:
        return any(batch.num_rows for batch in reader)


def combined(
    pieces: Iterable[UpstreamPiece], sources: Sequence[str] = (), shape: FidelityShape | None = None
) -> tuple[State, Quality]:
    """Return state and quality of an interval with these pieces; an interval without pieces is complete.

    Its completeness is that of the worst piece. Its fidelity is the mean over the pieces of a job, combined
    as the statement combines the jobs.

    Args:
        pieces: of all jobs that are read.
        sources: the job of each input of the statement.
        shape: of the statement; None: all pieces are of one job.
    """
    pieces = list(pieces)
    qualities = [piece.quality for piece in pieces]
    worst = min(
        qualities,
        key=lambda each: (each.completeness, each.fidelity, -each.agents_expected),
        default=Quality(),
    )
    final = all(each.final for each in qualities)
    clean = all(each.clean for each in qualities)
    missing = tuple(sorted({name for each in qualities for name in each.missing}))
    if shape is None:
        fidelity = _mean(qualities)[0]
    else:
        means = [_mean([each.quality for each in pieces if each.name == source]) for source in sources]
        weights = [weight or 0.0 for _, weight in means]
        if None in {weight for _, weight in means}:  # a job that reads jobs counts no records
            weights = [0.0] * len(means)
        fidelity = shape.share([share for share, _ in means], weights)
    state: State = "FINAL" if final else "FINAL_PARTIAL"
    found = replace(worst, fidelity=fidelity, missing=missing, final=final, clean=clean, contributed=None)
    return state, found


def _mean(qualities: Sequence[Quality]) -> tuple[float, float | None]:
    """Return the mean fidelity by contributed records, and their number; None: no record states it.

    A piece that does not state it counts as the mean of the others.
    """
    if not qualities:
        return 1.0, 0.0
    known = [each.contributed for each in qualities if each.contributed is not None]
    usual = sum(known) / len(known) if known else 1.0
    weights = [usual if each.contributed is None else float(each.contributed) for each in qualities]
    total = sum(weights) or float(len(weights))
    if not any(weights):
        weights = [1.0] * len(weights)
    found = sum(each.fidelity * weight for each, weight in zip(qualities, weights, strict=True))
    return found / total, total if known else None


@dataclass(frozen=True, slots=True)
class BufferStep:
    """The next step: the interval `index` is made of `pieces`, or all intervals below `index` are empty.

    Attributes:
        index: number of the interval.
        since: first interval of a run without rows and with the same missing agents; None: only `index`.
        pieces: input of the interval; None: the intervals below `index` are closed without records.
    """

    index: int
    since: int | None = None
    pieces: tuple[UpstreamPiece, ...] | None = None


def next_step(reads: Iterable[Read], following: int, size_us: int, slide_us: int) -> BufferStep | None:
    """Return the next step of the job that reads; None if it has to wait.

    Args:
        reads: buffers of all jobs that it reads.
        following: its first interval that is not closed.
        size_us: width of its windows.
        slide_us: distance of two windows.
    """
    reads = list(reads)
    untils = [read.until_us for read in reads if read.until_us is not None]
    if len(untils) < len(reads):
        return None
    ready_us = min(untils)
    done = (ready_us - size_us) // slide_us + 1  # every window below ends at or before `ready_us`
    heads = [read.pieces[0] for read in reads if read.pieces]
    if not heads:
        return BufferStep(done) if done > following else None
    touched = min((head.first_us - size_us) // slide_us + 1 for head in heads)
    index = max(touched, following)
    if index >= done:
        return BufferStep(done) if done > following else None
    start_us, end_us = index * slide_us, index * slide_us + size_us
    held = [piece for read in reads for piece in read.pieces]
    inside = tuple(piece for piece in held if piece.at_us >= start_us and piece.first_us < end_us)
    if any(start_us <= piece.at_us < end_us for piece in inside):
        return BufferStep(index, None, inside)
    borders = [piece.at_us for piece in inside]
    borders += [piece.first_us for piece in held if piece.first_us >= end_us]
    last = min((min(borders) - size_us) // slide_us, done - 1)
    return BufferStep(last, index if last > index else None, inside)
