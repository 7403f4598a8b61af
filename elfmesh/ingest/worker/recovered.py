"""Recovery of one job from its frames, after a restart or after a change of its versions.

Intervals that were sealed by another version than theirs are not reported again; they are computed again from
the positions of the frame before them. Intervals that were sealed by the right version are reported again in
their newest revision. No revision of an interval is ever used twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from elfmesh.control.jobs.records import FIRST, NOT_COUNTED, SOURCE_GAP
from elfmesh.control.jobs.stages import valid_until
from elfmesh.control.jobs.terms import Stage
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.worker.offsets import ReadUpTo, furthest
from elfmesh.ingest.worker.saying import newest
from elfmesh.ingest.worker.tally import Carried
from elfmesh.safeguards import safeguard
from elfmesh.storage.framelog import FrameLog
from elfmesh.storage.frames import Frame, RevisedInterval, Sealed, SealedInterval

DAMAGED_END = "the end of the frame log was damaged: its records are read again if possible"
GAPS_REPORTED = 3
"""Number of the newest losses of sources that are reported with path and cause."""


@dataclass(frozen=True, slots=True)
class RecoveredRange:
    """Part of a frame that must be reported (again)."""

    evaluated: int
    start: int
    stop: int
    entries: list[SealedInterval]


@dataclass(slots=True)
class Recovered:
    """State of a job from its frames.

    Attributes:
        last: the frame after which the job continues; None for a new job.
        ranges: ranges to report again, oldest first.
        revised: revisions that may not be accounted for; reported before `ranges`.
        entries: intervals that are not released, in their newest revision, which late records may revise.
        floor: all intervals below it are closed.
        frames: frames that the frame log must contain before anything else of the job happens.
        lost: description of the loss by damage of the frame log.
        carried: counts of a job without a frame for the first interval that it seals.
    """

    last: Sealed | None = None
    ranges: list[RecoveredRange] = field(default_factory=list)
    revised: list[RevisedInterval] = field(default_factory=list)
    entries: list[SealedInterval] = field(default_factory=list)
    floor: int = FIRST
    frames: list[Frame] = field(default_factory=list)
    lost: tuple[str, ...] = ()
    carried: tuple[Carried, ...] = ()


def recover(frames: FrameLog, key: str, start: int, stages: Sequence[Stage], partitions: int) -> Recovered:
    """Recover a job from the frame log.

    From `start` on, everything sealed that is not released: released frames are closed, so their ranges are
    said to be empty; contributions that a damaged frame took are a source gap in the last interval of each.
    Other damage is a source gap in the first open interval. A frame declares it before the job continues,
    because a crash must not lose the gap and another start of the worker must not repeat it.
    Before `start`, what was closed meanwhile, with or without this agent.
    """
    found, undeclared = Recovered(frames.last(key)), frames.undeclared(key)
    if undeclared and frames.recovery.rotten:
        found.lost = (DAMAGED_END,)
    if found.last is None:
        if undeclared:  # it may have had frames there
            found.carried = ((None, FIRST, tuple(_lost(start, partitions).counts)),)
        return found
    released = frames.released(key)
    found.floor = FIRST if released is None else released
    kept = list(frames.unreleased(key))
    annulled, at = _annulled(kept, stages, found.floor)
    if annulled:
        found.last = _rewound(annulled, at)
        kept = [*kept[: -len(annulled)], *(frame.below(at) for frame in annulled)]
    if undeclared:
        stop = found.last.stop
        counts = tuple(_lost(stop, partitions).counts)
        # A frame that annuls all frames of a founding member ends before the job's first interval.
        lost = (None if stop == FIRST else stop, FIRST, counts)
        found.last = _declaring(lost, found.last, annuls=at if annulled else None)
    if annulled or undeclared:
        found.frames = [found.last]
    received = frames.received(key)
    revised = (each for frame in kept for each in frame.revised)
    found.revised = [each for each in revised if is_reported_again(each, received, found.floor)]
    _say(found, kept, start, _holes(frames, key, start), partitions)
    return found


def is_reported_again(revised: RevisedInterval, received: int, floor: int) -> bool:
    """Return whether the counts that a revision added must be reported again.

    From `floor` on it is unknown which revision is included, because that is only in memory. Below it,
    revisions up to `received` are accounted for.
    """
    return bool(revised.counts) and (revised.interval >= floor or revised.seq > received)


def _say(
    found: Recovered, kept: Sequence[Sealed], start: int, holes: Mapping[int, int], partitions: int
) -> None:
    assert found.last is not None
    revised = {each.interval: each for frame in kept for each in frame.revised if each.counts}
    cursor = start
    for frame in kept:
        reported = newest(frame, revised)
        found.entries += reported
        if frame.start < start:
            before = [entry for entry in reported if found.floor <= entry.interval < start]
            if before:
                found.ranges.append(
                    RecoveredRange(frame.version, frame.start, min(frame.stop, start), before)
                )
        if frame.stop <= cursor:
            continue
        if frame.start > cursor:
            lost = [_lost(frame.start - 1, partitions)] if frame.start in holes else []
            found.ranges.append(RecoveredRange(frame.version, cursor, frame.start, lost))
            cursor = frame.start
        entries = [entry for entry in reported if entry.interval >= cursor]
        found.ranges.append(RecoveredRange(frame.version, cursor, frame.stop, entries))
        cursor = frame.stop
    if cursor < found.last.stop:
        found.ranges.append(RecoveredRange(found.last.version, cursor, found.last.stop, []))
    found.lost += tuple(
        f"intervals {first} to {stop - 1} were lost with a damaged part of the frame log"
        for stop, first in sorted(holes.items())[-GAPS_REPORTED:]
    )


def _annulled(kept: Sequence[Sealed], stages: Sequence[Stage], settled: int) -> tuple[list[Sealed], int]:
    for place, frame in enumerate(kept):
        at = valid_until(stages, frame.version, max(frame.start, settled), frame.stop)
        if at < frame.stop:
            return list(kept[place:]), at
    return [], 0


def _rewound(annulled: Sequence[Sealed], at: int) -> Sealed:
    """Return the frame after which the job continues if all intervals from `at` on are computed again.

    Counts that a replay does not repeat are counted again in the same interval, unless it is computed again.
    Intervals below `at` contain the records up to the positions of these frames.
    """
    first, last = annulled[0], annulled[-1]
    earlier, restart, shed = first.before or ((), first.restart, first.shed)
    before = [(to, min(of, at)) for to, of in msgspec.convert(earlier, tuple[ReadUpTo, ...])]
    read_up_to = furthest([*before, *(each for frame in annulled for each in read_up_to_by(frame, at))])
    starts, known = positions_of(restart), [to for to, _ in before]
    once = [each for frame in annulled for each in msgspec.convert(frame.once or (), list[Carried])]
    carried = [*once, *msgspec.convert(last.carried or (), list[Carried])]
    return Sealed(
        first.job,
        first.version,
        at,
        at,
        positions=(),
        restart=(
            *(_known(position, read_up_to) for position in starts),
            *_appeared(read_up_to, [*starts, *known]),
        ),
        counters=last.counters,
        carried=[each for each in carried if (each[0] is None or each[0] >= at) and each[1] < at],
        shed=shed if at <= first.start else first.shed,
        seq=last.seq + 1,
        read_up_to=read_up_to,
        revs=sorted(_revs_used(annulled, at).items()),
        annuls=at,
        turns=list(positions_of(first.turns)),
        newest=last.newest,
    )


def _declaring(lost: Carried, last: Sealed, annuls: int | None) -> Sealed:
    """Return an empty frame after which the job continues, and which declares a loss."""
    return msgspec.structs.replace(
        last,
        start=last.stop,
        entries=[],
        revised=[],
        once=None,
        annuls=annuls,
        carried=[*(last.carried or ()), lost],
    )


@safeguard("revisions-on")
def _revs_used(annulled: Sequence[Sealed], at: int) -> dict[int, int]:
    revs = dict(annulled[-1].revs)
    for frame in annulled:
        reported = [(entry.interval, entry.rev) for entry in frame.entries if entry.rev > 1]
        reported += [(each.interval, each.rev) for each in frame.revised]
        for interval, rev in reported:
            revs[interval] = max(rev, revs.get(interval, 1))
    return {interval: rev for interval, rev in revs.items() if interval >= at}


@safeguard("told-below")
def read_up_to_by(frame: Sealed, below: int) -> tuple[ReadUpTo, ...]:
    """Return how far the records of intervals below `below` were read, in a frame and its predecessors."""
    read_up_to = msgspec.convert(frame.read_up_to or (), tuple[ReadUpTo, ...])
    here = ((position, min(frame.stop, below)) for position in positions_of(frame.positions))
    return furthest([*((to, min(of, below)) for to, of in read_up_to), *here])


def _known(position: FilePosition, read_up_to: Sequence[ReadUpTo]) -> FilePosition:
    """Return a position in a file that was empty then, with the identity that the file has now.

    Without the identity, records of the file that are sealed would be counted again.
    """
    since = {to.key: to for to, _ in read_up_to if to.id == position.id}
    if position.head or len(since) != 1:
        return position
    return next(iter(since.values())).at(position.offset)


def _appeared(read_up_to: Sequence[ReadUpTo], before: Sequence[FilePosition]) -> tuple[FilePosition, ...]:
    """Return the beginnings of files first read in annulled frames, with their present identities."""
    ids = {position.id for position in before}
    new = {to.key: to for to, _ in read_up_to if to.id not in ids}
    names = Counter(to.id for to in new.values())
    return tuple(to.at(0) for to in new.values() if names[to.id] == 1)


def positions_of(raw: object) -> tuple[FilePosition, ...]:
    return msgspec.convert(raw or (), tuple[FilePosition, ...])


def _holes(frames: FrameLog, key: str, start: int) -> dict[int, int]:
    released = frames.released(key)
    floor = start if released is None else max(released, start)
    holes = frames.recovery.holes.get(key, ())
    return {stop: max(floor, first or floor) for first, stop in holes if stop > floor}


def _lost(interval: int, partitions: int) -> SealedInterval:
    counts = list(NOT_COUNTED)
    counts[SOURCE_GAP] = 1
    return SealedInterval(interval, counts, [b""] * partitions)
