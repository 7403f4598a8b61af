"""Webhooks: each interval arrives under one key, whatever is killed or answered; and only where it may go."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web

from elfmesh.agent.sinks import follow
from elfmesh.agent.sinks.addresses import CheckedResolver, Forbidden
from elfmesh.agent.sinks.base import LostIntervals, Position, RecordFenced, RecordRefused, Unavailable
from elfmesh.agent.sinks.config import WebhookSink
from elfmesh.agent.sinks.webhook import Webhook
from elfmesh.storage import failpoints, starving
from elfmesh.storage.storage import DiskStorage
from tests.agent.sinks.listening import listening
from tests.agent.sinks.rig import HOSTILE, LOG, Died, Following, Master, die, item
from tests.agent.sinks.servers import EXHAUSTED, starved

LOOPBACK = ("127.0.0.0/8",)


class Receiver:
    """A real HTTP server that does what idempotent receivers do: it keeps the first body of each key."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        self.answers: list[int] = []
        self.requests: list[web.Request] = []
        self.hang = asyncio.Event()
        self.hang.set()
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await self.hang.wait()
        status = self.answers.pop(0) if self.answers else 204
        body = await request.json()
        if status < 300:
            key = request.headers["Idempotency-Key"]
            assert self.kept.setdefault(key, body) == body, "a key means one body"
        return web.Response(status=status, headers={"Location": "/elsewhere"}, body=b"x" * 100_000)

    @property
    def intervals(self) -> list[int]:
        return [body["interval"]["index"] for body in self.kept.values() if "interval" in body]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    async with listening(found.handle) as found.port:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.005)


class Hooks:
    """Sinks of one agent, one after the other."""

    def __init__(self, tmp_path: Path) -> None:
        self.storage = DiskStorage(tmp_path / "sinks")
        self.made: list[Webhook] = []

    def sink(self, receiver: Receiver, host: str = "127.0.0.1", **options: Any) -> Webhook:
        options = {"allow": LOOPBACK, "headers": {"Authorization": "Bearer secret"}} | options
        url = f"http://{host}:{receiver.port}/hook?token=1"
        hook = Webhook("hook", WebhookSink(jobs=("*",), url=url, **options), self.storage)
        self.made.append(hook)
        return hook


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    found = Hooks(tmp_path)
    yield found
    for hook in found.made:
        await hook.close()
    found.storage.close()


async def test_an_interval_arrives_with_its_key(receiver: Receiver, hooks: Hooks) -> None:
    hook = hooks.sink(receiver)
    assert await hook.write(LOG, item(57))
    assert not await hook.write(LOG, item(57))
    body = receiver.kept['"shop/top:1a2b:57:1"']
    assert body["incarnation"] == "1a2b"
    assert body["rows"] == [{"path": "/0", "hits": 57}, {"path": "/1", "hits": 57}]
    assert receiver.requests[0].headers["Authorization"] == "Bearer secret"
    assert await hook.position(LOG) == Position(58, 1)
    assert hook.describe() == {"url": f"http://127.0.0.1:{receiver.port}"}, "a path may be a secret"


async def test_early_lines_arrive_once_each_before_the_record_of_their_interval(
    receiver: Receiver, hooks: Hooks, tmp_path: Path
) -> None:
    """A sink that starts again sends the lines of open windows again, with the same keys."""
    master = Master(tmp_path / "log")
    master.append(item(56))
    master.tentative = [item(57, state="EARLY", rev=rev, epoch=epoch) for epoch in (1, 2) for rev in (1, 2)]
    lines = [f'"shop/top:1a2b:57:early-{epoch}-{rev}"' for epoch in (1, 2) for rev in (1, 2)]
    for _ in range(2):
        async with Following(hooks.sink(receiver), master, state="early") as following:
            await following.until(lambda: [*receiver.kept] == ['"shop/top:1a2b:56:1"', *lines])
    body = receiver.kept[lines[0]]
    assert (body["state"], body["epoch"], body["incarnation"]) == ("EARLY", 1, "1a2b")
    assert await hooks.made[-1].position(LOG) == Position(57, 1)
    master.append(item(57, epoch=2))
    master.tentative = []
    async with Following(hooks.sink(receiver), master, state="early") as following:
        await following.until(lambda: '"shop/top:1a2b:57:1"' in receiver.kept)


async def test_a_crash_anywhere_repeats_keys_and_loses_nothing(
    receiver: Receiver, hooks: Hooks, tmp_path: Path
) -> None:
    master = Master(tmp_path / "log")
    master.append(*(item(index) for index in range(6)))
    for place in ("sink.write", "sink.written"):
        for nth in (1, 2):
            with failpoints.armed(f"{place}.webhook", die, n=nth), pytest.raises(Died):
                async with Following(hooks.sink(receiver), master) as following:
                    await following.until(lambda: False)
    async with Following(hooks.sink(receiver), master) as following:
        await following.until(lambda: following.progress.lag == 0)
    assert receiver.intervals == list(range(6))
    assert len(receiver.requests) == 8, "two were sent again, with the same keys"


async def test_failures_are_tried_again_and_redirects_not_followed(
    receiver: Receiver, hooks: Hooks, tmp_path: Path
) -> None:
    receiver.answers = [500, 302, 404, 429, 401, 409, 200]
    master = Master(tmp_path / "log")
    master.append(item(1))
    async with Following(hooks.sink(receiver), master) as following:
        await following.until(lambda: following.progress.lag == 0)
        assert following.progress.failures == 6
    assert {request.path for request in receiver.requests} == {"/hook"}
    assert len({request.headers["Idempotency-Key"] for request in receiver.requests}) == 1


