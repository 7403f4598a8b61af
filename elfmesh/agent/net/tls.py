"""TLS of one overlay connection without a socket: encrypted bytes in, decrypted bytes out.

asyncio's own TLS does not report why a peer was refused, and keeps a queue between the lanes and the kernel.
Nothing is sent to a peer before its certificate is verified. A TLS failure is a `ProtocolError`.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import cast

from elfmesh.errors import ProtocolError

RECORD_BYTES = 16 << 10


class TlsRefused(ProtocolError):
    """The peer has no valid certificate, or does not support TLS 1.3."""


class TlsLayer:
    """TLS between a connection and its socket. `certificate` (DER) is b"" until the handshake is complete."""

    def __init__(self, context: ssl.SSLContext, *, server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._buffer = bytearray(RECORD_BYTES)
        self.certificate = b""

    def handshake(self, data: bytes | memoryview = b"") -> bool:
        """Continue the handshake with received bytes. Returns whether it is complete."""
        if data:
            self._incoming.write(data)
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise TlsRefused(_reason(error)) from None
        certificate = self._object.getpeercert(binary_form=True)
        if not certificate:
            raise TlsRefused("the peer shows no certificate")
        self.certificate = certificate
        return True

    def decrypted(self, data: bytes | memoryview = b"") -> Iterator[memoryview]:
        """Yield the decrypted bytes of this and earlier data. Each view is valid until the next one."""
        if data:
            self._incoming.write(data)
        view = memoryview(self._buffer)
        while True:
            try:
                count = cast(int, self._object.read(RECORD_BYTES, self._buffer))
            except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
                return
            except ssl.SSLError as error:
                raise TlsRefused(_reason(error)) from None
            if not count:
                return
            yield view[:count]

    def encrypt(self, data: bytes | bytearray | memoryview) -> None:
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]

    def take(self) -> bytes:
        """Return the encrypted bytes to send, including those of the handshake and of alerts."""
        return self._outgoing.read()


def _reason(error: ssl.SSLError) -> str:
    why = getattr(error, "verify_message", "") or (error.reason or str(error)).lower().replace("_", " ")
    return f"TLS: {why}"
