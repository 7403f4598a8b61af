"""Decisions about open intervals: which run of intervals ends, in which state, and whether it has a record.

The functions are pure. The sources of intervals collect the arguments; `Closer` and `Stragglers` carry out
the decisions.

Invariants: a decision names every member as missing whose contribution is not inside (I3). The state of a run
with missing members is not FINAL.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.closing.stores.partial_store import HELD_BYTES_MAX
from elfmesh.control.closing.straggler_policy import HORIZON_S, SKIP_AGAIN_S
from elfmesh.control.jobs.records import State
from elfmesh.control.upstream.buffer import UpstreamPiece

OVERFULL = "too much is held for members that are behind; not waiting any longer"


@dataclass(frozen=True, slots=True)
class Decision:
    """Consecutive intervals with the same decision; the record, if any, is that of the last interval.

    Attributes:
        start: the first interval.
        stop: one past the last interval.
        has_record: whether a member has records for the last interval, or a member is missing from the run.
        required: members that are expected.
        missing: expected members that are not inside.
        state: state of the record.
        torn: members that are inside some of the job's trees and not inside others.
        since: the first interval that the record represents; None: only its own.
        outside: all roster numbers that are not inside, including agents that are not expected.
        pieces: input of the record, for a job that reads jobs.
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
    """Return the run of intervals of members that ends now; None if it has to wait.

    Args:
        start: the first interval that is not decided.
        stop: one past the last interval with the same coverage.
        first: the first of these intervals for which a member has records; None if there is none.
        state: state of the run with respect to missing members.
        settled: whether `first` has all its revisions and inputs.
        required: members that are expected.
        missing: expected members that are not inside.
        failed: members whose contributions cannot be merged.
        torn: members that are inside some of the trees at `first` and not inside others.
        outside: all roster numbers that are not inside.
    """
    if first is not None and not settled:
        if first == start:
            return None
        stop, first = first, None  # the intervals before it have no records
    if first is not None and first > start and required & torn & ~missing:
        stop, first = first, None  # only torn members are missing, and only at `first`
    if first is None:
        torn = 0
    else:
        stop = first + 1
    if out := required & (failed | torn):
        missing, state = missing | out, "FINAL_PARTIAL" if state == "FINAL" else state
    has_record, since = first is not None or missing != 0, start if missing and start < stop - 1 else None
    return Decision(start, stop, has_record, required, missing, state, torn, since, outside)


@dataclass(frozen=True, slots=True)
class LateDecision:
    """Decision about an interval with missing members.

    Attributes:
        state: state of its record; None: it waits.
        again_at: until when it waits.
        problem: error to report.
    """

    state: State | None
    again_at: float
    problem: str = ""


def decide_late(
    *,
    now: float,
    due_since: float,
    state: State | None,
    again_at: float,
    held_up: bool,
    copies_at: float,
    held_bytes: int,
) -> LateDecision:
    """Decide about an interval with missing members.

    Args:
        now: the time.
        due_since: when the first member passed the interval.
        state: decision of the straggler policy; None: wait.
        again_at: when the policy has to decide again.
        held_up: whether contributions that the missing members have sealed may be on their way.
        copies_at: until when peers may send copies of missing members' contributions, and sites their parts.
        held_bytes: size of the payloads that are held for open intervals.
    """
    # A skip requires that the members themselves are late, not only their messages.
    if state == "SKIPPED" and held_up and now - due_since < HORIZON_S:
        state, again_at = None, now + SKIP_AGAIN_S
    if state == "FINAL_PARTIAL" and now < copies_at:
        state, again_at = None, copies_at
    if state is None and held_bytes > HELD_BYTES_MAX:
        return LateDecision("FINAL_PARTIAL", again_at, OVERFULL)
    return LateDecision(state, again_at)
