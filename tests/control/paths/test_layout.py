"""Which groups a job's members form, and which member of each is its gateway."""

from __future__ import annotations

from itertools import permutations

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.terms import Gateway, PathLayout, RosterEntry
from elfmesh.control.paths.layout import (
    by_group,
    copies_of,
    crossings,
    gateways_of,
    group_of,
    group_trees,
    label_error,
    label_of,
    notes,
    planned,
    read_sites,
    residency_notes,
)
from elfmesh.machine import Contact
from elfmesh.srt.residency import Rule

JOB = b"j" * 20
MASTER = Contact(b"m" * 20, "host", 1, 1, "r1", "eu")


def agent(number: int, region: str = "", rack: str = "") -> Contact:
    return Contact(bytes([number]) * 20, "host", number, 1, rack, region)


EU = [agent(number, "eu", "r1") for number in (1, 2)]
US = [agent(number, "us", f"r{number}") for number in (11, 12, 13)]


def layout(
    members: list[Contact],
    across: str = "",
    away: set[bytes] | None = None,
    before: PathLayout | None = None,
    paths: int = 1,
    voters: tuple[Contact, ...] = (),
    copies: int = 1,
) -> PathLayout:
    named = {each.id for each in voters}
    about = JOB, MASTER, members, across, paths, named, away or set(), before
    found = planned(*about, copies=copies)
    assert found is not None
    return found


def test_each_region_is_a_group_whose_gateway_is_one_of_its_members_in_any_order() -> None:
    found = layout([*EU, *US])
    assert found.label == "region"
    assert [each.group for each in found.gateways] == ["eu", "us"]
    for each, agents in zip(found.gateways, (EU, US), strict=True):
        assert each.contact in agents
    assert {layout([*EU, *order]) for order in permutations(US)} == {found}


def test_the_master_is_the_gateway_of_its_own_group() -> None:
    assert layout([*EU, MASTER, *US]).gateways[0].contact == MASTER
    assert MASTER not in [each.contact for each in layout([*EU, *US]).gateways]


@pytest.mark.parametrize(
    ("members", "across", "label"),
    [
        ([*EU, *US], "", "region"),
        (US, "", "rack"),
        (EU, "", ""),
        ([agent(1), agent(2)], "", ""),
        ([*EU, *US], "rack", "rack"),
        (EU, "rack", ""),
        (US, "region", ""),
        ([], "", ""),
    ],
)
def test_the_outermost_label_that_distinguishes_members_forms_the_groups(
    members: list[Contact], across: str, label: str
) -> None:
    assert label_of(members, across) == label
    assert (planned(JOB, MASTER, members, across, 1, set(), set(), None) is None) == (not label)


def test_a_rack_belongs_to_its_region_and_an_unknown_label_is_never_guessed() -> None:
    assert group_of(agent(1, "eu", "r1"), "rack") != group_of(agent(2, "us", "r1"), "rack")
    assert group_of(agent(1, "eu"), "rack") == ""
    found = layout([*EU, agent(5), agent(6)])
    assert [each.group for each in found.gateways] == ["", "eu"]
    assert gateways_of(agent(6), found) == found.gateways[:1]
    assert notes(found, [*EU, agent(5), agent(6)], "", 1) == [
        "2 agents state no region and form a group of their own"
    ]


def test_a_gateway_stays_while_it_is_present_and_only_its_own_group_gets_another() -> None:
    before = layout([*EU, *US])
    grown = layout([*EU, *US, *(agent(number, "us") for number in range(20, 40))], before=before)
    assert grown == before
    gone = before.gateways[1].contact
    after = layout([*EU, *US], away={gone.id}, before=before)
    assert after.gateways[0] == before.gateways[0]
    assert after.gateways[1].contact in US
    assert after.gateways[1].contact != gone
    assert layout([*EU, *US], before=after) == after, "it does not move back"


def test_a_group_whose_agents_are_all_away_keeps_its_gateway() -> None:
    before = layout([*EU, *US])
    assert layout([*EU, *US], away={each.id for each in US}, before=before) == before


def test_an_agent_of_a_group_without_a_gateway_has_none() -> None:
    found = layout([*EU, *US])
    assert gateways_of(agent(9, "ap"), found) == ()
    assert gateways_of(EU[0], None) == ()


def test_the_trees_of_a_group_begin_with_the_id_of_the_gateway_and_differ() -> None:
    gateways = [Gateway("eu", EU[0]), Gateway("us", EU[0]), Gateway("eu", EU[1])]
    trees = [tree for each in gateways for tree in group_trees(JOB, 2, each)]
    assert len(set(trees)) == 6
    assert all(tree[:4] == EU[0].id[:4] for tree in trees[:4])
    nearest = min((*EU, *US), key=lambda each: ids.distance(each.id, trees[0]))
    assert nearest == EU[0]


