"""The layout of a job follows its roster, and replaces a gateway that stays away."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from elfmesh.control.context import GONE_S
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import Participant, PathLayout, RosterEntry
from elfmesh.control.paths.layouts import Layouts
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
