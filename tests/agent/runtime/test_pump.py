"""The pump: one event at a time, one timer that is never late, and an end that is final."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from elfmesh.agent.runtime.pump import Pump
from elfmesh.control.protocol.events import ClientGone, ClientRequest, Reply
from elfmesh.errors import Unreachable
from elfmesh.machine import Contact, Effect, Event, Message, Received, Send, Tick
from elfmesh.overlay.events import ConnectionLost, Joined
from elfmesh.overlay.messages import Ping
from elfmesh.storage.statelog import StateLog
from elfmesh.storage.storage import MemoryStorage
from tests.sim.world.agents import MemoryResults

PEER = Contact(b"p" * 20, "10.0.0.1", 7400, 1)


class Core:
    """Says what a test told it to say, and remembers the events and when they came."""

    def __init__(self) -> None:
        self.deadline: float | None = None
        self.events: list[Event] = []
        self.says: Callable[[Event], Sequence[Effect]] = lambda event: ()

    def step(self, event: Event, now: float) -> list[Effect]:
        self.events.append(event)
        return list(self.says(event))


class Wire:
    """A transport that has a limit."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    def send(self, to: Contact, message: Message, payload: bytes, lane: object) -> None:
        if payload:
            raise ValueError("over the limit")
        self.sent.append(message)


class Rig:
    def __init__(self) -> None:
        self.core, self.wire = Core(), Wire()
        unused = cast(Any, None)
        self.pump = Pump(
            cast(Any, self.core),
            me=PEER,
            transport=cast(Any, self.wire),
            state=StateLog(MemoryStorage()),
            executor=unused,
            compute=unused,
            results=MemoryResults(),
            dead_letter=unused,
            workers=lambda emit: unused,
            wall_us=lambda: 77,
            recheck=unused,
            try_functions=unused,
        )


async def test_an_event_that_comes_within_a_step_waits_for_the_end_of_the_step() -> None:
    rig, order = Rig(), list[str]()

    def says(event: Event) -> Sequence[Effect]:
        order.append(f"begin {len(rig.core.events)}")
        if len(rig.core.events) == 1:
            rig.pump.step(Tick())
        order.append(f"end {len(rig.core.events)}")
        return ()

    rig.core.says = says
    rig.pump.step(Tick())
    assert order == ["begin 1", "end 1", "begin 2", "end 2"]
    assert rig.pump.queues["events"] == 0


async def test_what_peers_send_and_lose_are_events() -> None:
    rig = Rig()
    rig.pump.received(PEER, Ping(1), b"x")
    rig.pump.lost(PEER.id)
    assert rig.core.events == [Received(PEER, Ping(1), b"x"), ConnectionLost(PEER.id)]


class Timer:
    """One that was set on the loop."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when, self.callback, self.cancelled = when, callback, False

    def cancel(self) -> None:
        self.cancelled = True


async def test_the_timer_is_never_later_than_the_deadline_and_an_early_one_is_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, timers, now = Rig(), list[Timer](), [0.0]
    loop = asyncio.get_running_loop()

    def call_at(when: float, callback: Callable[[], None]) -> Timer:
        timers.append(Timer(when, callback))
        return timers[-1]

    def step(deadline: float | None) -> list[tuple[float, bool]]:
        rig.core.deadline = deadline
        rig.pump.step(Joined())
        return [(each.when, each.cancelled) for each in timers]

    with monkeypatch.context() as played:
        played.setattr(loop, "time", lambda: now[0])
        played.setattr(loop, "call_at", call_at)
        assert step(None) == []
        assert step(100) == [(100, False)]
        assert step(50) == [(100, True), (50, False)]
        assert step(70) == [(100, True), (50, False)], "it comes too early, and costs nothing to leave"
        now[0] = 50
        timers[-1].callback()
        assert Tick() not in rig.core.events
        assert [(each.when, each.cancelled) for each in timers[2:]] == [(70, False)]
        now[0] = 70
        timers[-1].callback()
        assert rig.core.events[-1] == Tick()
        assert [each.when for each in timers[3:]] == [70], "the core still has this deadline"


async def test_a_request_is_answered_by_the_reply_with_its_token() -> None:
    rig = Rig()
    rig.core.says = lambda event: [Reply(9, 500), Reply(cast(Any, event).token, 200, {"ok": True})]
    assert (await rig.pump.request("health", {"a": 1})).body == {"ok": True}
    assert (await rig.pump.request("jobs", {})).body == {"ok": True}
    asked = [event for event in rig.core.events if isinstance(event, ClientRequest)]
    assert [(each.verb, each.body, each.wall_us) for each in asked] == [
        ("health", {"a": 1}, 77),
        ("jobs", {}, 77),
    ]
    assert asked[0].token != asked[1].token
    assert rig.pump.queues["answers"] == 0


async def test_a_client_that_goes_and_one_that_waits_too_long() -> None:
    rig = Rig()
    waits = asyncio.ensure_future(rig.pump.request("jobs", {}))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    first, last = rig.core.events
    assert last == ClientGone(cast(ClientRequest, first).token)
    with pytest.raises(Unreachable, match=r"no answer to 'jobs' within 0\.001 s"):
        await rig.pump.request("jobs", {}, timeout_s=0.001)
    assert not any(isinstance(event, ClientGone) for event in rig.core.events[2:])
    assert rig.pump.queues["answers"] == 0


async def test_a_message_over_the_limit_is_counted_and_the_agent_goes_on() -> None:
    rig = Rig()
    rig.core.says = lambda event: [Send(PEER, Ping(1), b"long"), Send(PEER, Ping(2))]
    rig.pump.step(Tick())
    assert rig.wire.sent == [Ping(2)]
    assert rig.pump.counters["not_sent_too_big"] == 1
    assert not rig.pump.failed.done()


class Unheard(Effect):
    """An effect that the pump does not know."""


async def test_what_the_agent_must_not_survive_ends_it_once_and_for_all() -> None:
    rig = Rig()
    rig.core.says = lambda event: [Unheard()]
    rig.pump.step(Tick())
    failure = rig.pump.failed.result()
    assert isinstance(failure, TypeError)
    assert str(failure) == "no handler for Unheard"
    rig.pump.step(Tick())
    rig.pump.fail(RuntimeError("later"))
    assert rig.core.events == [Tick()]
    assert rig.pump.failed.result() is failure
