"""One real member through its lives, between a worker's frame log and a master of a few lines each.

Intervals may be empty, versions change, the member dies; what its worker says again is what `recovered` makes
of its frames.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from typing import Any

from msgspec.structs import replace

from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job, read_plan
from elfmesh.control.jobs.records import FIRST, NOT_COUNTED
from elfmesh.control.jobs.stages import followed, stage_at
from elfmesh.control.jobs.terms import RosterEntry, Stage, Terms
from elfmesh.control.member.contributions import PACE_S
from elfmesh.control.member.copy_store import CopyStore
from elfmesh.control.member.member import Member
from elfmesh.control.protocol.events import Persist, ReleaseWorker, Sealed, StartWorker
from elfmesh.control.protocol.messages import Mark
from elfmesh.control.protocol.messages_safety import Lack, Revisions
from elfmesh.ingest.worker.recovered import is_reported_again
from elfmesh.ingest.worker.saying import Saying
from elfmesh.interval_map import bits
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Contribute
from elfmesh.storage.frames import RevisedInterval, SealedInterval
from tests.control.contexts import new_context
from tests.control.member.support import TEXT

ME = 3
MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=0, incarnation="x")
Counts = tuple[int, ...]


def records(number: int) -> Counts:
    return (number, *NOT_COUNTED[1:])


@dataclass
class Interval:
    """What the frame log has of one; the revisions are of the version that evaluates it."""

    evaluated: int
    count: int
    rev: int = 1
    revisions: list[RevisedInterval] = field(default_factory=list)


class First(random.Random):
    """Takes the first of what there is: one interval at a time, and nothing closes by itself."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


class Frames:
    """What a worker has sealed and revised, as its frame log keeps it."""

    def __init__(self) -> None:
        self.kept: dict[int, Interval] = {}
        self.used: dict[int, int] = {}
        self.seq = self.received = self.released = 0

    def annul(self, stages: tuple[Stage, ...]) -> dict[int, int]:
        """Intervals that are made again, since another version evaluates one before, and their records."""
        known = sorted(index for index in self.kept if index >= self.released)
        void = [each for each in known if stage_at(stages, each).evaluated != self.kept[each].evaluated]
        gone = {each: self.kept.pop(each) for each in known if void and each >= void[0]}
        self.used |= {index: each.rev for index, each in gone.items() if each.rev > 1}
        return {index: each.count for index, each in gone.items()}


@dataclass(frozen=True)
class Place:
    """The member's place on the roster of one master, and of those that it follows.

    Attributes:
        mine: its numbers, the present one last.
        first: the first interval that is expected of it under this one.
        given_in: see `Terms`.
    """

    mine: tuple[int, ...]
    first: int
    given_in: tuple[tuple[int, int], ...]

    def again(self, first: int, epoch: int) -> Place:
        """The member goes and comes back: it has the next number."""
        number = self.mine[-1] + 1
        return Place((*self.mine, number), first, (*self.given_in, (number, epoch)))

    def lost(self, first: int, epoch: int, ahead: int) -> Place:
        """A master without this roster gives its last number again, to the member or to the one before it."""
        lost = self.mine[-1]
        given_in = (*(each for each in self.given_in if each[0] < lost), (lost, epoch))
        return Place((*self.mine[:-1], lost + ahead), first, given_in)


