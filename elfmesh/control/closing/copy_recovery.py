"""Recovery of a dead member's contributions from the peers that keep copies of them (D-8).

Owns how often the copy hosts are asked, how long an interval waits for their answers, and how a copy is added
to the trees. The interval closer decides about the interval.

Members that the overlay has lost are asked for before a probe has found them dead.

Invariants: a copy counts only for its own member, in intervals that expect this member. No interval closes
without a dead member before the copy hosts had `ANSWER_S` to send their copies.

Paper: PPA 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from elfmesh.contribution import split, within
from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.stores.replica_buffers import IntervalStore
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.jobs.records import COUNTS_MAX
from elfmesh.control.jobs.stages import valid_until
from elfmesh.control.protocol.messages_safety import Keep, Surrender
from elfmesh.interval_map import bits, numbers
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PublishDone
from elfmesh.srt.messages import Segment
from elfmesh.srt.parts import entries_of, run_of

ASK_S, ASK_MAX_S = 0.5, 30.0
"""First and longest pause between two questions about the same interval. The pause doubles, because copy
hosts answer each question with all their copies."""

ANSWER_S = 1.0
"""Time for an answer, from the first question after a death and again from each new copy."""

GATHER_S = 0.05
"""Time for which members are collected into one question."""

PUBLISH_S = 2.0
ALIVE = float("-inf")
"""Time of death of a member that is alive and late."""

FAILURES_MAX = 10
"""Questions that could not be sent, because another agent is the root, after which no interval waits for
answers."""


@dataclass(slots=True)
class _Asked:
    """Questions after one death.

    `received_at` is the time of the first question or the newest copy, `at` that of the last question.
    """

    dead_since: float
    received_at: float
    at: float
    start: int
    pause_s: float = ASK_S
    failures: int = 0


class CopyRecovery:
    """Recovery for one job.

    Args:
        term: shared state of the term; contributions that another version has evaluated are ignored.
        straggler_policy: knows the dead members.
    """

    def __init__(self, term: ClosingTerm, straggler_policy: StragglerPolicy) -> None:
        self._context, self._stages = term.context, term.stages
        self._kept = bool(term.plan.replicas) or term.plan.standby_s is not None
        self._epoch, self._roster_epoch = term.epoch, term.roster_epoch
        self._book, self._straggler_policy = term.book, straggler_policy
        self._asked: dict[int, _Asked] = {}
        self._due: dict[int, _Asked] = {}

    @safeguard("kept-copies")
    def ask(self, missing: int, start: int, *, overdue: bool = False) -> float:
        """Ask for copies of the contributions of dead or lost members from interval `start` on.

        Args:
            missing: bit set of the members that are missing from the interval.
            start: the interval.
            overdue: whether the interval's deadline is over, so that copies stand in for living members too.

        Returns:
            The time by which the copies should have arrived; in the past if none is expected.
        """
        ready, now = float("-inf"), self._context.now
        for number in numbers(missing if self._kept else missing & self._book.ahead):
            since = self._straggler_policy.lost_since(number)
            if since is None and (overdue or self._has_left(number)):
                since = ALIVE
            if since is None:
                self._asked.pop(number, None)
                continue
            asked = self._asked.get(number)
            if asked is None or asked.dead_since != since:
                asked = self._asked[number] = _Asked(since, now + GATHER_S, float("-inf"), start)
            if asked.start != start:
                asked.start, asked.pause_s = start, ASK_S
            if now - asked.at >= asked.pause_s:
                if asked.at >= since:
                    asked.pause_s = min(2 * asked.pause_s, ASK_MAX_S)
                asked.at = now
                self._ask_soon(number, asked)
            ready = max(ready, asked.received_at + ANSWER_S)
        return ready

    def _has_left(self, number: int) -> bool:
        return bool(self._book.ahead >> number & 1)

    def received(self, members: int) -> None:
        """Wait for further answers about these members, because a part of one has arrived."""
        for number in numbers(members):
            if asked := self._asked.get(number):
                asked.received_at = self._context.now

    def _ask_soon(self, number: int, asked: _Asked) -> None:
        if not self._due:
            self._context.after(GATHER_S, self._publish)
        self._due[number] = asked

    def _publish(self) -> None:
        due, self._due = self._due, {}
        manifest, first = self._stages[-1].manifest, next(iter(due))
        start = min(asked.start for asked in due.values())
        members = bitmap_of(bits(due)) if len(due) > 1 else b""
        about = (manifest.job_id, manifest.incarnation, self._context.me, self._epoch, first, start, members)
        agents = "1 agent" if len(due) == 1 else f"{len(due)} agents"
        self._context.note("requested copies", manifest.job_id, start, start + 1, f"of {agents}")

        def answered(done: PublishDone | None) -> None:
            for asked in due.values() if done is None else ():
                if asked.failures < FAILURES_MAX:
                    asked.failures += 1
                    asked.received_at, asked.pause_s = self._context.now, ASK_S

        self._context.publish(manifest.job_id, Surrender(*about), PUBLISH_S, answered)

    def take(self, copy: Keep, payload: bytes, first: int, trees: Sequence[IntervalStore]) -> int | None:
        """Add the intervals of a copy, from `first` on, that expect its member to the trees.

        Returns:
            One past its last interval; None if it has no such interval.
        """
        entry = self._book.entry(copy.number)
        if entry is None or entry.contact.id != copy.member:
            self._context.stats["control.misplaced"] += 1
            return None
        if len(copy.parts) != len(trees) or not is_sound(copy, payload):
            self._context.stats["control.malformed"] += 1
            return None
        start = max(copy.start, first, entry.start)
        stop = copy.stop if entry.until is None else min(copy.stop, entry.until)
        stop = valid_until(self._stages, copy.evaluated, start, stop)
        if start >= stop:
            return None
        bit = 1 << copy.number
        asked = self._asked.get(copy.number)
        if asked is not None and any(not tree.everywhere(start) & bit for tree in trees):
            asked.received_at = self._context.now
        payloads = split(payload, [each.size for part in copy.parts for each in part])
        assert payloads is not None, "it is sound"
        coming = iter(payloads)
        for tree, part in zip(trees, copy.parts, strict=True):
            run = within(run_of(part, islice(coming, len(part))), start, stop)
            segment = Segment(self._roster_epoch, 0, start, stop, bitmap_of(bit), entries_of(run))
            tree.add_everywhere(segment, tuple(each.payload for each in run))
        return stop


def is_sound(copy: Keep, payload: bytes) -> bool:
    """Return whether the sizes of a copy are right and each interval of its range has at most one entry."""
    if sum(entry.size for part in copy.parts for entry in part) != len(payload):
        return False
    for part in copy.parts:
        last = copy.start - 1
        for entry in part:
            if not last < entry.interval < copy.stop or len(entry.counts) > COUNTS_MAX:
                return False
            last = entry.interval
    return True
