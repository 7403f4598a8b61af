"""The layout of one term: it follows the roster, and the gateways and sites that are gone.

Owns when the layout changes. `paths.layout` chooses the agents.

Invariant: a gateway or site is replaced only if two looks, the master's `UPKEEP_S` apart, find it gone. A
change is a change of the roster's version, so that members and successors receive it as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import CurrentTerms, PathLayout
from elfmesh.control.paths.layout import planned
from elfmesh.srt.residency import allows


class RosterOfTerm(CurrentTerms, Protocol):
    """The term whose members are placed."""

    @property
    def book(self) -> RosterBook: ...


class LayoutState(Protocol):
    """The terms have the layout."""

    layout: PathLayout | None


class Layouts:
    """Keeps the layout of a job that has PATHS.

    Args:
        term: of the master.
        state: has the layout that is in force.
        is_away: whether an agent cannot be reached.
    """

    def __init__(
        self, term: RosterOfTerm, state: LayoutState, plan: JobPlan, is_away: Callable[[bytes], bool]
    ) -> None:
        self._term, self._state, self._plan, self._is_away = term, state, plan, is_away
        self._gone: set[bytes] = set()
        self._away: set[bytes] = set()

    @property
    def layout(self) -> PathLayout | None:
        return self._state.layout

    @property
    def is_stale(self) -> bool:
        """Whether an agent of the layout is away, or a site does not vote."""
        layout = self._state.layout
        named = () if layout is None else (*(each.contact for each in layout.gateways), *layout.sites[1:])
        voters = {each.id for each in self._term.terms.acceptors}
        sites = set() if layout is None else {each.id for each in layout.sites}
        return sites != voters or any(self._is_away(each.id) for each in named)

    def follow_roster(self) -> None:
        """Plan for the members as they are now."""
        if not self._plan.paths:
            self._state.layout = None
            return
        term, members = self._term, [entry.contact for entry in self._term.book.active]
        terms = term.terms
        about = terms.manifest.job_id, terms.master, members, self._plan.across, self._plan.paths
        voters = {each.id for each in terms.acceptors}
        # a member whose rule excludes the master sends no data, so that its rule limits no other agent
        kept = [each for each in self._term.book.active if allows(each.keep_in, terms.master)]
        rules = {each.contact.id: each.keep_in for each in kept if each.keep_in}
        self._state.layout = planned(*about, voters, self._away, self._state.layout, rules)

    def upkeep(self) -> bool:
        """Look which agents of the layout are gone; return whether it changes. Then the roster does, too."""
        before = self._state.layout
        named = () if before is None else (*(each.contact for each in before.gateways), *before.sites[1:])
        gone = {each.id for each in named if self._is_away(each.id)}
        self._away = {each for each in self._away if self._is_away(each)} | (gone & self._gone)
        self._gone = gone
        self.follow_roster()
        if self._state.layout == before:
            return False
        self._term.book.version += 1
        return True