class Boot:
    """A member, what its disk has, and its master.

    Args:
        rng: what happens.
        first: the first interval that is expected of the member; its worker begins with interval 0.
    """

    def __init__(self, rng: random.Random, first: int = 0) -> None:
        self.rng, self.frames = rng, Frames()
        self.place, self.before = Place((ME,), first, ((0, 1),)), [(first, Place((ME,), first, ((0, 1),)))]
        self.joins_at = first
        self.ledger = b""
        self.written = 0
        self.again: dict[int, int] = {}
        self.stages: tuple[Stage, ...] = (Stage(FIRST, MANIFEST, 1),)
        self.epoch = 1
        self.closed = 0
        self.up: dict[int, tuple[int, Counts]] = {}
        self.published: dict[int, tuple[int, Counts]] = {}
        self.bits: dict[int, tuple[int, int]] = {}
        """Of a closed interval, the numbers that it lacks, and the one that the member had."""
        self.start(begun=0)

    @property
    def first(self) -> int:
        """The first interval that is expected of the member."""
        return self.place.first

    @property
    def number(self) -> int:
        return self.place.mine[-1]

    # -- the member ------------------------------------------------------------------------------------

    def start(self, *, begun: int | None = None, leaving: bool = False) -> None:
        """A new boot, with the terms that it has known; the first one begins before it has a number."""
        self.on_disk: list[Sealed] = []
        self.context = new_context(ME)
        plan = read_plan(TEXT)
        master = new_context(1).me
        copy_store = CopyStore(self.context)
        self.member = Member(self.context, MANIFEST, plan, master, 0, copy_store, self.ledger)
        if begun is not None:
            self.member.begin(begun)
        self.member.requests.leaving = leaving
        self.tell_terms()

    def tell_terms(self, *, at_once: bool = True, until: int | None = None) -> None:
        *older, newest = self.stages
        entry = RosterEntry(self.number, self.context.me, "agent-3", self.first, until)
        self.member.on_roster(
            Terms(
                manifest=newest.manifest,
                master=new_context(1).me,
                epoch=self.epoch,
                version=self.epoch,
                start=0,
                closed=self.closed,
                members=(entry,),
                effective=newest.start,
                evaluated=newest.evaluated,
                older=tuple(older),
                given_in=self.place.given_in,
            )
        )
        if at_once:
            self.obey()

    def obey(self) -> None:
        """Everything that it wants is done at once, in order."""
        while self.context.out or self.wait():
            if not self.context.out:
                continue
            effect = self.context.out.pop(0)
            if isinstance(effect, Persist) and effect.kind == "ledger":
                self.ledger = effect.data
            elif isinstance(effect, ReleaseWorker):
                self.frames.released = max(self.frames.released, effect.stop)
                self.frames.received = max(self.frames.received, effect.received)
            elif isinstance(effect, StartWorker):
                self.hand_over()
                self.begin(effect)
            elif isinstance(effect, Contribute) and effect.segment.epoch == self.epoch:
                found = {entry.interval: (entry.rev, entry.counts) for entry in effect.segment.entries}
                for index in range(effect.segment.start, effect.segment.stop):
                    rev, counts = found.get(index, (1, NOT_COUNTED))
                    if index >= self.closed and rev >= self.up.get(index, (0,))[0]:
                        self.up[index] = (rev, counts)

    def wait(self) -> bool:
        """Let what goes up again go up; whether something does."""
        waits = self.member.contributions.waiting > 0
        if waits:
            self.context.now += PACE_S
            self.context.fire()
        return waits

    # -- its worker ------------------------------------------------------------------------------------

    def say(self, start: int, stop: int, *, again: bool) -> None:
        known = {index: self.frames.kept[index] for index in range(start, stop)}
        entries = [
            SealedInterval(index, list(records(each.count)), [b"p"], each.rev)
            for index, each in known.items()
            if each.count
        ]
        (event,) = self._saying.events(start, stop, entries, known[start].evaluated)
        self.on_disk.append(replaced(event, again=again))

    def hand_over(self) -> None:
        """What is on disk is given to the member."""
        while self.on_disk:
            self.member.sealed(self.on_disk.pop(0))

    def begin(self, effect: StartWorker) -> None:
        """A worker obeys, also one whose stages are of the past: it knows of no others."""
        self._saying, self.begins = Saying(MANIFEST, effect.begun), effect.start
        self.worker = effect.stages or (Stage(FIRST, effect.manifest, effect.manifest.version),)
        self.again |= self.frames.annul(self.worker)
        for index in [each for each in self.again if each < effect.start]:
            self.written -= self.again.pop(index)  # the worker itself counts them as expired
        known = [each for interval in self.frames.kept.values() for each in interval.revisions]
        for each in sorted(known, key=lambda each: each.seq):
            if is_reported_again(each, self.frames.received, self.frames.released):
                self.member.revised(self._saying.revised(each, again=True))
        for index in sorted(self.frames.kept):
            if index >= self.frames.released:
                self.say(index, index + 1, again=True)
        self.hand_over()

    def next(self) -> int:
        """The next interval to seal: a worker seals nothing below the one that it was to begin with."""
        return max([self.begins - 1, self.frames.released - 1, *self.frames.kept]) + 1

    def seal(self, number: int) -> None:
        """More intervals of one version, or those that were annulled once more, any part of them late now."""
        start = self.next()
        evaluated = stage_at(self.worker, start).evaluated
        late = {}
        for index in range(start, start + self.rng.choice((1, 1, 2, 3))):
            if stage_at(self.worker, index).evaluated == evaluated:
                late[index] = self.rng.randint(0, self.again.get(index, 0))
                self.written += 0 if index in self.again else number
                in_time = self.again.pop(index, number) - late[index]
                first = self.frames.used.get(index, 0) + 1 if in_time else 1
                self.frames.kept[index] = Interval(evaluated, in_time, first)
        self.say(start, start + len(late), again=False)
        for _ in range(self.rng.choice((0, 0, 0, 0, 1, 2))):  # while it is written
            self.change(self.rng.randrange(3), at_once=False)
        self.hand_over()
        self.obey()
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            self.close(1)
        for index, behind in late.items():
            if index in self.again:  # annulled before they were read
                self.again[index] += behind
            elif behind:
                self.revise(index, behind)

    def late(self, back: int) -> None:
        index = self.next() - 1 - back
        if index in self.frames.kept and index >= self.frames.released and not self.again:
            self.written += 1
            self.revise(index, 1)

    def revise(self, index: int, number: int) -> None:
        known = self.frames.kept[index]
        self.frames.seq += 1
        known.rev = max(known.rev, self.frames.used.get(index, 0)) + 1
        known.count += number
        counts, added = list(records(known.count)), list(records(number))
        revised = RevisedInterval(index, known.rev, counts, [b"p"], added, self.frames.seq, known.evaluated)
        known.revisions.append(revised)
        self.member.revised(self._saying.revised(revised))
        self.obey()

    # -- its master ------------------------------------------------------------------------------------

    def close(self, inside: int) -> None:
        """The next interval is closed, with what has come of it or without."""
        if self.closed not in self.up and not self.comes_never(self.closed):
            return
        found = self.up.pop(self.closed) if self.closed in self.up and inside else (0, NOT_COUNTED)
        # A number that was not given yet when the interval was closed is not named as one that it lacks.
        lacks = [each for each in self.place.mine if each != self.number or self.closed >= self.first]
        if found[0]:
            lacks.remove(self.number)
        self.published[self.closed], self.bits[self.closed] = found, (bits(lacks), self.number)
        self.closed += 1

    def comes_never(self, index: int) -> bool:
        """The member says nothing of an interval below its first one, or that its worker has begun behind."""
        begun_behind = index not in self.frames.kept and index not in self.again
        return index < self.next() and (index < max(self.first, self.begins) or begun_behind)

    def watermark(self, _: int = 0) -> None:
        lacks = [(each, absent) for each, (absent, _) in self.bits.items() if absent]
        revised = [(each, rev) for each, (rev, _) in self.published.items() if rev > 1]
        self.member.on_watermark(
            Mark(
                MANIFEST.job_id,
                "x",
                self.epoch,
                self.epoch,
                self.closed,
                0,
                tuple(Lack(index, index + 1, bitmap_of(absent)) for index, absent in lacks),
                tuple(Revisions(index, ((self.bits[index][1], rev),)) for index, rev in revised),
            )
        )
        self.obey()

    def change(self, back: int, *, at_once: bool = True) -> None:
        """Another version from some open interval on, or an earlier one again; not while the member joins."""
        if self.closed < self.joins_at:
            return
        number = self.stages[-1].manifest.version + 1
        evaluated = self.rng.choice((number, number, self.stages[max(0, len(self.stages) - 2)].evaluated))
        manifest = replace(MANIFEST, version=number)
        boundary = max(self.closed, self.next() - back)
        self.stages = followed(self.stages, Stage(boundary, manifest, evaluated))
        self.up.clear()
        self.epoch += 1
        self.tell_terms(at_once=at_once)

    def renumber(self, ahead: int) -> None:
        """Another master gives the member its number again, or another one, for a later interval.

        It lacks the roster of the one before, unless intervals are closed by it.
        """
        first, self.epoch = max(self.first, self.next() + ahead), self.epoch + 1
        if self.closed > self.first:
            self.placed(self.place.again(first, self.epoch))
        else:
            self.before.append((self.closed, self.place))
            self.placed(self.place.lost(first, self.epoch, self.rng.choice((0, 1))))

    def lower(self, back: int) -> None:
        """A member that was evicted before its first interval comes back, to a master that has seen less."""
        if self.closed <= self.first:
            first, self.epoch = max(self.closed, self.first - back, self.member.begun), self.epoch + 1
            self.placed(self.place.again(first, self.epoch))

    def placed(self, place: Place) -> None:
        self.place = place
        self.up.clear()
        self.tell_terms()

    def found(self, _: int = 0) -> None:
        """The next master has the roster that the one before lacked, which has closed nothing by its own."""
        closed, place = self.before[-1]
        if len(self.before) > 1 and closed == self.closed:
            self.before.pop()
            self.epoch += 1
            self.placed(place)

    def restart(self, _: int = 0, *, leaving: bool = False) -> None:
        self.epoch += 1
        self.up.clear()
        self.start(leaving=leaving)

    def finish(self) -> Counts:
        """Everything is closed, and the pending corrections goes up."""
        self.rng = First(1)
        while max(self.again, default=-1) >= self.next():
            self.seal(0)
        for _ in range(3):
            self.seal(1)
            while self.closed in self.up or self.comes_never(self.closed):
                self.close(1)
            self.watermark()
        assert self.member.ledger.undecided == 0
        return tuple(map(sum, zip(*(counts for _, counts in self.published.values()), strict=True)))
