"""The API for programs, and `elfmesh.Job` on it: what is hostile is refused, what is lost is said again."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import Any

import pytest
from aiohttp import WSMsgType, WSServerHandshakeError
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.api.client.asyncio import AsyncClient
from elfmesh.api.web.programs import INSERT_BYTES_MAX
from elfmesh.control.protocol import program_frames
from elfmesh.errors import ProtocolError
from tests.api.web.programs import (
    PROCESS,
    Api,
    AskingClient,
    Kept,
    Sessions,
    api,
    kept,
    serving,
    sessions,
)
from tests.control.fakes import recorded
from tests.patience import PATIENCE_S

__all__ = ["api", "kept", "sessions"]


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
async def test_a_program_that_may_not_attach_is_refused(
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
        ("producer=p&position=1&stamp=%C3%A4", b"x"),
        (f"producer=p&position=1&stamp={'1' * 33}", b"x"),
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


async def test_a_program_of_another_creator_flushes_its_own_job(
    api: Api, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def offsets(client: AsyncClient, job: str, *, creator: str) -> dict[str, Any]:
        return recorded("offsets") | {"latest": 7}

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
