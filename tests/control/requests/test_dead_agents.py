"""Dead agents stay listed until they are back, have left for good or are forgotten."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner
from msgspec.structs import replace

from elfmesh.cli.entry import elf
from elfmesh.control.closing.eviction import EVICT_S
from elfmesh.control.context import Context
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.messages_register import Departed
from elfmesh.control.protocol.replies_agents import AgentRow, DeadAgentRow
from elfmesh.control.requests.dead_agents import (
    DEAD_MAX,
    FORGET_AFTER_S,
    KIND,
    DeadAgents,
    one_each,
)
from elfmesh.machine import Contact, Received
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.contexts import new_context
from tests.control.fakes import FakeBackend, served
from tests.control.harness import World
from tests.control.member.support import Agent, agent_id

WALL_US = 1_431_856_800_000_000


def rows(world: World) -> dict[str, dict[str, Any]]:
    body = world.ask(world.living[0], "agents").body
    assert len({row["name"] for row in body["agents"]}) == len(body["agents"]), "each agent once"
    return {row["name"]: row for row in body["agents"]}


def one_dead() -> tuple[World, Agent]:
    world = World(5)
    fill(world, intervals=3)
    world.apply(world[0])
    voters = {
        contact.id
        for master in world.master().control.leadership.masters.values()
        for contact in master.term.terms.acceptors
    }
    dead = next(agent for agent in world.living if agent.me.id not in voters)
    world.kill(dead)
    world.run(2.0)
    return world, dead


def all_restart(world: World) -> None:
    agents = world.living
    for agent in agents:
        world.kill(agent)
    world.run(2.0)
    for agent in agents:
        world.restart(agent)
    world.run(3.0)


def test_a_dead_agent_is_listed_by_its_name_also_after_its_eviction_and_a_restart_of_all_others() -> None:
    world, dead = one_dead()
    name = f"agent-{dead.number}"
    assert {each: row["status"] for each, row in rows(world).items()} == {
        f"agent-{number}": "dead" if number == dead.number else "alive" for number in range(5)
    }
    world.seal_all(BASE + SLIDE)
    world.run(EVICT_S + 30.0)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(10.0)
    assert rows(world)[name]["status"] == "dead"
    all_restart(world)
    world.run(10.0)
    assert rows(world)[name]["status"] == "dead"
    health = world.ask(world.living[0], "health").body
    assert (health["status"], health["dead_agents"]) == ("ok", [name])


def test_an_agent_that_is_back_is_not_dead() -> None:
    world, dead = one_dead()
    world.restart(dead)
    world.run(3.0)
    assert {row["status"] for row in rows(world).values()} == {"alive"}
    assert not [key for agent in world.living for key in agent.disk if key[0] == KIND]


def test_an_agent_that_has_left_for_good_is_not_listed() -> None:
    world = World(5)
    fill(world, intervals=3)
    world.apply(world[0])
    leaver = world[0]  # here it has met all that came later
    world.request(leaver, "leave")
    for interval in range(1, 4):
        world.seal_all(BASE + interval * SLIDE)
        world.run(30.0)
    assert leaver.left
    world.kill(leaver)
    world.run(5.0)
    assert [*rows(world)] == [f"agent-{number}" for number in range(1, 5)]


def test_an_agent_whose_farewell_comes_after_it_was_lost_is_not_listed() -> None:
    world, dead = one_dead()
    for agent in world.living:
        world.post(0.0, agent, Received(dead.me, Departed()))
    world.run(1.0)
    assert f"agent-{dead.number}" not in rows(world)


def test_one_that_died_while_the_others_were_away_is_listed_too() -> None:
    world, dead = one_dead()
    for agent in world.living:
        agent.disk = {key: data for key, data in agent.disk.items() if key[0] != KIND}
    all_restart(world)
    assert f"agent-{dead.number}" not in rows(world)
    world.run(90.0)
    assert rows(world)[f"agent-{dead.number}"]["status"] == "dead"


def test_a_dead_agent_that_an_operator_forgets_is_listed_by_none_after_a_restart_too() -> None:
    world, dead = one_dead()
    name = f"agent-{dead.number}"
    for asked in ("agent-77", "agent-" + str(world.living[0].number)):
        assert world.ask(world.living[0], "forget", {"agent": asked}).body["forget"] == []
    assert rows(world)[name]["status"] == "dead"
    found = world.ask(world.living[0], "forget", {"agent": name}).body["forget"]
    assert {(row["forgotten"], row["id"]) for row in found} == {(name, dead.me.id.hex())}
    assert len({row["agent"] for row in found}) == len(found) > 1
    all_restart(world)
    assert name not in rows(world)
    world.restart(dead)
    world.run(3.0)
    assert rows(world)[name]["status"] == "alive"


def test_the_lists_show_status_and_when_an_agent_was_seen_last() -> None:
    backend = FakeBackend()
    agents = [
        {"name": "web1", "id": "a", "status": "alive"},
        {"name": "web2", "id": "b", "status": "dead", "last_seen": "2015-05-17T10:00:00Z"},
    ]
    backend.lists("agents", agents)
    backend.lists("list", [])
    backend.replies["health"] = Reply(0, 200, {"agent": "web1", "status": "ok", "dead_agents": ["web2"]})
    with served(backend) as api:
        for words in (["get", "agents"], ["top"]):
            shown = CliRunner().invoke(elf, [*words, "--api", api]).stdout
            (line,) = [line for line in shown.splitlines() if line.startswith("web2")]
            assert "dead" in line
            assert "2015-05-17T10:00:00Z" in line
        health = CliRunner().invoke(elf, ["health", "--api", api])
        assert health.exit_code == 0
        assert "dead agents: web2" in health.stdout


def test_agents_of_one_name_are_listed_as_records_name_them() -> None:
    backend = FakeBackend()
    agents = [
        {"name": name, "id": id * 40, "status": "alive"} for name, id in (("a", "1"), ("a", "2"), ("b", "3"))
    ]
    backend.lists("agents", agents)
    with served(backend) as api:
        shown = CliRunner().invoke(elf, ["get", "agents", "--api", api]).stdout
        data = CliRunner().invoke(elf, ["get", "agents", "-o", "json", "--api", api]).stdout
    assert [line.split("  ")[0] for line in shown.splitlines()[1:]] == ["a (111111)", "a (222222)", "b"]
    assert [json.loads(line)["name"] for line in data.splitlines()] == ["a", "a", "b"]


# -- the part ------------------------------------------------------------------------------------------


def known(now_us: list[int], forget_after_s: float = FORGET_AFTER_S) -> tuple[DeadAgents, Context]:
    context = new_context(1)
    context.facts = lambda topic: {"now_us": now_us[0]}
    return DeadAgents(context, lambda agent: "", forget_after_s), context


def contact(number: int) -> Contact:
    return Contact(agent_id(number), "10.0.0.1", number, 1)


def test_the_memory_is_bounded_in_time_and_number() -> None:
    now_us = [WALL_US]
    dead, _ = known(now_us)
    dead.lost(contact(1))
    now_us[0] += round(FORGET_AFTER_S * 1e6)
    (row,) = dead.rows()
    assert (row.name, row.last_seen) == ("10.0.0.1:1", "2015-05-17T10:00:00Z")
    now_us[0] += 1
    assert dead.rows() == []
    for number in range(2 * DEAD_MAX):
        dead.lost(contact(number))
    assert len(dead.rows()) == DEAD_MAX
    assert dead.rows()[0].address == f"10.0.0.1:{2 * DEAD_MAX - 1}"


def test_the_time_of_a_dead_agent_in_the_list_is_a_setting() -> None:
    now_us = [WALL_US]
    dead, _ = known(now_us, forget_after_s=60.0)
    dead.lost(contact(1))
    now_us[0] += 60_000_000
    assert len(dead.rows()) == 1
    now_us[0] += 1
    assert dead.rows() == []


def test_what_cannot_be_read_is_left_out_and_counted() -> None:
    dead, context = known([WALL_US])
    dead.restored(b"a", b"\xc1")
    assert dead.rows() == []
    assert context.stats["control.malformed"] == 1


def test_an_answer_of_an_agent_itself_counts_more_than_what_others_remember() -> None:
    gone = DeadAgentRow("web", "a", "h:1", 1, "dead", "2015-05-17T10:00:00Z")
    later = replace(gone, last_seen="2015-05-17T11:00:00Z")
    unnamed = replace(gone, name="h:1")
    there = AgentRow(
        name="web", status="alive", id="a", address="h:1", labels={}, streams=[], jobs=[], masters=[]
    )
    for order in ((gone, there, later), (there, later), (later, there)):
        assert chosen(*order) == there
    assert chosen(gone, later) == chosen(later, gone) == later
    assert chosen(unnamed, gone) == chosen(gone, unnamed) == gone


def chosen(*rows: AgentRow | DeadAgentRow) -> AgentRow | DeadAgentRow:
    ((row, _),) = one_each((row, None) for row in rows)
    return row
