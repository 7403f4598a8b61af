"""The layout of a job follows its roster, and replaces a gateway that stays away."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from elfmesh.control.context import GONE_S
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Participant, PathLayout, RosterEntry
from elfmesh.control.paths.layouts import GAIN, PLAN_S, Layouts, WishedVoters
from elfmesh.machine import Contact
from tests.control.master.stub_term import StubTerm, other
from tests.control.member.support import TEXT

PATHS = TEXT.replace("DEADLINE", "PATHS 1 ACROSS region DEADLINE")


def agent(number: int, region: str) -> Contact:
    return replace(other(number), region=region)


@dataclass
class State:
    layout: PathLayout | None = None


class Rig:
    """A job of two members in each of two regions; the master is in none of them."""

    def __init__(self, text: str = PATHS) -> None:
        self.members = [agent(10, "eu"), agent(11, "eu"), agent(12, "us"), agent(13, "us")]
        entries = tuple(RosterEntry(at, each, f"m{at}", 0) for at, each in enumerate(self.members))
        self.term = StubTerm(book=RosterBook(entries, 3))
        self.state = State()
        is_away = self.term.context.is_gone
        self.layouts = Layouts(self.term, self.state, read_plan(text), is_away)

    def gateways(self) -> dict[str, Contact]:
        layout = self.layouts.layout
        return {} if layout is None else {each.group: each.contact for each in layout.gateways}


def test_a_layout_follows_the_roster_and_a_change_of_it_is_a_change_of_the_roster() -> None:
    rig = Rig()
    assert rig.layouts.upkeep()
    assert rig.term.book.version == 4
    assert {region: each.region for region, each in rig.gateways().items()} == {"eu": "eu", "us": "us"}
    assert not rig.layouts.upkeep(), "nothing has changed"
    assert rig.term.book.version == 4
    rig.term.book.add((Participant(agent(14, "ap"), "m4"),), 0)
    rig.layouts.follow_roster()
    assert rig.gateways()["ap"] == agent(14, "ap")


def test_a_job_without_paths_has_no_layout() -> None:
    rig = Rig(TEXT)
    assert not rig.layouts.upkeep()
    assert rig.gateways() == {}


def test_a_gateway_is_replaced_when_two_looks_find_it_gone() -> None:
    rig = Rig()
    rig.layouts.upkeep()
    before = rig.gateways()
    rig.term.context.lost(before["us"].id)
    assert not rig.layouts.upkeep(), "it may be back soon"
    assert rig.layouts.upkeep()
    after = rig.gateways()
    assert after["eu"] == before["eu"]
    assert {after["us"], before["us"]} == {agent(12, "us"), agent(13, "us")}
    rig.term.context.now += 2 * GONE_S
    assert not rig.layouts.upkeep(), "it does not move back"


def test_a_gateway_that_is_back_at_once_stays() -> None:
    rig = Rig()
    rig.layouts.upkeep()
    before = rig.gateways()
    rig.term.context.lost(before["us"].id)
    rig.layouts.upkeep()
    rig.term.context.grown(before["us"].id)
    assert not rig.layouts.upkeep()
    assert not rig.layouts.upkeep()
    assert rig.gateways() == before


SITES = PATHS.replace("PATHS 1", "PATHS 3")


def measure(rig: Rig, far: bytes, us: int) -> None:
    """All agents are 1 ms from each other, but one is far away."""
    agents = [*rig.members, rig.term.context.me]
    for one in agents:
        others = [each.id for each in agents if each is not one]
        found = [(other, us if far in (one.id, other) else 1000) for other in others]
        rig.layouts.trips.report(one.id, found, rig.term.context.now)


def test_a_gateway_moves_when_a_measured_placement_costs_much_less() -> None:
    rig = Rig()
    rig.layouts.upkeep()
    before = rig.gateways()
    measure(rig, before["us"].id, 400_000)
    rig.layouts.look_for_better()
    assert not rig.layouts.upkeep(), "it is not time yet"
    rig.term.context.now += PLAN_S
    measure(rig, before["us"].id, 400_000)
    rig.layouts.look_for_better()
    assert rig.layouts.is_stale, "a grant ends first"
    version = rig.term.book.version
    assert rig.layouts.upkeep()
    assert rig.term.book.version == version + 1
    after = rig.gateways()
    assert after["eu"] == before["eu"]
    assert after["us"] != before["us"]
    rig.layouts.follow_roster()
    assert rig.gateways() == after, "it stays when the roster changes"
    assert rig.term.context.stats["control.placements"] == 1


def test_a_gateway_stays_if_the_gain_is_small_or_the_better_agent_is_away() -> None:
    rig = Rig()
    rig.layouts.upkeep()
    before = rig.gateways()
    rig.term.context.now += PLAN_S
    measure(rig, before["us"].id, int(1000 / GAIN) - 200)
    rig.layouts.look_for_better()
    assert not rig.layouts.upkeep()
    other_one = next(each for each in rig.members if each.region == "us" and each != before["us"])
    rig.term.context.now += PLAN_S
    measure(rig, before["us"].id, 400_000)
    rig.term.context.lost(other_one.id)
    rig.layouts.look_for_better()
    assert not rig.layouts.upkeep(), "an estimate does not show that an agent is reachable"
    assert rig.gateways() == before


def test_a_placement_is_dropped_if_its_agent_is_lost_before_the_layout_changes() -> None:
    rig = Rig()
    rig.layouts.upkeep()
    before = rig.gateways()
    rig.term.context.now += PLAN_S
    measure(rig, before["us"].id, 400_000)
    rig.layouts.look_for_better()
    rig.term.context.lost(
        next(each.id for each in rig.members if each.region == "us" and each != before["us"])
    )
    assert not rig.layouts.upkeep()
    assert rig.gateways() == before


def test_the_sites_of_a_placement_are_wished_as_voters_and_rules_of_members_limit_them() -> None:
    rig = Rig(SITES)
    assert rig.layouts.wished_voters == WishedVoters()
    rig.layouts.upkeep()
    layout = rig.layouts.layout
    assert layout is not None
    far = layout.sites[1]
    rig.term.context.now += PLAN_S
    measure(rig, far.id, 400_000)
    rig.layouts.look_for_better()
    assert rig.layouts.upkeep()
    wished = rig.layouts.wished_voters
    assert wished.agents
    assert far.id not in wished.agents
    assert Rig(PATHS).layouts.wished_voters == WishedVoters()


def test_the_sites_of_a_job_that_reads_jobs_are_its_voters() -> None:
    rig = Rig("CREATE JOB shop.best EVERY '10 s' PATHS 3 ACROSS region AS SELECT sum(n) AS n FROM shop.top")
    rig.term.book = RosterBook((), 3)
    voters = (rig.term.terms.master, *rig.members[1:3])
    rig.term.began = replace(rig.term.began, acceptors=voters)
    assert rig.layouts.upkeep()
    layout = rig.layouts.layout
    assert layout is not None
    assert (layout.gateways, {each.id for each in layout.sites}) == ((), {each.id for each in voters})
    assert layout.sites[0] == rig.term.terms.master


def test_while_a_voter_can_be_no_site_the_sites_of_the_layout_are_wished() -> None:
    rig = Rig(SITES)
    voters = (rig.term.terms.master, rig.members[0], rig.members[2])
    rig.term.began = replace(rig.term.began, acceptors=voters)
    rig.layouts.upkeep()
    assert rig.layouts.wished_voters == WishedVoters(), "the sites follow voters that are members"
    rig.term.began = replace(rig.term.began, acceptors=(*voters[:2], agent(14, "us")))
    layout = rig.layouts.layout
    assert layout is not None
    assert rig.layouts.wished_voters == WishedVoters(frozenset(each.id for each in layout.sites))
    rig.layouts.follow_roster()
    assert rig.layouts.is_stale


@pytest.mark.parametrize("reads", [False, True])
def test_a_master_that_is_no_voter_is_wished_as_one(reads: bool) -> None:
    """The first site is the master, and each voter has to be a site; nothing else would move a voter."""
    of_jobs = "CREATE JOB shop.best EVERY '10 s' PATHS 3 ACROSS region AS SELECT sum(n) AS n FROM shop.top"
    rig = Rig(of_jobs if reads else SITES)
    voters = (rig.members[0], rig.members[2], rig.members[3])
    rig.term.began = replace(rig.term.began, acceptors=voters)
    rig.layouts.upkeep()
    layout = rig.layouts.layout
    assert layout is not None
    assert rig.layouts.wished_voters == WishedVoters(frozenset(each.id for each in layout.sites))
    assert rig.term.terms.master.id in rig.layouts.wished_voters.agents
