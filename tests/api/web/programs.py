"""Programs at an agent that a test plays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

import elfmesh
from elfmesh.api.app import make_app
from elfmesh.api.client.job_values import Message
from elfmesh.api.web.programs import ProgramHost
from elfmesh.control.protocol import program_frames
from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from tests.control.fakes import FakeBackend
from tests.patience import PATIENCE_S

Api = TestClient[Any, Any]


class Sessions:
    """An agent's side: keeps what was said, answers by `reply`."""

    def __init__(self) -> None:
        self.reported_: list[program_frames.FromProgram] = []
        self.deliver: Callable[[program_frames.FromAgent], None] | None = None
        self.attached: list[tuple[str, str, bytes]] = []
        self.gone: list[int] = []
        self.reply: Callable[[program_frames.FromProgram], None] = lambda frame: None

    def attach(
        self, name: str, creator: str, process: bytes, deliver: Callable[[program_frames.FromAgent], None]
    ) -> int:
        self.attached.append((name, creator, process))
        self.deliver = deliver
        return len(self.attached)

    def from_program(self, session: int, frame: program_frames.FromProgram) -> None:
        self.reported_.append(frame)
        self.reply(frame)

    def detach(self, session: int) -> None:
        self.gone.append(session)


class Kept:
    """A stream that takes inserts."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int, list[bytes]]] = []
        self.stamps: list[str] = []

    def position(self, producer: str) -> int | None:
        return max((at for name, at, _ in self.taken if name == producer), default=None)

    async def insert(self, producer: str, position: int, lines: list[bytes], stamp: str = "") -> int:
        self.stamps.append(stamp)
        self.taken.append((producer, position, lines))
        return position

    async def post(self, producer: str, position: int, message: bytes) -> int:
        return await self.insert(producer, position, [message])


def no_stream(program: str, stream: str | None) -> Kept:
    raise UsageError(f"no stream for {program}")


class AskingClient(elfmesh.Job):
    """Asks once, and says what it hears."""

    name = "shop/top"

    def __init__(self, api: str) -> None:
        super().__init__(api)
        self.received: list[Any] = []
        self.ticks = 0
        self.outcome: object = None

    async def on_start(self) -> None:
        try:
            self.outcome = await self.route("shop/other", {"q": 1}, timeout_s=5.0)
        except (RuntimeFailure, Unreachable) as error:
            self.outcome = error

    async def on_recv(self, message: Message) -> None:
        self.received.append((message.group, message.body))

    async def on_timer(self) -> None:
        self.ticks += 1

    timer = "10 ms"


PROCESS = "0a" * 20

OTHER = b"\x07" * 20


async def serving(job: AskingClient, until: Callable[[], bool]) -> None:
    task = asyncio.create_task(job.serve())
    async with asyncio.timeout(PATIENCE_S):
        while not until():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    job.stop()
    await task


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
async def api(sessions: Sessions, kept: Kept) -> AsyncIterator[Api]:
    host = ProgramHost(sessions, lambda name, stream: kept if name == "shop/top" else no_stream(name, stream))
    app = make_app(FakeBackend(), programs=host)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield client
