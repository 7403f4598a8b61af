"""Who has connected and not yet shown who they are: how many may, and for how long.

Owns accepting connections and their TLS handshakes. asyncio's own listener bounds neither how many shake
hands at once nor, below a minute, how long: a client that can connect could take every file that the process
may open. What comes after the handshake is `request_limits`'s business.

Invariants: of too many handshakes the oldest gives way, since who is in earnest is done within a few round
trips; each handshake uses the newest certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

SHAKING_MAX = 128
"""Handshakes at once."""
SHAKE_S = 5.0
"""How long one may take."""
GOODBYE_S = 2.0
"""How long a connection that is closed waits for the other side's goodbye."""
BREATH_S = 0.1
"""After the process could open no more."""


class HandshakeLimits:
    """Accepts on a listening socket, which stays the caller's; made and used on the loop's thread.

    Args:
        sock: listening, non-blocking.
        protocol: makes the protocol of a connection.
        context: the newest certificate; None: connections are in the clear.
        shaking_max: handshakes at once.
        shake_s: how long one may take.
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
            except OSError:  # it went again, or no file is left
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
