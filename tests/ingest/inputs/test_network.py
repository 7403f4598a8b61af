"""Receivers on real sockets: what they acknowledge is on disk, what they refuse is not."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.host import ThreadExecutor
from elfmesh.ingest.inputs.host import Inputs
from elfmesh.ingest.inputs.http import Posts
from elfmesh.ingest.inputs.journal import Journal, cursor_of
from elfmesh.ingest.inputs.network import CONNECTIONS_MAX
from elfmesh.ingest.inputs.positions import SenderMark
from elfmesh.ingest.inputs.spool import Spool
from elfmesh.ingest.inputs.writer import SpoolWriter
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.stream_settings import StreamConfig
from tests.ports import reserve


class NoFrames:
    jobs: tuple[str, ...] = ()


@asynccontextmanager
async def running(root: Path, listen: str) -> AsyncIterator[Inputs]:
    executor = ThreadExecutor(2)
    inputs = Inputs({"net": StreamConfig(listen=listen)}, root, executor)
    try:
        await inputs.start(NoFrames())  # type: ignore[arg-type]  # a frame log without jobs
        yield inputs
    finally:
        await inputs.close()
        executor.close()


def spooled(root: Path) -> bytes:
    return (root / "net" / "spool.log").read_bytes()


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "nothing more comes"
        await asyncio.sleep(0.01)


async def test_tcp_takes_lines_and_counted_messages(tmp_path: Path) -> None:
    port = reserve()
    async with running(tmp_path, f"tcp://127.0.0.1:{port}") as inputs:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"plain line\n7 <1>a\nbc13 <2>no newline")
        await writer.drain()
        writer.close()
        await until(lambda: spooled(tmp_path).count(b"\n") == 3)
        assert spooled(tmp_path) == b"plain line\n<1>a#012bc\n<2>no newline\n"
        await until(lambda: inputs.describe()["net"]["messages"] == 3)


async def test_tcp_turns_away_who_is_too_many(tmp_path: Path) -> None:
    port = reserve()
    async with running(tmp_path, f"tcp://127.0.0.1:{port}") as inputs:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(CONNECTIONS_MAX)]
        await until(lambda: inputs.describe()["net"]["connections"] == CONNECTIONS_MAX)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        assert inputs.describe()["net"]["refused"] == 1
        for _, each in [*opened, (reader, writer)]:
            each.close()


@pytest.mark.parametrize("scheme", ["udp", "unix"])
async def test_datagrams_are_messages(tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "sock"
    port = reserve()
    listen = f"udp://127.0.0.1:{port}" if scheme == "udp" else f"unix://{path}"
    async with running(tmp_path, listen):
        family = socket.AF_INET if scheme == "udp" else socket.AF_UNIX
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", port) if scheme == "udp" else str(path))
            for number in range(100):
                await asyncio.to_thread(sender.send, b"<13>message %d\n" % number)
        await until(lambda: spooled(tmp_path).count(b"\n") == 100)
        assert spooled(tmp_path).splitlines()[99] == b"<13>message 99"
        if scheme == "unix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert not path.exists()


@pytest.mark.skipif(not Path("/proc/net/udp").exists(), reason="this kernel does not say what it drops")
async def test_datagrams_that_the_kernel_drops_are_counted(tmp_path: Path) -> None:
    port = reserve()
    async with running(tmp_path, f"udp://127.0.0.1:{port}") as inputs:
        count, size = 400, 60_000
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):  # the loop does not run meanwhile: nobody reads
                sender.sendto(b"x" * size, ("127.0.0.1", port))
        counters = inputs.describe

        def settled() -> bool:
            seen = counters()["net"]
            return bool(seen["lost"] and seen["lost"] + seen["messages"] == count)

        await until(settled)
        reader = inputs.reader("net", inputs.streams["net"], StreamFormat("raw"))
        reader.add("job", ["_raw"])
        reader.poll()
        assert reader.gaps("job") == [], "what was lost before a job began is none of its losses"
        inputs._writers["net"].counters.lost += 3
        reader.poll()
        assert [gap.why for gap in reader.gaps("job")] == ["3 messages were gone before they could be taken"]
        reader.close()


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


async def test_http_says_when_there_is_no_room(tmp_path: Path) -> None:
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


def test_an_address_in_use_is_said_at_once(tmp_path: Path) -> None:
    async def start(port: int) -> None:
        executor = ThreadExecutor(1)
        try:
            Inputs({"net": StreamConfig(listen=f"tcp://127.0.0.1:{port}")}, tmp_path, executor)
        finally:
            executor.close()

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(RuntimeFailure, match="cannot listen"),
    ):
        asyncio.run(start(taken.getsockname()[1]))


JOURNALCTL = """
import json, sys, time
after = next((int(a.split("=c", 1)[1]) for a in sys.argv if a.startswith("--after-cursor=")), -1)
if "--lines=0" in sys.argv and after < 0:
    after = 9
for n in range(after + 1, 1000):
    if n - after > 7:
        time.sleep(0.05)
        sys.exit(0)
    print(json.dumps({"__CURSOR": f"c{n}", "MESSAGE": f"m{n}"}), flush=True)
"""


async def test_the_journal_goes_on_behind_the_last_entry_that_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journalctl that ends after a few entries stands for one that is killed."""
    monkeypatch.setattr("elfmesh.ingest.inputs.journal.AGAIN_MIN_S", 0.01)
    script = tmp_path / "journalctl.py"
    script.write_text(JOURNALCTL)
    command = (sys.executable, str(script))

    async def restarts() -> list[Any]:
        return []

    executor = ThreadExecutor(2)
    for _ in range(2):
        spool = Spool(tmp_path / "spool", 1 << 20)
        before = spool.nbytes
        writer = SpoolWriter("journal", spool, executor, restarts)
        journal = Journal(writer, ["_UID=0"], from_end=False, command=command)
        assert journal.arguments()[-2:] == ["--", "_UID=0"]
        await until(lambda spool=spool, before=before: spool.nbytes > before + 400)  # type: ignore[misc]  # bound here
        await journal.close()
        await writer.close()
        with (tmp_path / "spool" / "spool.log").open("ab") as file:
            file.write(b'{"__CURSOR": "torn')  # what a crash within a write leaves
    executor.close()
    lines = (tmp_path / "spool" / "spool.log").read_bytes().splitlines()[:-1]
    assert [cursor_of(line) for line in lines] == [f"c{n}" for n in range(len(lines))]
