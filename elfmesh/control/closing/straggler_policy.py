"""Straggler policy: which missing members are dead, which are slow, and how long an interval waits for them.

Owns the probes and their results. Closes no interval.

Invariants: a member counts as dead only after a probe has failed. An interval waits for living members until
the job's rule or the horizon ends it. An outage of the whole overlay changes nothing, because no interval is
due then.

Paper: ELF 3, stragglers ("leaping straggler"). Deviation: the master decides from coverage and probes, and
not a parent by a threshold of two intervals, because coverage is complete only at the root (D-6, D-11).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elfmesh.control.closing.stores.replica_buffers import IntervalStore, newest_in_all
from elfmesh.control.context import Context
from elfmesh.control.jobs.records import State
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.interval_map import numbers
from elfmesh.overlay.events import ProbeDone

PROBES_MAX = 64
"""Maximum number of concurrent probes of one job, because the failure of a rack must not flood the network.
A probe of a dead agent takes about a second: with 8 at a time, 50 dead agents took 5 s."""

PROBE_AGAIN_S = 5.0
"""Time for which a successful probe of a missing member is valid."""

HORIZON_S = 60.0
"""Time for which an interval waits for a living member without progress, unless the job has its own."""

SKIP_AGAIN_S = 0.05
"""Delay of a decision to skip if contributions may be on their way."""

GONE_S = 1.0
"""Time for a dead member to return, from when it was first missing; a restart takes about as long."""

RESTART_S = 15.0
"""Time for a member to return that has said good-bye: it is started again, unless it has left the job. The
time that an agent takes to stop passes before."""

LEAD_S = 1.0
LEAD_SHARE = 0.75
"""Time before the deadline, at most this share of it, at which a job that skips probes the missing members
and sends flush orders, so that the answers have arrived when the deadline is over."""


@dataclass(slots=True)
class _Known:
    """State of one missing member; `asked_at`, `answered_at`: times of the last probe and its result."""

    frontier: int
    progress_at: float
    asked_at: float | None = None
    answered_at: float | None = None


class StragglerPolicy:
    """Straggler policy of one job.

    Args:
        context: clock and probes.
        book: the roster.
        on_straggler: the job's rule.
        deadline_s: time for which a due interval waits before a member is probed.
        again: called when a decision may have changed.
        horizon_s: maximum time after the deadline for which an interval waits, whatever progress members
            make; None: `HORIZON_S` without progress for living members, `RESTART_S` for those that
            have said good-bye, `GONE_S` for dead ones.

    Attributes:
        lead_s: time before the deadline at which missing members are probed; 0 if the job does not skip.
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
        dead_s = 0.0 if self._skip else horizon_s
        self._restart_s = deadline_s + (RESTART_S if dead_s is None else dead_s)
        self._gone_s = deadline_s + (GONE_S if dead_s is None else dead_s)
        self._dead: dict[int, float] = {}
        self._restarting: dict[int, None] = {}
        self._missed: dict[int, float] = {}  # since when the members are missing that were missing last
        self._known: dict[int, _Known] = {}
        self._probing = 0
        self._unprobed: dict[int, None] = {}

    @property
    def dead(self) -> tuple[int, ...]:
        return tuple(self._dead)

    def dead_since(self, number: int) -> float | None:
        """Return since when a member is known to be dead; None if it is not."""
        return self._dead.get(number)

    def lost_since(self, number: int) -> float | None:
        """Return since when a member is dead, or the overlay has lost it; None: neither.

        A probe may still find it alive, half a second later. What standbys and copy hosts have of it is
        requested meanwhile, because a needless request costs one multicast and makes no record wrong.
        """
        since, entry = self._dead.get(number), self._book.entry(number)
        return self._context.gone_since(entry.contact.id) if since is None and entry is not None else since

    def seen(self, mask: int) -> None:
        """Handle contributions of these members: they are alive, unless they died after sending them."""
        self._missed = {number: at for number, at in self._missed.items() if not mask >> number & 1}
        for number in list(self._dead):
            if mask >> number & 1:
                self.revive(number)
                self.suspect(number)

    def revive(self, number: int) -> None:
        self._dead.pop(number, None)
        self._restarting.pop(number, None)
        self._known.pop(number, None)

    def resumed(self) -> None:
        """Restart the time that dead members have, because members of a paused job miss nothing."""
        self._missed.clear()

    def excludes(self, number: int) -> None:
        """Count a member as dead that sends nothing, because its rule excludes this master."""
        self._dead.setdefault(number, self._context.now)

    def begin(self) -> None:
        """Probe the members that the overlay has lost, such as the master before."""
        for entry in self._book.active:
            if self._context.is_gone(entry.contact.id):
                self.suspect(entry.number)

    def lost_sight(self, agent: bytes) -> None:
        """Handle that the overlay has lost an agent."""
        entry = self._book.of(agent)
        if entry is not None:
            self.suspect(entry.number)
            self._again()

    def suspect(self, number: int) -> None:
        """Probe a member that may be dead now, so that a due interval does not wait for the probe."""
        if number not in self._dead:
            known = self._known.setdefault(number, _Known(-(2**62), self._context.now))
            if known.asked_at is None or self._context.now - known.asked_at > self._deadline_s:
                self._probe(number, known)

    def lost(self, required: int, interval: int, trees: Sequence[IntervalStore]) -> int:
        """Return the members that the newest attempt of an interval lacks, if all of them are dead; else 0.

        Contributions of dead members are not in later attempts, and those of new members are not in earlier
        ones, so that no attempt will contain both.
        """
        lacks = required & ~newest_in_all(trees, interval)
        return 0 if any(number not in self._dead for number in numbers(lacks)) else lacks

    def decide(
        self, missing: int, due_since: float, frontier: Callable[[int], int]
    ) -> tuple[State | None, float]:
        """Decide about an interval with missing members.

        Args:
            missing: bit set of the members.
            due_since: when the first member passed the interval.
            frontier: returns the first interval without the member of a number.

        Returns:
            The state of its record, or None to wait; and when to decide again.
        """
        now = self._context.now
        members = numbers(missing)
        waited = [number for number in members if number not in self._dead]
        # A dead member's time to return starts when it is first missing, and not again for each interval.
        self._missed = {number: self._missed.get(number, due_since) for number in members}
        since = {each: min(self._missed[each], self._dead[each]) for each in members if each in self._dead}
        over_at = (due_since if waited else max(since.values())) + self._deadline_s
        if now < over_at - self.lead_s:
            return None, over_at - self.lead_s
        if now < over_at and not (self._skip and waited):
            return None, over_at
        if not waited:
            gone = max(at + self._return_s(number) for number, at in since.items())
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

    def _return_s(self, number: int) -> float:
        """Return for how long an interval waits for a dead member."""
        return self._restart_s if number in self._restarting else self._gone_s

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
        entry = self._book.entry(number)
        if not done.alive and entry is not None:
            gone_since = self._context.gone_since(entry.contact.id)
            self._dead[number] = self._context.now if gone_since is None else gone_since
            if entry.until is None and self._context.has_stopped(entry.contact.id):
                self._restarting[number] = None
        self._again()
