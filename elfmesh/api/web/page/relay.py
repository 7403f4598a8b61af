"""Serves the live page of an agent that requires certificates on loopback, for `elf page`.

The module relays requests between a browser on this host and the API of an agent. The browser presents the
token of the relay, and the relay presents the user's certificate (or token) to the agent. The agent decides
about roles.

Invariants: the relay listens on loopback only. Without its token, it requests only the files of the page from
the agent, so other users of the host cannot use the certificate. It forwards exactly the path that it has
checked, byte for byte. It refuses requests from web pages of another origin.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket

import aiohttp
from aiohttp import hdrs, web
from yarl import URL

from elfmesh.api.client.client_base import api_name, unreachable
from elfmesh.api.identity.credentials import Credentials
from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import UNAVAILABLE, error_of
from elfmesh.control.answers import error_body as refused

BODY_BYTES_MAX = 4 << 20
"""Larger than the limit of the agent."""

ASKED = ("Accept", "Content-Type", "If-None-Match")
ANSWERED = frozenset({"content-type", "cache-control", "etag", "vary", "retry-after"})
"""Response headers that the relay passes on, besides the security headers of the page."""

KEPT = ("content-security-policy", "x-", "referrer-policy", "cross-origin-", "permissions-policy")
CHUNK_BYTES = 64 << 10

_FILE = re.compile(r"/(?:page/(?:[\w-][\w.-]*/)*(?:[\w-][\w.-]*)?)?", re.ASCII)
"""Paths that need no token. The pattern admits no dot segments and no percent-encoding."""


class PageRelay:
    """Relay of one agent's page on loopback; an async context manager.

    Args:
        api: "HOST:PORT" of the agent.
        credentials: credentials for the agent.
        port: port to listen on, 0 for any.

    Raises:
        ConfigError: the credentials cannot be used.
        OSError: the port is not available.
    """

    def __init__(self, api: str | None, credentials: Credentials, port: int = 0) -> None:
        self._api, self._credentials, self._port = api_name(api), credentials, port
        self._context = credentials.context()
        self._token = secrets.token_urlsafe(24)
        self._own = ""

    @property
    def url(self) -> str:
        """URL of the page. Browsers do not send the token after `#`."""
        return f"http://{self._own}/page/#token={self._token}"

    async def __aenter__(self) -> PageRelay:
        listener = socket.create_server(("127.0.0.1", self._port))
        self._own = f"127.0.0.1:{listener.getsockname()[1]}"
        self._session = aiohttp.ClientSession(auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar())
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.router.add_route("*", "/{path:.*}", self._relay)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.SockSite(self._runner, listener).start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _relay(self, request: web.Request) -> web.StreamResponse:
        origin = request.headers.get(hdrs.ORIGIN)
        if request.headers.get(hdrs.HOST) != self._own or origin not in (None, f"http://{self._own}"):
            return json_response(403, refused("requests of web pages are refused", where=request.path))
        if not self._is_open(request) and not self._known(request.headers.get(hdrs.AUTHORIZATION, "")):
            hint = "Open the address that `elf page` has printed, including everything after the #."
            return json_response(
                401, refused("the request has no valid token", where=request.path, hint=hint)
            )
        scheme = "http" if self._context is None else "https"
        if not request.raw_path.startswith("/"):
            return json_response(400, refused("the path of a request begins with /", where=request.path))
        headers = {name: request.headers[name] for name in ASKED if name in request.headers}
        headers["Accept-Encoding"] = request.headers.get("Accept-Encoding", "identity")
        try:
            async with self._session.request(
                request.method,
                # encoded=True keeps the path unchanged
                URL(f"{scheme}://{self._api}{request.raw_path}", encoded=True),
                data=await request.read() if request.can_read_body else None,
                headers=headers | self._credentials.headers(self._api),
                ssl=self._context or True,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10.0),
            ) as answer:
                return await _passed_on(request, answer)
        except aiohttp.ClientConnectionError as error:
            return json_response(UNAVAILABLE, error_of(unreachable(self._api, error)))

    @staticmethod
    def _is_open(request: web.Request) -> bool:
        path = request.raw_path.partition("?")[0]
        return request.method in (hdrs.METH_GET, hdrs.METH_HEAD) and _FILE.fullmatch(path) is not None

    def _known(self, given: str) -> bool:
        scheme, _, token = given.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), self._token.encode())


async def _passed_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    for name, value in answer.headers.items():
        low = name.lower()
        if low in ANSWERED or low in ("content-encoding", "location") or low.startswith(KEPT):
            response.headers[name] = value
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_chunked(CHUNK_BYTES):
            await response.write(chunk)
    except (aiohttp.ClientPayloadError, ConnectionError):
        response.force_close()  # aborted, so that the browser does not take the answer for complete
        if request.transport is not None:
            request.transport.abort()
        return response
    await response.write_eof()
    return response
