"""The rules of the hosts of a new job, and the master that satisfies most of them."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh import ids
from elfmesh.api.host_rules import better_name, masters, members_rule, rule_for
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.protocol.events import Reply
from elfmesh.errors import Unreachable
from elfmesh.machine import Contact
from elfmesh.srt.residency import ANYWHERE, Rule, allows
from tests.api.test_expected_layout import TEXT, agent

JOB = TEXT.format(paths="")
EU: Rule = (("region=eu",),)
EU_AND_US: Rule = (("region=eu",), ("region=us",))


def keeping(number: int, *labels: str, **changes: Any) -> dict[str, Any]:
    return agent(number, authority={"keep_in": list(labels)}, **changes)


def contact(number: int, region: str) -> Contact:
    return Contact(bytes([number * 20]) * 20, "h", 1, 1, "", region)


def test_the_rule_of_a_job_is_that_of_the_living_agents_which_read_its_streams() -> None:
    _, plan = read_job(JOB)
    rows = [
        keeping(1, "region=us", "region=eu"),
        keeping(2, "region=eu", status="dead"),
        keeping(3, "region=ap", streams=["logs"]),
        keeping(4, "rack=r1", labels={"role": "db"}),
        agent(5),
    ]
    assert members_rule(rows, plan) == (("region=us", "region=eu"),)
    assert members_rule([*rows, keeping(6, "region=eu")], plan) == (*EU, ("region=us", "region=eu"))


def test_the_candidate_that_satisfies_more_rules_leads_and_of_equals_either_may() -> None:
    agents = [contact(number, region) for number, region in enumerate(("eu", "us", "ap") * 4, 1)]
    seen = set()
    for number in range(40):
        name = f"shop/job{number}"
        both = [
            min(agents, key=lambda each: ids.distance(each.id, place))
            for place in ids.job_placements(name, "local")
        ]
        assert [each for each, _ in masters(agents, name, ANYWHERE)] == both
        inside = [each for each in both if allows(EU, each)]
        assert [each for each, _ in masters(agents, name, EU)] == (inside or both)
        seen.add(len(inside))
        for found, place in masters(agents, name, EU):
            assert min(agents, key=lambda each: ids.distance(each.id, place)) == found
    assert seen == {0, 1, 2}


def test_another_name_is_found_unless_no_agent_satisfies_all_rules() -> None:
    agents = [contact(number, region) for number, region in enumerate(("eu", "us", "ap") * 4, 1)]
    name = better_name(agents, "shop/top", EU)
    assert name.startswith("shop/top")
    assert allows(EU, masters(agents, name, EU)[0][0])
    assert better_name(agents, "shop/top", EU_AND_US) == ""


class Fleet:
    """Answers the request for all agents."""

    def __init__(self, *rows: dict[str, Any], status: int = 200) -> None:
        self.rows, self.status, self.asked = rows, status, 0

    async def ask(self, verb: str, body: dict[str, Any]) -> Reply:
        assert (verb, body) == ("agents", {})
        self.asked += 1
        if not self.status:
            raise Unreachable("no agent answers")
        return Reply(0, self.status, {"agents": list(self.rows)})


async def test_a_new_job_gets_the_rule_of_its_hosts_and_other_requests_ask_no_agent() -> None:
    fleet = Fleet(keeping(1, "region=eu"), agent(2))
    assert await rule_for(fleet.ask, {"text": JOB}) == EU
    assert fleet.asked == 1
    for more in ({"dry_run": True}, {"job": "shop/top"}, {"leased": True}, {"text": "SELECT"}, {"text": 3}):
        assert await rule_for(fleet.ask, {"text": JOB, **more}) == ANYWHERE
    assert fleet.asked == 1


@pytest.mark.parametrize("status", [0, 503])
async def test_a_job_is_placed_without_rules_if_the_agents_do_not_answer(status: int) -> None:
    fleet = Fleet(keeping(1, "region=eu"), status=status)
    assert await rule_for(fleet.ask, {"text": JOB}) == ANYWHERE
