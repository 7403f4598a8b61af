"""Limits the number and the duration of TLS handshakes.

The module accepts connections and performs their handshakes. asyncio's own listener limits neither the number
of concurrent handshakes nor, below a minute, their duration, so a client that can connect could use up all
file descriptors of the process. `request_limits` limits what follows the handshake.

Invariants: if there are too many handshakes, the oldest one is aborted, because an honest client needs only a
few round trips. Each handshake uses the newest certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

SHAKING_MAX = 128
"""Maximum number of concurrent handshakes."""
SHAKE_S = 5.0
"""Time limit of a handshake."""
GOODBYE_S = 2.0
"""How long a closing connection waits for the peer to close its side."""
BREATH_S = 0.1
"""Pause after the process could open no further descriptor."""


class HandshakeLimits:
    """Accepts connections on a listening socket, which the caller owns. Runs in the event loop's thread.

    Args:
        sock: listening, non-blocking socket.
        protocol: creates the protocol of a connection.
        context: returns the newest TLS context; None: connections are not encrypted.
        shaking_max: maximum number of concurrent handshakes.
        shake_s: time limit of a handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        context: Callable[[], ssl.SSLContext | None],
        *,
        shaking_max: int = SHAKING_MAX,
        shake_s: float = SHAKE_S,
    ) -> None:
        self._socket, self._protocol, self._context = sock, protocol, context
        self._max, self._shake_s = shaking_max, shake_s
        self._shaking: dict[asyncio.Task[None], None] = {}  # oldest first
        self._task = asyncio.get_running_loop().create_task(self._accept())
        self.gave_way = 0

    async def close(self) -> None:
        tasks = [self._task, *self._shaking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError:  # the connection was closed, or no descriptor is left
                await asyncio.sleep(BREATH_S)
                continue
            if len(self._shaking) >= self._max:
                self.gave_way += 1
                oldest = next(iter(self._shaking))
                del self._shaking[oldest]
                oldest.cancel()
            task = loop.create_task(self._shake(client))
            self._shaking[task] = None
            task.add_done_callback(lambda done: self._shaking.pop(done, None))

    async def _shake(self, client: socket.socket) -> None:
        context = self._context()
        with contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._protocol,
                    client,
                    ssl=context,
                    ssl_handshake_timeout=None if context is None else self._shake_s,
                    ssl_shutdown_timeout=None if context is None else GOODBYE_S,
                )
            except BaseException:
                client.close()
                raise
