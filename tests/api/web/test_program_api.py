"""The API for programs, and `elfmesh.Job` on it: what is hostile is refused, what is lost is said again."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st

import elfmesh
from elfmesh.api.app import make_app
from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.client.job_leading import Leading
from elfmesh.api.client.job_values import Message, Result, lines_of, packed
from elfmesh.api.web.programs import INSERT_BYTES_MAX, ProgramHost
from elfmesh.cli.jobs.program import find_job
from elfmesh.control.protocol import program_frames
from elfmesh.errors import ProtocolError, RuntimeFailure, Unreachable, UsageError
from tests.control.fakes import FakeBackend
from tests.patience import PATIENCE_S

Api = TestClient[Any, Any]
PROCESS = "0a" * 20
OTHER = b"\x07" * 20


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

    def position(self, producer: str) -> int | None:
        return max((at for name, at, _ in self.taken if name == producer), default=None)

    async def insert(self, producer: str, position: int, lines: list[bytes]) -> int:
        self.taken.append((producer, position, lines))
        return position


def no_stream(program: str, stream: str | None) -> Kept:
    raise UsageError(f"no stream for {program}")


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


async def test_what_is_no_frame_ends_the_connection(api: Api, sessions: Sessions) -> None:
    for data in (b"", b"\xc1", b"x" * 100, program_frames.encode(program_frames.Role(True, 9, "mine"))):
        async with api.ws_connect(f"/v1/programs/shop/top?process={PROCESS}") as socket:
            await socket.send_bytes(data)
            answer = await socket.receive(timeout=PATIENCE_S)
            assert answer.type is WSMsgType.CLOSE
    assert sessions.reported_ == []
    async with asyncio.timeout(PATIENCE_S):
        while sessions.gone != [1, 2, 3, 4]:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    for read in (program_frames.from_program, program_frames.from_agent):
        with contextlib.suppress(ProtocolError):
            read(data)
    program_frames.read_place(data)


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("shop/top", {}, 400),
        ("shop/top?process=0a0a", {}, 400),
        ("shop/top?process=zz", {}, 400),
        (f"sh op/top?process={PROCESS}", {}, 400),
        (f"shop/top?process={PROCESS}", {"Origin": "http://evil.example"}, 403),
        (f"shop/top?process={PROCESS}", {"Host": "evil.example"}, 403),
    ],
)
async def test_who_may_not_attach(
    api: Api, sessions: Sessions, path: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(WSServerHandshakeError) as refused:
        await api.ws_connect(f"/v1/programs/{path}", headers=headers)
    assert refused.value.status == status
    assert sessions.attached == []


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("producer=p", b"x"),
        ("producer=p&position=-1", b"x"),
        ("producer=p&position=99999999999999999999", b"x"),
        (f"producer=p&position={'9' * 5000}", b"x"),
        ("position=1", b"x"),
        (f"position=1&producer={'p' * 300}", b"x"),
        ("producer=p&position=1", b"\n \n"),
        ("producer=p&position=1", b"x" * (INSERT_BYTES_MAX + 1)),
    ],
)
async def test_inserts_that_are_refused_leave_nothing(api: Api, kept: Kept, query: str, body: bytes) -> None:
    answer = await api.post(f"/v1/programs/shop/top/insert?{query}", data=io.BytesIO(body))
    assert answer.status == 400
    assert kept.taken == []
    assert (await api.post("/v1/programs/shop/else/insert?producer=p&position=1", data=b"x")).status == 400


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


async def serving(job: AskingClient, until: Callable[[], bool]) -> None:
    task = asyncio.create_task(job.serve())
    async with asyncio.timeout(PATIENCE_S):
        while not until():
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    job.stop()
    await task


async def test_a_broken_connection_loses_nothing_and_doubles_nothing(api: Api, sessions: Sessions) -> None:
    numbers: list[int] = []

    def reply(frame: program_frames.FromProgram) -> None:
        assert sessions.deliver is not None
        if isinstance(frame, program_frames.Say):
            numbers.append(frame.number)
            if len(numbers) == 1:
                raise ConnectionResetError  # before any answer
            for _ in range(3):
                sessions.deliver(
                    program_frames.Deliver(OTHER, 5, "send_to", "web", packed([1, 2]), group="g")
                )
            sessions.deliver(program_frames.Answer(frame.number, "ok", packed("fine")))

    sessions.reply = reply
    job = AskingClient(f"{api.host}:{api.port}")
    done = [program_frames.Handled(OTHER, 5)]
    await serving(job, lambda: job.outcome == "fine" and done[0] in sessions.reported_ and job.ticks > 1)
    assert len(sessions.attached) == 2
    assert numbers == [1, 1], "the same message, under its old name"
    assert job.received == [("g", [1, 2])], "three copies are one message"


@pytest.mark.parametrize(
    ("status", "kind"), [("failed", RuntimeFailure), ("silent", Unreachable), ("busy", Unreachable)]
)
async def test_how_a_message_ended_is_told(
    api: Api, sessions: Sessions, status: program_frames.Status, kind: type[Exception]
) -> None:
    def reply(frame: program_frames.FromProgram) -> None:
        assert sessions.deliver is not None
        if isinstance(frame, program_frames.Say):
            sessions.deliver(program_frames.Answer(frame.number, status, error="KeyError: 'x'"))

    sessions.reply = reply
    job = AskingClient(f"{api.host}:{api.port}")
    await serving(job, lambda: job.outcome is not None)
    assert type(job.outcome) is kind


async def test_a_process_that_was_replaced_ends(api: Api, sessions: Sessions) -> None:
    job = AskingClient(f"{api.host}:{api.port}")
    task = asyncio.create_task(job.serve())
    async with asyncio.timeout(PATIENCE_S):
        while sessions.deliver is None:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)
        sessions.deliver(program_frames.Replaced())
        with pytest.raises(RuntimeFailure, match="another process"):
            await task


class Inserting(AskingClient):
    """Inserts from two callbacks at once."""

    async def on_start(self) -> None:
        self.outcome = await asyncio.gather(*(self.insert([(key, 1)]) for key in "ab"))


async def test_inserts_of_one_process_do_not_overtake_each_other(api: Api, kept: Kept) -> None:
    """The second would make the first one's position old, and its records would be taken for doubles."""
    take, away = kept.insert, [True]

    async def insert(producer: str, position: int, lines: list[bytes]) -> int:
        if away:
            away.clear()
            raise Unreachable("the agent is starting")
        newest = kept.position(producer)
        return newest if newest and position <= newest else await take(producer, position, lines)

    kept.insert = insert  # type: ignore[method-assign]  # to see what is kept
    job = Inserting(f"{api.host}:{api.port}")
    await serving(job, lambda: job.outcome is not None)
    assert job.outcome == [1, 2]
    assert [json.loads(line)["key"] for _, _, lines in kept.taken for line in lines] == ["a", "b"]


