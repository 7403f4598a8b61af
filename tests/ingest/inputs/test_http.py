"""The HTTP receiver: what it acknowledges is on disk, what it refuses is not."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.http import Posts
from elfmesh.ingest.inputs.positions import SenderMark
from elfmesh.ingest.inputs.spool import Spool
from elfmesh.ingest.inputs.writer import SpoolWriter
from tests.ingest.inputs.receiving import running, spooled, until
from tests.ports import reserve


async def post(port: int, body: bytes, **headers: str) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{port}/any"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=io.BytesIO(body), headers=headers) as answer,
    ):
        return answer.status, await answer.json()


async def test_http_answers_when_the_lines_are_on_disk(tmp_path: Path) -> None:
    port = reserve()
    async with running(tmp_path, f"http://127.0.0.1:{port}"):
        assert await post(port, b'{"a":1}\n\n{"a":2}') == (200, {"lines": 2})
        assert spooled(tmp_path) == b'{"a":1}\n{"a":2}\n'
        packed = gzip.compress(b"x\n") + gzip.compress(b"y\n")
        assert await post(port, packed, **{"Content-Encoding": "gzip"}) == (200, {"lines": 2})
        assert spooled(tmp_path).endswith(b"x\ny\n")
        assert (await post(port, b""))[0] == 200


async def test_http_keeps_nothing_of_what_it_refuses(tmp_path: Path) -> None:
    port = reserve()
    bomb = gzip.compress(b"0" * (200 << 20))
    gzipped = {"Content-Encoding": "gzip"}
    async with running(tmp_path, f"http://127.0.0.1:{port}") as inputs:
        assert (await post(port, bomb, **gzipped))[0] == 413
        assert (await post(port, b"good\n" + b"x" * (2 << 20)))[0] == 413
        assert (await post(port, b"a\n" * (9 << 20)))[0] == 413
        assert (await post(port, b"no gzip", **gzipped))[0] == 400
        assert (await post(port, gzip.compress(b"cut off" * 100)[:-9], **gzipped))[0] == 400
        assert (await post(port, b"x", **{"Content-Encoding": "br"}))[0] == 415
        assert spooled(tmp_path) == b""
        assert inputs.describe()["net"]["refused"] == 6


async def test_http_reports_when_there_is_no_room(tmp_path: Path) -> None:
    executor, unread = ThreadExecutor(2), asyncio.Event()

    async def restarts() -> list[Any]:
        unread.set()
        return []

    spool = Spool(tmp_path, 400)
    writer = SpoolWriter("net", spool, executor, restarts)
    posts = Posts(writer)
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    await posts.start(sock)
    try:
        spool.append = _full  # type: ignore[method-assign]  # as on a full disk
        first = asyncio.create_task(post(port, b"waits\n"))
        await until(lambda: writer.waiting)
        assert (await post(port, b"x\n"))[0] == 503
        del spool.append  # there is room again
        assert await first == (200, {"lines": 1})
    finally:
        await posts.close()
        await writer.close()
        executor.close()
    assert (tmp_path / "spool.log").read_bytes() == b"waits\n"


def _full(data: bytes, marks: Sequence[SenderMark] = ()) -> None:
    from elfmesh.ingest.inputs.spool import SpoolFull

    raise SpoolFull("no space left")
