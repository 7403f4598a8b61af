"""How many may be at the HTTP API at once, and how long they may take to say what they want.

Owns counts of requests and the ages of connections; of the routes it knows only which one tells of health. A
connection that asks nothing for long is closed, whether it is silent or sends a byte a minute; of too many,
those go first that wait for nothing.

Invariants: a request that is being answered is never cut off here while its connection is open. When its
connection closes, what only reads ends and its place is free; what changes something keeps its place until it
is done. What is refused is answered 429, with a time to come back after; no principal takes more than its
share, and all that are no operators together leave `reserved` requests and `streams_reserved` streams to
operators; health is answered whatever else is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from elfmesh.api.identity.identify import PRINCIPAL
from elfmesh.api.identity.principal import Principal
from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import error_body

CONNECTIONS_MAX = 256
"""Open connections; a command takes one, a browser six."""
REQUESTS_MAX = 192
"""Requests being answered at once, long polls among them: each holds a question to the control machine."""
STREAMS_MAX = 64
"""Followers and taps at once: they stay for hours and would leave no room for anything else."""
SHARE_MAX = 96
"""Requests of one principal at once: two of them cannot fill the API."""
STREAMS_SHARE_MAX = 32
RESERVED, STREAMS_RESERVED = 32, 8
"""What only operators get: who has to end what fills the API must be let in."""
HEALTH = "/v1/health"
HEALTH_MAX = 16
"""Requests for it at once; each is answered at once, and they are counted apart from all others."""
QUIET_S = 75.0
"""How long a connection may be open without asking: to send a request's head, or between two requests."""
SWEEP_S = 1.0
RETRY_S = 5
TOO_MANY = 429

SERVER_OPTIONS: dict[str, Any] = {
    "auto_decompress": False,  # no client has to fold requests, and what unfolds without end must not
    "handler_cancellation": True,  # see `RequestLimits.until_gone`
}
"""What an aiohttp server of the API is made with."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestLimits:
    """Limits the requests that are handled at once: `until_gone` comes first, then `middleware`.

    `watch` counts connections. `shares` comes after the middleware that identifies the caller.

    Args:
        requests_max: requests at once.
        streams_max: of them, those that stay.
        connections_max: open connections.
        quiet_s: how long a connection may ask nothing.
        share_max: requests of one principal.
        streams_share_max: of them, those that stay.
        reserved: requests that only operators get.
        streams_reserved: of them, those that stay.
    """

    def __init__(
        self,
        *,
        requests_max: int = REQUESTS_MAX,
        streams_max: int = STREAMS_MAX,
        connections_max: int = CONNECTIONS_MAX,
        quiet_s: float = QUIET_S,
        share_max: int = SHARE_MAX,
        streams_share_max: int = STREAMS_SHARE_MAX,
        reserved: int = RESERVED,
        streams_reserved: int = STREAMS_RESERVED,
    ) -> None:
        self._share = {False: share_max, True: streams_share_max}
        self._open_to_all = {False: requests_max - reserved, True: streams_max - streams_reserved}
        self._shares: Counter[tuple[str, str, bool]] = Counter()
        self._others: Counter[bool] = Counter()
        self._requests_max, self._streams_max = requests_max, streams_max
        self._connections_max, self._quiet_s = connections_max, quiet_s
        self._busy: dict[asyncio.BaseTransport, int] = {}
        self._quiet_since: dict[asyncio.BaseTransport, float] = {}
        self._streams = self._inside = self._health = 0
        self._task: asyncio.Task[None] | None = None
        self._changing: set[asyncio.Future[web.StreamResponse]] = set()
        self.refused = 0
        self.closed = 0

    @web.middleware
    async def until_gone(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the server end what only reads when its connection closes, and nothing else."""
        if request.method in ("GET", "HEAD") or _stays(request):
            return await handler(request)
        work = asyncio.ensure_future(handler(request))
        self._changing.add(work)
        work.add_done_callback(self._changed)
        return await asyncio.shield(work)

    def _changed(self, work: asyncio.Future[web.StreamResponse]) -> None:
        self._changing.discard(work)
        if not work.cancelled():
            work.exception()  # its caller has it, or is gone

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request in, or answer 429; also says to browsers that answers are what they are called."""
        stays, health = _stays(request), request.path == HEALTH
        full = self._health >= HEALTH_MAX if health else self._inside >= self._requests_max
        if full or (stays and self._streams >= self._streams_max):
            return self._refuse("too many requests at once")
        transport = request.transport
        if transport is None:
            raise ConnectionResetError
        self._busy[transport] = self._busy.get(transport, 0) + 1
        self._streams += stays
        self._health += health
        self._inside += not health
        try:
            return await handler(request)
        finally:
            self._streams -= stays
            self._health -= health
            self._inside -= not health
            self._busy[transport] -= 1
            if not self._busy[transport]:
                del self._busy[transport]
            self._quiet_since.pop(transport, None)

    @web.middleware
    async def shares(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a principal in that has something left of its share, or answer 429."""
        if request.path == HEALTH:
            return await handler(request)
        who = request[PRINCIPAL]
        other = not who.may_operate()
        kinds = (False, True) if _stays(request) else (False,)  # what stays is a request as well
        for kind in kinds:
            if self._shares[who.source, who.name, kind] >= self._share[kind]:
                return self._refuse(f"{who.name[:100]!r} has too many requests open")
            if other and self._others[kind] >= self._open_to_all[kind]:
                return self._refuse("too many requests at once")
        self._count(who, kinds, 1)
        try:
            return await handler(request)
        finally:
            self._count(who, kinds, -1)

    def _count(self, who: Principal, kinds: tuple[bool, ...], change: int) -> None:
        for kind in kinds:
            key = who.source, who.name, kind
            self._shares[key] += change
            if not self._shares[key]:
                del self._shares[key]
            self._others[kind] += change * (not who.may_operate())

    def _refuse(self, why: str) -> web.Response:
        self.refused += 1
        answer = json_response(TOO_MANY, error_body(why, hint="Try again later."))
        answer.headers["Retry-After"] = str(RETRY_S)
        return answer

    async def watch(self, server: web.Server) -> Callable[[], Awaitable[None]]:
        """Look after the connections of a server; the way to end it."""

        async def look() -> None:
            while True:
                self.sweep(server, asyncio.get_running_loop().time())
                await asyncio.sleep(SWEEP_S)

        self._task = task = asyncio.create_task(look())

        async def end() -> None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        return end

    def sweep(self, server: web.Server, now: float) -> None:
        """Close connections that have asked nothing for too long, and the quietest of too many."""
        open_now = [each.transport for each in server.connections if each.transport is not None]
        quiet = [transport for transport in open_now if transport not in self._busy]
        since = self._quiet_since
        self._quiet_since = {transport: since.get(transport, now) for transport in quiet}
        quiet.sort(key=self._quiet_since.__getitem__)
        too_many = max(0, len(open_now) - self._connections_max)
        for place, transport in enumerate(quiet):
            if place < too_many or now - self._quiet_since[transport] > self._quiet_s:
                self.closed += 1
                transport.abort()


def _stays(request: web.Request) -> bool:
    if request.path == "/v1/tap":
        return True
    return request.query.get("follow") in ("1", "true")