async def test_a_program_of_another_creator_flushes_its_own_job(
    api: Api, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def offsets(client: AsyncClient, job: str, *, creator: str) -> dict[str, Any]:
        return {"latest": 7}

    async def page(client: AsyncClient, job: str, **query: Any) -> tuple[list[dict[str, Any]], int]:
        asked.append((job, query["start"], query["creator"]))
        return [], 0

    monkeypatch.setattr(AsyncClient, "offsets", offsets)
    monkeypatch.setattr(AsyncClient, "page", page)

    class Alices(AskingClient):
        creator = "alice"

        async def on_start(self) -> None:
            self.outcome = [await self.flush()]

    job = Alices(f"{api.host}:{api.port}")
    await serving(job, lambda: job.outcome is not None)
    assert asked == [("shop/top", 7, "alice")]


class Slow:
    """A side whose result takes so long that another one leads before it is handled."""

    query, name, creator = "", "shop/top", "local"

    def __init__(self) -> None:
        self.leading: Leading | None = None
        self.handled: list[int] = []

    async def on_master(self) -> None:
        pass

    async def on_result(self, result: Result) -> None:
        self.handled.append(result.index)
        assert self.leading is not None
        self.leading.appoint(program_frames.Role(False, 2, "web", program_frames.Place(2, 50, "i:50")))


class OneResult:
    """An agent's API that has results 5 and 6."""

    async def page(self, *_: object, **__: object) -> tuple[list[dict[str, Any]], int]:
        names = ("rows", "state", "completeness", "version", "counts")
        interval = {"start": None, "end": None}
        return [dict.fromkeys(names) | {"interval": {"index": index, **interval}} for index in (5, 6)], 0

    async def offsets(self, *_: object, **__: object) -> dict[str, Any]:
        return {"incarnation": "i", "expired": None}


class ReportingClient:
    def __init__(self) -> None:
        self.places: list[program_frames.Place] = []

    async def reached(self, place: program_frames.Place) -> None:
        self.places.append(place)


async def test_who_was_deposed_does_not_take_its_successor_back() -> None:
    side, from_agent = Slow(), ReportingClient()
    side.leading = Leading(side, OneResult(), from_agent, follows=True)  # type: ignore[arg-type]  # of one result
    side.leading.appoint(program_frames.Role(True, 1, "me", program_frames.Place(1, 4, "i:4")))
    task = asyncio.create_task(side.leading.run())
    async with asyncio.timeout(PATIENCE_S):
        while not from_agent.places:  # noqa: ASYNC110 - the other side's state
            await asyncio.sleep(0.01)
    task.cancel()
    assert side.handled == [5]
    assert from_agent.places == [program_frames.Place(1, 5, "i:5")], "the term in which it was handled"
    assert side.leading.role.place == program_frames.Place(2, 50, "i:50")


async def test_nobody_to_attach_to_is_said_at_once() -> None:
    with pytest.raises(Unreachable, match="no agent answers"):
        await AskingClient("127.0.0.1:9").serve()


def test_what_a_program_may_be_named_and_say(tmp_path: Path) -> None:
    class Nameless(elfmesh.Job):
        pass

    class Twice(elfmesh.Job):
        name = "a/b"
        query = "CREATE JOB c.d EVERY '1 s' AS SELECT count(*) AS n FROM log"

    for kind in (Nameless, Twice):
        with pytest.raises(UsageError):
            kind()
    with pytest.raises(UsageError, match="plain values"):
        packed(object())
    with pytest.raises(UsageError, match="is over"):
        packed(b"x" * (program_frames.MESSAGE_BYTES_MAX + 1))
    with pytest.raises(UsageError, match="JSON"):
        lines_of([{"k": object()}])
    file = tmp_path / "two.py"
    kinds = "".join(f"class {kind}(elfmesh.Job): name = 'a/{kind}'\n" for kind in "AB")
    file.write_text(f"import elfmesh\n{kinds}")
    assert find_job(file, "B").name == "a/B"
    with pytest.raises(UsageError, match="A, B"):
        find_job(file, None)
    with pytest.raises(UsageError, match=r"no elfmesh\.Job C"):
        find_job(file, "C")
