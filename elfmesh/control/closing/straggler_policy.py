"""Who of the missing is dead, who is slow: what a master does about members an interval waits for.

Owns probes and their answers, and how long a slow member is waited for. Closes nothing itself.

Invariants: no member is called dead without an answer to a probe; the alive are waited for until the job's
own rule or the horizon says otherwise; silence of the whole overlay changes nothing (nothing is due then).

Paper: ELF 3, stragglers ("leaping straggler"). Deviation: the master judges by what it has seen and probed,
not a parent by a threshold of two intervals, because coverage is complete only at the root (D-6, D-11).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elfmesh.control.closing.partial_store import PartialStore, newest_in_all
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import State
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.interval_map import numbers
from elfmesh.overlay.events import ProbeDone

PROBES_MAX = 64
"""Probes of one job at a time; others wait for one of these to end, because a dead rack must not become a
storm. A probe of a dead agent takes about a second: with 8 at a time, 50 dead agents took 5 s."""

PROBE_AGAIN_S = 5.0
"""How long an answer that a member is alive is believed while it is waited for."""

HORIZON_S = 60.0
"""How long an alive member without any progress is waited for, unless the job says otherwise."""

SKIP_AGAIN_S = 0.05
"""How soon a decision to skip is looked at again that may only lack what is on its way."""

GONE_S = 1.0
"""How long a dead member has to come back from when it was missed: what a restart takes."""

LEAD_S = 1.0
LEAD_SHARE = 0.75
"""So long before the deadline, at most this share of it, a job that skips asks after who is missing: what is
asked and hastened then has its answer when the deadline is over, and the decision waits for nothing."""


@dataclass(slots=True)
class _Known:
    """What is known of one member that is waited for."""

    frontier: int
    progress_at: float
    asked_at: float | None = None
    answered_at: float | None = None


class StragglerPolicy:
    """Decides what becomes of an interval that lacks a member.

    Args:
        context: clock and probes.
        book: the roster.
        on_straggler: the job's rule.
        deadline_s: how long a due interval waits before a member is probed.
        again: called when there is something new to decide.
        horizon_s: how long beyond the deadline an interval may be corrected, whichever member makes progress;
            None: `HORIZON_S` without progress for the living, `GONE_S` for the dead.

    Attributes:
        lead_s: so long before the deadline the missing are asked after; 0 if the job does not skip.
    """

    def __init__(
        self,
        context: Context,
        book: RosterBook,
        on_straggler: str,
        deadline_s: float,
        again: Callable[[], None],
        *,
        horizon_s: float | None = None,
    ) -> None:
        self._context, self._book, self._again = context, book, again
        self._skip = on_straggler == "skip"
        self._deadline_s = deadline_s
        self.lead_s = min(LEAD_S, LEAD_SHARE * deadline_s) if self._skip else 0.0
        self._horizon_s = HORIZON_S if horizon_s is None else horizon_s
        self._bound_s = None if horizon_s is None else deadline_s + horizon_s
        gone_s = GONE_S if horizon_s is None else horizon_s
        self._gone_s = deadline_s if self._skip else deadline_s + gone_s
        self._dead: dict[int, float] = {}
        self._known: dict[int, _Known] = {}
        self._probing = 0
        self._unprobed: dict[int, None] = {}

    @property
    def dead(self) -> tuple[int, ...]:
        return tuple(self._dead)

    def dead_since(self, number: int) -> float | None:
        """Since when a member is known to be dead, None if it is not."""
        return self._dead.get(number)

    def seen(self, mask: int) -> None:
        """Something new came from these members: they live, unless it was sent before they died."""
        for number in list(self._dead):
            if mask >> number & 1:
                self.revive(number)
                self.suspect(number)

    def revive(self, number: int) -> None:
        self._dead.pop(number, None)
        self._known.pop(number, None)

    def lost_sight(self, agent: bytes) -> None:
        entry = self._book.of(agent)
        if entry is not None:
            self.suspect(entry.number)

    def suspect(self, number: int) -> None:
        """A member may be dead: probe it now, so that a due interval need not."""
        if number not in self._dead:
            known = self._known.setdefault(number, _Known(-(2**62), self._context.now))
            if known.asked_at is None or self._context.now - known.asked_at > self._deadline_s:
                self._probe(number, known)

    def forget(self, number: int) -> None:
        self.revive(number)

    def lost(self, required: int, interval: int, trees: Sequence[PartialStore]) -> int:
        """Whom the newest collection of an interval lacks, if all of them are dead; 0 otherwise.

        What the dead had is in no newer collection than the one they answered to, and who came since is in no
        older one: these are never inside together, however long the living are waited for.
        """
        lacks = required & ~newest_in_all(trees, interval)
        return 0 if any(number not in self._dead for number in numbers(lacks)) else lacks

    def decide(
        self, missing: int, due_since: float, frontier: Callable[[int], int]
    ) -> tuple[State | None, float]:
        """What becomes of an interval that these members are missing from, or None and when to ask again.

        Args:
            missing: bit set of the members.
            due_since: when the interval was first passed by another.
            frontier: first interval that lacks the member of a number.
        """
        now = self._context.now
        members = numbers(missing)
        waited = [number for number in members if number not in self._dead]
        # The dead have their time to come back from when they were missed; not again for every interval.
        missed_since = max(min(due_since, self._dead.get(number, due_since)) for number in members)
        over_at = missed_since + self._deadline_s
        if now < over_at - self.lead_s:
            return None, over_at - self.lead_s
        if now < over_at and not (self._skip and waited):
            return None, over_at
        if not waited:
            gone = missed_since + self._gone_s
            return ("FINAL_PARTIAL", now) if now >= gone else (None, gone)
        answered, over = True, True
        for number in waited:
            known = self._known.get(number)
            position = frontier(number)
            if known is None or position > known.frontier:
                asked, received = (known.asked_at, known.answered_at) if known else (None, None)
                known = self._known[number] = _Known(position, now, asked, received)
            self._ask_again(number, known, due_since)
            answered &= known.answered_at is not None and known.answered_at >= due_since
            over &= now - max(known.progress_at, due_since) >= self._horizon_s
        if now < over_at:
            return None, over_at
        if answered and self._skip:
            return "SKIPPED", now
        bound = float("inf") if self._bound_s is None else due_since + self._bound_s
        if (answered and over) or now >= bound:
            return "FINAL_PARTIAL", now
        return None, min(bound, now + min(max(self._deadline_s, 0.05), 1.0))

    def _ask_again(self, number: int, known: _Known, due_since: float) -> None:
        now = self._context.now
        stale = known.asked_at is None or known.asked_at < due_since or now - known.asked_at >= PROBE_AGAIN_S
        if stale:
            self._probe(number, known)

    def _probe(self, number: int, known: _Known) -> None:
        entry = self._book.entry(number)
        if entry is None:
            return
        if self._probing >= PROBES_MAX:
            self._unprobed[number] = None
            return
        known.asked_at = self._context.now
        self._probing += 1
        self._context.probe(entry.contact, lambda done: self._probed(number, done))

    def _probed(self, number: int, done: ProbeDone | None) -> None:
        self._probing -= 1
        while self._unprobed and self._probing < PROBES_MAX:
            waiting = next(iter(self._unprobed))
            del self._unprobed[waiting]
            self.suspect(waiting)
        known = self._known.get(number)
        if known is None or done is None:
            return
        known.answered_at = self._context.now
        if not done.alive:
            self._dead[number] = self._context.now
        self._again()
