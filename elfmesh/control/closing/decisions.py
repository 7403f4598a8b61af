"""What is decided about open intervals: which run of them ends now, how, and whether it leaves a record.

Pure: every function decides from its arguments alone, sends nothing and changes nothing. The sources of
intervals collect the arguments; `Closer` and `Stragglers` carry the decisions out.

Invariants: a member whose contribution is not inside is named as missing (I3); a run that names one is not
FINAL.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.closing.partial_store import HELD_BYTES_MAX
from elfmesh.control.closing.straggler_policy import HORIZON_S, SKIP_AGAIN_S
from elfmesh.control.jobs.records import State
from elfmesh.control.upstream.buffer import UpstreamPiece

OVERFULL = "too much is held for members that are behind; not waiting any longer"


@dataclass(frozen=True, slots=True)
class Decision:
    """Consecutive intervals that are decided alike; the last of them leaves the record, if there is one.

    Attributes:
        start: the first.
        stop: one past the last.
        has_record: whether a member has records for the last one, or a member is missing from the run.
        required: members that are expected.
        missing: those of them that are not inside.
        state: how the run ends.
        torn: members that are inside some of the job's trees and not others.
        since: the first interval that the record stands for, None if it stands for its own only.
        outside: all numbers that are not inside, also of agents that are not expected.
        pieces: what the record is made of, for a job that reads jobs.
    """

    start: int
    stop: int
    has_record: bool
    required: int = 0
    missing: int = 0
    state: State = "FINAL"
    torn: int = 0
    since: int | None = None
    outside: int = 0
    pieces: tuple[UpstreamPiece, ...] = ()

    @property
    def index(self) -> int:
        return self.stop - 1


def decide(
    start: int,
    stop: int,
    first: int | None,
    state: State,
    *,
    settled: bool,
    required: int,
    missing: int,
    failed: int,
    torn: int,
    outside: int = 0,
) -> Decision | None:
    """The run of intervals of members that ends now, None if it has to wait.

    Args:
        start: the first interval that is not decided.
        stop: one past the last interval that is covered like it.
        first: the first of these that a member has records for, None if there is none.
        state: how the run ends, as far as members are missing.
        settled: whether `first` has all its revisions and inputs.
        required: members that are expected.
        missing: those of them that are not inside.
        failed: members whose contributions cannot be merged.
        torn: members that are inside some of the trees at `first` and not others.
        outside: all numbers that are not inside.
    """
    if first is not None and not settled:
        if first == start:
            return None
        stop, first = first, None  # what is before has no records
    if first is not None and first > start and required & torn & ~missing:
        stop, first = first, None  # no other member is missing from what is before
    if first is None:
        torn = 0
    else:
        stop = first + 1
    if out := required & (failed | torn):
        missing, state = missing | out, "FINAL_PARTIAL" if state == "FINAL" else state
    has_record, since = first is not None or missing != 0, start if missing and start < stop - 1 else None
    return Decision(start, stop, has_record, required, missing, state, torn, since, outside)


@dataclass(frozen=True, slots=True)
class MissingMembers:
    """What is known of an interval that lacks members.

    Attributes:
        now: the time.
        due_since: when a member was first seen beyond the interval.
        state: how the straggler policy has it end, None: it waits.
        again_at: when the policy wants to be asked again.
        held_up: whether what the missing have sealed may be on its way.
        copies_at: until when peers may send what the dead have contributed.
        held_bytes: payloads that are held for open intervals.
    """

    now: float
    due_since: float
    state: State | None
    again_at: float
    held_up: bool = False
    copies_at: float = float("-inf")
    held_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LateDecision:
    """What becomes of an interval that lacks members.

    Attributes:
        state: how it ends, None: it waits.
        again_at: until when it waits.
        problem: what people learn of it.
    """

    state: State | None
    again_at: float
    problem: str = ""


def decide_late(known: MissingMembers) -> LateDecision:
    """What becomes of an interval that lacks members."""
    state, again_at = known.state, known.again_at
    # The missing have to be behind themselves, and not only held up on the way to us.
    if state == "SKIPPED" and known.held_up and known.now - known.due_since < HORIZON_S:
        state, again_at = None, known.now + SKIP_AGAIN_S
    if state == "FINAL_PARTIAL" and known.now < known.copies_at:
        state, again_at = None, known.copies_at
    if state is None and known.held_bytes > HELD_BYTES_MAX:
        return LateDecision("FINAL_PARTIAL", again_at, OVERFULL)
    return LateDecision(state, again_at)
