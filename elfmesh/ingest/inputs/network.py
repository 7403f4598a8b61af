"""Receivers of lines over TCP, UDP and unix sockets; each message is durable before the next is read.

TCP and unix senders block while the spool waits. Datagrams that the kernel drops meanwhile are read from its
counters and reported as a loss of the stream (`source_gap`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from pathlib import Path

from elfmesh.ingest.inputs.address import Address
from elfmesh.ingest.inputs.messages import MessageCutter, one_line
from elfmesh.ingest.inputs.writer import SpoolWriter, watched
from elfmesh.limits import LINE_BYTES_MAX

READ_BYTES = 64 << 10
CONNECTIONS_MAX = 256
DATAGRAM_BYTES_MAX = 256 << 10
BATCH_MESSAGES_MAX = 4096
RECEIVE_BUFFER_BYTES = 4 << 20
"""Requested size of the kernel's buffer for datagrams, which must hold those that arrive during a sync."""

BACKLOG = 128
_UDP_TABLES = ("/proc/net/udp", "/proc/net/udp6")


def open_socket(address: Address) -> socket.socket:
    stream = address.scheme in ("tcp", "unix-stream", "http", "otlp", "otlp-grpc")
    kind = socket.SOCK_STREAM if stream else socket.SOCK_DGRAM
    if address.path:
        family = socket.AF_UNIX
        _remove_stale(address.path)
    else:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        if stream and not address.path:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not stream:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        sock.bind(address.path or (address.host, address.port))
        if address.path:
            Path(address.path).chmod(0o660)
        if stream:
            sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _remove_stale(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(Path(path).stat().st_mode):
            return
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_UNIX, kind) as probe:
                try:
                    probe.connect(path)
                except ConnectionRefusedError:
                    Path(path).unlink(missing_ok=True)
                    return
                except OSError:
                    continue
                return


class Datagrams:
    """Receiver of datagrams from one bound socket."""

    def __init__(self, sock: socket.socket, writer: SpoolWriter) -> None:
        self._sock, self._writer = sock, writer
        self._buffer = bytearray(DATAGRAM_BYTES_MAX + 1)
        self._inode = os.fstat(sock.fileno()).st_ino if sock.family != socket.AF_UNIX else 0
        self._task = watched(self._run(), writer.name, writer.counters)

    def look(self) -> None:
        if self._inode:
            self._writer.counters.lost = max(self._writer.counters.lost, kernel_drops(self._inode))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._sock.close()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        view = memoryview(self._buffer)
        while True:
            size = await loop.sock_recv_into(self._sock, view)
            lines = [self._line(size)]
            for _ in range(BATCH_MESSAGES_MAX):
                try:
                    lines.append(self._line(self._sock.recv_into(view)))
                except BlockingIOError:
                    break
            data = b"".join(lines)
            if data:
                await self._writer.put(data, sum(map(bool, lines)))

    def _line(self, size: int) -> bytes:
        if size > DATAGRAM_BYTES_MAX:
            self._writer.counters.overlong += 1
            return b""
        return one_line(bytes(self._buffer[:size]))


class Connections:
    """Receiver of lines or counted messages from the connections of one socket."""

    def __init__(self, writer: SpoolWriter, connections_max: int = CONNECTIONS_MAX) -> None:
        self._writer, self._max = writer, connections_max
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, sock: socket.socket) -> None:
        if sock.family == socket.AF_UNIX:
            self._server = await asyncio.start_unix_server(self._serve, sock=sock)
        else:
            self._server = await asyncio.start_server(self._serve, sock=sock)

    def look(self) -> None: ...

    async def close(self) -> None:
        """Stop receiving and close the connections; senders still have the messages that are not durable."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        counters = self._writer.counters
        if counters.connections >= self._max:
            counters.refused += 1
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        counters.connections += 1
        try:
            await self._read(reader)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            counters.connections -= 1
            self._tasks.discard(task)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        cutter = MessageCutter(LINE_BYTES_MAX)
        while chunk := await reader.read(READ_BYTES):
            before = cutter.overlong
            lines = cutter.push(chunk)
            self._writer.counters.overlong += cutter.overlong - before
            if lines:
                await self._writer.put(b"".join(lines), len(lines))
        if last := cutter.finish():
            await self._writer.put(b"".join(last), len(last))


def kernel_drops(inode: int) -> int:
    """Return how many datagrams the kernel has dropped at a UDP socket for lack of room; 0 if unknown."""
    for table in _UDP_TABLES:
        try:
            rows = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            cells = row.split()
            if len(cells) > 12 and cells[9] == str(inode):
                return int(cells[12])
    return 0
