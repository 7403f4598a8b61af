"""The bucket of every record that a member has sealed (D-1). Pure: an event in, the difference out.

The worker counts what it reads until it seals an interval (`ingest.worker.tally`). From then on, the counts
are in exactly one of these states:

| state | until |
|---|---|
| sealed: in a contribution that is open (`contributions`) | the interval is closed |
| undecided: closed, and the outcome is not known | a watermark or the master names the outcome |
| inside: in the record of their interval | final |
| pending: in no contribution, as `expired` or `late_dropped` | the next contribution that is new takes them |
| placed: with a contribution that is not theirs | its outcome is known: inside, or pending again |
| unknown: in a dead letter, because no agent knows the outcome any more | final |

If an interval was closed without the contribution, its records are `expired`. If a revision came too late
for the record, the records that it added are `late_dropped`. Records of intervals for which the member has
had no number are `expired` when they are sealed, and the member never contributes them. An earlier master may
have expected other intervals below the member's present first one, and its roster may be lost. These
intervals are decided when they are closed, by the numbers of the newest roster (`numbers`).

Invariants: contributions are settled in the order of their intervals, each once, also across restarts; counts
are placed only with a contribution that never went up; a report that a worker repeats changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat

from sortedcontainers import SortedDict

from elfmesh.contribution import Contribution, within
from elfmesh.control.jobs.records import CONTRIBUTED, EXPIRED, LATE, NOT_COUNTED, add_counts
from elfmesh.control.jobs.roster import UNKNOWN, GivenIn, has_number
from elfmesh.control.member.accounts.ledger_state import (
    SAME,
    Counts,
    Difference,
    Undecided,
    read_state,
    stored_state,
)
from elfmesh.control.member.accounts.numbers import Numbered, deciding, followed
from elfmesh.control.member.accounts.prefix_counts import NO_PREFIXES, Prefixes, without_prefix
from elfmesh.control.protocol.events import Revised, Sealed
from elfmesh.interval_map import END
from elfmesh.safeguards import safeguard


class Ledger:
    """The ledger of one member of one job.

    Args:
        incarnation: of the job.
        stored: the ledger of an earlier boot, b"" if there is none.

    Attributes:
        state: what the ledger of the next boot begins with, but for what is placed.
    """

    def __init__(self, incarnation: str, stored: bytes = b"") -> None:
        self.state = read_state(stored, incarnation)
        self._placed = dict(self.state.placed)
        self._undecided: SortedDict[int, Undecided] = SortedDict()
        self._added: dict[int, list[tuple[int, Counts]]] = {}
        self._roster: GivenIn = ()

    # -- what goes up ----------------------------------------------------------------------------------

    def on_roster(self, given_in: GivenIn) -> None:
        """Take the epochs of a roster's numbers. Numbers of other epochs decide nothing under this roster.

        A later roster may have them again.
        """
        self._roster = given_in

    def numbered(self, first: int, number: int, given_in: int = UNKNOWN) -> Difference:
        """The member contributes under this number from interval `first` on, and under no other."""
        before = self._numbers()
        numbers = followed(before, Numbered(first, number, given_in))
        if numbers == before:
            return SAME
        self.state.numbers = tuple((at, each) for at, each, _ in numbers)
        self.state.given_in = tuple(epoch for _, _, epoch in numbers)
        return Difference(other=True)

    def _numbers(self) -> list[Numbered]:
        epochs = (*self.state.given_in, *repeat(UNKNOWN, len(self.state.numbers)))
        return [Numbered(*each, epoch) for each, epoch in zip(self.state.numbers, epochs, strict=False)]

    @property
    @safeguard("decided-by-its-number:counted")
    def numbered_from(self) -> int:
        """The first interval that this member has had a number for; none below goes up."""
        return min((first for first, _ in self.state.numbers), default=END)

    def remade(self, event: Sealed) -> Difference:
        """The worker has sealed a range for the first time by the version of its intervals.

        Corrections may have gone up with an interval of the version before, which was annulled. They go up
        with the new contribution of this interval. If there is none, they are pending again.
        """
        there = {each.interval for each in event.parts[0]}
        void = [each for each in self._placed if event.start <= each < event.stop and each not in there]
        return self._taken_back(void)

    @safeguard("annulled-corrections")
    def _taken_back(self, void: list[int]) -> Difference:
        """Corrections that were placed with these intervals are pending again."""
        return self._corrected([self._placed.pop(each) for each in void])

    def sealed(self, event: Sealed, first: int) -> tuple[Sealed, Difference]:
        """The range as it goes up, as far as this member has had a number.

        A worker that is started again repeats its reports. They go up with the same corrections as before.

        Args:
            event: what the worker has sealed.
            first: the member's present first interval. Nothing is placed with what lies below.
        """
        state, before = self.state, self.state.pending_corrections
        below = min(first, self.numbered_from)
        uncounted = max(event.start, state.pre_start) < min(event.stop, below)
        if uncounted:
            found = add_counts(each.counts for each in within(event.parts[0], state.pre_start, below))
            state.pending_corrections = add_counts((before, _moved(found, EXPIRED)))
            state.pre_start = min(event.stop, below)
        counted, *others = (within(run, below, END) for run in event.parts)
        goes_up = within(counted, first, END)
        placed = bool(goes_up) and any(state.pending_corrections) and not event.again
        if placed:
            at = goes_up[0].interval
            self._placed[at] = add_counts((self._placed.get(at, NOT_COUNTED), state.pending_corrections))
            state.pending_corrections = NOT_COUNTED
        more = tuple(new - old for new, old in zip(state.pending_corrections, before, strict=True))
        up = replace(event, parts=(self._with_placed(counted), *others))
        return up, Difference(more, other=placed or uncounted)

    def _is_counted(self, interval: int) -> bool:
        return interval < min(self.state.pre_start, self.numbered_from)

    def _with_placed(self, run: tuple[Contribution, ...]) -> tuple[Contribution, ...]:
        return tuple(
            replace(each, counts=add_counts((each.counts, self._placed[each.interval])))
            if each.interval in self._placed
            else each
            for each in run
        )

    def rewound(self, at: int) -> None:
        """Forget the open intervals from `at` on, because another version evaluates them again."""
        for interval in [each for each in self._added if each >= at]:
            del self._added[interval]
        for interval in [*self._undecided.irange(at)]:
            del self._undecided[interval]

    # -- what is revised -------------------------------------------------------------------------------

    def revised(self, event: Revised, *, is_open: bool) -> tuple[Revised | None, Difference]:
        """The revision as it goes up, None if it does not.

        What it adds is a pending correction: now if it comes too late, later if its interval's record has an
        earlier revision.

        Args:
            event: the revision.
            is_open: whether the interval is sealed and not closed, as far as this member knows.
        """
        if event.interval < self.state.settled or self._is_counted(event.interval):
            return None, self._too_late(event)
        if not event.again:
            counted, *others = event.parts
            event = replace(event, parts=(self._with_placed(counted), *others))
            if not is_open and not self._revise(event, had_nothing=counted[0].counts == event.added):
                return None, self._too_late(event)
        self.state.received = max(self.state.received, event.seq)
        added = self._added.setdefault(event.interval, [])
        if all(rev != event.rev for rev, _ in added):  # a worker that was started again repeats it
            added.append((event.rev, event.added))
        return event if is_open and not event.again else None, SAME

    def _revise(self, event: Revised, *, had_nothing: bool) -> bool:
        """Replace a closed contribution; return False if it is not here.

        Args:
            event: the revision.
            had_nothing: all records of the interval came late. The ledger keeps nothing of a closed interval
                without records, so a restarted agent learns of it by this revision, which is settled as any
                other.
        """
        ((counted,), *_), payloads = event.parts, tuple(each.payload for (each,) in event.parts)
        item = self._undecided.get(event.interval)
        if item is None and had_nothing:
            number = deciding(self._numbers(), self._roster, event.interval)
            item = self._undecided[event.interval] = Undecided(event.interval, number, NOT_COUNTED, ())
        if item is not None:
            item.counts, item.payloads = counted.counts, payloads
        return item is not None

    def _too_late(self, event: Revised) -> Difference:
        if event.seq <= self.state.received:
            return SAME
        self.state.received = event.seq
        return self._corrected([_moved(event.added, LATE)])

    # -- what is closed --------------------------------------------------------------------------------

    def closed(self, event: Sealed, *, is_found: bool = False) -> Difference:
        """All intervals of a contribution are closed; the difference comes with their outcomes.

        Args:
            event: what is closed, with the corrections that were placed with it.
            is_found: a restarted worker reports it from its frame log, without these corrections. It may
                be settled already.
        """
        first, *others = event.parts
        counted = self._with_placed(first) if is_found else first
        numbers = self._numbers()
        for each, *rest in zip(counted, *others, strict=True):
            at = each.interval
            if at >= self.state.settled and not self._is_counted(at):
                payloads = (each.payload, *(other.payload for other in rest))
                number = deciding(numbers, self._roster, at)
                self._undecided[at] = Undecided(at, number, each.counts, payloads)
        return SAME

    def outcomes(
        self,
        outcome: Callable[[int, int | None], int | None],
        gone: frozenset[int] = frozenset(),
        prefixes: Prefixes = NO_PREFIXES,
    ) -> Difference:
        """Decide what can be decided, oldest first; stop at the first that cannot.

        Args:
            outcome: of an interval and the number that decides it, None if its record cannot have our
                contribution: the revision that is inside, 0 for none, None if it is not known.
            gone: intervals of which no agent knows.
            prefixes: by interval and number, the contributed and filtered records that the interval contains
                of a member without a contribution in it. They are counted already.
        """
        corrections: list[Counts] = []
        left_out: list[Undecided] = []
        settled, mismatches, other = 0, 0, False
        while self._undecided:
            index, item = self._undecided.peekitem(0)
            number = self._decides(item)
            inside = outcome(index, number)
            if inside is None and index not in gone:
                break
            del self._undecided[index]
            self.state.settled, settled = index + 1, settled + 1
            other |= self._placed.pop(index, None) is not None
            added = self._added.pop(index, [])
            if inside:
                corrections += (_moved(counts, LATE) for rev, counts in added if rev > inside)
                continue
            item.unknown = inside is None
            left_out.append(item)
            if not item.unknown:
                counted = prefixes.get((index, -1 if number is None else number), (0, 0))
                left = without_prefix(_moved(item.counts, EXPIRED), counted)
                mismatches += min(left) < 0
                corrections.append(tuple(max(0, each) for each in left))
        found = replace(self._corrected(corrections), left_out=tuple(left_out), settled=settled, other=other)
        return replace(found, mismatches=mismatches)

    def released(self, closed: int) -> tuple[int, Difference]:
        """The interval below which the worker may discard everything, if all below `closed` is closed.

        All contributions below it are settled. Corrections that went up with an interval that was annulled,
        and closed before the worker made it again, are pending again.
        """
        floor = min(closed, self._undecided.keys()[0]) if self._undecided else closed
        self.state.settled = max(self.state.settled, floor)
        for interval in [each for each in self._added if each < floor]:
            del self._added[interval]
        return floor, self._taken_back([each for each in self._placed if each < floor])

    @property
    def undecided(self) -> int:
        """The number of closed intervals whose outcome is not known yet."""
        return len(self._undecided)

    @property
    def oldest(self) -> tuple[int | None, tuple[int, ...]]:
        """The number that decides the oldest of them, and all intervals that it decides."""
        number = self._decides(self._undecided.peekitem(0)[1])
        return number, tuple(at for at, item in self._undecided.items() if self._decides(item) == number)

    def stored(self) -> bytes:
        """The state that the ledger of the next boot reads."""
        return stored_state(self.state, self._placed)

    def _corrected(self, corrections: Sequence[Counts]) -> Difference:
        found = add_counts(corrections)
        self.state.pending_corrections = add_counts((self.state.pending_corrections, found))
        return Difference(found)

    def _decides(self, item: Undecided) -> int | None:
        """The number whose outcome is the item's, None if no record can have it.

        If the master that gave the number died with its roster, an earlier number may be in force again.
        """
        number = item.number
        if number is not None and not has_number(self._roster, number.number, number.epoch):
            number = deciding(self._numbers(), self._roster, item.interval)
        return None if number is None else number.number


def _moved(counts: Counts, to: int) -> Counts:
    """These counts, with the contributed records in another bucket, and without violations of these."""
    found = list(counts[: len(NOT_COUNTED)])
    found[to] += found[CONTRIBUTED]
    found[CONTRIBUTED] = 0
    return tuple(found)
