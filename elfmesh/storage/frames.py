"""The shapes of the frames in the frame log, and what is left of one when a part of it is void."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from elfmesh.safeguards import safeguard


class SealedInterval(NamedTuple):
    """One interval of a contribution: its index, its counts (order of BUCKETS), its partial per partition.

    `rev` is above those of what another version has said of the interval, if that was revised.
    """

    interval: int
    counts: list[int]
    payloads: list[bytes]
    rev: int = 1


class RevisedInterval(NamedTuple):
    """One interval that was sealed before and whose contribution is this one now; see `late.Revision`.

    `version` evaluates the interval; it may be an earlier one than the frame's. Without `counts` it is void.
    """

    interval: int
    rev: int
    counts: list[int]
    payloads: list[bytes]
    added: list[int]
    seq: int
    version: int


class Sealed(msgspec.Struct, frozen=True, tag="sealed", array_like=True):
    """One contribution: this job has nothing more for intervals [start, stop) than `entries`.

    What the records read so far revise goes with it, so that the positions are those of both; the range is
    empty where nothing else is sealed.

    Attributes:
        version: of the manifest by whose text the records were evaluated (`terms.Stage.evaluated`).
        positions: per source how far what is in [start, stop) or `revised` was read, beside what is
            `read_up_to`.
        restart: per source where to read from again, so that every record after `stop` is seen once more.
        counters: cumulative counts of the job at this agent.
        carried: see `tally.Carried`: what is counted in intervals from `stop` on and no replay counts.
        shed: stretches of files that were left out and are counted below `stop`.
        revised: intervals below `start` that records came late for.
        seq: revisions of the job so far, these included, and annulments.
        once: the same as `carried`, of what is counted in [start, stop).
        read_up_to: see `offsets.Told`: what lives before had counted, where they had read further.
        revs: (interval, rev): of intervals from `stop` on, or empty ones, what another version has said last.
        before: (told, restart, shed) of the frame before: what to go on from if this one is annulled.
        annuls: what earlier frames have for intervals from here on is void: another version evaluates them.
        turns: where a replay of a part of [start, stop) must look up: errors belong to the newest interval.
        newest: the interval of the newest record that was read; errors behind `positions` belong no earlier.
        owner: id of the agent, b"" of an earlier release: another one's contributions are not this one's.
        end: a frame ends with a byte that is not zero, unlike a block that was never written.
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
        """What is left of it when another version evaluates the intervals from there on."""
        return msgspec.structs.replace(
            self,
            start=min(self.start, void_from),
            stop=min(self.stop, void_from),
            entries=[entry for entry in self.entries if entry.interval < void_from],
            revised=[each if each.interval < void_from else _void(each) for each in self.revised],
            once=[each for each in self.once or () if each[0] < void_from],
        )


class Released(msgspec.Struct, frozen=True, tag="released", array_like=True):
    """Everything of a job below `stop` is closed, its revisions up to `received` are accounted for.

    No agent will ask for them again.
    """

    job: str
    stop: int
    received: int = 0
    end: bool = True


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", array_like=True):
    """The job is gone from this agent; without a name: the first frame, so that no file is ever empty."""

    job: str


Frame = Sealed | Released | Forgotten


def _void(revised: RevisedInterval) -> RevisedInterval:
    return revised._replace(counts=[], payloads=[], added=[0] * len(revised.added))
