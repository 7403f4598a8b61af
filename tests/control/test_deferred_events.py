"""Agents that have not loaded what evaluates jobs: slow ones are founding members all the same."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from elfmesh.control.deferred_events import KEPT_BYTES_MAX, KEPT_MAX
from elfmesh.control.machine import Control
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol.messages import Withdraw
from elfmesh.control.protocol.messages_safety import Keep
from elfmesh.control.protocol.messages_succession import Inquire, Known
from elfmesh.control.protocol.messages_versions import Coming
from elfmesh.machine import Contact, Message, Received, Send
from elfmesh.overlay.events import Joined
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.harness import World
from tests.control.member.support import TEXT

SLOW_S = 4.0
ME, PEER = Contact(b"\1" * 20, "here", 1, 1), Contact(b"\2" * 20, "there", 2, 1)


def slow_fleet(*loads_s: float) -> World:
    world = World()
    for number, each in enumerate(loads_s):
        world.add(number, loads_s=each)
    world.run(60.0)  # an old fleet gives nobody time because it is young
    assert not any(agent.loading for agent in world.living), "nobody asks for what it does not need"
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
    assert [agent.loading for agent in world.living] == [1] * 5
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
    assert [agent.loading for agent in world.living] == [1, 1]


def machine() -> Control:
    control = Control(ME, "me", rng=random.Random(1), engine=False)
    control.step(Joined(), 0.0)
    return control


def reported(control: Control, message: Message, now: float = 1.0) -> list[object]:
    return [type(each) for each in control.step(Received(PEER, message, b""), now)]


def test_what_needs_the_engine_waits_in_its_order_and_what_does_not_passes() -> None:
    control = machine()
    first, second = (ctl.ClientRequest(token, "apply", {}, 0) for token in (7, 8))
    assert control.step(first, 1.0) == [ctl.LoadEngine()]
    assert control.step(second, 1.0) == []
    assert reported(control, Inquire(b"\3" * 20, 1)) == [Send]
    assert reported(control, Known(b"\3" * 20, 1, None, None)) == []
    assert reported(control, Withdraw(b"\3" * 20, "log", "a", 1)) == []
    effects = control.step(ctl.EngineLoaded(), 2.0)
    assert [each.token for each in effects if isinstance(each, ctl.Reply)] == [7, 8]
    assert any(
        isinstance(each, ctl.Reply) for each in control.step(ctl.ClientRequest(9, "apply", {}, 0), 3.0)
    )


def test_a_coming_job_is_loaded_for_and_keeps_nothing() -> None:
    control = machine()
    assert reported(control, Coming("log")) == [ctl.LoadEngine]
    assert reported(control, Coming("log")) == []
    assert control.step(ctl.EngineLoaded(), 2.0) == []
    assert reported(control, Coming("log"), 3.0) == []


def test_no_more_is_kept_than_there_is_room_and_a_client_is_told() -> None:
    control = machine()
    job = Known(b"\3" * 20, 1, None, None)
    for token in range(KEPT_MAX):
        control.step(ctl.ClientRequest(token, "apply", {}, 0), 1.0)
    (reply,) = control.step(ctl.ClientRequest(KEPT_MAX, "apply", {}, 0), 1.0)
    assert isinstance(reply, ctl.Reply)
    assert reply.status == 503
    assert control.context.stats["control.not_kept"] == 1
    assert reported(control, job) == []
    notified = [each for each in control.step(ctl.EngineLoaded(), 2.0) if isinstance(each, ctl.Reply)]
    assert len(notified) == KEPT_MAX


def test_what_peers_send_meanwhile_does_not_fill_the_memory() -> None:
    control, size = machine(), KEPT_BYTES_MAX // 4 - 1000
    message = Keep(b"\3" * 20, "i", PEER.id, 0, 1, 2, ())
    for _ in range(4):
        control.step(Received(PEER, message, bytes(size)), 1.0)
    before = control.context.stats["control.not_kept"]
    control.step(Received(PEER, message, bytes(4000)), 1.0)
    assert (before, control.context.stats["control.not_kept"]) == (0, 1)
    assert not control.step(ctl.ClientRequest(7, "apply", {}, 0), 1.0), "a client's word is small"
