"""The ledger against a model that counts records one by one: each is in one bucket, at any time (D-1)."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, EXPIRED, LATE, NOT_COUNTED, add_counts
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.member.accounts.ledger_state import Difference
from elfmesh.control.protocol.events import Revised, Sealed
from elfmesh.ingest.worker.recovered import is_reported_again
from elfmesh.storage.frames import RevisedInterval

JOB = b"j" * 20
Counts = tuple[int, ...]


def records(number: int) -> Counts:
    return (number, *NOT_COUNTED[1:])


@dataclass
class Interval:
    """What the frame log has of one, and by which revision each late record came.

    Attributes:
        base: records in time.
        first_rev: the revision that has them.
        revisions: of the frame log, each of one record.
        came: of each revision, whether the outcome of the interval was known before.
    """

    base: int
    first_rev: int = 1
    revisions: list[RevisedInterval] = field(default_factory=list)
    came: list[bool] = field(default_factory=list)

    @property
    def counts(self) -> Counts:
        return records(self.base + len(self.revisions))

    @property
    def rev(self) -> int:
        return self.revisions[-1].rev if self.revisions else self.first_rev


class World:
    """The ledger of one member, between its frame log and a master that closes what it likes.

    Attributes:
        up: of each open interval, the counts by revision as the master may have them.
        early: sealed intervals that an earlier master expected, and the present one does not.
        closed_at_restart: intervals that a restart took for closed, because its worker begins behind them.
        inside: of each closed interval, the revision in its record; 0: none, None: not known any more.
        published: the sum of what the records have, and of dead letters without an outcome.
    """

    def __init__(self, first: int = 0) -> None:
        self.ledger, self.disk = Ledger("x"), b""
        self.number, self.first, self.closed, self.next, self.seq = 0, first, 0, 0, 0
        self.joins_at = first
        self.frames: dict[int, Interval] = {}
        self.again: dict[int, int] = {}
        self.used: dict[int, int] = {}
        self.up: dict[int, dict[int, Counts]] = {}
        self.numbers: dict[int, int] = {}
        self.inside: dict[int, int | None] = {}
        self.pre_start: set[int] = set()
        self.early: set[int] = set()
        self.closed_at_restart: set[int] = set()
        self.published = NOT_COUNTED
        self.released = self.received = 0
        self.take(self.ledger.numbered(first, 0))

    def take(self, difference: Difference) -> None:
        """What must be on disk is there before anything else happens."""
        if difference.must_be_stored:
            self.disk = self.ledger.stored()
        unknown = (each.counts for each in difference.left_out if each.unknown)
        self.published = add_counts((self.published, *unknown))

    @property
    def lowest(self) -> int:
        """The first interval that the member contributes."""
        return max(self.first, self.ledger.state.pre_start)

    def event(self, start: int, stop: int, *, again: bool = False) -> Sealed:
        frames = {index: self.frames[index] for index in range(start, stop)}
        run = tuple(
            Contribution(index, each.counts, b"p", each.rev)
            for index, each in frames.items()
            if each.counts[0]
        )
        return Sealed(JOB, "x", start, stop, (run,), again=again)

    def say(self, start: int, stop: int, *, again: bool) -> None:
        """A range is said, and goes up; what is closed by now is released at once."""
        event, lowest = self.event(start, stop, again=again), self.lowest
        if not again:
            self.take(self.ledger.remade(event))
        below = min(lowest, self.ledger.numbered_from)
        self.pre_start |= {*range(start, min(stop, below))}
        self.early |= {*range(max(start, below), min(stop, lowest))} - self.numbers.keys()
        goes_up, difference = self.ledger.sealed(event, lowest)
        self.take(difference)
        counts = {each.interval: each.counts for each in goes_up.parts[0]}
        for index in range(max(start, below), stop):
            if index not in self.early:
                self.numbers.setdefault(index, self.number)
            if index < self.closed:
                self.take(self.ledger.closed(goes_up.within(index, index + 1)))
                self.inside.setdefault(index, 0)
                continue
            as_before = self.up.setdefault(index, {})
            found = counts.get(index, NOT_COUNTED)
            assert as_before.setdefault(self.frames[index].rev, found) == found, "one name, one content"

    def seal(self, numbers: list[int], late: int) -> None:
        """The next intervals, or those that a change of the version has annulled, some records late now."""
        start, behind = self.next, []
        for base in numbers:
            total = self.again.pop(self.next, base)
            in_time = max(0, total - late)
            rev = self.used.get(self.next, 0) + 1 if in_time else 1
            self.frames[self.next] = Interval(in_time, rev)
            behind += [self.next] * (total - in_time)
            self.next += 1
        self.say(start, self.next, again=False)
        for index in behind:
            self.late(index)

    def late(self, index: int) -> None:
        """One record of a sealed interval comes late."""
        frame, self.seq = self.frames[index], self.seq + 1
        rev = max(frame.rev, self.used.get(index, 0)) + 1
        counts, added = list(add_counts((frame.counts, records(1)))), list(records(1))
        frame.revisions.append(RevisedInterval(index, rev, counts, [b"p"], added, self.seq, 1))
        is_open = index in self.up and index not in self.closed_at_restart
        frame.came.append(index < self.ledger.state.settled)
        run = (Contribution(index, frame.counts, b"p", rev),)
        event = Revised(JOB, "x", index, rev, (run,), records(1), self.seq)
        goes_up, difference = self.ledger.revised(event, is_open=is_open)
        self.take(difference)
        assert (goes_up is not None) == is_open
        if goes_up is not None:
            self.up[index][rev] = goes_up.parts[0][0].counts

    def close(self, which: int | None) -> None:
        """The next interval is closed: with the revision that comes at this place, or without the member."""
        index, self.closed = self.closed, self.closed + 1
        revs = self.up.pop(index, None)
        if revs is None:
            if index in self.frames and index not in self.pre_start | self.closed_at_restart:
                raise AssertionError("a sealed interval is open or counted")
            self.inside[index] = 0 if index >= self.ledger.numbered_from else 1
        else:
            rev = 0 if which is None or index in self.early else sorted(revs)[which % len(revs)]
            self.inside[index] = rev
            self.published = add_counts((self.published, revs.get(rev, NOT_COUNTED)))
            newest = max(revs)
            run = (Contribution(index, revs[newest], b"p", newest),) if any(revs[newest]) else ()
            event = Sealed(JOB, "x", index, index + 1, (run,))
            if index not in self.closed_at_restart:
                self.take(self.ledger.closed(event))
        self.release()

    def release(self) -> None:
        floor, difference = self.ledger.released(min(self.closed, self.next))
        self.take(difference)
        self.released, self.received = (
            max(self.released, floor),
            max(self.received, self.ledger.state.received),
        )

    def notify(self, until: int) -> None:
        def outcome(index: int, number: int | None) -> int | None:
            assert number is None or number == self.numbers.get(index, number)
            return self.inside[index] if index < until else None

        self.take(self.ledger.outcomes(outcome))
        self.release()

    def forget(self) -> None:
        """No agent knows the outcome of the oldest closed contribution any more."""
        index = min(self.ledger.oldest[1], default=self.closed) if self.ledger.undecided else self.closed
        if index < self.closed and index not in self.pre_start:
            inside = self.inside[index]
            if inside:
                return  # it is counted where it is, and in the dead letter: the model counts each once
            self.inside[index] = None
            self.take(self.ledger.outcomes(lambda index, number: None, frozenset((index,))))
            self.release()

    def restart(self, known_closed: int) -> None:
        """The worker says what its frame log has; the roster on disk knows of some closed intervals.

        What was annulled and lies before its beginning it does not make again, and counts by itself.
        """
        self.ledger = Ledger("x", self.disk)
        start = max(self.lowest, known_closed)
        revisions = (each for frame in self.frames.values() for each in frame.revisions)
        for each in sorted(revisions, key=lambda each: each.seq):
            if is_reported_again(each, self.received, self.released):
                event = Revised(
                    JOB, "x", each.interval, each.rev, (), tuple(each.added), each.seq, again=True
                )
                self.take(self.ledger.revised(event, is_open=False)[1])
        for index in sorted(self.frames):
            if self.released <= index < start:
                self.closed_at_restart.add(index)
                self.take(self.ledger.closed(self.event(index, index + 1, again=True), is_found=True))
            elif index >= self.released:
                self.say(index, index + 1, again=True)
        self.again = {index: total for index, total in self.again.items() if index >= start}
        self.next = max(self.next, start)
        self.release()

    def change(self, at: int) -> None:
        """Another version evaluates what is open from interval `at` on."""
        for index in [each for each in self.frames if each >= at]:
            frame = self.frames.pop(index)
            self.again[index] = frame.counts[CONTRIBUTED]
            self.used[index] = max(frame.rev, self.used.get(index, 0))
            self.up.pop(index, None)
            self.numbers.pop(index, None)
            for kept in (self.pre_start, self.early, self.closed_at_restart):
                kept.discard(index)
        self.next = min(self.next, at)
        self.ledger.rewound(at)

    def expected_from(self, first: int, number: int) -> None:
        """Another number from an interval on, or the same; what is open below is decided as it went up."""
        self.number, self.first = number, first
        self.take(self.ledger.numbered(self.lowest, number))

    # -- the model -------------------------------------------------------------------------------------

    def expected(self) -> dict[str, int]:
        """The bucket of each record, one by one, after everything is closed and known."""
        found: Counter[int] = Counter()
        for index, frame in self.frames.items():
            inside = self.inside[index]
            if index in self.pre_start:
                found[EXPIRED] += frame.base
                found[LATE] += len(frame.revisions)
                continue
            found[EXPIRED if inside == 0 else CONTRIBUTED] += frame.base
            for each, was_known in zip(frame.revisions, frame.came, strict=True):
                if was_known or (inside and each.rev > inside):
                    found[LATE] += 1
                else:
                    found[EXPIRED if inside == 0 else CONTRIBUTED] += 1
        return {BUCKETS[at]: number for at, number in found.items() if number}

    def found(self) -> dict[str, int]:
        counts = add_counts((self.published, self.ledger.state.pending_corrections))
        return {BUCKETS[at]: number for at, number in enumerate(counts) if number}


class AnySequence(RuleBasedStateMachine):
    """See `World`; after each event, the story could end here."""

    @initialize(first=st.sampled_from((0, 0, 0, 2, 5)))
    def joins(self, first: int) -> None:
        self.world = World(first)

    @rule(numbers=st.lists(st.integers(0, 3), min_size=1, max_size=3), late=st.integers(0, 2))
    def seal(self, numbers: list[int], late: int) -> None:
        self.world.seal(numbers, late)

    @rule(back=st.integers(0, 5))
    def late(self, back: int) -> None:
        if self.world.next - 1 - back in self.world.frames:
            self.world.late(self.world.next - 1 - back)

    @rule(which=st.none() | st.integers(0, 2))
    def close(self, which: int | None) -> None:
        if self.world.closed <= self.world.next:
            self.world.close(which)

    @rule(back=st.integers(0, 3))
    def notify(self, back: int) -> None:
        self.world.notify(self.world.closed - back)

    @rule()
    def forget(self) -> None:
        self.world.forget()

    @rule(unknown=st.integers(0, 4))
    def restart(self, unknown: int) -> None:
        self.world.restart(max(0, self.world.closed - unknown))

    @precondition(lambda self: self.world.closed >= self.world.joins_at)
    @rule(back=st.integers(0, 3))
    def change(self, back: int) -> None:
        self.world.change(max(self.world.closed, self.world.next - back))

    @precondition(lambda self: not self.world.again and self.world.number < 8)
    @rule(ahead=st.integers(0, 4), more=st.integers(0, 1))
    def expected_later(self, ahead: int, more: int) -> None:
        first = max(self.world.first, self.world.closed, self.world.next) + ahead
        self.world.expected_from(first, self.world.number + more)

    @invariant()
    def each_record_is_in_one_bucket(self) -> None:
        end = deepcopy(self.world)
        while end.again:
            end.seal([0], 0)
        while end.closed < max(end.next, end.first):
            end.close(9)
        end.notify(end.closed)
        assert end.ledger.undecided == 0
        assert end.found() == end.expected()


TestAnySequence = AnySequence.TestCase
TestAnySequence.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
