"""The layout of one term: it follows the roster, the agents that are gone, and the measured latencies.

Owns when the layout changes. `paths.layout` chooses the agents, `paths.latency_placement` finds better ones.

Invariants: a gateway or site is replaced only if two looks, the master's `UPKEEP_S` apart, find it gone, or
if every `PLAN_S` a placement costs at most `GAIN` of the present one. A change is a change of the roster's
version, so that members and successors receive it as any other. Sites follow the voters that are members; the
electorate moves the others, and those of a better placement, to the wished agents. So no change of them ends
a grant twice.

Paper: Hwang et al. V-A. Deviation: the first placement is by labels, because no latency
is known then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import CurrentTerms, Gateway, PathLayout, RosterEntry
from elfmesh.control.paths.idle_paths import IdlePaths, PathCost
from elfmesh.control.paths.latency_placement import (
    Expectation,
    LatencyPlacement,
    better_placement,
    expectation,
)
from elfmesh.control.paths.layout import SITES_MIN, by_group, group_of, planned
from elfmesh.control.paths.round_trips import RoundTrips
from elfmesh.srt.residency import ANYWHERE, Rule, allows, together

PLAN_S, GAIN = 300.0, 0.8
"""How often the placement is computed, and the share of the present cost at which it is taken."""


class RosterOfTerm(CurrentTerms, Protocol):
    """The term whose members are placed."""

    @property
    def context(self) -> Context: ...

    @property
    def book(self) -> RosterBook: ...


@dataclass(frozen=True, slots=True)
class WishedVoters:
    """Where the voters of a job should be.

    Attributes:
        agents: that the placement has as sites; while a voter can be no site, because it is no member, or the
            master, which is the first site, is no voter, the sites of the layout.
        rule: of the members; the sites must satisfy it.
    """

    agents: frozenset[bytes] = frozenset()
    rule: Rule = ANYWHERE


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
        self.trips = RoundTrips()
        self.idle_paths = IdlePaths(term.context, plan, self.trips, lambda: state.layout)
        self._gone: set[bytes] = set()
        self._away: set[bytes] = set()
        self._sites: frozenset[bytes] = frozenset()
        self._place_at = term.context.now + PLAN_S
        self._better: LatencyPlacement | None = None

    @property
    def layout(self) -> PathLayout | None:
        return self._state.layout

    @property
    def is_stale(self) -> bool:
        """Whether an agent of the layout is away, a voter is no site, or a better placement is known."""
        layout = self._state.layout
        named = () if layout is None else (*(each.contact for each in layout.gateways), *layout.sites[1:])
        voters = {each.id for each in self._term.terms.acceptors}
        sites = set() if layout is None else {each.id for each in layout.sites}
        is_away = any(self._is_away(each.id) for each in named)
        return not voters <= sites or is_away or self._better is not None

    def follow_roster(self) -> None:
        """Plan for the members as they are now."""
        plan, before = self._plan, self._state.layout
        if not plan.paths or (plan.reads and plan.paths < 2):
            self._state.layout = None
            return
        terms = self._term.terms
        members = [entry.contact for entry in self._term.book.active]
        if plan.reads:  # a job without members has no groups, and its voters are its sites
            members = [*terms.acceptors]
        about = terms.manifest.job_id, terms.master, members, plan.across, plan.paths
        voters = {each.id for each in terms.acceptors}
        rules = {each.contact.id: each.keep_in for each in self._limiting}
        layout = planned(*about, voters, self._away, before, rules, plan.copies)
        self._state.layout = replace(layout, gateways=()) if layout and plan.reads else layout

    @property
    def _limiting(self) -> list[RosterEntry]:
        """The members with a rule; one that excludes the master sends no data, and limits no other agent."""
        return [
            each
            for each in self._term.book.active
            if each.keep_in and allows(each.keep_in, self._term.terms.master)
        ]

    @property
    def wished_voters(self) -> WishedVoters:
        """Where the voters should be, so that they can be the sites."""
        if self._plan.paths < SITES_MIN:
            return WishedVoters()
        master, acceptors = self._term.terms.master.id, self._term.terms.acceptors
        possible = {master, *(each.contact.id for each in self._term.book.active)}
        voters = {each.id for each in acceptors}
        sites = frozenset(each.id for each in self._state.layout.sites) if self._state.layout else frozenset()
        agents = self._sites
        if sites and not self._plan.reads and not voters <= possible:
            agents = sites
        if sites and master not in voters:
            agents = (agents or sites) | {master}
        return WishedVoters(agents, together(each.keep_in for each in self._limiting))

    @property
    def expectation(self) -> Expectation | None:
        """The latencies that the layout amounts to; None: there is no layout, or nothing is measured."""
        layout, members = self._state.layout, [each.contact for each in self._term.book.active]
        if layout is None or not layout.gateways:
            return None
        master, idle = self._term.terms.master, self.idle_paths.idle
        return expectation(layout, master, members, self.trips, idle)

    @property
    def cost(self) -> PathCost | None:
        """What the live paths cost; None: there is no layout."""
        members = [each.contact for each in self._term.book.active]
        return self.idle_paths.cost(self._term.terms.master, members)

    def look_for_better(self) -> None:
        """Prune the paths, and compute the placement by measured latencies, every `PLAN_S`.

        `upkeep` takes the placement.
        With a grant, the layout is stale until the master has ended the grant.
        """
        layout, context, master = self._state.layout, self._term.context, self._term.terms.master
        if layout is None or not layout.gateways or context.now < self._place_at:
            return
        self._place_at = context.now + PLAN_S
        members = [each.contact for each in self._term.book.active]
        own: dict[bytes, float] = context.facts("round trips").get("seconds", {})
        self.trips.report(master.id, [(agent, round(each * 1e6)) for agent, each in own.items()], context.now)
        self.trips.retain({each.id for each in (*members, master)}, context.now)
        self.idle_paths.look(master, members)
        all_rules = together(each.keep_in for each in self._limiting)
        sites = {each.id for each in members if allows(all_rules, each) and not self._is_away(each.id)}
        about = layout, master, members, self.trips, self._possible_gateways(layout), sites
        found = better_placement(*about, context.rng)
        self._better = None if found is None or found.cost > GAIN * found.before else found

    def _take_better(self) -> None:
        layout, found, self._better = self._state.layout, self._better, None
        if layout is None or found is None:
            return
        known = {each.contact.id: each.contact for each in self._term.book.active}
        present = {group: len(agents) for group, agents in by_group(layout).items()}
        named = [agent for agents in found.gateways.values() for agent in agents]
        if present != {group: len(agents) for group, agents in found.gateways.items()} or any(
            each not in known or self._is_away(each) for each in (*named, *found.sites)
        ):
            return  # the roster has changed since
        gateways = tuple(Gateway(group, known[agent]) for group in present for agent in found.gateways[group])
        self._term.context.stats["control.placements"] += 1
        self._state.layout, self._sites = replace(layout, gateways=gateways), frozenset(found.sites)

    def _possible_gateways(self, layout: PathLayout) -> set[bytes]:
        """Return the members that may be the gateway of their group, as `paths.layout` chooses them."""
        master, found = self._term.terms.master.id, set[bytes]()
        groups: dict[str, list[RosterEntry]] = {}
        for each in self._term.book.active:
            groups.setdefault(group_of(each.contact, layout.label), []).append(each)
        limiting = {each.number for each in self._limiting}
        for entries in groups.values():
            rule = together(each.keep_in for each in entries if each.number in limiting)
            present = {
                each.contact.id
                for each in entries
                if allows(rule, each.contact) and not self._is_away(each.contact.id)
            }
            if self._plan.paths == 1 and master in present:
                found |= {master}
            else:
                found |= present - {master} or present
        return found

    def upkeep(self) -> bool:
        """Look which agents of the layout are gone; return whether it changes. Then the roster does, too."""
        before = self._state.layout
        self._take_better()
        named = () if before is None else (*(each.contact for each in before.gateways), *before.sites[1:])
        gone = {each.id for each in named if self._is_away(each.id)}
        self._away = {each for each in self._away if self._is_away(each)} | (gone & self._gone)
        self._gone = gone
        self.follow_roster()
        if self._state.layout == before:
            return False
        self._term.book.version += 1
        return True
