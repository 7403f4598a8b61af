"""Topics between real agents: what each vertex receives, also if a vertex or an agent is killed."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import elfmesh
from tests.e2e.fleet import Agent, Fleet, eventually
from tests.e2e.programs.test_programs import Programs, programs
from tests.exhaustive import few
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.apart

FILE = Path(__file__).with_name("topic_program.py")
STREAM = "words=program://test/words,format=json,idle=1 s"
WAIT = "ON STRAGGLER WAIT HORIZON '10 min'"
"""On a busy host an agent may seem dead for a while; without it, a record lacks its posts."""

SEALED = f"SEALED (campaign WHEN event = 'end' PRODUCERS 2 BY producer AFTER '1 h') EVERY '200 ms' {WAIT}"
TOPIC = f"CREATE TOPIC test.words DELIVERY SEQUENCED EVERY '200 ms' {WAIT}"
POSTS = 40
KILLS = (
    pytest.param(1, marks=pytest.mark.exhaustive),
    pytest.param(20, marks=(pytest.mark.exhaustive, pytest.mark.nightly)),
)
"""Of publishers, vertices, agents and masters, each."""

SEALS = 3

Line = tuple[str, int, Any, dict[str, Any], bool]


def start(fleet: Fleet, tmp_path: Path, count: int = 2) -> None:
    """Start agents with a stream for the topic."""
    for number in range(count):
        agent = Agent(tmp_path / f"agent-{number}", number, [STREAM])
        fleet.agents.append(agent)
        agent.start([fleet[0].overlay] if number else [])
        agent.wait_ready()


def received(started: Programs, agent: Agent) -> list[Line]:
    """What the vertex beside an agent received, without what a later process repeated."""
    found: dict[tuple[str, int], Line] = {}
    own: set[tuple[int, str, int]] = set()
    for process, _, producer, position, *rest in started.noted(f"vertex-{agent.api.rpartition(':')[2]}"):
        assert (process, producer, position) not in own, "a process received a post twice"
        own.add((process, producer, position))
        found.setdefault((producer, position), (producer, position, *rest))
    return list(found.values())


def publish(fleet: Fleet, started: Programs) -> list[subprocess.Popen[bytes]]:
    return [started.start("Publisher", agent, POSTS) for agent in fleet]


def wait_received(
    fleet: Fleet, started: Programs, wanted: int, needed: Sequence[subprocess.Popen[bytes]] = ()
) -> None:
    """Wait until each vertex has received so many posts, while no program (default: any) has failed."""

    def is_received() -> bool:
        started.check(needed)
        return all(len(received(started, each)) == wanted for each in fleet)

    eventually(is_received, what="all posts")


ORDERED = "CREATE TOPIC test.words DELIVERY ORDERED"
"""No agent is a member of it: its master reads all streams."""


@pytest.mark.parametrize(
    ("text", "kills"),
    [
        (TOPIC, True),
        (ORDERED, True),
        *(pytest.param(text, False, marks=pytest.mark.exhaustive) for text in (TOPIC, ORDERED)),
    ],
)
def test_every_vertex_receives_the_same_sequence(tmp_path: Path, text: str, *, kills: bool) -> None:
    with Fleet(tmp_path) as fleet, programs(tmp_path, FILE) as started:
        start(fleet, tmp_path)
        fleet.apply(text, members=0 if text == ORDERED else None)
        vertices = [started.start("Vertex", agent) for agent in fleet]
        publishers = publish(fleet, started)
        if kills:
            started.wait_attached(publishers[1])
            eventually(lambda: len(received(started, fleet[1])) >= 10, what="the first posts")
            vertices[1].kill()
            vertices[1].wait()
            started.wait_attached(started.start("Vertex", fleet[1]))
            fleet[1].kill()
            fleet[1].start([fleet[0].overlay])
            fleet[1].wait_ready()
        wait_received(fleet, started, 2 * (POSTS + SEALS))
        first, second = (received(started, agent) for agent in fleet)
        assert first == second
        for producer in {line[0] for line in first}:
            assert [line[1] for line in first if line[0] == producer] == list(range(POSTS + SEALS))
        assert {line[2]["number"] for line in first if line[2]["event"] == "click"} == set(range(POSTS))
        if text == ORDERED:  # no log has the order
            return
        logs = [str(agent.directory / "data" / "spool" / "words" / "spool.log") for agent in fleet]
        replayed = [row for table in elfmesh.run(TOPIC, logs) for row in table.to_pylist()]
        assert [(row["producer"], row["position"]) for row in replayed] == [line[:2] for line in first]


@pytest.mark.parametrize("text", [TOPIC, ORDERED])
@pytest.mark.parametrize("kills", KILLS)
def test_the_sequence_outlives_kills_of_programs_agents_and_masters(
    tmp_path: Path, text: str, kills: int
) -> None:
    rng, rounds = random.Random(text), kills * ["publisher", "vertex", "agent", "master"]
    rng.shuffle(rounds)
    with Fleet(tmp_path) as fleet, programs(tmp_path, FILE) as started:
        start(fleet, tmp_path, 3)
        fleet.apply(text, members=0 if text == ORDERED else None)
        vertices = [started.start("Vertex", agent) for agent in fleet]
        for number, victim in enumerate(rounds):
            publishers = [started.start("Publisher", agent, POSTS + 5 * number) for agent in fleet]
            at = rng.randrange(3)
            if victim == "publisher":
                publishers[at].kill()
            elif victim == "vertex":
                vertices[at].kill()
                vertices[at].wait()
                vertices[at] = started.start("Vertex", fleet[at])
                started.wait_attached(vertices[at])
            else:
                asked = fleet[(at + 1) % 3]
                master = eventually(partial(asked.get, "/v1/jobs/test/words"))["master"]
                agents = [each for each in fleet if (each.name == master) == (victim == "master")]
                killed = rng.choice(agents)
                other = next(each for each in fleet if each is not killed)
                killed.kill()
                killed.start([other.overlay])
                killed.wait_ready()
            for each in publishers:
                each.wait(PATIENCE_S)
        last = [started.start("Publisher", agent, POSTS + 5 * len(rounds)) for agent in fleet]
        assert [each.wait(PATIENCE_S) for each in last] == [0, 0, 0]
        wanted = 3 * (POSTS + 5 * len(rounds) + SEALS)
        wait_received(fleet, started, wanted, vertices)
        first, *others = ([line[:2] for line in received(started, agent)] for agent in fleet)
        assert all(each == first for each in others)
        for producer in {name for name, _ in first}:
            assert [position for name, position in first if name == producer] == list(range(wanted // 3))


def test_a_sealed_topic_delivers_whole_partitions_in_order(tmp_path: Path) -> None:
    with Fleet(tmp_path) as fleet, programs(tmp_path, FILE) as started:
        start(fleet, tmp_path)
        fleet.apply(f"CREATE TOPIC test.words DELIVERY {SEALED}")
        for agent in fleet:
            started.start("Vertex", agent)
        publish(fleet, started)
        wait_received(fleet, started, 2 * POSTS)
        first, second = (received(started, agent) for agent in fleet)
        assert {line[3]["campaign"] for line in first} == {"c0", "c1", "c2"}
        for campaign in ("c0", "c1", "c2"):
            lines = [line for line in first if line[3]["campaign"] == campaign]
            assert [line[:2] for line in lines] == sorted(line[:2] for line in lines)
            assert lines == [line for line in second if line[3]["campaign"] == campaign]
            assert all(line[2]["campaign"] == campaign for line in lines)


@pytest.mark.parametrize("every", few(("2 s", "1 day"), 1))
def test_an_unordered_topic_delivers_each_post_once(tmp_path: Path, every: str) -> None:
    with Fleet(tmp_path) as fleet, programs(tmp_path, FILE) as started:
        start(fleet, tmp_path)
        fleet.apply(f"CREATE TOPIC test.words DELIVERY UNORDERED EVERY '{every}' {WAIT}")
        for agent in fleet:
            started.start("Vertex", agent)
        publish(fleet, started)
        wait_received(fleet, started, 2 * (POSTS + SEALS))
        first, second = (sorted(line[:2] for line in received(started, agent)) for agent in fleet)
        assert first == second
        if every == "1 day":  # a busy host may close 2 s before it delivers what they have
            assert any(line[4] for line in received(started, fleet[0])), "no post before its interval closed"
