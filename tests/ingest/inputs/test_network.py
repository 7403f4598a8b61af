"""Receivers on real sockets: what they acknowledge is on disk, what they refuse is not."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from elfmesh.ingest.inputs.network import CONNECTIONS_MAX
from elfmesh.ingest.parsers import StreamFormat
from tests.ingest.inputs.receiving import running, spooled, until
from tests.ports import reserve


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


async def test_tcp_turns_away_connections_beyond_the_limit(tmp_path: Path) -> None:
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
            for _ in range(count):  # the loop does not run meanwhile, so nothing is read
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
        assert [gap.why for gap in reader.gaps("job")] == [
            "3 messages were lost before they could be received"
        ]
        reader.close()