def test_a_job_of_one_group_has_one_tree_and_a_note_with_the_reason() -> None:
    assert notes(None, EU, "rack", 1) == [
        "no rack tells the agents apart, so one tree reduces the contributions of all"
    ]
    unlabelled = [agent(21, "ap")]  # since the job was applied
    assert notes(None, unlabelled, "rack", 1) == [label_error(unlabelled, "rack")]
    assert notes(layout([*EU, *US]), [*EU, *US], "", 1) == []


AP = [agent(number, "ap") for number in (21, 22)]
ALL = [*EU, MASTER, *US, *AP]


def test_the_sites_are_the_master_and_agents_in_as_many_regions_as_there_are() -> None:
    found = layout(ALL, paths=3)
    assert found.sites[0] == MASTER
    assert [each.region for each in found.sites] in (["eu", "us", "ap"], ["eu", "ap", "us"])
    assert layout(list(reversed(ALL)), paths=3) == found
    assert layout(ALL).sites == ()
    assert layout([agent(1), agent(2)], paths=2).sites[0] == MASTER, "agents without labels are sites, too"


def test_a_master_of_several_sites_is_a_gateway_only_where_its_group_has_no_other_agent() -> None:
    by_group = {each.group: each.contact for each in layout(ALL, paths=3).gateways}
    assert by_group["eu"] in EU
    alone = {each.group: each.contact for each in layout([MASTER, *US], paths=2).gateways}
    assert alone["eu"] == MASTER


def test_a_site_stays_while_it_is_present_and_the_master_before_may_be_one() -> None:
    before = layout(ALL, paths=3)
    _, second, third = before.sites
    grown = [*(agent(number, "us") for number in range(30, 60)), *ALL]
    assert layout(grown, paths=3, before=before).sites == before.sites
    after = layout(ALL, paths=3, away={second.id}, before=before)
    assert third in after.sites
    assert second not in after.sites
    assert len({each.region for each in after.sites}) == 3


def test_voters_are_sites_where_they_are_members() -> None:
    for each in (*US, *AP):
        assert each in layout(ALL, paths=3, voters=(MASTER, each, agent(99, "us"))).sites


def test_sites_of_members_without_a_label_are_the_gateways() -> None:
    members = [MASTER, *(agent(number, "eu", "r1") for number in range(1, 9))]
    before = layout(members, paths=3)
    assert [each.contact for each in before.gateways] == list(before.sites)
    after = layout(members, paths=3, away={before.sites[1].id}, before=before)
    moved = [one.contact != two.contact for one, two in zip(before.gateways, after.gateways, strict=True)]
    assert moved == [False, True, False], "the others keep the number of their copy"
    assert {each.contact for each in after.gateways} == set(after.sites)


def test_an_agent_reads_from_the_site_of_its_region_if_the_master_is_elsewhere() -> None:
    found = layout(ALL, paths=3)
    by_region = {each.region: each for each in found.sites}
    for each in (*US, *AP):
        near = by_region[each.region]
        assert read_sites(each, found) == ((near,), tuple(other for other in found.sites if other != near))
    assert [read_sites(each, found) for each in (*EU, MASTER)] == [((), found.sites[1:])] * 3
    assert read_sites(US[0], layout(ALL)) == read_sites(US[0], None) == ((), ())


def test_an_agent_without_a_near_site_asks_all_that_vote() -> None:
    found = layout(ALL, paths=3)
    assert read_sites(agent(9, "sa"), found) == read_sites(agent(9), found) == (found.sites, ())
    assert read_sites(agent(9, "sa"), layout(ALL, paths=2)) == ((), ())
    assert read_sites(EU[0], found, MASTER.id.__eq__) == (found.sites[1:], ()), "its near site is gone"


def test_fewer_sites_than_the_text_names_and_a_shared_region_are_noted() -> None:
    few = layout([MASTER, *US], paths=4)
    assert [each.region for each in few.sites][:2] == ["eu", "us"]
    assert notes(few, [MASTER, *US], "region", 4) == [
        "site 2 shares region us with another site",
        "site 3 shares region us with another site",
    ]
    one = layout([MASTER, US[0]], paths=3)
    assert notes(one, [MASTER, US[0]], "", 3) == ["PATHS 3: 2 of 3 sites, because no other agent is present"]


def test_a_label_that_no_member_states_is_found() -> None:
    assert label_error(AP, "rack").startswith("ACROSS rack: no agent with the job's input states a rack")
    assert label_error(ALL, "rack") == ""
    assert label_error(AP, "") == ""
    assert label_error(AP, "region", "rack") == label_error(AP, "rack"), "each label that a text names"
    assert label_error([], "rack") == "", "no member is known yet"


