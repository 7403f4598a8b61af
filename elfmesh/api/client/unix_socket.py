"""The API on a Unix socket: its address form "unix:PATH", and connections to it.

The kernel reports the user at the other end, so clients send no certificate and no token.
"""

from __future__ import annotations

import http.client
import os
import socket

from elfmesh.errors import ConfigError

PREFIX = "unix:"
HOST = "localhost"
"""Host header of requests over the socket."""


def socket_path(address: str | None) -> str | None:
    """Return PATH of "unix:PATH" in `address` or, without one, in ELF_API; None for any other address.

    Raises:
        ConfigError: the path is empty.
    """
    text = address or os.environ.get("ELF_API") or ""
    if not text.startswith(PREFIX):
        return None
    path = text.removeprefix(PREFIX)
    if not path:
        raise ConfigError(f"{text!r} has no path", where="--api", hint="Such as unix:/run/elf/api.sock.")
    return path


class UnixConnection(http.client.HTTPConnection):
    """HTTP connection over a Unix socket."""

    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__(HOST, timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
