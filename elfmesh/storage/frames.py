"""The types of frames in the frame log, and the rest of a frame after an annulment."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from elfmesh.safeguards import safeguard


class SealedInterval(NamedTuple):
    """One interval of a contribution: index, counts (in the order of BUCKETS), one partial per partition.

    `rev` is higher than the revisions of the interval by other versions, if there are any.
    """

    interval: int
    counts: list[int]
    payloads: list[bytes]
    rev: int = 1


class RevisedInterval(NamedTuple):
    """One interval that was sealed before, with its new contribution; see `late.Revision`.

    `version` is the version that evaluates the interval; it may be earlier than that of the frame. Without
    `counts` the revision is void.
    """

    interval: int
    rev: int
    counts: list[int]
    payloads: list[bytes]
    added: list[int]
    seq: int
    version: int


class Sealed(msgspec.Struct, frozen=True, tag="sealed", array_like=True):
    """One contribution: the job has no records for the intervals [start, stop) other than those in `entries`.

    The frame also contains revisions of earlier intervals by the records read so far, so that the positions
    belong to both. The range is empty if no interval is sealed.

    Attributes:
        version: version of the manifest with whose text the records were evaluated (`terms.Stage.evaluated`).
        positions: source positions up to which [start, stop) and `revised` were read, besides `read_up_to`.
        restart: source positions from which to read again, so that every record after `stop` is read once
            more.
        counters: cumulative counts of the job at this agent.
        carried: see `tally.Carried`: counts of intervals from `stop` on that a replay does not count.
        shed: ranges of files that were skipped and are counted below `stop`.
        revised: intervals below `start` that late records have changed.
        seq: number of revisions and annulments of the job so far, including those of this frame.
        once: the same as `carried` for counts in [start, stop).
        read_up_to: see `offsets.Told`: what earlier boots had counted, if they had read further.
        revs: (interval, rev) of intervals from `stop` on, or empty ones: the last revision by another
            version.
        before: (told, restart, shed) of the previous frame: where to continue if this frame is annulled.
        annuls: contents of earlier frames for intervals from this one on are void, because another version
            evaluates them.
        turns: where a replay of a part of [start, stop) must look up; errors belong to the newest interval.
        newest: interval of the newest record that was read; errors after `positions` do not belong to earlier
            ones.
        owner: id of the agent, b"" of an earlier release; contributions of other agents are refused.
        end: makes a frame end with a byte that is not zero, unlike a block that was never written.
    """

    job: str
    version: int
    start: int
    stop: int
    entries: list[SealedInterval] = []
    positions: Any = None
    restart: Any = None
    counters: Any = None
    carried: Any = None
    shed: Any = None
    revised: list[RevisedInterval] = []
    seq: int = 0
    once: Any = None
    read_up_to: Any = None
    revs: list[tuple[int, int]] = []
    before: Any = None
    annuls: int | None = None
    turns: Any = None
    newest: int | None = None
    owner: bytes = b""
    end: bool = True

    @safeguard("annulled-parts")
    def below(self, void_from: int) -> Sealed:
        """Return the rest of the frame when another version evaluates the intervals from `void_from` on."""
        return msgspec.structs.replace(
            self,
            start=min(self.start, void_from),
            stop=min(self.stop, void_from),
            entries=[entry for entry in self.entries if entry.interval < void_from],
            revised=[each if each.interval < void_from else _void(each) for each in self.revised],
            once=[each for each in self.once or () if each[0] < void_from],
        )


class Released(msgspec.Struct, frozen=True, tag="released", array_like=True):
    """All intervals of a job below `stop` are closed, and its revisions up to `received` are accounted for.

    No agent will request them again.
    """

    job: str
    stop: int
    received: int = 0
    end: bool = True


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", array_like=True):
    """The job was removed from this agent. Without a name: the first frame, so that no file is ever empty."""

    job: str


Frame = Sealed | Released | Forgotten


def _void(revised: RevisedInterval) -> RevisedInterval:
    return revised._replace(counts=[], payloads=[], added=[0] * len(revised.added))
