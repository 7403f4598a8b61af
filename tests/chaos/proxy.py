"""A network between real agents that can be made bad while it runs, in user space.

Each agent advertises an address of this proxy and is reached through it. Who dials is read from the hello, so
that faults are set per direction of a pair. Bytes are cut into the data plane's chunks: a frame of one chunk
can be left out or said twice, which the transport allows and TCP alone never does.

Runs on a thread of its own; everything public may be called from any other.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from elfmesh.agent.net.connection import Connection, Hello
from elfmesh.agent.net.dataplane import CHUNK, LAST
from elfmesh.errors import ProtocolError
from tests.patience import PATIENCE_S

T = TypeVar("T")
BUFFER_BYTES = 64 << 10
HELLO_S = 5.0
HALF_OPEN_S = 60.0
QUEUE_CHUNKS = 64
LOOK_S = 0.02
"""How often a stalled direction looks whether it may go on."""


@dataclass(frozen=True)
class Link:
    """What happens to what goes from one agent to another.

    Attributes:
        delay_s: each chunk waits so long, in order.
        jitter_s: and up to so much more.
        loss: share of frames (of one chunk) left out.
        double: share of frames (of one chunk) said twice.
        cut: nothing passes, nothing is refused: the other side just does not hear. Kept bytes come later.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    double: float = 0.0
    cut: bool = False


@dataclass(eq=False)
class _Pair:
    """One connection through the proxy. `half`: one side is gone, the other has not been told."""

    source: str
    target: str
    writers: list[asyncio.StreamWriter]
    half: bool = False


@dataclass(eq=False)
class _Way:
    """One direction of a connection."""

    pair: _Pair
    source: str
    target: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    queue: asyncio.Queue[tuple[float, bytes]] = field(default_factory=lambda: asyncio.Queue(QUEUE_CHUNKS))