async def test_an_interval_that_is_refused_for_ever_is_a_dead_letter_and_declared(
    receiver: Receiver, hooks: Hooks, tmp_path: Path
) -> None:
    receiver.answers = [422, 200, 200]
    master = Master(tmp_path / "log")
    master.append(item(1), item(2))
    async with Following(hooks.sink(receiver), master) as following:
        await following.until(lambda: following.progress.lag == 0)
    assert following.letters == [(1, "the receiver answered 422")]
    assert receiver.intervals == [2]
    assert receiver.kept['"shop/top:1a2b:1-1:lost"']["lost"] == [1, 1]


async def test_a_receiver_that_refuses_declarations_of_losses_does_not_stop_the_rest(
    receiver: Receiver, hooks: Hooks
) -> None:
    receiver.answers = [400]
    hook = hooks.sink(receiver)
    await hook.declare(LOG, LostIntervals(1, 5, "gone"))
    assert await hook.position(LOG) == Position(6)


async def test_a_receiver_that_hangs_is_not_waited_for(receiver: Receiver, hooks: Hooks) -> None:
    receiver.hang.clear()
    with pytest.raises(Unavailable, match="within 50 ms"):
        await hooks.sink(receiver, timeout="50 ms").write(LOG, item(1))
    receiver.hang.set()


async def test_too_much_is_refused_before_it_is_sent(receiver: Receiver, hooks: Hooks) -> None:
    with pytest.raises(RecordRefused, match="body_max"):
        await hooks.sink(receiver, body_max="1 kB").write(LOG, item(1, pa.table({"t": ["x" * 2000]})))
    assert receiver.requests == []


async def test_hostile_values_are_json(receiver: Receiver, hooks: Hooks) -> None:
    await hooks.sink(receiver).write(LOG, item(1, HOSTILE))
    (body,) = receiver.kept.values()
    first = body["rows"][0]
    assert first["text"] == HOSTILE.column("text")[0].as_py()
    assert (first["number"], first["sketch"], first["never"]) == ("NaN", "AP+A", None)
    assert body["rows"][1]["whole"] == -(2**63)


async def test_a_master_that_wakes_is_refused_also_after_a_restart(receiver: Receiver, hooks: Hooks) -> None:
    hook = hooks.sink(receiver)
    await hook.write(LOG, item(1, epoch=5))
    await hook.write(LOG, item(2, epoch=6, state="TENTATIVE"))
    with pytest.raises(RecordFenced):
        await hook.write(LOG, item(2, epoch=5, state="TENTATIVE", rev=2))
    with pytest.raises(RecordFenced):
        await hooks.sink(receiver).write(LOG, item(2, epoch=4))


async def test_addresses_that_are_not_public_must_be_allowed(receiver: Receiver, hooks: Hooks) -> None:
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(Unavailable, match="not public"):
            await hooks.sink(receiver, host, allow=("10.0.0.0/8",)).write(LOG, item(1))
    assert receiver.requests == []
    assert await hooks.sink(receiver, "localhost", allow=(*LOOPBACK, "::1/128")).write(LOG, item(1))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "0.0.0.0", "::1", "fe80::1", "fd00::1",
     "::ffff:127.0.0.1", "100.64.0.1", "224.0.0.1", "ff02::1"],
)  # fmt: skip
async def test_what_is_not_public(host: str) -> None:
    resolver = CheckedResolver(())
    assert not resolver.may(host)
    with pytest.raises(Forbidden):
        await resolver.check(f"http://[{host}]/" if ":" in host else f"http://{host}/")


def test_what_is_public() -> None:
    assert CheckedResolver(()).may("93.184.216.34")
    assert CheckedResolver(("10.0.0.0/8",)).may("::ffff:10.1.1.1")


async def test_a_damaged_position_is_a_problem_not_a_beginning(
    receiver: Receiver, hooks: Hooks, tmp_path: Path
) -> None:
    await hooks.sink(receiver).write(LOG, item(1))
    (place,) = (tmp_path / "sinks" / "hook.positions").rglob("1a2b")
    assert json.loads(place.read_bytes())["next"] == 2
    place.write_bytes(b"{")
    with pytest.raises(Unavailable, match="damaged"):
        await hooks.sink(receiver).position(LOG)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_sink_without_descriptors_reports_it_and_calls_again_when_it_has_them(
    receiver: Receiver, hooks: Hooks, tmp_path: Path, host: str
) -> None:
    """It lacks them for the request, and then for its position."""
    master = Master(tmp_path)
    master.append(item(0), item(1), item(2))
    hook, without = hooks.sink(receiver, host), contextlib.ExitStack()
    async with Following(hook, master) as following:
        with failpoints.armed("sink.write.webhook", lambda: without.enter_context(starved())):
            await following.until(lambda: EXHAUSTED in following.progress.problem)
            await following.until(lambda: EXHAUSTED in starving.problem("elf-own-hook"))
            without.close()
        await following.until(lambda: following.progress.written == 3)
        assert (following.progress.refused, following.progress.lost) == (0, 0)
    assert receiver.intervals == [0, 1, 2]
