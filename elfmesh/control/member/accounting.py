"""The outcome of one member's contributions to closed intervals: in the record, or a dead letter (D-15).

Owns the question for the outcome and its consequences. A contribution whose interval was closed without it
becomes a dead letter. Its counts become a pending correction: the member adds them to the next interval that
it contributes, with its records as `expired`, so that every record is counted (D-1). If a revision came too
late for its record, the records that it added are corrected as `late_dropped`. This module decides no
outcome: the closed watermarks of the master name the members that an interval lacks, and for older intervals
the master reads its results log on request.

Invariants: contributions are settled in the order of their intervals, each once, also across restarts; the
ledger is on disk before the worker may discard the settled contributions, and before the first contribution
with corrected counts is sent; counts are added only to an interval that was not contributed before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from sortedcontainers import SortedDict

from elfmesh.contribution import Contribution
from elfmesh.control.context import Context, Timer
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import CONTRIBUTED, EXPIRED, FIRST, LATE, NOT_COUNTED, add_counts
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import DeadLetter, Persist, Revised, Sealed
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack, Revisions
from elfmesh.interval_map import END
from elfmesh.machine import Index
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of
from elfmesh.wire import UNREADABLE

ASK_S = 2.0
"""How long a mark may take to say what became of a closed interval before the master is asked (again)."""

ASKED_MAX = 256
"""Intervals in one question."""

NUMBERS_MAX = 8
"""Earlier numbers of this member that are remembered, with the interval they began at."""

KIND = "ledger"
Counts = tuple[int, ...]


class Ledger(msgspec.Struct, frozen=True, array_like=True):
    """What must be known after a restart.

    Attributes:
        incarnation: of the job.
        numbers: (first interval, number): under which number this member contributed from where on.
        settled: everything below is decided.
        pending_corrections: counts that no contribution has taken yet.
        placed: (interval, counts): pending corrections that went up with an interval that is not settled.
        received: revisions up to this number of intervals below `settled` are accounted for.
        pre_start: records of intervals below this one are counted as expired and never go up.
    """

    incarnation: str
    numbers: tuple[tuple[Index, int], ...] = ()
    settled: Index = FIRST
    pending_corrections: Counts = NOT_COUNTED
    placed: tuple[tuple[Index, Counts], ...] = ()
    received: int = 0
    pre_start: Index = FIRST


_PACK = msgspec.msgpack.Encoder()
_UNPACK = msgspec.msgpack.Decoder(Ledger)


@dataclass(slots=True)
class _Open:
    """A contribution to a closed interval whose outcome is not known; `number` None: it never went up."""

    number: int | None
    counts: Counts
    payloads: tuple[bytes, ...]


class Accounting:
    """The closed contributions of one member of one job.

    Args:
        context: clock, disk and counters.
        manifest: the job.
        ask: sends a question to the master.
        freed: called when `floor` may have grown.
        stored: the ledger of an earlier boot, b"" if there is none.
    """

    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        ask: Callable[[AskFates], None],
        freed: Callable[[], None],
        stored: bytes = b"",
    ) -> None:
        self._context, self._manifest, self._ask, self._freed = context, manifest, ask, freed
        self.stages: tuple[Stage, ...] = (Stage(FIRST, manifest, manifest.version),)
        ledger = _read(stored, manifest.incarnation)
        self._numbers = dict(ledger.numbers)
        self._settled, self.pre_start, self.received = ledger.settled, ledger.pre_start, ledger.received
        self.pending_corrections = ledger.pending_corrections
        self._added: dict[int, list[tuple[int, Counts]]] = {}
        self._placed = dict(ledger.placed)
        self._open: SortedDict[int, _Open] = SortedDict()
        self._timer: Timer | None = None
        # A new master is not asked by all at once: ids are spread evenly.
        self._pause_s = ASK_S * (1 + context.me.id[0] / 1024)

    # -- what goes up ----------------------------------------------------------------------------------

    def numbered(self, first: int, number: int) -> None:
        if self._number(first) != number:
            self._numbers[first] = number
            for early in sorted(self._numbers)[:-NUMBERS_MAX]:
                del self._numbers[early]
            self._persist()

    @property
    @safeguard("decided-by-its-number:counted")
    def numbered_from(self) -> int:
        """The first interval that this member has had a number for; none below goes up."""
        return min(self._numbers, default=END)

    def correct_pre_start(self, counts: Counts, below: int) -> None:
        """These records are of intervals below our first one: they never go up.

        Args:
            counts: of what a range has of them, nothing perhaps.
            below: the range has said these intervals up to here: what comes late for one of them is a pending
                correction of itself, also where the range had nothing.
        """
        if not self._open:  # a restart does not count them again
            self._settled = max(self._settled, below)
        if any(counts):
            self.pre_start = max(self.pre_start, below)
            self._owe_expired(counts)
            self._persist()

    def place(self, run: tuple[Contribution, ...], *, again: bool) -> tuple[Contribution, ...]:
        """Contributions with the counts that are to go up with it.

        Args:
            run: of the partition that carries the counts.
            again: it went up before, perhaps: nothing may be added that was not added then.
        """
        if run and any(self.pending_corrections) and not again:
            at = run[0].interval
            self._placed[at] = add_counts((self._placed.get(at, NOT_COUNTED), self.pending_corrections))
            self.pending_corrections = NOT_COUNTED
            self._persist()
        return tuple(
            replace(each, counts=add_counts((each.counts, self._placed[each.interval])))
            if each.interval in self._placed
            else each
            for each in run
        )

    def made(self, event: Sealed) -> None:
        """The worker has sealed a range that it has never sealed by the version of its intervals.

        What went up with an interval of it went up by another version, and is no part of the job: if there is
        nothing now that it could go up with, it is pending again.
        """
        there = {each.interval for each in event.parts[0]}
        self._take_back(
            [each for each in self._placed if event.start <= each < event.stop and each not in there]
        )

    def _take_back(self, void: list[int]) -> None:
        """Corrections that were placed with these intervals are pending again."""
        if void:
            self.pending_corrections = add_counts(
                (self.pending_corrections, *(self._placed.pop(each) for each in void))
            )
            self._persist()

    def rewind(self, at: int) -> None:
        """What was evaluated from interval `at` on, which is open, is no part of the job any more."""
        for interval in [each for each in self._added if each >= at]:
            del self._added[interval]
        for interval in [*self._open.irange(at)]:
            del self._open[interval]

    # -- what is closed --------------------------------------------------------------------------------

    def closed(self, event: Sealed, number: int | None = None) -> None:
        """All intervals of a contribution are closed.

        A restart says again what its frame log still has, also what the ledger has settled since.

        Args:
            event: what is closed; under a number with the pending corrections that went up with it.
            number: it went up under; None after a restart that found it closed: number and pending
                corrections are those of the ledger.
        """
        payloads: dict[int, list[bytes]] = {}
        for run in event.parts:
            for each in run:
                payloads.setdefault(each.interval, []).append(each.payload)
        counted = event.parts[0] if number is not None else self.place(event.parts[0], again=True)
        for entry in counted:
            if not self.is_decided(entry.interval):
                known = self._number(entry.interval) if number is None else number
                self._open[entry.interval] = _Open(known, entry.counts, tuple(payloads[entry.interval]))
        self._wait()

    # -- what is revised -------------------------------------------------------------------------------

    def is_decided(self, interval: int) -> bool:
        """Whether nothing can change what became of an interval."""
        return interval < self._settled

    def decided(self, floor: int) -> None:
        """Of everything below it is known what became of it; a restart may hear so again.

        An interval that was annulled, and closed before the worker had made it again, is not settled.
        """
        self._settled = max(self._settled, floor)
        self._take_back([each for each in self._placed if each < floor])
        for interval in [each for each in self._added if each < floor]:
            del self._added[interval]

    def revise(self, event: Revised, *, had_nothing: bool) -> bool:
        """A closed contribution is another now; False if it is not here.

        Args:
            event: the revision.
            had_nothing: all that it counts came late. Of an interval without records nothing was kept when it
                was closed; what a restart says of it is this revision, which is settled as any other.
        """
        ((counted,), *_), payloads = event.parts, tuple(each.payload for (each,) in event.parts)
        item = self._open.get(event.interval)
        if item is None and had_nothing:
            item = self._open[event.interval] = _Open(self._number(event.interval), NOT_COUNTED, payloads)
            self._wait()
        if item is not None:
            item.counts, item.payloads = counted.counts, payloads
        return item is not None

    def added(self, event: Revised) -> None:
        """A revision may go up: what it adds is a pending correction if it comes too late."""
        self.received = max(self.received, event.seq)
        added = self._added.setdefault(event.interval, [])
        if all(rev != event.rev for rev, _ in added):  # a worker that was begun again says it again
            added.append((event.rev, event.added))

    def too_late(self, event: Revised) -> None:
        """A revision of what is decided: what it adds is a pending correction, once."""
        if event.seq > self.received:
            self.received = event.seq
            self._owe_late(event.added)
            self._persist()

    def _owe_late(self, added: Counts) -> None:
        counts = list(added)
        counts[LATE] += counts[CONTRIBUTED]
        counts[CONTRIBUTED] = 0
        self.pending_corrections = add_counts((self.pending_corrections, counts))

    def floor(self, closed: int) -> int:
        """Below it nothing of this member is needed any more, if everything below `closed` is closed."""
        return min(closed, self._open.keys()[0]) if self._open else closed

    @property
    def undecided(self) -> int:
        """Closed intervals whose outcome is not known yet."""
        return len(self._open)

    def notified(
        self, lacked_from: int, lacks: tuple[Lack, ...], closed: int, revised: tuple[Revisions, ...] = ()
    ) -> None:
        """A mark says whom the intervals from `lacked_from` to `closed` lack, and what is revised in them."""
        revisions = {(each.interval, number): rev for each in revised for number, rev in each.revs}

        def outcome(index: int, number: int) -> int | None:
            if not lacked_from <= index < closed:
                return None
            lack = next((lack for lack in lacks if lack.start <= index < lack.stop), None)
            if lack is not None and bits_of(lack.absent) >> number & 1:
                return 0
            return revisions.get((index, number), 1)

        self._settle(outcome)

    def answered(self, message: Fates) -> None:
        """The master says what became of some contributions."""
        known = dict.fromkeys(message.inside, 1) | dict.fromkeys(message.outside, 0)
        known.update(zip(message.inside, message.revs, strict=False))
        gone = frozenset(message.unknown)

        def outcome(index: int, number: int) -> int | None:
            return known.get(index) if number == message.number else None

        self._settle(outcome, gone)

    def stop(self) -> None:
        self._open.clear()
        if self._timer is not None:
            self._timer.cancel()
        self._context.emit(Persist(KIND, self._manifest.job_id, b""))

    def _settle(self, outcome: Callable[[int, int], int | None], gone: frozenset[int] = frozenset()) -> None:
        """Decide what can be decided, oldest first; stop at the first that cannot.

        Args:
            outcome: of an interval and our number: the revision that is inside, 0 for none, None: not known.
            gone: intervals of which no agent knows.
        """
        settled, changed = 0, False
        while self._open:
            index, item = self._open.peekitem(0)
            inside = 0 if item.number is None else outcome(index, item.number)
            if inside is None and index not in gone:
                break
            del self._open[index]
            settled += 1
            self._settled = index + 1
            changed |= self._placed.pop(index, None) is not None
            added = self._added.pop(index, [])
            if not inside:
                changed = True
                self._left_out(index, item, unknown=inside is None)
                continue
            for rev, counts in added:
                if rev > inside:
                    changed = True
                    self._owe_late(counts)
        if changed:
            self._persist()
        if settled:
            self._freed()

    def _left_out(self, index: int, item: _Open, *, unknown: bool) -> None:
        self._context.stats["control.dead_letters"] += 1
        manifest = stage_at(self.stages, index).manifest
        self._context.emit(DeadLetter(manifest, index, item.counts, item.payloads, unknown))
        if not unknown:
            self._owe_expired(item.counts)

    def _owe_expired(self, left_out: Counts) -> None:
        counts = list(left_out)
        counts[EXPIRED] += counts[CONTRIBUTED]
        counts[CONTRIBUTED] = 0
        self.pending_corrections = add_counts((self.pending_corrections, counts))

    def _wait(self) -> None:
        if self._open and self._timer is None:
            self._timer = self._context.after(self._pause_s, self._ask_again)

    def _ask_again(self) -> None:
        self._timer = None
        if not self._open:
            return
        number = self._open.peekitem(0)[1].number
        if number is None:
            self._settle(lambda index, number: None)
        else:
            same = [index for index, item in self._open.items() if item.number == number]
            job, incarnation = self._manifest.job_id, self._manifest.incarnation
            self._ask(AskFates(job, incarnation, number, tuple(same[:ASKED_MAX])))
        self._timer = self._context.after(self._pause_s, self._ask_again)

    def _number(self, interval: int) -> int | None:
        begun = [first for first in self._numbers if first <= interval]
        return self._numbers[max(begun)] if begun else None

    def _persist(self) -> None:
        ledger = Ledger(
            self._manifest.incarnation,
            tuple(sorted(self._numbers.items())),
            self._settled,
            self.pending_corrections,
            tuple(sorted(self._placed.items())),
            self.received,
            self.pre_start,
        )
        self._context.emit(Persist(KIND, self._manifest.job_id, _PACK.encode(ledger)))


def _read(stored: bytes, incarnation: str) -> Ledger:
    """The ledger of this incarnation; an empty one if another is stored, or none that can be read."""
    try:
        ledger = _UNPACK.decode(stored) if stored else Ledger(incarnation)
    except UNREADABLE:
        return Ledger(incarnation)
    return ledger if ledger.incarnation == incarnation else Ledger(incarnation)
