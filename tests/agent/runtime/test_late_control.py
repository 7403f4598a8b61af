"""Agents that load the engine with their first job: slow ones are founding members all the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from elfmesh import ids
from elfmesh.agent.runtime.late_control import KEPT_BYTES_MAX, KEPT_MAX, LateControl, LoadEngine
from elfmesh.control.machine import Control
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import Withdraw, pack
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.control.protocol.messages_succession import Inquire, Known
from elfmesh.control.protocol.messages_versions import Coming
from elfmesh.machine import Contact, Effect, Event, Message, Received, Send
from elfmesh.overlay.events import Joined, RouteDelivered
from elfmesh.srt.events import BecameRoot, Delivered, MulticastAnswer, Publish
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT, Agent

SLOW_S = 4.0
ME, PEER = Contact(b"\1" * 20, "here", 1, 1), Contact(b"\2" * 20, "there", 2, 1)


class SlowWorld(World):
    """Agents that load the engine late, and take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.late: dict[bytes, tuple[LateControl, float]] = {}
        self.loads: dict[bytes, float] = {}

    def add(self, number: int, *, loads_s: float = 0.0, **of: Any) -> Agent:
        self._loads_s = loads_s
        return super().add(number, loads_s=loads_s, **of)

    def _give(self, agent: Agent, event: Event) -> list[Effect]:
        late, loads_s = self.late.setdefault(agent.me.id, (LateControl(agent.control), self._loads_s))
        given = late.release() if isinstance(event, Loaded) else [event]
        effects = [effect for each in given for effect in late.step(each, self.now)]
        if LoadEngine() in effects:
            assert agent.me.id not in self.loads, "it loads once"
            self.loads[agent.me.id] = self.now
            self.post(loads_s, agent, Loaded())
        return [effect for effect in effects if effect != LoadEngine()]


class Loaded(Event):
    """The thread has loaded the engine."""


def slow_fleet(*loads_s: float) -> SlowWorld:
    world = SlowWorld()
    for number, each in enumerate(loads_s):
        world.add(number, loads_s=each)
    world.run(60.0)  # an old fleet gives no time for being young
    assert not world.loads, "no agent loads what it does not need"
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
def test_the_first_job_finds_all_its_members_however_slowly_they_load(loads_s: Sequence[float]) -> None:
    world = slow_fleet(*loads_s)
    fill(world, intervals=2)
    reply = world.apply(world[0])
    assert (reply.status, reply.body["expected"], reply.body["acknowledged"]) == (200, 5, 5)
    assert len(world.loads) == 5
    world.seal_all(BASE + 2 * SLIDE)
    world.run(2.0)
    exact(world, world[0])
    assert {record.agents_in for record, _ in world.results(world[0])} == {5}


def test_members_load_at_the_same_time_and_not_one_behind_the_other() -> None:
    world = slow_fleet(*(SLOW_S,) * 5)
    began = world.now
    world.apply(world[0])
    assert 2 * SLOW_S < world.now - began < 2 * SLOW_S + 1.0, "who is asked, and then all others"


def test_who_loads_answers_meanwhile() -> None:
    world = slow_fleet(*(SLOW_S,) * 3)
    token = world.request(world[0], "apply", {"text": TEXT})
    world.run(0.5)
    began = world.now
    assert len(world.ask(world[0], "agents").body["agents"]) == 3
    assert world.ask(world[1], "health").status == 200
    assert world.now - began < 1.0
    assert token not in world[0].replies


def test_an_announcement_is_one_multicast_once_the_stream_has_a_job() -> None:
    world = slow_fleet(0.1, 0.1)
    world.apply(world[0])
    sent = [each for _, _, each in world.trace].count("Delivered")
    world.apply(world[0], TEXT.replace("shop.top", "shop.other"))
    other = [each for _, _, each in world.trace].count("Delivered") - sent
    world.apply(world[0], TEXT.replace("shop.top", "shop.third"))
    assert [each for _, _, each in world.trace].count("Delivered") - sent == 2 * other
    assert len(world.loads) == 2


class Late:
    """One agent that has joined, and what it gives."""

    def __init__(self) -> None:
        self.control = Control(ME, "me", rng=random.Random(1))
        self.late = LateControl(self.control)
        self.late.step(Joined(), 0.0)

    def step(self, event: Event) -> list[Effect]:
        return self.late.step(event, 1.0)

    def received(self, message: Message, payload: bytes = b"") -> list[type[Effect]]:
        return [type(each) for each in self.step(Received(PEER, message, payload))]

    def loaded(self) -> list[Effect]:
        return [effect for event in self.late.release() for effect in self.step(event)]


def apply(token: int) -> ctl.ClientRequest:
    return ctl.ClientRequest(token, "apply", {}, 0)


def test_what_needs_the_engine_waits_in_its_order_and_what_does_not_passes() -> None:
    late = Late()
    assert late.step(apply(7)) == [LoadEngine()]
    assert late.step(apply(8)) == []
    assert late.received(Inquire(b"\3" * 20, 1)) == [Send]
    assert late.received(Known(b"\3" * 20, 1, None, None)) == []
    assert late.received(Withdraw(b"\3" * 20, "log", "a", 1)) == []
    assert [each.token for each in late.loaded() if isinstance(each, ctl.Reply)] == [7, 8]
    assert any(isinstance(each, ctl.Reply) for each in late.step(apply(9)))


def test_a_coming_job_is_loaded_for_and_keeps_nothing() -> None:
    late, tree = Late(), ids.stream_id("clicks")
    late.step(BecameRoot(tree))
    body = pack(Coming("clicks"))
    load, published = late.step(RouteDelivered(tree, body, b"", PEER))
    assert load == LoadEngine()
    assert isinstance(published, Publish), "the hosts of the stream load at the same time"
    assert late.step(Delivered(tree, 1, body)) == [MulticastAnswer(tree, 1, b"")]
    assert late.loaded() == []
    assert late.received(Coming("log")) == []


def test_no_more_is_kept_than_there_is_room_and_a_client_is_told() -> None:
    late = Late()
    for token in range(KEPT_MAX):
        late.step(apply(token))
    (reply,) = late.step(apply(KEPT_MAX))
    assert isinstance(reply, ctl.Reply)
    assert reply.status == 503
    assert late.control.stats()["control.not_kept"] == 1
    notified = [each for each in late.loaded() if isinstance(each, ctl.Reply)]
    assert len(notified) == KEPT_MAX


def test_what_peers_send_meanwhile_does_not_fill_the_memory() -> None:
    late, size = Late(), KEPT_BYTES_MAX // 4 - 1000
    message = Keep(b"\3" * 20, "i", PEER.id, 0, 1, 2, ())
    for _ in range(4):
        late.received(message, bytes(size))
    assert "control.not_kept" not in late.control.stats()
    late.received(message, bytes(4000))
    assert late.control.stats()["control.not_kept"] == 1
    assert not late.step(apply(7)), "a client's request is small"
