"""Merging of the parts of one range into one part.

Owns jobs: a range with the shares of every interval in it, some of which wait for an asynchronous merge. Does
not depend on the meaning of payloads; the host merges them (`MergeRequest` -> `Merged`).

Invariant: the output of a job covers exactly its input, except shares that the host cannot merge. Those are
reported in a fault and removed from the coverage of their interval, so that completeness stays correct
(D-10).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from elfmesh.contribution import Contribution
from elfmesh.srt.coverage import CoverageCell
from elfmesh.srt.parts import ENTRIES_MAX, Part, add_counts
from elfmesh.srt.residency import ANYWHERE, Rule, together


@dataclass(frozen=True, slots=True)
class PartShare:
    """Contribution of one part to one interval."""

    coverage: int
    counts: tuple[int, ...]
    payload: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """Shares that cannot be merged with the others of their interval."""

    interval: int
    coverage: int
    error: str


@dataclass(slots=True)
class MergeJob:
    """Merge of one range.

    Attributes:
        start: first interval.
        stop: one past the last.
        coverage: coverage of the whole range.
        claims: whether it moves the frontier.
        shares: per interval; one share each when the job is done, unless merging is impossible.
        waiting: number of merges in progress.
        drops: shares that were removed.
        keep_in: which agents may get the outcome.
    """

    start: int
    stop: int
    coverage: int
    claims: bool
    shares: dict[int, list[PartShare]]
    waiting: int = 0
    drops: list[Drop] = field(default_factory=list)
    keep_in: Rule = ANYWHERE

    def parts(self) -> Iterator[tuple[Part, bool]]:
        """Yield the parts of the outcome, each with whether it claims its range."""
        lost = {drop.interval: drop.coverage for drop in self.drops}
        position = self.start
        items: list[Contribution] = []
        for interval in sorted(self.shares):
            shares = self.shares[interval]
            if len(shares) == 1 and interval not in lost:
                items.append(Contribution(interval, shares[0].counts, shares[0].payload))
                continue
            if position < interval:
                yield self._part(position, interval, self.coverage, *items), self.claims
            spoken = sum(share.coverage for share in shares)
            silent = self.coverage & ~spoken & ~lost.get(interval, 0)
            for index, share in enumerate(shares):
                coverage = share.coverage | (0 if index else silent)
                item = Contribution(interval, share.counts, share.payload)
                yield self._part(interval, interval + 1, coverage, item), self.claims and not index
            position, items = interval + 1, []
        if position < self.stop:
            yield self._part(position, self.stop, self.coverage, *items), self.claims

    def _part(self, start: int, stop: int, coverage: int, *items: Contribution) -> Part:
        return Part(start, stop, coverage, items, keep_in=self.keep_in)


class Merger:
    """Executor of merges.

    Args:
        request: asks the host to merge payloads of an interval and returns the token of the request.
        payload_bytes_max: a larger result could not be sent, so its shares go up unmerged.
        count: counts a named incident.
    """

    def __init__(
        self,
        request: Callable[[int, tuple[bytes, ...]], int],
        payload_bytes_max: int,
        count: Callable[[str], None],
    ) -> None:
        self._request = request
        self._payload_bytes_max = payload_bytes_max
        self._count = count
        self._out: dict[int, tuple[MergeJob, int]] = {}

    def begin(
        self, start: int, stop: int, parts: list[Part], coverage: int, *, claims: bool
    ) -> Iterator[MergeJob]:
        """Begin jobs over a range of constant coverage, in pieces of at most ENTRIES_MAX intervals.

        Args:
            start: first interval.
            stop: one past the last.
            parts: parts within the range, with disjoint coverages.
            coverage: coverage of the whole range.
            claims: whether the jobs move the frontier.

        Yields:
            Jobs that are done immediately, each before the next piece begins; `merged` returns the others.
        """
        intervals = sorted({item.interval for part in parts for item in part.items})
        cuts = [start, *intervals[ENTRIES_MAX::ENTRIES_MAX], stop]
        for low, high in itertools.pairwise(cuts):
            inside = [part.cut(low, high) for part in parts if part.start < high and low < part.stop]
            job = self._start(low, high, inside, coverage, claims)
            if job.waiting == 0:
                yield job

    def _start(self, start: int, stop: int, parts: list[Part], coverage: int, claims: bool) -> MergeJob:
        shares: dict[int, list[PartShare]] = {}
        for part in parts:
            for item in part.items:
                share = PartShare(part.coverage, item.counts, item.payload)
                shares.setdefault(item.interval, []).append(share)
        rule = together(part.keep_in for part in parts)
        job = MergeJob(start, stop, coverage, claims, shares, keep_in=rule)
        for interval, each in shares.items():
            self._merge(job, interval, each)
        return job

    def merged(self, token: int, payload: bytes | None, error: str) -> MergeJob | None:
        """Process the host's answer; returns the job if this completes it. An unknown token is ignored."""
        if token not in self._out:
            return None
        job, interval = self._out.pop(token)
        shares = job.shares[interval]
        if payload is None:
            self._keep_widest(job, interval, shares, error)
        elif len(payload) > self._payload_bytes_max:
            self._count("merge_oversize")
        else:
            job.shares[interval] = [_sum(shares, payload)]
        job.waiting -= 1
        return job if job.waiting == 0 else None

    def __len__(self) -> int:
        return len(self._out)

    def clear(self) -> None:
        """Forget all jobs; later answers are ignored."""
        self._out.clear()

    def _merge(self, job: MergeJob, interval: int, shares: list[PartShare]) -> None:
        full = [share for share in shares if share.payload]
        empty = [share for share in shares if not share.payload]
        if len(full) <= 1:
            job.shares[interval] = [_sum(shares, full[0].payload if full else b"")]
            return
        if empty:
            full[0] = _sum([full[0], *empty], full[0].payload)
        job.shares[interval] = full
        job.waiting += 1
        token = self._request(interval, tuple(share.payload for share in full))
        self._out[token] = (job, interval)

    def _keep_widest(self, job: MergeJob, interval: int, shares: list[PartShare], error: str) -> None:
        """Handle shares that the host cannot merge: keep the one with most agents, and report the others."""
        kept = max(shares, key=lambda share: share.coverage.bit_count())
        lost = 0
        for share in shares:
            if share is not kept:
                lost |= share.coverage
                self._count("merge_dropped")
        job.shares[interval] = [kept]
        job.drops.append(Drop(interval, lost, error or "unknown"))


def still_wanted(
    part: Part, claims: bool, released: int, cells: Iterable[CoverageCell]
) -> Iterator[tuple[Part, bool]]:
    """Yield the wanted parts of a merged first attempt; only the claim where it is closed or superseded."""
    position = part.start
    for cell in (CoverageCell(part.start, released, 1), *cells):
        if cell.attempt and position < cell.stop:
            yield part.cut(position, max(position, cell.start)), claims
            position = min(cell.stop, part.stop)
            yield Part(max(part.start, cell.start), position, 0), claims
    yield part.cut(position, part.stop), claims


def _sum(shares: list[PartShare], payload: bytes) -> PartShare:
    coverage = 0
    counts: tuple[int, ...] = ()
    for share in shares:
        coverage |= share.coverage
        counts = add_counts(counts, share.counts)
    return PartShare(coverage, counts, payload)
