"""The JSON of the replies, recorded from the handlers: names, their order, and which of them are absent.

Other programs read this JSON. `ELF_RECORD=1` writes the file beside this test again. The file does not have
ids, epochs and times, because they depend on messages that no client sees.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.api.web import rollout as rollouts
from elfmesh.api.web.story import story
from elfmesh.control.protocol.events import Reply
from elfmesh.control.protocol.replies import read_reply
from elfmesh.control.requests.verbs import VERBS, Scope
from elfmesh.errors import ProtocolError
from elfmesh.ql.values.row_json import encode_json
from tests.control.clicks import BASE, SLIDE, fill
from tests.control.fakes import recorded as recorded_reply
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent
from tests.control.requests.test_no_majority import without_two

FILE = Path(__file__).with_suffix(".jsonl")
JOB = ids.job_id("shop/top", "local")
OTHER = TEXT.replace("GROUP BY", "WHERE product <> 'apple' GROUP BY")
VARIES = re.compile(
    rb'(?P<id>[0-9a-f]{16,})|(?P<epoch>"epoch":)\d+|(?P<time>[-\d]+\.\d{2,}(?=[,}]))|(?P<for>for )\d+(?= s:)'
)
FILES = ["arrow", "parquet_file", "arrow_file"]
NOT_RECORDED = {"rows", "forget", *FILES}
"""Verbs whose replies are pages of rows, or that change what an agent remembers."""
FACTS: dict[str, dict[str, Any]] = {
    "agent": {
        "incarnation": 1,
        "version": "1.0",
        "skew_seconds": None,
        "job_costs": {},
        "tentative": {},
        "load": {"jobs": 1},
    },
    "trees": {
        "items": [
            {
                "tree": JOB.hex(),
                "root": True,
                "subscribed": True,
                "parent": None,
                "children": ["ab"],
                "depth": 1,
                "size": 3,
            }
        ]
    },
    "clock": {"now_us": BASE},
    "reading": {
        "clicks": {
            "files": 2,
            "bytes": 3000,
            "estimated": 0,
            "read_bytes": 2_000_000,
            "read_lines": 20_000,
            "cpu_seconds": 2.0,
            "cores": 1.0,
            "measured_on": "reads",
        }
    },
    "problem": {"problem": None, "sinks": {"files": "the disk is full"}, "held": {"shop/top": "unsigned"}},
}
Asked = Callable[[str, dict[str, Any]], Awaitable[Reply]]


class Recorded:
    """Asks agents of a world and keeps what they answer."""

    def __init__(self, name: str, world: World, agent: Agent) -> None:
        self.name, self.world, self.agent = name, world, agent
        self.replies: list[tuple[str, str, bytes]] = []

    def __call__(self, verb: str, *, over: Any = None, **body: Any) -> Reply:
        body = body if verb == "apply" else {"job": "shop/top", **body}
        reply = asyncio.run(over(self._ask, body)) if over else self.world.ask(self.agent, verb, body)
        self.replies.append((self.name, verb, b"%d " % reply.status + encode_json(reply.body)))
        return reply

    async def _ask(self, verb: str, body: dict[str, Any]) -> Reply:
        return self.world.ask(self.agent, verb, body)


def closed(agents: int = 3) -> World:
    world = World(agents)
    for agent in world.living:
        agent.control.context.facts = lambda topic, *about: FACTS.get(topic, {})
    fill(world, intervals=40)
    return world


def a_running_job() -> Recorded:
    world = closed()
    asked = Recorded("running", world, world[1])
    asked("apply", text=TEXT, dry_run=True)
    asked("apply", text=TEXT)
    asked("interval")
    asked("schema")
    asked("why")
    world.seal_all(BASE + 2 * SLIDE)
    world[0].seal("clicks", BASE + 3 * SLIDE)
    world.run(2.0)
    for verb in ("describe", "why", "interval", "results", "offsets", "schema", "rollout"):
        asked(verb)
    for verb in ("list", "agents", "streams", "trees", "health", "agent"):
        asked(verb)
    asked("cost", text=TEXT)
    asked("results", state="all", revision=0)
    asked("offsets", state="all", revision=0)
    asked("schema", view="pao")
    asked("whose", job="shop/top")
    asked("story", over=story)
    asked("story", over=lambda ask, job: story(ask, job | {"interval": 9_999}))
    asked("verify", interval=1000)
    world.run(2.0)
    asked("verify", interval=1000)
    world[2].feed("clicks", [(BASE + 5, "smuggled")])
    asked("verify", interval=1000, again=True)
    world.run(2.0)
    asked("verify", interval=1000)
    asked("verify", interval=7)
    world.run(2.0)
    asked("verify", interval=7)
    asked("verify")
    halves = {"r1": ["agent-0"], "r2": ["agent-1", "agent-2"]}
    asked("measure", interval=1000, losses=halves)
    world.run(2.0)
    asked("measure", interval=1000, losses=halves)
    asked("measure", interval=1000, losses={})
    asked("plan")
    asked("recover")
    for verb in ("steps", "rows", "louder"):
        asked(verb)
    return asked


def a_job_that_changes() -> Recorded:
    world = closed()
    asked = Recorded("changes", world, world[1])
    asked("apply", text=TEXT)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    asked("undo", over=rollouts.undo)
    asked("promote", over=rollouts.promote)
    for dry_run in (True, False):
        asked("apply", text=TEXT, dry_run=dry_run)
        asked("apply", text=OTHER, dry_run=dry_run)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(5.0)
    asked("rollout", over=rollouts.rollout)
    asked("undo", over=rollouts.undo)
    for verb in ("pause", "why", "resume", "empty"):
        asked(verb)
    asked("apply", text=OTHER, canary={})
    asked("apply", text=OTHER.replace("10 s", "5 s").replace("'10'", "'5'"), dry_run=True)
    asked("apply", text=TEXT, job="shop/top", canary={"zone": "a"})
    asked("rollout", over=rollouts.rollout)
    asked("promote", over=rollouts.promote)
    asked("apply", text=TEXT, job="shop/top", canary={"zone": "a"})
    asked("undo", over=rollouts.undo)
    seen = asked("describe").body["seen"]
    asked("pause", seen="none")
    asked("delete", seen=seen)
    asked("delete", seen=seen)
    asked("delete")
    asked("describe")
    asked("list")
    asked("apply", text="SELECT")
    asked("apply", text=TEXT, signed="no envelope")
    asked("apply", text=TEXT.replace("clicks", "nothing"))
    return asked


def a_dead_agent() -> Recorded:
    world = closed(4)
    asked = Recorded("dead", world, world[0])
    asked("apply", text=TEXT)
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    asked.agent = world.master()
    gone, slow = (agent for agent in world.living if agent not in (asked.agent, world[0]))
    world.kill(gone)
    for agent in world.living:
        if agent is not slow:
            agent.seal("clicks", BASE + 5 * SLIDE)
    world.run(3.0)
    for verb in ("why", "describe", "list", "agents", "health", "streams"):
        asked(verb)
    world.run(60.0)
    for verb in ("why", "describe", "list"):
        asked(verb)
    asked("story", over=story)
    asked("leave", wait=0)
    asked.agent = world.add(9, streams={})
    asked("leave", wait=3600)
    return asked


def a_job_without_a_majority() -> Recorded:
    world, _ = without_two()
    (left,) = world.living
    asked = Recorded("no majority", world, left)
    for verb in ("list", "why", "describe", "offsets", "results", "health", "agents", "recover"):
        asked(verb)
    asked("recover", accept_loss=True)
    asked("describe")
    return asked


SCENES = (a_running_job, a_job_that_changes, a_dead_agent, a_job_without_a_majority)


def lines(asked: Recorded) -> Iterator[bytes]:
    for scene, verb, text in asked.replies:
        yield f"{scene}: {verb}: ".encode() + VARIES.sub(_stable, text)


def _stable(found: re.Match[bytes]) -> bytes:
    kept = {"id": b"ID", "epoch": b'"epoch":0', "time": b"0.5", "for": b"for 0"}
    return kept[found.lastgroup or ""]


@pytest.fixture(scope="module")
def recorded() -> list[bytes]:
    if os.environ.get("ELF_RECORD"):
        FILE.write_bytes(b"".join(line + b"\n" for scene in SCENES for line in lines(scene())))
    return FILE.read_bytes().splitlines()


@pytest.mark.parametrize("scene", SCENES)
def test_replies_are_the_same_json(scene: Callable[[], Recorded], recorded: list[bytes]) -> None:
    asked = scene()
    name = f"{asked.name}: ".encode()
    assert list(lines(asked)) == [line for line in recorded if line.startswith(name)]


def test_each_reply_is_the_struct_of_its_verb(recorded: list[bytes]) -> None:
    """The JSON of a reply is that of the struct that its verb names, to the byte."""
    seen = set()
    for line in recorded:
        _, verb, text = line.decode().split(": ", 2)
        status, _, body = text.partition(" ")
        if status != "200":
            continue
        seen.add(verb)
        given = json.loads(body)
        rows = given["jobs" if verb == "list" else verb] if VERBS[verb].scope is Scope.ALL else [given]
        for each in rows:
            other = VERBS[verb].other_row if each.get("status") == "dead" else None
            assert encode_json(read_reply(other or VERBS[verb].reply, each)) == encode_json(each)
    assert set(VERBS) - NOT_RECORDED <= seen


def test_every_verb_names_the_struct_of_its_reply() -> None:
    assert [verb.name for verb in VERBS.values() if not verb.reply.__struct_fields__] == FILES


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("describe", ("seen", "voters_without_votes")),
        ("why", ("newest", "missing", "voters_without_votes")),
        ("offsets", ("first",)),
        ("results", ("first", "revision")),
    ],
)
def test_the_replies_of_the_release_before_are_read(verb: str, names: tuple[str, ...]) -> None:
    """It does not send these names; later releases send names that this one ignores."""
    sent = {name: value for name, value in recorded_reply(verb).items() if name not in names}
    reply = read_reply(VERBS[verb].reply, sent | {"of a later release": 1})
    assert "of a later release" not in encode_json(reply).decode()


def test_a_reply_without_a_name_is_refused_with_that_name() -> None:
    sent = recorded_reply("why")
    del sent["because"]
    with pytest.raises(ProtocolError, match=r"the answer of the agent is malformed: .*`because`"):
        read_reply(VERBS["why"].reply, sent)
