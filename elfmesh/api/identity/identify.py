"""Authenticates requests of the HTTP API: each request gets its `Principal`, or is refused.

The module owns the middleware and the order of its checks: a certificate, a bearer token, the user at the
other end of a Unix socket, an address of this host. Other modules decide what the principal may do.

Invariants: a caller with invalid credentials gets 401, never fewer rights than requested. The certificate of
a connection is checked again with each request, because it may have expired or been revoked.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from elfmesh.api.identity.principal import LOOPBACK_READER, NotBelieved, Principal, Role
from elfmesh.api.web.responses import json_response
from elfmesh.control.answers import error_body

UNAUTHORISED = 401
LIFETIME_S = 3600.0
PRINCIPAL = web.RequestKey("elf.principal", Principal)
"""Key of a request of the HTTP API under which its principal is stored."""

TOKEN_OPERATOR = Principal("token", frozenset({Role.OPERATOR}), source="token")
NETWORK_READER = Principal("network", frozenset({Role.READER}), source="insecure network")
"""Principal of callers from other hosts if the agent listens there without certificates."""

_UCRED = struct.Struct("3i")


class Identifier:
    """Determines the principal of requests to an agent.

    Args:
        token: bearer token of operators; "" accepts no token.
        of_certificate: returns the principal of a verified certificate (DER); raises `NotBelieved`.
        lifetime_s: how long a connection may exist after its certificate was verified.
    """

    def __init__(
        self,
        token: str = "",
        *,
        of_certificate: Callable[[bytes], Principal] | None = None,
        lifetime_s: float = LIFETIME_S,
    ) -> None:
        self.token, self.of_certificate, self._lifetime_s = token, of_certificate, lifetime_s
        self._open: dict[asyncio.BaseTransport, tuple[bytes, float]] = {}

    def reconsider(self) -> None:
        """Check the certificates of open connections again, and close those that are invalid or too old."""
        now = time.monotonic()
        for transport, (certificate, since) in list(self._open.items()):
            if transport.is_closing():
                del self._open[transport]
                continue
            try:
                assert self.of_certificate is not None
                self.of_certificate(certificate)
            except NotBelieved:
                old = True
            else:
                old = now - since > self._lifetime_s
            if old and isinstance(transport, asyncio.WriteTransport):
                del self._open[transport]
                transport.abort()

    def principal(self, request: web.Request) -> Principal:
        """Return the principal of a request. Raises NotBelieved for invalid credentials."""
        transport = request.transport
        secured = transport.get_extra_info("ssl_object") if transport is not None else None
        if secured is not None:
            certificate = secured.getpeercert(binary_form=True)
            if certificate is None or self.of_certificate is None:
                raise NotBelieved("there is no certificate")
            who = self.of_certificate(certificate)
            assert transport is not None
            self._open.setdefault(transport, (certificate, time.monotonic()))
            return who
        if (given := request.headers.get(hdrs.AUTHORIZATION)) is not None:
            return self._bearer(given)
        sock = transport.get_extra_info("socket") if transport is not None else None
        if sock is not None and sock.family == socket.AF_UNIX:
            return _of_unix(sock)
        peer = transport.get_extra_info("peername") if transport is not None else None
        return LOOPBACK_READER if peer and _loopback(peer[0]) else NETWORK_READER

    def _bearer(self, given: str) -> Principal:
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer":
            raise NotBelieved(f"only bearer tokens are supported, not {scheme[:20]!r}")
        if not self.token or not hmac.compare_digest(token.strip().encode(), self.token.encode()):
            raise NotBelieved("the token does not belong to this agent")
        return TOKEN_OPERATOR


Refused = Callable[[web.Request, str], Awaitable[None]]
"""Called for a refused request, with the reason."""


def identifying(identifier: Identifier, refused: Refused | None = None) -> Middleware:
    """Return the middleware that sets `request[PRINCIPAL]`. Calls `refused` for other requests."""

    @web.middleware
    async def identify(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            request[PRINCIPAL] = identifier.principal(request)
        except NotBelieved as error:
            if refused is not None:
                await refused(request, str(error))
            hint = "An agent's token is api.token in its data directory; give it by --token-file."
            response = json_response(
                UNAUTHORISED, error_body(f"authentication failed: {error}", where=request.path, hint=hint)
            )
            response.headers[hdrs.WWW_AUTHENTICATE] = "Bearer"
            response.force_close()
            return response
        return await handler(request)

    return identify


def _of_unix(sock: socket.socket) -> Principal:
    """Return the principal at the other end of a Unix socket.

    The agent's own user and root are operators; other users are readers.
    """
    if not hasattr(socket, "SO_PEERCRED"):
        return LOOPBACK_READER
    _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid in (0, os.geteuid()):
        return Principal(f"uid {uid}", frozenset({Role.OPERATOR}), source="unix socket")
    return Principal(f"uid {uid}", frozenset({Role.READER}), source="unix socket")


def _loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
