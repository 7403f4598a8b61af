"""Parts: contributions of some agents for a range of intervals, in memory between two hops.

Owns cutting and holding parts, and the conversion from a segment with its concatenated payload to a part and
back. Does not depend on senders and receivers. Iterates over entries, never over a range.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from elfmesh.contribution import Contribution, split, within
from elfmesh.errors import ProtocolError
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of, bits_of
from elfmesh.srt.messages import FIRST, Segment, SegmentEntry
from elfmesh.srt.residency import ANYWHERE, Rule

LAST = -FIRST
"""Greater than any interval index."""

ENTRIES_MAX = 256
"""Maximum number of entries of one segment: bounds the header, and the time that a catch-up waits for its
merges."""

PART_OVERHEAD_BYTES = 256
"""Bytes charged per held part in addition to its payloads, so that many empty parts are bounded too."""


@dataclass(frozen=True, slots=True)
class Part:
    """Segment with its payloads.

    Attributes:
        start: first interval.
        stop: one past the last.
        coverage: bit set of roster numbers, never 0 when held.
        items: sorted by interval, within the range.
        attempt: number of its collection.
        source: id of the child that sent it, b"" = made here.
        alone: never merged with others on the way.
        keep_in: which agents may get it.
    """

    start: int
    stop: int
    coverage: int
    items: tuple[Contribution, ...] = ()
    attempt: int = 0
    source: bytes = b""
    alone: bool = False
    keep_in: Rule = ANYWHERE

    @property
    def nbytes(self) -> int:
        """Return the approximate memory of the part."""
        return PART_OVERHEAD_BYTES + sum(PART_OVERHEAD_BYTES + len(item.payload) for item in self.items)

    @property
    def rev(self) -> int:
        """Return the revision of a contribution of one agent to one interval; 1 for all other parts."""
        return self.items[0].rev if len(self.items) == 1 else 1

    def cut(self, start: int, stop: int) -> Part:
        start, stop = max(start, self.start), min(stop, self.stop)
        if (start, stop) == (self.start, self.stop):
            return self
        items = within(self.items, start, stop)
        return Part(start, stop, self.coverage, items, self.attempt, self.source, self.alone, self.keep_in)

    def without_oversize(self, payload_bytes_max: int) -> tuple[list[Part], list[Contribution]]:
        """Remove items that no message can carry. Returns the remaining parts, and these items."""
        pieces: list[Part] = []
        oversize = [item for item in self.items if len(item.payload) > payload_bytes_max]
        position = self.start
        for item in oversize:
            pieces.append(self.cut(position, item.interval))
            position = item.interval + 1
        pieces.append(self.cut(position, self.stop))
        return [piece for piece in pieces if piece.start < piece.stop], oversize

    def segment(self, epoch: int) -> Segment:
        coverage = bitmap_of(self.coverage)
        entries = entries_of(self.items)
        return Segment(epoch, self.attempt, self.start, self.stop, coverage, entries, self.keep_in)

    def split(self, entries_max: int, payload_bytes_max: int) -> Iterator[Part]:
        """Split into consecutive parts that are within both limits; ranges are cut directly after an entry.

        An item over `payload_bytes_max` gets a part of its own; the caller must have refused it before.
        """
        start, held, size = self.start, 0, 0
        for item in self.items:
            if held and (held >= entries_max or size + len(item.payload) > payload_bytes_max):
                yield self.cut(start, item.interval)
                start, held, size = item.interval, 0, 0
            held += 1
            size += len(item.payload)
        yield self.cut(start, self.stop)


def entries_of(run: Iterable[Contribution]) -> tuple[SegmentEntry, ...]:
    return tuple(SegmentEntry(each.interval, each.counts, len(each.payload), each.rev) for each in run)


def run_of(entries: Iterable[SegmentEntry], payloads: Iterable[bytes]) -> tuple[Contribution, ...]:
    """Return contributions from the entries of a segment and their payloads."""
    return tuple(
        Contribution(entry.interval, entry.counts, payload, entry.rev)
        for entry, payload in zip(entries, payloads, strict=True)
    )


def runs(parts: Sequence[Part], start: int, stop: int) -> Iterator[tuple[int, int, int, list[Part]]]:
    """Split [start, stop) where the parts' joint coverage changes: (from, to, coverage, parts cut to it).

    The parts are within the range and have disjoint coverages. Cost: O(edges * agents that overlap there).
    """
    edges = sorted({start, stop, *(part.start for part in parts), *(part.stop for part in parts)})
    coming = deque(sorted(parts, key=lambda part: part.start))
    active: list[Part] = []
    begin, coverage = start, 0
    inside: list[Part] = []
    for low, high in itertools.pairwise(edges):
        active = [part for part in active if part.stop > low]
        while coming and coming[0].start <= low:
            active.append(coming.popleft())
        here = [part.cut(low, high) for part in active]
        union = 0
        for part in here:
            union |= part.coverage
        if union != coverage and begin < low:
            yield begin, low, coverage, inside
            begin, inside = low, []
        coverage = union
        inside += here
    if begin < stop:
        yield begin, stop, coverage, inside


def add_counts(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """Add bucket counts; a shorter list is padded with zeros."""
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))


def check_segment(segment: Segment) -> None:
    """Raise ProtocolError unless the range is valid, entries are sorted and in it, and revisions alone."""
    previous = segment.start - 1
    is_range = FIRST <= segment.start <= segment.stop <= LAST
    if not is_range or segment.attempt < 0 or segment.epoch < 0:
        raise ProtocolError(f"segment of epoch {segment.epoch} over [{segment.start}, {segment.stop})")
    for entry in segment.entries:
        if not previous < entry.interval < segment.stop or entry.size < 0:
            raise ProtocolError(f"entry {entry.interval} out of order in [{segment.start}, {segment.stop})")
        previous = entry.interval
        if entry.rev != 1 and (entry.rev < 1 or not _is_one(segment)):
            raise ProtocolError(f"revision {entry.rev} of more than one contribution, or of none")


def _is_one(segment: Segment) -> bool:
    return segment.stop - segment.start == 1 and bits_of(segment.coverage).bit_count() == 1


def unpack(segment: Segment, payload: bytes, source: bytes, *, alone: bool) -> Part:
    """Return the part that a peer sent.

    Raises:
        ProtocolError: Entries are out of order or out of range, or their sizes do not add up to the payload.
    """
    check_segment(segment)
    payloads = split(payload, [entry.size for entry in segment.entries])
    if payloads is None:
        raise ProtocolError(f"a payload of {len(payload)} bytes is not what its entries say")
    items = run_of(segment.entries, payloads)
    coverage = bits_of(segment.coverage)
    if items and not coverage:
        raise ProtocolError("a segment with entries covers no member")
    about = segment.attempt, source, alone, segment.keep_in
    return Part(segment.start, segment.stop, coverage, items, *about)


class Shelf:
    """Parts in order of arrival, with their total bytes and a lower bound of their starts (None if empty).

    Cost: adding is O(1), everything else O(parts).
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self.nbytes = 0
        self.lowest: int | None = None

    @safeguard("shelf")
    def __iter__(self) -> Iterator[Part]:
        return iter(tuple(self._parts))

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: Part) -> None:
        self._parts.append(part)
        self.nbytes += part.nbytes
        self.lowest = part.start if self.lowest is None else min(self.lowest, part.start)

    def pop_oldest(self) -> Part:
        part = self._parts.pop(0)
        self.nbytes -= part.nbytes
        return part

    def take(self, start: int, stop: int, coverage: int | None = None) -> list[Part]:
        """Remove [start, stop) from every part, or from those of one coverage; returns what was removed."""

        def is_out(part: Part) -> bool:
            return part.stop <= start or stop <= part.start or coverage not in (None, part.coverage)

        if all(map(is_out, self._parts)):
            return []
        taken: list[Part] = []
        kept: list[Part] = []
        for part in self._parts:
            if is_out(part):
                kept.append(part)
                continue
            taken.append(part.cut(start, stop))
            if part.start < start:
                kept.append(part.cut(part.start, start))
            if stop < part.stop:
                kept.append(part.cut(stop, part.stop))
        self._hold(kept)
        return taken

    def take_from(self, source: bytes) -> list[Part]:
        taken = [part for part in self._parts if part.source == source]
        if taken:
            self._hold([part for part in self._parts if part.source != source])
        return taken

    def _hold(self, parts: list[Part]) -> None:
        self._parts = parts
        self.nbytes = sum(part.nbytes for part in parts)
        self.lowest = min((part.start for part in parts), default=None)
