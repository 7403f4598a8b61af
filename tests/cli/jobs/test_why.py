"""Why an interval does not close: the answer names the interval, the agents and what is known of them."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from elfmesh.cli.entry import elf
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.messages import Rate, Report
from elfmesh.errors import UsageError
from elfmesh.machine import Received
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.fakes import FakeBackend, served
from tests.control.harness import World


def why(world: World) -> dict[str, Any]:
    reply = world.ask(world.living[0], "why", {"job": "shop/top"})
    assert reply.status == 200
    return reply.body


def started(agents: int = 3) -> World:
    world = World(agents)
    fill(world, intervals=2)
    world.apply(world[0])
    return world


def test_nothing_is_held_while_no_agent_is_ahead() -> None:
    found = why(started())
    assert (found["stage"], found["agents"]) == ("in time", [])
    assert "nothing is held" in found["because"]


def test_an_agent_that_is_behind_is_named_with_the_interval_and_since_when() -> None:
    world = started()
    for number in (0, 1):
        world[number].seal("clicks", BASE + 2 * SLIDE)
    world.run(10.0)
    found = why(world)
    assert found["interval"]["index"] == 1000
    assert found["held_for_seconds"] >= 9
    assert (found["in"], found["expected"], found["tentative_rev"]) == (2, 3, 1)
    ((agent),) = found["agents"]
    assert (agent["agent"], agent["state"], agent["behind"]) == ("agent-2", "behind", 2)
    assert "agent-2 has not sealed it" in found["because"]


def test_a_dead_agent_is_distinguished_from_one_that_is_behind() -> None:
    world = started(4)
    dead = next(agent for agent in world.living if agent is not world.master())
    slow = next(agent for agent in world.living if agent not in (dead, world.master()))
    world.kill(dead)
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + SLIDE)
    world.run(10.0)
    states = {agent["agent"]: agent["state"] for agent in why(world)["agents"]}
    assert states == {f"agent-{dead.number}": "dead", f"agent-{slow.number}": "behind"}


def test_why_reports_that_a_job_is_paused() -> None:
    world = started()
    world.ask(world[0], "pause", {"job": "shop/top"})
    assert "elf resume" in why(world)["because"]


def test_the_command_prints_a_sentence_and_never_control_characters() -> None:
    backend = FakeBackend()
    agent = {
        "agent": "web\x1b[31m", "state": "behind", "frontier": 7, "behind": 3, "dead_for_seconds": None,
        "error": "",
    }  # fmt: skip
    interval = {"index": 7, "start": "2015-05-17T10:05:00Z", "end": "2015-05-17T10:05:30Z"}
    backend.replies["why"] = Reply(
        0, 200, {
            "job": "shop/top", "state": "running", "interval": interval, "held_for_seconds": 3.5,
            "stage": "waiting for agents to contribute", "tentative_rev": 4, "in": 1, "expected": 2,
            "agents": [agent], "reads": [], "because": "web\x1b[31m has not sealed it",
        },
    )  # fmt: skip
    with served(backend) as api:
        shown = CliRunner().invoke(elf, ["why", "shop/top", "--api", api]).stdout
        assert "interval 7" in shown
        assert "TENTATIVE rev 4" in shown
        assert "\x1b" not in shown
        lines = CliRunner().invoke(elf, ["why", "shop/top", "--api", api, "-o", "csv"]).stdout
        assert lines.count("\n") == 2


def test_why_blames_no_agent_for_a_paused_job() -> None:
    world = started()
    world[0].seal("clicks", BASE + SLIDE)
    world.run(0.3)
    world.ask(world[0], "pause", {"job": "shop/top"})
    world.run(5.0)
    found = why(world)
    assert found["stage"] == "paused"
    assert found["because"] == "the job is paused: `elf resume` lets it go on"


def test_reports_and_rates_of_strangers_are_not_kept() -> None:
    world = started()
    master = world.master()
    (leading,) = master.control.leadership.masters.values()
    for number in range(100, 200):
        report = Report(leading.job, f"stranger-{number}", (), "no disk")
        world.post(0.0, master, Received(world[1].me, report))
        world.post(0.0, master, Received(world[1].me, Rate(leading.job, leading.term.epoch, number, 5.0)))
    world.post(0.0, master, Received(world[1].me, Report(leading.job, "agent-1", (), "no disk")))
    world.run(0.1)
    assert leading.tally.worker_errors == {"agent-1": "no disk"}
    assert not [number for number in leading.rates._rates if number >= 100]


def lacking_one() -> tuple[World, str]:
    """An agent has died, and an interval is closed without it; nothing else is due."""
    world = started(5)
    voters = {
        contact.id
        for master in world.master().control.leadership.masters.values()
        for contact in master.term.terms.acceptors
    }
    dead = next(agent for agent in world.living if agent.me.id not in voters)
    world.kill(dead)
    world.seal_all(BASE + SLIDE)
    world.run(10.0)
    return world, f"agent-{dead.number}"


def test_a_dead_agent_is_named_also_while_no_interval_is_due() -> None:
    world, dead = lacking_one()
    found = why(world)
    assert (found["stage"], found["held_for_seconds"]) == ("in time", None)
    assert [(agent["agent"], agent["state"]) for agent in found["agents"]] == [(dead, "dead")]
    assert (found["in"], found["expected"], found["missing"]) == (0, 5, [dead])
    newest = found["newest"]
    assert (newest["state"], newest["completeness"], newest["missing"]) == ("FINAL_PARTIAL", 0.8, [dead])
    assert "nothing is held" not in found["because"]
    assert f"lacks {dead}" in found["because"]


def test_an_agent_that_has_returned_is_named_until_a_record_has_it() -> None:
    world, dead = lacking_one()
    world.restart(world[int(dead.removeprefix("agent-"))])
    world.run(3.0)
    found = why(world)
    assert (found["agents"], found["missing"]) == ([], [dead])
    assert f"lacks {dead}" in found["because"]
    world.seal_all(BASE + 2 * SLIDE)
    world.run(3.0)
    found = why(world)
    assert (found["newest"]["state"], found["missing"]) == ("FINAL", [])
    assert "lacks" not in found["because"]


def test_a_new_master_knows_what_the_newest_record_lacks() -> None:
    world, dead = lacking_one()
    world.kill(world.master())
    world.run(5.0)
    assert dead in why(world)["missing"]
    (row,) = world.ask(world.living[0], "list").body["jobs"]
    assert (row["result"], row["completeness"], row["missing"]) == ("FINAL_PARTIAL", 0.8, [dead])


def test_lists_and_the_command_show_what_the_newest_record_lacks() -> None:
    world, dead = lacking_one()
    backend = FakeBackend()
    backend.replies["why"] = Reply(0, 200, why(world))
    backend.replies["list"] = Reply(0, 200, world.ask(world.living[0], "list").body)
    with served(backend) as api:
        shown = CliRunner().invoke(elf, ["why", "shop/top", "--api", api]).stdout
        assert "0/5 agents in" in shown
        assert f"newest record: interval 1000, FINAL_PARTIAL, completeness 0.8, missing: {dead}" in shown
        jobs = CliRunner().invoke(elf, ["get", "jobs", "--api", api]).stdout
        assert "COMPLETENESS" in jobs
        assert dead in jobs


def test_agents_that_share_a_name_are_distinguished_by_their_ids() -> None:
    world = World(4)
    fill(world, intervals=2)
    dead, twin = world[2], world[3]
    for agent in (dead, twin):
        agent.control.context.name = "a1"
    world.apply(world[0])
    assert world.master() not in (dead, twin)
    dead_name, twin_name = (f"a1 ({agent.me.id.hex()[:6]})" for agent in (dead, twin))
    assert "several agents have the name a1: give each a name of its own" in why(world)["because"]
    world.kill(dead)
    for agent in world.living:
        agent.seal("clicks", BASE + 3 * SLIDE)
    world.run(30.0)
    found = why(world)
    records = [record for record, _ in world.results(world.living[0]) if record.missing]
    assert records
    assert {name for record in records for name in record.missing} == {dead_name}
    assert twin_name not in str(found["agents"])
    assert dead_name in f"{found['agents']} {found['newest']}"


def test_a_name_of_its_own_stands_without_an_id() -> None:
    assert "several agents" not in why(started())["because"]


def reported(agent: str, kind: str, seconds: float, peer: str = "", times: int = 1) -> dict[str, Any]:
    names = {"step": f"{agent}{kind}", "cause": ""}
    return {
        "seconds": seconds, "agent": agent, "kind": kind, "peer": peer, "detail": "", "times": times, **names
    }  # fmt: skip


def traced(*arguments: str) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
    """The command, over an interval that five agents seal and one has no step of; and what it asks."""
    backend = FakeBackend()
    agents = ["a\x1b1", "a2", "a3", "a4", "a5"]
    steps = [reported(agent, "sealed", place / 100) for place, agent in enumerate(agents)]
    steps += [reported("a2", "decided", 0.5, times=2), reported("a2", "published", 0.75, peer="a3")]
    interval = {"index": 7, "start": "2015-05-17T10:05:00Z", "end": "2015-05-17T10:05:30Z"}
    ids = [{"agent": name, "id": name.encode().hex()} for name in (*agents, "down")]
    about = {
        "job": "shop/top", "id": "00", "partitions": 1, "interval": interval, "end_us": 0, "newest": 7,
        "state": "FINAL_PARTIAL", "completeness": 0.8, "missing": ["down"], "agents": ids,
    }  # fmt: skip
    backend.replies["interval"] = Reply(0, 200, about)
    rows = [
        {
            "agent": step["agent"].encode().hex(), "name": step["agent"], "step": step["step"], "cause": "",
            "at_us": round(step["seconds"] * 1e6), "kind": step["kind"], "peer": step["peer"], "detail": "",
            "times": step["times"],
        }
        for step in steps
    ]  # fmt: skip
    backend.replies["steps"] = Reply(0, 200, {"steps": rows, "asked": {"answered": 5, "expected": 6}})
    with served(backend) as api:
        return CliRunner().invoke(elf, ["why", "shop/top", *arguments, "--api", api]), backend.asked


def test_the_story_is_a_table_with_one_line_for_steps_of_one_kind() -> None:
    done, asked = traced("--trace")
    assert [verb for verb, _ in asked] == ["interval", "steps"]
    assert "interval" not in asked[0][1]
    assert "\x1b" not in done.stdout
    title, heading, *lines = done.stdout.splitlines()
    assert "interval 7" in title
    assert "FINAL_PARTIAL, completeness 0.8" in title
    assert heading.split() == ["AFTER", "END", "AGENT", "STEP", "WITH", "DETAIL"]
    sealed, decided, published, without = lines
    assert "a2, a3 and 2 more" in sealed
    assert "5 steps until +0.040 s" in sealed
    assert decided.split() == ["+0.500", "s", "a2", "decided", "(2", "times)"]
    assert published.split() == ["+0.750", "s", "a2", "published", "a3"]
    assert without == "without a step: down (does not answer)"


def test_the_story_as_json_has_every_step() -> None:
    done, asked = traced("--trace", "7", "-o", "json")
    assert asked[0][1]["interval"] == 7
    found = json.loads(done.stdout)
    assert set(found) == {
        "job", "interval", "state", "completeness", "missing", "steps", "without", "asked"
    }  # fmt: skip
    assert [step["kind"] for step in found["steps"]] == ["sealed"] * 5 + ["decided", "published"]
    assert set(found["steps"][0]) == {
        "seconds", "agent", "kind", "peer", "detail", "times", "step", "cause"
    }  # fmt: skip
    lines, _ = traced("--trace", "7", "-o", "csv")
    assert lines.stdout.count("\n") == 8


def test_an_interval_is_a_number() -> None:
    done, _ = traced("--trace", "soon")
    assert done.exit_code != 0
    assert isinstance(done.exception, UsageError) or "'soon' is not the number of an interval" in done.output
