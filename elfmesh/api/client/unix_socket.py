"""The API at a unix socket: how clients name it and connect to it.

Owns the spelling "unix:PATH". Who is at the other end is known by the kernel: no certificate and no token
goes over it.
"""

from __future__ import annotations

import http.client
import os
import socket

from elfmesh.errors import ConfigError

PREFIX = "unix:"
HOST = "localhost"
"""What a request over the socket says it was sent to."""


def socket_path(address: str | None) -> str | None:
    """PATH of "unix:PATH" in `address` or, without one, in ELF_API; None for any other address.

    Raises:
        ConfigError: there is no path.
    """
    text = address or os.environ.get("ELF_API") or ""
    if not text.startswith(PREFIX):
        return None
    path = text.removeprefix(PREFIX)
    if not path:
        raise ConfigError(f"{text!r} has no path", where="--api", hint="Such as unix:/run/elf/api.sock.")
    return path


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, *, timeout: float) -> None:
        super().__init__(HOST, timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect. Raises OSError."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
