"""One TCP connection between two agents: bytes to frames, and frames to bytes.

Owns one socket: TLS if there are certificates, the hello, writing as fast as the kernel accepts, closing
after a drain. The connection writes only its hello before it has accepted the peer's. A peer that violates
the protocol is disconnected and counted, and never raises into the loop; `gone` is reported exactly once.
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
"""The version of the wire that is spoken here. 2: manifests carry the words that made their versions.
3: `Outdated` exists."""
OLDEST = 1
"""The oldest that is still spoken: that of the release before, so that a fleet is upgraded agent by agent."""
HELLO_BYTES_MAX = 4096
HELLO_TIMEOUT_S = 5.0
DRAIN_TIMEOUT_S = 10.0


class HelloRefused(ProtocolError):
    """The other side is no agent of this overlay, or not the one that was meant."""


class IdentityRefused(HelloRefused):
    """The other side's certificate is not that of the agent it says it is."""


class Hello(Message, frozen=True, tag="tp.hello"):
    """The first frame in both directions.

    Attributes:
        cluster: name of the overlay; another name is refused.
        contact: who is speaking, and where its listener is.
        serial: grows with each connection the speaker has dialled; 0 from the side that accepted.
        protocol: oldest version that the speaker speaks; version 1 wants to read a 1 here.
        newest: newest version it speaks; 0: no other than `protocol`.
    """

    cluster: str
    contact: Contact
    serial: int = 0
    protocol: int = OLDEST
    newest: int = 0

    def agree(self, oldest: int, newest: int) -> int:
        """The version that both sides speak from now on; raises HelloRefused if there is none."""
        theirs = max(self.newest, self.protocol)
        if min(newest, theirs) < max(oldest, self.protocol):
            behind = "this agent" if newest < self.protocol else "the peer"
            raise HelloRefused(
                f"peer speaks versions {self.protocol} to {theirs} of the protocol, this agent {oldest} to "
                f"{newest}: upgrade {behind} by the release between"
            )
        return min(newest, theirs)

    def check(self, cluster: str, me: Contact, wanted: Contact | None) -> None:
        """Raise `HelloRefused` unless this peer may talk to us and is the one we dialled."""
        if self.cluster != cluster:
            raise HelloRefused(f"peer belongs to cluster {self.cluster!r}, not {cluster!r}")
        if len(self.contact.id) != ID_BYTES or not 0 < self.contact.port <= 0xFFFF:
            raise HelloRefused("peer states no usable contact")
        if self.contact.id == me.id:
            raise HelloRefused("the connection leads back to this agent")
        if wanted is not None and wanted.id and wanted.id != self.contact.id:
            raise HelloRefused(f"{wanted.host}:{wanted.port} is now another agent")


class Owner(Protocol):
    """Whose connection it is: decides which stays and hears what comes."""

    receive_buffer: bytearray

    def hello(self, connection: Connection) -> Hello | None: ...

    def tls(self, connection: Connection) -> TlsLayer | None:
        """The TLS of a new connection; None: there is none, all is in the clear."""
        ...

    def frame(self, connection: Connection, frame: bytes) -> None:
        """A frame of a peer that has said hello; raises ProtocolError if it is none."""
        ...

    def reading(self, reading: bool) -> None:
        """Bytes of a peer are being handled, or no longer: what was queued meanwhile is written."""
        ...

    def flush_soon(self, connection: Connection) -> None: ...

    def greet(self, connection: Connection, hello: Hello) -> None: ...

    def ended(self, connection: Connection) -> None: ...

    def gone(self, connection: Connection, reason: str) -> None: ...

    def fault(self, error: ProtocolError) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """One connection; `dialled` is whom we meant to reach, None if the peer dialled us."""

    HELLO_CODEC = Codec([Hello])

    def __init__(self, owner: Owner, *, dialled: Contact | None, serial: int = 0) -> None:
        self._owner = owner
        self.dialled = dialled
        self.serial = serial
        self.pair_serial = serial
        self.version = OLDEST  # until both have said what they speak
        self.peer: Contact | None = None
        self.used = 0.0
        self.made = 0.0
        self._tls: TlsLayer | None = None
        self._shaking = False
        self._first = b""  # our hello, until the handshake is done
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
        """Where the peer listens, once it has said so."""
        return (self.peer.host, self.peer.port) if self.peer else None

    def queue(self, lane: int, frame: bytes) -> bool:
        if self._draining or self.closed.is_set() or not self._mux.offer(lane, frame):
            return False
        self._schedule_flush()
        return True

    def greeted(self, hello: Hello, version: int) -> None:
        """The peer's hello was accepted: real frames may pass, in a version that both speak."""
        self.peer, self.version = hello.contact, version
        self.pair_serial = max(self.serial, hello.serial)
        self._demux.frame_bytes_max = FRAME_BYTES_MAX
        self._cancel_timer()
        self._schedule_flush()

    def drain(self) -> None:
        """Take no more; say goodbye when all is written, close when the peer has said it too."""
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
        """Say hello; the peer has a few seconds to answer."""
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
        """One buffer for all connections: asyncio fills it and hands it over in the same breath."""
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
        """Records of the peer: of the handshake first, what was in the same bytes behind it next."""
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
        self._write(b"")  # the alert that says why
        self.abort(str(error))

    def _write(self, data: bytes) -> None:
        """Give bytes to the kernel; with TLS, as records, and what TLS itself has to say with them."""
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
        """Write once per round of the loop, so that the messages of one step share a segment."""
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
    """Small messages leave at once, and the kernel holds back little, so that priorities show."""
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_NOTSENT_LOWAT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, CHUNK_BYTES_MAX)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
