"""The TCP transport: one connection per pair of agents.

A connection starts with a `Hello` from both sides; no other frame passes before the peer's hello is accepted.
Sending opens the connection if necessary, and an unreachable peer is not contacted again for a growing time.
Messages are sent at most once: a message that does not fit into a bounded queue, or is in flight when a
connection breaks, is lost and counted. If two agents have two connections, both sides keep the one dialled by
the smaller id, otherwise the later one.

Paper: Aurora*/Medusa 4.3. Measured: without TCP_NOTSENT_LOWAT, control messages wait 58 ms behind bulk data,
with it 3 ms.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

from elfmesh.agent.net.backoff import Backoff
from elfmesh.agent.net.bearer import check_bearer
from elfmesh.agent.net.connection import OLDEST, PROTOCOL, Connection, Hello, HelloRefused, IdentityRefused
from elfmesh.agent.net.dataplane import CONTROL_LANE, LANE_MAX
from elfmesh.agent.net.tls import TlsLayer, TlsRefused
from elfmesh.agent.net.transport import Handler
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec

if TYPE_CHECKING:
    from elfmesh.api.identity.trust import Trust

log = logging.getLogger("elf.net")
CONNECTIONS_MAX = 1024
"""Maximum number of open connections; beyond it, the longest idle one is closed. About 70 are in use with 500
trees."""
HALF_OPEN_MAX = 128
"""Maximum number of accepted connections without a hello; more indicates a flood. The oldest one is closed,
because an honest peer sends its hello within a round trip, and silent peers must not exclude others."""
DIALS_MAX = 128
"""Maximum number of concurrent connection attempts, because addresses come from peers, which must not make
this agent contact arbitrary hosts."""
CONNECT_TIMEOUT_S = 5.0
IDLE_S = 120.0
"""A connection without traffic for this long is closed; heartbeats keep connections of active pairs open."""
LIFETIME_S = 3600.0
WARN_S = 1.0
"""Minimum time between two log lines about refused peers, so that a peer cannot fill the disk."""
RECEIVE_BUFFER_BYTES = 256 << 10


class TcpTransport:
    """`Transport` over asyncio TCP.

    Args:
        host: host to listen on.
        port: port to listen on, 0 for any.
        codec: codec with all permitted message types.
        cluster: name that both sides must share.
        trust: the trusted certificates; None: connections are not encrypted, and every peer is accepted.
        lifetime_s: how long a connection may exist after its certificates were verified.
        versions: oldest and newest supported version of the protocol.
    """

    def __init__(
        self,
        host: str,
        port: int,
        codec: Codec,
        *,
        cluster: str = "elf",
        trust: Trust | None = None,
        lifetime_s: float = LIFETIME_S,
        versions: tuple[int, int] = (OLDEST, PROTOCOL),
    ) -> None:
        self._host = host
        self._port = port
        self._codec = codec
        self.cluster = cluster
        self._trust = trust
        self._lifetime_s = lifetime_s
        self._oldest, self._newest = versions
        self._warned = -WARN_S
        self.receive_buffer = bytearray(RECEIVE_BUFFER_BYTES)
        self.counters: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._handler: Handler | None = None
        self._me: Contact | None = None
        self._by_id: dict[bytes, Connection] = {}  # after the hello; the only connection of each pair
        self._dialling: dict[tuple[str, int], Connection] = {}  # by address, until the hello
        # Accepted connections without a hello, and connections that are being closed; oldest first.
        self._others: dict[Connection, None] = {}
        self._backoff = Backoff()
        self._tasks: set[asyncio.Task[None]] = set()
        self._serial = 0
        self._reading = False
        self._unwritten: list[Connection] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False

    async def listen(self) -> tuple[str, int]:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self, dialled=None), self._host, self._port, backlog=512
        )
        host, port = self._server.sockets[0].getsockname()[:2]
        self._sweep()
        return host, port

    def open(self, me: Contact, handler: Handler) -> None:
        """Start accepting connections as `me`; earlier connections were refused."""
        self._me, self._handler = me, handler

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        """Queue a message on the pair's connection, which is opened if necessary."""
        if self._closing or self._me is None:
            return
        frame = self._codec.encode(message, payload)
        address = (to.host, to.port)
        connection = self._by_id.get(to.id) if to.id else None
        if connection is None and not to.id:
            connection = next((c for c in self._by_id.values() if c.peer_address == address), None)
        connection = connection or self._dialling.get(address) or self._dial(to)
        if connection is None:
            self.counters["not_sent_backoff"] += 1
        elif message.since > connection.version:
            self.counters["not_sent_to_earlier_version"] += 1
        elif not connection.queue(wire_lane(lane), frame):
            self.counters["not_sent_queue_full"] += 1
        else:
            self.counters["messages_out"] += 1

    def stats(self) -> dict[str, int]:
        counters = {name: self.counters[name] for name in sorted(self.counters)}
        earlier = sum(connection.version < self._newest for connection in self._by_id.values())
        return {**counters, "connections": len(self._by_id), "connections_of_earlier_version": earlier}

    async def close(self) -> None:
        """Send queued frames for at most a second, then close all connections."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        connections = [*self._by_id.values(), *self._dialling.values(), *self._others]
        for connection in connections:
            connection.drain()
        waits = [asyncio.ensure_future(connection.closed.wait()) for connection in connections]
        if waits:
            _, late = await asyncio.wait(waits, timeout=1.0)
            for wait in late:
                wait.cancel()
        for connection in connections:
            connection.abort("closing")
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)

    # -- dialling ------------------------------------------------------------------------------------

    def _dial(self, to: Contact) -> Connection | None:
        loop = asyncio.get_running_loop()
        address = (to.host, to.port)
        if self._backoff.holds(address, loop.time()):
            return None
        if len(self._dialling) >= DIALS_MAX:
            self.counters["not_dialled_too_many"] += 1
            return None
        self._serial += 1
        connection = Connection(self, dialled=to, serial=self._serial)
        self._dialling[address] = connection
        task = loop.create_task(self._connect(connection, to))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return connection

    async def _connect(self, connection: Connection, to: Contact) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.create_connection(lambda: connection, to.host, to.port)
        # the address comes from a peer; an invalid one must not stay in `_dialling`
        except Exception as error:
            connection.unreachable(str(error) or type(error).__name__)

    # -- called by connections -----------------------------------------------------------------------

    def hello(self, connection: Connection) -> Hello | None:
        if self._me is None or self._closing:
            return None
        if not connection.dialled:
            self._others[connection] = None
            silent = [other for other in self._others if other.peer is None]
            if len(silent) > HALF_OPEN_MAX:
                self.counters["refused_half_open"] += 1
                silent[0].abort("others wait")
        return Hello(self.cluster, self._me, connection.serial, self._oldest, self._newest)

    def tls(self, connection: Connection) -> TlsLayer | None:
        if self._trust is None:
            return None
        server = connection.dialled is None
        return TlsLayer(self._trust.server if server else self._trust.client, server=server)

    def frame(self, connection: Connection, frame: bytes) -> None:
        message, payload = self._codec.decode(frame)
        self.counters["messages_in"] += 1
        assert self._handler is not None
        assert connection.peer is not None
        self._handler.received(connection.peer, message, payload)

    def reading(self, reading: bool) -> None:
        """Called before and after a peer's bytes are handled; the answers are then written together."""
        self._reading = reading
        if not reading and self._unwritten:
            self._flush()

    def flush_soon(self, connection: Connection) -> None:
        """Schedule a write: after the bytes that are being handled, or in the next loop iteration."""
        if not self._unwritten and not self._reading:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten.append(connection)

    def _flush(self) -> None:
        connections, self._unwritten = self._unwritten, []
        for connection in connections:
            connection.flush()

    def greet(self, connection: Connection, hello: Hello) -> None:
        """Accept the hello of a peer and keep one connection per pair, or raise HelloRefused."""
        assert self._me is not None
        hello.check(self.cluster, self._me, connection.dialled)
        peer = hello.contact
        if self._trust is not None:
            check_bearer(self._trust, connection.certificate, peer)
        connection.greeted(hello, hello.agree(self._oldest, self._newest))
        self._others.pop(connection, None)
        if connection.dialled:
            address = (connection.dialled.host, connection.dialled.port)
            self._backoff.reached(address)
            if self._dialling.get(address) is connection:
                del self._dialling[address]
        rival = self._by_id.get(peer.id)
        if rival is not None and self._rank(rival) > self._rank(connection):
            self._retire(connection)
            return
        if rival is not None:
            self._retire(rival)
        self._by_id[peer.id] = connection
        if len(self._by_id) > CONNECTIONS_MAX:
            self._close_idle(min(self._by_id.values(), key=lambda c: c.used))

    def _rank(self, connection: Connection) -> tuple[int, int, int]:
        assert self._me is not None
        assert connection.peer is not None
        mine = connection.dialled is not None
        smaller_dialled = (self._me.id < connection.peer.id) == mine
        return connection.peer.incarnation, int(smaller_dialled), connection.pair_serial

    def _retire(self, loser: Connection) -> None:
        self._others[loser] = None
        self.counters["duplicate_connections"] += 1
        loser.drain()

    def ended(self, connection: Connection) -> None:
        """Handle the peer's goodbye: queued frames are still sent; later messages open a new connection."""
        assert connection.peer is not None
        if self._by_id.get(connection.peer.id) is connection:
            del self._by_id[connection.peer.id]
        self._others[connection] = None
        connection.drain()

    def gone(self, connection: Connection, reason: str) -> None:
        self._others.pop(connection, None)
        target = connection.dialled
        if target is not None and self._dialling.get((target.host, target.port)) is connection:
            del self._dialling[(target.host, target.port)]
            self._backoff.failed((target.host, target.port), asyncio.get_running_loop().time())
            self.counters["dial_failed"] += 1
            if target.id and target.id not in self._by_id and not self._closing and self._handler:
                self._handler.lost(target.id)
        peer = connection.peer
        if peer is not None and self._by_id.get(peer.id) is connection:
            del self._by_id[peer.id]
            if not self._closing and self._handler is not None:
                self.counters["connections_lost"] += 1
                self._handler.lost(peer.id)

    def fault(self, error: ProtocolError) -> None:
        name = "refused_hello" if isinstance(error, HelloRefused) else "protocol_errors"
        name = "refused_identity" if isinstance(error, IdentityRefused) else name
        self.counters["refused_tls" if isinstance(error, TlsRefused) else name] += 1
        now = asyncio.get_running_loop().time()
        if self._trust is not None and now - self._warned >= WARN_S:
            self._warned = now
            log.warning("a peer is refused: %s", error)

    # -- upkeep --------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection in list(self._by_id.values()):
            if now - connection.used > IDLE_S:
                self._close_idle(connection)
        self.reconsider()
        self._backoff.sweep(now)
        self._sweeper = loop.call_later(IDLE_S / 8, self._sweep)

    def reconsider(self) -> None:
        """Check the certificates of open connections again, and close invalid or old connections."""
        now = asyncio.get_running_loop().time()
        for connection in list(self._by_id.values()) if self._trust is not None else ():
            assert self._trust is not None
            assert connection.peer is not None
            try:
                check_bearer(self._trust, connection.certificate, connection.peer)
            except IdentityRefused as error:
                self.fault(error)
                connection.abort(str(error))
                continue
            if now - connection.made > self._lifetime_s:
                self.counters["closed_for_age"] += 1
                self.ended(connection)

    def _close_idle(self, connection: Connection) -> None:
        self.counters["closed_idle"] += 1
        self.ended(connection)


def wire_lane(lane: int) -> int:
    """Return the 16-bit lane of a bulk stream's number. Two streams in one lane only share its weight."""
    return CONTROL_LANE if lane == CONTROL_LANE else 1 + lane % LANE_MAX
