"""Limits the number of concurrent requests of the HTTP API, and the time in which they must arrive.

The module counts requests and tracks the age of connections. It knows no routes except for that of health. It
closes a connection that sends no complete request for a long time, also if that sends a byte a minute. If
there are too many connections, it closes those without a request in progress, the longest quiet ones first.

Invariants: a request in progress is never aborted here while its connection is open. When its connection
closes, a request that only reads ends and frees its place; a request that changes something keeps its place
until it is done. A refused request is answered with 429 and a time after which to retry. No principal uses
more than its share. All principals that are not operators together leave `reserved` requests and
`streams_reserved` streams to operators. Requests for health are counted separately.
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
"""Maximum number of open connections. A command uses one, a browser six."""
REQUESTS_MAX = 192
"""Maximum number of requests in progress, including long polls. Each holds a request to the control machine.
"""
STREAMS_MAX = 64
"""Maximum number of followers and taps, which last for hours and would leave no room for other requests."""
SHARE_MAX = 96
"""Maximum number of requests of one principal, so that two principals cannot use all."""
STREAMS_SHARE_MAX = 32
RESERVED, STREAMS_RESERVED = 32, 8
"""Requests that are reserved for operators, because an operator must be able to end what fills the API."""
HEALTH = "/v1/health"
HEALTH_MAX = 16
"""Maximum number of concurrent requests for health, which are counted separately and answered at once."""
QUIET_S = 75.0
"""How long a connection may be open without a request: to send a request's head, or between two requests."""
SWEEP_S = 1.0
RETRY_S = 5
TOO_MANY = 429

SERVER_OPTIONS: dict[str, Any] = {
    "auto_decompress": False,  # clients need not compress requests, and decompression would be unbounded
    "handler_cancellation": True,  # see `RequestLimits.until_gone`
}
"""Options of the aiohttp servers of the API."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RequestLimits:
    """Limits concurrent requests with three middlewares: `until_gone`, then `middleware`, later `shares`.

    `watch` tracks connections. `shares` comes after the middleware that identifies the caller.

    Args:
        requests_max: maximum number of requests.
        streams_max: maximum number of followers and taps among them.
        connections_max: maximum number of open connections.
        quiet_s: how long a connection may be open without a request.
        share_max: maximum number of requests of one principal.
        streams_share_max: maximum number of followers and taps among them.
        reserved: number of requests that are reserved for operators.
        streams_reserved: number of followers and taps among them.
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
        """Let the server cancel only requests that read, when their connections close."""
        if request.method in ("GET", "HEAD") or _stays(request):
            return await handler(request)
        work = asyncio.ensure_future(handler(request))
        self._changing.add(work)
        work.add_done_callback(self._changed)
        return await asyncio.shield(work)

    def _changed(self, work: asyncio.Future[web.StreamResponse]) -> None:
        self._changing.discard(work)
        if not work.cancelled():
            work.exception()  # retrieves the exception, because the caller may be gone

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Admit a request, or answer 429."""
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
        """Admit a request if its principal has not used up its share; otherwise answer 429."""
        if request.path == HEALTH:
            return await handler(request)
        who = request[PRINCIPAL]
        other = not who.may_operate()
        # a follower or tap counts as a request as well
        kinds = (False, True) if _stays(request) else (False,)
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
        """Start closing quiet connections of a server. Returns the function that stops this."""

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
        """Close connections that were quiet for too long, and the quietest ones if there are too many."""
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
