"""One TCP connection between two agents: converts bytes to frames, and frames to bytes.

The module owns one socket: TLS if there are certificates, the hello, writing at the speed of the kernel,
closing after the queues are empty. The connection writes only its hello before it has accepted the hello of
the peer.

Invariants: a peer that violates the protocol is disconnected and counted, and never raises into the event
loop. `gone` is reported exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Protocol, cast

from elfmesh.agent.net.dataplane import CONTROL_LANE, FRAME_BYTES_MAX, GOODBYE, Demultiplexer, Multiplexer
from elfmesh.agent.net.tls import TlsLayer
from elfmesh.errors import ProtocolError
from elfmesh.ids import ID_BYTES
from elfmesh.limits import CHUNK_BYTES_MAX
from elfmesh.machine import Contact, Message
from elfmesh.wire import Codec

PROTOCOL = 3
"""Newest version of the protocol. 2: manifests contain the requests that made their versions. 3: `Outdated`
exists."""
OLDEST = 1
"""Oldest supported version, that of the previous release, so that a fleet can be upgraded agent by agent."""
HELLO_BYTES_MAX = 4096
HELLO_TIMEOUT_S = 5.0
DRAIN_TIMEOUT_S = 10.0


class HelloRefused(ProtocolError):
    """The peer is not an agent of this overlay, or not the agent that was dialled."""


class IdentityRefused(HelloRefused):
    """The certificate of the peer belongs to another agent than the peer claims to be."""


class Hello(Message, frozen=True, tag="tp.hello"):
    """First frame in both directions.

    Attributes:
        cluster: name of the overlay; a peer with another name is refused.
        contact: contact of the sender, including the address of its listener.
        serial: increases with each connection that the sender dials; 0 from the accepting side.
        protocol: oldest version that the sender supports; version 1 requires a 1 here.
        newest: newest version that the sender supports; 0: only `protocol`.
    """

    cluster: str
    contact: Contact
    serial: int = 0
    protocol: int = OLDEST
    newest: int = 0

    def agree(self, oldest: int, newest: int) -> int:
        """Return the version that both sides use. Raises HelloRefused if there is none."""
        theirs = max(self.newest, self.protocol)
        if min(newest, theirs) < max(oldest, self.protocol):
            behind = "this agent" if newest < self.protocol else "the peer"
            raise HelloRefused(
                f"peer speaks versions {self.protocol} to {theirs} of the protocol, this agent {oldest} to "
                f"{newest}: upgrade {behind} by the release between"
            )
        return min(newest, theirs)

    def check(self, cluster: str, me: Contact, wanted: Contact | None) -> None:
        """Raise `HelloRefused` unless this peer is in the cluster and is the agent that was dialled."""
        if self.cluster != cluster:
            raise HelloRefused(f"peer belongs to cluster {self.cluster!r}, not {cluster!r}")
        if len(self.contact.id) != ID_BYTES or not 0 < self.contact.port <= 0xFFFF:
            raise HelloRefused("peer states no usable contact")
        if self.contact.id == me.id:
            raise HelloRefused("the connection leads back to this agent")
        if wanted is not None and wanted.id and wanted.id != self.contact.id:
            raise HelloRefused(f"{wanted.host}:{wanted.port} is now another agent")


class ConnectionOwner(Protocol):
    """Interface of the transport that owns connections and decides which of them remain."""

    receive_buffer: bytearray

    def hello(self, connection: Connection) -> Hello | None: ...

    def tls(self, connection: Connection) -> TlsLayer | None:
        """Return the TLS layer of a new connection, or None if it is not encrypted."""
        ...

    def frame(self, connection: Connection, frame: bytes) -> None:
        """Handle a frame of a peer whose hello was accepted. Raises ProtocolError if it is malformed."""
        ...

    def reading(self, reading: bool) -> None:
        """Called before and after bytes of a peer are handled. Afterwards, queued frames are written."""
        ...

    def flush_soon(self, connection: Connection) -> None: ...

    def greet(self, connection: Connection, hello: Hello) -> None: ...

    def ended(self, connection: Connection) -> None: ...

    def gone(self, connection: Connection, reason: str) -> None: ...

    def fault(self, error: ProtocolError) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One connection. `dialled` is the contact that was dialled, or None if the peer dialled."""

    HELLO_CODEC = Codec([Hello])

    def __init__(self, owner: ConnectionOwner, *, dialled: Contact | None, serial: int = 0) -> None:
        self._owner = owner
        self.dialled = dialled
        self.serial = serial
        self.pair_serial = serial
        self.version = OLDEST  # until both hellos were exchanged
        self.peer: Contact | None = None
        self.used = 0.0
        self.made = 0.0
        self._tls: TlsLayer | None = None
        self._shaking = False
        self._first = b""  # this side's hello, until the handshake is complete
        self.closed = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._mux = Multiplexer()
        self._demux = Demultiplexer(frame_bytes_max=HELLO_BYTES_MAX)
        self._paused = False
        self._draining = False
        self._has_left = False
        self._flush_due = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def certificate(self) -> bytes:
        return b"" if self._tls is None else self._tls.certificate

    @property
    def peer_address(self) -> tuple[str, int] | None:
        """Address of the peer's listener, after its hello."""
        return (self.peer.host, self.peer.port) if self.peer else None

    def queue(self, lane: int, frame: bytes) -> bool:
        if self._draining or self.closed.is_set() or not self._mux.offer(lane, frame):
            return False
        self._schedule_flush()
        return True

    def greeted(self, hello: Hello, version: int) -> None:
        """Accept the peer's hello. From now on, frames of `version` may pass."""
        self.peer, self.version = hello.contact, version
        self.pair_serial = max(self.serial, hello.serial)
        self._demux.frame_bytes_max = FRAME_BYTES_MAX
        self._cancel_timer()
        self._schedule_flush()

    def drain(self) -> None:
        """Stop accepting frames, write the queued ones, and close after the goodbyes of both sides."""
        if self._draining:
            return
        self._draining = True
        self._cancel_timer()
        if self._transport is None or self.peer is None:
            self.abort("closing")
            return
        self._timer = asyncio.get_running_loop().call_later(DRAIN_TIMEOUT_S, self.abort, "drain timed out")
        self._schedule_flush()

    def unreachable(self, reason: str) -> None:
        self._end(reason)

    def abort(self, reason: str) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._end(reason)

    # -- asyncio.BufferedProtocol --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the hello, and start the time limit for the peer's hello."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=CHUNK_BYTES_MAX, low=CHUNK_BYTES_MAX // 4)
        tune(transport.get_extra_info("socket"))
        hello = None if self.closed.is_set() else self._owner.hello(self)
        if hello is None:
            self.abort("not accepting")
            return
        self._touch()
        self.made = self.used
        first = Multiplexer()
        first.offer(CONTROL_LANE, self.HELLO_CODEC.encode(hello))
        self._tls = self._owner.tls(self)
        if self._tls is None:
            self._write(first.take())
        else:
            self._first, self._shaking = first.take(), True
            self._handshake(self._tls, b"")
        self._timer = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_S, self.abort, "no hello in time")

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer of all connections, which asyncio fills and passes on at once."""
        return self._owner.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._touch()
        data = memoryview(self._owner.receive_buffer)[:nbytes]
        self._owner.reading(True)
        try:
            if self._tls is None:
                self._received(data)
            else:
                self._received_secured(self._tls, data)
        except ProtocolError as error:
            self._fault(error)
        finally:
            self._owner.reading(False)

    def _received_secured(self, tls: TlsLayer, data: memoryview) -> None:
        """Decrypt records of the peer: the handshake first, then data that follows in the same bytes."""
        if self._shaking:
            self._handshake(tls, data)
            if self._shaking:
                return
        for part in tls.decrypted(b"" if self._first else data):
            self._received(part)
            if self.closed.is_set():
                return
        self._first = b""
        self._write(b"")

    def _handshake(self, tls: TlsLayer, data: bytes | memoryview) -> None:
        if tls.handshake(data):
            self._shaking = False
            self._write(self._first)
        else:
            self._write(b"")

    def _fault(self, error: ProtocolError) -> None:
        self._owner.fault(error)
        self._write(b"")  # the TLS alert with the reason
        self.abort(str(error))

    def _write(self, data: bytes) -> None:
        """Write bytes to the kernel; with TLS, as records, together with pending records of TLS itself."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._tls is not None:
            if data:
                self._tls.encrypt(data)
            data = self._tls.take()
        if data:
            transport.write(data)

    def _received(self, data: memoryview) -> None:
        for frame in self._demux.feed(data):
            if self.peer is not None:
                self._owner.frame(self, frame)
            else:
                hello, _ = self.HELLO_CODEC.decode(frame)
                assert isinstance(hello, Hello)
                self._owner.greet(self, hello)
            if self.closed.is_set():
                return
        if self._demux.ended:
            self._peer_ended()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc or "closed"))

    # -- inside --------------------------------------------------------------------------------------

    def _peer_ended(self) -> None:
        if self.peer is None:
            raise HelloRefused("goodbye before hello")
        self._owner.ended(self)
        if self._has_left and self._transport is not None:
            self._transport.close()

    def _touch(self) -> None:
        self.used = asyncio.get_running_loop().time()

    def _schedule_flush(self) -> None:
        """Schedule one write per iteration of the event loop, so that messages of a step share a segment."""
        if not self._flush_due and not self._paused and self.peer is not None:
            self._flush_due = True
            self._owner.flush_soon(self)

    def flush(self) -> None:
        self._flush_due = False
        transport = self._transport
        if transport is None or self.peer is None or transport.is_closing():
            return
        if self._mux.queued:
            self._touch()
        while not self._paused and (data := self._mux.take()):
            self._write(data)
        if self._draining and not self._mux.queued and not self._has_left:
            self._has_left = True
            self._write(GOODBYE)
            if self._demux.ended:
                transport.close()

    def _end(self, reason: str) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        self._cancel_timer()
        self._owner.gone(self, reason)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def tune(sock: socket.socket | None) -> None:
    """Send small messages at once, and limit the kernel's send buffer, so that priorities take effect."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, CHUNK_BYTES_MAX)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
