"""The answer to `plan`: the standbys of a job, and what they keep."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.terms import PathLayout
from elfmesh.control.protocol.messages_standby import Shipping
from elfmesh.control.protocol.replies_plan import PlannedCost, PlannedPath
from elfmesh.control.requests.paths_plan import (
    NO_STANDBY,
    cost_notes,
    job_layout,
    planned_standbys,
    standby_notes,
)
from tests.control.contexts import new_context
from tests.control.member.support import TEXT
from tests.control.requests.led import JOB, Led, shown


def test_a_job_without_the_clause_has_no_standbys() -> None:
    rig = Led()
    assert "standbys" not in shown(job_layout(rig.context, rig.master))
    assert "kept_if_lost" not in rig.described()


@pytest.mark.parametrize(("clause", "count"), [("STANDBY 2", 2), ("STANDBY ALL", 3), ("STANDBY '40 %'", 1)])
def test_only_standbys_that_hold_windows_keep_anything(clause: str, count: int) -> None:
    rig = Led(TEXT.replace("DEADLINE", f"{clause} DEADLINE"))
    term = rig.master.term
    found = planned_standbys(rig.master)
    assert (len(found.members), found.budget) == (count, clause.removeprefix("STANDBY "))
    term.members._standbys.clear()
    empty = planned_standbys(rig.master)
    assert empty.kept == empty.without
    assert {each.standby for each in empty.members} == {None}
    for entry in term.book.active:
        other = next(each for each in term.book.active if each != entry)
        report = Shipping(JOB, term.epoch, entry.number, other.contact.id)
        term.members.on_shipping(entry.contact, report)
    whole = planned_standbys(rig.master)
    assert set(whole.kept.values()) == {1.0}
    assert set(whole.without) == {each.name for each in term.book.active}, "each host is a domain"
    assert rig.described()["kept_if_lost"] == whole.kept


def test_a_note_states_that_no_agent_can_stand_by_and_that_all_are_in_one_rack() -> None:
    rig = Led(TEXT.replace("DEADLINE", "STANDBY ALL DEADLINE"))
    assert planned_standbys(rig.master).notes == [], "without labels, each host is a domain"
    members = [new_context(number, "r1").me for number in range(3)]
    assert standby_notes(members[:1], "rack") == [NO_STANDBY]
    (note,) = standby_notes(members, "rack")
    assert note.startswith("all members are in one rack")
    assert standby_notes([*members, new_context(4, "r2").me], "rack") == []
    assert standby_notes([*members, new_context(4).me], "rack") == []


def test_why_names_members_of_the_plan_without_a_standby_and_the_reason() -> None:
    rig = Led(TEXT.replace("DEADLINE", "STANDBY ALL DEADLINE"))
    term = rig.master.term
    first, second, _ = term.book.active
    for entry, problem in ((first, "no agent has room"), (second, "")):
        report = Shipping(JOB, term.epoch, entry.number, b"", problem)
        term.members.on_shipping(entry.contact, report)
    assert f"; without a standby: {first.name} (no agent has room)" in rig.why()["because"]
    rows = {each.agent: each.problem for each in planned_standbys(rig.master).members}
    assert (rows[first.name], rows[second.name]) == ("no agent has room", "")
    assert rig.agent.control.kept_if_lost() == {"shop/top": min(planned_standbys(rig.master).kept.values())}


def test_notes_name_the_idle_paths_and_state_whether_the_bound_is_kept() -> None:
    idle = [PlannedPath("us", 1, "web8", "web3"), PlannedPath("", 0, "web1", "web9")]
    kept = PlannedCost(18, 16, idle, 6.0, 5.7, is_kept=True)
    assert cost_notes(kept) == ["COST 6 keeps 16 of 18 paths; idle: us.1 -> web3, all.0 -> web9"]
    assert cost_notes(replace(kept, bound=None)) == []
    above = cost_notes(replace(kept, bound=2.5, ratio=4.0, is_kept=False))[1]
    assert above == "COST 2.5: the live paths cost 4 x PATHS 1; two sites and two trees of each group stay"
    (early,) = cost_notes(replace(kept, idle=[], bound=2.5, ratio=8.0, is_kept=False))
    assert early.endswith("the live paths cost 8 x PATHS 1; the next pruning is within five minutes")
    (unmeasured,) = cost_notes(replace(kept, ratio=None))
    assert unmeasured == "COST 6: all 18 paths are live, because no latency is measured"


def test_sites_that_are_no_members_are_named_by_their_address() -> None:
    """As the sites of a job that reads jobs are."""
    rig, stranger = Led(), new_context(77).me
    rig.master.term._term_state.layout = PathLayout("region", (), (rig.context.me, stranger))
    layout = job_layout(rig.context, rig.master).layout
    assert layout is not None
    assert [each.agent for each in layout.sites][1:] == [f"{stranger.host}:{stranger.port}"]
