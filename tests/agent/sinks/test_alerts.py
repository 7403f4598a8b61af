"""Alerts reach a receiver when they fire, while they fire, and when they resolve; after a restart too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiohttp import web

from elfmesh.agent.sinks import follow
from elfmesh.agent.sinks.alerts import AlertSink
from elfmesh.agent.sinks.base import LogName, SinkItem, Unavailable
from elfmesh.agent.sinks.config import AlertmanagerSink, WebhookSink
from elfmesh.agent.sinks.follow import Follower
from elfmesh.control.answers import OK
from elfmesh.control.protocol.events import Reply
from elfmesh.storage.storage import DiskStorage
from tests.agent.sinks.listening import listening
from tests.agent.sinks.rig import JOB, LOG, START_US, Master, item
from tests.patience import PATIENCE_S

TEXT = (
    "CREATE JOB shop.top EVERY '1 s' ALERT hot WHEN hits > 10 FOR 2 INTERVALS RESOLVE AFTER 2 INTERVALS"
    " AS SELECT path, count(*) AS hits FROM log GROUP BY path"
)


class Receiver:
    """Keeps the requests; answers 503 while it is `down`."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self.down = False
        self.refused = asyncio.Event()
        self.port = 0

    async def handle(self, request: web.Request) -> web.Response:
        if self.down:
            self.refused.set()
            return web.Response(status=503)
        self.requests.append((request.path, request.headers["Idempotency-Key"], await request.json()))
        return web.Response(status=200)

    @property
    def states(self) -> list[tuple[int, str, str]]:
        return [
            (body["interval"]["index"], body["labels"]["path"], body["state"]) for *_, body in self.requests
        ]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    async with listening(found.handle) as found.port:
        yield found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE_S", 0.005)