class FaultProxy:
    """Listeners, one per agent, and what is wrong between them.

    Args:
        seed: of losses, doubles and jitter.
    """

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._targets: dict[str, tuple[str, int]] = {}
        self._names: dict[bytes, str] = {}
        self._default = Link()
        self._links: dict[tuple[str, str], Link] = {}
        self._pairs: set[_Pair] = set()
        self.counters: Counter[str] = Counter()
        self._thread.start()

    # -- who there is ----------------------------------------------------------------------------------

    def listen(self, name: str, target: tuple[str, int]) -> tuple[str, int]:
        """The address under which others reach the agent `name`, which listens at `target`."""
        return self._do(self._listen(name, target))

    def knows(self, name: str, agent_id: str) -> None:
        """Which id an agent has: what its hellos say."""
        self._names[bytes.fromhex(agent_id)] = name

    async def _listen(self, name: str, target: tuple[str, int]) -> tuple[str, int]:
        self._targets[name] = target
        server = await asyncio.start_server(
            lambda reader, writer: self._accept(name, reader, writer), "127.0.0.1", 0, limit=BUFFER_BYTES
        )
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        return host, port

    # -- faults ----------------------------------------------------------------------------------------

    def everywhere(self, link: Link) -> None:
        """The state of all directions that nothing else was said of."""
        self._default = link

    def between(self, source: str, target: str, **changes: Any) -> None:
        """Change one direction."""
        self._links[source, target] = replace(self._link(source, target), **changes)

    def isolate(self, names: Iterable[str], others: Iterable[str], *, both: bool = True) -> None:
        """Cut what `names` say to `others`; and the other way round, if `both`."""
        outside = list(others)
        for name in names:
            for other in outside:
                self.between(name, other, cut=True)
                if both:
                    self.between(other, name, cut=True)

    def heal(self) -> None:
        """All directions as `everywhere` says."""
        self._links.clear()

    def reset(self, name: str) -> None:
        """Break all connections of an agent, with a reset on both sides."""
        self._do(self._reset(name, both=True))

    def half_open(self, name: str) -> None:
        """Break the agent's side of its connections only; the others are not told."""
        self._do(self._reset(name, both=False))

    async def _reset(self, name: str, *, both: bool) -> None:
        for pair in [pair for pair in self._pairs if name in (pair.source, pair.target)]:
            self.counters["reset" if both else "half_open"] += 1
            pair.half = not both
            sides = pair.writers if both else [pair.writers[0 if pair.source == name else 1]]
            for writer in sides:
                _break(writer)

    def close(self) -> None:
        """Break everything and stop."""
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for pair in list(self._pairs):
            for writer in pair.writers:
                _break(writer)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _do(self, action: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(PATIENCE_S)

    # -- connections -----------------------------------------------------------------------------------

    async def _accept(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pair = _Pair("", target, [writer])
        tasks: list[asyncio.Future[None]] = []
        try:
            chunk, pair.source = await self._hello(reader)
            await self._wait_open(pair.source, target)  # who is cut off is not refused: no agent answers
            far_reader, far_writer = await asyncio.open_connection(*self._targets[target])
            pair.writers.append(far_writer)
            self._pairs.add(pair)
            self.counters["connections"] += 1
            far_writer.write(chunk)
            there = _Way(pair, pair.source, target, reader, far_writer)
            back = _Way(pair, target, pair.source, far_reader, writer)
            works = (self._read(there), self._write(there), self._read(back), self._write(back))
            tasks += [asyncio.ensure_future(work) for work in works]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            if pair.half:
                await asyncio.wait(tasks, timeout=HALF_OPEN_S)
        except (OSError, ProtocolError, asyncio.IncompleteReadError):
            self.counters["broken"] += 1
        except asyncio.CancelledError:  # the proxy closes; asyncio's own callback takes it for an error
            pass
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in pair.writers:
                _break(each)
            self._pairs.discard(pair)

    async def _hello(self, reader: asyncio.StreamReader) -> tuple[bytes, str]:
        async with asyncio.timeout(HELLO_S):
            head = await reader.readexactly(CHUNK.size)
            data = await reader.readexactly(CHUNK.unpack(head)[0])
        hello, _ = Connection.HELLO_CODEC.decode(data)
        assert isinstance(hello, Hello)
        return head + data, self._names.get(hello.contact.id, "")

    async def _read(self, way: _Way) -> None:
        """Chunk by chunk until the sender ends; each is given a time at which it arrives."""
        begun: set[int] = set()  # lanes with an unfinished frame: their chunks are never left out
        loop, due, first = asyncio.get_running_loop(), 0.0, True
        while True:
            try:
                head = await way.reader.readexactly(CHUNK.size)
            except asyncio.IncompleteReadError as end:
                if end.partial or way.pair.half:
                    raise
                await way.queue.put((due, b""))
                return
            length, flags, lane = CHUNK.unpack(head)
            chunk = head + (await way.reader.readexactly(length) if length else b"")
            link = self._link(way.source, way.target)
            whole = length > 0 and bool(flags & LAST) and lane not in begun and not first
            (begun.discard if flags & LAST else begun.add)(lane)
            first = False
            if way.pair.half or (whole and link.loss and self._rng.random() < link.loss):
                self.counters["lost"] += 1
                continue
            due = max(due, loop.time() + link.delay_s + link.jitter_s * self._rng.random())
            await way.queue.put((due, chunk))
            if whole and link.double and self._rng.random() < link.double:
                self.counters["doubled"] += 1
                await way.queue.put((due, chunk))

    async def _write(self, way: _Way) -> None:
        """What was read, when its time has come and nothing is cut."""
        loop = asyncio.get_running_loop()
        while True:
            due, chunk = await way.queue.get()
            if (wait := due - loop.time()) > 0:  # a sleep of nothing costs as much as all the rest
                await asyncio.sleep(wait)
            await self._wait_open(way.source, way.target)
            if not chunk:
                way.writer.write_eof()
                return
            way.writer.write(chunk)
            await way.writer.drain()

    async def _wait_open(self, source: str, target: str) -> None:
        while self._link(source, target).cut:  # noqa: ASYNC110 - what it waits for is set by other threads
            await asyncio.sleep(LOOK_S)

    def _link(self, source: str, target: str) -> Link:
        return self._links.get((source, target), self._default)


def _break(writer: asyncio.StreamWriter) -> None:
    """Close with a reset: what is on its way is lost."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if writer.transport is not None:
        writer.transport.abort()
