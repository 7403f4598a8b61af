"""Eviction of dead members from the roster (D-14).

Owns, for each dead member, the first window that had not begun at its death, and its eviction. The straggler
policy and the interval closer decide about the intervals from which it is missing.

Invariant: a member that died is expected in every window that had begun at its death. A window had begun if
its start is before the end of the newest interval that any agent had sealed, plus LATENESS and one slide,
because an agent that has sealed that interval and not the next one has read no later record. If no agent has
sealed an interval, the newest interval is the one before the first open interval. The rule compares event
times and no clocks (D-13). It expects the member in at most one window too many.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.closing.latency_stats import LatencyStats
from elfmesh.control.closing.straggler_policy import StragglerPolicy
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Stage
from elfmesh.safeguards import safeguard

EVICT_S = 300.0
"""Minimum time for which a dead member stays on the roster."""

AGAIN_S = 30.0
"""Time for the members to send a new master the contributions to intervals that are not closed."""


@dataclass(frozen=True, slots=True)
class _Death:
    """Time of a member's death, and the first window that had not begun then; None: not known yet."""

    since: float
    not_begun: int | None


class Evictions:
    """Evictions of one job in one term.

    Args:
        book: the roster.
        straggler_policy: knows the dead members.
        latency_stats: forgets evicted members.
        stages: the job's versions.
    """

    def __init__(
        self,
        context: Context,
        book: RosterBook,
        straggler_policy: StragglerPolicy,
        latency_stats: LatencyStats,
        stages: tuple[Stage, ...],
    ) -> None:
        self._context, self._book = context, book
        self._straggler_policy, self._latency_stats = straggler_policy, latency_stats
        self._plans = [read_plan(stage.manifest.text) for stage in stages]
        self._deaths: dict[int, _Death] = {}

    def carry_out(self, frontier: int | None, at: int) -> bool:
        """Evict the members that are due; returns whether the roster has changed.

        Args:
            frontier: one past the newest interval that any agent has sealed; None before the first one.
            at: the first interval that is not decided.
        """
        changed = False
        for number in self._due(frontier, at):
            self._straggler_policy.revive(number)
            self._latency_stats.forget(number)
            if self._book.expects(number, at):  # not if it has announced that it leaves
                self._book.evict(number, at)
                changed = True
        return changed

    def _due(self, frontier: int | None, at: int) -> list[int]:
        before, self._deaths = self._deaths, {}
        found = []
        for number in self._straggler_policy.dead:
            since = self._straggler_policy.dead_since(number)
            assert since is not None, "it is dead"
            death = before.get(number)
            if death is None or death.since != since or death.not_begun is None:
                death = _Death(since, self._not_begun(frontier, at, since))
            self._deaths[number] = death
            if self._context.now - since >= EVICT_S and death.not_begun is not None and at >= death.not_begun:
                found.append(number)
        return found

    @safeguard("eviction-after-windows")
    def _not_begun(self, frontier: int | None, at: int, since: float) -> int | None:
        if frontier is None and self._context.now - since < AGAIN_S:
            return None
        newest = (at if frontier is None else frontier) - 1  # closed intervals have been sealed
        return max(
            plan.first_after(plan.window(newest)[1] + plan.lateness_us + plan.slide_us)
            for plan in self._plans
        )