IN_EU, IN_EU_OR_US = (("region=eu",),), (("region=eu", "region=us"),)


def test_a_site_is_allowed_by_the_rules_of_all_members() -> None:
    asia = agent(30, "ap")
    members = [MASTER, *EU, *US, asia]

    def regions(rules: dict[bytes, Rule]) -> set[str]:
        found = planned(JOB, MASTER, members, "region", 3, (), (), None, rules)
        assert found is not None
        return {each.region for each in found.sites}

    assert regions({}) == {"eu", "us", "ap"}
    assert regions({US[0].id: IN_EU_OR_US}) == {"eu", "us"}
    assert regions({US[0].id: IN_EU_OR_US, EU[0].id: IN_EU}) == {"eu"}


def test_a_gateway_is_allowed_by_the_rules_of_its_group_if_an_agent_of_it_is() -> None:
    mixed = [agent(1, rack="r1"), agent(2, "us"), agent(3, "us")]
    for each in mixed[1:]:
        rules = {each.id: (("region=us",),)}
        found = planned(JOB, MASTER, [*mixed, agent(4, "eu", "r2")], "rack", 1, (), (), None, rules)
        assert found is not None
        assert gateways_of(mixed[0], found)
        assert all(one.contact.region == "us" for one in found.gateways if one.group == "")


def test_a_note_names_the_member_that_keeps_sites_away() -> None:
    entries = [RosterEntry(at, each, f"m{at}") for at, each in enumerate([*EU, *US])]
    assert residency_notes(entries, MASTER, 3) == []
    entries[0] = replace(entries[0], keep_in=IN_EU)
    text = "3 members are no site, because m0 keeps its data in region=eu"
    assert residency_notes(entries, MASTER, 3) == [text]
    assert residency_notes(entries, MASTER, 1) == residency_notes(entries, US[0], 3) == []


def test_a_group_has_as_many_gateways_as_copies_in_different_racks_if_it_has_the_agents() -> None:
    crowded = [agent(number, "us", "r9") for number in (21, 22, 23)]
    found = layout([*EU, *US, *crowded], paths=3, copies=2)
    us = by_group(found)["us"]
    assert (len(us), len({each.rack for each in us})) == (2, 2)
    assert found.gateways[0] == layout([*EU, *US, *crowded], paths=3).gateways[0]
    assert [len(each) for each in by_group(layout([*EU[:1], *US], paths=3, copies=2)).values()] == [1, 2]


def test_a_gateway_that_stays_keeps_its_copy() -> None:
    members = [*EU, *US]
    before = layout(members, paths=3, copies=2)
    first = by_group(before)["us"]
    second = layout(members, paths=3, copies=2, away={first[0].id}, before=before)
    assert by_group(second)["us"][1] == first[1]
    assert by_group(second)["us"][0] not in first
    assert by_group(second)["eu"] == by_group(before)["eu"]
    one = layout(members, paths=3, copies=1, before=second)
    assert by_group(one)["us"][0] in by_group(second)["us"]


def test_the_trees_of_all_copies_have_their_numbers() -> None:
    found = layout([*EU, *US], paths=3, copies=2)
    copies = copies_of(JOB, 2, found)
    assert sorted(copies.values()) == [0] * 4 + [1] * 4
    for group in by_group(found):
        mine = [each for each in found.gateways if each.group == group]
        assert [copies[group_trees(JOB, 2, each)[1]] for each in mine] == [0, 1]
    assert copies_of(JOB, 2, None) == {}


def test_messages_between_groups_are_counted_by_path_and_with_paths_1_by_group() -> None:
    eu = agent(9, "eu")
    found = layout([eu, *EU, *US], paths=2, copies=2, voters=(US[0],))
    assert len(found.sites) == 2
    assert crossings(found, found.sites[0])[0] == sum(
        each.group != site.region for each in found.gateways for site in found.sites
    )
    cross = next(
        (each.contact.id, site.id)
        for each in found.gateways
        for site in found.sites
        if each.group != site.region
    )
    assert crossings(found, MASTER, {cross})[0] == crossings(found, MASTER)[0] - 1
    assert crossings(found, MASTER)[1] == len({*by_group(found)} - {MASTER.region})


def test_a_group_with_fewer_gateways_than_the_text_names_is_noted() -> None:
    members = [*EU[:1], *US]
    found = layout(members, paths=3, copies=2)
    text = "PATHS 3, 2: 1 of 2 gateways of eu, because no other agent of it is present"
    assert text in notes(found, members, "region", 3, 2)
    assert text not in notes(found, members, "region", 3, 1)
