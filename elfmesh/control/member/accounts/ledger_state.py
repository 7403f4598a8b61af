"""What a member's ledger stores, and what it returns for an event.

Owns the stored form and its reading. Decides no bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from elfmesh.control.jobs.records import FIRST, NOT_COUNTED
from elfmesh.control.member.accounts.numbers import Numbered
from elfmesh.machine import Count, Index
from elfmesh.wire import UNREADABLE

KIND = "ledger"
Counts = tuple[int, ...]


class LedgerState(msgspec.Struct, array_like=True):
    """The part of the ledger that a restarted agent needs.

    Attributes:
        incarnation: of the job.
        numbers: (first interval, number): under which number this member contributed from where on.
        settled: everything below is decided.
        pending_corrections: counts that no contribution has taken yet.
        placed: (interval, counts): pending corrections that went up with an interval that is not settled.
        received: revisions up to this number of intervals below `settled` are accounted for.
        pre_start: records of intervals below this one are counted as expired. They never go up, also not
            under a later master that expects this member from an earlier interval on.
        given_in: of each of `numbers`, the epoch in which it was given. An earlier release leaves it empty.
    """

    incarnation: str
    numbers: tuple[tuple[Index, int], ...] = ()
    settled: Index = FIRST
    pending_corrections: Counts = NOT_COUNTED
    placed: tuple[tuple[Index, Counts], ...] = ()
    received: int = 0
    pre_start: Index = FIRST
    given_in: tuple[Count, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(LedgerState)


def incarnation_of(stored: bytes) -> str:
    """The incarnation of a stored state, "" if there is none, or if it is damaged."""
    try:
        return _DECODER.decode(stored).incarnation if stored else ""
    except UNREADABLE:
        return ""


def read_state(stored: bytes, incarnation: str) -> LedgerState:
    """The stored state; an empty one if it is of another incarnation, or damaged."""
    try:
        found = _DECODER.decode(stored) if stored else LedgerState(incarnation)
    except UNREADABLE:
        return LedgerState(incarnation)
    return found if found.incarnation == incarnation else LedgerState(incarnation)


def stored_state(state: LedgerState, placed: dict[int, Counts]) -> bytes:
    """The state as `read_state` reads it, with the corrections that are placed."""
    return _ENCODER.encode(msgspec.structs.replace(state, placed=tuple(sorted(placed.items()))))


@dataclass(slots=True)
class Undecided:
    """A contribution to a closed interval.

    Attributes:
        interval: its index.
        number: the one that decided its interval when it was closed, None if there was none.
        counts: of records by bucket, with what was placed with it.
        payloads: one per partition.
        unknown: no agent knows any more whether the record has it.
    """

    interval: int
    number: Numbered | None
    counts: Counts
    payloads: tuple[bytes, ...]
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """What an event has changed.

    Attributes:
        corrections: by bucket, what the pending corrections have more; less where a contribution took them.
        left_out: contributions that the records of their intervals lack, or may lack.
        settled: contributions whose outcome is known now.
        other: whether numbers, placements or `pre_start` are others.
        mismatches: contributions with fewer records than the prefix of this member that a record contains.
    """

    corrections: Counts = NOT_COUNTED
    left_out: tuple[Undecided, ...] = ()
    settled: int = 0
    other: bool = False
    mismatches: int = 0

    @property
    def must_be_stored(self) -> bool:
        """Whether the ledger must be on disk before the effects that follow."""
        return self.other or any(self.corrections) or bool(self.left_out)


SAME = Difference()
