"""What a dead member contributed, fetched from the peers that keep it (D-8).

Owns how often they are asked and how long an interval waits for them, and the step from a copy to the trees.
What becomes of the interval is the closer's business.

Invariants: a copy counts only for the member that it is of, in intervals that this member is expected in; no
interval ends without a dead member before its copy hosts had `ANSWER_S` to say what they have.

Paper: PPA 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from elfmesh.contribution import split, within
from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.partial_store import PartialStore
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.jobs.records import BUCKETS
from elfmesh.control.jobs.stages import valid_until
from elfmesh.control.protocol.messages_safety import Keep, Surrender
from elfmesh.interval_map import bits, numbers
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PublishDone
from elfmesh.srt.messages import Segment
from elfmesh.srt.parts import entries_of, run_of

ASK_S, ASK_MAX_S = 0.5, 30.0
"""Pauses between two questions for the same interval double: copy hosts answer each with all they have."""

ANSWER_S = 1.0
"""How long copy hosts have, from the first question after a death and again from each copy that was news."""

GATHER_S = 0.05
"""How long the members to ask for are gathered for one question."""

PUBLISH_S = 2.0
ALIVE = float("-inf")
"""Instead of the moment of a death: a member that lives and is late."""

FAILURES_MAX = 10
"""Questions that could not be asked, because another agent is the root, before no interval waits for
answers."""


@dataclass(slots=True)
class _Asked:
    """The questions after one death: when they began or brought news, the last one, and what it was about."""

    dead_since: float
    received_at: float
    at: float
    start: int
    pause_s: float = ASK_S
    failures: int = 0


class CopyRecovery:
    """Fetches for one job.

    Args:
        term: what the parts of the term share; what another version has evaluated counts for no member.
        straggler_policy: knows who is dead.
    """

    def __init__(self, term: ClosingTerm, straggler_policy: StragglerPolicy) -> None:
        self._context, self._stages, self._replicas = term.context, term.stages, term.plan.replicas
        self._epoch, self._book, self._straggler_policy = term.epoch, term.book, straggler_policy
        self._asked: dict[int, _Asked] = {}
        self._due: dict[int, _Asked] = {}

    @safeguard("kept-copies")
    def ask(self, missing: int, start: int, *, overdue: bool = False) -> float:
        """An interval lacks these members: ask who keeps contributions of the dead among them.

        Args:
            missing: bit set of the members.
            start: the interval.
            overdue: its deadline is over: of the living, too, what their neighbours have stands in for them.

        Returns:
            When what is kept of them should be here; in the past if nothing is awaited.
        """
        ready, now = float("-inf"), self._context.now
        for number in numbers(missing) if self._replicas else ():
            since = self._straggler_policy.dead_since(number)
            if since is None and overdue:
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

        def answered(done: PublishDone | None) -> None:
            for asked in due.values() if done is None else ():
                if asked.failures < FAILURES_MAX:
                    asked.failures += 1
                    asked.received_at, asked.pause_s = self._context.now, ASK_S

        self._context.publish(manifest.job_id, Surrender(*about), PUBLISH_S, answered)

    def take(self, copy: Keep, payload: bytes, first: int, trees: Sequence[PartialStore]) -> int | None:
        """Count a copy as far as it is of intervals from `first` on in which its member is expected.

        Returns:
            One past its last interval; None if nothing of it is wanted.
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
            segment = Segment(self._epoch, 0, start, stop, bitmap_of(bit), entries_of(run))
            tree.add_everywhere(segment, tuple(each.payload for each in run))
        return stop


def is_sound(copy: Keep, payload: bytes) -> bool:
    """Whether a copy agrees with itself: sizes, and at most one entry for each interval of its range."""
    if sum(entry.size for part in copy.parts for entry in part) != len(payload):
        return False
    for part in copy.parts:
        last = copy.start - 1
        for entry in part:
            if not last < entry.interval < copy.stop or len(entry.counts) > len(BUCKETS):
                return False
            last = entry.interval
    return True
