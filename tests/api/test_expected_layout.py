"""The layout that a new job would have with the agents of a list."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh import ids
from elfmesh.api.expected_layout import expected_layout
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol.replies_plan import JobLayout
from elfmesh.errors import DataError

REGIONS = ("ap", "eu", "us")
TEXT = (
    "CREATE JOB shop.top{paths} EVERY '10 s' AS SELECT k, count(*) AS n FROM clicks ON (role = 'web')"
    " GROUP BY k"
)
PLACES = ids.job_placements("shop/top", "local")


def agent(number: int, **changes: Any) -> dict[str, Any]:
    row = {
        "name": f"web{number}",
        "id": bytes([number]).hex() * 20,
        "address": f"10.0.0.{number}:7400",
        "status": "alive",
        "labels": {"role": "web", "region": REGIONS[number % 3]},
        "streams": ["clicks"],
        "authority": {"keep_in": []},
    }
    return row | changes


AGENTS = [agent(number) for number in range(1, 10)]


def expected(agents: list[dict[str, Any]], paths: str = " PATHS 3 ACROSS region") -> JobLayout:
    return expected_layout(agents, *read_job(TEXT.format(paths=paths)))


def closest(place: bytes) -> dict[str, Any]:
    return min(AGENTS, key=lambda each: ids.distance(bytes.fromhex(each["id"]), place))


def test_the_sites_are_the_agent_closest_to_the_job_and_one_of_each_other_region() -> None:
    found = expected(AGENTS)
    assert found.layout is not None
    assert found.layout.sites[0].agent == closest(PLACES[0])["name"]
    assert {each.domain for each in found.layout.sites} == set(REGIONS)
    assert [(each.group, each.agents) for each in found.layout.groups] == [(each, 3) for each in REGIONS]
    assert (found.messages, found.messages_of_one) == (6, 2)
    other = closest(PLACES[1])["name"]
    note = f"{other} is the master if it leads fewer jobs than {found.layout.sites[0].agent}"
    assert (note in found.notes) == (other != found.layout.sites[0].agent)


def test_only_agents_that_answer_and_carry_the_stream_with_the_labels_are_members() -> None:
    other = {"labels": {"role": "db", "region": "eu"}}
    agents = [*AGENTS[3:], agent(1, status="dead"), agent(2, streams=["logs"]), agent(3, **other)]
    found = expected(agents)
    assert found.layout is not None
    assert sum(each.agents for each in found.layout.groups) == 6


def test_a_host_whose_rule_excludes_the_master_is_named_and_no_member() -> None:
    master = closest(PLACES[0])
    region = next(each for each in REGIONS if each != master["labels"]["region"])
    ruled = next(each for each in AGENTS if each["labels"]["region"] == region)
    rows = [
        each | {"authority": {"keep_in": [f"region={region}"]}} if each is ruled else each for each in AGENTS
    ]
    found = expected(rows)
    text = f"{ruled['name']} takes no part: its keep_in, region={region}, excludes the master"
    assert text in found.notes
    assert found.layout is not None
    assert sum(each.agents for each in found.layout.groups) == 8


def test_the_rule_of_a_member_keeps_sites_away() -> None:
    master = closest(PLACES[0])
    keep = f"region={master['labels']['region']}"
    rows = [each | {"authority": {"keep_in": [keep]}} if each is master else each for each in AGENTS]
    found = expected(rows)
    assert found.layout is not None
    assert {each.domain for each in found.layout.sites} == {master["labels"]["region"]}


def test_a_job_without_paths_has_no_layout() -> None:
    found = expected(AGENTS, "")
    assert (found.paths, found.layout) == (0, None)


@pytest.mark.parametrize(
    ("agents", "problem"),
    [([agent(1, status="dead")], "no agent answers"), ([agent(1, labels={"role": "web"})], "ACROSS region")],
)
def test_what_cannot_be_planned_is_refused(agents: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        expected(agents)


def test_the_gateways_of_each_group_and_the_bound_of_the_cost_are_shown() -> None:
    found = expected(AGENTS, " PATHS 3, 2 ACROSS region COST 6")
    assert found.layout is not None
    assert [len(each.gateways) for each in found.layout.groups] == [2, 2, 2]
    assert found.copies == 2
    assert (found.messages, found.messages_of_one) == (12, 2)
    assert "COST 6: the master prunes the paths when latencies are measured" in found.notes
    few = expected(AGENTS[:5], " PATHS 3, 2 ACROSS region")
    assert any("1 of 2 gateways of ap" in each for each in few.notes)
