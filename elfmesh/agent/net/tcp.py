"""One TCP connection per pair of peers.

A connection begins with a `Hello` from both sides; nothing else passes before the other side's hello fits. A
send opens the connection it needs, and an unreachable peer is left alone for a growing while. Sends are at
most once: what does not fit a bounded queue, or was on its way when a connection broke, is lost and counted.
Of two connections for one pair both sides keep the one dialled by the smaller id, else the later one.

Paper: Aurora*/Medusa 4.3. Measured: without TCP_NOTSENT_LOWAT control waits 58 ms behind bulk, with it 3 ms.
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
"""Open connections; beyond it the one idle for longest is closed. About 70 are in use with 500 trees."""
HALF_OPEN_MAX = 128
"""Accepted connections that have not said hello yet; more is a flood, not a fleet. The oldest gives way:
who is in earnest says hello within a round trip, and silent ones must not keep the others out."""
DIALS_MAX = 128
"""Connections being opened at once: peers say where others are, and must not make us knock everywhere."""
CONNECT_TIMEOUT_S = 5.0
IDLE_S = 120.0
"""A connection nothing went over for so long is closed; heartbeats keep those of active pairs open."""
LIFETIME_S = 3600.0
WARN_S = 1.0
"""A refused peer is in the log at most so often: a peer that knocks must not fill a disk."""
RECEIVE_BUFFER_BYTES = 256 << 10


class TcpTransport:
    """`Transport` on asyncio TCP.

    Args:
        port: to listen on, 0 for any.
        codec: every message type that may travel.
        cluster: name that both sides must share.
        trust: whose certificates are believed; None: peers have none, and are believed.
        lifetime_s: how long a connection may live on the certificates it began with.
        versions: oldest and newest version of the protocol that are spoken.
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
        self._by_id: dict[bytes, Connection] = {}  # said hello, the only one of its pair
        self._dialling: dict[tuple[str, int], Connection] = {}  # by address, until the hello came
        # Accepted without hello yet, or being drained; oldest first.
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
        """Answer as `me`; connections accepted before were refused."""
        self._me, self._handler = me, handler

    def send(self, to: Contact, message: Message, payload: bytes = b"", lane: int = 0) -> None:
        """Queue a message on the pair's connection, opening it if need be."""
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
        """Drain for at most a second, then close."""
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
        except Exception as error:  # peers name addresses: one that is none must not stay "being dialled"
            connection.unreachable(str(error) or type(error).__name__)

    # -- called by connections -----------------------------------------------------------------------

    def hello(self, connection: Connection) -> Hello | None:
        """What to say on a new connection; None refuses it (not open yet, or a flood)."""
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
        """A peer's bytes are being handled, or no longer: their answers are written at once and together."""
        self._reading = reading
        if not reading and self._unwritten:
            self._flush()

    def flush_soon(self, connection: Connection) -> None:
        """Have a connection write: behind what is being read, or in the next round of the loop."""
        if not self._unwritten and not self._reading:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unwritten.append(connection)

    def _flush(self) -> None:
        connections, self._unwritten = self._unwritten, []
        for connection in connections:
            connection.flush()

    def greet(self, connection: Connection, hello: Hello) -> None:
        """A hello has come: admit the connection and keep one of its pair, or raise HelloRefused."""
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
        """The peer has said goodbye: what we have queued still goes out, new sends open a new connection."""
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
        """Judge the certificates of open connections again; end those that are bad now, or too old."""
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
    """The 16-bit lane of any bulk stream's number; two streams in one lane share its weight, no more."""
    return CONTROL_LANE if lane == CONTROL_LANE else 1 + lane % LANE_MAX