class Host:
    """One agent at a time, with a sink for alerts over a real results log."""

    def __init__(self, tmp_path: Path, receiver: Receiver) -> None:
        self.receiver, self.master = receiver, Master(tmp_path / "log")
        self.storage, self.text = DiskStorage(tmp_path / "sinks"), TEXT
        self.task: asyncio.Task[None] | None = None
        self.next = 0

    async def ask(self, verb: str, body: dict[str, Any]) -> Reply:
        if verb == "describe":
            return Reply(0, OK, {"text": self.text})
        return await self.master.ask(verb, body)

    def start(self, kind: str = "webhook", **options: Any) -> AlertSink:
        url, allow = f"http://127.0.0.1:{self.receiver.port}/hook", ("127.0.0.0/8",)
        config: WebhookSink | AlertmanagerSink = WebhookSink(
            jobs=("*",), url=url, allow=allow, alerts=True, **options
        )
        if kind == "alertmanager":
            config = AlertmanagerSink(jobs=("*",), url=f"{url}/", allow=allow)
        self.sink = AlertSink("pager", config, self.storage)
        job = {"job": JOB, "creator": "me"}
        self.sink.reads(self.ask, job)
        follower = Follower(self.sink, "pager", job, "final", self.ask, self._keep, newest=True, resumes=True)
        self.task = asyncio.create_task(follower.run())
        return self.sink

    async def _keep(self, log: LogName, refused: SinkItem, reason: str) -> None:
        raise AssertionError(reason)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            await self.sink.close()
            self.task = None

    async def reaches(self, index: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                place = await self.sink.position(LOG)
                if place is not None and place.next > index:
                    return
                await asyncio.sleep(0.005)

    async def closes(self, *hits: dict[str, int]) -> None:
        """Close an interval for each dict of hits by path, and wait until the sink has it."""
        for each in hits:
            index, self.next = self.next, self.next + 1
            table = pa.table({"path": list(each), "hits": pa.array(list(each.values()), pa.int64())})
            self.master.append(item(index, table))
            if self.task is not None:
                await self.reaches(index)


@pytest.fixture
async def host(tmp_path: Path, receiver: Receiver) -> AsyncIterator[Host]:
    found = Host(tmp_path, receiver)
    yield found
    await found.stop()
    found.storage.close()


async def test_an_alert_is_sent_when_it_fires_and_when_it_resolves(host: Host, receiver: Receiver) -> None:
    await host.closes({"/a": 1})
    sink = host.start()
    await host.reaches(0)
    await host.closes({"/a": 11}, {"/a": 11, "/b": 11}, {"/a": 11, "/b": 12}, {"/b": 12}, {}, {}, {})
    assert receiver.states == [
        (2, "/a", "firing"), (3, "/b", "firing"), (5, "/a", "resolved"), (6, "/b", "resolved"),
    ]  # fmt: skip
    _, key, body = receiver.requests[0]
    assert key.startswith('"shop/top:1a2b:hot:')
    assert key.endswith(':firing:2"')
    assert body["condition"] == "hits > 10"
    assert datetime.fromisoformat(body["since"]).timestamp() == START_US / 1e6 + 1
    assert sink.describe()["firing"] == {JOB: 0}


async def test_a_firing_alert_is_sent_again(host: Host, receiver: Receiver) -> None:
    host.start(repeat="3 s")
    await host.closes(*[{"/a": 11}] * 9)
    assert [index for index, *_ in receiver.states] == [1, 4, 7]
    assert host.sink.describe()["firing"] == {JOB: 1}


async def test_a_receiver_that_is_down_loses_nothing(host: Host, receiver: Receiver) -> None:
    host.start()
    await host.closes({"/a": 11})
    receiver.down = True
    host.master.append(item(1, pa.table({"path": ["/a"], "hits": [11]})))
    await asyncio.wait_for(receiver.refused.wait(), PATIENCE_S)
    receiver.down = False
    await host.reaches(1)
    assert receiver.states == [(1, "/a", "firing")]


async def test_the_state_survives_a_restart_and_what_happened_meanwhile_is_sent(
    host: Host, receiver: Receiver
) -> None:
    host.start()
    await host.closes({"/a": 11}, {"/a": 11})
    await host.stop()
    await host.closes({"/a": 11}, {})
    host.start()
    await host.reaches(3)
    assert receiver.states == [(1, "/a", "firing")], "it still fires"
    await host.closes({})
    assert receiver.states == [(1, "/a", "firing"), (4, "/a", "resolved")]


async def test_a_sink_without_a_position_sends_nothing_of_the_past(host: Host, receiver: Receiver) -> None:
    await host.closes({"/a": 11}, {"/a": 11}, {}, {}, {"/b": 11})
    host.start()
    await host.reaches(4)
    assert receiver.requests == []
    await host.closes({"/b": 11})
    assert receiver.states == [(5, "/b", "firing")]


async def test_an_alertmanager_receives_firing_alerts_with_every_interval(
    host: Host, receiver: Receiver
) -> None:
    host.start("alertmanager")
    await host.closes({"/a": 11}, {"/a": 11}, {"/a": 11}, {}, {})
    assert {path for path, *_ in receiver.requests} == {"/hook/api/v2/alerts"}
    bodies = [body for *_, body in receiver.requests]
    assert [len(body) for body in bodies] == [1, 1, 1, 1], "intervals 1 to 4"
    first, last = bodies[0][0], bodies[-1][0]
    assert first["labels"] == {"alertname": "hot", "elf_job": JOB, "path": "/a"}
    assert first["startsAt"] == last["startsAt"] == "2015-05-17T10:05:00Z"
    assert datetime.fromisoformat(first["endsAt"]).timestamp() > time.time()
    assert last["endsAt"] == "2015-05-17T10:05:05Z"
    assert "hits > 10 for 2 intervals" in first["annotations"]["summary"]


async def test_a_new_version_brings_its_alerts(host: Host, receiver: Receiver) -> None:
    host.start()
    await host.closes({"/a": 11})
    host.text = TEXT.replace("hits > 10", "hits > 5")
    table = pa.table({"path": ["/a"], "hits": [6]})
    for index in (1, 2):
        host.master.append(item(index, table, version=2))
        await host.reaches(index)
    assert [(index, state) for index, _, state in receiver.states] == [(1, "firing")]


async def test_a_text_that_cannot_be_read_is_a_problem_of_the_sink(host: Host) -> None:
    sink = host.start()
    host.text = "CREATE JOB"
    with pytest.raises(Unavailable, match="the text of shop/top"):
        await sink.write(LOG, item(0))
