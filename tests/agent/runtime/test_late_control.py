"""Agents that still load the engine: what others ask of them waits, and their own work goes on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from elfmesh.agent.runtime.late_control import KEPT_BYTES_MAX, KEPT_MAX, LateControl
from elfmesh.control.machine import Control
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import WhatRuns, pack
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.control.protocol.messages_succession import Inquire
from elfmesh.machine import Contact, Effect, Event, Received, Send, Tick
from elfmesh.overlay.events import Joined, RouteDelivered
from elfmesh.srt.events import Delivered, Subscribe
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

SLOW_S = 4.0
ME, PEER = Contact(b"\1" * 20, "here", 1, 1), Contact(b"\2" * 20, "there", 2, 1)
JOB = b"\3" * 20


class Loaded(Event):
    """The thread has loaded the engine."""


class SlowWorld(World):
    """Agents that load the engine after their start, and take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[bytes, LateControl] = {}
        self.loaded: set[bytes] = set()

    def add(self, number: int, *, loads_s: float = 0.0, **of: Any) -> Agent:
        self._loads_s = loads_s
        return super().add(number, **of)

    def _give(self, agent: Agent, event: Event) -> list[Effect]:
        if agent.me.id not in self.late:
            self.late[agent.me.id] = LateControl(agent.control)
            self.post(self._loads_s, agent, Loaded())
        late = self.late[agent.me.id]
        if isinstance(event, Loaded):
            self.loaded.add(agent.me.id)
            return [effect for each in late.release() for effect in late.step(each, self.now)]
        return late.step(event, self.now)


def slow_fleet(*loads_s: float) -> SlowWorld:
    world = SlowWorld()
    for number, each in enumerate(loads_s):
        world.add(number, loads_s=each)
    return world


@pytest.mark.parametrize(
    "loads_s",
    [
        (SLOW_S,) * 5,
        (2 * SLOW_S,) * 5,
        (0.1, SLOW_S, 0.1, SLOW_S, 0.1),
        *([2 * SLOW_S if at == number else 0.1 for at in range(5)] for number in range(5)),
    ],
    ids=["all", "all very", "some", *(f"very: {number}" for number in range(5))],
)
def test_the_first_job_of_a_new_fleet_finds_all_its_members_however_slowly_they_load(
    loads_s: Sequence[float],
) -> None:
    world = slow_fleet(*loads_s)
    assert len(world.loaded) < 5
    fill(world, intervals=2)
    reply = world.apply(world[0])
    assert (reply.status, reply.body["expected"], reply.body["acknowledged"]) == (200, 5, 5)
    assert len(world.loaded) == 5
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    exact(world, world[0])
    assert {record.agents_in for record, _ in world.results(world[0])} == {5}


def test_an_agent_that_loads_reports_its_health_and_not_that_of_others() -> None:
    world = slow_fleet(*(SLOW_S,) * 3)
    token = world.request(world[0], "apply", {"text": TEXT})
    agents = world.request(world[0], "agents")
    assert world.ask(world[1], "health").status == 200
    assert not world.loaded
    assert not world[0].replies
    world.run(2 * SLOW_S)
    assert world[0].replies[token].status == 200
    assert len(world[0].replies[agents].body["agents"]) == 3


class Late:
    """One agent that has joined and loads the engine."""

    def __init__(self) -> None:
        self.control = Control(ME, "me", rng=random.Random(1))
        self.late = LateControl(self.control)
        self.joining = self.step(Joined())

    def step(self, event: Event, now: float = 1.0) -> list[Effect]:
        return self.late.step(event, now)

    def loaded(self) -> list[Effect]:
        return [effect for event in self.late.release() for effect in self.step(event)]


def apply(token: int) -> ctl.ClientRequest:
    return ctl.ClientRequest(token, "apply", {}, 0)


def test_what_others_ask_waits_in_its_order() -> None:
    late = Late()
    asked = (
        apply(7),
        Received(PEER, Inquire(JOB, 1), b""),
        ctl.ClientRequest(8, "no verb", {}, 0),
        RouteDelivered(JOB, pack(WhatRuns("clicks", PEER)), b"", PEER),
        Delivered(JOB, 1, b""),
    )
    assert [effect for event in asked for effect in late.step(event)] == []
    answers = [type(each).__name__ for each in late.loaded()]
    assert answers == ["Reply", "Send", "Reply", "Send", "MulticastAnswer"]
    assert late.loaded() == [], "it is delivered once"
    assert [type(each) for each in late.step(asked[1])] == [Send], "what comes later does not wait"


def test_a_client_that_has_gone_is_not_answered_after_loading() -> None:
    late = Late()
    late.step(ctl.ClientRequest(7, "describe", {"job": "shop/top"}, 0))
    late.step(ctl.ClientGone(7))
    late.loaded()
    assert not late.control.requests._open


def test_its_own_start_and_its_timers_do_not_wait() -> None:
    late = Late()
    assert Subscribe in {type(each) for each in late.joining}
    fired: list[float] = []
    late.control.context.after(5.0, lambda: fired.append(late.control.context.now))
    late.step(apply(7))
    while not fired:
        assert late.late.deadline is not None
        late.step(Tick(), late.late.deadline)
    assert fired == [6.0]


def test_no_more_is_kept_than_there_is_room_and_a_client_is_refused() -> None:
    late = Late()
    for token in range(KEPT_MAX):
        late.step(apply(token))
    (reply,) = late.step(apply(KEPT_MAX))
    assert isinstance(reply, ctl.Reply)
    assert reply.status == 503
    assert late.control.stats()["control.not_kept"] == 1
    answered = [each for each in late.loaded() if isinstance(each, ctl.Reply)]
    assert len(answered) == KEPT_MAX


def test_what_peers_send_meanwhile_does_not_fill_the_memory() -> None:
    late, size = Late(), KEPT_BYTES_MAX // 4 - 1000
    message = Keep(JOB, "i", PEER.id, 0, 1, 2, ())
    for _ in range(4):
        late.step(Received(PEER, message, bytes(size)))
    assert "control.not_kept" not in late.control.stats()
    late.step(Received(PEER, message, bytes(4000)))
    assert late.control.stats()["control.not_kept"] == 1
    assert not late.step(apply(7)), "a client's request is small"
